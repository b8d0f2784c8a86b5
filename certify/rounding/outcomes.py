"""Running bounds that hold for every outcome of stochastic rounding (docs/theory/probable.md#outcomes).

A result y becomes one of its two neighbours in the format, so it moves by less than their distance, where rounding to nearest
moves it by at most half of that. Rules differ from `certify.rounding.running` in three ways:

- lo is rounded down and hi up: the neighbours of a number between lo and hi lie between these;
- local terms are full spacings, 2 h(m) and at least the smallest subnormal number, and never the distance to a particular
  number such as 0 or an operand, which stochastic rounding need not choose;
- overwriting, `x + (y - x)`, is an addition like any other.

Sums of numbers of the format that are exact stay exact, and so do additions of 0. Inputs and constants are converted to
nearest, and a library's functions are within their ulps whatever they draw.
"""

from __future__ import annotations

import numpy as np

from certify.arithmetic import Format
from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.errorfree import sum_error, sum_to_odd
from certify.arithmetic.libm import ONE_ULP, Libm
from certify.arithmetic.stochastic import neighbours, refuse
from certify.graph import Values
from certify.rounding.local import ERROR, HIGH, LOW, TINY, UP, corners, magnitude, outward
from certify.rounding.region import Floats
from certify.rounding.running import Running


class EveryOutcome(Running):
    """The arithmetic of the theorem: values of shape (3, lanes), lo, hi, E. Of one format; the orders are those of programs.

    Raises
    ------
    InputRejected : the format flushes to zero, which is biased.
    """

    def __init__(self, format: Format, libm: Libm = ONE_ULP) -> None:
        if format.flush:
            refuse(f"{format.name}, which flushes to zero")
        super().__init__(format, libm)
        self._nearest = Running(format, libm)
        self._rounded_twice = True  # quotients and roots are rounded in binary64 before anything else: ends go outward

    @property
    def largest_result(self) -> float:
        """What no operation's result exceeds in magnitude, rounded up."""
        return float(self._round(np.array([-self.peak, self.peak]))[HIGH])

    def enclose(self, lower: Floats, upper: Floats) -> Values:
        """Inputs anywhere in [lower, upper], converted to nearest."""
        return self._nearest.enclose(lower, upper)

    def chains(self, lanes: int) -> bool:
        """Whether sums are bounded many terms at once: no."""
        return False

    def overwrite(self, x: Values, y: Values, difference: Values) -> Values:
        """The rounded x + difference, whose two roundings are drawn apart."""
        return self.add(x, difference)

    def mul(self, a: Values, b: Values) -> Values:
        """A product: exact in binary64 before it is rounded, or enclosed."""
        size_a, size_b = magnitude(a), magnitude(b)
        ends = corners(a, b)
        m, local = self._product(size_a, size_b, ends)
        if self._double:
            ends = outward(ends) * ((size_a > 0) & (size_b > 0))
        error = ((size_a + a[ERROR]) * b[ERROR] + size_b * a[ERROR] + local) * UP + TINY
        return self._result(self._round(ends), m, error)

    def scale(self, a: Values, exponent: int) -> Values:
        """The rounded a 2**exponent: exact unless it may underflow."""
        self.format.check_scale(exponent)
        ends = np.ldexp(a[:2], exponent)
        exact = np.ldexp(ends, -exponent) == a[:2]
        rounded = self._round(np.where(exact, ends, outward(ends)))
        local = np.zeros(ends.shape[1:])
        if exponent < 0:
            least = np.ldexp(self.format.min_normal, -exponent)
            point = (rounded[LOW] == rounded[HIGH]) & (a[LOW] == a[HIGH])
            moves = ~((a[LOW] >= least) | (a[HIGH] <= -least) | point)
            local = moves * self.format.min_subnormal
        error = (np.ldexp(a[ERROR], exponent) + local) * UP + TINY * (a[ERROR] > 0)
        return self._result(rounded, magnitude(ends), error)

    def _sum(self, a: Values, b: Values) -> tuple[Values, Floats, Floats]:
        """The ends of a + b, outward or to odd; m; and the spacing below m, unless the sum is exact."""
        if self._double:
            near = a[:2] + b[:2]
            error = sum_error(a[:2], b[:2], near)
            low = np.where(error[LOW] < 0, step_down(near[LOW]), near[LOW])
            ends = np.stack([low, np.where(error[HIGH] > 0, step_up(near[HIGH]), near[HIGH])])
        else:
            ends = sum_to_odd(a[:2], b[:2])
        m = magnitude(ends)
        rounds = (m > self._exact_sums) & (magnitude(a) > 0) & (magnitude(b) > 0)
        return ends, m, 2.0 * self._half_ulp(m) * rounds

    def _product(self, size_a: Floats, size_b: Floats, ends: Values) -> tuple[Floats, Floats]:
        m = np.asarray(size_a * size_b)  # exact, or one step more
        m = step_up(m) if self._double else m
        return m, self._spacing(m) * ((size_a > 0) & (size_b > 0))

    def _rounding(self, ends: Values, m: Floats) -> Floats:
        return self._spacing(m) * (m > 0)

    def _correct(self, ends: Values, m: Floats, exceeds: object) -> Floats:
        return self._spacing(step_up(m))

    def _spacing(self, m: Floats) -> Floats:
        """The largest distance between neighbours around a number of magnitude at most m."""
        return np.asarray(np.maximum(2.0 * self._half_ulp(m), self.format.min_subnormal))

    def _round(self, ends: Values) -> Values:
        """Lo rounded down and hi up; in binary64 they are already."""
        if self._double:
            return ends
        low, high = neighbours(self.format, ends[LOW])[0], neighbours(self.format, ends[HIGH])[1]
        # nearest is exact but for what passes the largest number
        rounded = self.format.round(np.stack([low, high]))
        return np.where(np.isfinite(ends), rounded, ends)


class Squares(EveryOutcome):
    """The same, but a rounding in a sum or a product counts with the square of its local term c, in a unit.

    Then E of a sum of products of terms without an error is at least the sum of (c / unit)^2 over its roundings: for such terms
    the rules add local terms and nothing else, and round up. A ratio that underflows has a square below 2**-1073.
    """

    def __init__(self, like: EveryOutcome, unit: float) -> None:
        super().__init__(like.format, like.libm)
        self._unit = unit  # a power of two

    def _sum(self, a: Values, b: Values) -> tuple[Values, Floats, Floats]:
        ends, m, local = super()._sum(a, b)
        return ends, m, self._square(local)

    def _product(self, size_a: Floats, size_b: Floats, ends: Values) -> tuple[Floats, Floats]:
        m, local = super()._product(size_a, size_b, ends)
        return m, self._square(local)

    def _square(self, local: Floats) -> Floats:
        ratio = local / self._unit
        return np.asarray(ratio * ratio + TINY * (local > 0))
