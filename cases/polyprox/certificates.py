"""The certificates of the Poly-prox block: rounding and range in several formats, at a state and on a ball around it.

The theorems are in `certify.rounding`; here they are applied to the block and put into words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from certify.cases.case import Options
from certify.cases.claims import (
    Subject,
    Wording,
    analyse,
    ball_region,
    hex_values,
    point_region,
    program_claims,
)
from certify.cases.digits import digits_left, digits_shown
from certify.cases.probable import probable_claim
from certify.cases.programs import one_program
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.arithmetic.directed import norm_up, round_up
from certify.certificate import Claim, Verdict, to_hex
from certify.graph import Graph, Variable, trace
from certify.rounding import Bounds, Region, ball, point, relu_branches, running_batch
from certify.rounding.batch import computed_batch, states_together
from certify.rounding.posterior import error, exact
from certify.rounding.probable import confidence_of

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


class Batch:
    """What the states of one file share: their graph, since they have one mask, b and capacity, and bounds evaluated at once.

    Bounds are kept for the states evaluated together, so that memory does not grow with the number of states: ask for
    them in the order of the states.
    """

    def __init__(self, states: Sequence[State], options: Options) -> None:
        self.graph = graph_of(states[0], options.order)
        self._states = states
        self._radius = options.radius
        self._first = -1
        self._known: dict[tuple[Format, str], list[Bounds]] = {}

    def bounds(self, index: int, format: Format, kind: str) -> Bounds:
        """Running bounds at the state of that number (kind "point") or on the ball around it (kind "ball")."""
        together = states_together(self.graph)
        first = index - index % together
        if first != self._first:
            self._first, self._known = first, {}
        if (format, kind) not in self._known:
            regions = [self.region(k, kind) for k in range(first, min(first + together, len(self._states)))]
            self._known[format, kind] = list(running_batch(self.graph, format, regions))
        return self._known[format, kind][index - first]

    def region(self, index: int, kind: str) -> Region:
        """The region of that kind. Raises InputRejected for a radius that is none."""
        inputs = inputs_of(self._states[index])
        return point(inputs) if kind == "point" else ball(inputs, "W", self._radius)


class Certifier:
    """Makes the claims about one state.

    Parameters
    ----------
    state : the state.
    options : radius, order and number of samples.
    index : which state of its file it is.
    batch : what it shares with the other states of its file; by default it has none.
    where : what a statement calls the state.
    suffix : added to claim ids, to tell the states of one file apart.
    """

    def __init__(
        self,
        state: State,
        options: Options,
        index: int = 0,
        where: str = "the state",
        suffix: str = "",
        batch: Batch | None = None,
    ) -> None:
        self.state = state
        self.options = options
        self.where = where
        self._batch, self._index = (Batch([state], options), 0) if batch is None else (batch, index)
        self.graph = self._batch.graph
        self.inputs = inputs_of(state)
        self.subject = Subject(self.graph, self.inputs, _wording(where), {"state": index}, suffix)

    def exactness(self) -> list[Claim]:
        """In exact arithmetic the block is the update, compared as rationals; nothing for large blocks."""
        if self._at_state is None:
            return []
        difference = exact(self.graph, self.inputs, "W") - self._at_state.next_W
        same = not np.any(difference != 0)
        return [
            Claim(
                id="exactness/point" + self.subject.suffix,
                kind="exactness",
                statement=f"In exact arithmetic the block returns the W of the matrix-power update at {self.where}: "
                "the difference is 0.",
                semantics="real",
                parameters={**self.subject.parameters, "region": point_region()},
                verdict=Verdict.CERTIFIED if same else Verdict.REFUTED,
                reason="" if same else "the exact values differ",
                theorem="docs/theory/polyprox.md#exactness",
            )
        ]

    def rounding_and_range(self, format: Format) -> list[Claim]:
        """Three claims at the state, and three on the ball if the radius is positive."""
        claims = self._claims(format, "point")
        if self.options.radius != 0:
            claims += self._claims(format, "ball")
        return claims

    def probable(self, format: Format) -> list[Claim]:
        """What holds with the confidence asked for under stochastic rounding, at the state and on the ball; none if unasked."""
        if self.options.confidence is None:
            return []
        confidence, radius = confidence_of(self.options.confidence), self.options.radius
        places = [("point", point_region()), *([("ball", ball_region(radius))] if radius else [])]
        return [
            probable_claim(self.subject, format, where, self._batch.region(self._index, kind), confidence)
            for kind, where in places
        ]

    def _claims(self, format: Format, kind: str) -> list[Claim]:
        region = self._batch.region(self._index, kind)  # which refuses what is no radius
        bounds = self._batch.bounds(self._index, format, kind)
        where = point_region() if kind == "point" else ball_region(self.options.radius)
        bound, splits = self.options.bound, self.options.splits
        analysis = analyse(self.subject, format, where, region, bounds=bounds, bound=bound, splits=splits)
        observed = self._observed(format, kind)
        display: dict[str, str] = {}
        if analysis.in_range:
            branches = relu_branches(analysis.running)
            observed |= {f"relu_{side}": getattr(branches, side) for side in ("active", "inactive", "undecided")}
            if kind == "point" and self._at_state is not None:
                display = _digits(analysis.running, self._at_state.next_W)
        values = {"W": hex_values(self.state.W)}
        return program_claims(self.subject, analysis, values=values, observed=observed, display=display)

    def _observed(self, format: Format, kind: str) -> dict[str, Any]:
        """The error itself at the state, or the largest over sampled states of the ball; nothing if floats overflow."""
        trials = ([] if self._at_state is None else [self._at_state]) if kind == "point" else self._in_ball
        errors: dict[str, list[float]] = {"error_W": [], "error_alpha": []}
        states = [{**self.inputs, "W": trial.W} for trial in trials]
        floats = computed_batch(one_program(self.graph), format.unbounded, states, ("W", "alpha"))
        for trial, outputs in zip(trials, floats, strict=True):
            W, alpha = outputs["W"], outputs["alpha"]
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


def _wording(where: str) -> Wording:
    """The sentences of the rounding and range claims."""
    return Wording(
        point=f"At {where}",
        ball=f"For every W with the mask M within Frobenius distance {{radius}} of that of {where}",
        rounding="one update in {format}, inputs converted first, returns W within eps_W (Frobenius norm) and alpha within "
        "eps_alpha of the exact update of those inputs.",
        range="no operation of one update in {format} overflows, partial sums and the second pass included.",
    )


def _digits(bounds: Bounds, exact_W: NDArray[Any]) -> dict[str, str]:
    """Decimal digits of W that the bound leaves: of its norm, and of its worst nonzero entry."""
    W = np.abs(exact_W.astype(np.float64))
    nonzero = W > 0
    return digits_shown([digits_left(W, nonzero, bounds.norm_of("W"), bounds.error_of("W"))] if nonzero.any() else [])
