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
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from certify.arithmetic.directed import relaxed_down, relaxed_up, round_down, round_up
from certify.arithmetic.midrad import MidRad
from certify.contraction.fixed_stage import Outcome, contraction_constant
from certify.contraction.floating import spectral_norm
from certify.contraction.rows import gershgorin, interval_bounds

from .constants import Constants, published, zero_diagonal
from .hessian import Enclosed, hessian
from .problem import Problem, relaxed_above


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
    mu = round_down(Fraction(low) - _relaxed(reach))
    L = round_up(Fraction(high) + _relaxed(reach + Fraction(state.rho) * k.c_H**2))
    return _all_entries("global", problem, mu, L, radius)


def local_test(problem: Problem, radius: float, constants: Callable[[Fraction, int], Constants] = published) -> Attempt:
    """mu, L from verified eigenvalues of K(U) and the Lipschitz constant of K: delta_K = r (|c_U| T_H + 3 rho c_H L_H).

    *Proof.* c K_h moves by at most |c_U| T_H r + rho c_H r L_H, since h is c_H-Lipschitz; rho H (x) H by 2 rho c_H L_H r. QED
    """
    if not len(problem.allowed[0]):
        return _constant("local", problem, radius)
    K = problem.at_center(problem.allowed).K
    if not _finite(K):
        return _all_entries("local", problem, -np.inf, np.inf, radius)
    k = constants(problem.norm + Fraction(radius), problem.state.N)
    delta = _relaxed(Fraction(radius) * (problem.multiplier * k.T_H + 3 * Fraction(problem.state.rho) * k.c_H * k.L_H))
    if len(K.mid) > LARGE and np.linalg.eigvalsh(K.mid)[0] < delta:
        low, high = gershgorin(K.mid, K.rad)  # mu > 0 is out of reach: row sums say so at a fraction of the cost
    else:
        centre = problem.curvature_at_center(problem.allowed)
        low, high = centre.low, centre.high
    mu = round_down(Fraction(low) - delta)
    L = round_up(Fraction(high) + delta)
    return _all_entries("local", problem, mu, L, radius)


def interval_test(problem: Problem, radius: float) -> Attempt:
    """mu, L from the interval Hessian over the ball in an approximate eigenbasis, by row sums: the paper's."""
    if not len(problem.allowed[0]):
        return _constant("interval", problem, radius)
    K = hessian(problem.state, problem.center, radius, problem.allowed).K
    if not _finite(K):
        mu, L = -np.inf, np.inf
    elif len(K.mid) > LARGE and _hopeless(K):
        mu, L = gershgorin(K.mid, K.rad)
    else:
        mu, L = interval_bounds(K.mid, K.rad)
    mu, L = relaxed_down(mu), relaxed_above(L)
    return _all_entries("interval", problem, mu, L, radius)


def _relaxed(x: Fraction) -> Fraction:
    """An upper bound to subtract or add, relaxed before cancellation could eat what the result is relaxed by."""
    return Fraction(relaxed_up(round_up(x)))


def _finite(K: MidRad) -> bool:
    return bool(np.isfinite(K.mid).all() and np.isfinite(K.rad).all())


def _hopeless(K: MidRad) -> bool:
    """Whether binary64 says that the row sums in the eigenbasis cannot be positive; decides only what is worth computing."""
    values, Q = np.linalg.eigh(K.mid)
    spread = np.abs(Q).T @ K.rad @ np.abs(Q)
    return bool((values - spread.sum(axis=1)).min() < 0)


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
#: Beyond this many entries exact work of cubic order is done only where it can decide something.
LARGE = 200
#: Beyond this many entries the entry radius is published from a bound that needs no matrix of them.
MANY = 300


def _constant(method: str, problem: Problem, radius: float) -> Attempt:
    """No entry is allowed: the map is constant, and any curvature will do; this one makes q next to 0."""
    any_curvature = 1 / problem.state.gamma
    return Attempt(method, problem.outcome(any_curvature, any_curvature, radius), 0, problem)


def _all_entries(method: str, problem: Problem, mu: float, L: float, radius: float) -> Attempt:
    return Attempt(method, problem.outcome(mu, L, radius), len(problem.allowed[0]), problem)


def _entry_radius(problem: Problem, outcome: Outcome, radius: float) -> float:
    """The largest ||W_0 - U|| with q_all ||W_0 - U|| + d + eps <= r, from a norm of the whole interval Hessian."""
    if not (np.isfinite(outcome.stage.eps) and np.isfinite(outcome.stage.d)):
        return 0.0
    over = hessian(problem.state, problem.center, radius, problem.allowed)
    many = len(problem.allowed[0]) > MANY
    reach = relaxed_up(_norm_by_parts(problem, radius, over) if many else spectral_norm(over.K.size))
    if not np.isfinite(reach):
        return 0.0
    q_all = Fraction(max(contraction_constant(-reach, reach, problem.state.gamma), 1.0))
    room = Fraction(radius) - Fraction(outcome.stage.d) - Fraction(outcome.stage.eps)
    return max(round_down(room / q_all), 0.0)


def _norm_by_parts(problem: Problem, radius: float, over: Enclosed) -> float:
    """Upper bound of ||K(W)|| over the box, from p x p matrices alone, so that a checker need not form K.

    **Theorem.** At W = |U| + r, with the norms of the three parts of K, ||K|| is at most

        max rows of |Sigma| * M  +  |c| max_ij (2 Y^(N-1) + 4 (N-1) (Y - I) Y^(N-2))_ji  +  rho ||H||^2.

    *Proof.* On the box |K_h| and |H| are at most those at W, by coefficients >= 0. K_h is the derivative of H there, so
    K_h W = d/ds H(s W) at s = 1, and Y - I grows like s^2: (K_h W)_ij is W_ij times the matrix above. Collatz with x = W. QED

    A sum or product of nonnegative numbers loses its rounding errors only: N products of p + 2 roundings each.
    """
    state, (i, j) = problem.state, problem.allowed
    p, N, W = state.p, state.N, np.abs(problem.center)
    W[i, j] = np.nextafter(W[i, j] + radius, np.inf)
    with np.errstate(all="ignore"):
        S = W * W / N
        most = np.linalg.matrix_power(np.eye(p) + S, N - 2)
        cycles = 2 * (most + S @ most) + 4 * (N - 1) * (S @ most)
        blocks = np.abs(state.Sigma) @ (state.M != 0)
        total = blocks.max() + over.c.size * cycles[j, i].max() + state.rho * (over.slope.size**2).sum()
        return float(total * (1 + N * (p + 10) * 2.0**-50) + 2.0**-900)
