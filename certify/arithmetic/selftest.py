"""A self-test of this machine's arithmetic, for reports and `certify env`."""

from __future__ import annotations

import numpy as np

from certify.arithmetic.enclosure import enclosure
from certify.arithmetic.formats import BINARY16, BINARY32


def selftest() -> dict[str, str | bool]:
    """Small sums whose results differ under another rounding mode, flushed subnormals, or extended precision.

    Returns a dict of what was found; every value but `enclosures` is True on a machine that certificates assume.
    """
    one = np.float64(1.0)
    half_ulp = np.float64(2.0**-53)
    tiny = np.array([2.0**-1074, 2.0**-1022])
    single = np.array([2.0**-149], dtype=np.float32)
    # 1 + 2**-53 is a tie: to even gives 1. One ulp above 1 plus half an ulp goes up to even.
    nearest_even = bool(one + half_ulp == 1.0 and (one + 2 * half_ulp) + half_ulp == 1.0 + 4 * half_ulp)
    # 2**53 + 1 would be kept by x87 registers; rounded to double at once it is 2**53
    double_once = bool(np.float64(2.0**53) + one - np.float64(2.0**53) == 0.0)
    subnormals = bool((tiny / np.array([1.0, 2.0]) > 0).all() and (single * np.float32(1.0) > 0).all())
    ties_16 = BINARY16.round(np.array([2049.0, 2051.0])) == [2048.0, 2052.0]
    ties_32 = BINARY32.round(np.array([2.0**24 + 1.0, 2.0**24 + 3.0])) == [2.0**24, 2.0**24 + 4.0]
    return {
        "nearest_even": nearest_even,
        "binary64_rounds_once": double_once,
        "subnormals": subnormals,
        "conversions": bool(ties_16.all() and ties_32.all()),
        "enclosures": enclosure().name,
    }
