"""Stochastic rounding, emulated with exact probabilities: every run computes other floats.

A number y between two neighbours lo < hi of the format becomes hi with probability (y - lo) / (hi - lo) and lo otherwise, so
that the result is y on average; numbers of the format stay. Each operation draws by itself.

**Theorem (exact probabilities).** Let U be uniform on [0, 1), known to lie in [k 2**-53, (k + 1) 2**-53) with k drawn, and let
q be within t of the share (y - lo) / (hi - lo). If k 2**-53 is farther than t + 2**-53 from q, U is on the same side of the
share as k 2**-53 is of q. In the other lanes rationals compare, and more bits of U are drawn until they decide. So the result
is hi with the probability of U < share, exactly, but for the generator's own quality. QED

For p <= 24 q comes from y rounded to odd in binary64, which keeps lo and hi and is within 2**-52 |y| of y: t = 2**-28. In
binary64 sums have their exact error (`certify.arithmetic.errorfree`), of which q is a quotient rounded once; other operations
are decided in rationals lane by lane, slowly.

Inputs and constants are converted to nearest; exp, log, tanh and sigmoid are correctly rounded: a library draws nothing. What
rounds to more than the largest number overflows as the format says. Sources: Croci et al., "Stochastic rounding:
implementation, error analysis and applications", Royal Society Open Science 9 (2022).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.errorfree import product_is_exact, quotient_to_odd, root_to_odd, sum_error, sum_to_odd
from certify.arithmetic.formats import Floats, Format
from certify.arithmetic.ieee import Ieee
from certify.errors import InputRejected
from certify.graph import FormatNames, Op, Values

_DRAWN = Fraction(1, 1 << 53)
_NEAR, _NEAR_WIDE = 2.0**-25, 2.0**-40
_EXPONENT = np.int64(0x7FF0000000000000)

#: The sign of y - t for a rational t, where y is the exact result of an operation.
Sign = Callable[[Fraction], int]


def neighbours(format: Format, x: Floats) -> tuple[Floats, Floats, Floats]:
    """The numbers around x of a format with p <= 24, the same twice if x is one, and (x - lo) / (hi - lo) or 0, exact.

    Exponents are not limited above: numbers beyond the largest are neighbours like any other. Of an infinity or a NaN the
    result says nothing.
    """
    finite = np.isfinite(x)
    x = np.where(finite, x, 0.0)
    power = np.maximum((x.view(np.int64) & _EXPONENT).view(np.float64), format.min_normal)
    quantum = power * (2.0 * format.u)
    steps = x / quantum  # by a power of two: exact, for exponents within +-400
    below = np.floor(steps)
    return below * quantum, np.ceil(steps) * quantum, steps - below


class Stochastic(Ieee):
    """The arithmetic of a format with stochastic rounding. Values are binary64 arrays of shape (runs, lanes).

    Parameters
    ----------
    format : one without flushing, which is biased.
    seed : of the generator, or the generator. The same seed draws the same roundings.
    runs : how many runs to compute at once, each with roundings of its own.

    Raises
    ------
    InputRejected : the format flushes, or a program has fused operations, accumulators or several formats.
    """

    def __init__(self, format: Format, seed: int | np.random.Generator, runs: int = 1) -> None:
        if format.flush:
            refuse(f"{format.name}, which flushes to zero")
        super().__init__(format)
        self._dtype = np.float64
        self._wide = format.precision == 53
        self._runs = runs
        self._rng = np.random.default_rng(seed)

    def empty(self, n: int) -> Values:
        """Room for n values of every run."""
        return np.empty((self._runs, n))

    def chains(self, lanes: int) -> bool:
        """Whether sums are computed many terms at once: no, every addition draws."""
        return False

    def add(self, a: Values, b: Values) -> Values:
        """a + b, rounded stochastically."""
        a, b = np.broadcast_arrays(a, b)
        signs = _signs(lambda x, y: x + y, a, b)
        if not self._wide:
            return self._rounded(sum_to_odd(a, b), signs)
        near = np.asarray(a + b)
        error = sum_error(a, b, near)
        lo, hi = np.where(error < 0, step_down(near), near), np.where(error > 0, step_up(near), near)
        gap = np.where(hi > lo, hi - lo, 1.0)
        share = np.where(error < 0, 1.0 + error / gap, error / gap)
        return np.where(np.isfinite(near), self._drawn(lo, hi, share, _NEAR_WIDE, signs), near)

    def sub(self, a: Values, b: Values) -> Values:
        """a - b, rounded stochastically."""
        return self.add(a, -b)

    def mul(self, a: Values, b: Values) -> Values:
        """a b, rounded stochastically."""
        a, b = np.broadcast_arrays(a, b)
        product, signs = np.asarray(a * b), _signs(lambda x, y: x * y, a, b)
        return self._slowly(product, product_is_exact(a, b), signs) if self._wide else self._rounded(product, signs)

    def div(self, a: Values, b: Values) -> Values:
        """a / b, rounded stochastically; a division by zero gives an infinity or, of zero, NaN."""
        a, b = np.broadcast_arrays(a, b)
        signs = _signs(lambda x, y: x / y, a, b)
        return self._slowly(a / b, a == 0, signs) if self._wide else self._rounded(quotient_to_odd(a, b), signs)

    def sqrt(self, a: Values, nonnegative: Any = None) -> Values:
        """The square root of a, rounded stochastically; NaN of a negative number."""

        def signs(lane: int) -> Sign:
            square = Fraction(float(np.ravel(a)[lane]))
            return lambda t: 1 if t < 0 else _sign(square - t * t)

        return self._slowly(np.sqrt(a), a == 0, signs) if self._wide else self._rounded(root_to_odd(a), signs)

    def scale(self, a: Values, exponent: int) -> Values:
        """a 2**exponent, rounded stochastically: exact unless it underflows or overflows."""
        self.format.check_scale(exponent)
        return self.mul(a, np.asarray(2.0**exponent))

    def fma(self, a: Values, b: Values, c: Values) -> Values:
        """Refused."""
        return refuse("fused multiply-adds")

    def accumulating(self, name: str) -> Ieee:
        """Refused."""
        return refuse("accumulators")

    def in_format(self, name: str, left: FormatNames, right: FormatNames, op: Op) -> Ieee:
        """Refused."""
        return refuse("several formats in one program")

    def _rounded(self, odd: Floats, signs: Callable[[int], Sign]) -> Floats:
        """What a number, rounded to odd in binary64, becomes."""
        lo, hi, share = neighbours(self.format, odd)
        chosen = self._drawn(lo, hi, share, _NEAR, signs)
        return np.where(np.isfinite(odd), self.format.round(chosen), odd)

    def _slowly(self, near: Floats, exact: Any, signs: Callable[[int], Sign]) -> Floats:
        """What a number becomes in binary64, where `near` is its nearest and `exact` says which lanes are it."""
        result = near.copy()
        flat = result.ravel()
        lanes = np.flatnonzero(~np.ravel(exact) & np.isfinite(np.ravel(near)))
        for lane, u in zip(lanes.tolist(), self._rng.random(len(lanes)).tolist(), strict=True):
            sign, at = signs(lane), float(flat[lane])
            side = sign(Fraction(at))
            if side:
                ends = sorted((at, float(np.nextafter(at, side * np.inf))))
                flat[lane] = ends[1] if np.isinf(ends).any() else ends[self._decided(u, ends[0], ends[1], sign)]
        return flat.reshape(near.shape)

    def _drawn(self, lo: Floats, hi: Floats, share: Floats, near: float, signs: Callable[[int], Sign]) -> Floats:
        """Hi with the probability that the exact result has, lo else; `share` is that probability within `near`, about."""
        u = self._rng.random(share.shape)
        up = np.asarray(u < share)
        for lane in np.flatnonzero((np.abs(u - share) <= near) & (lo < hi)).tolist():
            ends = float(lo.ravel()[lane]), float(hi.ravel()[lane])
            up.flat[lane] = np.isfinite(ends).all() and self._decided(float(u.flat[lane]), *ends, signs(lane))
        return np.where(up, hi, lo)

    def _decided(self, u: float, lo: float, hi: float, sign: Sign) -> bool:
        """Whether U < (y - lo) / (hi - lo) for a uniform U of which 53 bits, `u`, are known; draws more as needed."""
        first, gap = Fraction(lo), Fraction(hi) - Fraction(lo)
        least, width = Fraction(u), _DRAWN
        while True:
            if sign(first + least * gap) <= 0:
                return False
            if sign(first + (least + width) * gap) >= 0:
                return True
            least += width * Fraction(float(self._rng.random()))
            width *= _DRAWN


def refuse(what: str) -> NoReturn:
    """Raise InputRejected: stochastic rounding is not modelled with `what`."""
    raise InputRejected(
        f"stochastic rounding has no model of {what}",
        "use one format with subnormal numbers, and the order serial, pairwise or blocked(K)",
    )


def _signs(exact: Callable[[Fraction, Fraction], Fraction], a: Floats, b: Floats) -> Callable[[int], Sign]:
    """Lane by lane, how the exact result of an operation compares with rationals."""

    def of_lane(lane: int) -> Sign:
        y = exact(Fraction(float(a.flat[lane])), Fraction(float(b.flat[lane])))
        return lambda t: _sign(y - t)

    return of_lane


def _sign(x: Fraction) -> int:
    return (x > 0) - (x < 0)
