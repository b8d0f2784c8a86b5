"""Exact arithmetic on dyadic numbers n 2**e.

Values of n nodes are an object array of shape (2, n): integer significands (python-flint `fmpz`) and exponents
(Python ints). Sums, products, scalings and ReLU of dyadics are dyadic, so nothing here ever rounds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpz

from certify.graph import Values

_times = np.frompyfunc(lambda a, b: a * b, 2, 1)
_minus = np.frompyfunc(lambda a: -a, 1, 1)
_lift = np.frompyfunc(lambda n, places: n << places, 2, 1)
_positive = np.frompyfunc(lambda n: n if n > 0 else fmpz(0), 1, 1)


class Dyadic:
    """Exact evaluation; the order of a sum does not matter to its value."""

    exact = True
    covers = "exact dyadic arithmetic covers +, - and * only"

    def empty(self, n: int) -> Values:
        """Room for n values."""
        return np.empty((2, n), dtype=object)

    def constant(self, values: npt.ArrayLike) -> Values:
        """Finite binary64 numbers as dyadics, shape (2, *shape)."""
        array = np.asarray(values, dtype=np.float64)
        pairs = [_odd(*x.as_integer_ratio()) for x in array.ravel().tolist()]
        result = np.empty((2, array.size), dtype=object)
        for k, (significand, exponent) in enumerate(pairs):
            result[0, k], result[1, k] = fmpz(significand), exponent
        return result.reshape(2, *array.shape)

    def add(self, a: Values, b: Values) -> Values:
        """a + b."""
        exponent = np.minimum(a[1], b[1])
        return np.stack([_lift(a[0], a[1] - exponent) + _lift(b[0], b[1] - exponent), exponent])

    def sub(self, a: Values, b: Values) -> Values:
        """a - b."""
        return self.add(a, self.neg(b))

    def mul(self, a: Values, b: Values) -> Values:
        """a b."""
        return np.stack([_times(a[0], b[0]), a[1] + b[1]])

    def neg(self, a: Values) -> Values:
        """-a."""
        return np.stack([_minus(a[0]), a[1]])

    def relu(self, a: Values) -> Values:
        """max(a, 0)."""
        return np.stack([_positive(a[0]), a[1]])

    def scale(self, a: Values, exponent: int) -> Values:
        """a 2**exponent."""
        return np.stack([a[0], a[1] + exponent])


def _odd(numerator: int, denominator: int) -> tuple[int, int]:
    """(n, e) with numerator / denominator = n 2**e for a power of two `denominator`, n odd or 0."""
    zeros = (numerator & -numerator).bit_length() - 1 if numerator else 0
    return numerator >> zeros, zeros - (denominator.bit_length() - 1)


def to_fraction(significand: Any, exponent: int) -> Fraction:
    """The dyadic significand 2**exponent as a Fraction."""
    n = int(significand)
    return Fraction(n << exponent) if exponent >= 0 else Fraction(n, 1 << -exponent)


def fractions(values: Values) -> npt.NDArray[Any]:
    """Dyadic values of shape (2, ...) as an object array of Fractions, shape (...)."""
    return np.asarray(np.frompyfunc(to_fraction, 2, 1)(values[0], values[1]), dtype=object)
