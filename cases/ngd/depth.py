"""Rounding over depth: how far many layers in a format are from as many exact ones (C5).

If a layer brings two points apart by at most the factor q (README.md#non-expansive: q = max(1, C1 C2 diam^2 / 4 - 1)), then the
distance of the computed iterate from the exact one obeys off_{t+1} <= q off_t + e_t, where e_t bounds the rounding errors of one
layer for every theta within off_t of the exact iterate. Where q = 1, the local errors add.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.claims import semantics_of
from certify.cases.kernels import CaseKernel
from certify.cases.ngd.balls import upper
from certify.cases.ngd.margins import BITS, follow, growth
from certify.cases.ngd.state import Context, rational
from flint import ctx

from certify.arithmetic import Format
from certify.arithmetic.directed import relaxed_up, round_down, round_up
from certify.certificate import Claim, Verdict, decimal_up, to_hex
from certify.rounding import Region, running


def depth_claim(context: Context, kernel: CaseKernel, format: Format, local: Claim) -> Claim:
    """The claim for one format; `local` is the claim about one layer, whose assumptions it shares."""
    traced = kernel.traced
    start = [rational(x) for x in traced.inputs["theta"].tolist()]
    factor = growth(context)
    off, reason = Fraction(0), ""
    with ctx.workprec(BITS):
        iterates = follow(context, start)
        for layer in range(context.layers):
            theta, uncertain, _ = next(iterates)
            region = _around(traced.inputs["Z"], [theta[k, 0] for k in range(context.d)], off + uncertain)
            if region is None:
                reason = f"after {layer} layers the bound is not finite"
                break
            bounds = running(traced.graph, format, region, libm=kernel.libm)
            if bounds.first_overflow() is not None:
                reason = f"an overflow is not excluded in layer {layer + 1}"
                break
            off = Fraction(round_up(factor * off + Fraction(float(bounds.norm_of("0")))))
    statement = (
        f"From the start of context {context.name}, {context.layers} layers of the kernel {kernel.name} in {format.name}, each "
        "applied to what the one before it returned, return theta within a distance from `low` to `high` (Euclidean norm) of the exact layers."
    )
    order = traced.graph.order or "serial"
    common: dict[str, Any] = {
        "id": f"enclosure/depth/{format.name}/{order}/kernel={kernel.name}",
        "kind": "enclosure",
        "statement": statement,
        "semantics": semantics_of(order),
        "parameters": {
            "context": context.name,
            "layers": context.layers,
            "format": format.name,
            "order": order,
            "kernel": kernel.name,
            "local": local.id,
        },
        "assumptions": local.assumptions,
        "theorem": "cases/ngd/README.md#non-expansive",
    }
    if reason:
        return Claim(**common, verdict=Verdict.UNDECIDED, reason=reason)
    high = relaxed_up(float(off))
    shown = "local errors add" if factor == 1 else f"local errors grow by at most {decimal_up(factor)} a layer"
    return Claim(
        **common,
        verdict=Verdict.CERTIFIED,
        reason=shown,
        bounds={"low": "0", "high": to_hex(high)},
        display={"high": decimal_up(high)},
    )


def _around(Z: Any, theta: list[Any], off: Fraction) -> Region | None:
    """The box of all theta within `off` of an exact point, beside the examples."""
    ends = [(round_down(-upper(-x) - off), round_up(upper(x) + off)) for x in theta]
    lower, upper_ends = (np.array([end[k] for end in ends]) for k in range(2))
    if not (np.isfinite(lower).all() and np.isfinite(upper_ends).all()):
        return None
    return Region({"Z": Z, "theta": lower}, {"Z": Z, "theta": upper_ends}, filled=False)
