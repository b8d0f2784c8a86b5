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
from certify.cases.claims import (
    Subject,
    Wording,
    analyse,
    ball_region,
    hex_values,
    point_region,
    program_claims,
)
from certify.cases.programs import one_program
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.arithmetic.directed import norm_up, round_up
from certify.certificate import Claim, Verdict, to_hex
from certify.graph import Graph, Variable, trace
from certify.rounding import Bounds, Region, ball, point, relu_branches
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
        self.where = where
        self.graph = graph_of(state, options.order)
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
        claims = self._claims(format, point_region(), point(self.inputs))
        radius = self.options.radius
        if radius != 0:  # `ball` refuses what is no radius
            region = ball(self.inputs, "W", radius)
            claims += self._claims(format, ball_region(radius), region)
        return claims

    def _claims(self, format: Format, where: dict[str, str], region: Region) -> list[Claim]:
        analysis = analyse(self.subject, format, where, region, bound=self.options.bound, splits=self.options.splits)
        observed = self._observed(format, where["kind"])
        display: dict[str, str] = {}
        if analysis.in_range:
            branches = relu_branches(analysis.running)
            observed |= {f"relu_{side}": getattr(branches, side) for side in ("active", "inactive", "undecided")}
            if where["kind"] == "point" and self._at_state is not None:
                display = _digits(analysis.running, self._at_state.next_W)
        values = {"W": hex_values(self.state.W)}
        return program_claims(self.subject, analysis, values=values, observed=observed, display=display)

    def _observed(self, format: Format, kind: str) -> dict[str, Any]:
        """The error itself at the state, or the largest over sampled states of the ball; nothing if floats overflow."""
        trials = ([] if self._at_state is None else [self._at_state]) if kind == "point" else self._in_ball
        errors: dict[str, list[float]] = {"error_W": [], "error_alpha": []}
        for trial in trials:
            inputs = {**self.inputs, "W": trial.W}
            W, alpha = (computed(one_program(self.graph), format.unbounded, inputs, name) for name in ("W", "alpha"))
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
