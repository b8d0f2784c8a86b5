"""Running error bounds of quotients, roots, functions of a library, maxima and selections.

**Theorem.** The invariant of `certify.checker.rules` is kept, with e the rounding of the operation itself, by

    a / b          E = (E_a + |a^/b^| E_b) / (min |b^| - E_b) + e, if min |b^| > E_b: b (a^/b^ - a/b) = a^ - a - (a^/b^)(b^ - b)
    sqrt a         E = min(E_a / (sqrt low + sqrt(low - E_a)), sqrt E_a) + e, if low >= E_a, or neither a nor a^ can be negative
    exp a          E = min(e^high (e^E_a - 1), e^(high + E_a)) + e, as 1 - e^-E <= e^E - 1
    log a          E = E_a / (low - E_a) + e, if low > E_a
    tanh, sigmoid  E = min(s E_a, width of the range) + e, s the slope at the point of [low - E_a, high + E_a] next to 0
    max(a, b)      E = max(E_a, E_b), or that of the one that is the larger for both programs
    |a|            E = E_a
    x if p <= q else y    E that of the branch which both programs take, else max(E_x, E_y) + the largest |x^ - y^|

Quotients and roots are rounded once. A function of the library is within U ulps: it returns a number of the format that is
within U times its spacing at the exact result y of y, inside the function's range. So the result is at least the infimum of
y - U ulp(y), taken at the least y or where y passes a power of two, and e = U ulp(|y|). 0.5 ulps without a word on rounding
are no less; `None` stands for correctly rounded results.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import ceil, frexp, inf, isfinite, nextafter, sqrt

from flint import arb, ctx

from certify.checker.document import Beyond
from certify.checker.emulation import CALLS, REACH, ends
from certify.checker.formats import TINY, Overflow, odd
from certify.checker.rules import UP, Rules, Value

RANGES = {"exp": (0.0, inf), "log": (-inf, inf), "tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0)}


@cache
def between(name: str, low: float, high: float) -> tuple[float, float]:
    """Binary64 numbers around an increasing function on [low, high]: the nearest ones, if balls of 2560 bits tell which."""
    reach = inf if name == "log" else REACH
    for bits in (128, 512, 2560):
        with ctx.workprec(bits):
            bottom, top = (ends(CALLS[name](arb(min(max(x, -reach), reach)))) for x in (low, high))
        (x, nearer), (y, further) = map(_below, bottom), (-_below(-end) for end in top)
        if x == nearer and y == further:
            break
    least, most = RANGES.get(name, (-inf, inf))
    return max(x, least), min(further, most)


def _below(x: Fraction) -> float:
    """The largest binary64 number that is not above x."""
    try:
        y = float(x)
    except OverflowError:
        raise Overflow from None
    return y if y <= x else nextafter(y, -inf)


class Functions(Rules):
    """The rules of all operations."""

    def div(self, a: Value, b: Value) -> Value:
        """a / b."""
        (al, ah, ea, _), (bl, bh, eb, _) = a, b
        size, away = max(-al, ah), max(bl, -bh)
        nearest = away if eb == 0 else nextafter(away - eb, -inf)
        if not (away > eb and nearest > 0):
            raise Overflow
        corners = [x / y for x in (al, ah) for y in (bl, bh)]
        low, high = min(corners), max(corners)
        m = max(-low, high)
        if not m < inf:
            raise Overflow
        if not self.double and not (self.native(a[3]) and self.native(b[3])):
            exact = [Fraction(x) / Fraction(y) for x in (al, ah) for y in (bl, bh)]
            low, high = odd(min(exact)), odd(max(exact))
        r = self._correct(low, high, m, self.double and Fraction(size) > Fraction(m) * Fraction(away)) if size else 0.0
        carried = ea + (m * UP * eb + 2 * TINY if eb else 0.0)
        return self.result(low, high, m, (((carried * UP / nearest) * UP + TINY if carried else 0.0) + r) * UP)

    def sqrt(self, a: Value, nonnegative: bool) -> Value:
        """The root of a."""
        low, high, e, format = a
        low, high = (max(low, 0.0), max(high, 0.0)) if nonnegative else (low, high)
        if not (low >= e or (nonnegative and low >= 0)):
            raise Overflow
        bottom, top = sqrt(low), sqrt(high)
        r = self._correct(bottom, top, top, self.double and Fraction(high) > Fraction(top) ** 2) if top else 0.0
        if not (self.double or self.native(format)):
            bottom, top = nextafter(bottom, 0.0), nextafter(top, inf) if top else 0.0
        slope = bottom + sqrt(max(low - e, 0.0))
        carried = min(e / slope if slope else inf, sqrt(e)) * UP + TINY if e else 0.0
        return self.result(bottom, top, top, (carried + r) * UP)

    def exp(self, a: Value) -> Value:
        """The exponential, by the library."""
        low, high, e, _ = a
        top = nextafter(high + e, inf)
        carried = 0.0
        if e:
            far = between("exp", top, top)[1] if top < 700 else inf
            near = between("exp", high, high)[1] * between("expm1", e, e)[1] if e < 700 else inf
            carried = min(far, near) * UP + TINY
        return self._library("exp", low, high, carried)

    def log(self, a: Value) -> Value:
        """The natural logarithm, by the library."""
        low, high, e, _ = a
        nearest = nextafter(low - e, -inf) if e else low
        if not (low > e and nearest > 0):
            raise Overflow
        return self._library("log", low, high, e / nearest * UP + TINY if e else 0.0)

    def tanh(self, a: Value) -> Value:
        """The hyperbolic tangent, by the library."""
        t = between("tanh", *[self._apart(a)] * 2)[0]
        return self._library(
            "tanh", a[0], a[1], min((1.0 - t) * (1.0 + t) * UP * a[2] * UP + TINY, 2.0) if a[2] else 0.0
        )

    def sigmoid(self, a: Value) -> Value:
        """1 / (1 + exp(-a)), by the library."""
        w = min(between("exp", *[-self._apart(a)] * 2)[1], 1.0)
        slope = min(w / ((1.0 + w) * (1.0 + w)) * UP + TINY, 0.25)
        return self._library("sigmoid", a[0], a[1], min(slope * a[2] * UP + TINY, 1.0) if a[2] else 0.0)

    def max(self, a: Value, b: Value) -> Value:
        """The larger of the two."""
        reach = (a[2] + b[2]) * UP
        e = a[2] if a[0] - b[1] >= reach else b[2] if b[0] - a[1] >= reach else max(a[2], b[2])
        return self._chosen(max(a[0], b[0]), max(a[1], b[1]), e, a, b, open=False)

    def abs(self, a: Value) -> Value:
        """|a|."""
        return self._chosen(max(a[0], -a[1], 0.0), max(-a[0], a[1]), a[2], a, a)

    def select(self, p: Value, q: Value, x: Value, y: Value, strict: int) -> Value:
        """x if p <= q, or p < q, else y. The sign of a difference of binary64 numbers is exact."""
        reach, above, below = (p[2] + q[2]) * UP, q[0] - p[1], p[0] - q[1]
        chosen, left = (above > 0, below >= 0) if strict else (above >= 0, below > 0)
        holds, fails = (above > reach, below >= reach) if strict else (above >= reach, below > reach)
        both = max(x[2], y[2]) + max(x[1] - y[0], y[1] - x[0], 0.0)
        e = x[2] if holds else y[2] if fails else both * UP
        low, high = x[:2] if chosen else y[:2] if left else (min(x[0], y[0]), max(x[1], y[1]))
        return self._chosen(low, high, e, x, y)

    def _chosen(self, low: float, high: float, e: float, a: Value, b: Value, open: bool = True) -> Value:
        """One of two values, exact for numbers of this format."""
        self.peak = max(self.peak, -low, high)
        if not (self.native(a[3]) and self.native(b[3])):
            return self.round((low, high, e, self.format))
        rounded = not open or (a[3] is a[3].closed and b[3] is b[3].closed)
        return low, high, e, self.format if rounded else self.format.open

    def _apart(self, a: Value) -> float:
        """How far a and a^ are from 0 at least."""
        apart = max(nextafter(a[0] - a[2], -inf), nextafter(-a[1] - a[2], -inf))
        return apart if apart > 0 else 0.0

    def _correct(self, low: float, high: float, m: float, exceeds: bool) -> float:
        """How far a quotient or root is rounded; in binary64 m may be a power of two which the exact one exceeds."""
        part, k = frexp(m or TINY)
        r = self.half_product[k - (part == 0.5 and not exceeds)]
        r = r if self.double else min(r, m)
        return max(r, self.flushed(low, high, m + TINY)) if self.least else r

    def _library(self, name: str, low: float, high: float, carried: float) -> Value:
        """What the library returns for numbers in [low, high]."""
        low, high = between(name, low, high)
        ulps, m = self.ulps[name], max(-low, high)
        if ulps is None:
            return self.result(low, high, m, (carried + self.rounding(low, high)) * UP)
        if ulps * 2.0 ** (1 - self.format.precision) >= 1:
            raise Beyond(f"an error of {ulps} ulp is all of a result of {name} in {self.format.name}")
        least, most = RANGES[name]
        bottom, top = max(self._lowest(low, high, ulps), least), min(-self._lowest(-high, -low, ulps), most)
        r = self._spread(m, ulps) + (self.flushed(bottom, top, max(-bottom, top)) if self.least else 0.0)
        return self.result(bottom, top, max(-bottom, top), (carried + r) * UP)

    def _lowest(self, low: float, high: float, ulps: float) -> float:
        """The infimum of y - U ulp(y) for low <= y <= high, rounded to nearest: no number of the format is between."""
        at, power = low - self._spread(abs(low), ulps), 2.0 * self._power(abs(low))
        return min(at, power - self._spread(power, ulps)) if low >= 0 and power <= high else at

    def _spread(self, size: float, ulps: float) -> float:
        """U ulp(y) for y = size, exact or rounded up."""
        ulp = self._power(size) * 2.0 * self.format.u
        return ulp * (ceil(ulps) if ulp < 2.0**-1000 else ulps)

    def _power(self, size: float) -> float:
        """The largest power of two up to a size, or the least normal number."""
        power = 2.0 ** max(frexp(size)[1] - 1, -1074) if size else 0.0  # frexp(0) has the exponent 0
        return max(power, self.format.normal) if isfinite(size) else inf
