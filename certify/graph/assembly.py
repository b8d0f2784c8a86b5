"""Building a graph, instruction by instruction; the tracer and `expand` both write through this."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from certify.errors import TraceRefused
from certify.graph.graph import ZERO, Graph, Ids, InputBlock, Op, Output
from certify.graph.in_force import current_format
from certify.graph.places import Place

#: Nodes are numbered in int32. The terms of sums are no nodes: there may be more of them.
MOST_NODES = 2**31 - 1
#: Operations whose results every program rounds before any use: no products, and nothing that may hand one on.
_ROUNDED = [
    *(Op.CONST, Op.ADD, Op.SUB, Op.RELU, Op.OVERWRITE),
    *(Op.DIV, Op.SQRT, Op.EXP, Op.LOG, Op.TANH, Op.SIGMOID),
]
_NONE = np.empty(0, dtype=np.int32)


class Assembler:
    """Collects instructions and hands out node numbers in execution order."""

    def __init__(self, inputs: tuple[InputBlock, ...]) -> None:
        self.inputs = inputs
        self.n_nodes = inputs[-1].stop if inputs else 0
        self._op = _Numbers()
        self._start = _Numbers(self.n_nodes)
        self._terms: list[int] = []
        self._left: list[Ids] = []
        self._right: list[Ids] = []
        self._exponent: list[int] = []
        self._place: list[int] = []
        self._places: dict[Place, int] = {}
        self._constants: list[float] = []
        self._format = _Numbers()
        self._formats: dict[str, int] = {}
        self._differences: list[tuple[int, Ids, Ids]] = []
        self._difference_starts = _Numbers()

    def emit(self, op: Op, left: Ids, right: Ids | None, place: Place, *, exponent: int = 0) -> Ids:
        """Append an instruction in the format in force; returns the numbers of its lanes, shape (lanes,).

        Operands are shaped as `certify.graph.Instruction` says.
        """
        right = _NONE if right is None else right
        lanes = left.shape[-1] * (right.shape[-1] if op is Op.DOT else 1)
        first = self.n_nodes
        if first + lanes > MOST_NODES:
            raise TraceRefused(
                f"the kernel makes more than {MOST_NODES:,} values at {place}", "trace a smaller kernel, or parts of it"
            )
        self.n_nodes += lanes
        self._op.append(int(op))
        self._start.append(self.n_nodes)
        self._terms.append(len(left) if op in (Op.SUM, Op.DOT) else 0)
        self._left.append(left.ravel())
        self._right.append(right.ravel())
        self._exponent.append(exponent)
        self._place.append(self._places.setdefault(place, len(self._places)))
        name = current_format()
        self._format.append(self._formats.setdefault(name, len(self._formats)) if name else -1)
        if op is Op.SUB:
            self._differences.append((first, left, right))
            self._difference_starts.append(first)
        return np.arange(first, self.n_nodes, dtype=np.int32)

    def constants(self, values: npt.NDArray[np.float64], place: Place) -> Ids:
        """Append a CONST instruction for `values`, shape (lanes,); returns its node numbers."""
        first = len(self._constants)
        self._constants.extend(values.tolist())
        return self.emit(Op.CONST, np.arange(first, first + len(values), dtype=np.int32), None, place)

    def converted(self, ids: Ids, place: Place) -> Ids:
        """What an exact operation hands on, shape (lanes,): nodes of other formats are cast to the format in force."""
        foreign = self.foreign(ids)
        if foreign.any():
            ids = ids.copy()
            ids[foreign] = self.emit(Op.CAST, ids[foreign], None, place)
        return ids

    def foreign(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which are nodes of another format than the one in force; structural zeros are none."""
        name = current_format()
        if not self._formats and not name:
            return np.zeros(ids.shape, dtype=np.bool_)
        own = self._formats.get(name, -2) if name else -1
        return np.asarray((ids != ZERO) & (self._formats_by_node(ids) != own))

    def _formats_by_node(self, ids: Ids) -> npt.NDArray[np.int64]:
        return self._format.at(self._start.below(ids), -1)  # -1: an input

    def is_rounded(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which nodes are one number for all their uses, whatever is fused: inputs, and results that nothing hands on."""
        # an input is one number, as a constant is
        return np.isin(self._op.at(self._start.below(ids), int(Op.CONST)), _ROUNDED)

    @property
    def subtracts(self) -> bool:
        """Whether any node is a difference."""
        return bool(self._differences)

    def difference(self, ids: Ids) -> tuple[Ids, Ids]:
        """For each node, the pair (y, x) that it is the difference y - x of, or -1."""
        left, right = (np.full(ids.shape, -1, dtype=np.int32) for _ in range(2))
        slot = self._difference_starts.below(ids)
        for k in np.unique(slot[slot >= 0]).tolist():
            first, y, x = self._differences[k]
            mine = (slot == k) & (ids < first + len(y))
            left[mine], right[mine] = y[ids[mine] - first], x[ids[mine] - first]
        return left, right

    def finish(self, outputs: Mapping[str, Output], order: str | None = None) -> Graph:
        """The graph of everything emitted so far."""
        return Graph(
            inputs=self.inputs,
            op=self._op.array.astype(np.uint8),
            start=self._start.array.copy(),
            terms=np.array(self._terms, dtype=np.int32),
            left_at=_offsets(self._left),
            left=_joined(self._left),
            right_at=_offsets(self._right),
            right=_joined(self._right),
            exponent=np.array(self._exponent, dtype=np.int32),
            constants=np.array(self._constants, dtype=np.float64),
            place=np.array(self._place, dtype=np.int32),
            places=tuple(self._places),
            outputs=dict(outputs),
            format=self._format.array.astype(np.int32),
            format_names=tuple(self._formats),
            order=order,
        )


def _offsets(parts: list[Ids]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def _joined(parts: list[Ids]) -> Ids:
    return np.concatenate([_NONE, *parts])


class _Numbers:
    """Integers that are looked up while more are appended: tracing a loop takes time in proportion to its steps."""

    def __init__(self, *first: int) -> None:
        self._room = np.array([*first, *[0] * 64], dtype=np.int64)
        self._n = len(first)

    @property
    def array(self) -> npt.NDArray[np.int64]:
        """All of them."""
        return self._room[: self._n]

    def append(self, number: int) -> None:
        """Add the next."""
        if self._n == len(self._room):
            self._room = np.concatenate([self._room, np.zeros_like(self._room)])
        self._room[self._n] = number
        self._n += 1

    def below(self, ids: Ids) -> npt.NDArray[np.int64]:
        """Of increasing numbers: for each id the place of the last that is not larger; -1 if there is none."""
        return np.asarray(np.searchsorted(self.array, ids, side="right") - 1)

    def at(self, places: npt.NDArray[np.int64], nowhere: int) -> npt.NDArray[np.int64]:
        """The numbers at some places; at -1 `nowhere`."""
        return np.where(places < 0, nowhere, self._room[places])
