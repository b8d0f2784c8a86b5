"""Eigenvalue bounds from inside, for refutation: any vector proves one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from certify.arithmetic.directed import round_down, round_up
from certify.arithmetic.formats import Floats
from certify.contraction.rows import approximate_eigenbasis
from certify.contraction.scaled import Scaled, finite_matrix, interval_matrix, scaled, symmetric_matrix
from certify.errors import InputRejected


def rayleigh_lower(mid: Floats, rad: Floats, v: Floats) -> float:
    """A lower bound of the largest eigenvalue of every symmetric A with |A - mid| <= rad, from a vector v (n,).

    Theorem (Rayleigh; Courant-Fischer). For v != 0,
    lambda_max(A) >= v^T A v / v^T v >= (v^T mid v - |v|^T rad |v|) / v^T v.
    Proof. The first is the variational characterisation; |v^T (A - mid) v| <= |v|^T |A - mid| |v|.

    Exact rationals, rounded down. Raises InputRejected for matrices that `verify` rejects and for a v that is zero,
    not finite or not binary64 (n,); the empty matrix has no such v.
    """
    centre, spread = _quotients(mid, rad, v)
    return round_down(centre - spread)


def rayleigh_upper(mid: Floats, rad: Floats, v: Floats) -> float:
    """An upper bound of the smallest eigenvalue of every symmetric A with |A - mid| <= rad, from a vector v (n,).

    Theorem. lambda_min(A) <= (v^T mid v + |v|^T rad |v|) / v^T v: `rayleigh_lower` for -A.
    Exact rationals, rounded up. Raises InputRejected as `rayleigh_lower` does.
    """
    centre, spread = _quotients(mid, rad, v)
    return round_up(centre + spread)


def best_vectors(mid: Floats) -> tuple[Floats, Floats]:
    """Approximate unit eigenvectors (n,) of the smallest and the largest eigenvalue, n > 0.

    `rayleigh_upper` wants the first and `rayleigh_lower` the second. Nothing is proved about them. Raises InputRejected.
    """
    symmetric_matrix(mid)
    if len(mid) == 0:
        raise InputRejected("the matrix is empty and has no eigenvector", "give a matrix of order 1 or more")
    vectors, _ = approximate_eigenbasis(mid)
    return vectors[:, 0].copy(), vectors[:, -1].copy()


def _quotients(mid: Floats, rad: Floats, v: Floats) -> tuple[Fraction, Fraction]:
    mid, rad = interval_matrix(mid, rad)
    column = finite_matrix(np.reshape(v, (-1, 1)), "column vector")
    if v.shape != mid.shape[:1] or not v.any():
        raise InputRejected("the vector is zero or not of the matrix's order", f"give {len(mid)} numbers, not all 0")
    x, size = scaled(column), scaled(np.abs(column))
    square = _number(x.transpose().times(x))
    centre = x.transpose().times(scaled(mid).times(x))
    spread = size.transpose().times(scaled(rad).times(size))
    return _number(centre) / square, _number(spread) / square


def _number(a: Scaled) -> Fraction:
    return a.fraction(int(a.matrix[0, 0]))
