"""The certificates of the Poly-prox block: rounding and range in several formats, at a state and on a ball around it.

The theorems are in `certify.rounding`; here they are applied to the block and put into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.case import Options, Progress
from numpy.typing import NDArray

from certify.arithmetic import Format, format_named
from certify.arithmetic.directed import round_up, sqrt_up
from certify.certificate import Claim, Report, Verdict, decimal_up, to_hex
from certify.graph import Graph, Variable, trace
from certify.rounding import Bounds, Range, Region, ball, majorant, point, range_test, relu_branches, running
from certify.rounding.posterior import computed, error, exact
from certify.states import Saved, digest

from .block import block
from .state import State, saved_from, states_from
from .update import update_exact

DEFAULT_FORMATS = ("float16", "float32", "float64")
VARIABLES = ("W", "Sigma", "alpha", "rho", "gamma", "lam")
#: Exact rational evaluation grows fast with N: up to here it takes well under a second.
EXACT_P_MAX = 16


def graph_of(state: State, order: str | None = "serial") -> Graph:
    """The block's graph for states with this mask, b and capacity; their numbers do not enter."""
    return trace(block, {**state.inputs(), "W": Variable(state.W.shape, state.M)}, order=order)


def inputs_of(state: State) -> dict[str, Any]:
    """The variable inputs of `graph_of` at this state."""
    return {name: getattr(state, name) for name in VARIABLES}


@dataclass(frozen=True)
class _Setting:
    """One state with its graph, and the suffix that tells its claims from those of other states in the file."""

    state: State
    graph: Graph
    order: str
    suffix: str
    where: str

    def id(self, *parts: str) -> str:
        return "/".join(parts) + self.suffix


class PolyProx:
    """The case: see `certify.cases.Case`."""

    name = "polyprox"
    title = "the Poly-prox block (one step of causal structure learning as a linear-attention transformer)"

    def certify(self, saved: Saved, options: Options, progress: Progress) -> Report:
        """Rounding and range claims for each state of the file, in each format, at the state and on the ball."""
        states = states_from(saved)
        formats = [format_named(name) for name in options.formats or DEFAULT_FORMATS]
        claims: list[Claim] = []
        total = len(states) * (len(formats) + 1)
        for k, state in enumerate(states):
            suffix, where = (f"/state={k}", f"state {k}") if len(states) > 1 else ("", "the state")
            setting = _Setting(state, graph_of(state, options.order), options.order, suffix, where)
            progress(k * (len(formats) + 1), total, f"{where}: exact update")
            reference = _Reference.of(setting, options)
            claims += _exactness(setting, reference)
            for j, format in enumerate(formats):
                progress(k * (len(formats) + 1) + j + 1, total, f"{where}: {format.name}")
                claims += _claims(setting, format, options, reference)
        progress(total, total, "done")
        return Report(producer(), subject(saved, states), claims, _required(claims, formats, options))

    def demo(self, progress: Progress) -> tuple[Saved, str]:
        """Three stage states of the reference solver on the embedded cytometry data."""
        from .sachs import covariance
        from .solver import solve, stage_states

        progress(0, 1, "solving")
        Sigma, names = covariance()
        solution = solve(Sigma, p_max=16)
        sentence = (
            f"Sachs cytometry data, {len(names)} phosphoproteins: {solution.accepted} accepted steps of the reference "
            f"solver, h = {solution.h:.1e}; an early, a middle and a late stage"
        )
        return saved_from(stage_states(solution, 3)), sentence

    def solve(self, data: Any, names: Sequence[str], options: dict[str, Any], progress: Progress) -> tuple[Saved, str]:
        """The reference solver on a data matrix (m, p), centred; captures stage states."""
        from .solver import solve, stage_states

        X = np.asarray(data, dtype=np.float64)
        X = X - X.mean(axis=0)
        Sigma = X.T @ X / len(X)
        Sigma = (Sigma + Sigma.T) / 2
        progress(0, 1, "solving")
        solution = solve(Sigma, lam=options["lam"], p_max=options["p_max"])
        states = stage_states(solution, options["count"])
        return saved_from(states), (
            f"{solution.accepted} accepted steps in {len(solution.stages)} stages, h = {solution.h:.1e}, "
            f"{len(solution.edges())} edges; {len(states)} stage states captured"
        )


CASE = PolyProx()


def producer() -> dict[str, Any]:
    """Who made a report: name, version and the arithmetic's self-test."""
    from certify.arithmetic.selftest import selftest
    from certify.version import __version__

    return {"name": "certify", "version": __version__, "arithmetic": selftest()}


def subject(saved: Saved, states: Sequence[State]) -> dict[str, Any]:
    """What a report is about: sizes, digests of the file's tensors, and the controls as exact numbers."""
    tensors = {name: digest(array) for name, array in sorted(saved.tensors.items()) if array.ndim}
    first = states[0]
    controls = {
        name: to_hex(float(getattr(first, name)))
        for name in ("alpha", "rho", "gamma", "lam", "b")
        if name not in tensors
    }
    several = {"states": len(states)} if len(states) > 1 else {}
    sizes = {"p": first.p, "p_max": first.p_max}
    return {"case": "polyprox", **sizes, **several, "tensors": tensors, "controls": controls}


@dataclass(frozen=True)
class _Reference:
    """Exact updates: at the state, and at the sampled states of the ball (none for large blocks)."""

    W: NDArray[Any] | None
    alpha: Fraction | None
    samples: tuple[tuple[NDArray[np.float64], NDArray[Any], Fraction], ...]

    @classmethod
    def of(cls, setting: _Setting, options: Options) -> _Reference:
        state = setting.state
        if state.p_max > EXACT_P_MAX:
            return cls(None, None, ())
        at = update_exact(state)
        samples = []
        if options.radius > 0:
            rng = np.random.default_rng(0)
            for _ in range(options.samples):
                step = rng.standard_normal(state.W.shape) * state.M
                length = np.linalg.norm(step)
                # a hair inside the ball, so that rounding keeps the sample in it
                W = state.W + step * (0.999 * options.radius / length if length else 0.0)
                moved = update_exact(state, W=W)
                samples.append((W, np.array(moved.W, dtype=object), moved.alpha))
        return cls(np.array(at.W, dtype=object), at.alpha, tuple(samples))


def _exactness(setting: _Setting, reference: _Reference) -> list[Claim]:
    """In exact arithmetic the block is the update: compared as rationals, at the state."""
    if reference.W is None:
        return []
    difference = exact(setting.graph, inputs_of(setting.state), "W") - reference.W
    same = not np.any(difference != 0)
    return [
        Claim(
            id=setting.id("exactness", "point"),
            kind="exactness",
            statement=f"In exact arithmetic the block returns the W of the matrix-power update at {setting.where}: "
            "the difference is 0.",
            semantics="real",
            parameters={"region": {"kind": "point"}},
            verdict=Verdict.CERTIFIED if same else Verdict.REFUTED,
            reason="" if same else "the exact values differ",
            theorem="docs/theory/polyprox.md#exactness",
        )
    ]


def _claims(setting: _Setting, format: Format, options: Options, reference: _Reference) -> list[Claim]:
    inputs = inputs_of(setting.state)
    regions: list[tuple[str, Region]] = [("point", point(inputs))]
    if options.radius > 0:
        regions.append(("ball", ball(inputs, "W", options.radius)))
    claims = []
    for kind, region in regions:
        bounds = running(setting.graph, format, region)
        tested = range_test(bounds, region)
        where: dict[str, Any] = {"kind": kind} | ({"radius": to_hex(options.radius)} if kind == "ball" else {})
        parameters = {"format": format.name, "order": setting.order, "region": where}
        observed = _observed(setting, format, kind, reference)
        claims += [
            _rounding(setting, format, parameters, bounds, tested, observed, reference),
            _majorant(setting, format, parameters, region, tested),
            _range(setting, format, parameters, tested),
        ]
    return claims


def _rounding(
    setting: _Setting,
    format: Format,
    parameters: dict[str, Any],
    bounds: Bounds,
    tested: Range,
    observed: dict[str, Any],
    reference: _Reference,
) -> Claim:
    kind = parameters["region"]["kind"]
    proved = tested.node is None
    eps = {"eps_W": bounds.norm_of("W"), "eps_alpha": bounds.norm_of("alpha")} if proved else {}
    if proved:
        branches = relu_branches(bounds)
        observed = observed | {
            "relu_active": branches.active,
            "relu_inactive": branches.inactive,
            "relu_undecided": branches.undecided,
        }
    display = {name: decimal_up(value) for name, value in eps.items()}
    if proved and kind == "point" and reference.W is not None:
        display |= _digits(bounds, reference.W)
    return Claim(
        id=setting.id("rounding", format.name, setting.order, kind),
        kind="rounding",
        statement=f"{_everywhere(setting, parameters)}, one update in {format.name}, inputs converted first, returns W "
        "within eps_W (Frobenius norm) and alpha within eps_alpha of the exact update of those inputs.",
        semantics="program",
        parameters={**parameters, "method": "running"},
        verdict=Verdict.CERTIFIED if proved else Verdict.UNDECIDED,
        reason="" if proved else f"an overflow is not excluded: {tested.place}",
        bounds={name: to_hex(value) for name, value in eps.items()},
        observed=observed,
        assumptions=_assumptions(format, setting.order),
        theorem="docs/theory/rounding.md#running",
        display=display,
    )


def _majorant(setting: _Setting, format: Format, parameters: dict[str, Any], region: Region, tested: Range) -> Claim:
    kind = parameters["region"]["kind"]
    bounds = majorant(setting.graph, format, region)
    eps = {"eps_W": bounds.norm_of("W"), "eps_alpha": bounds.norm_of("alpha")}
    proved = tested.node is None and all(np.isfinite(value) for value in eps.values())
    return Claim(
        id=setting.id("rounding", format.name, setting.order, kind, "majorant"),
        kind="rounding",
        statement=f"{_everywhere(setting, parameters)}, one update in {format.name}, inputs converted first, returns W "
        "within eps_W (Frobenius norm) and alpha within eps_alpha of the exact update: the paper's rules.",
        semantics="program",
        parameters={**parameters, "method": "majorant"},
        verdict=Verdict.CERTIFIED if proved else Verdict.UNDECIDED,
        reason="" if proved else f"an overflow is not excluded: {tested.place or 'the bound is infinite'}",
        bounds={name: to_hex(value) for name, value in eps.items()} if proved else {},
        assumptions=_assumptions(format, setting.order),
        theorem="docs/theory/rounding.md#majorant",
        display={name: decimal_up(value) for name, value in eps.items()} if proved else {},
    )


def _range(setting: _Setting, format: Format, parameters: dict[str, Any], tested: Range) -> Claim:
    kind = parameters["region"]["kind"]
    if tested.node is None:
        verdict, reason = Verdict.CERTIFIED, ""
    elif tested.witness is not None:
        verdict, reason = Verdict.REFUTED, f"{tested.place} overflows"
    else:
        verdict, reason = Verdict.UNDECIDED, f"{tested.place} may overflow: its enclosure reaches {format.largest:g}"
    witness = None
    if tested.witness is not None:
        witness = {"node": tested.place, "W": [to_hex(float(x)) for x in np.ravel(tested.witness["W"])]}
    return Claim(
        id=setting.id("range", format.name, setting.order, kind),
        kind="range",
        statement=f"{_everywhere(setting, parameters)}, no operation of one update in {format.name} overflows, "
        "partial sums and the second pass included.",
        semantics="program",
        parameters={**parameters, "limit": to_hex(format.largest)},
        verdict=verdict,
        reason=reason,
        bounds={"max_magnitude": to_hex(tested.max_magnitude)} if tested.node is None else {},
        assumptions=_assumptions(format, setting.order),
        theorem="docs/theory/rounding.md#range",
        witness=witness,
        display={"max_magnitude": decimal_up(tested.max_magnitude)} if tested.node is None else {},
    )


def _everywhere(setting: _Setting, parameters: dict[str, Any]) -> str:
    if parameters["region"]["kind"] == "point":
        return f"At {setting.where}"
    radius = float.fromhex(parameters["region"]["radius"])
    return f"For every W with the mask M within Frobenius distance {radius:g} of that of {setting.where}"


def _assumptions(format: Format, order: str) -> list[str]:
    return [
        f"{format.name}: precision {format.precision}, exponents {format.emin} to {format.emax}, with subnormals",
        "every operation rounds to nearest, ties to even",
        f"sums are evaluated in the order {order}, without fused multiply-add",
        "the stored binary64 inputs are converted to the format by one rounding to nearest",
    ]


def _observed(setting: _Setting, format: Format, kind: str, reference: _Reference) -> dict[str, Any]:
    """The error itself at the state (exact), or the largest over the sampled states; absent where floats overflow."""
    if reference.W is None or reference.alpha is None:
        return {}
    inputs = inputs_of(setting.state)
    trials = [(setting.state.W, reference.W, reference.alpha)] if kind == "point" else reference.samples
    errors_W, errors_alpha = [], []
    for W, exact_W, exact_alpha in trials:
        floats = [computed(setting.graph, format, {**inputs, "W": W}, name) for name in ("W", "alpha")]
        if not all(np.isfinite(x).all() for x in floats):
            return {}
        errors_W.append(_norm(error(floats[0], exact_W)))
        errors_alpha.append(round_up(error(floats[1], np.array(exact_alpha, dtype=object)).item()))
    if not errors_W:
        return {}
    count = {} if kind == "point" else {"samples": len(trials)}
    return {"error_W": to_hex(max(errors_W)), "error_alpha": to_hex(max(errors_alpha)), **count}


def _norm(errors: NDArray[Any]) -> float:
    return sqrt_up(sum((x * x for x in errors.ravel().tolist()), Fraction(0)))


def _digits(bounds: Bounds, exact_W: NDArray[Any]) -> dict[str, str]:
    """Decimal digits of W that the bound leaves: of its norm, and of its worst nonzero entry."""
    W = np.abs(exact_W.astype(np.float64))
    errors = bounds.error_of("W")
    nonzero = W > 0
    if not nonzero.any():
        return {}
    with np.errstate(divide="ignore"):
        norm = np.log10(np.linalg.norm(W)) - np.log10(bounds.norm_of("W"))
        worst = np.min(np.log10(W[nonzero]) - np.log10(errors[nonzero]))
    return {"digits_norm": _floor(norm), "digits_worst": _floor(worst)}


def _floor(digits: float) -> str:
    return "exact" if np.isposinf(digits) else f"{max(np.floor(digits * 10) / 10, 0.0):.1f}"


def _required(claims: Iterable[Claim], formats: Sequence[Format], options: Options) -> list[str] | None:
    """The claims that the verdict rests on: of every format asked for, else of the coarsest one that is enough."""
    mine = [c for c in claims if c.kind in ("rounding", "range") and c.parameters.get("method") != "majorant"]
    if options.formats:
        return [c.id for c in mine]
    for format in formats:
        of_format = [c for c in mine if c.parameters["format"] == format.name]
        within = all(float.fromhex(c.bounds["eps_W"]) <= options.tol for c in of_format if "eps_W" in c.bounds)
        if within and all(c.verdict is Verdict.CERTIFIED for c in of_format):
            return [c.id for c in of_format]
    return None
