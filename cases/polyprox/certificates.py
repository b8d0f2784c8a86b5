"""The certificates of the Poly-prox block: rounding and range in several formats, at a state and on a ball around it.

The theorems are in `certify.rounding`; here they are applied to the block and put into words.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from certify.cases.case import Options
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.arithmetic.directed import norm_up, relaxed_up, round_up
from certify.certificate import Claim, Verdict, decimal_up, to_hex
from certify.graph import Graph, Variable, trace
from certify.rounding import Bounds, Range, Region, ball, majorant, point, range_test, relu_branches, running
from certify.rounding.posterior import computed, error, exact

from .block import block
from .state import State
from .update import update_exact

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
class _Exact:
    """A state of the region with its exact update."""

    W: NDArray[np.float64]
    next_W: NDArray[Any]
    next_alpha: Fraction


class Certifier:
    """Makes the claims about one state.

    Parameters
    ----------
    state : the state.
    options : radius, order and number of samples.
    index : which state of its file it is.
    where : what a statement calls the state.
    suffix : added to claim ids, to tell the states of one file apart.
    """

    def __init__(
        self, state: State, options: Options, index: int = 0, where: str = "the state", suffix: str = ""
    ) -> None:
        self.state = state
        self.options = options
        self.index = index
        self.where = where
        self.suffix = suffix
        self.graph = graph_of(state, options.order)
        self.inputs = inputs_of(state)

    def exactness(self) -> list[Claim]:
        """In exact arithmetic the block is the update, compared as rationals; nothing for large blocks."""
        if self._at_state is None:
            return []
        difference = exact(self.graph, self.inputs, "W") - self._at_state.next_W
        same = not np.any(difference != 0)
        return [
            Claim(
                id="exactness/point" + self.suffix,
                kind="exactness",
                statement=f"In exact arithmetic the block returns the W of the matrix-power update at {self.where}: "
                "the difference is 0.",
                semantics="real",
                parameters={"state": self.index, "region": {"kind": "point"}},
                verdict=Verdict.CERTIFIED if same else Verdict.REFUTED,
                reason="" if same else "the exact values differ",
                theorem="docs/theory/polyprox.md#exactness",
            )
        ]

    def rounding_and_range(self, format: Format) -> list[Claim]:
        """Three claims at the state, and three on the ball if the radius is positive."""
        claims = self._claims(format, {"kind": "point"}, point(self.inputs))
        radius = self.options.radius
        if radius != 0:  # `ball` refuses what is no radius
            region = ball(self.inputs, "W", radius)
            where = {"kind": "ball", "radius": to_hex(radius)}
            claims += self._claims(format, where, region)
        return claims

    def _claims(self, format: Format, where: dict[str, str], region: Region) -> list[Claim]:
        bounds = running(self.graph, format, region)
        tested = range_test(bounds, region)
        coarse = majorant(self.graph, format, region)
        observed = self._observed(format, where["kind"])
        display: dict[str, str] = {}
        if tested.node is None:
            branches = relu_branches(bounds)
            observed |= {f"relu_{side}": getattr(branches, side) for side in ("active", "inactive", "undecided")}
            if where["kind"] == "point" and self._at_state is not None:
                display = _digits(bounds, self._at_state.next_W)
        return [
            self._rounding(format, where, tested, bounds, "running", observed, display),
            self._rounding(format, where, tested, coarse, "majorant", {}, {}),
            self._range(format, where, tested),
        ]

    def _rounding(
        self,
        format: Format,
        where: dict[str, str],
        tested: Range,
        bounds: Bounds,
        method: str,
        observed: dict[str, Any],
        display: dict[str, str],
    ) -> Claim:
        names = {"eps_W": "W", "eps_alpha": "alpha"} if tested.node is None else {}
        eps = {name: relaxed_up(bounds.norm_of(output)) for name, output in names.items()}
        proved = bool(eps) and all(np.isfinite(value) for value in eps.values())
        rules = "" if method == "running" else " By the paper's majorant rules."
        shown = {name: decimal_up(value) for name, value in eps.items()} if proved else {}
        return Claim(
            id=self._id("rounding", format, where) + ("" if method == "running" else f"/{method}") + self.suffix,
            kind="rounding",
            statement=f"{self._everywhere(where)}, one update in {format.name}, inputs converted first, returns W "
            f"within eps_W (Frobenius norm) and alpha within eps_alpha of the exact update of those inputs.{rules}",
            semantics="program",
            parameters={**self._parameters(format, where), "method": method},
            verdict=Verdict.CERTIFIED if proved else Verdict.UNDECIDED,
            reason="" if proved else f"an overflow is not excluded: {tested.place or 'the bound is infinite'}",
            bounds={name: to_hex(value) for name, value in eps.items()} if proved else {},
            observed=observed,
            assumptions=self._assumptions(format),
            theorem=f"docs/theory/rounding.md#{method}",
            display=shown | display,
        )

    def _range(self, format: Format, where: dict[str, str], tested: Range) -> Claim:
        proved = tested.node is None
        verdict, reason, witness = Verdict.CERTIFIED, "", None
        if tested.witness is not None:
            verdict, reason = Verdict.REFUTED, f"{tested.place} overflows"
            at = self._place(tested.node)
            witness = {**at, "W": [to_hex(float(x)) for x in np.ravel(tested.witness["W"])]}
        elif not proved:
            verdict, reason = Verdict.UNDECIDED, f"{tested.place} may overflow: its enclosure passes {format.largest:g}"
        return Claim(
            id=self._id("range", format, where) + self.suffix,
            kind="range",
            statement=f"{self._everywhere(where)}, no operation of one update in {format.name} overflows, partial sums "
            "and the second pass included.",
            semantics="program",
            parameters={**self._parameters(format, where), "limit": to_hex(format.largest)},
            verdict=verdict,
            reason=reason,
            bounds={"max_magnitude": to_hex(tested.max_magnitude)} if proved else {},
            observed={} if proved else {"first_risk": tested.place},
            assumptions=self._assumptions(format),
            theorem="docs/theory/rounding.md#range",
            witness=witness,
            display={"max_magnitude": decimal_up(tested.max_magnitude)} if proved else {},
        )

    def _id(self, kind: str, format: Format, where: dict[str, str]) -> str:
        return f"{kind}/{format.name}/{self.options.order}/{where['kind']}"

    def _parameters(self, format: Format, where: dict[str, str]) -> dict[str, Any]:
        return {"state": self.index, "format": format.name, "order": self.options.order, "region": where}

    def _place(self, node: int | None) -> dict[str, str]:
        """Layer and register of a node; no layer for an input, whose name is the register."""
        assert node is not None
        place = self.graph.place_of(node)
        if place is not None:
            return {"layer": place.layer, "register": place.register}
        name = next(block.name for block in self.graph.inputs if block.start <= node < block.stop)
        return {"layer": "", "register": name}

    def _everywhere(self, where: dict[str, str]) -> str:
        if where["kind"] == "point":
            return f"At {self.where}"
        radius = float.fromhex(where["radius"])
        return f"For every W with the mask M within Frobenius distance {radius!r} of that of {self.where}"

    def _assumptions(self, format: Format) -> list[str]:
        return [
            f"{format.name}: precision {format.precision}, exponents {format.emin} to {format.emax}, with subnormals",
            "every operation rounds to nearest, ties to even",
            f"sums are evaluated in the order {self.options.order}, without fused multiply-add",
            "the stored binary64 inputs are converted to the format by one rounding to nearest",
        ]

    def _observed(self, format: Format, kind: str) -> dict[str, Any]:
        """The error itself at the state, or the largest over sampled states of the ball; nothing if floats overflow."""
        trials = ([] if self._at_state is None else [self._at_state]) if kind == "point" else self._in_ball
        errors: dict[str, list[float]] = {"error_W": [], "error_alpha": []}
        for trial in trials:
            inputs = {**self.inputs, "W": trial.W}
            W, alpha = (computed(self.graph, format, inputs, name) for name in ("W", "alpha"))
            if not (np.isfinite(W).all() and np.isfinite(alpha)):
                return {}
            entries = [round_up(x) for x in error(W, trial.next_W).ravel().tolist()]
            errors["error_W"].append(norm_up(np.array(entries)))
            errors["error_alpha"].append(round_up(abs(Fraction(float(alpha)) - trial.next_alpha)))
        if not trials:
            return {}
        worst: dict[str, Any] = {name: to_hex(max(values)) for name, values in errors.items()}
        return worst if kind == "point" else worst | {"samples": len(trials)}

    @cached_property
    def _at_state(self) -> _Exact | None:
        return self._exact(self.state.W) if self.state.p_max <= EXACT_P_MAX else None

    @cached_property
    def _in_ball(self) -> list[_Exact]:
        if self.state.p_max > EXACT_P_MAX:
            return []
        rng = np.random.default_rng(0)
        trials = []
        for _ in range(self.options.samples):
            step = rng.standard_normal(self.state.W.shape) * self.state.M
            length = float(np.linalg.norm(step)) or 1.0
            # a hair inside the ball, so that rounding keeps the sample in it
            trials.append(self._exact(self.state.W + step * (0.999 * self.options.radius / length)))
        return trials

    def _exact(self, W: NDArray[np.float64]) -> _Exact:
        update = update_exact(self.state, W=W)
        return _Exact(W, np.array(update.W, dtype=object), update.alpha)


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
