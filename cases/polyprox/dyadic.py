"""Matrices of dyadic rationals, exactly: one integer matrix over one power of two.

Every value of the Poly-prox block is a dyadic rational of its dyadic inputs, so exact evaluation needs sums,
products and powers of two only. Keeping the integers of a matrix on one scale lets FLINT multiply them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from certify.errors import InputRejected


@dataclass(frozen=True, eq=False)
class DyadicMatrix:
    """The matrix ``integers / 2**exponent``, never rounded.

    Invariant: ``integers`` is a python-flint ``fmpz_mat`` and ``exponent`` a Python int (of either sign). As with
    NumPy arrays, ``*`` is the entrywise and ``@`` the matrix product.
    """

    integers: Any
    exponent: int

    @classmethod
    def of(cls, values: Any) -> DyadicMatrix:
        """Return the exact matrix of a 2-d array of floats, ints or Fractions.

        Raises
        ------
        InputRejected : an entry is not finite, or its denominator is no power of two.
        """
        from flint import fmpz, fmpz_mat

        rows = np.atleast_2d(np.asarray(values))
        height, width = rows.shape
        ratios = [[_ratio(x) for x in row] for row in rows.tolist()]
        exponent = max((d.bit_length() - 1 for row in ratios for _, d in row), default=0)
        scaled = [[fmpz(n) << (exponent - d.bit_length() + 1) if n else 0 for n, d in row] for row in ratios]
        return cls(fmpz_mat(height, width, [x for row in scaled for x in row]), exponent)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.integers.nrows(), self.integers.ncols()

    @property
    def T(self) -> DyadicMatrix:
        """The transpose."""
        return DyadicMatrix(self.integers.transpose(), self.exponent)

    def __matmul__(self, other: DyadicMatrix) -> DyadicMatrix:
        return DyadicMatrix(self.integers * other.integers, self.exponent + other.exponent)

    def __mul__(self, other: DyadicMatrix) -> DyadicMatrix:
        """Return the entrywise product; a 1 by 1 operand multiplies every entry."""
        exponent = self.exponent + other.exponent
        if self.shape == (1, 1):
            return DyadicMatrix(other.integers * self.integers[0, 0], exponent)
        if other.shape == (1, 1):
            return DyadicMatrix(self.integers * other.integers[0, 0], exponent)
        pairs = zip(self.integers.entries(), other.integers.entries(), strict=True)
        return DyadicMatrix(self._like([a * b for a, b in pairs]), exponent)

    def __add__(self, other: DyadicMatrix) -> DyadicMatrix:
        exponent = max(self.exponent, other.exponent)
        return DyadicMatrix(self._at(exponent) + other._at(exponent), exponent)

    def __sub__(self, other: DyadicMatrix) -> DyadicMatrix:
        exponent = max(self.exponent, other.exponent)
        return DyadicMatrix(self._at(exponent) - other._at(exponent), exponent)

    def halved(self, times: int) -> DyadicMatrix:
        """Return the matrix times ``2**-times`` (negative: doubled)."""
        return DyadicMatrix(self.integers, self.exponent + times)

    def relu(self) -> DyadicMatrix:
        """Return the entrywise maximum with 0."""
        return DyadicMatrix(self._like([x if x > 0 else 0 for x in self.integers.entries()]), self.exponent)

    def total(self) -> DyadicMatrix:
        """Return the sum of all entries, 1 by 1."""
        from flint import fmpz, fmpz_mat

        return DyadicMatrix(fmpz_mat(1, 1, [sum(self.integers.entries(), fmpz(0))]), self.exponent)

    def reduced(self) -> DyadicMatrix:
        """Return the same matrix on its smallest scale, so that chained products do not grow idle zeros."""
        common = 0
        for x in self.integers.entries():
            common |= int(x)
        if common == 0:
            return DyadicMatrix(self.integers, 0)
        idle = (common & -common).bit_length() - 1
        if idle == 0:
            return self
        return DyadicMatrix(self._like([x >> idle for x in self.integers.entries()]), self.exponent - idle)

    def fractions(self) -> list[list[Fraction]]:
        """Return the entries as Fractions, row by row."""
        one = 1 << max(self.exponent, 0)
        shift = max(-self.exponent, 0)
        return [[Fraction(int(x) << shift, one) for x in row] for row in self.integers.tolist()]

    def _at(self, exponent: int) -> Any:
        shift = exponent - self.exponent
        return self.integers if shift == 0 else self.integers * (1 << shift)

    def _like(self, entries: Sequence[Any]) -> Any:
        from flint import fmpz_mat

        return fmpz_mat(*self.shape, entries)


def identity(n: int) -> DyadicMatrix:
    """Return the n by n identity."""
    return DyadicMatrix.of(np.eye(n, dtype=np.int64))


def power(A: DyadicMatrix, n: int) -> DyadicMatrix:
    """Return ``A @ ... @ A`` (n factors, n >= 0) by repeated squaring."""
    result: DyadicMatrix | None = None
    while n:
        if n & 1:
            result = A if result is None else result @ A
        n >>= 1
        if n:
            A = A @ A
    return identity(A.shape[0]) if result is None else result


def _ratio(x: Any) -> tuple[int, int]:
    as_ratio: Callable[[], tuple[int, int]] = (int(x) if isinstance(x, bool) else x).as_integer_ratio
    try:
        n, d = as_ratio()
    except (ValueError, OverflowError):
        raise InputRejected(f"the value {x} has no exact fraction", "give finite values to exact evaluation") from None
    if d & (d - 1):
        raise InputRejected(f"the value {n}/{d} is not dyadic", "give values whose denominators are powers of two")
    return n, d
