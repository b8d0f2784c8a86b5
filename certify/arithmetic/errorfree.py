"""Error-free transformations: the exact error of one binary64 operation, in binary64 operations only.

Sources: Knuth, The Art of Computer Programming 2, 4.2.2 (sums); Dekker, Numer. Math. 18 (1971) (products); Boldo and
Melquiond, IEEE Trans. Computers 57 (2008) (rounding to odd and the fused multiply-add).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from certify.arithmetic.formats import Floats

_SPLIT = 2.0**27 + 1.0


def sum_error(a: Floats, b: Floats, s: Floats) -> Floats:
    """a + b - s exactly, where s = fl(a + b) is finite."""
    part = s - a
    return np.asarray((a - (s - part)) + (b - part))


def product_exceeds(a: Floats, b: Floats, p: Floats) -> Any:
    """Whether a b > p, where a, b >= 0 and p = fl(a b); True where Dekker's transformation is not known to be exact.

    It is exact if nothing overflows or underflows: a, b < 2**990 and p > 2**-960.
    """
    error = _product_error(a, b, p)
    safe = (a < 2.0**990) & (b < 2.0**990) & (p > 2.0**-960) & (p < 2.0**1020)
    return ~safe | (error > 0)


def sum_to_odd(a: Floats, b: Floats) -> Floats:
    """a + b rounded to odd: exact, or whichever of the two binary64 numbers around it has an odd significand.

    Rounding that to a format of at most 51 bits is rounding a + b once, for a rounding to odd keeps it on its side of every
    midpoint. Infinities and NaNs are those of a + b.
    """
    total = np.asarray(a + b)
    error = sum_error(a, b, total)
    even = (total.view(np.int64) & 1) == 0
    # the neighbour on the side of the error; of a zero or of a number whose sum is exact there is none to take
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(even & np.isfinite(error) & (error != 0), np.nextafter(total, towards), total)


def multiply_add(a: Floats, b: Floats, c: Floats) -> Floats:
    """a b + c rounded once to binary64, ties to even: a fused multiply-add. Operands broadcast.

    The product is split into its value and its error, and the three summands are added with one of the two roundings to
    odd. Where the splitting may underflow or overflow, rationals take over.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    product = np.asarray(a * b)
    plain = np.asarray(product + c)
    size = np.abs(product)
    safe = (np.abs(a) < 2.0**990) & (np.abs(b) < 2.0**990) & (size > 2.0**-900) & (size < 2.0**1000)
    safe &= np.abs(c) < 2.0**1000
    low = _product_error(a, b, product)
    high = np.asarray(c + low)
    rest = sum_error(c, low, high)
    top = np.asarray(product + high)
    tail = sum_to_odd(rest, sum_error(product, high, top))
    result = np.where(safe, top + tail, plain)
    # an exact zero, an infinity and a NaN are the same fused or not
    open_lanes = ~safe & np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    if open_lanes.any():
        triples = zip(a[open_lanes].tolist(), b[open_lanes].tolist(), c[open_lanes].tolist(), strict=True)
        result[open_lanes] = [_rational(*triple) for triple in triples]
    return result


def _rational(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)  # a quotient of integers, rounded once; a result that underflows keeps its sign
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


def _product_error(a: Floats, b: Floats, p: Floats) -> Floats:
    """a b - p exactly, where p = fl(a b) and nothing overflows or underflows."""
    high_a, low_a = _split(a)
    high_b, low_b = _split(b)
    return np.asarray(low_a * low_b - (((p - high_a * high_b) - low_a * high_b) - high_a * low_b))


def _split(x: Floats) -> tuple[Floats, Floats]:
    """x = high + low, each with at most 26 bits (Veltkamp)."""
    scaled = _SPLIT * x
    high = scaled - (scaled - x)
    return high, np.asarray(x - high)
