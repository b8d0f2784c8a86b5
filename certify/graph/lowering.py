"""Lowering: the scalar program behind a graph, one node for every operation.

Evaluations do not need it (they run the order model as they go). It is for what looks at single operations: adjoints,
and counting.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from certify.errors import InputRejected
from certify.graph.assembly import Assembler
from certify.graph.evaluation import OTHERS, Values, apply
from certify.graph.graph import ZERO, Floats, Graph, Op, Output
from certify.graph.in_force import asking
from certify.graph.orders import ORDERS, order_named, with_order
from certify.graph.places import Place


def lower(graph: Graph, order: str | None = None) -> Graph:
    """`graph` with every SUM and DOT written out as additions and products in its order, or in the one given.

    Raises
    ------
    InputRejected : the order has no model, or its operations are none of a graph's: fused, or in another format.
    OrderUnspecified : neither the graph nor the call names an order, or it is `any-order`.
    """
    graph = graph if order is None else with_order(graph, order)
    model = ORDERS["serial"] if graph.order is None else order_named(graph.order)
    if model.kind == "fma" or model.accumulator:
        raise InputRejected(
            f"the order {model.name} has operations that a graph cannot name", "lower serial, pairwise or blocked(K)"
        )
    nodes = _Nodes(graph)
    ids = np.full(graph.n_nodes + 1, ZERO, dtype=np.int32)
    ids[: graph.n_inputs] = np.arange(graph.n_inputs, dtype=np.int32)
    for i in graph.instructions():
        nodes.place = graph.places[int(graph.place[i.index])]
        with asking(i.format):
            ids[i.start : i.stop] = apply(graph, i, nodes, ids)
    outputs = {name: Output(ids.take(out.ids), out.known) for name, out in graph.outputs.items()}
    return nodes.assembler.finish(outputs, graph.order)


def with_plain_sums(graph: Graph) -> Graph:
    """`graph` with `x + (y - x)` as the addition of x and the node y - x; nodes keep their numbers."""
    rights = [i.right[1] if i.op is Op.OVERWRITE else i.right.ravel() for i in graph.instructions()]
    lengths = [len(right) for right in rights]
    return replace(
        graph,
        op=np.where(graph.op == Op.OVERWRITE, Op.ADD, graph.op).astype(graph.op.dtype),
        right=np.concatenate([graph.right[:0], *rights]),
        right_at=np.concatenate([[0], np.cumsum(lengths)]).astype(graph.right_at.dtype),
    )


class _Nodes:
    """The arithmetic whose values are node numbers and whose operations are instructions; zeros are skipped."""

    def __init__(self, graph: Graph) -> None:
        self.assembler = Assembler(graph.inputs)
        self.place = Place("", "", 0)

    def empty(self, n: int) -> Values:
        return np.full(n, ZERO, dtype=np.int32)

    def constant(self, values: Floats) -> Values:
        return self.assembler.constants(values, self.place)

    def add(self, a: Values, b: Values) -> Values:
        a, b = np.broadcast_arrays(a, b)
        return self._emit(Op.ADD, a, b, (a != ZERO) & (b != ZERO), np.maximum(a, b))

    def sub(self, a: Values, b: Values) -> Values:
        return self._emit(Op.SUB, a, b, a != ZERO, a)

    def mul(self, a: Values, b: Values) -> Values:
        a, b = np.broadcast_arrays(a, b)
        return self._emit(Op.MUL, a, b, (a != ZERO) & (b != ZERO), np.minimum(a, b))

    def neg(self, a: Values) -> Values:
        return self.assembler.emit(Op.NEG, a, None, self.place)

    def relu(self, a: Values) -> Values:
        return self.assembler.emit(Op.RELU, a, None, self.place)

    def scale(self, a: Values, exponent: int) -> Values:
        return self.assembler.emit(Op.SCALE, a, None, self.place, exponent=exponent)

    def __getattr__(self, name: str) -> Any:
        ops = [op for op, method in OTHERS.items() if method == name]
        if not ops:
            raise AttributeError(name)
        return partial(self._other, ops[0])

    def _other(self, op: Op, a: Values, *others: Any) -> Values:
        """An operation that no order changes, as it is."""
        if op is Op.SELECT:
            *nodes, strict = others
            return self.assembler.emit(op, a, np.stack(nodes), self.place, exponent=int(strict))
        two = op in (Op.DIV, Op.MAX)
        return self.assembler.emit(op, a, others[0] if two else None, self.place)

    def _emit(self, op: Op, a: Values, b: Values, live: Values, otherwise: Values) -> Values:
        ids = otherwise.astype(np.int32)
        if live.any():
            ids[live] = self.assembler.emit(op, a[live], b[live], self.place)
        return ids
