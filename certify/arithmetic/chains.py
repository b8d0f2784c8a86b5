"""Serial sums of a format, all partial sums at once: the bits that one operation at a time gives.

**Additions**, s_k = fl(s_(k-1) + t_k), are computed as they are:

*Where a NumPy type computes the format's sums.* `numpy.add.accumulate` returns every partial sum, so it adds left to right,
each sum rounded to its type. In float64 and float32 that is fl. In float16 it adds two binary16 numbers in binary32 and rounds
the result: 24 >= 2 p + 2 bits make the double rounding innocuous (`certify.arithmetic.ieee`), and so fl again.

*Elsewhere* a loop over Python floats does the arithmetic of `Format.round` on one number at a time: the same operations
in the same order, without the cost of an array.

A NumPy type is used only if it holds every term exactly, so that going to the type and back changes nothing.

**Fused multiply-adds**, s_k = fl(s_(k-1) + a_k b_k), are guessed and then verified (`verified_sums`). So nothing rests on the
guess, which loops over Python floats and is nearly always right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

import numpy as np

from certify.arithmetic.errorfree import product_error
from certify.arithmetic.formats import BINARY16, BINARY32, BINARY64, Format, Overflow
from certify.graph import Values

_TYPES = {(f.precision, f.emin, f.emax, f.cut): t for f, t in ((BINARY16, "f2"), (BINARY32, "f4"), (BINARY64, "f8"))}
#: Lanes up to which a chain beats one addition of arrays at a time (benchmarks/scale.py measures it).
_MOST_LANES, _MOST_LANES_BY_HAND, _MOST_LANES_FUSED = 256, 32, 64
#: Sums that are guessed after a wrong guess at least.
_FEWEST_GUESSED = 16

#: Gives s_k of s_(k-1) by one operation each, for a slice of the terms, shape (..., terms, lanes).
Step = Callable[[Values, slice], Values]
#: Gives about s_1, s_2, ... of s_0, shape (..., lanes), for a slice of the terms.
Guess = Callable[[Values, slice], Values]


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


def fused_chains(lanes: int) -> bool:
    """Whether guessing and verifying is faster for so many lanes than one fused multiply-add of arrays a term."""
    return lanes <= _MOST_LANES_FUSED


def verified_sums(start: Values, n: int, guess: Guess, step: Step) -> Values:
    """s_0 = start, s_k = step(s_(k-1)) for k = 1..n, shape (..., n + 1, lanes), bits included.

    **Theorem.** Let g_0 be the right s_0, and g_1, g_2, ... any numbers. If step(g_(k-1)) = g_k for all k < j, bit for bit,
    then step(g_0), ..., step(g_(j-1)) are s_1, ..., s_j. *Proof.* By induction g_k = s_k for k < j, so step(g_(k-1)) = s_k for
    k <= j. QED

    So one vectorised step verifies a guess, and past the first wrong number it has the right one to guess on from. A NaN is as
    good as another.
    """
    sums, known, together = [start[..., None, :]], 0, n
    while known < n:
        guessed = guess(sums[-1][..., -1, :], slice(known, known + together))
        before = np.concatenate([sums[-1][..., -1:, :], guessed[..., :-1, :]], axis=-2)
        right = step(before, slice(known, known + together))
        wrong = ~_same(right, guessed)
        first = np.flatnonzero(wrong.any(axis=(*range(wrong.ndim - 2), -1)))
        count = int(first[0]) + 1 if len(first) else right.shape[-2]
        sums.append(right[..., :count, :])
        # the numbers behind a wrong one were for nothing: guess no more of them than have come of the last ones
        known, together = known + count, max(2 * count, _FEWEST_GUESSED)
    return np.concatenate(sums, axis=-2)


def _same(a: Values, b: Values) -> Values:
    bits = f"i{a.dtype.itemsize}"
    return np.asarray((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b)))


def guessed_sums(format: Format, start: Values, products: Values) -> Values:
    """About s_1, s_2, ...: exact products, shape (..., K, lanes), added to the start and rounded one by one.

    Wrong where binary64 rounds a sum to a midpoint of the format, or the format flushes.
    """
    format = replace(format, flush=False)
    return partial_sums(format, start.astype(np.float64), products)[..., 1:, :].astype(start.dtype, copy=False)


def guessed_wide_sums(start: Values, a: Values, b: Values) -> Values:
    """The same in binary64, where a product has an error of its own.

    Wrong where adding the errors rounds to a midpoint, and where the product's error is not known.
    """
    products = a * b
    errors = product_error(a, b, products)
    # -0 is neutral in every sum
    errors = np.where(np.isfinite(errors) & (errors != 0), errors, -0.0)
    rows = [np.moveaxis(x, -2, -1).reshape(-1, a.shape[-2]).tolist() for x in (products, errors)]
    sums = [_compensated(*lane) for lane in zip(start.ravel().tolist(), *rows, strict=True)]
    return np.moveaxis(np.array(sums).reshape(*start.shape, -1), -1, -2)


def _compensated(total: float, products: list[float], errors: list[float]) -> list[float]:
    """One lane: Knuth's two-sum of total and product, whose errors are added before they are rounded away."""
    if not math.isfinite(total):
        return list(accumulate(products, initial=total))[1:]
    sums = []
    for product, error in zip(products, errors, strict=True):
        x = total + product
        part = x - total
        total = x + (((total - (x - part)) + (product - part)) + error)
        sums.append(total)
    return sums


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
