"""The fixed-stage theorem: when iterating a map, exactly or in floats, must converge to one point of a ball.

**Theorem** (Poly-prox paper, Thm. 6; Banach). Let P map a closed convex set C = {W in a subspace: ||W - U|| <= r} into the
subspace, be q-Lipschitz on C with 0 <= q < 1, and d >= ||P(U) - U||. Let a program return W^ with ||W^ - P(W)|| <= eps, W^ in
the subspace, for every W in C. If

    d + eps <= (1 - q) r

then (a) exact and computed trajectories that start in C stay in C; (b) P has exactly one fixed point W_* in C and
||W_* - U|| <= d / (1 - q); (c) after L updates ||W^_L - W_*|| <= q^L B_0 + eps (1 - q^L) / (1 - q) with B_0 = ||W^_0 - U|| +
d / (1 - q). *Proof.* (a) ||W^ - U|| <= eps + q ||W - U|| + d <= eps + d + q r <= r. (b) Banach; ||W_* - U|| <= ||P(W_*) -
P(U)|| + ||P(U) - U|| <= q ||W_* - U|| + d. (c) ||W^_{k+1} - W_*|| <= eps + q ||W^_k - W_*||, summed. QED

**Lemma (gradient step).** If P is a 1-Lipschitz map after W - gamma grad J(W), and mu I <= J'' <= L I on the convex set C, then
P is q-Lipschitz on C with q = max(|1 - gamma mu|, |1 - gamma L|). *Proof.* The difference of two gradients is Kbar (W - W')
with the mean Hessian Kbar, symmetric, spectrum in [mu, L]. QED

Comparisons are between exact rationals. A test that fails is a value with a reason, not an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from certify.arithmetic.directed import round_up


@dataclass(frozen=True)
class Stage:
    """What the theorem is applied to; every number is an upper bound of its meaning, except mu, a lower one.

    Attributes
    ----------
    mu, L : curvature bounds of J on the ball.
    gamma : step size, exact.
    d : displacement of the centre, ||P(U) - U||.
    eps : rounding error of one update on the ball; 0 for the exact map.
    radius : r.
    """

    mu: float
    L: float
    gamma: float
    d: float
    eps: float
    radius: float


@dataclass(frozen=True)
class Outcome:
    """The theorem applied. `reason` is empty if and only if it certifies.

    `q` is an upper bound of the Lipschitz constant (inf if none is known) and `floor` of eps / (1 - q), the distance to
    the fixed point that rounding cannot be proved to go below.
    """

    stage: Stage
    q: float
    floor: float
    reason: str

    @property
    def certified(self) -> bool:
        """Whether the conclusions of the theorem hold."""
        return not self.reason


def contraction_constant(mu: Fraction | float, L: Fraction | float, gamma: float) -> float:
    """q = max(|1 - gamma mu|, |1 - gamma L|), rounded up."""
    step = Fraction(gamma)
    return round_up(max(abs(1 - step * Fraction(mu)), abs(1 - step * Fraction(L))))


def fixed_stage(stage: Stage) -> Outcome:
    """Apply the theorem; the outcome names the inequality that fails, and by how much."""
    infinite = float("inf")
    numbers = (stage.mu, stage.L, stage.gamma, stage.d, stage.eps, stage.radius)
    if not all(abs(x) < infinite for x in numbers):  # NaN and infinities fail this
        return Outcome(stage, infinite, infinite, "a bound is not finite, so nothing is known on this ball")
    q = contraction_constant(stage.mu, stage.L, stage.gamma)
    if not stage.mu > 0:
        return Outcome(
            stage,
            q,
            infinite,
            f"mu > 0 fails: only mu >= {stage.mu:.3g} is proved; a smaller ball or a polished centre may pass",
        )
    if not q < 1:
        too_long = Fraction(stage.gamma) * Fraction(stage.L) >= 2
        cure = (
            f"a step size below {2 / stage.L:.3g} would pass" if too_long else "gamma mu is below the resolution of q"
        )
        return Outcome(stage, q, infinite, f"q < 1 fails: q = {q:.6g}; {cure}")
    gap = 1 - Fraction(q)
    floor = round_up(Fraction(stage.eps) / gap)
    need, have = Fraction(stage.d) + Fraction(stage.eps), gap * Fraction(stage.radius)
    if not need <= have:
        reason = f"d + eps <= (1 - q) r fails: {float(need):.3g} > {float(have):.3g}"
        cause = "a polished centre" if stage.d > stage.eps else "a finer format"
        return Outcome(stage, q, floor, f"{reason}; {cause} or a larger ball would be needed")
    return Outcome(stage, q, floor, "")
