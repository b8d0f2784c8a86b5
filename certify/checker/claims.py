"""The checks of exactness, rounding, range and precision of an update: words and numbers follow from the parameters."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

from flint import fmpz, fmpz_mat

from certify.checker import counts, stage
from certify.checker.context import Check, Claim, Context
from certify.checker.document import Beyond, Rejected, binary64, number
from certify.checker.finding import (
    Finding,
    program_assumptions,
    proved,
    require_id,
    require_names,
    require_text,
    require_upper,
    where,
)
from certify.checker.majorant import majorant
from certify.checker.program import exact, inputs_of
from certify.checker.rounding import FORMATS, Analysis, Format, emulate, running
from certify.checker.saved import State

DOC = "docs/theory/rounding.md"


def check_exactness(claim: Claim, context: Context) -> Finding:
    """The block in exact arithmetic against the matrix-power update, of which it shares no step."""
    k = claim["parameters"].get("state")
    state = context.state(k)
    require_id(claim, "exactness/point", k, context)
    require_text(
        claim,
        statement=f"In exact arithmetic the block returns the W of the matrix-power update at {where(context, k)}: the "
        "difference is 0.",
        semantics="real",
        theorem="docs/theory/polyprox.md#exactness",
        parameters=("state", "region"),
    )
    require_names(claim, set())
    if claim["parameters"]["region"] != {"kind": "point"} or claim["verdict"] != "certified":
        raise Rejected("exactness is certified at a point")
    if state.N > 64:
        raise Beyond(f"N = {state.N} is too large for exact arithmetic here")
    program = context.program(state)
    if exact(program, inputs_of(program, state), "W") != matrix_power_update(state):
        raise Rejected("the exact values differ")
    return proved(claim)


def matrix_power_update(state: State) -> list[Fraction]:
    """W+ = M * soft(W - gamma ((Sigma W - Sigma) + (alpha + rho h) H), gamma lam), row by row, exactly.

    Y = I + W * W / N, h = tr(Y**N) - p, H = 2 W * (Y**(N-1))^T (arXiv 2610.10395, Algorithm 1).
    """
    p, N = state.p, state.N
    W, Sigma = ([Fraction(x) for row in rows for x in row] for rows in (state.W, state.Sigma))
    Y = [w * w / N + (k % (p + 1) == 0) for k, w in enumerate(W)]
    scale = max(x.denominator for x in Y)
    power = fmpz_mat(p, p, [fmpz(int(x * scale)) for x in Y]) ** (N - 1)
    G = [Fraction(int(x), scale ** (N - 1)) for x in power.entries()]
    h = sum((G[i * p + j] * Y[j * p + i] for i in range(p) for j in range(p)), Fraction(-p))
    c = Fraction(state.alpha) + Fraction(state.rho) * h
    gamma, tau = Fraction(state.gamma), Fraction(state.gamma) * Fraction(state.lam)
    result = []
    for k in range(p * p):
        i, j = divmod(k, p)
        SW = sum((Sigma[i * p + m] * W[m * p + j] for m in range(p)), Fraction(0))
        v = W[k] - gamma * (SW - Sigma[k] + c * 2 * W[k] * G[j * p + i])
        result.append((max(v - tau, Fraction(0)) - max(-v - tau, Fraction(0))) * state.M[i][j])
    return result


class _Setting:
    """Format, order and region of a rounding or range claim, and what follows from them."""

    def __init__(self, claim: Claim, context: Context) -> None:
        given = self.given = claim["parameters"]
        if claim["id"].split("/")[1:3] != [given.get("format"), given.get("order")]:
            raise Rejected("its parameters belong to another id")
        if given["format"] not in FORMATS or given["order"] != "serial":
            raise Beyond(f"{given['format']} with {given['order']} sums has no model in this checker")
        self.format: Format = FORMATS[given["format"]]
        self.kernel = context.case == "kernel"
        self.k = None if self.kernel else given.get("state")
        if self.kernel:
            self.program = context.kernel
            self.values = inputs_of(self.program, {n: context.saved.tensors[n].values() for n in self.program.inputs})
        else:
            state = context.state(self.k)
            self.program = context.program(state)
            self.values = inputs_of(self.program, state)
        self._region(given.get("region"), context)
        self.keys = {"format", "order", "region"} | (set() if self.kernel else {"state"})

    def _region(self, region: Any, context: Context) -> None:
        here = "the inputs" if self.kernel else where(context, self.k or 0)
        self.radius, self.center, self.everywhere = 0.0, next(iter(self.program.inputs)), f"At {here}"
        if region == {"kind": "point"}:
            return
        names = {"kind", "radius", "center"} if self.kernel else {"kind", "radius"}
        if not isinstance(region, dict) or set(region) != names or region["kind"] != "ball":
            raise Rejected("its region is neither a point nor a ball")
        self.radius, self.center = binary64(region["radius"]), region.get("center", "W")
        if self.radius <= 0 or self.center not in list(self.program.inputs):
            raise Rejected("its region is no ball around an input")
        moved = self.center if self.kernel else "W with the mask M"
        self.everywhere = f"For every {moved} within Frobenius distance {self.radius!r} of that of {here}"

    def stem(self, kind: str) -> str:
        return f"{kind}/{self.format.name}/serial/{'ball' if self.radius else 'point'}"

    def analysis(self, method: Any, context: Context) -> Analysis:
        return context.analysis(method, self.program, self.format.name, self.values, self.center, self.radius)

    def assumptions(self) -> list[str]:
        user = ["the graph file is the user's kernel: the checker does not see its source"] if self.kernel else []
        return program_assumptions(self.format.name, "serial") + user


def check_rounding(claim: Claim, context: Context) -> Finding:
    """Bounds of the error of each output, by the running or the majorant theorem."""
    s = _Setting(claim, context)
    method = s.given.get("method")
    if method not in ("running", "majorant") or claim["verdict"] != "certified":
        raise Rejected("a rounding claim is certified, by the method running or majorant")
    rules = " By the paper's majorant rules." if method == "majorant" else ""
    result = (
        f"the kernel in {s.format.name}, inputs converted first, returns each output X within eps_X (Frobenius norm) of "
        "the exact kernel of those inputs."
        if s.kernel
        else f"one update in {s.format.name}, inputs converted first, returns W within eps_W (Frobenius norm) and alpha "
        "within eps_alpha of the exact update of those inputs."
    )
    require_id(claim, s.stem("rounding") + ("/majorant" if rules else ""), s.k, context)
    require_text(
        claim,
        statement=f"{s.everywhere}, {result}{rules}",
        semantics="program",
        theorem=f"{DOC}#{method}",
        assumptions=s.assumptions(),
        parameters=s.keys | {"method"},
    )
    outputs = list(s.program.outputs)
    require_names(claim, {f"eps_{name}" for name in outputs})
    analysis = s.analysis(running, context)
    if analysis.first is not None:
        raise Rejected(f"an overflow is not excluded in {' '.join(s.program.place(analysis.first))}")
    if rules:
        analysis = s.analysis(majorant, context)
    own = {f"eps_{name}": analysis.eps(name) for name in outputs}
    for name, eps in own.items():
        require_upper(claim, name, eps)
    return proved(claim, **own)


def check_range(claim: Claim, context: Context) -> Finding:
    """No operation overflows, as every enclosure is finite; or one does, when the program runs from the witness."""
    s = _Setting(claim, context)
    what = "the kernel" if s.kernel else "one update"
    parts = "partial sums included" if s.kernel else "partial sums and the second pass included"
    require_id(claim, s.stem("range"), s.k, context)
    require_text(
        claim,
        statement=f"{s.everywhere}, no operation of {what} in {s.format.name} overflows, {parts}.",
        semantics="program",
        theorem=f"{DOC}#range",
        assumptions=s.assumptions(),
        parameters=s.keys | {"limit"},
    )
    if binary64(s.given["limit"]) != s.format.largest:
        raise Rejected(f"its limit is not the largest number of {s.format.name}")
    if claim["verdict"] == "refuted":
        require_names(claim, set())
        return _refuted_range(claim, s)
    require_names(claim, {"max_magnitude"})
    analysis = s.analysis(running, context)
    if analysis.first is not None:
        raise Rejected(f"an overflow is not excluded in {' '.join(s.program.place(analysis.first))}")
    peak = Fraction(s.format.fl(analysis.peak))
    require_upper(claim, "max_magnitude", peak)
    return proved(claim, max_magnitude=peak)


def _refuted_range(claim: Claim, s: _Setting) -> Finding:
    """Replays the program from the witness, inputs of the region."""
    witness = claim["witness"] if isinstance(claim["witness"], dict) else {}
    given = witness.get("inputs") if s.kernel else {"W": witness.get("W")}
    if set(witness) != {"layer", "register", "inputs" if s.kernel else "W"} or not isinstance(given, dict):
        raise Rejected("its witness is not a place and inputs")
    if set(given) != (set() if s.kernel and not s.radius else {s.center}):
        raise Rejected("its witness does not give the inputs that vary")
    values, distance, at = list(s.values), Fraction(0), 0
    for name, support in s.program.inputs.items():
        if name in given:
            moved = _witnessed(given[name], prod(s.program.shapes[name]), support)
            distance = sum(
                ((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(moved, values[at:], strict=False)), Fraction(0)
            )
            values[at : at + len(support)] = moved
        at += len(support)
    if distance > Fraction(s.radius) ** 2:
        raise Rejected("its witness lies outside the region")
    first = emulate(s.program, s.format, values)[1]
    if first is None or s.program.place(first) != (witness["layer"], witness["register"]):
        found = (
            "no operation overflows"
            if first is None
            else f"the first overflow is in {' '.join(s.program.place(first))}"
        )
        raise Rejected(f"from its witness {found}")
    return proved(claim)


def _witnessed(texts: Any, size: int, support: list[int]) -> list[float]:
    """The entries on the support; the others are 0."""
    if not isinstance(texts, list) or len(texts) != size:
        raise Rejected(f"its witness does not have {size} numbers")
    entries = [binary64(text) for text in texts]
    if any(entries[k] for k in set(range(size)) - set(support)):
        raise Rejected("its witness has an entry outside the mask")
    return [entries[k] for k in support]


def check_enough(claim: Claim, context: Context) -> Finding:
    """The coarsest format in which every rounding and range claim of the report holds, with eps_W <= tol."""
    context.state(0)
    given, tol = claim["parameters"], binary64(claim["parameters"].get("tol"))
    counted = [c for c in context.claims.values() if c["kind"] in ("rounding", "range") and "/majorant" not in c["id"]]
    present = {c["parameters"].get("format") for c in counted} & set(FORMATS)
    formats = sorted(present, key=lambda name: (FORMATS[name].precision, name))
    format = given.get("format")
    listed = ", ".join(formats)
    require_id(claim, f"precision/update/{tol!r}", None, context)
    require_text(
        claim,
        statement=f"{format} is enough: at every state and ball of this report one update in {format} is proved to stay in "
        f"range and to return W within {tol!r} (Frobenius norm) of the exact update; of {listed}, no coarser one is proved "
        "to be.",
        semantics="program",
        theorem=f"{DOC}#running",
        parameters=("tol", "format", "formats", "claims"),
    )
    require_names(claim, set())
    if given["formats"] != formats or format not in formats or claim["verdict"] != "certified":
        raise Rejected("its formats are not those of the claims of this report, coarse to fine")

    def holds(c: Claim) -> bool:
        small = c["kind"] == "range" or number(c["bounds"].get("eps_W", "0")) <= Fraction(tol)
        return bool(c["verdict"] == "certified" and small)

    ids = {name: [c["id"] for c in counted if c["parameters"].get("format") == name] for name in formats}
    for coarser in formats[: formats.index(format)]:
        if all(holds(context.claims[name]) for name in ids[coarser]):
            raise Rejected(f"{coarser}, which is coarser, is proved to be enough, too")
    regions = {(c["parameters"].get("state"), repr(c["parameters"].get("region"))) for c in counted}
    regions |= {(k, repr({"kind": "point"})) for k in range(context.states.count)}
    wanted = {(kind, *region) for kind in ("rounding", "range") for region in regions}
    chosen = [context.claims[name] for name in ids[format]]
    mine = {(c["kind"], c["parameters"].get("state"), repr(c["parameters"].get("region"))) for c in chosen}
    if given["claims"] != ids[format] or mine != wanted:
        raise Rejected(f"it does not rest on every rounding and range claim in {format}, at every state and ball")
    for name in ids[format]:
        if not holds(context.proved(name)):
            raise Rejected(f"{name} does not give W within {tol!r}")
    return proved(claim)


CHECKS: dict[str, Check] = {
    "exactness": check_exactness,
    "rounding": check_rounding,
    "range": check_range,
    "precision/update": check_enough,
    "contraction": stage.check_contraction,
    "updates": counts.check_updates,
    "precision": stage.check_precision,
}


def examine(claim: Claim, context: Context) -> Finding:
    """The finding on one claim."""
    return context.examine(claim)
