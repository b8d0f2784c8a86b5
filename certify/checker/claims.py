"""One function a kind of claim: its words must follow from its parameters, its numbers from the checker's own."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from flint import ctx

from certify.checker import counts, stage
from certify.checker.adjoint import Adjoint
from certify.checker.curvature import Centre
from certify.checker.digits import require_digits
from certify.checker.document import (
    Beyond,
    Claim,
    Finding,
    Rejected,
    agrees,
    binary64,
    number,
    proved,
    require_shape,
    require_upper,
)
from certify.checker.emulation import emulate, exact
from certify.checker.formats import format_named
from certify.checker.kernels import values_of
from certify.checker.majorant import majorant
from certify.checker.reasons import require_reason
from certify.checker.setting import POINT, Setting

if TYPE_CHECKING:
    from certify.checker.context import Context

DOC = "docs/theory/rounding.md"


def check_exactness(claim: Claim, context: Context) -> Finding:
    """The block in exact arithmetic against the matrix-power update, of which it shares no step."""
    k = claim["parameters"].get("state")
    state = context.state(k)
    block = f"In exact arithmetic the block returns the W of the matrix-power update at {context.where(k)}"
    words = {"statement": f"{block}: the difference is 0.", "theorem": "docs/theory/polyprox.md#exactness"}
    agrees(claim, context, id="exactness/point", semantics="real", parameters=("state", "region"), **words)
    if claim["parameters"]["region"] != POINT or claim["verdict"] != "certified":
        raise Rejected("exactness is certified at a point")
    if state.N > 64:
        raise Beyond(f"N = {state.N} is too large for exact arithmetic here")
    program = context.program(state)
    with ctx.workprec(1 << 18):
        pairs = list(zip(exact(program, values_of(program, state), "W"), Centre(state).update(), strict=True))
        if any(a != b for a, b in pairs):
            raise Rejected("the exact values differ")
        if not all(a == b for a, b in pairs):  # balls are equal only if their radius is 0
            raise Beyond("the exact values are too long for this checker")
    return proved(claim)


def check_rounding(claim: Claim, context: Context) -> Finding:
    """Bounds of the error of each output: true, whatever their method, if running bounds are not larger; else it counts."""
    s, method = Setting(claim, context), claim["parameters"].get("method")
    if method not in ("running", "majorant", "adjoint") or claim["verdict"] != "certified":
        raise Rejected("a rounding claim is certified, by the method running, majorant or adjoint")
    each = "each output X within eps_X (Frobenius norm) of the exact kernel"
    both = "W within eps_W (Frobenius norm) and alpha within eps_alpha of the exact update"
    returned = f"{s.what} in {s.format.name}, inputs converted first, returns {each if s.of_kernel else both}"
    names = {f"eps_{name}": name for name in s.program.outputs}
    words = {"statement": f"{s.everywhere}, {returned} of those inputs.", "assumptions": s.assumptions}
    words["semantics"] = s.semantics
    id, theorem = s.id + f"/{method}" * (method != "running") + s.suffix, f"{DOC}#{method}"
    theorem = "docs/theory/adjoint.md#adjoint" if method == "adjoint" else theorem
    agrees(claim, context, id=id, theorem=theorem, parameters=[*s.keys, "method"], bounds=names, **words)
    own = {bound: s.bounds().eps(name) for bound, name in names.items()}
    for bound, name in names.items():
        claimed = number(claim["bounds"][bound])
        if claimed < 0:
            raise Rejected(f"{bound} is negative, which no error is")
        if method != "running" and claimed < own[bound]:
            own[bound] = by_method(s, method, name)
            if method == "adjoint" and claimed < own[bound]:
                raise Beyond("the adjoint bounds of this checker, of the whole region at once, do not reach it")
        require_upper(claim, bound, own[bound])
    require_digits(claim, s.bounds(), {name: own[bound] for bound, name in names.items() if s.of_kernel or name == "W"})
    return proved(claim, **own)


def by_method(s: Setting, method: str, output: str) -> Fraction:
    """The majorant or adjoint bound of an output; what is common to all outputs is made once."""
    bounds = s.bounds()
    if method == "majorant":
        return bounds.eps(output, s.context.cached((method, id(bounds)), lambda: majorant(bounds)))
    found: Adjoint = s.context.cached((method, id(bounds)), lambda: Adjoint(bounds))
    eps: Fraction = s.context.cached((method, id(bounds), output), lambda: found.eps(output))
    return eps


def check_range(claim: Claim, context: Context) -> Finding:
    """No operation overflows, as every enclosure is finite; or one does, when the program runs from the witness."""
    s, refuted = Setting(claim, context), claim["verdict"] == "refuted"
    parts = "partial sums included" if s.of_kernel else "partial sums and the second pass included"
    statement = f"{s.everywhere}, no operation of {s.what} in {s.format.name} overflows, {parts}."
    words = {"statement": statement, "theorem": f"{DOC}#range", "assumptions": s.assumptions, "semantics": s.semantics}
    bounds = () if refuted else ("max_magnitude",)
    agrees(claim, context, id=s.id + s.suffix, parameters=[*s.keys, "limit"], bounds=bounds, **words)
    if binary64(claim["parameters"]["limit"]) != s.format.largest:
        raise Rejected(f"its limit is not the largest number of {s.format.name}")
    if not refuted:
        peak = Fraction(s.bounds().peak)
        require_upper(claim, "max_magnitude", peak)
        return proved(claim, max_magnitude=peak)
    witness = context.witness(claim)
    first = emulate(s.program, s.format, witnessed(witness, s))[1]
    place = None if first is None else s.program.place(first)
    if first is None or place != (witness["layer"], witness["register"]):
        raise Rejected(f"from its witness the first overflow is in {' '.join(place) if place else 'no place'}")
    require_reason(claim, s, first)
    return proved(claim)


def witnessed(witness: Any, s: Setting) -> list[float]:
    """The inputs from which a witness says that an operation overflows: the center moves within the ball."""
    place = {"layer": str, "register": str}
    require_shape(witness, place | ({"inputs": dict} if s.of_kernel else {"W": list}), "its witness")
    given = witness["inputs"] if s.of_kernel else {"W": witness["W"]}
    require_shape(given, {} if s.of_kernel and not s.radius else {s.center: list}, "its witness")
    values = values_of(s.program, s.subject)
    moved, distance = [binary64(text) for text in given.get(s.center, [])], Fraction(0)
    outside = set(range(len(moved))) - set(s.program.inputs[s.center])
    if given and (len(moved) != prod(s.program.shapes[s.center]) or any(moved[k] for k in outside)):
        raise Rejected("its witness does not have the size of the input, or an entry outside the mask")
    for at, (name, k) in enumerate((name, k) for name, support in s.program.inputs.items() for k in support):
        if name in given:
            distance += (Fraction(moved[k]) - Fraction(values[at])) ** 2
            values[at] = moved[k]
    if distance > Fraction(s.radius) ** 2:
        raise Rejected("its witness lies outside the region")
    return values


def check_enough(claim: Claim, context: Context) -> Finding:
    """The coarsest format in which every rounding and range claim of the report holds, with eps_W <= tol."""
    context.state(0)
    given, tol = claim["parameters"], binary64(claim["parameters"].get("tol"))
    counted = [
        c
        for c in context.claims.values()
        if c["kind"] in ("rounding", "range") and not c["id"].count("/majorant") + c["id"].count("/adjoint")
    ]
    names = dict.fromkeys(x for c in counted if [x := c["parameters"].get("format")] == c["id"].split("/")[1:2])
    known = [format_named(name) for name in names]
    ids = {f.name: [c["id"] for c in counted if c["parameters"].get("format") == f.name] for f in known}
    formats = [f.name for f in sorted(known, key=lambda f: (f.precision, f.emax, f.name))]
    format = given.get("format")
    update = f"at every state and ball of this report one update in {format} is proved to stay in range and to return W"
    within = f"within {tol!r} (Frobenius norm) of the exact update"
    statement = f"{format} is enough: {update} {within}; of {', '.join(formats)}, no coarser one is proved to be."
    words = {"id": f"precision/update/{tol!r}", "statement": statement, "theorem": f"{DOC}#running"}
    agrees(claim, context, parameters=("tol", "format", "formats", "claims"), **words)
    if given["formats"] != formats or format not in formats or claim["verdict"] != "certified":
        raise Rejected("its formats are not those of the claims of this report, coarse to fine")

    def holds(c: Claim) -> bool:
        small = c["kind"] == "range" or number(c["bounds"].get("eps_W", "0")) <= Fraction(tol)
        return bool(c["verdict"] == "certified" and small)

    def about(c: Claim) -> tuple[str, str]:
        return c["kind"], repr([c["parameters"].get(key) for key in ("state", "region")])

    for coarser in formats[: formats.index(format)]:
        if all(holds(context.claims[name]) for name in ids[coarser]):
            raise Rejected(f"{coarser}, which is coarser, is proved to be enough, too")
    regions = {about(c)[1] for c in counted} | {repr([k, POINT]) for k in range(context.states.count)}
    wanted = {(kind, region) for kind in ("rounding", "range") for region in regions}
    if given["claims"] != ids[format] or {about(context.claims[name]) for name in ids[format]} != wanted:
        raise Rejected(f"it does not rest on every rounding and range claim in {format}, at every state and ball")
    for name in ids[format]:
        if not holds(context.proved(name)):
            raise Rejected(f"{name} does not give W within {tol!r}")
    return proved(claim)


CHECKS: dict[str, Callable[[Claim, Any], Finding]] = {
    "exactness": check_exactness,
    "rounding": check_rounding,
    "range": check_range,
    "precision/update": check_enough,
    "contraction": stage.check_contraction,
    "updates": counts.check_updates,
    "precision": stage.check_precision,
}
