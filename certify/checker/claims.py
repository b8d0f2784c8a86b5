"""One function a kind of claim: its words must follow from its parameters, its numbers from the checker's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction
from math import inf, nextafter, prod
from typing import Any

from flint import ctx

from certify.checker import counts, stage
from certify.checker.adjoint import Adjoint
from certify.checker.curvature import Centre
from certify.checker.document import (
    SIDE_FILE,
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
    shown,
)
from certify.checker.emulation import emulate, exact
from certify.checker.formats import format_named, order_named
from certify.checker.program import Program, from_file, inputs_of, polyprox
from certify.checker.rounding import Running
from certify.checker.saved import Saved, State, States, rows_of
from certify.checker.setting import POINT, Setting

DOC = "docs/theory/rounding.md"


class Context:
    """What the claims of one report share: the states, or the inputs of a user's kernel; every analysis is made once."""

    def __init__(self, subject: Any, claims: dict[str, Claim], saved: Saved, files: Callable[[str], bytes]) -> None:
        self.claims, self.case, self.several, self.cache = claims, subject.get("case"), False, dict[Any, Any]()
        self.files = files
        self.findings: dict[str, Finding | None] = {}
        self.states: Any = None
        saved = saved.of(subject)
        if self.case == "polyprox":
            self.states = States(saved)
            self.states.require_subject(subject)
            self.several = self.states.count > 1
        elif self.case == "kernel":
            self.kernel = self._kernel(subject, saved, files)
            self.inputs = {name: saved.tensors[name].values() for name in self.kernel.inputs}
        else:
            raise (Beyond if isinstance(self.case, str) else Rejected)(
                f"the report is about the case {shown(self.case)}, unknown to this checker"
            )

    def _kernel(self, subject: Any, saved: Saved, files: Callable[[str], bytes]) -> Program:
        """The user's program, from the file that the subject names; its inputs are tensors of the state file."""
        keys = {"case": str, "kernel": str, "graph": dict, "tensors": dict}
        require_shape(subject, keys, "the subject of the report")
        require_shape(subject["graph"], SIDE_FILE, "the graph file of the subject")
        data, digests = files(subject["graph"]["file"]), {name: t.digest() for name, t in saved.tensors.items()}
        if hashlib.sha256(data).hexdigest() != subject["graph"]["sha256"] or subject["tensors"] != digests:
            raise Rejected("the graph or input file is not the one that the report names: its digest differs")
        program = from_file(data)
        if any(name not in saved.tensors or saved.tensors[name].shape != x for name, x in program.shapes.items()):
            raise Rejected("an input of the graph file is no tensor of its shape in the input file")
        return program

    def where(self, k: int) -> str:
        """What statements call state k."""
        return f"state {k}" if self.several else "the state"

    def state(self, k: Any) -> State:
        """State k of the file."""
        if self.states is None:
            raise Rejected("the report is about a kernel, which has no states")
        state: State = self.cached(("state", repr(k)), lambda: self.states.state(k))
        return state

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The object of this key, made once."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    def program(self, state: State | None, order: str = "serial") -> Program:
        """The block for the mask, b and capacity of a state, in an order; without a state, the kernel."""
        if state is None:
            return self.kernel
        key = ("program", str(state.M), state.b, state.N, order)
        program: Program = self.cached(key, lambda: polyprox(state.M, state.b, state.N, order_named(order)))
        return program

    def running(
        self,
        state: State | None,
        format: str,
        radius: float = 0.0,
        center: str = "W",
        order: str = "serial",
        ulps: Any = None,
    ) -> Running:
        """Bounds on the box around the ball of an input; the ends of the box lie one step beyond the rounded ones."""
        program = self.program(state, order)
        values = inputs_of(program, state or self.inputs)
        names = [name if radius else "" for name, support in program.inputs.items() for _ in support]
        lower, upper = (
            [nextafter(x + r, inf * r) if n == center else x for n, x in zip(names, values, strict=True)]
            for r in (-radius, radius)
        )
        key = ("running", id(program), format, tuple(lower), tuple(upper), str(ulps))
        bounds: Running = self.cached(key, lambda: Running(program, format_named(format), lower, upper, ulps))
        return bounds

    def witness(self, claim: Claim) -> dict[str, Any]:
        """The witness of a claim, with the arrays of the file that it may name in their places."""
        witness: dict[str, Any] = claim["witness"] or {}
        if "file" not in witness:
            return witness
        file, digest = (witness[key] for key in SIDE_FILE)
        if self.cached(("digest", file), lambda: hashlib.sha256(self.files(file)).hexdigest()) != digest:
            raise Rejected(f"its witness file {file} is not the one that the report names: its digest differs")
        rows: dict[str, Any] = self.cached(
            ("rows", file), lambda: rows_of(self.files(file), f"its witness file {file}")
        )
        if set(rows) & set(witness):
            raise Rejected(f"its witness and its witness file both hold {shown(sorted(set(rows) & set(witness))[0])}")
        return {key: x for key, x in witness.items() if key not in SIDE_FILE} | rows

    def proved(self, name: Any) -> Claim:
        """A certified claim of this report, after checking it."""
        claim = self.claims.get(name) if isinstance(name, str) else None
        if claim is None or claim["verdict"] != "certified":
            raise Rejected(f"it rests on {shown(name)}, which is no certified claim of this report")
        found = self.examine(claim).verdict
        if found != "certified":
            raise (Beyond if found == "undecided" else Rejected)(f"it rests on {name}, which is not proved again")
        return claim

    def examine(self, claim: Claim) -> Finding:
        """The finding on one claim, made once."""
        name, kind, verdict = claim["id"], claim["kind"], claim["verdict"]
        if name in self.findings:
            return self.findings[name] or Finding(name, kind, verdict, "rejected", "it rests on itself")
        self.findings[name] = None
        prove = CHECKS.get("precision/update" if name.startswith("precision/update/") else kind)
        try:
            if verdict == "undecided":
                raise Beyond("left undecided")
            if prove is None:
                raise Beyond(f"claims of the kind {kind} are unknown to this checker")
            found = prove(claim, self)
        except Beyond as error:
            found = Finding(name, kind, verdict, "undecided", str(error))
        except Rejected as error:
            found = Finding(name, kind, verdict, "rejected", str(error))
        self.findings[name] = found
        return found


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
        pairs = list(zip(exact(program, inputs_of(program, state), "W"), Centre(state).update(), strict=True))
        if any(a != b for a, b in pairs):
            raise Rejected("the exact values differ")
        if not all(a == b for a, b in pairs):  # balls are equal only if their radius is 0
            raise Beyond("the exact values are too long for this checker")
    return proved(claim)


def check_rounding(claim: Claim, context: Context) -> Finding:
    """Bounds of the error of each output. They are true, whatever their method, if the running bounds are not larger."""
    s, method = Setting(claim, context), claim["parameters"].get("method")
    if method not in ("running", "majorant", "adjoint") or claim["verdict"] != "certified":
        raise Rejected("a rounding claim is certified, by the method running, majorant or adjoint")
    each = "each output X within eps_X (Frobenius norm) of the exact kernel"
    both = "W within eps_W (Frobenius norm) and alpha within eps_alpha of the exact update"
    returned = f"{s.what} in {s.format.name}, inputs converted first, returns {each if s.kernel else both}"
    names = {f"eps_{name}": name for name in s.program.outputs}
    words = {"statement": f"{s.everywhere}, {returned} of those inputs.", "assumptions": s.assumptions}
    words["semantics"] = s.semantics
    id, theorem = s.id + f"/{method}" * (method != "running"), f"{DOC}#{method}"
    theorem = "docs/theory/adjoint.md#adjoint" if method == "adjoint" else theorem
    agrees(claim, context, id=id, theorem=theorem, parameters=[*s.keys, "method"], bounds=names, **words)
    own = {bound: s.bounds().eps(name) for bound, name in names.items()}
    for bound, eps in own.items():
        if method == "adjoint" and number(claim["bounds"][bound]) < eps:
            own[bound] = eps = sharper(s, names[bound])
            if number(claim["bounds"][bound]) < eps:
                raise Beyond("the adjoint bounds of this checker, of the whole region at once, do not reach it")
        require_upper(claim, bound, eps)
    return proved(claim, **own)


def sharper(s: Setting, output: str) -> Fraction:
    """The adjoint bound of an output; its sweep is made once."""
    bounds = s.bounds()
    found: Adjoint = s.context.cached(("adjoint", id(bounds)), lambda: Adjoint(bounds))
    eps: Fraction = s.context.cached(("adjoint", id(bounds), output), lambda: found.eps(output))
    return eps


def check_range(claim: Claim, context: Context) -> Finding:
    """No operation overflows, as every enclosure is finite; or one does, when the program runs from the witness."""
    s, refuted = Setting(claim, context), claim["verdict"] == "refuted"
    parts = "partial sums included" if s.kernel else "partial sums and the second pass included"
    statement = f"{s.everywhere}, no operation of {s.what} in {s.format.name} overflows, {parts}."
    words = {"statement": statement, "theorem": f"{DOC}#range", "assumptions": s.assumptions, "semantics": s.semantics}
    bounds = () if refuted else ("max_magnitude",)
    agrees(claim, context, id=s.id, parameters=[*s.keys, "limit"], bounds=bounds, **words)
    if binary64(claim["parameters"]["limit"]) != s.format.largest:
        raise Rejected(f"its limit is not the largest number of {s.format.name}")
    if not refuted:
        peak = Fraction(s.bounds().peak)
        require_upper(claim, "max_magnitude", peak)
        return proved(claim, max_magnitude=peak)
    witness = context.witness(claim)
    first = emulate(s.program, s.format, witnessed(witness, s))[1]
    place = None if first is None else s.program.place(first)
    if place != (witness["layer"], witness["register"]):
        raise Rejected(f"from its witness the first overflow is in {' '.join(place) if place else 'no place'}")
    return proved(claim)


def witnessed(witness: Any, s: Setting) -> list[float]:
    """The inputs from which a witness says that an operation overflows: the center moves within the ball."""
    place = {"layer": str, "register": str}
    require_shape(witness, place | ({"inputs": dict} if s.kernel else {"W": list}), "its witness")
    given = witness["inputs"] if s.kernel else {"W": witness["W"]}
    require_shape(given, {} if s.kernel and not s.radius else {s.center: list}, "its witness")
    values = inputs_of(s.program, s.state or s.context.inputs)
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
