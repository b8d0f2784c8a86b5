"""Emulation of floating-point arithmetic: the floats that the program computes, bit for bit.

**Theorem (innocuous double rounding).** Let a, b be numbers of a format of precision p <= 24 whose exponents lie within
[-400, 400]. Then rounding fl64(a o b) to the format gives the correctly rounded a o b, for o in +, -, *, /, and rounding
fl64(sqrt(a)) gives the correctly rounded root. Proof: docs/theory/rounding.md#emulation (sums, products) and
docs/theory/functions.md#emulation (quotients, roots).

exp, log, tanh and sigmoid are correctly rounded (`certify.arithmetic.elementary`): the reference for libraries, of which a
bound assumes less (`certify.arithmetic.libm`).

With formats of their own, instructions may have operands of any other format. Then the binary64 result is rounded to odd
(`certify.arithmetic.errorfree`) and that to the format: one rounding in effect, for any binary64 operands.

A fused multiply-add a b + c is not covered: a b is exact in binary64, but its sum with c may fall on a midpoint after
the first rounding. That sum is rounded to odd instead, which 53 >= p + 2 bits make
innocuous. What happens above the largest number, and flushing, look only at the rounded result.

binary32 and binary64 use the hardware's own arithmetic; NumPy's `float16` computes the same numbers as the emulation.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from certify.arithmetic.accumulators import accumulator
from certify.arithmetic.chains import (
    chains,
    fused_chains,
    guessed_sums,
    guessed_wide_sums,
    partial_sums,
    verified_sums,
)
from certify.arithmetic.elementary import correctly_rounded, nearest
from certify.arithmetic.errorfree import (
    multiply_add,
    product_is_exact,
    product_to_odd,
    quotient_to_odd,
    root_to_odd,
    sum_to_odd,
)
from certify.arithmetic.formats import BINARY32, BINARY64, Floats, Format
from certify.arithmetic.naming import format_named
from certify.graph import FormatNames, Op, Values


class Ieee:
    """The arithmetic of a format, rounding to nearest, ties to even. Values are floats, shape (n,).

    Values are held in float32 for binary32, in float64 for all others. Overflow gives infinities and NaNs follow, as on
    hardware; NumPy's floating-point warnings are the caller's (`evaluate` silences them). With `infinities`, so do formats
    without them, those of single instructions included: what a proof or a search for overflow computes in.
    """

    def __init__(self, format: Format, *, infinities: bool = False) -> None:
        self.format = format.unbounded if infinities else format
        self._infinities = infinities
        self._dtype = np.float32 if format == BINARY32 else np.float64
        self._native = format in (BINARY32, BINARY64)

    def empty(self, n: int) -> Values:
        """Room for n values."""
        return np.empty(n, dtype=self._dtype)

    def constant(self, values: Floats) -> Values:
        """Binary64 numbers converted to the format."""
        with np.errstate(over="ignore", under="ignore"):
            return self.format.round(np.asarray(values, dtype=np.float64)).astype(self._dtype)

    def _round(self, x: Values) -> Values:
        return x if self._native else self.format.round(x)

    def add(self, a: Values, b: Values) -> Values:
        """fl(a + b)."""
        return self._round(a + b)

    def chains(self, lanes: int) -> bool:
        """Whether `chain` is worth it for so many lanes."""
        return chains(self.format, lanes)

    def chain(self, total: Values, terms: Values) -> Values:
        """fl(... fl(fl(total + t_1) + t_2) ...), terms of shape (..., K, lanes)."""
        return np.asarray(partial_sums(self.format, total, terms)[..., -1, :])

    def sub(self, a: Values, b: Values) -> Values:
        """fl(a - b)."""
        return self._round(a - b)

    def mul(self, a: Values, b: Values) -> Values:
        """fl(a b)."""
        return self._round(a * b)

    def fma(self, a: Values, b: Values, c: Values) -> Values:
        """fl(a b + c), rounded once; operands broadcast."""
        return rounded_multiply_add(self.format, *(np.asarray(x, dtype=np.float64) for x in (a, b, c))).astype(
            self._dtype
        )

    def fused_chains(self, lanes: int) -> bool:
        """Whether `fused_chain` is worth it for so many lanes."""
        return fused_chains(lanes)

    def fused_chain(self, total: Values, a: Values, b: Values) -> Values:
        """fl(... fl(fl(total + a_1 b_1) + a_2 b_2) ...), factors of shape (..., K, lanes), each step rounded once."""
        wide = self.format.precision == BINARY64.precision
        x, y = (np.asarray(factor, dtype=np.float64) for factor in (a, b))

        def guess(start: Values, part: slice) -> Values:
            factors = x[..., part, :], y[..., part, :]
            return (
                guessed_wide_sums(start, *factors)
                if wide
                else guessed_sums(self.format, start, factors[0] * factors[1])
            )

        sums = verified_sums(
            total, a.shape[-2], guess, lambda before, part: self.fma(a[..., part, :], b[..., part, :], before)
        )
        return np.asarray(sums[..., -1, :])

    def in_format(self, name: str, left: FormatNames, right: FormatNames, op: Op) -> Ieee:
        """The arithmetic in which one instruction of a program of several formats is computed. Raises InputRejected."""
        return AnyOperands(format_named(name) if name else self.format, infinities=self._infinities)

    def cast(self, a: Values) -> Values:
        """fl(a)."""
        return self.format.round(np.asarray(a, dtype=np.float64)).astype(self._dtype)

    def accumulating(self, name: str) -> Ieee:
        """The arithmetic in which sums of this format's products are accumulated. Raises InputRejected."""
        return Ieee(accumulator(name, self.format), infinities=self._infinities)

    def widen(self, a: Values) -> Values:
        """Numbers of a narrower format as numbers of this one, exact."""
        return a.astype(self._dtype)

    def narrow(self, a: Values) -> Values:
        """An accumulated total, rounded once to this format."""
        return self.cast(a)

    def neg(self, a: Values) -> Values:
        """-a, exact."""
        return -a

    def relu(self, a: Values) -> Values:
        """max(a, 0), exact; NaN stays NaN."""
        return np.maximum(a, np.zeros((), dtype=a.dtype))

    def div(self, a: Values, b: Values) -> Values:
        """fl(a / b); a division by zero gives an infinity or, of zero, NaN."""
        return self._round(a / b)

    def sqrt(self, a: Values, nonnegative: Any = None) -> Values:
        """fl(sqrt(a)); NaN of a negative number."""
        return self._round(np.sqrt(a))

    def max(self, a: Values, b: Values) -> Values:
        """The larger of the two, exact; NaN if either is."""
        return np.asarray(np.maximum(a, b))

    def abs(self, a: Values) -> Values:
        """|a|, exact."""
        return np.asarray(np.abs(a))

    def select(self, p: Values, q: Values, x: Values, y: Values, strict: bool) -> Values:
        """x where p <= q (or p < q), else y; y where either is NaN."""
        return np.where(p < q if strict else p <= q, x, y)

    def exp(self, a: Values) -> Values:
        """fl(exp(a))."""
        return self._called("exp", a)

    def log(self, a: Values) -> Values:
        """fl(log(a)); minus infinity of 0, NaN of a negative number."""
        return self._called("log", a)

    def tanh(self, a: Values) -> Values:
        """fl(tanh(a))."""
        return self._called("tanh", a)

    def sigmoid(self, a: Values) -> Values:
        """fl(1 / (1 + exp(-a))), rounded once."""
        return self._called("sigmoid", a)

    def _called(self, name: str, a: Values) -> Values:
        return correctly_rounded(name, a, self.format).astype(self._dtype)

    def scale(self, a: Values, exponent: int) -> Values:
        """fl(a 2**exponent), exact unless it underflows or overflows."""
        self.format.check_scale(exponent)
        return self._round(a * self._dtype(2.0**exponent))


class AnyOperands(Ieee):
    """The arithmetic of a format for operands of any format: every result is rounded once. Values are binary64 arrays."""

    def __init__(self, format: Format, *, infinities: bool = False) -> None:
        super().__init__(format, infinities=infinities)
        self._dtype = np.float64
        self._native = False
        self._wide = format.precision == BINARY64.precision

    def accumulating(self, name: str) -> AnyOperands:
        """As `Ieee.accumulating`."""
        return AnyOperands(accumulator(name, self.format), infinities=self._infinities)

    def add(self, a: Values, b: Values) -> Values:
        """fl(a + b)."""
        return self._round(a + b if self._wide else sum_to_odd(a, b))

    def sub(self, a: Values, b: Values) -> Values:
        """fl(a - b)."""
        return self.add(a, -b)

    def mul(self, a: Values, b: Values) -> Values:
        """fl(a b)."""
        return self._round(a * b if self._wide else product_to_odd(a, b))

    def fma(self, a: Values, b: Values, c: Values) -> Values:
        """fl(a b + c), rounded once; operands broadcast."""
        if self._wide:
            return super().fma(a, b, c)
        a, b, c = np.broadcast_arrays(a, b, c)
        exact = product_is_exact(a, b)
        before = np.where(exact, sum_to_odd(np.asarray(a * b), c), multiply_add(a, b, c))
        result = self._round(before)
        # where binary64 rounded, and perhaps to a midpoint of the format, rationals decide
        around = [self._round(np.nextafter(before, end)) for end in (-np.inf, np.inf)]
        lanes = np.nonzero(~exact & np.isfinite(before) & (around[0] != around[1]))
        if len(lanes[0]):
            triples = zip(*(x[lanes].tolist() for x in (a, b, c)), strict=True)
            result[lanes] = [nearest(Fraction(x) * Fraction(y) + Fraction(z), self.format) for x, y, z in triples]
        return result

    def div(self, a: Values, b: Values) -> Values:
        """fl(a / b); a division by zero gives an infinity or, of zero, NaN."""
        return self._round(a / b if self._wide else quotient_to_odd(a, b))

    def sqrt(self, a: Values, nonnegative: Any = None) -> Values:
        """fl(sqrt(a)); NaN of a negative number."""
        return self._round(np.sqrt(a) if self._wide else root_to_odd(a))


def rounded_multiply_add(format: Format, a: Floats, b: Floats, c: Floats) -> Floats:
    """a b + c of numbers of the format, rounded once to it, as binary64."""
    if format.precision == BINARY64.precision:
        return format.round(multiply_add(a, b, c))
    return format.round(sum_to_odd(np.asarray(a * b), c))  # the product is exact
