"""Error-free transformations: the exact error of one binary64 operation, in binary64 operations only.

Sources: Knuth, The Art of Computer Programming 2, 4.2.2 (sums); Dekker, Numer. Math. 18 (1971) (products).
"""

from __future__ import annotations

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
    high_a, low_a = _split(a)
    high_b, low_b = _split(b)
    error = low_a * low_b - (((p - high_a * high_b) - low_a * high_b) - high_a * low_b)
    safe = (a < 2.0**990) & (b < 2.0**990) & (p > 2.0**-960) & (p < 2.0**1020)
    return ~safe | (error > 0)


def _split(x: Floats) -> tuple[Floats, Floats]:
    """x = high + low, each with at most 26 bits (Veltkamp)."""
    scaled = _SPLIT * x
    high = scaled - (scaled - x)
    return high, np.asarray(x - high)
