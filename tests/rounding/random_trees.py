"""Programs of `any-order`, drawn at random: a tree for every sum, and a coin for every multiply-add that may be fused."""

import numpy as np
from random_kernels import REGISTERS, ManyIeee

from certify.arithmetic import Format
from certify.graph import ZERO, Graph, Op, apply, order_named


class Program:
    """One program of an `any-order` graph, run on several states at once, values (states, nodes).

    A sum adds its terms along a random tree. A product, an elementwise one included, and a scaling, are fused into the
    addition that takes them where a coin says so; the other operand of that addition is always a number of the format.
    """

    def __init__(self, graph: Graph, format: Format, rng: np.random.Generator) -> None:
        self.graph, self.format, self.rng = graph, format.unbounded, rng
        self.accumulator = order_named(graph.order).accumulator

    def __call__(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """The values of all nodes at inputs of shape (states, *shape), as binary64."""
        graph, states = self.graph, len(next(iter(inputs.values())))
        self.outer = ManyIeee(self.format, states)
        self._in_format(self.outer.in_format("", (), (), Op.CONST) if graph.format_names else self.outer)
        self.values = self.ieee.empty(graph.n_nodes + 1)
        self.values[:, ZERO:] = 0.0
        # of a node that is a product: the two nodes, or one and a power of two; and the sign NEG gave it
        self.left, self.right = (np.full(graph.n_nodes + 1, ZERO) for _ in range(2))
        self.factor = np.zeros(graph.n_nodes + 1)
        for block in graph.inputs:
            self.values[:, block.start : block.stop] = self.ieee.constant(inputs[block.name])[:, block.support]
        with np.errstate(all="ignore"):
            for i in graph.instructions():
                here = slice(i.start, i.stop)
                if graph.format_names:
                    self._in_format(self.outer.in_format(i.format, (), (), i.op))
                self.values[:, here] = self._run(i)
                if i.op is Op.MUL:
                    self.left[here], self.right[here], self.factor[here] = i.left, i.right, 1.0
                elif i.op is Op.SCALE:
                    self.left[here], self.factor[here] = i.left, 2.0**i.exponent
                elif i.op is Op.NEG and graph.formats_of(i.left) == (i.format,):
                    self.left[here], self.right[here] = self.left[i.left], self.right[i.left]
                    self.factor[here] = -self.factor[i.left]
        return self.values.astype(np.float64)

    def _run(self, i):
        if i.op is Op.ADD:
            return self._added(self.ieee, i.left, i.right, 1.0)
        if i.op is Op.SUB:
            return self._added(self.ieee, i.left, i.right, -1.0)
        if i.op is Op.SUM:
            return self._narrow(
                self._tree([k for k, ids in enumerate(i.left) if (ids != ZERO).any()], _Terms(self, i.left))
            )
        if i.op is Op.DOT:
            return self._narrow(self._tree(list(range(len(i.left))), _Products(self, i.left, i.right)))
        return apply(self.graph, i, self.outer, self.values)

    def _in_format(self, ieee):
        self.ieee = ieee
        self.wide = ieee.accumulating(self.accumulator) if self.accumulator else ieee

    def _narrow(self, total):
        return total if self.wide is self.ieee else self.ieee.narrow(total)

    def _added(self, arithmetic, x, y, sign):
        """x + sign y for nodes, either one fused where it is a product and the coin says so."""
        a, b = self.values[:, x], sign * self.values[:, y]
        plain = arithmetic.add(a, b)
        first = (self.factor[x] != 0) & (self.rng.random(len(x)) < 0.5)
        second = ~first & (self.factor[y] != 0) & (self.rng.random(len(y)) < 0.5)
        result = np.where(first, self.fused(arithmetic, x, 1.0, b), plain)
        return np.where(second, self.fused(arithmetic, y, sign, a), result)

    def fused(self, arithmetic, x, sign, c):
        """sign x + c for products x, rounded once; anything where x is no product."""
        other = np.where(self.right[x] == ZERO, self.factor[x], np.sign(self.factor[x]) * self.values[:, self.right[x]])
        return arithmetic.fma(sign * self.values[:, self.left[x]], other, c)

    def _tree(self, items, leaves):
        kind = self.rng.integers(4)
        if kind == 1:
            items.reverse()
        elif kind:
            self.rng.shuffle(items)
        while len(items) > 1:
            j = 1 if kind < 2 else int(self.rng.integers(1, len(items)))
            x, y = items.pop(0), items.pop(j - 1)
            if not isinstance(y, int):
                x, y = y, x
            value = leaves.rounded(y) if isinstance(y, int) else y
            value = leaves.plus(x, value) if isinstance(x, int) else self.wide.add(x, value)
            items.insert(0 if kind < 3 else int(self.rng.integers(len(items) + 1)), value)
        return leaves.rounded(items[0]) if isinstance(items[0], int) else items[0]


class _Terms:
    def __init__(self, program, ids):
        self.program, self.ids = program, ids

    def rounded(self, k):
        return self.program.wide.widen(self.program.values[:, self.ids[k]])

    def plus(self, k, value):
        program = self.program
        plain = program.wide.add(self.rounded(k), value)
        product = (program.factor[self.ids[k]] != 0) & (program.rng.random(len(self.ids[k])) < 0.5)
        return np.where(product, program.fused(program.wide, self.ids[k], 1.0, value), plain)


class _Products:
    def __init__(self, program, left, right):
        self.program = program
        a, b = (program.wide.widen(program.values[:, ids]) for ids in (left, right))
        self.a = np.repeat(a, b.shape[-1], axis=-1)
        self.b = np.tile(b, (1, 1, a.shape[-1]))

    def rounded(self, k):
        return self.program.wide.mul(self.a[:, k], self.b[:, k])

    def plus(self, k, value):
        if self.program.rng.random() < 0.5:
            return self.program.wide.fma(self.a[:, k], self.b[:, k], value)
        return self.program.wide.add(self.rounded(k), value)


def any_floats(graph: Graph, format: Format, samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All nodes of a random program at `samples` (states, registers, LENGTH), shape (states, nodes)."""
    return Program(graph, format, rng)({name: samples[:, k] for k, name in enumerate(REGISTERS)})
