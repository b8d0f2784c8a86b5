"""Majorant bounds of sums and products, for every order of the sums: where running bounds, of computed numbers, are larger.

**Theorem** (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3; docs/theory/rounding.md#majorant). Let |a| <= B_a
for the exact value and |a^ - a| <= E_a. If nothing overflows, then with w = omega, or 2**emin where subnormals are flushed,

    a + b, a - b    B = B_a + B_b       E = e + u (B + e) + w,  e = E_a + E_b
    a b             B = B_a B_b         E = e + u (B + e) + w,  e = B_a E_b + B_b E_a + E_a E_b
    n terms         B = sum B_i         E = e + G (B + e) + 4 n w,  e = sum e_i,  G = k u / (1 - k u) for n u < 1/2,
                                        k = n - 1 for a sum, n for a sum of products, whose e_i are those of the products;
                                        if that is one operation, its rule
    -a, relu a, cast    B, E kept if a is a number of the format; else rounded: E + u (B + E) + w
    2**k a          both scaled, + w if k < 0; rounded if a is no number of the format

as fl(y) = y (1 + d) + t, |d| <= u, |t| <= w, whatever y is; a term of a sum passes at most k roundings, in any order, fused or
not, and of the at most 2 n underflows each grows by (1 + u)**n < 2 at most. An operation that is fused rounds once less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum, inf

from certify.checker.document import Beyond
from certify.checker.emulation import evaluate
from certify.checker.formats import TINY, Format, format_named
from certify.checker.rounding import Running
from certify.checker.rules import UP

Size = tuple[float, float, Format]  # B, E, and a format that the number is in


def majorant(running: Running) -> list[float]:
    """Majorant error bounds of all nodes of a program in which nothing overflows. Raises Beyond if it has other operations."""
    program, every = running.program, replace(running.program.order, kind="any-order")
    values, _ = evaluate(program, Majorant(running.rules.format), running.box, order=every)
    if len(values) < len(running.error):
        raise Beyond("running bounds do not reach it, and majorant bounds overflow")
    return [error for _, error, _ in values]


class Majorant:
    """The arithmetic of the theorem in one format."""

    def __init__(self, format: Format) -> None:
        self.format, self.w = format, max(format.omega, format.least)

    def __getattr__(self, name: str) -> None:
        raise Beyond("running bounds do not reach it, and majorant bounds are of sums and products only")

    def own(self, name: str) -> Majorant:
        """The arithmetic of an operation with a format of its own."""
        return Majorant(format_named(name))

    accumulating = staticmethod(lambda format: Majorant(format))

    def given(self, lower: float, upper: float | None = None) -> Size:
        """An input or a constant, converted."""
        size = max(abs(lower), abs(lower if upper is None else upper))
        if upper is None or upper == lower:
            moved = abs(lower - self.format.fl(lower))
            return size, max(moved, self.format.least if 0 < size <= self.format.least else 0.0), self.format
        return size, (self.format.u * size + self.w + TINY) * UP, self.format

    def _rounded(self, size: float, carried: float) -> Size:
        size, carried = size * UP, carried * UP
        return size, (carried + (self.format.u * (size + carried) + self.w + TINY)) * UP, self.format

    def round(self, a: Size) -> Size:
        """A number of another format, rounded."""
        return self._rounded(a[0], a[1])

    def cast(self, a: Size) -> Size:
        """The same, exact for numbers of this format."""
        return a if self.format.holds(a[2]) else self.round(a)

    neg = relu = cast

    def add(self, a: Size, b: Size) -> Size:
        """a + b."""
        return self._rounded(a[0] + b[0], a[1] + b[1])

    sub = add

    def overwrite(self, x: Size, y: Size, d: Size) -> Size:
        """x + d."""
        return self.add(x, d)

    @staticmethod
    def _product(a: Size, b: Size) -> tuple[float, float]:
        return a[0] * b[0] * UP + TINY, (a[0] * b[1] + b[0] * a[1] + a[1] * b[1]) * UP + 3 * TINY

    def mul(self, a: Size, b: Size) -> Size:
        """a b."""
        return self._rounded(*self._product(a, b))

    def scale(self, a: Size, exponent: int) -> Size:
        """2**exponent a."""
        size, error = (x * 2.0**exponent + TINY for x in a[:2])
        if not self.format.holds(a[2]):
            return self._rounded(size, error)
        return size, error if exponent >= 0 else (error + self.w) * UP, self.format

    def every(self, a: Sequence[Size | None], b: Sequence[Size | None] | None = None) -> Size:
        """The sum of the a_i, or of the a_i b_i, in any order."""
        if b is None:
            terms = [x[:2] for x in a if x is not None]
        else:
            terms = [self._product(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
        n, u = len(terms), self.format.u
        if n == 1 + (b is None):  # one operation
            return self._rounded(*map(sum, zip(*terms, strict=True)))
        if n * u >= 0.5:
            raise Beyond("running bounds do not reach it, and a sum is too long for majorant bounds")
        k = n - 1 if b is None else n
        size, carried = (fsum(x[row] for x in terms) * UP for row in (0, 1))
        growth = k * u / (1.0 - k * u) * UP
        error = (carried + (growth * (size + carried) + 4 * n * self.w + TINY)) * UP
        return size, error if error < inf else inf, self.format
