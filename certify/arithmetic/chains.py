"""Serial sums of a format, all partial sums at once: s_k = fl(s_(k-1) + t_k), the bits that one addition at a time gives.

**Where a NumPy type computes the format's sums.** `numpy.add.accumulate` returns every partial sum, so it adds left to right,
each sum rounded to its type. In float64 and float32 that is fl. In float16 it adds two binary16 numbers in binary32 and rounds
the result: 24 >= 2 p + 2 bits make the double rounding innocuous (`certify.arithmetic.ieee`), and so fl again.

**Elsewhere** a loop over Python floats does the arithmetic of `Format.round` on one number at a time: the same operations
in the same order, without the cost of an array.

A NumPy type is used only if it holds every term exactly, so that going to the type and back changes nothing.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from certify.arithmetic.formats import BINARY16, BINARY32, BINARY64, Format, Overflow
from certify.graph import Values

_TYPES = {(f.precision, f.emin, f.emax, f.cut): t for f, t in ((BINARY16, "f2"), (BINARY32, "f4"), (BINARY64, "f8"))}
#: Lanes up to which a chain beats one addition of arrays at a time (benchmarks/scale.py measures it).
_MOST_LANES, _MOST_LANES_BY_HAND = 256, 32


def chains(format: Format, lanes: int) -> bool:
    """Whether `partial_sums` can add in the format, and is faster for so many lanes than one array addition a term."""
    if format.flush:
        return False
    return lanes <= (_MOST_LANES_BY_HAND if _numpy_type(format) is None else _MOST_LANES)


def partial_sums(format: Format, start: Values, terms: Values) -> Values:
    """s_0 = start, s_k = fl(s_(k-1) + t_k), shape (..., K + 1, lanes), of a format that does not flush.

    `start` has shape (..., lanes), `terms` (..., K, lanes); their type is kept.
    """
    every = np.concatenate([start[..., None, :], terms], axis=-2)
    kind = _numpy_type(format)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if kind is not None:
            converted = every.astype(kind, copy=False)
            # terms of a wider format are added as they are, which the type could not
            if converted is every or ((converted == every) | np.isnan(every)).all():
                return np.asarray(np.add.accumulate(converted, axis=-2).astype(every.dtype, copy=False))
        lanes = np.ascontiguousarray(np.moveaxis(every, -2, -1), dtype=np.float64)
        rows = lanes.reshape(-1, lanes.shape[-1])
        half = len(rows) // 2
        # both ends of an enclosure of points are the same chain
        repeated = 2 * half == len(rows) and np.array_equal(rows[:half].view(np.int64), rows[half:].view(np.int64))
        sums = np.array([_left_to_right(format, row) for row in (rows[:half] if repeated else rows).tolist()])
        sums = np.concatenate([sums, sums]) if repeated else sums
        return np.moveaxis(sums.reshape(lanes.shape), -1, -2).astype(every.dtype, copy=False)


def _numpy_type(format: Format) -> str | None:
    """The NumPy type whose numbers and whose overflow are the format's."""
    if format.flush or format.overflow is not Overflow.INFINITY:
        return None
    return _TYPES.get((format.precision, format.emin, format.emax, format.cut))


class _Binades(dict[int, tuple[float, float, float]]):
    """For |x| in [2**(e - 1), 2**e), by e: the number whose addition rounds x to the format (`Format.round`), and the ends.

    No x lies between the ends, which are NaN, of binades where a sum may round to zero or beyond the largest number.
    """

    def __init__(self, format: Format) -> None:
        super().__init__()
        self._format = format

    def __missing__(self, e: int) -> tuple[float, float, float]:
        format = self._format
        exponent = max(e - 1, format.emin) + 53 - format.precision
        # a format of 53 bits rounds nothing that binary64 has not rounded
        shift = 1.5 * 2.0**exponent if format.precision < 53 else 0.0
        inside = format.emin < e <= format.emax and 2.0**e <= format.largest
        ends = (2.0 ** (e - 1), math.nextafter(2.0**e, 0.0)) if inside else (math.nan, math.nan)
        self[e] = shift, *ends
        return self[e]


@lru_cache
def _binades(format: Format) -> _Binades:
    return _Binades(format)


def _left_to_right(format: Format, row: list[float]) -> list[float]:
    """The partial sums of one lane: the body of the loop is `Format.round` of total + term.

    Sums stay in one binade for a while, where rounding is one addition and one subtraction.
    """
    largest, binades = format.largest, _binades(format)
    above = {Overflow.INFINITY: math.inf, Overflow.NAN: math.nan, Overflow.SATURATE: largest}[format.overflow]
    low = high = shift = math.nan
    total = row[0]
    sums = [total]
    for term in row[1:]:
        x = total + term
        if low <= x <= high:
            total = (x + shift) - shift
        else:
            shift, first, last = binades[math.frexp(x)[1]]
            low, high = (first, last) if x > 0 else (-last, -first)
            total = (x + shift) - shift
            if not -largest <= total <= largest:
                total = x if x != x else math.copysign(above, x)
            elif not total:
                total = math.copysign(0.0, x)
        sums.append(total)
    return sums
