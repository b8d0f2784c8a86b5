"""A fixed stage around a centre: what every method needs to know of it, computed once."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.arithmetic.directed import norm_up, round_down, round_up, sqrt_up
from certify.arithmetic.midrad import MidRad
from certify.contraction.fixed_stage import Outcome, Stage, fixed_stage
from certify.contraction.witness import lower_bound, upper_bound
from certify.graph import Graph
from certify.rounding import Bounds, ball, running

from ..certificates import graph_of, inputs_of
from ..state import State
from ..update import update_exact
from .hessian import Enclosed, Entries, hessian


class Problem:
    """A fixed stage around a centre: what the methods share, computed once.

    Parameters
    ----------
    state : the controls and step size, with the centre as its W.
    format : the program's format; its rounding error on each ball is the theorem's eps.
    """

    def __init__(self, state: State, format: Format) -> None:
        self.state = replace(state, b=0)
        self.format = format
        self.center = self.state.W
        self._bounds: dict[float, Bounds] = {}
        self._centers: dict[tuple[bytes, ...], Enclosed] = {}
        self._curvatures: dict[tuple[bytes, ...], tuple[Enclosed, float, float]] = {}

    @cached_property
    def graph(self) -> Graph:
        """The block's graph; the step size is an input of it."""
        return graph_of(self.state)

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
        other = Problem(self.state, format)
        other._centers, other._curvatures = self._centers, self._curvatures
        return other

    def bounds(self, radius: float) -> Bounds:
        """The running error analysis of the program on the whole ball."""
        if radius not in self._bounds:
            region = ball(inputs_of(self.state), "W", radius)
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
        """The fixed-stage theorem with these curvature bounds."""
        return fixed_stage(Stage(mu, L, self.state.gamma, self.d, self.eps(radius), radius))

    @cached_property
    def blocks(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue of Sigma over the allowed parents of each variable, verified."""
        lows, highs = [np.inf], [-np.inf]
        for column in self.state.M.T:
            parents = np.flatnonzero(column)
            if len(parents):
                block = MidRad.exact(self.state.Sigma[np.ix_(parents, parents)])
                lows.append(_low(block))
                highs.append(_high(block))
        return min(lows), max(highs)

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

    def curvature_at_center(self, entries: Entries) -> tuple[Enclosed, float, float]:
        """The Hessian at U on the entries, with verified bounds of the smallest and largest eigenvalue of K(U)."""
        key = tuple(axis.tobytes() for axis in entries)
        if key not in self._curvatures:
            at = self.at_center(entries)
            finite = np.isfinite(at.K.mid).all() and np.isfinite(at.K.rad).all()
            self._curvatures[key] = (at, _low(at.K), _high(at.K)) if finite else (at, -np.inf, np.inf)
        return self._curvatures[key]

    def curvature(self, entries: Entries, radius: float) -> tuple[float, float]:
        """mu, L on the entries over the ball: those at the centre, moved by the variation of K, absolute or relative."""
        at, low, high = self.curvature_at_center(entries)
        over = hessian(self.state, self.center, radius, entries)
        moved = variation(over.K, at.K)
        if not np.isfinite([moved, low, high]).all():
            return -np.inf, np.inf
        # Weyl: eigenvalues move by at most ||K(W) - K(U)||
        mu, L = Fraction(low) - Fraction(moved), Fraction(high) + Fraction(moved)
        share = relative_variation(over, at, self.state.rho) if low > 0 else np.inf
        if share < 1:
            mu = max(mu, (1 - Fraction(share)) * Fraction(low))
            L = min(L, (1 + Fraction(share)) * Fraction(high))
        return round_down(mu), round_up(L)


def variation(over: MidRad, at: MidRad) -> float:
    """Upper bound of ||A - B||_2 for all symmetric A in `over`, B in `at`: the largest row sum of the difference."""
    sums = (over - at).size.sum(axis=1)
    n = len(sums)
    return float(sums.max(initial=0.0) * (1 + (n + 4) * 2.0**-52))  # n nonnegative terms, in any order


def relative_variation(over: Enclosed, at: Enclosed, rho: float) -> float:
    """e such that -e K(U) <= K(W) - K(U) <= e K(U) as quadratic forms, for all W of the box; inf if none is proved.

    **Theorem.** Let T be any matrix, g > 0 with T^T K(U) T >= g I, and e' >= ||T^T (K(W) - K(U)) T||. Then e = e' / g, and
    the eigenvalues of K(W) lie in [(1 - e) lambda_min, (1 + e) lambda_max] of K(U) > 0, for e < 1. *Proof.* T is nonsingular,
    since T^T K(U) T is. |x^T dK x| = |y^T (T^T dK T) y| <= e' |y|^2 <= (e' / g) y^T T^T K(U) T y with x = T y. QED

    T = Q diag(lambda^-1/2), an approximate eigenbasis, weighs stiff directions down: their curvature may vary a lot in
    absolute terms while the small eigenvalue that decides is far from moved. dK = (c K_h)(W) - (c K_h)(U) + rho (h h^T - k k^T)
    with h = H(W), k = H(U): the first part is taken entrywise, the second is k s^T + s k^T + s s^T for s = h - k, so
    e' <= the largest row sum of |T|^T |dK_1| |T|, plus rho (2 |T^T k| |T^T s| + |T^T s|^2).
    """
    values, Q = np.linalg.eigh(at.K.mid)
    if not (len(values) and values[0] > 0):
        return float("inf")
    T = MidRad.exact(Q / np.sqrt(values))
    gram = T.T @ at.K @ T - MidRad.exact(np.eye(len(values)))
    g = 1 - Fraction(variation(gram, MidRad.exact(np.zeros_like(gram.mid))))
    parts = (over.cycles * over.c - at.cycles * at.c).size
    weights = MidRad.exact(np.abs(T.mid))
    first = weights.T @ MidRad.exact(parts) @ weights
    pull, shift = T.T @ at.slope[:, None], T.T @ (over.slope - at.slope)[:, None]
    if not all(np.isfinite(x.size).all() for x in (gram, first, pull, shift)) or g <= 0:
        return float("inf")
    k, s = Fraction(norm_up(pull.size)), Fraction(norm_up(shift.size))
    rows = Fraction(variation(first, MidRad.exact(np.zeros_like(first.mid))))
    return round_up((rows + Fraction(rho) * (2 * k * s + s * s)) / g)


def _low(K: MidRad) -> float:
    return lower_bound(K.mid, K.rad).value


def _high(K: MidRad) -> float:
    return upper_bound(K.mid, K.rad).value
