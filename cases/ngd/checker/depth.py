"""Rounding over depth, proved again: local bounds around iterates of this checker's own."""

from __future__ import annotations

from fractions import Fraction
from math import inf, lcm, nextafter
from typing import Any

from certify.checker.cases.ngd.layers import Layer, exact
from certify.checker.cases.ngd.programs import require_layer
from certify.checker.cases.ngd.setting import THEOREM, Examples, examples, layers_of, require_certified, rows
from flint import arb, ctx, fmpq

from certify.checker.document import Beyond, Claim, Finding, Rejected, agrees, proved, require_upper
from certify.checker.kernels import values_of
from certify.checker.rounding import Running
from certify.checker.setting import POINT, Setting

_BITS, _MOST_LAYERS = 144, 2000


def check_depth(claim: Claim, context: Any) -> Finding:
    """Errors are at most q times those before, plus the rounding of one layer, layer by layer."""
    given = examples(context, claim["parameters"].get("context"))
    name = claim["parameters"].get("local")
    local = context.claims.get(name) if isinstance(name, str) else None
    if local is None or local["kind"] != "rounding" or local["parameters"].get("region") != POINT:
        raise Rejected("it rests on no rounding claim of its kernel at the state")
    setting = Setting(local, context)
    kernel, format, order = (local["parameters"].get(key) for key in ("kernel", "format", "order"))
    layers = layers_of(claim, given.layers)
    statement = (
        f"From the start of context {given.name}, {layers} layers of the kernel {kernel} in {format}, each "
        "applied to what the one before it returned, return theta within a distance from `low` to `high` (Euclidean) of the "
        "exact layers."
    )
    agrees(
        claim,
        context,
        id=f"enclosure/depth/{format}/{order}/L={layers}/kernel={kernel}",
        semantics=setting.semantics,
        parameters=("context", "layers", "format", "order", "kernel", "local"),
        bounds=("low", "high"),
        statement=statement,
        theorem=f"{THEOREM}non-expansive",
        assumptions=setting.assumptions,
    )
    require_certified(claim)
    named = {"context": given.name, "format": format, "order": order, "kernel": kernel}
    if any(claim["parameters"][key] != x for key, x in named.items()) or kernel != f"layer-{given.name}":
        raise Rejected("its parameters are not those of its context and kernel")
    if layers > _MOST_LAYERS:
        raise Beyond("so many layers are too much for this checker")
    require_kernel(setting, given, context)
    require_layer(setting.program, given, context)
    if claim["bounds"]["low"] != "0":
        raise Rejected("the least distance that is proved is 0")
    own = _off(setting, given, layers, [Fraction(x) for x in setting.subject.inputs["theta"]])
    require_upper(claim, "high", own)
    return proved(claim, high=own)


def require_kernel(setting: Setting, given: Examples, context: Any) -> None:
    """The inputs of the kernel are the examples and the start of the context, and its scalars are binary64 numbers."""
    inputs = setting.subject.inputs
    wanted = {
        "Z": [float(x) for row in given.Z for x in row],
        "theta": [float(x) for x in rows(context, f"start.{given.name}", "float64", 1)],
    }
    if inputs != wanted or setting.program.shapes["theta"] != (given.d,):
        raise Rejected("the inputs of the kernel are not those of the context")
    if any(Fraction(float(x)) != x for x in (given.C1, given.C2)):
        raise Rejected("C1 or C2 is no binary64 number, so the kernel computes another layer")


def growth(given: Examples) -> Fraction:
    """max(1, C1 C2 diam^2 / 4 - 1), with the largest distance of two examples in integers."""
    scale = lcm(*(x.denominator for row in given.Z for x in row))
    whole = [[int(x * scale) for x in row] for row in given.Z]
    widest = max(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a in whole for b in whole)
    return max(Fraction(1), given.C1 * given.C2 * Fraction(widest, 4 * scale**2) - 1)


def _off(setting: Setting, given: Examples, layers: int, start: list[Fraction]) -> Fraction:
    """A bound of the error after all layers, in which the exact iterates are enclosed around points."""
    factor, program = growth(given), setting.program
    names = [name for name, support in program.inputs.items() for _ in support]
    entries = [k for support in program.inputs.values() for k in support]
    values = values_of(program, setting.subject)
    off, unsure, at = Fraction(0), Fraction(0), start
    for _ in range(layers):
        reach = off + unsure
        ends = [(_down(x - reach), _up(x + reach)) for x in at]
        lower, upper = (
            [ends[k][side] if name == "theta" else x for name, k, x in zip(names, entries, values, strict=True)]
            for side in range(2)
        )
        bounds = Running(program, setting.format, lower, upper, setting.ulps)
        if bounds.first is not None:
            raise Rejected("an overflow is not excluded in one of its layers")
        off = Fraction(_up(factor * off + bounds.eps("0")))
        with ctx.workprec(_BITS):
            layer = Layer(given)
            theta = [arb(fmpq(x.numerator, x.denominator)) for x in at]
            after = [x + y for x, y in zip(theta, layer.attention(theta, given.n), strict=True)]
            at = [exact(x.mid()) for x in after]
            unsure = factor * unsure + sum((exact(x.rad()) for x in after), Fraction(0))
    return off


def _up(x: Fraction) -> float:
    """A binary64 number that is at least x."""
    near = float(x)
    return near if near >= x else nextafter(near, inf)


def _down(x: Fraction) -> float:
    return -_up(-x)
