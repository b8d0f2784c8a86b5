"""How much the Hessian of the stage varies over a ball, absolutely and relative to itself at the centre."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic.directed import norm_up, round_up
from certify.arithmetic.midrad import MidRad
from certify.contraction.floating import gram_defect, inverse_factor, spectral_norm, thickened

from .hessian import Enclosed


@dataclass(frozen=True)
class Frame:
    """T with ||T^T K(U) T - I|| <= `defect`, and an upper bound of |T^T H(U)|: what depends on the centre alone."""

    T: NDArray[np.float64]
    defect: float
    pull: float


def variation(over: MidRad, at: MidRad) -> float:
    """Upper bound of ||A - B||_2 for all symmetric A in `over`, B in `at`."""
    return spectral_norm((over - at).size)


def frame_at(at: Enclosed) -> Frame | None:
    """The inverse Cholesky factor of K(U) as a frame; None where K(U) is not proved positive definite with it."""
    T = inverse_factor(at.K)
    if T is None or not np.isfinite(T).all():
        return None
    defect = gram_defect(at.K, T)
    pull = (MidRad.exact(T).T @ at.slope[:, None]).size
    if not (defect < 1 and np.isfinite(pull).all()):
        return None
    return Frame(T, defect, norm_up(pull))


def relative_variation(over: Enclosed, at: Enclosed, rho: float, frame: Frame) -> float:
    """e such that -e K(U) <= K(W) - K(U) <= e K(U) as quadratic forms, for all W of the box; inf if none is proved.

    **Theorem.** Let T be any matrix, g > 0 with T^T K(U) T >= g I, and e' >= ||T^T (K(W) - K(U)) T||. Then e = e' / g, and
    the eigenvalues of K(W) lie in [(1 - e) lambda_min, (1 + e) lambda_max] of K(U) > 0, for e < 1. *Proof.* T is nonsingular,
    since T^T K(U) T is. |x^T dK x| = |y^T (T^T dK T) y| <= e' |y|^2 <= (e' / g) y^T T^T K(U) T y with x = T y. QED

    T = L^-T, L the Cholesky factor of K(U), weighs stiff directions down: their curvature may vary a lot in absolute terms
    while the small eigenvalue that decides is far from moved. (Any T with T^T K(U) T = I sees the same quadratic form, but
    this one depends on K(U) continuously, which an eigenbasis does not.) dK = (c K_h)(W) - (c K_h)(U) + rho (h h^T - k k^T)
    with h = H(W), k = H(U): the first part is taken entrywise, the second is k s^T + s k^T + s s^T for s = h - k, so
    e' <= || |T|^T |dK_1| |T| || + rho (2 |T^T k| |T^T s| + |T^T s|^2).
    """
    weights = MidRad.exact(np.abs(frame.T))
    parts = thickened(over.cycles * over.c - at.cycles * at.c).size
    sizes = (weights.T @ MidRad.exact(parts) @ weights).size
    first = spectral_norm(np.maximum(sizes, sizes.T))
    shift = (MidRad.exact(frame.T).T @ (over.slope - at.slope)[:, None]).size
    if not (np.isfinite(first) and np.isfinite(shift).all()):
        return float("inf")
    k, s = Fraction(frame.pull), Fraction(norm_up(shift))
    return round_up((Fraction(first) + Fraction(rho) * (2 * k * s + s * s)) / (1 - Fraction(frame.defect)))
