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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.arithmetic.directed import norm_up, round_down, round_up, sqrt_up
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
from .hessian import Enclosed, Entries, hessian


@dataclass(frozen=True)
class Attempt:
    """One method on one ball.

    Attributes
    ----------
    method : global, local, interval or face.
    outcome : of the fixed-stage theorem, with q, mu, L, d, eps and radius.
    face : how many entries are not proved inactive.
    problem : what was tested.
    """

    method: str
    outcome: Outcome
    face: int
    problem: Problem = field(repr=False, compare=False)

    @cached_property
    def entry_radius(self) -> float:
        """Starts off the face are covered up to this distance from the centre; the radius itself where there is no face."""
        radius = self.outcome.stage.radius
        if self.method != "face" or not self.problem.inactive(radius).any():
            return radius
        return _entry_radius(self.problem, self.outcome, radius)


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

    def curvature_at_center(self, entries: Entries) -> tuple[Enclosed, float, float]:
        """The Hessian at U on the entries, with verified bounds of the smallest and largest eigenvalue of K(U)."""
        key = tuple(axis.tobytes() for axis in entries)
        if key not in self._curvatures:
            at = hessian(self.state, self.center, 0.0, entries)
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


def global_test(
    problem: Problem, radius: float, constants: Callable[[Fraction, int], Constants] = published
) -> Attempt:
    """mu, L from the column blocks of Sigma and the constants on ||W||_F <= ||U||_F + r."""
    if not len(problem.allowed[0]):
        return _constant("global", problem, radius)
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
    if not len(problem.allowed[0]):
        return _constant("local", problem, radius)
    _, low, high = problem.curvature_at_center(problem.allowed)
    if not np.isfinite([low, high]).all():
        return _all_entries("local", problem, low, high, radius)
    c = problem.multiplier
    k = constants(problem.norm + Fraction(radius), problem.state.N)
    delta = Fraction(radius) * (c * k.T_H + 3 * Fraction(problem.state.rho) * k.c_H * k.L_H)
    mu = round_down(Fraction(low) - delta)
    L = round_up(Fraction(high) + delta)
    return _all_entries("local", problem, mu, L, radius)


def interval_test(problem: Problem, radius: float) -> Attempt:
    """mu, L from the interval Hessian over the ball in an approximate eigenbasis, by row sums: the paper's."""
    if not len(problem.allowed[0]):
        return _constant("interval", problem, radius)
    K = hessian(problem.state, problem.center, radius, problem.allowed).K
    mu, L = interval_bounds(K.mid, K.rad)
    return _all_entries("interval", problem, mu, L, radius)


def face_test(problem: Problem, radius: float) -> Attempt:
    """mu, L from verified eigenvalues of K_FF(U) and the variation of K_FF over the ball."""
    inactive = problem.inactive(radius)
    face = np.nonzero((problem.state.M != 0) & ~inactive)
    if not len(face[0]):
        return _constant("face", problem, radius)
    mu, L = problem.curvature(face, radius)
    return Attempt("face", problem.outcome(mu, L, radius), len(face[0]), problem)


METHODS: dict[str, Callable[[Problem, float], Attempt]] = {
    "global": global_test,
    "local": local_test,
    "interval": interval_test,
    "face": face_test,
}
SHARP = zero_diagonal


def _constant(method: str, problem: Problem, radius: float) -> Attempt:
    """No entry is allowed: the map is constant, and any curvature will do; this one makes q next to 0."""
    any_curvature = 1 / problem.state.gamma
    return Attempt(method, problem.outcome(any_curvature, any_curvature, radius), 0, problem)


def _all_entries(method: str, problem: Problem, mu: float, L: float, radius: float) -> Attempt:
    return Attempt(method, problem.outcome(mu, L, radius), len(problem.allowed[0]), problem)


def _entry_radius(problem: Problem, outcome: Outcome, radius: float) -> float:
    """The largest ||W_0 - U|| with q_all ||W_0 - U|| + d + eps <= r, from row sums of the whole interval Hessian."""
    if not (np.isfinite(outcome.stage.eps) and np.isfinite(outcome.stage.d)):
        return 0.0
    K = hessian(problem.state, problem.center, radius, problem.allowed).K
    reach = variation(K, MidRad.exact(np.zeros_like(K.mid)))  # >= every |eigenvalue|
    if not np.isfinite(reach):
        return 0.0
    q_all = Fraction(max(contraction_constant(-reach, reach, problem.state.gamma), 1.0))
    room = Fraction(radius) - Fraction(outcome.stage.d) - Fraction(outcome.stage.eps)
    return max(round_down(room / q_all), 0.0)


def _low(K: MidRad) -> float:
    return lower_bound(K.mid, K.rad).value


def _high(K: MidRad) -> float:
    return upper_bound(K.mid, K.rad).value
