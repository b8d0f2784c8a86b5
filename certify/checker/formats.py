"""Formats and orders of sums, as their names say; rounding a number to a format.

For p <= 24, fl(x) = (x + T) - T with T = 3/2 2**52 spacings of the format at x: one binary64 addition rounds to it, ties to
even. The sum, product, quotient or root of numbers of the format is rounded to binary64 first; as 2 p + 2 <= 53 that is
innocuous (Figueroa 1995; docs/theory/functions.md#emulation for subnormal results). Anything else is rounded to odd first,
which keeps it on its side of every number and midpoint of the format (Boldo and Melquiond 2008).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from math import frexp, inf, ldexp, nextafter
from typing import Any

from certify.checker.document import Beyond, Rejected, shown

TINY = 2.0**-1074


class Overflow(Exception):
    """A result that is not finite, or not proved to be."""


class Format:
    """A binary format: precision p <= 24 or 53, exponents emin to emax, `cut` numbers less at the top; `flush`es subnormals."""

    def __init__(
        self, name: str, p: int, emin: int, emax: int, cut: int = 0, over: str = "", flush: bool = False
    ) -> None:
        self.name, self.precision, self.emin, self.emax, self.flush = name, p, emin, emax, flush
        self.u, self.largest = 2.0**-p, (2.0 - 2.0 ** (1 - p) * (1 + cut)) * 2.0**emax
        self.normal, self.quantum = 2.0**emin, max(2.0 ** (emin - p + 1), TINY)
        self.omega = max(2.0 ** (emin - p), TINY)  # half the least subnormal
        self.least = self.normal if flush else 0.0  # results below it become 0
        below = "with subnormals flushed to zero" if flush else "with subnormals"
        self.words = f"{name}: precision {p}, exponents {emin} to {emax}, {below}{over}"
        self.closed: Format = self
        self.open = copy(self)  # its twin, of values of any-order that may be products which were not rounded to it
        self.open.open = self.open
        # where 2**(k-1) <= |x| < 2**k (k < 0 counts from the end of a list): T, half an ulp of a sum, and of a product
        self.shift, self.half_sum, self.half_product = [0.0] * 2200, [0.0] * 2200, [0.0] * 2200
        for k in range(-1075, 1025):
            exponent, half = 52 + max(k, emin + 1) - p, 2.0 ** max(k - 1 - p, -1074)
            self.shift[k] = 0.0 if p == 53 else 1.5 * 2.0**exponent if exponent < 1023 else inf
            self.half_sum[k] = half if k > emin + 1 else 0.0  # sums are multiples of the least subnormal
            self.half_product[k] = max(half, self.omega)

    def fl(self, x: float) -> float:
        """The number of the format nearest to x, ties to even."""
        t = self.shift[frexp(x)[1]]
        y = (x + t) - t
        if not -self.largest <= y <= self.largest:
            raise Overflow
        return 0.0 if self.flush and -self.normal < y < self.normal else y

    def nearest(self, x: Fraction) -> float:
        """The same for any exact number: to odd first, if that is not binary64."""
        try:
            return self.fl(float(x) if self.precision == 53 else odd(x))
        except OverflowError:
            raise Overflow from None

    def holds(self, other: Format) -> bool:
        """Whether every number of the other format is one of this."""
        least, least_other = (f.normal if f.flush else f.quantum for f in (self, other))
        fits = self.precision >= other.precision and self.largest >= other.largest
        return fits and self.quantum <= other.quantum and least <= least_other

    def holds_scale(self, exponent: int) -> bool:
        """Whether 2**exponent and its reciprocal are numbers of the format."""
        least = self.emin if self.flush else self.emin - self.precision + 1
        return least <= -abs(exponent) and abs(exponent) <= self.emax


def odd(x: Fraction) -> float:
    """x rounded to odd: exact, or the neighbour in binary64 whose last bit is 1."""
    y = float(x)
    even = int(ldexp(frexp(y)[0], 53)) % 2 == 0
    return nextafter(y, inf if x > y else -inf) if even and x != y else y


_NAMED = {"e5m2": (3, -14, 15), "float16": (11, -14, 15), "bfloat16": (8, -126, 127), "tf32": (11, -126, 127)}
_NAMED |= {"float32": (24, -126, 127), "float64": (53, -1022, 1023), "e4m3": (4, -6, 8)}
_FORMAT = re.compile(r"(\w+|p=(\d{1,2}),emin=(0|-?[1-9]\d{0,2}),emax=(0|-?[1-9]\d{0,2}))(,ftz)?(,saturate)?", re.ASCII)


def format_named(name: Any) -> Format:
    """The format of a name (docs/report-format.md#formats)."""
    if not isinstance(name, str):
        raise Rejected(f"{shown(name)} is no name of a format")
    return _format(name)


@lru_cache(64)
def _format(name: str) -> Format:
    match = _FORMAT.fullmatch(name)
    known = _NAMED.get(match[1]) or tuple(int(x) for x in match.groups()[1:4] if x is not None) if match else ()
    if match is None or len(known) != 3:
        raise Beyond(f"{shown(name)} is no format that this checker knows")
    p, emin, emax = known
    if match[2] and not (2 <= p <= 24 and -400 <= emin < emax <= 400):
        raise Beyond(f"{name} has a precision or exponents that this checker does not emulate")
    e4m3 = match[1] == "e4m3"  # its last number is a NaN, and it has no infinities
    over = ", overflow saturates" if match[6] else ", overflow gives NaN" if e4m3 else ""
    return Format(name, p, emin, emax, int(e4m3), over, bool(match[5]))


FORMATS = {name: format_named(name) for name in _NAMED}


@dataclass(frozen=True)
class Order:
    """How sums are evaluated: `kind`, block length, and the format in which they are accumulated, or none."""

    name: str = "serial"
    kind: str = "serial"
    size: int = 0
    accumulator: Format | None = None

    @property
    def keeps_places(self) -> bool:
        """Whether known zeros hold a place among the terms."""
        return self.kind in ("pairwise", "blocked")

    def total(self, add: Callable[[Any, Any], Any], terms: list[Any]) -> Any:
        """The sum of terms, of which None is a known zero; not of any-order."""
        if not self.keeps_places:
            return reduce(add, terms)

        def plus(a: Any, b: Any) -> Any:
            return b if a is None else a if b is None else add(a, b)

        def halves(terms: list[Any]) -> Any:
            half = len(terms) // 2
            return plus(halves(terms[:half]), halves(terms[half:])) if half else terms[0]

        if self.kind == "pairwise":
            return halves(terms)
        return reduce(plus, [reduce(plus, terms[k : k + self.size]) for k in range(0, len(terms), self.size)])

    def words(self, format: Format, mixed: bool) -> list[str]:
        """What a claim assumes of sums, in a program where operations have formats of their own if it is `mixed`."""
        order = self.name.split(":")[0]
        sums = f"sums are evaluated in the order {order}, without fused multiply-add"
        if self.kind == "any-order":
            sums = "sums are evaluated in any order, with or without fused multiply-add"
        if self.kind == "fma":
            sums = "sums are evaluated in the order serial, every product fused into the sum"
        if (wide := self.accumulator) is None:
            return [sums]
        marked = ", or to the format that its operation is marked with" if mixed else ""
        return [sums, f"products are added in {wide.name}, every total is rounded once to {format.name}{marked}"]


_ORDER = re.compile(
    r"(serial|pairwise|fma|any-order|blocked\(([1-9]\d{0,8})\))(?::(float16|float32|float64))?", re.ASCII
)
SERIAL, PAIRWISE = Order(), Order("pairwise", "pairwise")


def order_named(name: Any) -> Order:
    """The order of a name."""
    match = _ORDER.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise Rejected(f"{shown(name)} is no order of sums")
    return Order(name, match[1].split("(")[0], int(match[2] or 0), FORMATS[match[3]] if match[3] else None)
