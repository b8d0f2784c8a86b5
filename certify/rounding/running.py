"""Running error bounds: one pass over the graph, per node, sharp to half an ulp of every operation.

**Theorem.** Let every node carry numbers lo <= hi of the format and E >= 0 with

    (I)   for every input in the region, the computed value x^ satisfies lo <= x^ <= hi and |x^ - x| <= E,

x being the exact value. If (I) holds for the operands a, b and no operation overflows, the rules of this module give
(I) for the result. Hence, by induction over the graph, for every node. With |a| := max(-lo_a, hi_a):

    a + b   lo, hi = fl(lo_a + lo_b), fl(hi_a + hi_b)           E = E_a + E_b + min(h(m), |a|, |b|)
            m = max(-(lo_a + lo_b), hi_a + hi_b)                0 in place of h(m) if m <= 2**(emin + 1)
    a b     lo, hi = extremes of fl over the four corners       E = |a| E_b + |b| E_a + E_a E_b
            m = |a| |b|                                             + min(max(h(m), omega), m)
    -a      -hi_a, -lo_a                                        E = E_a
    relu a  max(lo_a, 0), max(hi_a, 0)                          E = min(E_a, max(hi_a + E_a, 0))
    x + (y - x), at once                                        E = E_y + l_1 + l_2, see below
    2**k a  fl(2**k lo_a), fl(2**k hi_a)                        E = 2**k E_a (+ omega, if k < 0 and it can underflow)

where h(m) = u 2**(ceil(log2 m) - 1) is half an ulp just below m.

*Proof.* Enclosures: the exact operation on computed operands is monotone in each of them (for products: bilinear, so
extreme at corners), and so is fl. Errors: write x^ - x as the rounding of the last operation plus what the operands
carry. A sum carries E_a + E_b; a product carries a^ b^ - a b = a^ (b^ - b) + b^ (a^ - a) - (a^ - a)(b^ - b), at most
|a| E_b + |b| E_a + E_a E_b. Rounding y to nearest moves it by at most half the spacing of the format at y, which for
|y| <= m is at most h(m): numbers below m lie in the binade below it or lower, and m itself, if a power of two, is a
number of the format. It also moves y by at most the distance to *any* number of the format, so by |a^| or |b^| for a
sum (the other operand is one), and by |y| for a product (0 is one). Sums are multiples of the smallest subnormal, so
they are exact up to 2**(emin + 1). Products below 2**(emin + 1) move by at most omega. ReLU is 1-Lipschitz, and
relu(x), relu(x^) both lie in [0, max(hi_a + E_a, 0)] since x <= x^ + E_a. Scaling is exact unless it underflows.
Overwriting x by y: let l_1, l_2 be the min(...) terms of the rules for y - x and for x + (y - x). Then fl(y^ - x^) =
y^ - x^ + e_1, and adding x^ gives y^ + e_1 + e_2 with |e_1| <= l_1, |e_2| <= l_2: x and its error drop out, the result
also lies in [lo_y - l_1 - l_2, hi_y + l_1 + l_2], and since the last sum before rounding is y^ + e_1, l_2 is at most
half an ulp at |y| + l_1. QED

The exact value needs no enclosure of its own: (I) encloses it in [lo - E, hi + E].

**How the rules are evaluated.** lo and hi are the emulated operations themselves (`certify.arithmetic.ieee`). Every
E is computed in binary64, rounded to nearest, and then multiplied by 1 + 2**-50: each rule has at most six roundings
of nonnegative terms, each relative 2**-53 at most, and (1 + 2**-50)(1 - 2**-53)**7 > 1. Products may underflow, each
by at most 2**-1075; 2**-1073 is added for them. Sums of nonnegative binary64 numbers do not underflow.

m is rounded to nearest too. Below p = 51 that is harmless: if fl64(m) is a power of two s < m then y in (s, m] rounds
to s in the format, moving by m - s <= 2**-53 s < h(s); otherwise m and fl64(m) share a binade. For binary64 the lanes
where fl64(m) is a power of two are settled by the exact error of m (`certify.arithmetic.errorfree`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from certify.arithmetic import Format
from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.errorfree import product_exceeds, sum_error
from certify.graph import Graph, Values, evaluate
from certify.rounding.bounds import Bounds
from certify.rounding.region import Floats, Region

LOW, HIGH, ERROR = 0, 1, 2
_UP = 1.0 + 2.0**-50
_TINY = 2.0**-1073
_EXPONENT = np.int64(0x7FF0000000000000)
_MANTISSA = np.int64(0x000FFFFFFFFFFFFF)


def running(graph: Graph, format: Format, region: Region) -> Bounds:
    """Running error bounds of the program `graph` in `format`, for every exact input in `region`.

    Converting the inputs to the format is part of the program. The graph must have an order.

    Raises
    ------
    OrderUnspecified : the graph has sums without an order.
    InputRejected : an input is missing, or the kernel scales by a number the format cannot hold.
    """
    arithmetic = Running(format)
    inputs = {name: arithmetic.enclose(region.lower[name], region.upper[name]) for name in region.lower}
    if region.representable:
        for enclosed in inputs.values():
            enclosed[ERROR] = 0.0  # x^ = x; and fl(lower) <= x <= fl(upper), since fl is monotone
    values = evaluate(graph, arithmetic, inputs)
    arithmetic.note(_magnitude(values[:, : graph.n_inputs]))
    return Bounds(graph, format, values[LOW], values[HIGH], values[ERROR], arithmetic.peak)


class Running:
    """The arithmetic of the theorem. Values are arrays of shape (3, lanes): lo, hi, E.

    `peak` is the largest magnitude that any operation so far can return before rounding (nan once one overflowed).
    """

    def __init__(self, format: Format) -> None:
        self.format = format
        self.peak = 0.0
        self._double = format.precision == 53
        self._exact_sums = float(np.ldexp(1.0, format.emin + 1))

    def empty(self, n: int) -> Values:
        """Room for n values."""
        return np.empty((3, n))

    def constant(self, values: Floats) -> Values:
        """Constants converted to the format: points with their own conversion error."""
        self.note(np.abs(values))
        return self.enclose(values, values)

    def enclose(self, lower: Floats, upper: Floats) -> Values:
        """Inputs anywhere in [lower, upper], shape (3, *shape): at a point the conversion error itself."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            low, high = self.format.round(lower), self.format.round(upper)
            magnitude = np.maximum(np.abs(lower), np.abs(upper))
            local = np.minimum(np.maximum(self._half_ulp(magnitude), self.format.omega), magnitude)
            # x and fl(x) are multiples of one small number and close: their difference is exact in binary64
            error = np.where(lower == upper, np.abs(lower - low), local)
        return np.stack([low, high, error])

    def add(self, a: Values, b: Values) -> Values:
        """fl(a + b)."""
        ends, m, local = self._sum(a, b)
        return self._result(self.format.round(ends), m, (a[ERROR] + b[ERROR] + local) * _UP)

    def overwrite(self, x: Values, y: Values, difference: Values) -> Values:
        """fl(x + fl(y - x)), whose exact value is y."""
        _, _, first = self._sum(y, self.neg(x))
        ends, m, second = self._sum(x, difference)
        # the sum before rounding is y^ + (rounding of the difference)
        near = (_magnitude(y) + first) * _UP
        second = np.minimum(second, self._half_ulp(near))
        moved = (first + second) * _UP
        # where neither operation rounds, the result is y^ itself, with no step outward
        lowest = np.where(moved > 0, step_down(y[LOW] - moved), y[LOW])
        highest = np.where(moved > 0, step_up(y[HIGH] + moved), y[HIGH])
        low = np.maximum(self.format.round(ends[LOW]), self.format.round(lowest))
        high = np.minimum(self.format.round(ends[HIGH]), self.format.round(highest))
        # the argument needs a finite difference: where it may overflow, so may what is made of it
        finite = np.isfinite(difference[LOW]) & np.isfinite(difference[HIGH])
        low, high = np.where(finite, low, -np.inf), np.where(finite, high, np.inf)
        return self._result(np.stack([low, high]), np.minimum(m, near), (y[ERROR] + moved) * _UP)

    def sub(self, a: Values, b: Values) -> Values:
        """fl(a - b)."""
        return self.add(a, self.neg(b))

    def mul(self, a: Values, b: Values) -> Values:
        """fl(a b)."""
        size_a, size_b = _magnitude(a), _magnitude(b)
        m = size_a * size_b
        local = np.maximum(self._half_ulp(m), self.format.omega)
        if self._double:
            x, y = np.broadcast_arrays(size_a, size_b)
            _settle(local, m, lambda lanes: product_exceeds(x[lanes], y[lanes], m[lanes]))
            local *= (size_a > 0) & (size_b > 0)
        else:
            local = np.minimum(local, m)
        error = ((size_a + a[ERROR]) * b[ERROR] + size_b * a[ERROR] + local) * _UP + _TINY
        return self._result(self.format.round(_corners(a, b)), m, error)

    def neg(self, a: Values) -> Values:
        """-a, exact."""
        return np.stack([-a[HIGH], -a[LOW], a[ERROR]])

    def relu(self, a: Values) -> Values:
        """max(a, 0): decided where the enclosures of the computed and of the exact value agree on the sign."""
        # fl(hi + E) has the sign of hi + E, so a branch proved inactive carries no error at all
        error = np.minimum(a[ERROR], np.maximum(a[HIGH] + a[ERROR], 0.0) * _UP)
        return np.stack([np.maximum(a[LOW], 0.0), np.maximum(a[HIGH], 0.0), error])

    def scale(self, a: Values, exponent: int) -> Values:
        """fl(a 2**exponent)."""
        self.format.check_scale(exponent)
        ends = np.ldexp(a[:2], exponent)
        rounded = self.format.round(ends)
        error = np.ldexp(a[ERROR], exponent)
        if exponent < 0:
            least = np.ldexp(self.format.min_normal, -exponent)  # in terms of a: `ends` may have been rounded already
            normal = (a[LOW] >= least) | (a[HIGH] <= -least)
            exact_point = (a[LOW] == a[HIGH]) & (np.ldexp(rounded[LOW], -exponent) == a[LOW])
            error = np.where(normal | exact_point, error, (error + self.format.omega) * _UP)
            error = np.where(a[ERROR] > 0, error + _TINY, error)
        return self._result(rounded, np.maximum(-ends[LOW], ends[HIGH]), error)

    def _sum(self, a: Values, b: Values) -> tuple[Values, Floats, Floats]:
        """The ends of a + b rounded to binary64, m, and min(h(m), |a|, |b|)."""
        ends = a[:2] + b[:2]
        m = np.maximum(-ends[LOW], ends[HIGH])
        half = self._half_ulp(m)
        if self._double:
            _settle(half, m, lambda lanes: _sum_exceeds(a, b, ends, lanes))
        else:
            half *= m > self._exact_sums
        return ends, m, np.minimum(np.minimum(half, _magnitude(a)), _magnitude(b))

    def _half_ulp(self, m: Floats) -> Floats:
        """h(m) for m >= 0 as binary64: u times the largest power of two below m, 0 for m = 0 and for underflow."""
        bits = np.maximum(m.view(np.int64), 1) - 1
        bits &= _EXPONENT
        return np.asarray(bits.view(np.float64) * self.format.u)

    def _result(self, ends: Values, m: Floats, error: Floats) -> Values:
        self.note(m)
        return np.concatenate([ends, error[None]])

    def note(self, m: Floats) -> None:
        """Take magnitudes into account in `peak`."""
        if m.size:
            self.peak = float(np.maximum(self.peak, m.max()))


def _magnitude(a: Values) -> Floats:
    """max |x^| over the enclosure."""
    return np.asarray(np.maximum(-a[LOW], a[HIGH]))


def _corners(a: Values, b: Values) -> Values:
    """The extremes of the product over the corners, shape (2, lanes), each rounded once to binary64."""
    if (a[LOW] == a[HIGH]).all():
        ends = (a[LOW] * b[LOW], a[LOW] * b[HIGH])
        return np.stack([np.minimum(*ends), np.maximum(*ends)])
    if (b[LOW] == b[HIGH]).all():
        return _corners(b, a)
    p, q, r, s = a[LOW] * b[LOW], a[LOW] * b[HIGH], a[HIGH] * b[LOW], a[HIGH] * b[HIGH]
    return np.stack([np.minimum(np.minimum(p, q), np.minimum(r, s)), np.maximum(np.maximum(p, q), np.maximum(r, s))])


def _settle(half: Floats, m: Floats, exceeds: Callable[[Any], Any]) -> None:
    """Double half an ulp, in place, in the lanes where m was rounded down to a power of two."""
    bits = m.view(np.int64)
    at_power = (bits & _MANTISSA) == 0
    if at_power.any():
        lanes = np.nonzero(at_power)
        half[lanes] *= np.where(exceeds(lanes), 2.0, 1.0)


def _sum_exceeds(a: Values, b: Values, ends: Values, lanes: Any) -> Any:
    """Whether the exact ends of a + b stick out of the rounded ones, in the given lanes."""
    index = (slice(None), *lanes)
    x, y = (np.broadcast_to(v[:2], ends.shape)[index] for v in (a, b))
    error = sum_error(x, y, ends[index])
    return (error[LOW] < 0) | (error[HIGH] > 0)
