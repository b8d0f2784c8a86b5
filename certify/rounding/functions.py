"""Running bounds of quotients, roots, library functions, maxima and selections (proofs: docs/theory/functions.md#running).

With x^ in [lo, hi] computed, x exact and |x^ - x| <= E, q = |a^ / b^| at most, e(.) the rounding of the operation:

    a / b        E = (E_a + q E_b) / (min |b^| - E_b) + e           refused unless min |b^| > E_b
    sqrt a       E = min(E_a / (sqrt lo + sqrt(lo - E_a)), sqrt E_a) + e        refused unless lo >= E_a, or a is no negative
    exp a        E = min(e^hi (e^E_a - 1), e^(hi + E_a)) + e
    log a        E = E_a / (lo - E_a) + e                           refused unless lo > E_a
    tanh a       E = min(s E_a, 2) + e       s = 1 - tanh(mu)^2
    sigmoid a    E = min(s E_a, 1) + e       s = w / (1 + w)^2, w = e^-mu;    mu = the distance of [lo - E_a, hi + E_a] from 0
    max(a, b)    E = max(E_a, E_b), or that of the one proved larger
    |a|          E = E_a
    x if p <= q else y      E of the one proved chosen, or max(E_x, E_y) + the largest distance of x^ and y^

A quotient or a root is correctly rounded: e = min(max(h(m), omega), m). A library's function is within U ulps of the exact
one, so e = U ulp(m), and its ends are the extremes of y -+ U ulp(y) over the enclosure of the exact function; no
monotonicity is assumed. A refused lane has infinite bounds, so that the range test finds it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import Format
from certify.arithmetic.elementary import between, grown
from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.libm import CORRECT, ONE_ULP, Libm
from certify.graph import Values
from certify.rounding.local import ERROR, EXPONENT, HIGH, LOW, MANTISSA, TINY, UP, Local, magnitude, outward
from certify.rounding.region import Floats

Mask = npt.NDArray[np.bool_]
_SAFE = 2.0**-960
_FAR = 500.0
RANGES = {"exp": (0.0, np.inf), "log": (-np.inf, np.inf), "tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0)}


class Functions(Local):
    """The rules, for an arithmetic whose values are arrays of shape (3 or more, lanes): lo, hi, E."""

    def __init__(self, format: Format, libm: Libm = ONE_ULP) -> None:
        super().__init__(format)
        self.libm = libm

    def _result(self, ends: Values, m: Floats, error: Floats) -> Values:
        raise NotImplementedError

    def div(self, a: Values, b: Values) -> Values:
        """fl(a / b)."""
        size, away = magnitude(a), np.maximum(b[LOW], -b[HIGH])
        good = away > b[ERROR]
        away = np.where(good, away, 1.0)
        nearest = np.where(b[ERROR] == 0, away, step_down(away - b[ERROR]))
        good &= nearest > 0
        nearest = np.where(good, nearest, 1.0)
        ends = _quotients(a, np.where(good, b[:2], 1.0))
        m = magnitude(ends)
        # a power of two times a number is exact
        product = m * away
        exceeds = ~((product > _SAFE) & np.isfinite(product)) | (size > product)
        local = self._correct(ends, m, exceeds) * (size > 0)
        ends = outward(ends) if self._rounded_twice else ends
        carried = a[ERROR] + np.where(b[ERROR] == 0, 0.0, m * UP * b[ERROR] + 2 * TINY)
        error = np.where(carried == 0, 0.0, carried * UP / nearest * UP + TINY)
        return self._only(good, self._round(ends), m, (error + local) * UP)

    def sqrt(self, a: Values, nonnegative: Mask) -> Values:
        """fl(sqrt(a)), where the lanes `nonnegative` are known not to be negative, computed and exact."""
        low = np.where(nonnegative, np.maximum(a[LOW], 0.0), a[LOW])
        good = (low >= a[ERROR]) | (nonnegative & (low >= 0))
        roots = ends = np.sqrt(np.where(good, np.stack([low, np.maximum(a[HIGH], low)]), 1.0))
        m = ends[HIGH]
        local = self._correct(ends, m, a[HIGH] > m * m) * (m > 0)
        ends = outward(ends) if self._rounded_twice else ends
        below = np.sqrt(np.maximum(low - a[ERROR], 0.0))
        slope = np.where(roots[LOW] + below > 0, a[ERROR] / (roots[LOW] + below), np.inf)
        carried = np.where(a[ERROR] == 0, 0.0, np.minimum(slope, np.sqrt(a[ERROR])) * UP + TINY)
        return self._only(good, self._round(ends), m, (carried + local) * UP)

    def exp(self, a: Values) -> Values:
        """The exponential of a, by the library."""
        good = np.isfinite(a[LOW]) & np.isfinite(a[HIGH]) & np.isfinite(a[ERROR])
        low, high, error = (np.where(good, row, 0.0) for row in a[:3])
        exact = between("exp", low, high)
        carried = np.where(error == 0, 0.0, exact[HIGH] * grown(error) * UP + TINY)
        if (error > _FAR).any():
            top = step_up(high + error)
            far = between("exp", np.zeros_like(top), np.where(np.isfinite(top), np.maximum(top, 0.0), 1e308))[HIGH]
            small = between("exp", np.minimum(top, 0.0), np.minimum(top, 0.0))[HIGH]
            carried = np.fmin(carried, np.where(top > 0, far, small) * UP)
        return self._library("exp", exact, good, carried)

    def log(self, a: Values) -> Values:
        """The natural logarithm of a, by the library."""
        good = (a[LOW] > a[ERROR]) & np.isfinite(a[HIGH])
        low, high, error = (np.where(good, row, other) for row, other in zip(a[:3], (1.0, 1.0, 0.0), strict=True))
        nearest = np.where(error == 0, low, step_down(low - error))
        good &= nearest > 0
        carried = np.where(error == 0, 0.0, error / np.where(good, nearest, 1.0) * UP + TINY)
        return self._library("log", between("log", low, high), good, carried)

    def tanh(self, a: Values) -> Values:
        """The hyperbolic tangent of a, by the library."""
        good, low, high, error, apart = _sloped(a)
        t = np.maximum(between("tanh", apart, apart)[LOW], 0.0)
        slope = np.minimum((1.0 - t) * (1.0 + t) * UP, 1.0)
        carried = np.where(error == 0, 0.0, np.minimum(slope * error * UP + TINY, 2.0))
        return self._library("tanh", between("tanh", low, high), good, carried)

    def sigmoid(self, a: Values) -> Values:
        """1 / (1 + exp(-a)), by the library."""
        good, low, high, error, apart = _sloped(a)
        w = np.minimum(between("exp", -apart, -apart)[HIGH], 1.0)
        slope = np.minimum(w / ((1.0 + w) * (1.0 + w)) * UP + TINY, 0.25)
        carried = np.where(error == 0, 0.0, np.minimum(slope * error * UP + TINY, 1.0))
        return self._library("sigmoid", between("sigmoid", low, high), good, carried)

    def max(self, a: Values, b: Values) -> Values:
        """The larger of the two, exact."""
        ends = np.maximum(a[:2], b[:2])
        reach = _reach(a, b)
        first, second = a[LOW] - b[HIGH] >= reach, b[LOW] - a[HIGH] >= reach
        error = np.where(first, a[ERROR], np.where(second, b[ERROR], np.maximum(a[ERROR], b[ERROR])))
        return self._result(ends, magnitude(ends), error)

    def abs(self, a: Values) -> Values:
        """|a|, exact."""
        size = magnitude(a)
        return self._result(np.stack([np.maximum(np.maximum(a[LOW], -a[HIGH]), 0.0), size]), size, a[ERROR])

    def select(self, p: Values, q: Values, x: Values, y: Values, strict: bool) -> Values:
        """X where p <= q (or p < q), else y; the computed and the exact program decide each by itself."""
        above, below = q[LOW] - p[HIGH], p[LOW] - q[HIGH]  # the sign of a difference of binary64 numbers is exact
        reach = _reach(p, q)
        if strict:
            holds, fails, chosen, left = above > reach, below >= reach, above > 0, below >= 0
        else:
            holds, fails, chosen, left = above >= reach, below > reach, above >= 0, below > 0
        low = np.where(chosen, x[LOW], np.where(left, y[LOW], np.minimum(x[LOW], y[LOW])))
        high = np.where(chosen, x[HIGH], np.where(left, y[HIGH], np.maximum(x[HIGH], y[HIGH])))
        jump = np.maximum(np.maximum(x[HIGH] - y[LOW], y[HIGH] - x[LOW]), 0.0)
        either = (jump + np.maximum(x[ERROR], y[ERROR])) * UP
        error = np.where(holds, x[ERROR], np.where(fails, y[ERROR], either))
        ends = np.stack([low, high])
        return self._result(ends, magnitude(ends), error)

    def _correct(self, ends: Values, m: Floats, exceeds: Any) -> Floats:
        """How far a correctly rounded result between `ends` is rounded at most; m is their magnitude rounded to nearest, which
        matters in binary64 where it is a power of two and the exact one `exceeds` it.
        """
        if not self._double:
            return self._rounding(ends, m + TINY if self._rounded_twice else m)
        half = self._half_ulp(m) * np.where(((m.view(np.int64) & MANTISSA) == 0) & exceeds, 2.0, 1.0)
        local = np.maximum(half, self.format.omega)
        # a magnitude below the normal numbers is rounded by more than the factor UP covers
        return np.maximum(local, self._flushed(ends, m + TINY)) if self._least else local

    def _library(self, name: str, exact: Values, good: Mask, carried: Floats) -> Values:
        """What the library returns where the exact function is between the rows of `exact`."""
        m, ulps = magnitude(exact), self.libm.of(name, self.format)
        if ulps == CORRECT:
            local = self._rounding(exact, m)
            return self._only(good, self._round(exact), m, (carried + local) * UP)
        least, largest = RANGES[name]
        low = np.maximum(self._lowest(exact[LOW], exact[HIGH], ulps), least)
        high = np.minimum(-self._lowest(-exact[HIGH], -exact[LOW], ulps), largest)
        ends = np.stack([low, high])
        local = self._spread(m, ulps)
        if self._least:
            local = local + self._flushed(ends, magnitude(ends))
        return self._only(good, self._round(ends), magnitude(ends), (carried + local) * UP)

    def _lowest(self, low: Floats, high: Floats, ulps: float) -> Floats:
        """The least y - U ulp(y) for low <= y <= high, rounded to nearest: no number of the format is between."""
        size = np.abs(low)
        at = low - self._spread(size, ulps)
        # y - U ulp(y) drops where y reaches a power of two, and is larger at the later ones
        power = 2.0 * self._power(size)
        drop = power - self._spread(power, ulps)
        return np.where((low >= 0) & (power <= high), np.minimum(at, drop), at)

    def _spread(self, size: Floats, ulps: float) -> Floats:
        """U ulp(y) for y = size >= 0, exact or rounded up."""
        ulp = self._power(size) * (2.0 * self.format.u)
        return np.asarray(ulp * (np.where(ulp < 2.0**-1000, np.ceil(ulps), ulps) if self._double else ulps))

    def _power(self, size: Floats) -> Floats:
        """The largest power of two that is at most `size`, or the smallest normal number."""
        bits = np.asarray(size).view(np.int64) & EXPONENT
        return np.asarray(np.maximum(bits.view(np.float64), self.format.min_normal))

    def _only(self, good: Mask, ends: Values, m: Floats, error: Floats) -> Values:
        """Infinite bounds in the other lanes: the operation is refused there."""
        bad = ~good
        if bad.any():
            ends = np.where(bad, np.array([-np.inf, np.inf]).reshape(2, *[1] * m.ndim), ends)
            m, error = np.where(bad, np.inf, m), np.where(bad, np.inf, error)
        return self._result(ends, m, error)


def _quotients(a: Values, b: Values) -> Values:
    p, q, r, s = a[LOW] / b[LOW], a[LOW] / b[HIGH], a[HIGH] / b[LOW], a[HIGH] / b[HIGH]
    return np.stack([np.minimum(np.minimum(p, q), np.minimum(r, s)), np.maximum(np.maximum(p, q), np.maximum(r, s))])


def _reach(a: Values, b: Values) -> Floats:
    """E_a + E_b, with room for the rounding of what it is compared with; NaN, which decides nothing, if that is not finite."""
    reach = (a[ERROR] + b[ERROR]) * UP * UP
    return np.where(np.isfinite(reach), reach, np.nan)


def _sloped(a: Values) -> tuple[Mask, Floats, Floats, Floats, Floats]:
    """Which lanes are finite; lo, hi, E there; and how far computed and exact value are from 0 at least."""
    good = np.isfinite(a[LOW]) & np.isfinite(a[HIGH])
    low, high = (np.where(good, row, 0.0) for row in a[:2])
    error = np.where(good, a[ERROR], 0.0)
    apart = np.maximum(step_down(low - error), step_down(-high - error))
    return good, low, high, error, np.where(apart > 0, apart, 0.0)
