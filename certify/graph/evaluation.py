"""Evaluating a graph: one loop over its instructions, whatever the arithmetic.

An arithmetic represents the values of n nodes as one array whose **last axis is the node**: shape (n,) for floats,
(2, n) for enclosures, (5, n) for running errors. Its operations take such arrays for the lanes of one instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected, OrderUnspecified
from certify.graph import chains
from certify.graph.graph import ZERO, FormatNames, Graph, Instruction, Op, live_terms
from certify.graph.orders import ORDERS, Order, order_named

Values = npt.NDArray[Any]

#: Operations that an arithmetic may lack, and the names of their methods.
OTHERS = {
    Op.DIV: "div",
    Op.SQRT: "sqrt",
    Op.EXP: "exp",
    Op.LOG: "log",
    Op.MAX: "max",
    Op.ABS: "abs",
    Op.TANH: "tanh",
    Op.SIGMOID: "sigmoid",
    Op.SELECT: "select",
    Op.CAST: "cast",
}

#: Operations that are exact but for the rounding to the format, if the operand is no number of it.
_UNROUNDED = {Op.NEG, Op.RELU, Op.MAX, Op.ABS, Op.SELECT}


class Arithmetic(Protocol):
    """What a graph is evaluated in; shapes are (..., lanes).

    These are the operations every arithmetic has. It may have those of `OTHERS` too, by their names: `sqrt` is also told
    which lanes cannot be negative, `select(p, q, x, y, strict)` takes x where p <= q, or p < q. What an arithmetic does not
    have it refuses, in the words of its `covers`, if it has some.

    An arithmetic may also have `overwrite`; `fma(a, b, c)` for the order of that name; `accumulating` and `narrow` for
    accumulators; `sum` and `dot` for `any-order` and for sums without an order; `chain` and `chains` for long serial sums,
    `fused_chain` and `fused_chains` for those of `fma`, `ordered_dot` for whole matrix products (`certify.graph.chains`); or
    `exact = True`, which says that its results hold for the exact values, so that orders, accumulators and formats do not
    matter.

    An arithmetic of a format has `in_format(name, left, right, op)`, the arithmetic that rounds to the format of that name
    ("" its own) what is computed from numbers of the formats `left` and `right`, and `cast`, which rounds one number to it.
    """

    def empty(self, n: int) -> Values:
        """Room for the values of n nodes."""
        ...

    def constant(self, values: npt.NDArray[np.float64]) -> Values:
        """The kernel's own constants."""
        ...

    def add(self, a: Values, b: Values) -> Values:
        """Lanewise a + b."""
        ...

    def sub(self, a: Values, b: Values) -> Values:
        """Lanewise a - b."""
        ...

    def mul(self, a: Values, b: Values) -> Values:
        """Lanewise a * b."""
        ...

    def neg(self, a: Values) -> Values:
        """Lanewise -a."""
        ...

    def relu(self, a: Values) -> Values:
        """Lanewise max(a, 0)."""
        ...

    def scale(self, a: Values, exponent: int) -> Values:
        """Lanewise a * 2**exponent."""
        ...


class Accumulating(Arithmetic, Protocol):
    """An arithmetic of a format, which may accumulate sums in a wider one."""

    def accumulating(self, name: str) -> Any:
        """The arithmetic of the accumulator; its `widen` takes this one's values to its own, exactly."""
        ...

    def narrow(self, a: Values) -> Values:
        """The accumulator's totals, rounded once to the format."""
        ...


class AnyOrder(Arithmetic, Protocol):
    """An arithmetic that evaluates sums whose order is open, by a rule that holds for every order."""

    def sum(self, a: Values, live: npt.NDArray[np.int64]) -> Values:
        """Sum of `a`, shape (..., terms, lanes), over terms; `live` counts the terms that are no structural zeros."""
        ...

    def dot(self, a: Values, b: Values, live: npt.NDArray[np.int64]) -> Values:
        """Matrix product of `a` (..., terms, I) and `b` (..., terms, J), lanes (..., I J); `live` (I J,) as above."""
        ...


def evaluate(
    graph: Graph, arithmetic: Arithmetic, inputs: Mapping[str, Values], *, outputs: Iterable[str] | None = None
) -> Values:
    """The values of all nodes, shape (..., n_nodes + 1); the last place holds the structural zero (node -1).

    `inputs` maps each input's name to its values, shape (..., *shape of the input). Values off the support are ignored.
    With `outputs`, instructions that none of these outputs needs are left out, and their nodes are undefined.

    Raises
    ------
    InputRejected : an input is missing or has the wrong shape.
    OrderUnspecified : the graph has sums without an order, and the arithmetic needs one.
    """
    outer: Any = arithmetic
    if graph.format_names and hasattr(arithmetic, "in_format"):
        outer = arithmetic.in_format("", (), (), Op.CONST)  # whose values hold the numbers of every format
    values: Values = outer.empty(graph.n_nodes + 1)
    values[..., ZERO:] = outer.constant(np.zeros(1))
    for block in graph.inputs:
        if block.name not in inputs:
            raise InputRejected(f"input {block.name} is missing", "give a value for every input of the kernel")
        given = np.asarray(inputs[block.name])
        if given.shape[given.ndim - block.support.ndim :] != block.support.shape:
            raise InputRejected(
                f"input {block.name} has shape {given.shape}", f"give the traced shape {block.support.shape}"
            )
        values[..., block.start : block.stop] = given[..., block.support]
    needed = np.ones(len(graph), dtype=np.bool_) if outputs is None else _needed(graph, outputs)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        for instruction in graph.instructions():
            if not needed[instruction.index]:
                continue
            lanes = slice(instruction.start, instruction.stop)
            values[..., lanes] = apply(graph, instruction, arithmetic, values)
    return values


def apply(graph: Graph, i: Instruction, arithmetic: Arithmetic, values: Values) -> Values:
    """The values of one instruction's lanes, shape (..., lanes), from those of the nodes before it."""
    if not graph.format_names or not hasattr(arithmetic, "in_format"):
        return _computed(graph, i, arithmetic, values)
    inner = arithmetic.in_format(i.format, *_operand_formats(graph, i), i.op)
    result = _computed(graph, i, inner, values)
    return np.asarray(inner.cast(result)) if i.op in _UNROUNDED else result


def _operand_formats(graph: Graph, i: Instruction) -> tuple[FormatNames, FormatNames]:
    """The formats of the numbers that an instruction computes with, those of the left and of the right operand."""
    if i.op is Op.CONST:
        return (), ()
    if i.op is Op.SELECT:  # the others are compared only
        return graph.formats_of(i.right[1:]), ()
    if i.op is Op.OVERWRITE:
        return graph.formats_of(np.stack([i.left, i.right[0]])), graph.formats_of(i.right[1])
    left = graph.formats_of(i.left)
    return left, left if i.op is Op.SUM else graph.formats_of(i.right)


def _computed(graph: Graph, i: Instruction, arithmetic: Any, values: Values) -> Values:
    if i.op is Op.CONST:
        return np.asarray(arithmetic.constant(graph.constants[i.left]))
    a = values.take(i.left, axis=-1)
    if i.op in OTHERS:
        return _other(graph, i, arithmetic, a, values)
    if i.op in (Op.NEG, Op.RELU):
        return np.asarray(arithmetic.neg(a) if i.op is Op.NEG else arithmetic.relu(a))
    if i.op is Op.SCALE:
        return np.asarray(arithmetic.scale(a, i.exponent))
    b = values.take(i.right, axis=-1)
    if i.op is Op.ADD:
        return np.asarray(arithmetic.add(a, b))
    if i.op is Op.SUB:
        return np.asarray(arithmetic.sub(a, b))
    if i.op is Op.MUL:
        # an arithmetic may know that a square is not negative
        square = getattr(arithmetic, "square", None)
        return np.asarray(square(a) if square and (i.left == i.right).all() else arithmetic.mul(a, b))
    if i.op is Op.OVERWRITE:
        y, difference = b[..., 0, :], b[..., 1, :]
        # an arithmetic may know a sharper rule than that of its addition
        overwrite = getattr(arithmetic, "overwrite", lambda x, y, difference: arithmetic.add(x, difference))
        return np.asarray(overwrite(a, y, difference))
    return _reduce(graph, i, arithmetic, a, b)


def _other(graph: Graph, i: Instruction, arithmetic: Any, a: Values, values: Values) -> Values:
    operation = getattr(arithmetic, OTHERS[i.op], None)
    if operation is None and i.op is Op.CAST and getattr(arithmetic, "exact", False):
        return a
    if operation is None:
        raise InputRejected(
            getattr(arithmetic, "covers", f"this arithmetic has no {OTHERS[i.op]}")
            + f", and the kernel has {OTHERS[i.op]} at {graph.describe(i.start)}",
            "use the running bounds",
        )
    if i.op is Op.SQRT:
        return np.asarray(operation(a, graph.nonnegative[i.left]))
    if i.op is Op.SELECT:
        q, x, y = (values.take(ids, axis=-1) for ids in i.right)
        return np.asarray(operation(a, q, x, y, bool(i.exponent)))
    return np.asarray(operation(a, values.take(i.right, axis=-1)) if len(i.right) else operation(a))


def _needed(graph: Graph, outputs: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Which instructions the outputs depend on."""
    wanted = np.zeros(graph.n_nodes + 1, dtype=np.bool_)
    for name in outputs:
        wanted[graph.outputs[name].ids] = True
    needed = np.zeros(len(graph), dtype=np.bool_)
    for i in graph.instructions(backward=True):
        if wanted[i.start : i.stop].any():
            needed[i.index] = True
            if i.op is not Op.CONST:
                wanted[i.left] = True
                wanted[i.right] = True
    return needed


def _reduce(graph: Graph, i: Instruction, arithmetic: Any, a: Values, b: Values) -> Values:
    order = None if graph.order is None else order_named(graph.order)
    if order is not None and getattr(arithmetic, "exact", False):
        order = ORDERS["serial"]
    if (order is None or order.is_any) and not hasattr(arithmetic, "dot"):
        raise OrderUnspecified(
            f"the sum at {graph.describe(i.start)} has no order", "trace the kernel with an order such as serial"
        )
    inner = arithmetic
    if order is not None and order.accumulator:
        inner = arithmetic.accumulating(order.accumulator)
        a, b = inner.widen(a), inner.widen(b)
    if order is None or order.is_any:
        live = live_terms(i)
        total = inner.sum(a, live) if i.op is Op.SUM else inner.dot(a, b, live)
    elif i.op is Op.SUM:
        if graph.format_names and (i.left == ZERO).any():
            total = _ragged(order, inner, a, i.left != ZERO)
        else:
            total = chains.total(order, inner, lambda first, stop: a[..., first:stop, :], *i.left.shape)
    else:
        total = chains.matrix_product(order, inner, a, b)
    return np.asarray(total if inner is arithmetic else arithmetic.narrow(total))


def _ragged(order: Order, arithmetic: Any, a: Values, live: npt.NDArray[np.bool_]) -> Values:
    """Sums in which structural zeros are no terms: adding one would round a number that is wider than the format."""
    result = np.empty_like(a[..., 0, :])
    patterns, pattern = np.unique(live, axis=1, return_inverse=True)
    for k, terms in enumerate(patterns.T):
        lanes = pattern.ravel() == k
        part = [a[..., j, lanes] if term else None for j, term in enumerate(terms)]
        result[..., lanes] = order.total(_Skipping(arithmetic), part.__getitem__, len(part))
    return result


class _Skipping:
    """The additions of an arithmetic, where None is a structural zero."""

    def __init__(self, arithmetic: Any) -> None:
        self.arithmetic = arithmetic

    def add(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return self.arithmetic.add(a, b)


def output(graph: Graph, arithmetic: Arithmetic, values: Values, name: str) -> Values:
    """The values of output `name`, shape (..., *shape of the output)."""
    out = graph.outputs[name]
    known = arithmetic.constant(out.known.ravel())
    nodes = values.take(out.ids.ravel(), axis=-1)
    return np.where(out.ids.ravel() == ZERO, known, nodes).reshape((*values.shape[:-1], *out.ids.shape))
