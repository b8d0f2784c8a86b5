"""Row-sum bounds of the eigenvalues of symmetric interval matrices: the paper's interval method (A.10).

Bounds hold for every symmetric A with |A - mid| <= rad entrywise; both (n, n) binary64. `certify.contraction.spectrum`
is tighter on all but nearly diagonal matrices.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from certify.arithmetic.directed import round_down, round_up
from certify.arithmetic.formats import Floats
from certify.contraction.scaled import (
    Scaled,
    finite_matrix,
    identity,
    interval_matrix,
    row_sum_norm,
    scaled,
)
from certify.errors import InputRejected

_RADIUS_BITS = 40
# Eigenvector entries below 2**-60 are dropped, so that exact products stay short; at n = 300 that moves a vector by
# at most 1e-17.
_GRID = 60


def gershgorin(mid: Floats, rad: Floats) -> tuple[float, float]:
    """Numbers lo, hi with lo <= every eigenvalue of A <= hi; (inf, -inf) for the empty matrix, which has none.

    Theorem (Gershgorin 1931). lo = min_i (mid_ii - rad_ii - s_i), hi = max_i (mid_ii + rad_ii + s_i) with
    s_i = sum_{j != i} (|mid_ij| + rad_ij).
    Proof. Let A x = lambda x and i an index with |x_i| largest: |lambda - a_ii| |x_i| <= sum_{j != i} |a_ij| |x_j|, so
    |lambda - a_ii| <= sum_{j != i} |a_ij| <= s_i.

    Exact integers, rounded outward. Raises InputRejected as `certify.contraction.spectrum.verify` does.
    """
    mid, rad = interval_matrix(mid, rad)
    if len(mid) == 0:
        return math.inf, -math.inf
    low, high = _ends(scaled(mid), scaled(rad))
    return round_down(low), round_up(high)


def interval_bounds(mid: Floats, rad: Floats, Q: Floats | None = None) -> tuple[float, float]:
    """Numbers mu, L with mu <= every eigenvalue of A <= L, by row sums in an approximate eigenbasis Q (n, n).

    By default Q is from a floating-point eigensolver applied to mid; any Q will do.

    Theorem. Let e = ||Q^T Q - I||_inf < 1, and let b_lo, b_hi be Gershgorin ends that hold for Q^T A Q. Then

        mu = b_lo / (1 + e) if b_lo > 0 else b_lo / (1 - e),      L = b_hi / (1 - e) if b_hi > 0 else b_hi / (1 + e).

    Proof. Every eigenvalue of Q^T Q lies in [1 - e, 1 + e], so Q is nonsingular. For x != 0 put x = Q y: then
    (1 - e) |y|^2 <= |x|^2 <= (1 + e) |y|^2, and x^T A x = y^T (Q^T A Q) y >= b_lo |y|^2. If b_lo > 0 use
    |y|^2 >= |x|^2 / (1 + e); if b_lo <= 0 use |y|^2 <= |x|^2 / (1 - e). The upper end is the same for -A.

    The paper states the cases b_lo > 0 and b_hi > 0. If e >= 1 nothing is known: (-inf, inf). Exact integers (the
    radius is first rounded up to 40 bits of its largest entry), rounded outward; (inf, -inf) for the empty matrix.
    Raises InputRejected as `certify.contraction.spectrum.verify` does, and for a Q that is not finite and (n, n).
    """
    mid, rad = interval_matrix(mid, rad)
    if Q is None:
        Q = approximate_eigenbasis(mid)[0]
    finite_matrix(Q, "basis")
    if Q.shape != mid.shape:
        raise InputRejected(f"the basis has shape {Q.shape}", f"give an array {mid.shape}, one column a vector")
    if len(mid) == 0:
        return math.inf, -math.inf
    basis, size = scaled(Q), scaled(np.abs(Q))
    e = gram_error(basis)
    if e >= 1:
        return -math.inf, math.inf
    centre = basis.transpose().times(scaled(mid).times(basis))
    spread = size.transpose().times(_rounded_up(rad).times(size))
    low, high = _ends(centre, spread)
    mu = low / (1 + e if low > 0 else 1 - e)
    L = high / (1 - e if high > 0 else 1 + e)
    return round_down(mu), round_up(L)


def approximate_eigenbasis(mid: Floats) -> tuple[Floats, Floats]:
    """Eigenvectors Q (n, n), one a column, on a grid of 2**-60, and eigenvalues (n,), ascending; nothing is proved.

    An eigenvalue above the range of binary64 is infinite.
    """
    # LAPACK sees entries of about 1 and needs no more range than that.
    scale = math.frexp(float(np.abs(mid).max(initial=0.0)))[1]
    lam, vectors = np.linalg.eigh(np.ldexp(mid, -scale))
    with np.errstate(over="ignore"):
        lam = np.ldexp(lam, scale)
    return np.ldexp(np.rint(np.ldexp(vectors, _GRID)), -_GRID), lam


def gram_error(basis: Scaled) -> Fraction:
    """||Q^T Q - I||_inf, exactly: a bound of the 2-norm of the same symmetric matrix."""
    return row_sum_norm(basis.transpose().times(basis).minus(identity(basis.matrix.ncols())))


def _ends(centre: Scaled, spread: Scaled) -> tuple[Fraction, Fraction]:
    exponent = min(centre.exponent, spread.exponent)
    entries, radii = Scaled(centre.at(exponent), exponent).rows(), Scaled(spread.at(exponent), exponent).rows()
    diagonal: Any = entries.diagonal()
    sums = np.abs(entries).sum(axis=1) - np.abs(diagonal) + radii.sum(axis=1)
    unit = Scaled(None, exponent)
    return unit.fraction(int((diagonal - sums).min())), unit.fraction(int((diagonal + sums).max()))


def _rounded_up(rad: Floats) -> Scaled:
    """A radius not below `rad`: multiples of 2**-40 of the power of two above its largest entry.

    Radii span many powers of two, and exact products of them would be long. A scaled radius below the least subnormal
    becomes 0 on the way, hence the maximum with 1.
    """
    exponent = math.frexp(float(rad.max(initial=0.0)))[1] - _RADIUS_BITS
    units = np.maximum(np.ceil(np.ldexp(rad, -exponent)), np.where(rad > 0, 1.0, 0.0))
    whole = scaled(units)
    return Scaled(whole.matrix, whole.exponent + exponent)
