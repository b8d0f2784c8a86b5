"""Fixed-point Cholesky factors and inverse iteration in integers: how witnesses are found, never what they prove.

Nothing here is trusted: `certify.contraction.spectrum.verify` recomputes what a factor is worth. Integers replace
binary64 because a smallest eigenvalue far below the norm of the matrix needs more digits than a float has.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.contraction.scaled import Scaled

Integers = npt.NDArray[Any]  # object arrays of Python integers

# Columns of a panel. Within a panel the update runs over Python integers, from all earlier columns it is one integer
# matrix product; 24 was the fastest of 16, 24, 32, 48, 64 at n = 90 and n = 300.
_PANEL = 24


def cholesky(a: Scaled, shift: Fraction, grid: int) -> Integers | None:
    """A lower triangular L on the grid 2**-grid with L L^T close to a - shift I, or None if a pivot is not positive.

    Returns integers (n, n) in units of 2**-grid. Entries of a - shift I are first cut to multiples of 2**(-2 grid);
    products of grid numbers are such multiples, so the Schur complements are exact, and what remains of entry (i, j) is
    what rounding L_ij left: at most L_jj 2**-grid / 2 off the diagonal and 2 L_jj 2**-grid on it.
    """
    from flint import fmpz_mat

    n = a.matrix.nrows()
    lift = a.exponent + 2 * grid
    rest = a.rows() * (1 << lift) if lift >= 0 else a.rows() >> -lift
    rest[np.diag_indices(n)] -= math.floor(shift * Fraction(2) ** (2 * grid))
    for start in range(0, n, _PANEL):
        stop = min(start + _PANEL, n)
        if start > 0:
            done = Scaled(fmpz_mat(n - start, start, rest[start:, :start].ravel().tolist()), 0)
            head = Scaled(fmpz_mat(stop - start, start, rest[start:stop, :start].ravel().tolist()), 0)
            rest[start:, start:stop] -= done.times(head.transpose()).rows()
        for j in range(start, stop):
            if rest[j, j] <= 0:
                return None
            pivot = math.isqrt(rest[j, j])
            column = (2 * rest[j + 1 :, j] + pivot) // (2 * pivot)
            rest[j, j], rest[j + 1 :, j] = pivot, column
            rest[j + 1 :, j + 1 : stop] -= np.outer(column, column[: stop - j - 1])
    return np.tril(rest)


def fixed_point(vector: npt.NDArray[np.float64]) -> Integers:
    """A vector of floats, at most 1 in magnitude, to 60 binary places, as integers in units of 2**-60."""
    result = np.empty(vector.size, dtype=object)
    result[:] = np.rint(np.ldexp(vector, 60)).astype(np.int64).tolist()
    return result


def quotient(a: Scaled, v: Integers) -> Fraction:
    """The Rayleigh quotient v^T a v / v^T v, exactly, of a nonzero integer vector."""
    from flint import fmpz_mat

    column = fmpz_mat(v.size, 1, v.tolist())
    row = column.transpose()
    return a.fraction(int((row * (a.matrix * column))[0, 0])) / int((row * column)[0, 0])


def inverse_iterated(lower: Integers, grid: int, v: Integers, bits: int = 120) -> Integers:
    """The direction of (L L^T)^-1 v, the largest entry cut to `bits` bits; `lower` is L in units of 2**-grid.

    One step multiplies the part of v along an eigenvector by the reciprocal of its eigenvalue, so that the smallest
    eigenvalue's gains on all others. Only the direction matters, so v is widened by `bits` first and cut at the end.
    """
    n = v.size
    x = v * (1 << bits)
    for j in range(n):
        x[j] = (x[j] << grid) // lower[j, j]
        x[j + 1 :] -= (lower[j + 1 :, j] * x[j]) >> grid
    for j in reversed(range(n)):
        x[j] = (x[j] << grid) // lower[j, j]
        x[:j] -= (lower[j, :j] * x[j]) >> grid
    excess = max(abs(entry) for entry in x).bit_length() - bits
    return x >> excess if excess > 0 else x
