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


def product_error(a: Floats, b: Floats, p: Floats) -> Floats:
    """a b - p exactly, where p = fl(a b) and nothing overflows or underflows."""
    high_a, low_a = _split(a)
    high_b, low_b = _split(b)
    return np.asarray(low_a * low_b - (((p - high_a * high_b) - low_a * high_b) - high_a * low_b))


def product_exceeds(a: Floats, b: Floats, p: Floats) -> Any:
    """Whether a b > p, where a, b >= 0 and p = fl(a b); True where Dekker's transformation is not known to be exact.

    It is exact if nothing overflows or underflows: a, b < 2**990 and p > 2**-960.
    """
    error = product_error(a, b, p)
    safe = (a < 2.0**990) & (b < 2.0**990) & (p > 2.0**-960) & (p < 2.0**1020)
    return ~safe | (error > 0)


def sum_to_odd(a: Floats, b: Floats) -> Floats:
    """a + b rounded to odd: exact, or whichever of the two binary64 numbers around it has an odd significand.

    Rounding that to a format of at most 51 bits is rounding a + b once, for a rounding to odd keeps it on its side of every
    midpoint. Infinities and NaNs are those of a + b.
    """
    total = np.asarray(a + b)
    return _odd(total, sum_error(a, b, total))


def product_to_odd(a: Floats, b: Floats) -> Floats:
    """a b rounded to odd, like `sum_to_odd`, where its magnitude is between 2**-900 and 2**900; elsewhere as it comes."""
    (x, i), (y, j) = np.frexp(a), np.frexp(b)
    product = np.asarray(x * y)
    return _scaled(_odd(product, product_error(x, y, product)), i + j, a * b)


def product_is_exact(a: Floats, b: Floats) -> Any:
    """Whether a b is known to be a binary64 number."""
    (x, i), (y, j) = np.frexp(a), np.frexp(b)
    product = np.asarray(x * y)
    return (product == 0) | ((product_error(x, y, product) == 0) & (np.abs(i + j) < 900))


def quotient_to_odd(a: Floats, b: Floats) -> Floats:
    """a / b rounded to odd, as `product_to_odd`; the remainder a - q b of q = fl(a / b) is a binary64 number."""
    (x, i), (y, j) = np.frexp(a), np.frexp(b)
    quotient = np.asarray(x / y)
    remainder = _remainder(x, quotient, y)
    return _scaled(_odd(quotient, np.where(y < 0, -remainder, remainder)), i - j, a / b)


def root_to_odd(a: Floats) -> Floats:
    """sqrt(a) rounded to odd, as `product_to_odd`; the remainder a - s s of s = fl(sqrt(a)) is a binary64 number as well."""
    x, i = np.frexp(a)
    odd = np.asarray(i & 1)
    x, i = np.ldexp(x, odd), i - odd
    root = np.sqrt(x)
    return _scaled(_odd(root, _remainder(x, root, root)), i // 2, np.sqrt(a))


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
    low = product_error(a, b, product)
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


def _odd(nearest: Floats, error: Floats) -> Floats:
    """`nearest` + `error` rounded to odd, `nearest` being that sum rounded to nearest; of `error` only the sign counts."""
    even = (nearest.view(np.int64) & 1) == 0
    # the neighbour on the side of the error; of a zero or of an exact number there is none to take
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(even & np.isfinite(error) & (error != 0), np.nextafter(nearest, towards), nearest)


def _remainder(a: Floats, q: Floats, b: Floats) -> Floats:
    """a - q b exactly, if that is a binary64 number: a and fl(q b) are close, so their difference is exact."""
    product = np.asarray(q * b)
    return np.asarray((a - product) - product_error(q, b, product))


def _scaled(significand: Floats, exponent: Any, otherwise: Floats) -> Floats:
    """significand 2**exponent where that is neither large nor small, and `otherwise` elsewhere."""
    power = exponent + np.frexp(significand)[1]
    return np.where(np.isfinite(significand) & (np.abs(power) < 900), np.ldexp(significand, exponent), otherwise)


def _split(x: Floats) -> tuple[Floats, Floats]:
    """x = high + low, each with at most 26 bits (Veltkamp)."""
    scaled = _SPLIT * x
    high = scaled - (scaled - x)
    return high, np.asarray(x - high)
