"""Emulation of floating-point arithmetic: the floats that the program computes, bit for bit.

**Theorem (innocuous double rounding).** Let a, b be numbers of a format of precision p <= 24 whose exponents lie within
[-400, 400]. Then rounding fl64(a o b) to the format gives the correctly rounded a o b, for o in +, -, *.

*Proof.* A product has at most 2 p <= 48 <= 53 bits and an exponent inside binary64's range (binary32: at least
2**-298), so fl64 is exact and there is one rounding only. For a sum let s = a + b be exact. If fl64(s) = s there is
one rounding. Otherwise s needs more than 53 bits, so (say |a| >= |b|) a and b lie far apart: the last bit of b lies
more than 53 places below the leading bit of s, and b has p <= 24 bits, so |b| < 2**(e - 53 + p + 1) <= 2**(e - 28) with
2**e <= |s| < 2**(e + 1): s is a plus a small nonzero part. Double rounding can differ from single rounding only if
fl64(s) is a midpoint m of the format and s is not. Midpoints have p + 1 bits. In the binade of s they are spaced
2**(e - p + 1), and a, a number of the format, is at least 2**(e - p) away from each of them (if a lies one binade above
s, its spacing is coarser and the same holds with a = 2**(e + 1), whose nearest midpoint below is 2**(e - p) away). So
|s - m| >= 2**(e - p) - 2**(e - 28) > 0 for p <= 24, at least 2**(e - 25), which is far above the 2**(e - 53) by which
fl64 may move s: fl64(s) is not m. In the subnormal range sums are exact (they are multiples of the smallest
subnormal below 2**(emin + 1)). Overflow: fl64 is monotone and the overflow threshold (2 - u) 2**emax is a midpoint. QED

A fused multiply-add a b + c is not covered: a b is exact in binary64, but its sum with c may fall on a midpoint after
the first rounding. That sum is rounded to odd instead (`certify.arithmetic.errorfree`), which 53 >= p + 2 bits make
innocuous. What happens above the largest number, and flushing, look only at the rounded result.

binary32 and binary64 use the hardware's own arithmetic; NumPy's `float16` computes the same numbers as the emulation.
"""

from __future__ import annotations

import numpy as np

from certify.arithmetic.accumulators import accumulator
from certify.arithmetic.errorfree import multiply_add, sum_to_odd
from certify.arithmetic.formats import BINARY32, BINARY64, Floats, Format
from certify.graph import Values


class Ieee:
    """The arithmetic of a format, rounding to nearest, ties to even. Values are floats, shape (n,).

    Values are held in float32 for binary32, in float64 for all others. Overflow gives infinities and NaNs follow, as on
    hardware; NumPy's floating-point warnings are the caller's (`evaluate` silences them).
    """

    def __init__(self, format: Format) -> None:
        self.format = format
        self._dtype = np.float32 if format == BINARY32 else np.float64
        self._native = format in (BINARY32, BINARY64)

    def empty(self, n: int) -> Values:
        """Room for n values."""
        return np.empty(n, dtype=self._dtype)

    def constant(self, values: Floats) -> Values:
        """Binary64 numbers converted to the format."""
        with np.errstate(over="ignore", under="ignore"):
            return self.format.round(np.asarray(values, dtype=np.float64)).astype(self._dtype)

    def _round(self, x: Values) -> Values:
        return x if self._native else self.format.round(x)

    def add(self, a: Values, b: Values) -> Values:
        """fl(a + b)."""
        return self._round(a + b)

    def sub(self, a: Values, b: Values) -> Values:
        """fl(a - b)."""
        return self._round(a - b)

    def mul(self, a: Values, b: Values) -> Values:
        """fl(a b)."""
        return self._round(a * b)

    def fma(self, a: Values, b: Values, c: Values) -> Values:
        """fl(a b + c), rounded once; operands broadcast."""
        return rounded_multiply_add(self.format, *(np.asarray(x, dtype=np.float64) for x in (a, b, c))).astype(
            self._dtype
        )

    def accumulating(self, name: str) -> Ieee:
        """The arithmetic in which sums of this format's products are accumulated. Raises InputRejected."""
        return Ieee(accumulator(name, self.format))

    def widen(self, a: Values) -> Values:
        """Numbers of a narrower format as numbers of this one, exact."""
        return a.astype(self._dtype)

    def narrow(self, a: Values) -> Values:
        """An accumulated total, rounded once to this format."""
        return self.format.round(a.astype(np.float64)).astype(self._dtype)

    def neg(self, a: Values) -> Values:
        """-a, exact."""
        return -a

    def relu(self, a: Values) -> Values:
        """max(a, 0), exact; NaN stays NaN."""
        return np.maximum(a, np.zeros((), dtype=a.dtype))

    def scale(self, a: Values, exponent: int) -> Values:
        """fl(a 2**exponent), exact unless it underflows or overflows."""
        self.format.check_scale(exponent)
        return self._round(a * self._dtype(2.0**exponent))


def rounded_multiply_add(format: Format, a: Floats, b: Floats, c: Floats) -> Floats:
    """a b + c of numbers of the format, rounded once to it, as binary64."""
    if format.precision == BINARY64.precision:
        return format.round(multiply_add(a, b, c))
    return format.round(sum_to_odd(np.asarray(a * b), c))  # the product is exact
