"""How far one operation rounds at most: the local terms of the running bounds (docs/theory/rounding.md, the model).

h(m) = u 2**(ceil(log2 m) - 1) is half the spacing of the format just below m. A number of magnitude at most m is rounded
by at most max(h(m), omega), and by at most its distance to any number of the format: 0, or an operand of a sum. Sums of
numbers of the format are multiples of 2 omega, so they are exact up to 2**(emin + 1). With flushing, a result may also
move by its whole magnitude, if that is at most 2**emin.

m is rounded to nearest. Below p = 51 that is harmless: if fl64(m) is a power of two s < m then y in (s, m] rounds to s in
the format, moving by m - s <= 2**-53 s < h(s); otherwise m and fl64(m) share a binade. For binary64 the lanes where fl64(m)
is a power of two are settled by the exact error of m (`certify.arithmetic.errorfree`).

An instruction with a format of its own may have operands that are no numbers of it (docs/theory/rounding.md, own formats). Then
the terms that rest on an operand's being one are left out, and ends are rounded once, or outward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from certify.arithmetic import Format
from certify.arithmetic.accumulators import products_are_exact
from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.errorfree import product_exceeds, sum_error, sum_to_odd
from certify.graph import Values
from certify.rounding.region import Floats

Formats = tuple[Format, ...]

LOW, HIGH, ERROR = 0, 1, 2
UP = 1.0 + 2.0**-50
TINY = 2.0**-1073
EXPONENT = np.int64(0x7FF0000000000000)
MANTISSA = np.int64(0x000FFFFFFFFFFFFF)


class Local:
    """The local terms of a format. Enclosures are arrays of shape (2 or more, lanes) that begin with lo, hi."""

    def __init__(self, format: Format) -> None:
        self.compute_in(format)

    def compute_in(
        self, format: Format, left: Formats | None = None, right: Formats | None = None, products: bool = False
    ) -> None:
        """Round to `format`; operands are numbers of one of the formats `left` and `right`, by default of the same format.

        With `products`, sums are of rounded products, which are numbers of the format whatever the operands.
        """
        # a saturated result has an unbounded error: to the bounds it is an overflow like any other
        self.format = format.unbounded
        self._double = format.precision == 53
        self._exact_sums = float(np.ldexp(1.0, format.emin + 1))
        self._least = format.min_normal if format.flush else 0.0  # results below it become 0
        self._underflow = self._least  # how far a sum that underflows is rounded at most
        self._left, self._right = (format,) if left is None else left, (format,) if right is None else right
        self._sums_products = products
        self._left_in = products or all(format.contains(f) for f in self._left)
        self._right_in = products or all(format.contains(f) for f in self._right)
        self._uniform = all(f.unbounded == self.format for f in (*self._left, *self._right))
        pairs = [(f, g) for f in self._left for g in self._right]
        self._products_round = any(f.precision + g.precision > format.precision for f, g in pairs)
        self._products_exact = all(products_are_exact(f, g, format) for f, g in pairs)
        # products, quotients and roots of binary64 numbers are rounded before the format rounds them
        self._rounded_twice = not self._double and any(f.precision == 53 for f in (*self._left, *self._right))

    def _product_in_loops(self) -> tuple[float, float, float, bool] | None:
        """What compiled loops are told of `_product`: u, omega, whether products round, binary64; None if that is not all."""
        if self._least or self._rounded_twice:
            return None
        if self._products_round or not (self._products_exact or self._double):
            return self.format.u, self.format.omega, float(self._products_round), self._double
        return (self.format.u, 0.0, 0.0, self._double) if self._products_exact else None

    def _sum(self, a: Values, b: Values) -> tuple[Values, Floats, Floats]:
        """The ends of a + b rounded to binary64, m, and min(h(m), |a|, |b|)."""
        if not (self._left_in and self._right_in):
            return self._sum_of_any(a, b)
        ends = a[:2] + b[:2]
        m = np.maximum(-ends[LOW], ends[HIGH])
        half = self._half_ulp(m)
        if self._double:
            settle(half, m, lambda lanes: sum_exceeds(a, b, ends, lanes))
        else:
            half *= m > self._exact_sums
        local = np.minimum(half, magnitude(a), out=half)
        local = np.minimum(local, magnitude(b), out=local)
        return ends, m, np.maximum(local, self._flushed(ends, m)) if self._least else local

    def _sum_of_any(self, a: Values, b: Values) -> tuple[Values, Floats, Floats]:
        """As `_sum` where an operand may be no number of the format: sums may underflow, and ends are rounded to odd."""
        ends = a[:2] + b[:2] if self._double else sum_to_odd(a[:2], b[:2])
        m = np.maximum(-ends[LOW], ends[HIGH])
        local = self._half_ulp(m)
        if self._double:
            settle(local, m, lambda lanes: sum_exceeds(a, b, ends, lanes))
        else:
            local = np.minimum(np.maximum(local, self.format.omega), m)
        # y moves by at most its distance |a| to a number b
        local = np.minimum(local, magnitude(a)) if self._right_in else local
        local = np.minimum(local, magnitude(b)) if self._left_in else local
        return ends, m, np.maximum(local, self._flushed(ends, m)) if self._least else local

    def _product(self, size_a: Floats, size_b: Floats, ends: Values) -> tuple[Floats, Floats]:
        """m = |a| |b| rounded to binary64, and how far the product is rounded at most."""
        m = size_a * size_b
        if not self._products_round:
            local = np.minimum(0.0 if self._products_exact else self.format.omega, m)
            return m, np.maximum(local, self._flushed(ends, m)) if self._least else local
        if self._rounded_twice:
            return m, self._rounding(ends, m + TINY) * ((size_a > 0) & (size_b > 0))
        if not self._double:
            return m, self._rounding(ends, m)
        local = np.maximum(self._half_ulp(m), self.format.omega)
        x, y = np.broadcast_arrays(size_a, size_b)
        settle(local, m, lambda lanes: product_exceeds(x[lanes], y[lanes], m[lanes]))
        if self._least:
            local = np.maximum(local, self._flushed(ends, np.maximum(m, TINY)))
        return m, local * ((size_a > 0) & (size_b > 0))

    def _rounding(self, ends: Values, m: Floats) -> Floats:
        """min(max(h(m), omega), m): how far a number between `ends`, whose magnitudes are m, is rounded at most."""
        local = np.minimum(np.maximum(self._half_ulp(m), self.format.omega), m)
        return np.maximum(local, self._flushed(ends, m)) if self._least else local

    def _flushed(self, ends: Values, m: Floats) -> Floats:
        """How far flushing moves a number between `ends`: not at all if they are beyond the smallest normal number."""
        near = (ends[LOW] <= self._least) & (ends[HIGH] >= -self._least)
        return np.asarray(np.minimum(m, self._least) * near)

    def _round(self, ends: Values) -> Values:
        """The ends of what rounds from between `ends`, shape (2, lanes)."""
        return self._inward(self.format.round(ends))

    def _inward(self, ends: Values) -> Values:
        """With flushing, an end at the smallest normal number moves to 0: hardware may flush before it rounds."""
        if self._least:
            low = np.where((ends[LOW] > 0) & (ends[LOW] <= self._least), 0.0, ends[LOW])
            high = np.where((ends[HIGH] < 0) & (ends[HIGH] >= -self._least), 0.0, ends[HIGH])
            ends = np.stack([low, high])
        return ends

    def _kept(self, ends: Values, rounded: Values, moves: Any) -> Values:
        """The enclosure of a product or a scaling, from its ends before and after rounding."""
        return rounded

    def _half_ulp(self, m: Floats) -> Floats:
        """h(m) for m >= 0 as binary64: u times the largest power of two below m, 0 for m = 0 and for underflow."""
        bits = np.maximum(m.view(np.int64), 1)
        bits -= 1
        bits &= EXPONENT
        half = bits.view(np.float64)
        half *= self.format.u
        return half


def magnitude(a: Values) -> Floats:
    """max |x^| over the enclosure."""
    size = np.negative(a[LOW])
    return np.asarray(np.maximum(size, a[HIGH], out=size))


def outward(ends: Values) -> Values:
    """One binary64 number further, at both ends: around what was rounded to nearest."""
    return np.stack([step_down(ends[LOW]), step_up(ends[HIGH])])


def corners(a: Values, b: Values) -> Values:
    """The extremes of the product over the corners, shape (2, lanes), each rounded once to binary64."""
    if (a[LOW] == a[HIGH]).all():
        return _least_and_largest([a[LOW] * b[LOW], a[LOW] * b[HIGH]])
    if (b[LOW] == b[HIGH]).all():
        return corners(b, a)
    return _least_and_largest([a[LOW] * b[LOW], a[LOW] * b[HIGH], a[HIGH] * b[LOW], a[HIGH] * b[HIGH]])


def _least_and_largest(products: list[Floats]) -> Values:
    """Shape (2, lanes); written in place, for large arrays cost what their memory does."""
    ends = np.empty((2, *products[0].shape))
    np.minimum(products[0], products[1], out=ends[LOW])
    np.maximum(products[0], products[1], out=ends[HIGH])
    for product in products[2:]:
        np.minimum(ends[LOW], product, out=ends[LOW])
        np.maximum(ends[HIGH], product, out=ends[HIGH])
    return ends


def settle(half: Floats, m: Floats, exceeds: Callable[[Any], Any]) -> None:
    """Double half an ulp, in place, in the lanes where m was rounded down to a power of two."""
    bits = m.view(np.int64)
    at_power = (bits & MANTISSA) == 0
    if at_power.any():
        lanes = np.nonzero(at_power)
        half[lanes] *= np.where(exceeds(lanes), 2.0, 1.0)


def sum_exceeds(a: Values, b: Values, ends: Values, lanes: Any) -> Any:
    """Whether the exact ends of a + b stick out of the rounded ones, in the given lanes."""
    index = (slice(None), *lanes)
    x, y = (np.broadcast_to(v[:2], ends.shape)[index] for v in (a, b))
    error = sum_error(x, y, ends[index])
    return (error[LOW] < 0) | (error[HIGH] > 0)
