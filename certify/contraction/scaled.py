"""Binary64 matrices as integer matrices on one power-of-two scale: nothing is rounded on the way in or out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from certify.arithmetic.formats import Floats
from certify.errors import InputRejected


class Scaled(NamedTuple):
    """The real matrix `matrix` 2**`exponent`, exactly; `matrix` is a python-flint `fmpz_mat`."""

    matrix: Any
    exponent: int

    def at(self, exponent: int) -> Any:
        """The integer matrix of the same real matrix in units of 2**exponent, exponent <= self.exponent."""
        if exponent > self.exponent:
            raise ValueError(f"2**{self.exponent} is not a multiple of 2**{exponent}")
        return self.matrix * (1 << (self.exponent - exponent))

    def times(self, other: Scaled) -> Scaled:
        """The matrix product, exact."""
        return Scaled(self.matrix * other.matrix, self.exponent + other.exponent)

    def minus(self, other: Scaled) -> Scaled:
        """The difference, exact."""
        exponent = min(self.exponent, other.exponent)
        return Scaled(self.at(exponent) - other.at(exponent), exponent)

    def transpose(self) -> Scaled:
        """The transpose."""
        return Scaled(self.matrix.transpose(), self.exponent)

    def rows(self) -> npt.NDArray[Any]:
        """The entries of `matrix` as an object array of Python integers, shape of the matrix."""
        shape = (self.matrix.nrows(), self.matrix.ncols())
        result = np.empty(shape[0] * shape[1], dtype=object)
        result[:] = [int(x) for x in self.matrix.entries()]
        return result.reshape(shape)

    def fraction(self, units: int) -> Fraction:
        """The number units 2**exponent."""
        return Fraction(units) * Fraction(2) ** self.exponent


def scaled(array: Floats) -> Scaled:
    """A matrix (n, m) of finite binary64 numbers as integers in units of the largest power of two that holds them all.

    The integers have about as many bits as the entries span powers of two, plus 53.
    """
    from flint import fmpz_mat

    integers, exponent = _integers(array.ravel())
    return Scaled(fmpz_mat(array.shape[0], array.shape[1], integers), exponent)


def identity(n: int) -> Scaled:
    """The identity matrix (n, n)."""
    from flint import fmpz_mat

    return Scaled(fmpz_mat(n, n, [int(i == j) for i in range(n) for j in range(n)]), 0)


def row_sum_norm(a: Scaled) -> Fraction:
    """The infinity norm max_i sum_j |a_ij|, exactly; 0 for an empty matrix.

    For a symmetric matrix it bounds the magnitude of every eigenvalue, so it bounds the 2-norm.
    """
    columns = a.matrix.ncols()
    sizes = [abs(x) for x in a.matrix.entries()]
    sums = [sum(sizes[k : k + columns]) for k in range(0, len(sizes), columns or 1)]
    return a.fraction(int(max(sums, default=0)))


def interval_matrix(mid: Floats, rad: Floats) -> tuple[Floats, Floats]:
    """Return `mid` and `rad` if they describe symmetric matrices A, |A - mid| <= rad.

    Raises
    ------
    InputRejected : not two binary64 matrices (n, n) that are finite and symmetric, or a radius below zero.
    """
    mid, rad = symmetric_matrix(mid, "midpoint"), symmetric_matrix(rad, "radius")
    if mid.shape != rad.shape:
        raise InputRejected(
            f"the midpoint has shape {mid.shape} and the radius has shape {rad.shape}", "give two arrays (n, n)"
        )
    if (rad < 0).any():
        raise InputRejected("the radius matrix has a negative entry", "give radii >= 0")
    return mid, rad


def symmetric_matrix(array: Floats, name: str = "matrix") -> Floats:
    """Return `array` if it is a finite symmetric binary64 matrix (n, n).

    Raises
    ------
    InputRejected : it is not; the message names the first entry to blame.
    """
    finite_matrix(array, name)
    if array.shape[0] != array.shape[1]:
        raise InputRejected(f"the {name} has shape {array.shape}", "give a square matrix (n, n)")
    if not np.array_equal(array, array.T):
        i, j = np.argwhere(array != array.T)[0].tolist()
        raise InputRejected(
            f"the {name} is not symmetric: entry [{i}, {j}] is not entry [{j}, {i}]", "copy one triangle to the other"
        )
    return array


def finite_matrix(array: Floats, name: str = "matrix") -> Floats:
    """Return `array` if it is a finite binary64 matrix. Raises InputRejected."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.ndim != 2:
        raise InputRejected(f"the {name} is not a two-dimensional float64 array", "convert it, exactly, to one")
    if not np.isfinite(array).all():
        i, j = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputRejected(f"the {name} is {array[i, j]} at [{i}, {j}]", "give finite entries")
    return array


def _integers(x: Floats) -> tuple[list[int], int]:
    significand, exponents = np.frexp(x)
    odd = np.ldexp(significand, 53).astype(np.int64)
    # Strip trailing zeros (n & -n is the lowest set bit), so that 1.0 costs one bit and not 53.
    zeros = np.maximum(np.frexp((odd & -odd).astype(np.float64))[1] - 1, 0)
    odd, exponents = odd >> zeros, exponents - 53 + zeros
    held = exponents[odd != 0]
    exponent = int(held.min()) if held.size else 0
    shifts = np.where(odd != 0, exponents - exponent, 0)
    return [n << k for n, k in zip(odd.tolist(), shifts.tolist(), strict=True)], exponent
