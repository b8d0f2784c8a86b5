"""Formats as data, rounding into them, and the program as it runs in one; plain binary64 floats throughout.

For p <= 24, fl(x) = (x + T) - T with T = 3/2 2**52 spacings of the format at x: the sum lies in the binade whose spacing
is that of the format, so that one binary64 addition rounds to it, ties to even. Sums and products of numbers of the
format are rounded to binary64 first; for p <= 24 <= (53 - 2) / 2 that is innocuous (Figueroa 1995).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import frexp, inf
from typing import Any

from certify.checker.program import Program

_RANGE = 2200  # frexp gives exponents from -1073 to 1024; as list indices, negative ones count from the end


@dataclass(frozen=True)
class Format:
    """A binary format with subnormals: precision p, exponents 1 - emax to emax; binary64, or p <= 24."""

    name: str
    precision: int
    emax: int

    @property
    def emin(self) -> int:
        """The exponent of the least normal number."""
        return 1 - self.emax

    @property
    def u(self) -> float:
        """Unit roundoff."""
        return 2.0**-self.precision

    @property
    def omega(self) -> float:
        """Half the least subnormal (of binary64 all of it: there is no half)."""
        return max(2.0 ** (self.emin - self.precision), 2.0**-1074)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 * self.u) * 2.0**self.emax

    def fl(self, x: float) -> float:
        """The number of the format nearest to x, ties to even; infinite beyond the largest."""
        return self.rounder()(x)

    def rounder(self) -> Callable[[float], float]:
        """`fl` as a fast function."""
        shift, largest = tables(self)[0], self.largest

        def fl(x: float) -> float:
            t = shift[frexp(x)[1]]
            y = (x + t) - t
            return y if -largest <= y <= largest else math.copysign(inf, x)

        return fl


FORMATS = {
    f.name: f
    for f in (
        Format("float16", 11, 15),
        Format("bfloat16", 8, 127),
        Format("float32", 24, 127),
        Format("float64", 53, 1023),
    )
}


@lru_cache
def tables(format: Format) -> tuple[list[float], list[float], list[float]]:
    """By exponent k of x, 2**(k-1) <= |x| < 2**k: the constant T, half an ulp of a sum, and of a product."""
    shift, half_sum, half_product = [0.0] * _RANGE, [0.0] * _RANGE, [0.0] * _RANGE
    p, emin = format.precision, format.emin
    for k in range(-1075, 1025):
        exponent = 52 + max(k - p, emin - p + 1)
        shift[k] = 0.0 if p == 53 else 1.5 * 2.0**exponent if exponent < 1023 else inf
        half = 2.0 ** max(k - 1 - p, -1074)
        half_sum[k] = half if k > emin + 1 else 0.0  # sums are multiples of the least subnormal
        half_product[k] = max(half, format.omega)
    return shift, half_sum, half_product


def emulate(program: Program, format: Format, values: Sequence[float]) -> tuple[list[float], int | None]:
    """The numbers the program computes, inputs converted first, up to the first that is not finite; and its node."""
    fl = (lambda x: x) if format.precision == 53 else format.rounder()
    v: list[float] = [fl(x) for x in values]
    largest = format.largest
    for x in v:
        if not -largest <= x <= largest:
            return v, v.index(x)
    for step in program.steps:
        compute = _OPERATIONS[step.op]
        for lane in step.lanes:
            v.append(compute(v, lane, step.exponent, fl))
            if not -largest <= v[-1] <= largest:
                return v, len(v) - 1
    return v, None


def _dot(v: list[float], lane: tuple[Sequence[int], Sequence[int]], _: int, fl: Callable[[float], float]) -> float:
    products = [fl(v[a] * v[b]) for a, b in zip(*lane, strict=True)]
    return reduce(lambda s, t: fl(s + t), products) if products else 0.0


def _sum(v: list[float], lane: Sequence[int], _: int, fl: Callable[[float], float]) -> float:
    return reduce(lambda s, t: fl(s + t), [v[a] for a in lane]) if lane else 0.0


_OPERATIONS: dict[str, Callable[[list[float], Any, int, Callable[[float], float]], float]] = {
    "const": lambda v, lane, _, fl: fl(lane[0]),
    "sum": _sum,
    "dot": _dot,
    "sub": lambda v, lane, _, fl: fl(v[lane[0]] - v[lane[1]]),
    "neg": lambda v, lane, _, fl: -v[lane[0]],
    "relu": lambda v, lane, _, fl: max(v[lane[0]], 0.0),
    "scale": lambda v, lane, exponent, fl: fl(v[lane[0]] * 2.0**exponent),
    "overwrite": lambda v, lane, _, fl: fl(v[lane[0]] + v[lane[2]]),
}
