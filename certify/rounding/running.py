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

where h(m) = u 2**(ceil(log2 m) - 1) is half an ulp just below m. Fused multiply-adds, accumulators and formats that flush
have rules of the same kind (docs/theory/rounding.md). Fused multiply-adds have theirs in `certify.rounding.fused`, quotients,
roots, library functions, maxima and selections in `certify.rounding.functions`, and `any-order` has its own module.

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
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np

from certify.arithmetic import Format, format_named
from certify.arithmetic.accumulators import accumulator
from certify.arithmetic.chains import chains, partial_sums
from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.libm import ONE_ULP, Libm, chosen_library
from certify.graph import FormatNames, Graph, Op, Order, Values, additions, evaluate, order_named
from certify.rounding import compiled
from certify.rounding.bounds import Bounds, known_numbers
from certify.rounding.functions import Functions
from certify.rounding.fused import Fused
from certify.rounding.local import ERROR, HIGH, LOW, TINY, UP, corners, magnitude, outward
from certify.rounding.region import Floats, Region

#: The rules that are written out in `certify.rounding.loops`: an arithmetic that has others is not computed there.
_COMPILED = (
    *("add", "mul", "fma", "chain", "fused_chain", "_sum", "_product", "_fused", "_fused_ends", "_unrounded"),
    *("_rounding", "_half_ulp", "_round", "_kept", "_result"),
)


def running(graph: Graph, format: Format, region: Region, *, libm: str | Libm | None = None) -> Bounds:
    """Running error bounds of the program `graph` in `format`, for every exact input in `region`.

    Converting the inputs to the format is part of the program. The graph must have an order. `libm` is what is assumed of the
    library that computes exp, log, tanh and sigmoid, or its name; by default what is published of NumPy in this format. An
    operation whose operands are not proved to be in its domain has infinite bounds: `Bounds.first_overflow` finds it, and
    `Bounds.why` says what is wrong.

    Raises
    ------
    OrderUnspecified : the graph has sums without an order.
    InputRejected : an input is missing, or the kernel scales by a number the format cannot hold.
    """
    library = chosen_library(libm, [format, *map(format_named, graph.format_names)])
    return analysed(graph, arithmetic_of(graph, format, library), format, region)[0]


def analysed(graph: Graph, arithmetic: Running, format: Format, region: Region) -> tuple[Bounds, Values]:
    """The bounds of a program of `format` by a fresh arithmetic, and its values of all nodes, of which they are rows."""
    inputs = {name: arithmetic.enclose(region.lower[name], region.upper[name]) for name in region.lower}
    if region.representable:
        for enclosed in inputs.values():
            enclosed[ERROR] = 0.0  # x^ = x; and fl(lower) <= x <= fl(upper), since fl is monotone
    values = evaluate(graph, arithmetic, inputs)
    arithmetic.note(magnitude(values[:, : graph.n_inputs]))
    for _, known in known_numbers(graph):
        arithmetic.note(np.abs(known))
    error = np.where(np.isnan(values[ERROR]), np.inf, values[ERROR])  # as of 0 times an unbounded error
    rows = values[LOW], values[HIGH], error
    return Bounds(graph, format, *rows, arithmetic.largest_result, arithmetic.libm), values


def arithmetic_of(graph: Graph, format: Format, libm: Libm = ONE_ULP) -> Running:
    """The running bounds for the order of `graph`: of one program, or of every program of `any-order`."""
    from certify.rounding.anyorder import EveryOrder

    every = graph.order is not None and order_named(graph.order).is_any
    return EveryOrder(format, libm) if every else Running(format, libm)


class Running(Functions, Fused):
    """The arithmetic of the theorem. Values are arrays of shape (3, lanes): lo, hi, E.

    `peak` is the largest magnitude that any operation so far can return before rounding (nan once one overflowed);
    partial sums in an accumulator are compared with the accumulator's range and are not part of it.
    """

    def __init__(self, format: Format, libm: Libm = ONE_ULP) -> None:
        super().__init__(format, libm)
        self.peak = 0.0
        self._in_formats: dict[Any, Self] = {}

    @property
    def largest_result(self) -> float:
        """What no operation's result exceeds in magnitude, each rounded to its own format."""
        every: list[Running] = [self, *self._in_formats.values()]
        peaks = [each.format.round(np.array(each.peak)) for each in every]
        return float(np.max(peaks))  # nan if one is

    def in_format(self, name: str, left: FormatNames, right: FormatNames, op: Op) -> Self:
        """The arithmetic in which one instruction of a program of several formats is bounded. Raises InputRejected."""
        key = name, left, right, op is Op.DOT
        if key not in self._in_formats:
            operands = [tuple(self._named(each) for each in names) for names in (left, right)]
            inner = copy(self)
            inner.peak = 0.0
            inner.compute_in(self._named(name), operands[0], operands[1], op is Op.DOT)
            self._in_formats[key] = inner
        return self._in_formats[key]

    def _named(self, name: str) -> Format:
        return format_named(name) if name else self.format

    def cast(self, a: Values) -> Values:
        """fl(a), where `a` is exact otherwise."""
        if self._left_in and self._right_in:
            return a
        m = magnitude(a)
        return self._result(self._round(a[:2]), m, (a[ERROR] + self._rounding(a[:2], m)) * UP)

    def accumulating(self, name: str) -> Self:
        """The arithmetic in which sums of this format's products are accumulated. Raises InputRejected."""
        wide = copy(self)
        wide.peak = 0.0
        wide.compute_in(accumulator(name, self.format), self._left, self._right, self._sums_products)
        return wide

    def widen(self, a: Values) -> Values:
        """Numbers of a narrower format, exact."""
        return a

    def narrow(self, a: Values) -> Values:
        """An accumulator's total, rounded once to this format."""
        m = magnitude(a)
        local = self._rounding(a[:2], m)
        ends = self._kept(a[:2], self._round(a[:2]), m > 0)
        return self._result(ends, m, (a[ERROR] + local) * UP)

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
            low, high = self._round(np.stack([lower, upper]))
            m = np.maximum(np.abs(lower), np.abs(upper))
            local = self._rounding(np.stack([lower, upper]), m)
            # x and fl(x) are multiples of one small number and close: their difference is exact in binary64
            error = np.where(lower == upper, np.maximum(np.abs(lower - low), np.abs(high - lower)), local)
        return np.stack([low, high, error])

    def add(self, a: Values, b: Values) -> Values:
        """fl(a + b)."""
        ends, m, local = self._sum(a, b)
        error = a[ERROR] + b[ERROR]
        error += local
        error *= UP
        return self._result(self._round(ends), m, error)

    def chains(self, lanes: int) -> bool:
        """Whether `chain` has the rule of `add` for these operands, and is worth it for so many lanes."""
        return self._left_in and self._right_in and chains(self.format, lanes)

    def chain(self, total: Values, terms: Values) -> Values:
        """fl(... fl(fl(total + t_1) + t_2) ...), terms of shape (3, ..., K, lanes), by the rule of a + b, all terms at once.

        **Theorem.** Along a serial sum the rule of a + b gives the ends of `partial_sums`, local terms l_k that depend on the
        ends alone, and E = E_0 + sum (E_k + l_k). *Proof.* By induction over k: no E enters an end or a local term. QED

        These 2 K + 1 numbers are not negative. However binary64 adds them, each passes at most 2 K additions and one product
        by `up`: (1 + (2 K + 8) 2**-53)(1 - 2**-53)**(2 K + 1) > 1 for K < 2**24, so the result is no less than their sum.
        """
        ends = partial_sums(self.format, total[:2], terms[:2])
        _, m, local = self._sum(ends[..., :-1, :], terms)
        up = 1.0 + (2 * terms.shape[-2] + 8) * 2.0**-53
        # one after the other, as compiled loops add them
        moved = np.add.accumulate(terms[ERROR] + local, axis=-2)[..., -1, :]
        error = (total[ERROR] + moved) * up
        self.note(m)
        return np.concatenate([ends[..., -1, :], error[None]])

    def ordered_dot(self, a: Values, b: Values, order: Order, stretch: int) -> Values | None:
        """The matrix product of `a` (3, ..., terms, I) and `b` (3, ..., terms, J), lanes (3, ..., I J), in compiled loops.

        By `mul` and `add` or `fma`; with `stretch` > 0 by `chain` or `fused_chain`, so many terms at a time. The same numbers
        but for the signs of zeros; None where there are no loops, where they do not pay, or where a number is not finite.
        """
        product = self._product_in_loops() if self._left_in and self._right_in else None
        if product is None:
            return None
        loops = compiled.loops_for(self, Running, _COMPILED, a[:3], b[:3])
        if loops is None:
            return None
        how: tuple[Any, ...]
        if order.kind == "fma":
            loop, how = loops.fused_dot, (stretch, self.format.omega)
        else:
            counts = additions(order, a.shape[-2])
            loop, how = loops.ordered_dot, (counts, int((1 - counts).cumsum().max()) + 1, stretch, self._exact_sums)
        result = compiled.computed(loop, 4, a[:3], b[:3], *how, self.format.min_normal, *product)
        result = result.reshape(*result.shape[:-2], -1)
        m = result[loops.PEAK]
        if not (np.isfinite(result[ERROR]).all() and (m <= self.format.largest).all()):
            return None
        self.note(m)
        return result[: loops.PEAK]

    def overwrite(self, x: Values, y: Values, difference: Values) -> Values:
        """fl(x + fl(y - x)), whose exact value is y; a sum like any other unless both were rounded to one format."""
        if not self._uniform:
            return self.add(x, difference)
        first, (ends, m, second), apart = self._replacing(x, y, difference)
        # the sum before rounding is y^ + (rounding of the difference)
        near = (magnitude(y) + first + apart) * UP
        second = np.minimum(second, np.maximum(self._half_ulp(near), np.minimum(near, self._underflow)))
        moved = (first + second + apart) * UP
        # where neither operation rounds, the result is y^ itself, with no step outward
        lowest = np.where(moved > 0, step_down(y[LOW] - moved), y[LOW])
        highest = np.where(moved > 0, step_up(y[HIGH] + moved), y[HIGH])
        inner, outer = self._round(ends), self._round(np.stack([lowest, highest]))
        low, high = np.maximum(inner[LOW], outer[LOW]), np.minimum(inner[HIGH], outer[HIGH])
        # the argument needs a finite difference: where it may overflow, so may what is made of it
        finite = np.isfinite(difference[LOW]) & np.isfinite(difference[HIGH])
        low, high = np.where(finite, low, -np.inf), np.where(finite, high, np.inf)
        return self._result(np.stack([low, high]), np.minimum(m, near), (y[ERROR] + moved) * UP)

    def sub(self, a: Values, b: Values) -> Values:
        """fl(a - b)."""
        return self.add(a, self.neg(b))

    def mul(self, a: Values, b: Values) -> Values:
        """fl(a b)."""
        size_a, size_b = magnitude(a), magnitude(b)
        ends = corners(a, b)
        m, local = self._product(size_a, size_b, ends)
        ends = outward(ends) if self._rounded_twice else ends
        error = (size_a + a[ERROR]) * b[ERROR]
        error += size_b * a[ERROR]
        error += local
        error *= UP
        error += TINY
        return self._result(self._kept(ends, self._round(ends), (size_a > 0) & (size_b > 0)), m, error)

    def square(self, a: Values) -> Values:
        """fl(a a), which is not negative."""
        result = self.mul(a, a)
        result[LOW] = np.maximum(result[LOW], 0.0)
        return result

    def neg(self, a: Values) -> Values:
        """-a, exact."""
        return np.stack([-a[HIGH], -a[LOW], a[ERROR]])

    def relu(self, a: Values) -> Values:
        """max(a, 0): decided where the enclosures of the computed and of the exact value agree on the sign."""
        # fl(hi + E) has the sign of hi + E, so a branch proved inactive carries no error at all
        error = np.minimum(a[ERROR], np.maximum(a[HIGH] + a[ERROR], 0.0) * UP)
        return np.stack([np.maximum(a[LOW], 0.0), np.maximum(a[HIGH], 0.0), error])

    def scale(self, a: Values, exponent: int) -> Values:
        """fl(a 2**exponent)."""
        self.format.check_scale(exponent)
        if not self._left_in:
            return self._scaled(a, exponent)
        ends = np.ldexp(a[:2], exponent)
        rounded = self._round(ends)
        error = np.ldexp(a[ERROR], exponent)
        m, moves = magnitude(ends), np.zeros(ends[LOW].shape, dtype=np.bool_)
        if exponent < 0:
            least = np.ldexp(self.format.min_normal, -exponent)  # in terms of a: `ends` may have been rounded already
            normal = (a[LOW] >= least) | (a[HIGH] <= -least)
            moves = ~normal & (magnitude(a) > 0)
            exact_point = (a[LOW] == a[HIGH]) & (np.ldexp(rounded[LOW], -exponent) == a[LOW])
            exact_point &= rounded[LOW] == rounded[HIGH]
            local = np.minimum(m + self.format.omega, self._least) if self._least else self.format.omega
            error = np.where(normal | exact_point, error, (error + local) * UP)
            error = np.where(a[ERROR] > 0, error + TINY, error)
        return self._result(self._kept(ends, rounded, moves), m, error)

    def _scaled(self, a: Values, exponent: int) -> Values:
        """As `scale` for numbers that may be none of the format."""
        ends, live = np.ldexp(a[:2], exponent), magnitude(a) > 0
        m = magnitude(ends)
        local = self._rounding(ends, m + TINY) * live
        error = np.ldexp(a[ERROR], exponent) + TINY * (a[ERROR] > 0)
        return self._result(self._kept(ends, self._round(ends), live), m, (error + local) * UP)

    def _replacing(
        self, x: Values, y: Values, difference: Values
    ) -> tuple[Floats, tuple[Values, Floats, Floats], Floats | float]:
        """When y overwrites x: the rounding of y - x; `_sum` of x and the difference; how far the two x may be apart."""
        return self._sum(y, self.neg(x))[2], self._sum(x, difference), 0.0

    def _result(self, ends: Values, m: Floats, error: Floats) -> Values:
        self.note(m)
        return np.concatenate([ends, error[None]])

    def note(self, m: Floats) -> None:
        """Take magnitudes into account in `peak`."""
        if m.size:
            self.peak = float(np.maximum(self.peak, m.max()))
