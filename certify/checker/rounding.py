"""What a program computes, and how far that is from exact: the numbers of a format, exact ones, and running bounds.

For p <= 24, fl(x) = (x + T) - T with T = 3/2 2**52 spacings of the format at x: one binary64 addition rounds to it, ties to
even. Sums and products are rounded to binary64 first; as p <= (53 - 2) / 2 that is innocuous (Figueroa 1995).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from math import frexp, fsum, inf, isqrt, nextafter
from types import SimpleNamespace
from typing import Any

from flint import arb

from certify.checker.document import Rejected
from certify.checker.program import Program

TINY = 2.0**-1074
UP = 1.0 + 2.0**-48  # a result of up to 30 roundings to nearest of nonnegative numbers, times this, is an upper bound
Bound = tuple[float, float, float]  # low, high, E: the computed value lies between, and within E of the exact one


class Overflow(Exception):
    """A result that is not finite, or not proved to be."""


class Format:
    """A binary format with subnormals: precision p <= 24 or 53, exponents emin = 1 - emax to emax."""

    def __init__(self, name: str, precision: int, emax: int) -> None:
        self.name, self.precision, self.emax, self.emin = name, precision, emax, 1 - emax
        self.u, self.largest = 2.0**-precision, (2.0 - 2.0 ** (1 - precision)) * 2.0**emax
        self.omega = max(2.0 ** (self.emin - precision), TINY)  # half the least subnormal
        # where 2**(k-1) <= |x| < 2**k (k < 0 counts from the end of a list): T, half an ulp of a sum, and of a product
        self.shift, self.half_sum, self.half_product = [0.0] * 2200, [0.0] * 2200, [0.0] * 2200
        for k in range(-1075, 1025):
            exponent, half = 52 + max(k, self.emin + 1) - precision, 2.0 ** max(k - 1 - precision, -1074)
            self.shift[k] = 0.0 if precision == 53 else 1.5 * 2.0**exponent if exponent < 1023 else inf
            self.half_sum[k] = half if k > self.emin + 1 else 0.0  # sums are multiples of the least subnormal
            self.half_product[k] = max(half, self.omega)

    def fl(self, x: float) -> float:
        """The number of the format nearest to x, ties to even."""
        t = self.shift[frexp(x)[1]]
        y = (x + t) - t
        if not -self.largest <= y <= self.largest:
            raise Overflow
        return y


FORMATS = {f.name: f for f in (Format("float16", 11, 15), Format("bfloat16", 8, 127), Format("float32", 24, 127))}
FORMATS["float64"] = Format("float64", 53, 1023)


def evaluate(
    program: Program, numbers: Any, inputs: Iterable[Any], stop: int | None = None
) -> tuple[list[Any], int | None]:
    """The values of the nodes under some arithmetic, up to the first that overflows, or may; that node, or None."""
    v: list[Any] = []
    add, mul, at = numbers.add, numbers.mul, v.__getitem__
    try:
        for x in inputs:
            v.append(numbers.given(*x))
        for op, operands, _, exponent in program.code[:stop]:
            if op == "dot":
                v.append(reduce(add, map(mul, map(at, operands[0]), map(at, operands[1]))))
            elif op == "sum":
                v.append(reduce(add, map(at, operands)))
            elif op == "sub":
                v.append(add(v[operands[0]], numbers.neg(v[operands[1]])))
            elif op == "scale":
                v.append(numbers.scale(v[operands[0]], exponent))
            elif op == "const":
                v.append(numbers.given(*operands))
            else:
                v.append(getattr(numbers, op)(*map(at, operands)))
    except Overflow:
        return v, len(v)
    return v, None


def emulate(program: Program, format: Format, values: Sequence[float]) -> tuple[list[float], int | None]:
    """The numbers that the program computes, inputs converted first, before the first that is not finite; and its node."""
    fl = format.fl
    ieee = SimpleNamespace(given=fl, neg=operator.neg, relu=lambda a: max(a, 0.0), overwrite=lambda x, y, d: fl(x + d))
    ieee.add, ieee.mul, ieee.scale = lambda a, b: fl(a + b), lambda a, b: fl(a * b), lambda a, k: fl(a * 2.0**k)
    return evaluate(program, ieee, zip(values, strict=True))


def exact(program: Program, values: Sequence[float], output: str) -> list[arb]:
    """An output in exact arithmetic: balls, of radius 0 if the working precision suffices."""
    dyadic = SimpleNamespace(
        given=arb, add=operator.add, mul=operator.mul, neg=operator.neg, overwrite=lambda x, y, d: y
    )
    dyadic.relu, dyadic.scale = lambda a: a.max(arb(0)), lambda a, k: a * arb(2) ** k
    ids, first = list(program.outputs[output]), len(values)
    for k, node in enumerate(ids):
        while (
            node >= first and program.code[node - first][0] == "overwrite"
        ):  # x + (y - x) is y, and y comes much before
            node = ids[k] = program.code[node - first][1][1]
    v, _ = evaluate(program, dyadic, zip(values, strict=True), max(ids) + 1 - first)
    return [arb(known) if node < 0 else v[node] for node, known in zip(ids, program.known[output], strict=True)]


class Running:
    """Running error bounds of all nodes of a program for all exact inputs between two ends, conversion included.

    **Theorem.** With r a bound of the rounding error of the operation, by induction over the operations,

        a + b, a - b   E = E_a + E_b + r
        a b            E = (|a| + E_a) E_b + |b| E_a + r, from a^ b^ - a b = a^ (b^ - b) + b^ (a^ - a) - (a^ - a)(b^ - b)
        -a, 2**k a     E = E_a, 2**k E_a + r
        relu a         E = min(E_a, max(high_a + E_a, 0)): x and x^ are at most high_a + E_a
        x + (y - x)    E = E_y + r_1 + r_2: the sum before rounding is y^ + e_1, |e_1| <= r_1, so r_2 <= h(|y| + r_1)

    If m is the largest magnitude of an exact result, rounding moves it by at most h(m), half the spacing just below m; a
    sum by at most |a| or |b|, too, a product by at most m. m is computed to nearest: where it becomes a power of two, and
    only in binary64, that matters. `first` is the first node that may overflow, or None: then no operation does anywhere
    in the region, and `peak` bounds every result before its rounding. docs/theory/rounding.md#running has the proofs.
    """

    def __init__(self, program: Program, format: Format, lower: Sequence[float], upper: Sequence[float]) -> None:
        if any(abs(exponent) > format.emax for *_, exponent in program.code):
            raise Rejected(f"the program scales by a power of two that {format.name} cannot hold")
        self.program, self.format, self.fl, self.peak = program, format, format.fl, 0.0
        self.double, self.half_sum, self.half_product = format.precision == 53, format.half_sum, format.half_product
        bounds, self.first = evaluate(program, self, zip(lower, upper, strict=True))
        self.low, self.high, self.error = ([x[k] for x in bounds] for k in range(3))

    def enclose(self, low: float, high: float) -> tuple[float, float, float]:
        """The rounded ends, and m."""
        m = high if high > -low else -low
        if m > self.peak:
            self.peak = m
        rounded = self.fl(low)
        return rounded, rounded if low == high else self.fl(high), m

    def given(self, lower: float, upper: float | None = None) -> Bound:
        """An input or a constant, converted; |x - fl(x)| is exact in binary64."""
        low, high, m = self.enclose(lower, lower if upper is None else upper)
        f, k = frexp(m or TINY)
        return low, high, abs(lower - low) if upper in (None, lower) else min(self.half_product[k - (f == 0.5)], m)

    def add(self, a: Bound, b: Bound) -> Bound:
        """a + b."""
        (al, ah, ea), (bl, bh, eb) = a, b
        xl, xh = al + bl, ah + bh
        low, high, m = self.enclose(xl, xh)
        f, k = frexp(m)
        if f == 0.5 and not (self.double and (fsum((al, bl, -xl)) < 0.0 or fsum((ah, bh, -xh)) > 0.0)):
            k -= 1
        r = min(self.half_sum[k], ah if ah > -al else -al, bh if bh > -bl else -bl) if m else 0.0
        return low, high, (ea + eb + r) * UP

    def mul(self, a: Bound, b: Bound) -> Bound:
        """a b, and a a >= 0; TINY is for the two products that may underflow."""
        (al, ah, ea), (bl, bh, eb) = a, b
        A, B = ah if ah > -al else -al, bh if bh > -bl else -bl
        ends = (al * bl, ah * bh) if al >= 0.0 <= bl else (al * bl, al * bh, ah * bl, ah * bh)
        low, high, m = self.enclose(min(ends), max(ends))
        f, k = frexp(m or TINY)
        if f == 0.5 and not (self.double and Fraction(A) * Fraction(B) > m):
            k -= 1
        r = self.half_product[k] if self.double and A and B else min(self.half_product[k], m)
        e = ((A + ea) * eb + B * ea + r + TINY) * UP
        return max(low, 0.0) if a is b else low, high, e if e < inf else inf

    def neg(self, a: Bound) -> Bound:
        """-a."""
        return -a[1], -a[0], a[2]

    def relu(self, a: Bound) -> Bound:
        """max(a, 0)."""
        most = (a[1] + a[2]) * UP  # has the right sign
        return max(a[0], 0.0), max(a[1], 0.0), min(a[2], most) if most > 0.0 else 0.0

    def scale(self, a: Bound, exponent: int) -> Bound:
        """2**exponent a, exact above the subnormal numbers."""
        (al, ah, e), c = a, 2.0**exponent
        low, high, _ = self.enclose(al * c, ah * c)
        kept = exponent >= 0 or (al == ah and low / c == al) or max(al, -ah) >= 2.0 ** (self.format.emin - exponent)
        return low, high, (e * c + (0.0 if kept else self.format.omega) + (TINY if e and exponent < 0 else 0.0)) * UP

    def overwrite(self, x: Bound, y: Bound, d: Bound) -> Bound:
        """x + d, where d is y - x: near y, whatever x is."""
        (xl, xh, _), (yl, yh, e), (dl, dh, _), peak = x, y, d, self.peak
        r = self.add((yl, yh, 0.0), (-xh, -xl, 0.0))[2]
        near = nextafter(max(-yl, yh) + r, inf)
        f, k = frexp(near)
        half = self.half_sum[k - (f == 0.5)] if near < inf else inf
        try:
            low, high, other = self.add((xl, xh, 0.0), (dl, dh, 0.0))
        except Overflow:  # those ends only sharpen the ones from y
            low, high, other = -inf, inf, inf
        self.peak = max(peak, min(max(-low, high), near))
        if moved := (r + min(half, other)) * UP:
            yl, yh = nextafter(yl - moved, -inf), nextafter(yh + moved, inf)
        return self.fl(max(low, yl)), self.fl(min(high, yh)), (e + moved) * UP

    def squared(self, output: str) -> Fraction:
        """The sum of the squares of an output's error bounds."""
        pairs = zip(self.program.outputs[output], self.program.known[output], strict=True)
        try:
            errors = [
                self.error[node] if node >= 0 else known - self.fl(known) for node, known in pairs if self.first is None
            ]
        except Overflow:  # of a known number
            errors = [inf]
        if self.first is not None or inf in errors:
            raise Rejected(f"no error bound of {output} is proved: an overflow is not excluded")
        return sum((Fraction(e) ** 2 for e in errors), Fraction(0))

    def eps(self, output: str) -> Fraction:
        """An upper bound of the norm of an output's error, within one part in 2**60."""
        return root_up(self.squared(output))


def root_up(x: Fraction) -> Fraction:
    """An upper bound of the square root of x >= 0, within one part in 2**60."""
    shift = max(0, 64 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    scaled = -((-x.numerator << 2 * shift) // x.denominator)
    return Fraction(isqrt(scaled - 1) + 1 if scaled else 0, 1 << shift)
