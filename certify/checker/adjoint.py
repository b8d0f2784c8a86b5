"""Adjoint bounds of single results: every rounding times how far it moves the result, over one sweep backward.

**Theorem** (docs/theory/adjoint.md#adjoint has the proof). Write x^_k = f_k(x^) + d_k for what node k computes, f_k exact. Then
|d_k| <= r_k, the error bound that the running rule of node k gives for operands without error: it holds for any exact operands
within E of the computed ones, so for these themselves, with E = 0. This asks nothing of the rule but that it is true, so it may
be that of the node's own format, of any order, of an accumulator or of a library. The errors e_k = x^_k - x_k satisfy
e_k = sum_j s_kj e_j + d_k exactly, with secants

    a + b, a - b    s = 1, 1; 1, -1          a b              s_a = (b^ + b) / 2, s_b = (a^ + a) / 2
    -a, 2**k a      s = -1, 2**k             a / b            s_a = 1 / b^, s_b = -(a / b) / b^
    cast a          s = 1                    sqrt a           s = 1 / (sqrt a^ + sqrt a)
    x + (y - x)     0 for x, 1 for y         exp, log, tanh, sigmoid    s = f'(t), t between a^ and a
    relu a, |a|     s = 1 if both a^, a >= 0; 0, or -1, if both <= 0; else between the two
    max(a, b)       1, 0 if a >= b for both programs; 0, 1 if b >= a; else s, 1 - s with s in [0, 1]
    x if p <= q else y    1 for x, or for y, if both programs choose it

as a^/b^ - a/b = (a^ - a)/b^ - (a/b)(b^ - b)/b^, by the mean value theorem, and as max(a, b) = b + relu(a - b). Computed
operands lie in [low, high], exact ones in the hull [low - E, high + E]; slopes decrease away from 0, but for that of exp, which
increases. Hence |e_out| <= sum_k |A_k| r_k for A_out = 1, A_j = sum_k A_k s_kj. Where no secant is known (a selection that is
not decided, a root near 0; x + (y - x) in a program of several formats, which may be a plain sum) node k is **cut**: it passes
nothing on, s = 0, and its whole error, E_k at most, is its d_k.

**Any order.** A product that each use may round or not (an `open` value) has no rounding of its own: with q unrounded, use c
sees (q - x) + d_c, |d_c| <= r_k. So r_k counts with the **spread**, the sum over c of |what c contributes to A_k|, where a use
that is open itself contributes by its own spread. An addition that takes q unrounded rounds by up to r_k more than its local
term, but then d_c = 0. The uses of an undecided |a| of an open a may differ in their secants: it is cut. All this is for
programs of one format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from flint import arb, ctx

from certify.checker.document import Beyond
from certify.checker.emulation import REACH, ends, operate
from certify.checker.formats import TINY, Overflow
from certify.checker.rounding import Running
from certify.checker.rules import UP, Value

U = 2.0**-53
LEAST = 2.0**-960  # more than what products that underflow lose
MOST_STEPS = 30_000_000
Secant = tuple[float, float]  # a number within the second of the first
_ONE, _NONE = (1.0, 0.0), (0.0, 0.0)
#: Secants that are known from the operation alone.
_FIXED = {"add": (1.0, 1.0), "sub": (1.0, -1.0), "neg": (-1.0,), "cast": (1.0,), "overwrite": (0.0, 1.0, 0.0)}
_SLOPES: dict[str, Callable[[arb], arb]] = {
    "exp": arb.exp,
    "log": lambda t: 1 / t,
    "tanh": lambda t: 1 / t.cosh() ** 2,
    "sigmoid": lambda t: 1 / (2 * (t / 2).cosh()) ** 2,
}


def _around(*balls: arb) -> Secant:
    """The interval from the least to the largest end. Raises Overflow or OverflowError if binary64 does not hold it."""
    every = [ends(ball) for ball in balls]
    low, high = min(x for x, _ in every), max(y for _, y in every)
    mid = float((low + high) / 2)
    far = max(high - Fraction(mid), Fraction(mid) - low)
    return mid, float(far) * UP + TINY if far else 0.0


def _step(first: bool, second: bool, other: float) -> Secant:
    return _ONE if first else (other, 0.0) if second else ((1.0 + other) / 2, (1.0 - other) / 2)


def _hull(a: Value) -> tuple[arb, arb]:
    return arb(a[0]) - a[2], arb(a[1]) + a[2]


def _relu(a: Value) -> list[Secant]:
    return [_step(a[0] >= a[2], a[1] <= -a[2], 0.0)]


def _abs(a: Value) -> list[Secant] | None:
    found = _step(a[0] >= a[2], a[1] <= -a[2], -1.0)
    return None if found[1] and a[3] is not a[3].closed else [found]


def _max(a: Value, b: Value) -> list[Secant]:
    reach = (a[2] + b[2]) * UP
    first, second = a[0] - b[1] >= reach, b[0] - a[1] >= reach
    return [_step(first, second, 0.0), _step(second and not first, first, 0.0)]


def _select(p: Value, q: Value, x: Value, y: Value, strict: int) -> list[Secant] | None:
    reach, above, below = (p[2] + q[2]) * UP, q[0] - p[1], p[0] - q[1]
    holds, fails = (above > reach, below >= reach) if strict else (above >= reach, below > reach)
    return [_NONE, _NONE, _ONE if holds else _NONE, _NONE if holds else _ONE] if holds or fails else None


def _div(a: Value, b: Value) -> list[Secant]:
    inverse = [1 / arb(x) for x in b[:2]]
    return [_around(*inverse), _around(*(-(x / y) * z for x in _hull(a) for y in _hull(b) for z in inverse))]


def _sqrt(a: Value) -> list[Secant] | None:
    if not a[0] > 0:
        return None
    least, most = (end.max(arb(0)).sqrt() for end in _hull(a))
    return [_around(1 / (arb(a[0]).sqrt() + least), 1 / (arb(a[1]).sqrt() + most))]


def _slope(name: str, a: Value) -> list[Secant]:
    low, high = _hull(a)
    if name != "log":  # beyond REACH slopes are below TINY, which is added, or that of exp is no binary64 number
        low, high = (end.max(arb(-REACH)).min(arb(REACH)) for end in (low, high))
    near, far = (high, low) if name == "exp" else (low.max(-high).max(arb(0)), high.max(-low))
    return [_around(*map(_SLOPES[name], (near, far)))]


_SECANTS: dict[str, Callable[..., list[Secant] | None]] = {"relu": _relu, "abs": _abs, "max": _max, "select": _select}
_SECANTS |= {"div": _div, "sqrt": _sqrt}


class Adjoint:
    """The adjoint bounds of the program of some running bounds, in which nothing overflows."""

    def __init__(self, running: Running) -> None:
        self.running, self.program = running, running.program
        self.first = len(running.low) - len(self.program.code)
        self.open = [format is not format.closed for *_, format in running.values]
        self.mid, self.rad = [], []
        for low, high, error in zip(running.low, running.high, running.error, strict=True):
            mid = low if low == high else low / 2 + high / 2
            self.mid.append(mid)
            self.rad.append((max(high - mid, mid - low) + error / 2) * UP + (TINY if error else 0.0))
        self.found: dict[int, list[Secant] | None] = {}  # of nodes whose secants depend on their operands; None if cut
        with ctx.workprec(128):
            for k, (op, *_) in enumerate(self.program.code):
                if op in _SECANTS or op in _SLOPES or (op == "overwrite" and running.rules.mixed):
                    self.found[self.first + k] = self._secants_of(k)
        self.local = [self._local(k) for k in range(len(running.low))]
        self.edges = sum(2 * len(x[0]) if op == "dot" else len(x) for op, x, *_ in self.program.code if op != "const")

    def _secants_of(self, k: int) -> list[Secant] | None:
        op, x, _, extra, _ = self.program.code[k]
        operands = [self.running.values[j] for j in x]
        try:
            if op in _SLOPES:
                return _slope(op, *operands)
            further = [extra] if op == "select" else []
            return _SECANTS[op](*operands, *further) if op in _SECANTS else None
        except (Overflow, OverflowError):
            return None

    def _local(self, k: int) -> float:
        """How far the roundings of a node move it: its running error bound, the operands being exact."""
        running = self.running
        if k < self.first or self.found.get(k, ()) is None:
            return running.error[k]

        def at(node: int) -> Value:
            low, high, _, format = running.values[node]
            return low, high, 0.0, format

        found: Value = operate(self.program, k - self.first, running.rules, self.program.order, at)
        return found[2]

    def _secants(self, k: int) -> Iterator[tuple[int, float, float]]:
        """The operands of a node with their secants: each within the third of the second."""
        op, x, _, exponent, _ = self.program.code[k - self.first]
        if k in self.found:
            for j, (s, t) in zip(x, self.found[k] or (), strict=self.found[k] is not None):
                yield j, s, t
        elif op in ("dot", "mul"):
            mid, rad = self.mid, self.rad
            for i, j in zip(*x, strict=True) if op == "dot" else [x]:
                if i >= 0:
                    yield i, mid[j], rad[j]
                    yield j, mid[i], rad[i]
        elif op == "sum":
            for j in x:
                if j >= 0:
                    yield j, 1.0, 0.0
        elif op == "scale":
            yield x[0], 2.0**exponent, 0.0
        elif op != "const":
            for j, s in zip(x, _FIXED[op], strict=True):
                yield j, s, 0.0

    def error(self, node: int) -> float:
        """An upper bound of the error of a node, not above its running bound."""
        mid, rad, spread = ([0.0] * (node + 1) for _ in range(3))
        mid[node] = spread[node] = 1.0
        parts: list[float] = []
        for k in range(node, -1, -1):
            m, r = mid[k], rad[k]
            if not (m or r or spread[k]):
                continue
            m_size = abs(m)
            size = spread[k] if self.open[k] else (m_size + r) * UP
            if self.local[k]:
                parts.append(size * self.local[k])
            if k < self.first:
                continue
            for j, s, t in self._secants(k):
                if s or t:
                    product, reach = m * s, abs(s) + t
                    lost = abs(product) * U if s != 1.0 and s != -1.0 else 0.0
                    old = mid[j]
                    mid[j] = total = old + product
                    back = total - old  # what the addition loses is known (Knuth)
                    lost += abs((old - (total - back)) + (product - back))
                    rad[j] = (rad[j] + m_size * t + r * reach + lost) * UP + LEAST
                    if self.open[j]:
                        spread[j] = (spread[j] + size * reach) * UP + LEAST
        # each product and each addition is rounded once, and a product may underflow
        bound = sum(parts) * (1.0 + len(parts) * 2.0**-52) * UP + len(parts) * 2.0**-1073
        known: float = self.running.error[node]
        return bound if bound < known else known

    def eps(self, output: str) -> Fraction:
        """An upper bound of the norm of an output's error. Raises Beyond if that takes too long."""
        nodes = {node for node in self.program.outputs[output] if node >= 0}
        if self.program.order.kind == "any-order" and self.running.rules.mixed:
            raise Beyond("running bounds do not reach it, and adjoint bounds of any order are of one format")
        if self.edges * len(nodes) > MOST_STEPS:
            raise Beyond("running bounds do not reach it, and adjoint bounds take too long here")
        return self.running.eps(output, {node: self.error(node) for node in nodes})
