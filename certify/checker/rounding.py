"""Bounds of the rounding errors of a program, computed in binary64 and rounded up.

**Upward.** An error is a sum of products of nonnegative numbers. If each term passes through at most d roundings to
nearest, the computed value times 1 + (d + 1) 2**-52, rounded, is an upper bound, as (1 - 2**-53)**(d + 1) (1 + (d + 1)
2**-52) >= 1. Below the normal range sums are exact, and each product loses at most 2**-1075, for which 2**-1074 is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import frexp, fsum, inf
from typing import Any

from certify.checker.document import Rejected
from certify.checker.formats import FORMATS, Format, emulate, tables
from certify.checker.program import Program

__all__ = ["FORMATS", "Analysis", "Format", "emulate", "running"]

TINY = 2.0**-1074


class Overflow(Exception):
    """An operation that is not proved finite."""


@dataclass
class Analysis:
    """Of every node: the computed value lies in [low, high], within `error` of the exact one; all up to node `first`.

    first is None if no operation overflows anywhere in the region. `peak` bounds every result before its rounding.
    """

    program: Program
    format: Format
    low: list[float]
    high: list[float]
    error: list[float]
    peak: float = 0.0
    first: int | None = None

    def squared(self, output: str) -> Fraction | None:
        """The exact sum of the squares of an output's error bounds; None if an overflow is not excluded."""
        errors = [
            abs(known - self.format.fl(known)) if node < 0 else self.error[node]
            for node, known in zip(self.program.outputs[output], self.program.known[output], strict=True)
            if self.first is None
        ]
        if self.first is not None or not all(e < inf for e in errors):
            return None
        return sum((Fraction(e) ** 2 for e in errors), Fraction(0))

    def eps(self, output: str) -> Fraction:
        """An upper bound of the norm of an output's error, within one part in 2**60."""
        squared = self.squared(output)
        if squared is None:
            raise Rejected(f"no error bound of {output} is proved: an overflow is not excluded")
        return root_up(squared)


def root_up(x: Fraction) -> Fraction:
    """An upper bound of the square root of x >= 0, within one part in 2**60."""
    shift = max(0, 64 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    scaled = -((-x.numerator << 2 * shift) // x.denominator)
    return Fraction(math.isqrt(scaled - 1) + 1 if scaled else 0, 1 << shift)


def up(error: float, depth: int) -> float:
    """The rule `Upward` for terms of at most `depth` roundings each; infinity if it overflowed."""
    error *= 1.0 + (depth + 1) * 2.0**-52
    return error if error < inf else inf


Ends = tuple[float, float, float, float]  # low, high, m, bound of the rounding error


def _rules(format: Format) -> tuple[Callable[..., Ends], Callable[..., Ends], Callable[..., Ends]]:
    """The sum, the product and the scaling of enclosures [l, h] of computed values.

    m is the largest magnitude of the exact result. Rounding moves it by at most h(m) = u 2**(ceil(log2 m) - 1), half
    the spacing just below m; a sum by at most |a| or |b| too (the other operand is a number of the format), and a
    product by at most m (so is 0). Sums up to 2**(emin+1) are exact, products move by omega below that. m is computed
    to nearest: it matters only where it becomes a power of two, and for p < 53 not even there, since a y in (m, m (1 +
    2**-53)] rounds to m. In binary64 those cases are compared exactly.
    """
    shift, half_sum, half_product = tables(format)
    largest, double, omega = format.largest, format.precision == 53, format.omega

    def ends(xl: float, xh: float) -> tuple[float, float, float, float, int]:
        f, k = frexp(xh)
        t = shift[k]
        low = high = (xh + t) - t
        m = xh
        if xl != xh:
            g, j = frexp(xl)
            t = shift[j]
            low = (xl + t) - t
            if -xl > xh:
                f, k = g, j
        if -xl > xh:
            m = -xl
        if not (-largest <= low and high <= largest):  # false for nan, too
            raise Overflow
        return low, high, m, f, k

    def add(al: float, ah: float, bl: float, bh: float) -> Ends:
        xl, xh = al + bl, ah + bh
        low, high, m, f, k = ends(xl, xh)
        if m == 0.0:
            return low, high, m, 0.0
        if (f == 0.5 or f == -0.5) and not (double and (fsum((al, bl, -xl)) < 0.0 or fsum((ah, bh, -xh)) > 0.0)):
            k -= 1
        return low, high, m, min(half_sum[k], ah if ah > -al else -al, bh if bh > -bl else -bl)

    def multiply(al: float, ah: float, bl: float, bh: float) -> Ends:
        if al >= 0.0 and bl >= 0.0:
            xl, xh = al * bl, ah * bh
        elif al == ah and bl == bh:
            xl = xh = al * bl
        else:
            corners = (al * bl, al * bh, ah * bl, ah * bh)
            xl, xh = min(corners), max(corners)
        low, high, m, f, k = ends(xl, xh)
        if m == 0.0:
            return low, high, m, omega if double and (al or ah) and (bl or bh) else 0.0
        if f == 0.5 or f == -0.5:
            exact = Fraction(max(-al, ah)) * Fraction(max(-bl, bh)) if double else m
            k -= exact <= m
        return low, high, m, half_product[k] if double or half_product[k] < m else m

    def scale(al: float, ah: float, exponent: int) -> Ends:
        c = 2.0**exponent
        low, high, m, _f, _k = ends(al * c, ah * c)
        exact = exponent >= 0 or (al == ah and low / c == al) or max(al, -ah) >= 2.0 ** (format.emin - exponent)
        return low, high, m, 0.0 if exact else omega

    return add, multiply, scale


class _Running:
    """The evaluation behind `running`: low, high, error by node, in execution order."""

    def __init__(self, format: Format) -> None:
        self.format, self.peak = format, 0.0
        self.low: list[float] = []
        self.high: list[float] = []
        self.error: list[float] = []
        self.add, self.multiply, self.scaled = _rules(format)

    def push(self, low: float, high: float, error: float) -> None:
        self.low.append(low)
        self.high.append(high)
        self.error.append(error)

    def given(self, lower: float, upper: float) -> None:
        """Numbers in [lower, upper], converted: at a point |x - fl(x)|, which is exact in binary64 (both are close)."""
        low, high = self.format.fl(lower), self.format.fl(upper)
        if not (abs(low) < inf and abs(high) < inf):
            raise Overflow
        m, half = max(-lower, upper), 0.0
        if m:
            f, k = frexp(m)
            half = min(tables(self.format)[2][k - (f == 0.5)], m)
        self.peak = max(self.peak, abs(low), abs(high))
        self.push(low, high, abs(lower - low) if lower == upper else half)

    def const(self, lane: Sequence[float], _: int) -> None:
        self.peak = max(self.peak, abs(lane[0]))
        self.given(lane[0], lane[0])

    def sum(self, lane: Sequence[int], _: int) -> None:
        low, high, error = self.low, self.high, self.error
        self.total((low[a], high[a], 0.0, error[a]) for a in lane)

    def dot(self, lane: tuple[Sequence[int], Sequence[int]], _: int) -> None:
        self.total(self.products(*lane))

    def products(self, left: Sequence[int], right: Sequence[int]) -> Iterator[Ends]:
        low, high, error, multiply = self.low, self.high, self.error, self.multiply
        for a, b in zip(left, right, strict=True):
            al, ah, ea, bl, bh, eb = low[a], high[a], error[a], low[b], high[b], error[b]
            lo, hi, m, r = multiply(al, ah, bl, bh)
            yield lo, hi, m, ((ah if ah > -al else -al) + ea) * eb + (bh if bh > -bl else -bl) * ea + r + TINY

    def total(self, terms: Iterator[Ends]) -> None:
        """Left to right; the errors are summed in binary64 and rounded up once."""
        add = self.add
        lo, hi, peak, e = next(terms, (0.0, 0.0, 0.0, 0.0))
        depth = 4
        for bl, bh, m, carried in terms:
            if m > peak:
                peak = m
            lo, hi, m, r = add(lo, hi, bl, bh)
            if m > peak:
                peak = m
            e += carried + r
            depth += 3
        self.peak = max(self.peak, peak)
        self.push(lo, hi, up(e, depth))

    def sub(self, lane: Sequence[int], _: int) -> None:
        (a, b), low, high, error = lane, self.low, self.high, self.error
        self.total(iter([(low[a], high[a], 0.0, error[a]), (-high[b], -low[b], 0.0, error[b])]))

    def neg(self, lane: Sequence[int], _: int) -> None:
        self.push(-self.high[lane[0]], -self.low[lane[0]], self.error[lane[0]])

    def relu(self, lane: Sequence[int], _: int) -> None:
        low, high, error = self.low[lane[0]], self.high[lane[0]], self.error[lane[0]]
        most = high + error  # rounding keeps its sign
        self.push(max(low, 0.0), max(high, 0.0), min(error, up(most, 1)) if most > 0.0 else 0.0)

    def scale(self, lane: Sequence[int], exponent: int) -> None:
        a = lane[0]
        low, high, m, r = self.scaled(self.low[a], self.high[a], exponent)
        self.peak = max(self.peak, m)
        e = self.error[a]
        self.push(low, high, up(e * 2.0**exponent + r + (TINY if e and exponent < 0 else 0.0), 3))

    def overwrite(self, lane: Sequence[int], _: int) -> None:
        (x, y, d), low, high = lane, self.low, self.high
        r = self.add(low[y], high[y], -high[x], -low[x])[3]
        near = math.nextafter(max(-low[y], high[y]) + r, inf)
        f, k = frexp(near)
        half = tables(self.format)[1][k - (f == 0.5)]
        try:
            lo, hi, m, other = self.add(low[x], high[x], low[d], high[d])
        except Overflow:  # those ends only sharpen the ones from y
            lo, hi, m, other = -inf, inf, inf, inf
        moved = up(r + min(half, other), 1)
        least = math.nextafter(low[y] - moved, -inf) if moved else low[y]
        most = math.nextafter(high[y] + moved, inf) if moved else high[y]
        lo, hi = max(lo, self.format.fl(least)), min(hi, self.format.fl(most))
        if not (-inf < lo and hi < inf):
            raise Overflow
        self.peak = max(self.peak, min(m, near))
        self.push(lo, hi, up(self.error[y] + moved, 4))


def evaluate(program: Program, rules: Any, lower: Sequence[float], upper: Sequence[float]) -> int | None:
    """Every node in execution order; returns the first that the rules do not prove finite, if any."""
    try:
        for x, y in zip(lower, upper, strict=True):
            rules.given(x, y)
        for step in program.steps:
            rule = getattr(rules, step.op)
            for lane in step.lanes:
                rule(lane, step.exponent)
    except Overflow:
        return len(rules.error)
    return None


def running(program: Program, format: Format, lower: Sequence[float], upper: Sequence[float]) -> Analysis:
    """Running error bounds of the program for all exact inputs between `lower` and `upper`, conversion included.

    **Theorem.** For every node, the computed value x^ lies in [low, high] and |x^ - x| <= E, x the exact value, as long
    as no operation overflows. With r the rounding bound of `_rules`, by induction over the operations:

        a + b, a - b   E = E_a + E_b + r
        a b            E = (|a| + E_a) E_b + |b| E_a + r, from a^ b^ - a b = a^ (b^ - b) + b^ (a^ - a) - (a^ - a)(b^ - b)
        -a, 2**k a     E = E_a, 2**k E_a + r
        relu a         E = min(E_a, max(high_a + E_a, 0)): x and x^ are at most high_a + E_a
        x + (y - x)    E = E_y + r_1 + r_2: the sum before rounding is y^ + e_1, |e_1| <= r_1, so r_2 <= h(|y| + r_1)

    An operation whose ends are finite does not overflow, as the computed value lies between them: `Analysis.first`.
    """
    if any(abs(step.exponent) > format.emax for step in program.steps):
        raise Rejected(f"the program scales by a power of two that {format.name} cannot hold")
    rules = _Running(format)
    first = evaluate(program, rules, lower, upper)
    return Analysis(program, format, rules.low, rules.high, rules.error, rules.peak, first)
