"""Refutation: the fixed-stage map is not a contraction at its fixed point, in any norm, and the fixed point repels.

**Theorem.** Let W_* be a fixed point of P with strict complementarity: every allowed entry is either active
(W_*ij != 0) or strictly inactive (W_*ij = 0 and |grad J_ij| < lam). Then P is differentiable at W_*, its derivative is
I - gamma K_FF on the active entries F and 0 elsewhere, and if K_FF has an eigenvalue kappa < 0 or kappa > 2 / gamma, the
derivative has the eigenvalue 1 - gamma kappa of modulus above 1. So P is a contraction in no neighbourhood of W_* in any
norm, and in the direction of the eigenvector W_* repels. *Proof.* Near W_* no entry changes its branch of the soft
threshold (V is continuous, and |V_ij| != gamma lam there), so P(W)_F = W_F - gamma (grad J + lam sign)_F and P(W)_Z = 0.
A map that contracts a neighbourhood by q in some norm has a derivative of operator norm at most q < 1, hence no
eigenvalue of modulus above q. QED

W_* itself is only enclosed: by the Newton-Kantorovich test on grad J_F + lam sign(U_F) = 0 in a cube around the centre U,
with the signs and the strict inequalities verified over the whole cube, and the eigenvalue by a Rayleigh quotient over
the Hessians of the whole cube.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic.directed import relaxed_down
from certify.arithmetic.midrad import MidRad
from certify.contraction.fixed_point import newton_kantorovich
from certify.contraction.rayleigh import rayleigh_lower, rayleigh_upper

from ..state import State
from .hessian import Entries, hessian


@dataclass(frozen=True)
class Refutation:
    """Outcome: the map is refuted if and only if `reason` is empty.

    Attributes
    ----------
    radius : of the cube around the centre that holds the fixed point.
    kappa_high : a lower bound of the largest eigenvalue of K_FF at the fixed point.
    kappa_low : an upper bound of the smallest one.
    vector : the vector on the active entries whose Rayleigh quotient gave the bound that refutes.
    reason : why nothing is refuted.
    """

    radius: float
    kappa_high: float
    kappa_low: float
    vector: tuple[float, ...]
    reason: str

    @property
    def refuted(self) -> bool:
        """Whether the fixed point exists, is strictly complementary, and repels."""
        return not self.reason

    def kappa(self, gamma: float) -> float:
        """The bound that refutes: of the largest eigenvalue if that is above 2 / gamma, else of the smallest, below 0."""
        return self.kappa_high if Fraction(self.kappa_high) * Fraction(gamma) > 2 else self.kappa_low


def refute(state: State, center: NDArray[np.float64]) -> Refutation:
    """Try to prove that P at the state's controls and step size repels at the fixed point next to `center`.

    `center` must be 0 on the inactive entries; it need not be good: a bad one proves nothing.
    """
    active = np.nonzero(center)
    if len(active[0]) == 0:
        return _nothing(0.0, "no entry is active, so P is locally constant")
    at = hessian(state, center, 0.0, active)
    if not all(np.isfinite(x).all() for x in (at.K.mid, at.K.rad, at.gradient.mid, at.gradient.rad)):
        return _nothing(0.0, "the Hessian at the centre is not finite in binary64")
    # the cube must hold the fixed point; Newton steps say how far it is
    last = _nothing(0.0, "")
    for radius in _radii(state, center, active):
        last = _in_cube(state, center, active, radius)
        if last.refuted:
            return last
    return last


def _radii(state: State, center: NDArray[np.float64], active: Entries) -> list[float]:
    at = hessian(state, center, 0.0, active)
    slopes = at.gradient[active].mid + state.lam * np.sign(center[active])
    step = float(np.abs(_inverse(at.K.mid) @ slopes).max())
    noise = float((np.abs(_inverse(at.K.mid)) @ at.gradient[active].rad).max())
    return [2.0**k * max(step, noise, 2.0**-60) for k in (2, 6, 10)]


def _in_cube(state: State, center: NDArray[np.float64], active: Entries, radius: float) -> Refutation:
    over = hessian(state, center, radius, active)
    at = hessian(state, center, 0.0, active)
    signs = np.sign(center[active])
    residual = at.gradient[active] + MidRad.exact(signs) * MidRad.exact(np.array(state.lam))
    existence = newton_kantorovich(residual, over.K, _inverse(at.K.mid), radius)
    if not existence.proved:
        return _nothing(radius, f"no fixed point is proved near the centre: {existence.reason}")
    if not (np.abs(center[active]) > radius).all():
        return _nothing(radius, "an active entry may vanish near the centre: complementarity is not strict")
    inactive = (state.M != 0) & (center == 0)
    if not (over.gradient.size[inactive] < state.lam).all():
        return _nothing(radius, "an inactive entry may become active: complementarity is not strict")
    _, vectors = np.linalg.eigh(over.K.mid)
    # relaxed as they are published; a bound of the wrong sign refutes nothing
    high = relaxed_down(rayleigh_lower(over.K.mid, over.K.rad, vectors[:, -1]))
    low = -relaxed_down(-rayleigh_upper(over.K.mid, over.K.rad, vectors[:, 0]))
    if Fraction(state.gamma) * Fraction(high) > 2:
        return Refutation(radius, high, low, tuple(vectors[:, -1].tolist()), "")
    if low < 0:
        return Refutation(radius, high, low, tuple(vectors[:, 0].tolist()), "")
    reason = f"no eigenvalue of K_FF is proved outside [0, 2/gamma]: gamma kappa <= {state.gamma * high:.4g}"
    return Refutation(radius, high, low, (), reason)


def _inverse(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """An approximate inverse; a pseudo-inverse where there is none (the test then fails by itself)."""
    with np.errstate(all="ignore"):
        return np.asarray(np.linalg.pinv(K), dtype=np.float64)


def _nothing(radius: float, reason: str) -> Refutation:
    return Refutation(radius, -np.inf, np.inf, (), reason)
