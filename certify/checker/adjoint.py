"""Adjoint bounds of single results: every rounding times how far it moves the result, over one sweep backward.

**Theorem** (docs/theory/adjoint.md#adjoint has the proof). Write x^_k = f_k(x^) + d_k for what node k computes: |d_k| <= r_k,
where r_k is its running error bound for operands of the same enclosures that have no error. The errors e_k = x^_k - x_k
satisfy e_k = sum_j s_kj e_j + d_k exactly, with

    a + b, a - b   s = 1, 1; 1, -1           a b            s_a = (b^ + b) / 2, s_b = (a^ + a) / 2
    -a, 2**k a     s = -1, 2**k              x + (y - x)    0 for x, 1 for y
    relu a         s = 1 if both a^, a >= 0, 0 if both <= 0, else in [0, 1]

Hence |e_out| <= sum_k |A_k| r_k for A_out = 1, A_j = sum_k A_k s_kj. An operation that is none of these passes nothing on and
counts with its running error bound instead of r_k.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from certify.checker.document import Beyond
from certify.checker.emulation import operate
from certify.checker.rounding import Running, root_up
from certify.checker.rules import UP, Value

U = 2.0**-53
LEAST = 2.0**-960  # more than what products that underflow lose
MOST_STEPS = 30_000_000
Put = Callable[[int, float, float], None]
_SECANTS = ("sum", "add", "dot", "mul", "sub", "neg", "relu", "scale", "overwrite")


class Adjoint:
    """The adjoint bounds of the program of some running bounds, in which nothing overflows."""

    def __init__(self, running: Running) -> None:
        self.running, self.program = running, running.program
        self.first = len(running.low) - len(self.program.code)
        self.mid, self.rad = [], []
        for low, high, error in zip(running.low, running.high, running.error, strict=True):
            mid = low if low == high else low / 2 + high / 2
            self.mid.append(mid)
            self.rad.append((max(high - mid, mid - low) + error / 2) * UP + (LEAST if error else 0.0))
        self.local = running.error[: self.first] + [self._local(k) for k in range(len(self.program.code))]
        self.edges = sum(2 * len(x[0]) if op == "dot" else len(x) for op, x, *_ in self.program.code if op != "const")

    def _local(self, k: int) -> float:
        """How far the roundings of an operation move it: its running error bound, the operands being exact."""
        running = self.running
        if self.program.code[k][0] not in _SECANTS:
            return running.error[self.first + k]

        def at(node: int) -> Value:
            low, high, _, format = running.values[node]
            return low, high, 0.0, format

        found: Value = operate(self.program, k, running.rules, self.program.order, at)
        return found[2]

    def error(self, node: int) -> float:
        """An upper bound of the error of a node, not above its running bound."""
        mid, rad = [0.0] * (node + 1), [0.0] * (node + 1)
        mid[node] = 1.0
        parts: list[float] = []

        def put(j: int, m: float, r: float) -> None:
            total = mid[j] + m
            rad[j] = (rad[j] + r + abs(total) * U) * UP + (LEAST if total else 0.0)
            mid[j] = total

        for k in range(node, -1, -1):
            m, r = mid[k], rad[k]
            if m or r:
                if self.local[k]:
                    parts.append((abs(m) + r) * self.local[k])
                if k >= self.first:
                    self._back(k, m, r, put)
        # each product and each addition is rounded once, and a product may underflow
        bound = sum(parts) * (1.0 + len(parts) * 2.0**-52) * UP + len(parts) * 2.0**-1073
        known: float = self.running.error[node]
        return bound if bound < known else known

    def _back(self, k: int, m: float, r: float, put: Put) -> None:
        op, x, _, exponent, _ = self.program.code[k - self.first]
        size = abs(m)

        def times(j: int, s: float, t: float) -> None:
            """A secant within t of s."""
            if s or t:
                product = m * s
                put(j, product, (size * t + r * (abs(s) + t) + abs(product) * U) * UP + LEAST)

        if op in ("dot", "mul"):
            for i, j in zip(*x, strict=True) if op == "dot" else [x]:
                if i >= 0:
                    times(i, self.mid[j], self.rad[j])
                    times(j, self.mid[i], self.rad[i])
        elif op in ("sum", "add"):
            for j in x:
                if j >= 0:
                    put(j, m, r)
        elif op == "sub":
            put(x[0], m, r)
            put(x[1], -m, r)
        elif op == "neg":
            put(x[0], -m, r)
        elif op == "scale":
            times(x[0], 2.0**exponent, 0.0)
        elif op == "overwrite":
            put(x[1], m, r)
        elif op == "relu":
            low, high, error = self.running.low[x[0]], self.running.high[x[0]], self.running.error[x[0]]
            if low >= error:
                put(x[0], m, r)
            elif high > -error:
                times(x[0], 0.5, 0.5)

    def eps(self, output: str) -> Fraction:
        """An upper bound of the norm of an output's error. Raises Beyond if that takes too long."""
        nodes = {node for node in self.program.outputs[output] if node >= 0}
        if self.program.order.kind == "any-order" or self.program.formats:
            raise Beyond("running bounds do not reach it, and adjoint bounds here are of one order and one format")
        if self.edges * len(nodes) > MOST_STEPS:
            raise Beyond("running bounds do not reach it, and adjoint bounds take too long here")
        whole, error = self.running.squared(output), {node: self.error(node) for node in nodes}
        for node in self.program.outputs[output]:
            if node >= 0:
                whole += Fraction(error[node]) ** 2 - Fraction(self.running.error[node]) ** 2
        return root_up(whole)
