"""The graph: every operation of a kernel, as a struct of arrays in execution order.

A node is one scalar value, named by its number. Inputs come first; every other node is a lane of one **instruction**, a
vector operation whose lanes do not depend on each other. Evaluating a graph under any arithmetic is therefore one loop
over instructions (`certify.graph.evaluate`), however many nodes there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from certify.graph.places import Place

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
FormatNames = tuple[str, ...]  # of formats; "" is the program's

ZERO = -1  # the id of a structural zero: a number known to be 0 whatever the inputs


class Op(IntEnum):
    """What an instruction does in each lane. The order of the additions of `SUM` and `DOT` is the graph's `order`."""

    CONST = 0  # a constant of the kernel, converted to the format
    ADD = 1
    SUB = 2
    MUL = 3
    NEG = 4
    RELU = 5  # max(x, 0)
    SCALE = 6  # x * 2**exponent
    SUM = 7  # sum over terms
    DOT = 8  # matrix product: sum over terms of products
    OVERWRITE = 9  # x + (y - x): how a residual stream replaces x by y; two roundings, and exactly y without them
    DIV = 10
    SQRT = 11
    EXP = 12  # EXP, LOG, TANH and SIGMOID are calls of a library, as accurate as it is (`certify.arithmetic.libm`)
    LOG = 13
    MAX = 14  # max(x, y)
    ABS = 15
    TANH = 16
    SIGMOID = 17  # 1 / (1 + exp(-x)), as one function
    SELECT = 18  # x if p <= q (exponent 0) or p < q (exponent 1), else y
    CAST = 19  # x, rounded to the format of the instruction


#: Operations whose right operand has several rows.
ROWS = {Op.OVERWRITE: 2, Op.SELECT: 3}


@dataclass(frozen=True)
class InputBlock:
    """One named input: the entries on its `support` are the nodes `start, start + 1, ...` in C order.

    Entries outside the support are structural zeros and have no node.
    """

    name: str
    support: npt.NDArray[np.bool_]
    start: int

    @property
    def stop(self) -> int:
        """One past the last node of the block."""
        return self.start + int(np.count_nonzero(self.support))


@dataclass(frozen=True)
class Output:
    """A named result: `ids[i] >= 0` is a node, otherwise the element is the known number `known[i]`."""

    ids: Ids
    known: Floats


@dataclass(frozen=True)
class Instruction:
    """A view of one instruction that writes the nodes `start:stop`. Operands may be structural zeros only in SUM, DOT.

    `format` names the format that every scalar operation of it is rounded to, once; "" is the program's format.

    ====================== ============== ==============
    op                     left           right
    ====================== ============== ==============
    ADD, SUB, MUL          (lanes,)       (lanes,)
    DIV, MAX               (lanes,)       (lanes,)
    OVERWRITE (x; y, y - x) (lanes,)      (2, lanes)
    SELECT (p; q, x, y)    (lanes,)       (3, lanes)
    NEG, RELU, SCALE, ABS  (lanes,)       (0,)
    SQRT, EXP, LOG         (lanes,)       (0,)
    TANH, SIGMOID, CAST    (lanes,)       (0,)
    CONST (into constants) (lanes,)       (0,)
    SUM                    (terms, lanes) (terms, 0)
    DOT, lanes = I J       (terms, I)     (terms, J)
    ====================== ============== ==============
    """

    index: int
    op: Op
    start: int
    stop: int
    left: Ids
    right: Ids
    exponent: int
    format: str = ""


@dataclass(frozen=True)
class Graph:
    """A kernel as operations in execution order. Invariants, on which every evaluation relies:

    - an operand's number is smaller than the numbers of the lanes that read it;
    - instruction k writes the nodes `start[k]:start[k + 1]`, and those ranges tile `n_inputs:n_nodes`;
    - exact simplifications (0 x, x + 0, 1 x, x - x) made no node, and every sum has two terms or more.

    `left_at[k]:left_at[k + 1]` is instruction k's part of `left`, likewise `right`; `terms[k]` its number of terms (0
    for elementwise operations). `order` says how sums are evaluated; None leaves it open. `format[k]` is -1 for an instruction
    in the program's format, else an index into `format_names`; an instruction takes its operands as the numbers they are.
    """

    inputs: tuple[InputBlock, ...]
    op: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    terms: Ids
    left_at: npt.NDArray[np.int64]
    left: Ids
    right_at: npt.NDArray[np.int64]
    right: Ids
    exponent: Ids
    constants: Floats
    place: Ids
    places: tuple[Place, ...]
    outputs: Mapping[str, Output]
    format: Ids
    format_names: FormatNames = ()
    order: str | None = None

    @property
    def n_inputs(self) -> int:
        """Number of input nodes."""
        return int(self.start[0])

    @property
    def n_nodes(self) -> int:
        """Number of nodes, inputs included."""
        return int(self.start[-1])

    @property
    def n_operations(self) -> int:
        """Number of scalar operations: a sum of n live terms counts n - 1, a dot product of n live terms 2 n - 1."""
        total = 0
        for i in self.instructions():
            if i.op in (Op.SUM, Op.DOT):
                live = live_terms(i)
                total += int(np.maximum((2 if i.op is Op.DOT else 1) * live - 1, 0).sum())
            elif i.op is not Op.CONST:
                total += i.stop - i.start
        return total

    def __len__(self) -> int:
        """Number of instructions."""
        return len(self.op)

    def instructions(self, *, backward: bool = False) -> Iterator[Instruction]:
        """Every instruction, in execution order or against it."""
        for k in range(len(self) - 1, -1, -1) if backward else range(len(self)):
            yield self._instruction(k)

    def _instruction(self, k: int) -> Instruction:
        op, terms = Op(int(self.op[k])), int(self.terms[k])
        left = self.left[self.left_at[k] : self.left_at[k + 1]]
        right = self.right[self.right_at[k] : self.right_at[k + 1]]
        if op in ROWS:
            right = right.reshape(ROWS[op], -1)
        elif terms:
            left, right = left.reshape(terms, -1), right.reshape(terms, len(right) // terms)
        name = "" if self.format[k] < 0 else self.format_names[int(self.format[k])]
        return Instruction(k, op, int(self.start[k]), int(self.start[k + 1]), left, right, int(self.exponent[k]), name)

    def instruction_of(self, node: int) -> Instruction:
        """The instruction that computes `node`, which is no input."""
        return self._instruction(int(np.searchsorted(self.start, node, side="right")) - 1)

    @cached_property
    def node_formats(self) -> Ids:
        """For every node the `format` of its instruction, -1 for inputs; -2 for the structural zero in the last place."""
        lanes = np.repeat(self.format, np.diff(self.start))
        return np.concatenate([np.full(self.n_inputs, -1), lanes, [-2]]).astype(np.int32)

    def formats_of(self, nodes: Ids) -> FormatNames:
        """The names of the formats that these nodes are numbers of, each once; structural zeros are numbers of every format."""
        found = np.unique(self.node_formats[nodes])
        return tuple("" if k < 0 else self.format_names[k] for k in found.tolist() if k > -2)

    @cached_property
    def nonnegative(self) -> npt.NDArray[np.bool_]:
        """Which nodes cannot be negative whatever the inputs, computed or exact: squares, exp, their sums and so on."""
        from certify.graph.signs import nonnegative

        return nonnegative(self)

    def place_of(self, node: int) -> Place | None:
        """Where the kernel computes `node`; None for an input."""
        if node < self.n_inputs:
            return None
        k = int(np.searchsorted(self.start, node, side="right")) - 1
        return self.places[int(self.place[k])]

    def operation_of(self, node: int) -> str:
        """The number of `node`, what computes it and which element it is, for a person; empty if nothing computes it."""
        if node < self.n_inputs:
            return ""
        i = self.instruction_of(node)
        lanes = i.stop - i.start
        return f"node {node}, {i.op.name}" + (f", element {node - i.start + 1} of {lanes}" if lanes > 1 else "")

    def describe(self, node: int) -> str:
        """A person's name of `node`: the register and layer that compute it, or the input entry."""
        place = self.place_of(node)
        if place is not None:
            return str(place)
        for block in self.inputs:
            if block.start <= node < block.stop:
                index = np.argwhere(block.support)[node - block.start].tolist()
                return f"input {block.name}{index or ''}"
        raise IndexError(f"node {node} is not in the graph")


def live_terms(i: Instruction) -> npt.NDArray[np.int64]:
    """For each lane of a SUM or DOT, the number of terms that are not structural zeros."""
    left = (i.left != ZERO).astype(np.int64)
    if i.op is Op.SUM:
        return np.asarray(left.sum(axis=0))
    return np.asarray(left.T @ (i.right != ZERO).astype(np.int64)).ravel()
