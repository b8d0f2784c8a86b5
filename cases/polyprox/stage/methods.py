"""The four tests of a fixed stage on a ball: each bounds the curvature of J and hands it to the fixed-stage theorem.

`global`, `local` and `interval` are the paper's (polyprox.md section 5) and look at all allowed entries; `face` is ours.

**Face.** Let Z be the allowed entries whose update is proved to be exactly 0 everywhere on the ball, for the exact map and
for its float program, and F the others; U is 0 on Z. Then P and its execution map the ball into the face {W_Z = 0}, which
is convex and contains U, and there P_F is a 1-Lipschitz map after (W - gamma grad J)_F, so only the spectrum of K_FF counts:
the fixed-stage theorem holds on the ball of the face with mu I <= K_FF <= L I. Every fixed point of P in the whole ball lies
in the face, so it is the same one. A start W_0 of the whole ball off the face takes one more update: P_F is Lipschitz on the
whole ball with the constant q_all of I - gamma K over all allowed entries, so ||P^(W_0) - U|| <= q_all ||W_0 - U|| + d + eps,
which must be at most r: `entry_radius` is the largest ||W_0 - U|| for which that is proved. Where Z is empty this is the
paper's interval test. *Proof* of the first sentence: P(W)_Z = 0 for W in the ball is what "proved to be 0" says. QED
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.arithmetic.directed import round_down, round_up, sqrt_up
from certify.arithmetic.midrad import MidRad
from certify.contraction.fixed_stage import Outcome, Stage, contraction_constant, fixed_stage
from certify.contraction.rows import interval_bounds
from certify.contraction.witness import lower_bound, upper_bound
from certify.graph import Graph
from certify.rounding import Bounds, ball, running

from ..certificates import graph_of, inputs_of
from ..state import State
from ..update import update_exact
from .constants import Constants, published, zero_diagonal
from .hessian import Entries, hessian


@dataclass(frozen=True)
class Attempt:
    """One method on one ball.

    Attributes
    ----------
    method : global, local, interval or face.
    outcome : of the fixed-stage theorem, with q, mu, L, d, eps and radius.
    face : how many entries are not proved inactive.
    entry_radius : starts off the face are covered up to this distance from the centre; the radius where there is no face.
    """

    method: str
    outcome: Outcome
    face: int
    entry_radius: float


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
        self._curvatures: dict[tuple[bytes, bytes], tuple[MidRad, float, float]] = {}

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
        other._curvatures = self._curvatures
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

    def curvature_at_center(self, entries: Entries) -> tuple[MidRad, float, float]:
        """K(U) on the entries, with verified bounds of its smallest and largest eigenvalue."""
        key = (entries[0].tobytes(), entries[1].tobytes())
        if key not in self._curvatures:
            K = hessian(self.state, self.center, 0.0, entries).K
            self._curvatures[key] = K, _low(K), _high(K)
        return self._curvatures[key]

    def curvature(self, entries: Entries, radius: float) -> tuple[float, float]:
        """mu, L on the entries over the ball: those at the centre, less and plus the variation of K.

        By Weyl's theorem eigenvalues move by at most ||K(W) - K(U)||_2 <= the largest row sum of any |K(W) - K(U)|.
        """
        at, low, high = self.curvature_at_center(entries)
        moved = variation(hessian(self.state, self.center, radius, entries).K, at)
        if not np.isfinite(moved):
            return -np.inf, np.inf
        return round_down(Fraction(low) - Fraction(moved)), round_up(Fraction(high) + Fraction(moved))


def variation(over: MidRad, at: MidRad) -> float:
    """Upper bound of ||A - B||_2 for all symmetric A in `over`, B in `at`: the largest row sum of the difference."""
    sums = (over - at).size.sum(axis=1)
    n = len(sums)
    return float(sums.max(initial=0.0) * (1 + (n + 4) * 2.0**-52))  # n nonnegative terms, in any order


def global_test(
    problem: Problem, radius: float, constants: Callable[[Fraction, int], Constants] = published
) -> Attempt:
    """mu, L from the column blocks of Sigma and the constants on ||W||_F <= ||U||_F + r."""
    state = problem.state
    k = constants(problem.norm + Fraction(radius), state.N)
    reach = (abs(Fraction(state.alpha)) + Fraction(state.rho) * k.c_h) * k.L_H
    low, high = problem.blocks
    mu = round_down(Fraction(low) - reach)
    L = round_up(Fraction(high) + reach + Fraction(state.rho) * k.c_H**2)
    return _all_entries("global", problem, mu, L, radius)


def local_test(problem: Problem, radius: float, constants: Callable[[Fraction, int], Constants] = published) -> Attempt:
    """mu, L from verified eigenvalues of K(U) and the Lipschitz constant of K: delta_K = r (|c_U| T_H + 3 rho c_H L_H).

    *Proof.* c K_h moves by at most |c_U| T_H r + rho c_H r L_H, since h is c_H-Lipschitz; rho H (x) H by 2 rho c_H L_H r. QED
    """
    _, low, high = problem.curvature_at_center(problem.allowed)
    c = problem.multiplier
    k = constants(problem.norm + Fraction(radius), problem.state.N)
    delta = Fraction(radius) * (c * k.T_H + 3 * Fraction(problem.state.rho) * k.c_H * k.L_H)
    mu = round_down(Fraction(low) - delta)
    L = round_up(Fraction(high) + delta)
    return _all_entries("local", problem, mu, L, radius)


def interval_test(problem: Problem, radius: float) -> Attempt:
    """mu, L from the interval Hessian over the ball in an approximate eigenbasis, by row sums: the paper's."""
    K = hessian(problem.state, problem.center, radius, problem.allowed).K
    mu, L = interval_bounds(K.mid, K.rad)
    return _all_entries("interval", problem, mu, L, radius)


def face_test(problem: Problem, radius: float) -> Attempt:
    """mu, L from verified eigenvalues of K_FF(U) and the variation of K_FF over the ball."""
    inactive = problem.inactive(radius)
    face = np.nonzero((problem.state.M != 0) & ~inactive)
    if len(face[0]):
        mu, L = problem.curvature(face, radius)
    else:  # every update is 0: the map is constant on the ball, and any curvature will do
        mu = L = 1 / problem.state.gamma
    outcome = problem.outcome(mu, L, radius)
    if not inactive.any():
        return Attempt("face", outcome, len(face[0]), radius)
    return Attempt("face", outcome, len(face[0]), _entry_radius(problem, outcome, radius))


METHODS: dict[str, Callable[[Problem, float], Attempt]] = {
    "global": global_test,
    "local": local_test,
    "interval": interval_test,
    "face": face_test,
}
SHARP = zero_diagonal


def _all_entries(method: str, problem: Problem, mu: float, L: float, radius: float) -> Attempt:
    return Attempt(method, problem.outcome(mu, L, radius), len(problem.allowed[0]), radius)


def _entry_radius(problem: Problem, outcome: Outcome, radius: float) -> float:
    """The largest ||W_0 - U|| with q_all ||W_0 - U|| + d + eps <= r, from row sums of the whole interval Hessian."""
    K = hessian(problem.state, problem.center, radius, problem.allowed).K
    reach = variation(K, MidRad.exact(np.zeros_like(K.mid)))  # >= every |eigenvalue|
    if not np.isfinite(reach):
        return 0.0
    q_all = Fraction(max(contraction_constant(-reach, reach, problem.state.gamma), 1.0))
    room = Fraction(radius) - Fraction(outcome.stage.d) - Fraction(outcome.stage.eps)
    return max(round_down(room / q_all), 0.0) if np.isfinite(outcome.stage.eps) else 0.0


def _low(K: MidRad) -> float:
    return lower_bound(K.mid, K.rad).value


def _high(K: MidRad) -> float:
    return upper_bound(K.mid, K.rad).value
