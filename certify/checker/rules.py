"""Running error bounds of sums and products, one operation at a time. A value is (low, high, E, format).

**Invariant.** For every input of the region the computed number lies in [low, high], within E of the exact one, and is a number
of `format`; of its `open` twin, in `any-order` alone: it may also be a product not yet rounded, to be fused with an addition.

**Theorem.** If no operation overflows, the rules keep the invariant, by induction over the operations. Let |a| be the largest
magnitude in [low_a, high_a], m that of an exact result, and r a bound of its rounding. Then

    a + b, a - b   E = E_a + E_b + r
    a b            E = (|a| + E_a) E_b + |b| E_a + r, from a^ b^ - a b = a^ (b^ - b) + b^ (a^ - a) - (a^ - a)(b^ - b)
    a b + c        E = that of a b + E_c, rounded once (fma)
    -a, 2**k a     E = E_a, 2**k E_a + r
    relu a         E = min(E_a, max(high_a + E_a, 0)): x and x^ are at most high_a + E_a
    x + (y - x)    E = E_y + r_1 + r_2: the sum before rounding is y^ + e_1, |e_1| <= r_1, so r_2 <= h(|y| + r_1)

Rounding moves a number of magnitude at most m by at most max(h(m), omega), where h(m) is half the spacing just below m and
omega half the least subnormal; and by no more than its distance to any number of the format: to 0, to an addend, or by |a b|
from c. Sums of numbers of the format are exact up to 2**(emin + 1), products of few bits always. Where subnormals are flushed,
a result that may lie within 2**emin of 0 may move by min(m, 2**emin), too, and an end at 2**emin moves to 0, for hardware may
flush before it rounds. m is computed to nearest: where it becomes a power of two, and only in binary64, that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import frexp, fsum, inf, nextafter
from typing import Any

from certify.checker.formats import TINY, Format, Overflow, format_named, odd

UP = 1.0 + 2.0**-48  # a result of up to 30 roundings to nearest of nonnegative numbers, times this, is an upper bound
Value = tuple[float, float, float, Format]


@cache
def bits_lost(a: Format, b: Format, to: Format) -> int:
    """Whether products of numbers of two formats are numbers of a third (0), unless they underflow (1), or not (2)."""
    kept = a.emin - a.precision + b.emin - b.precision + 2 >= to.emin - to.precision + 1
    return 2 if a.precision + b.precision > to.precision else int(not kept)


class Rules:
    """The rules of a format; `peak` bounds every result before its rounding. `any_order` and `mixed` are of the program."""

    def __init__(self, format: Format, ulps: Any = None, any_order: bool = False, mixed: bool = False) -> None:
        self.format, self.fl, self.peak, self.double = format, format.fl, 0.0, format.precision == 53
        self.half_sum, self.half_product, self.least = format.half_sum, format.half_product, format.least
        self.ulps, self.any_order, self.mixed = ulps or {}, any_order, mixed
        self._others: dict[str, Rules] = {}
        self._native: dict[Format, bool] = {}

    def own(self, name: str) -> Rules:
        """The rules of an operation with a format of its own."""
        return self.accumulating(format_named(name), "own")

    def accumulating(self, format: Format, role: str = "") -> Rules:
        """The rules of another format; of an accumulator, the peak is another matter."""
        key = role + format.name
        if key not in self._others:
            self._others[key] = type(self)(format, self.ulps, self.any_order, self.mixed)
        return self._others[key]

    def native(self, format: Format) -> bool:
        """Whether the numbers of a format are numbers of this one, too."""
        if format not in self._native:
            self._native[format] = self.format.holds(format)
        return self._native[format]

    def result(self, low: float, high: float, m: float, error: float, open: bool = False) -> Value:
        """A value between numbers that are rounded here; if it is `open`, it may also be left unrounded."""
        if m > self.peak:
            self.peak = m
        bottom = self.fl(low)
        top = bottom if low == high else self.fl(high)
        if self.least:
            bottom, top = 0.0 if 0.0 < bottom <= self.least else bottom, 0.0 if -self.least <= top < 0.0 else top
        error = error if error < inf else inf
        return (
            (min(bottom, low), max(top, high), error, self.format.open) if open else (bottom, top, error, self.format)
        )

    def flushed(self, low: float, high: float, m: float) -> float:
        """How far flushing moves a number between two ends."""
        return min(m, self.least) if low <= self.least and high >= -self.least else 0.0

    def rounding(self, low: float, high: float, exceeds: bool = False) -> float:
        """How far any number between two ends is rounded; `exceeds`: by magnitude it may be beyond them by a hair."""
        m = max(-low, high)
        f, k = frexp(m or TINY)
        r = min(self.half_product[k - (f == 0.5 and not exceeds)], inf if exceeds and m else m)
        return max(r, self.flushed(low, high, m)) if self.least else r

    def given(self, lower: float, upper: float | None = None) -> Value:
        """An input or a constant, converted; |x - fl(x)| is exact in binary64."""
        upper = lower if upper is None else upper
        low, high, _, format = self.result(lower, upper, max(-lower, upper), 0.0)
        error = max(abs(lower - low), abs(high - lower)) if lower == upper else self.rounding(lower, upper)
        return low, high, error, format

    def round(self, a: Value) -> Value:
        """A number of another format, rounded: an accumulator's total, or what is no sum."""
        low, high, e, f = a
        return self.result(low, high, max(-low, high), (e + self.rounding(low, high)) * UP, f is not f.closed)

    def cast(self, a: Value) -> Value:
        """The same, exact for numbers of this format; else an unrounded product is rounded here."""
        low, high, e, f = a
        if self.native(f):
            return a if f.closed is self.format else (low, high, e, self.format if f is f.closed else self.format.open)
        return self.round((low, high, e, f.closed))

    def _sum(self, a: Value, b: Value) -> tuple[float, float, float, float]:
        """The ends of a + b, m, and how far it is rounded."""
        (al, ah, _, f), (bl, bh, _, g) = a, b
        low, high = al + bl, ah + bh
        m = high if high > -low else -low
        if not m < inf:
            raise Overflow
        part, k = frexp(m)
        if part == 0.5 and not (self.double and (fsum((al, bl, -low)) < 0.0 or fsum((ah, bh, -high)) > 0.0)):
            k -= 1
        if f is self.format is g or (self.native(f) and self.native(g)):
            r = min(self.half_sum[k], ah if ah > -al else -al, bh if bh > -bl else -bl) if m else 0.0
        else:  # a number of the format may be as near as the other addend
            r = min(self.half_product[k], m, *[max(-x[0], x[1]) for x, y in ((a, b), (b, a)) if self.native(y[3])])
        if not (self.double or (f is self.format is g)):
            low, high = odd(Fraction(al) + Fraction(bl)), odd(Fraction(ah) + Fraction(bh))
        if self.any_order and not self.double:
            # a tie counts on both sides, as in reports: a term known to be 0 leaves one product, which may stay unrounded
            low, high = nextafter(low, -inf), nextafter(high, inf)
        return low, high, m, max(r, self.flushed(low, high, m)) if self.least else r

    def add(self, a: Value, b: Value) -> Value:
        """a + b. Of a fused product q the rule holds as well: E_q has room for the rounding that q did not have."""
        low, high, m, r = self._sum(a, b)
        return self.result(low, high, m, (a[2] + b[2] + r) * UP)

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        return self.add(a, (-b[1], -b[0], b[2], b[3]))

    def _product(self, a: Value, b: Value) -> tuple[float, float, float, float, float]:
        """The ends of a b, m, how far it is rounded, and what it carries; TINY is for the two products that may underflow."""
        (al, ah, ea, f), (bl, bh, eb, g) = a, b
        f, g = f.closed, g.closed
        A, B = ah if ah > -al else -al, bh if bh > -bl else -bl
        ends = (al * bl, ah * bh) if al >= 0.0 <= bl else (al * bl, al * bh, ah * bl, ah * bh)
        low, high, m = min(ends), max(ends), A * B or (TINY if A and B else 0.0)
        if not m < inf:
            raise Overflow
        if f.precision + g.precision > 53 and not self.double:
            exact = [Fraction(x) * Fraction(y) for x in (al, ah) for y in (bl, bh)]
            low, high = odd(min(exact)), odd(max(exact))
        lost = 2 if f is self.format is g else bits_lost(f, g, self.format)
        if lost == 2:
            part, k = frexp(m or TINY)
            if part == 0.5 and not (self.double and Fraction(A) * Fraction(B) > m):
                k -= 1
            r = self.half_product[k] if self.double and m else min(self.half_product[k], m)
        else:
            r = min(lost * self.format.omega, m)
        if self.least:
            r = max(r, self.flushed(low, high, m))
        return max(low, 0.0) if a is b else low, high, m, r, ((A + ea) * eb + B * ea + TINY) * UP

    @staticmethod
    def _unrounded(a: Value, b: Value, low: float, high: float, m: float) -> tuple[float, float]:
        """The ends of the product itself, which may be beyond those that binary64 holds."""
        exact = a[3].precision + b[3].precision <= 53 or not m
        low, high = (low, high) if exact else (nextafter(low, -inf), nextafter(high, inf))
        return max(low, 0.0) if a is b else low, high

    def mul(self, a: Value, b: Value) -> Value:
        """a b, and a a >= 0."""
        low, high, m, r, carried = self._product(a, b)
        if self.any_order:
            low, high = self._unrounded(a, b, low, high, m)
        return self.result(low, high, m, (carried + r) * UP, self.any_order)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a b + c, rounded once."""
        _, _, product, _, carried = self._product(a, b)
        if not product and self.native(c[3]):
            return self.result(*c[:2], max(-c[0], c[1]), (carried + c[2]) * UP)
        exact = [Fraction(x) * Fraction(y) for x in a[:2] for y in b[:2]]
        bottom, top = min(exact) + Fraction(c[0]), max(exact) + Fraction(c[1])
        m = float(size := max(-bottom, top))
        low, high = (float(bottom), float(top)) if self.double else (odd(bottom), odd(top))
        part, k = frexp(m or TINY)
        r = self.half_product[k - (part == 0.5 and not (self.double and size > Fraction(m)))]
        r = min(r, product * UP + TINY) if self.native(c[3]) else r  # c is a number of the format
        r = max(r, self.flushed(low, high, max(m, TINY))) if self.least else r
        return self.result(low, high, m, (carried + c[2] + r) * UP)

    def neg(self, a: Value) -> Value:
        """-a."""
        return self.cast((-a[1], -a[0], a[2], a[3]))

    def relu(self, a: Value) -> Value:
        """max(a, 0)."""
        most = (a[1] + a[2]) * UP  # has the right sign
        return self.cast((max(a[0], 0.0), max(a[1], 0.0), min(a[2], most) if most > 0.0 else 0.0, a[3].closed))

    def scale(self, a: Value, exponent: int) -> Value:
        """2**exponent a, exact above the subnormal numbers."""
        (al, ah, e, f), c = a, 2.0**exponent
        low, high, size = al * c, ah * c, max(-al, ah)
        carried = (e * c + (TINY if e and exponent < 0 else 0.0)) * UP
        if not self.native(f):
            if size and size * c < 2.0**-1000:
                low, high = nextafter(low, -inf), nextafter(high, inf)
            return self.round((low, high, carried, f.open if self.any_order else f))
        exact = exponent >= 0 or not size or max(al, -ah) >= 2.0**-exponent * self.format.normal
        if exact or (al == ah and self.fl(low) / c == al):
            return self.result(low, high, size * c, carried, self.any_order and exponent < 0)
        if self.any_order and self.double:
            low, high = nextafter(low, -inf), nextafter(high, inf)
        moved = min(size * c + self.format.omega, self.least) if self.least else self.format.omega
        return self.result(low, high, size * c, (carried + moved) * UP, self.any_order)

    def overwrite(self, x: Value, y: Value, d: Value) -> Value:
        """x + d, where d is y - x: near y, whatever x is.

        In any order an x or y that may be unrounded makes both sums those of any numbers, and x may be rounded in one alone.
        """
        if not all(v[3].closed is self.format for v in (x, y, d)):
            return self.add(x, d)
        unrounded = self.format.open in (x[3], y[3])
        back, apart, second = (-x[1], -x[0], 0.0, x[3]), 0.0, inf
        low, high, _, first = self._sum(y, back)
        if unrounded:
            first = self.rounding(low, high, self.double)
        if x[3] is not self.format:
            apart = self.rounding(x[0], x[1])
        near = _above((max(-y[0], y[1]) + first + apart) * UP)
        if near < inf:
            part, k = frexp(near or TINY)
            half = self.half_sum[k - (part == 0.5)]
            second = max(half, min(near, self.format.omega)) if unrounded else half
            second = max(second, min(near, self.least))
        try:
            low, high, m, other = self._sum(x, d)
            if x[3] is not self.format:
                other = self.rounding(low, high, self.double)
            low, high = self.fl(low), self.fl(high)
        except Overflow:  # those ends only sharpen the ones from y
            low, high, m, other = -inf, inf, inf, inf
        lowest, highest = y[0], y[1]
        if moved := (first + min(second, other) + apart) * UP:
            lowest, highest = nextafter(lowest - moved, -inf), nextafter(highest + moved, inf)
        return self.result(max(low, lowest), min(high, highest), min(m, near), (y[2] + moved) * UP)

    def every(self, a: Sequence[Value], b: Sequence[Value] | None = None) -> Value:
        """The sum of the a_i, or of the a_i b_i, in any order: of any tree, every product rounded or fused.

        **Theorem.** Let n terms q_i lie in [l_i, h_i], a rounded one within r_i of q_i, M = sum r_i + max(sum max(h_i, 0),
        sum max(-l_i, 0)), S >= sum |q_i| + r_i, and g(m) bound the rounding up to m. (a) If r >= g(M + (n-2) r) then all
        roundings but the last add up to at most (n-2) r: by induction over the tree, a node adds a subset of the terms and at
        most n-2 roundings before. (b) All n-1 add up to at most J = (n-1)(u S + n eta), eta being what an underflow moves
        (Jeannerod and Rump 2013; docs/theory/rounding.md#any-order for fused trees). (c) So with d = min((n-2) r, J) the sum is
        within D = min(d + g(m), J) of the sum of its terms, m being the larger end of sum [l_i, h_i], widened by sum r_i + d.
        Below p = 53, g may be taken at m (1 - u/4): a number that exceeds a power of two s by (u/2) s at most rounds to s.
        """
        if b is None and len(a) < 3:
            return a[0] if len(a) == 1 else self.add(*a)
        if b is None:
            terms = [(x[0], x[1], max(-x[0], x[1]), 0.0, x[2]) for x in a]
            loose = any(x[3] is not x[3].closed or not self.native(x[3]) for x in a)
        else:
            terms = [self._product(x, y) for x, y in zip(a, b, strict=True)]
            terms = [(*self._unrounded(x, y, *t[:3]), *t[2:]) for x, y, t in zip(a, b, terms, strict=True)]
            loose = any(bits_lost(x[3].closed, y[3].closed, self.format) > 0 for x, y in zip(a, b, strict=True))
        eta = max(self.format.omega if loose else 0.0, self.least)
        live = [t for t in terms if t[0] or t[1]]
        # to add a 0 rounds what is no number of the format; of products, roundings are in r_i already
        uniform = (
            b is not None
            or not self.mixed
            or all(x[3].closed is self.format or (x[3] is x[3].closed and self.native(x[3])) for x in a)
        )
        n, carried = len(live) if uniform else len(terms), fsum(t[4] for t in terms)
        bottom, top = fsum(t[0] for t in live), fsum(t[1] for t in live)
        largest = _above(max(fsum(max(t[1], 0.0) for t in live), -fsum(min(t[0], 0.0) for t in live)))
        if n < 2 and b is None:
            (format,) = [x[3] for x in a if x[0] or x[1]] or [self.format]
            return self.cast((bottom, top, carried * UP, format))
        if n < 2:
            moved = fsum(t[3] for t in terms)
            return self.result(bottom, top, max(t[2] for t in terms), (carried + moved) * UP, True)
        moved = _above(fsum(t[3] for t in terms))
        most, inner = _above(largest + moved), n - 2
        linear = (n - 1) * (self.format.u * (fsum(max(-t[0], t[1]) for t in live) + moved) + n * eta) * UP + TINY
        step, drift = self._most_rounded(most, eta), linear
        for _ in range(64):
            before, step = step, self._most_rounded(_above(most + inner * step), eta)
            if step == before:
                drift = min(inner * step, linear)
                break
        last = self._most_rounded(_above((max(-bottom, top) + moved + drift) * (1.0 + 2.0**-52)), eta)
        D = min((drift + last) * UP, linear)
        self.fl(peak := _above(most + drift))
        reach = (moved + D) * UP
        low, high = nextafter(bottom - reach, -inf), nextafter(top + reach, inf)
        return self.result(low, high, peak, (carried + moved + D) * UP)

    def _most_rounded(self, m: float, eta: float) -> float:
        """g(m): nothing below 2**(emin + 1), but for an underflow."""
        part, k = frexp(m if self.double else m * (1.0 - self.format.u / 4))
        return (max(self.half_sum[k - (part == 0.5)], min(eta, m)) if m < inf else inf) if m else 0.0


def _above(x: float) -> float:
    return nextafter(x, inf) if x else 0.0
