"""A fixed stage around a centre: what every method needs to know of it, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from certify.cases.programs import order_in
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.arithmetic.directed import relaxed_down, relaxed_up, round_down, round_up, sqrt_up
from certify.arithmetic.midrad import MidRad
from certify.contraction.fixed_stage import Outcome, Stage, fixed_stage
from certify.contraction.floating import eigenvalue_bounds
from certify.contraction.witness import lower_bound, upper_bound
from certify.graph import Graph, with_order
from certify.rounding import Bounds, ball, running

from ..certificates import graph_of, inputs_of
from ..state import State
from ..update import update_exact
from .hessian import Enclosed, Entries, hessian
from .variation import Frame, frame_at, relative_variation, variation


@dataclass(frozen=True)
class Centre:
    """The Hessian at U on some entries; `low` and `high` bound its eigenvalues, relaxed; `frame` if low > 0 is proved."""

    at: Enclosed
    low: float
    high: float
    frame: Frame | None


class Problem:
    """A fixed stage around a centre: what the methods share, computed once.

    Parameters
    ----------
    state : the controls and step size, with the centre as its W.
    format : the program's format; its rounding error on each ball is the theorem's eps.
    order : how the program evaluates sums; without its accumulator if that cannot hold the format.
    """

    def __init__(self, state: State, format: Format, order: str = "serial") -> None:
        self.state = replace(state, b=0)
        self.format = format
        self._asked, self.order = order, order_in(order, format)
        self.center = self.state.W
        self._bounds: dict[float, Bounds] = {}
        self._centers: dict[tuple[bytes, ...], Enclosed] = {}
        self._curvatures: dict[tuple[bytes, ...], Centre] = {}

    @cached_property
    def graph(self) -> Graph:
        """The block's graph; the step size is an input of it."""
        return graph_of(self.state, self.order)

    @cached_property
    def allowed(self) -> Entries:
        """The allowed entries."""
        return np.nonzero(self.state.M)

    @cached_property
    def d(self) -> float:
        """Upper bound of ||P(U) - U||_F, from the exact rational update."""
        moved = update_exact(self.state).W
        squares = (
            (x - Fraction(u)) ** 2
            for row, at in zip(moved, self.center.tolist(), strict=True)
            for x, u in zip(row, at, strict=True)
        )
        return sqrt_up(sum(squares, Fraction(0)))

    @cached_property
    def norm(self) -> Fraction:
        """Upper bound of ||U||_F."""
        return Fraction(sqrt_up(sum((Fraction(u) ** 2 for u in self.center.ravel().tolist()), Fraction(0))))

    def in_format(self, format: Format) -> Problem:
        """The same stage in another format; what does not depend on the format is shared."""
        other = Problem(self.state, format, self._asked)
        other.graph, other.d = with_order(self.graph, other.order), self.d
        other._centers, other._curvatures = self._centers, self._curvatures
        return other

    def bounds(self, radius: float) -> Bounds:
        """The running error analysis of the program on the whole ball."""
        if radius not in self._bounds:
            # a hair more than the ball, so that an independent analysis of the ball itself comes out no worse
            region = ball(inputs_of(self.state), "W", relaxed_up(radius))
            self._bounds[radius] = running(self.graph, self.format, region)
        return self._bounds[radius]

    def eps(self, radius: float) -> float:
        """Upper bound of the rounding error of one update on the ball; inf where an overflow is not excluded."""
        bounds = self.bounds(radius)
        return bounds.norm_of("W") if bounds.first_overflow() is None else float("inf")

    def inactive(self, radius: float) -> NDArray[np.bool_]:
        """Entries whose update is exactly 0 on the whole ball, exact and computed, shape (p, p)."""
        bounds = self.bounds(radius)
        ids = bounds.graph.outputs["W"].ids
        zero = (bounds.low[ids] == 0) & (bounds.high[ids] == 0) & (bounds.error[ids] == 0)
        # a centre that is not 0 there would not lie on the face
        return np.asarray(zero & (self.state.M != 0) & (self.center == 0))

    def outcome(self, mu: float, L: float, radius: float) -> Outcome:
        """The fixed-stage theorem with these curvature bounds, which are relaxed as they are published, or made of such."""
        d, eps = relaxed_up(self.d), relaxed_up(self.eps(radius))
        return fixed_stage(Stage(mu, L, self.state.gamma, d, eps, radius))

    @cached_property
    def blocks(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue of Sigma over the allowed parents of each variable, relaxed."""
        lows, highs = [np.inf], [-np.inf]
        for column in self.state.M.T:
            parents = np.flatnonzero(column)
            if len(parents):
                block = MidRad.exact(self.state.Sigma[np.ix_(parents, parents)])
                low, high = _ends(block)
                lows.append(low)
                highs.append(high)
        return relaxed_down(min(lows)), relaxed_above(max(highs))

    @cached_property
    def multiplier(self) -> Fraction:
        """Upper bound of |c_U|."""
        none = (np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp))
        return Fraction(float(hessian(self.state, self.center, 0.0, none).c.size))

    def at_center(self, entries: Entries) -> Enclosed:
        """The Hessian at U on the entries."""
        key = tuple(axis.tobytes() for axis in entries)
        if key not in self._centers:
            self._centers[key] = hessian(self.state, self.center, 0.0, entries)
        return self._centers[key]

    def curvature_at_center(self, entries: Entries) -> Centre:
        """The Hessian at U on the entries, with verified bounds of its eigenvalues."""
        key = tuple(axis.tobytes() for axis in entries)
        if key not in self._curvatures:
            at = self.at_center(entries)
            low, high = _ends(at.K) if _finite(at.K) else (-np.inf, np.inf)
            frame = frame_at(at) if low > 0 else None
            self._curvatures[key] = Centre(at, relaxed_down(low), relaxed_above(high), frame)
        return self._curvatures[key]

    def curvature(self, entries: Entries, radius: float) -> tuple[float, float]:
        """mu, L on the entries over the ball: those at the centre, moved by the variation of K, absolute or relative."""
        centre = self.curvature_at_center(entries)
        over = hessian(self.state, self.center, radius, entries)
        moved = relaxed_up(variation(over.K, centre.at.K))
        if not np.isfinite([moved, centre.low, centre.high]).all():
            return -np.inf, np.inf
        low, high = Fraction(centre.low), Fraction(centre.high)
        # Weyl: eigenvalues move by at most ||K(W) - K(U)||
        mu, L = low - Fraction(moved), high + Fraction(moved)
        if centre.frame is not None:
            share = relaxed_up(relative_variation(over, centre.at, self.state.rho, centre.frame))
            if share < 1:
                mu = max(mu, (1 - Fraction(share)) * low)
                L = min(L, (1 + Fraction(share)) * high)
        return round_down(mu), round_up(L)


def _finite(K: MidRad) -> bool:
    return bool(np.isfinite(K.mid).all() and np.isfinite(K.rad).all())


def _ends(K: MidRad) -> tuple[float, float]:
    """Bounds of the smallest and the largest eigenvalue: from binary64 products, or exact where those are not sharp."""
    bounds = eigenvalue_bounds(K) if len(K.mid) else None
    return (lower_bound(K.mid, K.rad).value, upper_bound(K.mid, K.rad).value) if bounds is None else bounds


def relaxed_above(high: float) -> float:
    """An upper bound of eigenvalues, relaxed; one that is not positive certifies nothing and stays as it is."""
    return relaxed_up(high) if high > 0 else high
