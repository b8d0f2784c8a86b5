"""Running error bounds of `any-order`: they hold for every order of every sum, with or without fused multiply-adds.

docs/theory/rounding.md#any-order states and proves what is computed here. In short: a sum of n terms x_i in [lo_i, hi_i]
is a tree of n - 1 additions. What any of them rounds is a sum over a subset of the terms plus earlier roundings, so at most
M + (n - 2) r in magnitude if each rounding is at most r, with M = max(sum max(hi_i, 0), -sum min(lo_i, 0)). Hence every
r >= h(M + (n - 2) r) will do, and h is a staircase of powers of two: the least such r is found in a few steps. Where there
is none, since n u is large, (n - 1) u sum |x_i| bounds the drift instead, for every n.

An elementwise product that feeds an addition may be fused with it as well. So the enclosure of a product holds both the
rounded and the unrounded one, and is not made of numbers of the format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import Format
from certify.arithmetic.enclosure import step_down, step_up
from certify.graph import Values
from certify.graph.chains import LANES_TOGETHER
from certify.rounding import compiled
from certify.rounding.local import ERROR, HIGH, LOW, TINY, UP, Formats, corners, magnitude, outward
from certify.rounding.region import Floats
from certify.rounding.running import Running

OPEN = 3
_STEPS = 4  # of the staircase: it takes two unless n u is near 1
_EPS = 2.0**-52
#: What `certify.rounding.loops` writes out.
_COMPILED = ("_products", "_product", "_rounding", "_half_ulp")


class EveryOrder(Running):
    """The arithmetic of the theorem. Values are arrays of shape (4, lanes): lo, hi, E, and 1 for what may be unrounded."""

    def compute_in(
        self, format: Format, left: Formats | None = None, right: Formats | None = None, products: bool = False
    ) -> None:
        """As `Local.compute_in`; a fused multiply-add may underflow."""
        super().compute_in(format, left, right, products)
        self._underflow = self.format.underflow

    def empty(self, n: int) -> Values:
        """Room for n values."""
        return np.empty((4, n))

    def enclose(self, lower: Floats, upper: Floats) -> Values:
        """As `Running.enclose`: numbers of the format."""
        return _flagged(super().enclose(lower, upper), 0.0)

    def mul(self, a: Values, b: Values) -> Values:
        """a b, rounded or not."""
        return _flagged(super().mul(a, b), 1.0)

    def scale(self, a: Values, exponent: int) -> Values:
        """a 2**exponent, rounded or not."""
        return _flagged(super().scale(a, exponent), 1.0 if exponent < 0 or not self._left_in else 0.0)

    def narrow(self, a: Values) -> Values:
        """An accumulator's total, rounded once to this format; or not, if it is a single product."""
        return _flagged(super().narrow(a), a[OPEN])

    def neg(self, a: Values) -> Values:
        """-a, exact."""
        return _flagged(super().neg(a), a[OPEN])

    def relu(self, a: Values) -> Values:
        """max(a, 0)."""
        return _flagged(super().relu(a), 0.0)

    def abs(self, a: Values) -> Values:
        """|a|: of a product as the product."""
        return _flagged(super().abs(a), a[OPEN])

    def select(self, p: Values, q: Values, x: Values, y: Values, strict: bool) -> Values:
        """Either of the two, rounded or not as they are."""
        return _flagged(super().select(p, q, x, y, strict), np.maximum(x[OPEN], y[OPEN]))

    def sum(self, a: Values, live: npt.NDArray[np.int64]) -> Values:
        """Sum of `a`, shape (3, ..., terms, lanes), over terms."""
        count = (magnitude(a) > 0).sum(axis=-2).astype(np.float64)
        ends = (a[LOW].sum(axis=-2), a[HIGH].sum(axis=-2))
        parts = (-np.minimum(a[LOW], 0.0).sum(axis=-2), np.maximum(a[HIGH], 0.0).sum(axis=-2))
        up = 1.0 + (2 * a.shape[-2] + 8) * 2.0**-53
        carried = a[ERROR].sum(axis=-2) * up
        unrounded = bool(a[OPEN].any())
        if not self._left_in or (unrounded and not self._uniform):
            # a term that may be no number of the format is rounded when a term that is 0 is added to it
            count = np.broadcast_to(np.maximum(live, 2).astype(np.float64), count.shape)
        # sums of numbers of the format do not underflow
        least = self.format.underflow if unrounded or not self._left_in else self._least
        return self._tree(ends, parts, count, a.shape[-2], carried, np.zeros(carried.shape), least)

    def dot(self, a: Values, b: Values, live: npt.NDArray[np.int64]) -> Values:
        """Matrix product of `a` (3, ..., terms, I) and `b` (3, ..., terms, J), lanes (3, ..., I J)."""
        size_a, size_b = magnitude(a), magnitude(b)
        terms = a.shape[-2]
        up = 1.0 + (2 * terms + 8) * 2.0**-53
        # magnitudes and errors are not negative: any order of these binary64 sums is covered by `up`
        across = size_a.swapaxes(-1, -2)
        reach = (across + a[ERROR].swapaxes(-1, -2)) * UP
        carried = (reach @ b[ERROR] + a[ERROR].swapaxes(-1, -2) @ size_b) * up + 2 * terms * TINY
        count = (across > 0).astype(np.float64) @ (size_b > 0).astype(np.float64)
        ends, parts, moved = self._products(a, b, size_a, size_b)
        least = self._least if self._products_exact else self.format.underflow
        result = self._tree(ends, parts, count, terms, carried, moved * up + terms * TINY * (moved > 0), least)
        return np.asarray(result.reshape((*result.shape[:-2], -1)))

    def _products(self, a: Values, b: Values, size_a: Floats, size_b: Floats) -> tuple[Any, Any, Floats]:
        """Sums over terms: of the ends of the unrounded products, of their parts of each sign, of their roundings."""
        product = self._product_in_loops()
        loops = compiled.loops_for(self, EveryOrder, _COMPILED, a[:3], b[:3]) if product else None
        if product and loops:
            sums = compiled.computed(loops.sums_of_products, 5, a[:3], b[:3], *product)
            if np.isfinite(sums).all():
                return sums[:2], sums[2:4], sums[4]
        terms, shape = a.shape[-2], (*a.shape[1:-2], a.shape[-1], b.shape[-1])
        together = max(1, LANES_TOGETHER // max(int(np.prod(shape)), 1))
        low, high, below, above, moved = (np.zeros(shape) for _ in range(5))
        for first in range(0, terms, together):
            part = slice(first, first + together)
            x, y = a[..., part, :, None], b[..., part, None, :]
            extremes = corners(x, y)
            local = self._product(size_a[..., part, :, None], size_b[..., part, None, :], extremes)[1]
            moved = _in_turn(moved, local)
            low, high = _in_turn(low, extremes[LOW]), _in_turn(high, extremes[HIGH])
            below = _in_turn(below, -np.minimum(extremes[LOW], 0.0))
            above = _in_turn(above, np.maximum(extremes[HIGH], 0.0))
        return (low, high), (below, above), moved

    def _tree(
        self, ends: Any, parts: Any, n: Floats, terms: int, carried: Floats, moved: Floats, least: float
    ) -> Values:
        """The sum of n terms x_i = q_i + rho_i, sum |rho_i| <= `moved`, from the sums over the q_i, which were computed from
        `terms` numbers in binary64; `least` bounds the rounding of an addition that underflows.
        """
        loss = (terms + 12) * _EPS  # relative, of every binary64 sum here
        total = parts[0] + parts[1] + moved
        rounded_products = self._double or self._rounded_twice
        slack = total * loss + (terms * TINY if rounded_products else 0.0)
        several, inner = n > 1, np.maximum(n - 2.0, 0.0)
        largest = np.maximum(*parts) + moved
        drift, linear = self._drift(largest, total, n, inner, loss, least)
        nearest = np.maximum(-ends[LOW], ends[HIGH]) + moved + drift
        # the lemma on h allows a share u / 2 of m to be left out
        beside = np.where(slack <= self.format.u / 4 * nearest, 0.0, slack)
        last = self._staircase((nearest + beside), loss, least)
        D = np.where(several, np.minimum(drift + last, linear) * UP, 0.0)
        reach = (slack + moved + D) * UP
        ends = outward(np.stack(ends)) if self._rounded_twice else ends
        outer = np.stack(
            [np.where(several, ends[LOW] - reach, ends[LOW]), np.where(several, ends[HIGH] + reach, ends[HIGH])]
        )
        rounded = self._round(outer)
        # a single term may be an unrounded product
        kept = np.where(several, rounded, self._kept(outer, rounded, largest > 0))
        top = np.where(several, (largest + drift) * (1.0 + loss), np.maximum(*parts))
        finite = np.isfinite(self.format.round(top))
        kept = np.where(finite, kept, np.array([-np.inf, np.inf]).reshape(2, *[1] * top.ndim))
        return _flagged(self._result(kept, top, (carried + moved + D) * UP), np.where(several, 0.0, 1.0))

    def _drift(
        self, largest: Floats, total: Floats, n: Floats, inner: Floats, loss: float, least: float
    ) -> tuple[Floats, Floats]:
        """Bounds of the roundings of all additions but the last, and of all: by the staircase, and (n - 1) u sum |x_i|."""
        r = self._staircase(largest, loss, least)
        for _ in range(_STEPS):
            before, r = r, self._staircase(largest + inner * r, loss, least)
        linear = np.maximum(n - 1.0, 0.0) * (self.format.u * total + n * least) * (1.0 + 2 * loss) + TINY
        return np.minimum(np.where(r == before, inner * r, np.inf), linear), linear

    def _staircase(self, m: Floats, loss: float, least: float) -> Floats:
        """How far any number of magnitude at most m (1 + loss) is rounded at most."""
        if loss > self.format.u / 4:
            m = m * (1.0 + loss) * UP
        if least == 0:
            return np.asarray(self._half_ulp(m) * (m > self._exact_sums))
        return np.maximum(self._half_ulp(m), np.minimum(least, m))

    def _sum(self, a: Values, b: Values) -> tuple[Values, Floats, Floats]:
        ends, m, local = super()._sum(a, b)
        if not self._double:
            # ends of unrounded products: their sum would be rounded twice
            ends = outward(ends)
        return ends, m, local

    def _replacing(
        self, x: Values, y: Values, difference: Values
    ) -> tuple[Floats, tuple[Values, Floats, Floats], Floats | float]:
        first, (ends, m, second), _ = super()._replacing(x, y, difference)
        # where x or y may be unrounded, the sums are of any numbers; and x may be rounded in one of them only
        before = outward(y[:2] + self.neg(x)[:2])
        first = np.where((x[OPEN] > 0) | (y[OPEN] > 0), self._rounding(before, magnitude(before)), first)
        around = outward(ends) if self._double else ends  # of binary64 they have been rounded to nearest
        second = np.where(x[OPEN] > 0, self._rounding(around, magnitude(around)), second)
        apart = np.where(x[OPEN] > 0, self._rounding(x[:2], magnitude(x)), 0.0)
        return first, (ends, m, second), apart

    def _result(self, ends: Values, m: Floats, error: Floats) -> Values:
        return _flagged(super()._result(ends, m, error), 0.0)

    def _kept(self, ends: Values, rounded: Values, moves: Any) -> Values:
        # both the rounded and the unrounded number
        low, high = np.minimum(ends[LOW], rounded[LOW]), np.maximum(ends[HIGH], rounded[HIGH])
        if self._double:  # the ends have been rounded to nearest already
            low, high = np.where(moves, step_down(low), low), np.where(moves, step_up(high), high)
        return np.stack([low, high])


def _in_turn(total: Floats, terms: Floats) -> Floats:
    """total + terms, shape (..., terms, I, J), one after the other, as compiled loops add them."""
    if terms.shape[-3] == 1:
        return np.asarray(total + terms[..., 0, :, :])
    every = np.concatenate([total[..., None, :, :], terms], axis=-3)
    return np.asarray(np.add.accumulate(every, axis=-3)[..., -1, :, :])


def _flagged(values: Values, flag: Any) -> Values:
    """Values of three or four rows with `flag` as the fourth."""
    return np.concatenate([values[:OPEN], np.broadcast_to(flag, values[:1].shape)])
