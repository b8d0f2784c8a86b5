"""Exact arithmetic with an adversary in it, who moves the result of each operation as far as it may round."""

# ruff: noqa: D102  (methods named as in `certify.graph.evaluation.Arithmetic`)
from __future__ import annotations

from typing import Any

import numpy as np

from certify.arithmetic import Format, format_named
from certify.arithmetic.dyadic import fractions
from certify.arithmetic.enclosure import step_down
from certify.arithmetic.libm import CORRECT, Libm
from certify.graph import Graph, Op, Values
from certify.graph.graph import Ids
from certify.rounding.functions import RANGES
from certify.rounding.region import Floats

FAR = 1 << 14  # beyond the exponents of every format


class Adversary:
    """Exact arithmetic in which each operation's result is moved as far as it may round, in the direction of `signs`."""

    exact = True

    def __init__(self, base: Any, in_balls: bool, program: Graph, format: Format, libm: Libm, signs: Floats) -> None:
        self._base, self._in_balls, self._libm, self._signs = base, in_balls, libm, signs
        self._program, self._whole = program, format
        # operations are called in execution order, once an instruction
        self._instructions = (i for i in program.instructions() if i.op is not Op.CONST)
        self._now = next(self._instructions, None)
        # the structural zero first, then the constants of each CONST
        self._formats = iter(["", *(i.format for i in program.instructions() if i.op is Op.CONST)])

    def empty(self, n: int) -> Values:
        return np.asarray(self._base.empty(n))

    def constant(self, values: Floats) -> Values:
        name = next(self._formats)
        format = format_named(name) if name else self._whole
        return np.asarray(self._base.constant(format.unbounded.round(values)))

    def add(self, a: Values, b: Values) -> Values:
        exact = self._base.add(a, b)
        return self._moved(exact, np.minimum(self._sums(exact), np.minimum(self._size(a), self._size(b))))

    def sub(self, a: Values, b: Values) -> Values:
        return self.add(a, self._base.neg(b))

    def mul(self, a: Values, b: Values) -> Values:
        return self._rounded(self._base.mul(a, b))

    def div(self, a: Values, b: Values) -> Values:
        return self._rounded(self._base.div(a, b))

    def sqrt(self, a: Values, nonnegative: Any) -> Values:
        return self._rounded(self._base.sqrt(a, nonnegative))

    def scale(self, a: Values, exponent: int) -> Values:
        return self._passed(self._base.scale(a, exponent))

    def neg(self, a: Values) -> Values:
        return self._passed(self._base.neg(a))

    def relu(self, a: Values) -> Values:
        return self._passed(self._base.relu(a))

    def abs(self, a: Values) -> Values:
        return self._passed(self._base.abs(a))

    def max(self, a: Values, b: Values) -> Values:
        return self._passed(self._base.max(a, b))

    def select(self, p: Values, q: Values, x: Values, y: Values, strict: bool) -> Values:
        return self._passed(self._base.select(p, q, x, y, strict))

    def exp(self, a: Values) -> Values:
        return self._called("exp", a)

    def log(self, a: Values) -> Values:
        return self._called("log", a)

    def tanh(self, a: Values) -> Values:
        return self._called("tanh", a)

    def sigmoid(self, a: Values) -> Values:
        return self._called("sigmoid", a)

    def cast(self, a: Values) -> Values:
        i = self._now
        exact = i is None or all(self._format.contains(self._named(f)) for f in self._program.formats_of(i.left))
        return self._passed(a) if exact else self._rounded(a)

    @property
    def _format(self) -> Format:
        """That of the instruction at hand."""
        return self._named(self._now.format if self._now else "")

    def _named(self, name: str) -> Format:
        return format_named(name) if name else self._whole

    def _called(self, name: str, a: Values) -> Values:
        """U ulps of the exact result, inside the range of the function; of a correctly rounded one half an ulp."""
        exact, ulps = getattr(self._base, name)(a), self._libm.of(name, self._format)
        if ulps == CORRECT:
            return self._rounded(exact)
        ulp = np.ldexp(1.0, np.maximum(self._exponents(exact)[0], self._format.emin) - self._format.precision + 1)
        distance = ulp * np.where(ulp < 2.0**-1000, np.floor(ulps), ulps)  # the least may round up
        return self._moved(exact, np.minimum(distance, self._room(name, exact)))

    def _rounded(self, exact: Values) -> Values:
        return self._moved(exact, np.minimum(self._half_ulp(exact), self._size(exact)))

    def _passed(self, values: Values) -> Values:
        self._now = next(self._instructions, None)
        return values

    def _moved(self, values: Values, distance: Floats) -> Values:
        return self._passed(
            np.asarray(self._base.add(values, self._base.constant(self._signs_here(values) * distance)))
        )

    def _signs_here(self, values: Values) -> Floats:
        start = self._now.start if self._now else 0
        return self._signs[start : start + values.shape[-1]]

    def _half_ulp(self, exact: Values) -> Floats:
        """Half the spacing of the format just below |y|, as in the bounds: a power of two is a number of the format."""
        exponent, power = self._exponents(exact)
        return np.asarray(np.ldexp(1.0, np.maximum(exponent - power, self._format.emin) - self._format.precision))

    def _sums(self, exact: Values) -> Floats:
        """Sums of numbers of the format are exact up to 2**(emin + 1)."""
        return np.where(self._size(exact) > 2 * self._format.min_normal, self._half_ulp(exact), 0.0)

    def _exponents(self, values: Values) -> tuple[Ids, Ids]:
        """floor(log2 |y|) of every y, very low for 0, and 1 where |y| is a power of two; of a ball those of its least |y|."""
        found = np.empty((2, values.shape[-1]), dtype=np.int32)
        lanes = zip(*(row.ravel().tolist() for row in values), strict=True) if not self._in_balls else values.tolist()
        for k, lane in enumerate(lanes):
            significand, exponent = lane.abs_lower().man_exp() if self._in_balls else lane
            size = abs(int(significand))
            top = size.bit_length() - 1 + int(exponent) if size else -FAR
            found[:, k] = min(max(top, -FAR), FAR), size > 0 and size & (size - 1) == 0
        return found[0], found[1]

    def _room(self, name: str, exact: Values) -> Floats:
        """How far each result may move in its direction inside the range of the function, rounded down."""
        ends, room = RANGES[name], np.full(exact.shape, np.inf)
        upward = (self._signs_here(exact) > 0).tolist()
        for k, (y, up) in enumerate(zip(exact.tolist(), upward, strict=True)):
            if np.isfinite(ends[up]):
                room[k] = float((ends[1] - y if up else y - ends[0]).lower())
        return np.maximum(step_down(room), 0.0)

    def _size(self, values: Values) -> Floats:
        if self._in_balls:
            return np.array([abs(float(ball.mid())) for ball in values.ravel().tolist()]).reshape(values.shape)
        return np.asarray(np.abs(fractions(values).astype(np.float64)))
