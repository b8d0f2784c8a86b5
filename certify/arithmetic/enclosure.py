"""Outward enclosures: every exact value between two binary64 numbers.

Values of n nodes are an array of shape (2, n), the lower ends above the upper ends. An enclosure [lo, hi] promises
lo <= x <= hi for the exact value x; an end that overflows becomes infinite and a NaN end promises nothing (callers test
for finite ends). Two backends give the same promise:

- `crival`: the tightest binary64 enclosure, from the library of that name;
- `numpy`: round to nearest, then one step outward. A correctly rounded end is at most one step away from the nearest
  number, so this is at most one unit in the last place wider at each end.

Neither changes the rounding mode of the processor.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from certify.arithmetic.formats import Floats
from certify.errors import InputRejected, MissingExtra
from certify.graph import Values

_STEP = np.int64(1)
_TOP = np.int64(0x7FF0000000000000)  # the bits of infinity


def step_up(x: Floats) -> Floats:
    """The next binary64 number above each finite x (NaN and +inf stay). Same as `numpy.nextafter(x, inf)`, faster."""
    bits = (x + 0.0).view(np.int64)  # + 0.0 turns -0 into +0, whose successor is the smallest subnormal
    up = bits + np.where(bits >= 0, _STEP, -_STEP)
    stays = ((bits & np.int64(0x7FFFFFFFFFFFFFFF)) >= _TOP) & (bits >= 0)
    return np.where(stays | np.isnan(x), x, up.view(np.float64))


def step_down(x: Floats) -> Floats:
    """The next binary64 number below each finite x (NaN and -inf stay)."""
    return -step_up(-x)


class _Outward:
    """Operations that are the same for both backends."""

    exact = True  # enclosures of exact values: any order of a sum gives one

    def empty(self, n: int) -> Values:
        """Room for n values."""
        return np.empty((2, n))

    def constant(self, values: Floats) -> Values:
        """Binary64 numbers as points."""
        return np.stack([values, values])

    def neg(self, a: Values) -> Values:
        """-a, exact."""
        return -a[::-1]

    def relu(self, a: Values) -> Values:
        """max(a, 0), exact: decided where the enclosure does not contain 0 inside."""
        return np.maximum(a, 0.0)

    def scale(self, a: Values, exponent: int) -> Values:
        """a 2**exponent; an end that underflows moves outward."""
        scaled = np.ldexp(a, exponent)
        if exponent > 0:  # an end that overflows towards the inside moves back out
            largest = np.finfo(np.float64).max
            scaled[0] = np.where(np.isfinite(a[0]), np.minimum(scaled[0], largest), scaled[0])
            scaled[1] = np.where(np.isfinite(a[1]), np.maximum(scaled[1], -largest), scaled[1])
        else:
            back = np.ldexp(scaled, -exponent)
            scaled[0] = np.where(back[0] > a[0], step_down(scaled[0]), scaled[0])
            scaled[1] = np.where(back[1] < a[1], step_up(scaled[1]), scaled[1])
        return scaled

    def add(self, a: Values, b: Values) -> Values:
        raise NotImplementedError

    def mul(self, a: Values, b: Values) -> Values:
        raise NotImplementedError

    def sub(self, a: Values, b: Values) -> Values:
        """a - b."""
        return self.add(a, self.neg(b))


class NumpyEnclosure(_Outward):
    """Round to nearest, then one step outward."""

    name = "numpy"

    def add(self, a: Values, b: Values) -> Values:
        """a + b."""
        return _widened(a + b)

    def mul(self, a: Values, b: Values) -> Values:
        """a b: the extremes of a bilinear function lie at the corners, and rounding is monotone."""
        p, q, r, s = a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]
        low = np.minimum(np.minimum(p, q), np.minimum(r, s))
        high = np.maximum(np.maximum(p, q), np.maximum(r, s))
        return _widened(np.stack([low, high]))


def _widened(nearest: Values) -> Values:
    return np.stack([step_down(nearest[0]), step_up(nearest[1])])


class CrivalEnclosure(_Outward):
    """The tightest enclosures, by crival."""

    name = "crival"

    def __init__(self) -> None:
        import ival

        self._interval = ival.Interval

    def _pack(self, a: Values) -> Any:
        # The constructor validates each pair, which costs more than the operation; the ends are ordered by invariant.
        packed = self._interval.__new__(self._interval)
        packed.lo, packed.hi = np.ascontiguousarray(a[0]), np.ascontiguousarray(a[1])
        return packed

    def _packed(self, a: Values, b: Values) -> tuple[Any, Any]:
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self._pack(np.broadcast_to(a, shape)), self._pack(np.broadcast_to(b, shape))

    def add(self, a: Values, b: Values) -> Values:
        """a + b."""
        x, y = self._packed(a, b)
        result = x + y
        return np.stack([result.lo, result.hi])

    def mul(self, a: Values, b: Values) -> Values:
        """a b."""
        x, y = self._packed(a, b)
        result = x * y
        return np.stack([result.lo, result.hi])


Enclosure = NumpyEnclosure | CrivalEnclosure
BACKENDS: dict[str, Any] = {"crival": CrivalEnclosure, "numpy": NumpyEnclosure}


def enclosure(backend: str | None = None) -> Enclosure:
    """The enclosure arithmetic: `crival` where it is installed, else `numpy`; or the one named.

    Raises
    ------
    InputRejected, MissingExtra : no such backend; crival is asked for but not installed.
    """
    available = find_spec("ival") is not None
    if backend is None:
        backend = "crival" if available else "numpy"
    if backend not in BACKENDS:
        raise InputRejected(f"there is no enclosure backend {backend!r}", f"use one of {', '.join(BACKENDS)}")
    if backend == "crival" and not available:
        raise MissingExtra("the enclosure backend crival is not installed", "pip install crival, or use numpy")
    result: Enclosure = BACKENDS[backend]()
    return result
