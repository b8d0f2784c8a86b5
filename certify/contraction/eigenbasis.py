"""An approximate eigenbasis with verified distances to an exact one: for modal bounds of powers of I - gamma K."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from certify.arithmetic.directed import round_up
from certify.arithmetic.formats import Floats
from certify.contraction.rows import approximate_eigenbasis, gram_error
from certify.contraction.scaled import finite_matrix, row_sum_norm, scaled, symmetric_matrix
from certify.errors import InputRejected


@dataclass(frozen=True)
class Basis:
    """Approximate eigenvectors Q (n, n), one a column, and eigenvalues lam (n,) of a symmetric matrix.

    Verified, absolute, with Q~ the exactly orthogonal polar factor of Q:
    gram >= ||Q^T Q - I||_2, distance >= ||Q - Q~||_2, residual >= ||mid - Q~ diag(lam) Q~^T||_2.
    Infinite distance and residual mean that gram >= 1 and no Q~ is known.
    """

    Q: Floats
    lam: Floats
    gram: float
    distance: float
    residual: float


def eigenbasis(mid: Floats) -> Basis:
    """Eigenvectors and eigenvalues of a symmetric matrix (n, n), approximate, with verified distances.

    By Weyl's theorem the k-th smallest eigenvalue of mid is within `residual` of lam[k], with multiplicity.

    Raises
    ------
    InputRejected : mid is not finite, symmetric and binary64, or an eigenvalue overflows binary64.
    """
    symmetric_matrix(mid)
    return verified_basis(mid, *approximate_eigenbasis(mid))


def verified_basis(mid: Floats, Q: Floats, lam: Floats) -> Basis:
    """The verified distances of any Q (n, n) and lam (n,), finite binary64, from a symmetric mid (n, n).

    Theorem. Let ||Q^T Q - I||_2 <= e < 1 and Q = Q~ P its polar decomposition, Q~ orthogonal and P = (Q^T Q)^(1/2).
    With d = e / (2 - e) and F = mid - Q diag(lam) Q^T,

        ||Q - Q~||_2 <= 1 - sqrt(1 - e) <= d <= e,
        ||mid - Q~ diag(lam) Q~^T||_2 <= ||F||_inf + d (2 + d) max |lam|.

    Proof. Q - Q~ = Q~ (P - I), so the distance is the largest |s - 1| over the singular values s of Q, and
    1 - e <= s^2 <= 1 + e. If s <= 1, 1 - s <= 1 - sqrt(1 - e) = e / (1 + sqrt(1 - e)); if s > 1,
    s - 1 <= sqrt(1 + e) - 1 <= e / 2, which is not more. As sqrt(1 - e) >= 1 - e, that is at most e / (2 - e).
    With D = Q - Q~: Q diag(lam) Q^T - Q~ diag(lam) Q~^T = D diag(lam) Q^T + Q~ diag(lam) D^T, of 2-norm at most
    d max|lam| (||Q|| + 1), ||Q|| <= 1 + d. F is symmetric, so ||F||_2 <= ||F||_inf.

    e is the infinity norm of the exact integer residual; each bound is rounded up once.

    Raises
    ------
    InputRejected : an array is not finite binary64 or not of its shape, or mid is not symmetric.
    """
    symmetric_matrix(mid)
    finite_matrix(Q, "basis")
    finite_matrix(np.reshape(lam, (-1, 1)), "column of eigenvalues")
    if Q.shape != mid.shape or lam.shape != mid.shape[:1]:
        raise InputRejected(
            f"a matrix {mid.shape} has no basis {Q.shape} with eigenvalues {lam.shape}",
            "give one column and one eigenvalue for each row",
        )
    basis = scaled(Q)
    e = gram_error(basis)
    if e >= 1:
        return Basis(Q, lam, round_up(e), math.inf, math.inf)
    d = e / (2 - e)
    weighted = basis.times(scaled(np.diag(lam)))
    rest = row_sum_norm(scaled(mid).minus(weighted.times(basis.transpose())))
    largest = scaled(np.abs(lam).reshape(-1, 1))
    top = largest.fraction(max((int(x) for x in largest.matrix.entries()), default=0))
    return Basis(Q, lam, round_up(e), round_up(d), round_up(rest + d * (2 + d) * top))
