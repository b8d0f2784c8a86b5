"""Many states through one graph: the bounds and the floats of each, for far less than as many single evaluations.

Values get an axis of states before the lanes. Lanes never depend on each other, and neither do states: every number is
that of the state by itself, but for the sign of zero ends, and for the order in which binary64 adds what `any-order` sums up:
errors, and of binary64 ends too, with room for every order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import Format, Ieee, format_named
from certify.arithmetic.ieee import AnyOperands
from certify.arithmetic.libm import Libm, chosen_library
from certify.errors import InputRejected
from certify.graph import FormatNames, Graph, Op, Values, evaluate, order_named, output
from certify.rounding.anyorder import EveryOrder
from certify.rounding.bounds import Bounds, known_numbers
from certify.rounding.local import ERROR, HIGH, LOW, magnitude
from certify.rounding.region import Floats, Region
from certify.rounding.running import Running, running

#: Nodes evaluated together: with more of them nothing is gained, and memory grows (benchmarks/scale.py measures it).
NODES_TOGETHER = 1 << 20


def running_batch(
    graph: Graph, format: Format, regions: Sequence[Region], *, libm: str | Libm | None = None
) -> Iterator[Bounds]:
    """`running` for each of `regions`, in order; all have the inputs of `graph`, and so its shapes.

    A few states are evaluated at a time, so that the memory in use does not grow with their number.

    Raises
    ------
    InputRejected, OrderUnspecified : as `running`; or the regions differ in being representable.
    """
    if graph.format_names:  # each of their formats has a peak of its own
        yield from (running(graph, format, region, libm=libm) for region in regions)
        return
    library = chosen_library(libm, [format])
    if len({region.representable for region in regions}) > 1:
        raise InputRejected("some regions are of representable inputs and some are not", "make one batch of each kind")
    every = graph.order is not None and order_named(graph.order).is_any
    for part in _parts(graph, regions):
        arithmetic = (_EveryOrders if every else _Runs)(format, library, len(part))
        inputs = {}
        for name in part[0].lower:
            ends = (np.stack([getattr(region, end)[name] for region in part]) for end in ("lower", "upper"))
            inputs[name] = arithmetic.enclose(*ends)
            if part[0].representable:
                inputs[name][ERROR] = 0.0  # as in `running`
        values = evaluate(graph, arithmetic, inputs)
        arithmetic.note(magnitude(values[..., : graph.n_inputs]))
        for _, known in known_numbers(graph):
            arithmetic.note(np.abs(known))
        error = np.where(np.isnan(values[ERROR]), np.inf, values[ERROR])
        largest = arithmetic.format.round(arithmetic.peaks)  # as `Running.largest_result`
        for k in range(len(part)):
            ends_and_error = values[LOW, k], values[HIGH, k], error[k]
            yield Bounds(graph, format, *ends_and_error, float(largest[k]), library)


def computed_batch(
    graph: Graph, format: Format, states: Sequence[Mapping[str, npt.ArrayLike]], names: Sequence[str]
) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """The floats that the program returns for the named outputs at each state, as binary64; inputs are converted first."""
    for part in _parts(graph, states):
        ieee = _Emulations(format, len(part))
        inputs = {
            block.name: ieee.constant(np.stack([np.asarray(state[block.name], dtype=np.float64) for state in part]))
            for block in graph.inputs
        }
        values = evaluate(graph, ieee, inputs, outputs=names)
        found = {name: output(graph, ieee, values, name).astype(np.float64) for name in names}
        for k in range(len(part)):
            yield {name: array[k] for name, array in found.items()}


def states_together(graph: Graph) -> int:
    """How many states are evaluated at a time."""
    return max(1, NODES_TOGETHER // graph.n_nodes)


def _parts(graph: Graph, states: Sequence[Any]) -> Iterator[Sequence[Any]]:
    together = states_together(graph)
    for first in range(0, len(states), together):
        yield states[first : first + together]


class _Batch:
    """Room for several states, and the peak of each. Constants are those of all states."""

    count: int
    peaks: Floats

    def note(self, m: Floats) -> None:
        """Take magnitudes into account: of all states if they have no axis of states, as those of constants."""
        if m.size:
            self.peaks = np.maximum(self.peaks, m.max() if m.ndim == 1 else m.reshape(len(m), -1).max(axis=1))


class _Runs(_Batch, Running):
    """`Running` with values of shape (3, states, lanes)."""

    rows = 3

    def __init__(self, format: Format, libm: Libm, count: int) -> None:
        super().__init__(format, libm)
        self.count, self.peaks = count, np.zeros(count)

    def accumulating(self, name: str) -> Any:
        """As `Running.accumulating`: what the accumulator holds is not part of the peaks."""
        wide = super().accumulating(name)
        wide.peaks = np.zeros(self.count)
        return wide

    def empty(self, n: int) -> Values:
        """Room for n values of every state."""
        return np.empty((self.rows, self.count, n))

    def constant(self, values: Floats) -> Values:
        """Constants, the same for every state."""
        return super().constant(values)[:, None, :]


class _EveryOrders(_Runs, EveryOrder):
    """`EveryOrder` with values of shape (4, states, lanes)."""

    rows = 4


class _Emulations(Ieee):
    """`Ieee` with values of shape (states, lanes)."""

    def __init__(self, format: Format, count: int) -> None:
        super().__init__(format)
        self.count = count

    def empty(self, n: int) -> Values:
        """Room for n values of every state."""
        return np.empty((self.count, n), dtype=self._dtype)

    def in_format(self, name: str, left: FormatNames, right: FormatNames, op: Op) -> Ieee:
        """As `Ieee.in_format`."""
        return _MixedEmulations(format_named(name) if name else self.format, self.count)


class _MixedEmulations(AnyOperands):
    """`AnyOperands` with values of shape (states, lanes)."""

    def __init__(self, format: Format, count: int) -> None:
        super().__init__(format)
        self.count = count

    def empty(self, n: int) -> Values:
        """Room for n values of every state."""
        return np.empty((self.count, n))
