"""Rounding over depth: how far many layers in a format are from as many exact ones (C5).

If a layer brings two points apart by at most the factor q (README.md#non-expansive: q = max(1, C1 C2 diam^2 / 4 - 1)), then the
distance of the computed iterate from the exact one obeys off_{t+1} <= q off_t + e_t, where e_t bounds the rounding errors of
one layer for every theta within off_t of the exact iterate. Where q = 1, the local errors add.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
from certify.cases.kernels import CaseKernel
from certify.cases.ngd.balls import upper
from certify.cases.ngd.margins import BITS, follow, growth
from certify.cases.ngd.state import Context, rational
from certify.cases.programs import semantics_of
from flint import ctx

from certify.arithmetic import Format
from certify.arithmetic.directed import relaxed_up, round_down, round_up
from certify.certificate import Claim, Verdict, decimal_up, to_hex
from certify.rounding import Region, running


def depth_claims(context: Context, kernel: CaseKernel, format: Format, local: Claim) -> list[Claim]:
    """The claim for all layers of a context in one format; if it fails, also for the largest power of 2 layers that holds.

    `local` is the claim about one layer, whose assumptions these share.
    """
    off, reason = _errors(context, kernel, format)
    claims = [_claim(context, kernel, format, local, context.layers, off, reason)]
    if reason and off:
        layers = 1 << (len(off).bit_length() - 1)
        claims.append(_claim(context, kernel, format, local, layers, off[:layers], ""))
    return claims


def _errors(context: Context, kernel: CaseKernel, format: Format) -> tuple[list[Fraction], str]:
    """Bounds of the errors after 1, 2, ... layers, and why there are fewer than layers, if so."""
    traced, factor = kernel.traced, growth(context)
    start = [rational(x) for x in traced.inputs["theta"].tolist()]
    found: list[Fraction] = []
    off = Fraction(0)
    with ctx.workprec(BITS):
        for theta, uncertain, _ in islice(follow(context, start), context.layers):
            region = _around(traced.inputs["Z"], [theta[k, 0] for k in range(context.d)], off + uncertain)
            bounds = running(traced.graph, format, region, libm=kernel.libm)
            risk = bounds.first_overflow()
            if risk is not None:
                return found, f"in layer {len(found) + 1} nothing is proved of {bounds.describe(risk)}"
            off = Fraction(round_up(factor * off + Fraction(float(bounds.norm_of("0")))))
            found.append(off)
    return found, ""


def _claim(
    context: Context, kernel: CaseKernel, format: Format, local: Claim, layers: int, off: list[Fraction], reason: str
) -> Claim:
    statement = (
        f"From the start of context {context.name}, {layers} layers of the kernel {kernel.name} in {format.name}, each "
        "applied to what the one before it returned, return theta within a distance from `low` to `high` (Euclidean) of the "
        "exact layers."
    )
    order = kernel.traced.graph.order or "serial"
    common: dict[str, Any] = {
        "id": f"enclosure/depth/{format.name}/{order}/L={layers}/kernel={kernel.name}",
        "kind": "enclosure",
        "statement": statement,
        "semantics": semantics_of(order),
        "parameters": {
            "context": context.name,
            "layers": layers,
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
    high, factor = relaxed_up(float(off[-1])), growth(context)
    shown = "local errors add" if factor == 1 else f"local errors grow by at most {decimal_up(factor)} a layer"
    return Claim(
        **common,
        verdict=Verdict.CERTIFIED,
        reason=shown,
        bounds={"low": "0", "high": to_hex(high)},
        display={"high": decimal_up(high)},
    )


def _around(Z: Any, theta: list[Any], off: Fraction) -> Region:
    """The box of all theta within `off` of an exact point, beside the examples."""
    ends = [(round_down(-upper(-x) - off), round_up(upper(x) + off)) for x in theta]
    lower, upper_ends = (np.array([end[k] for end in ends]) for k in range(2))
    return Region({"Z": Z, "theta": lower}, {"Z": Z, "theta": upper_ends}, filled=False)
