"""Norms and eigenvalue bounds from binary64 products: a hundred times cheaper than exact integers, verified all the same.

The exact bounds of `certify.contraction.spectrum` are sharp for every matrix. These are sharp for nearly all, and say so
themselves where they are not.
"""

from __future__ import annotations

import numpy as np

from certify.arithmetic.formats import Floats
from certify.arithmetic.midrad import MidRad

#: Of the power iteration behind a norm, and the least share of the largest entry that its vector keeps.
_STEPS = 8
_LEAST_SHARE = 2.0**-20
#: A bound that is off by more, relatively, is left to exact arithmetic.
_SHARP = 2.0**-24

#: Radii below it are raised to it: products with subnormal numbers take a processor a hundred times as long.
_NEGLIGIBLE = 2.0**-300


def spectral_norm(sizes: Floats) -> float:
    """Upper bound of ||A||_2 for every symmetric A with |A| <= sizes entrywise; `sizes` (n, n) is symmetric, >= 0.

    **Theorem** (Collatz, Wielandt). ||A||_2 <= max_i (B x)_i / x_i with B = sizes, for any x > 0. *Proof.* With D = diag(x),
    D^-1 A D has the eigenvalues of A and row sums of magnitude at most (B x)_i / x_i. QED

    x is all ones, which gives the largest row sum, then B x, B^2 x, ...: the least of the bounds counts. The sums have n
    nonnegative terms, in any order; x lies in [2**-20, 1], so that underflow costs at most n 2**-1050. Infinite where B is
    not finite.
    """
    n = len(sizes)
    best = np.inf if n else 0.0
    x = np.ones(n)
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            y = sizes @ x
            top = float(y.max(initial=0.0))
            if top == 0.0 or not np.isfinite(top):
                break
            best = min(best, float((y / x).max()))
            x = np.maximum(y / top, _LEAST_SHARE)
        if n and not sizes.any():
            return 0.0
        return float(best * (1 + (n + 8) * 2.0**-52) + n * 2.0**-1050)


def eigenvalue_bounds(K: MidRad) -> tuple[float, float] | None:
    """Bounds of the smallest and the largest eigenvalue of every symmetric matrix in K (n, n), n > 0; None if not sharp.

    Sharp is within 2**-24, relatively; a smallest eigenvalue that is proved negative need not be.

    **Theorem.** With K = Q diag(lam) Q^T + R, e >= ||Q^T Q - I||, e < 1, d = e / (2 - e), the ordered eigenvalues of K are
    within ||R|| + d (2 + d) max |lam| of lam (proof: `certify.contraction.eigenbasis.verified_basis`). And if T is a matrix
    with ||T^T K T - I|| <= f < 1 and t >= ||T T^T||, then lambda_min(K) >= (1 - f) / t. *Proof.* T is nonsingular, so
    x = T y with x^T K x >= (1 - f) |y|^2, and |x|^2 = y^T T^T T y <= t |y|^2. QED

    The first is sharp for eigenvalues near ||K||; T = L^-T from the Cholesky factor reaches those far below.
    """
    if not (np.isfinite(K.mid).all() and np.isfinite(K.rad).all()):
        return None
    ends = _from_basis(K)
    if ends is None:
        return None
    low, high, error = ends
    if not error <= _SHARP * abs(high):
        return None
    if error <= _SHARP * abs(low) or low + 2 * error < 0:  # the smallest eigenvalue is at most low + error
        return low, high
    T = inverse_factor(K)
    if T is None:
        return None
    f = gram_defect(K, T)
    inner = _from_basis(MidRad.exact(T) @ MidRad.exact(T.T))
    if inner is None or not f <= _SHARP:
        return None
    # five roundings, each of relative size 2**-53
    return float((1 - f) / inner[1] * (1 - 2.0**-50)), high


def inverse_factor(K: MidRad) -> Floats | None:
    """About L^-T for the Cholesky factor L of the midpoint, so that T^T K T is about I; None if there is none."""
    try:
        T = np.linalg.inv(np.linalg.cholesky(K.mid)).T
    except np.linalg.LinAlgError:
        return None
    return np.where(np.abs(T) < _NEGLIGIBLE, 0.0, T)


def gram_defect(K: MidRad, T: Floats) -> float:
    """Upper bound of ||T^T A T - I|| for every symmetric A in K."""
    frame = MidRad.exact(T)
    return spectral_norm(_symmetric((frame.T @ thickened(K) @ frame - MidRad.exact(np.eye(len(T)))).size))


def thickened(A: MidRad) -> MidRad:
    """An enclosure of what A encloses, without subnormal radii."""
    return MidRad(A.mid, np.maximum(A.rad, _NEGLIGIBLE))


def _from_basis(K: MidRad) -> tuple[float, float, float] | None:
    """Bounds of the smallest and largest eigenvalue, and how far they are at most from those eigenvalues."""
    try:
        values, vectors = np.linalg.eigh(K.mid)
    except np.linalg.LinAlgError:
        return None
    Q = MidRad.exact(vectors)
    e = spectral_norm(_symmetric((Q.T @ Q - MidRad.exact(np.eye(len(values)))).size))
    weighted = Q * MidRad.exact(values)
    rest = spectral_norm(_symmetric((K - weighted @ Q.T).size))
    top = float(np.abs(values).max())
    if not (e < 0.5 and np.isfinite(rest) and np.isfinite(top)):
        return None
    # d <= e, 2 + d <= 2.5; a few roundings, and those of the two sums below
    error = float((rest + 2.5 * e * top) * (1 + 2.0**-48) + top * 2.0**-52)
    return float(values[0]) - error, float(values[-1]) + error, 2 * error


def _symmetric(sizes: Floats) -> Floats:
    """The larger of the two bounds of each pair of entries of a symmetric matrix."""
    return np.asarray(np.maximum(sizes, sizes.T))
