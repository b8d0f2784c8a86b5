"""What a kernel returns in exact arithmetic, to compare with: enclosed always, and exactly where that is cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import BINARY64
from certify.arithmetic.dyadic import Dyadic, fractions
from certify.arithmetic.enclosure import step_down, step_up
from certify.errors import Undecided
from certify.graph import ZERO, Graph, Values, evaluate, output, with_order
from certify.rounding import Bounds, Region, running
from certify.rounding.posterior import ABSOLUTE, DYADIC, RELATIVE, exact

Floats = npt.NDArray[np.float64]
Inputs = Mapping[str, Floats]

#: Exact values of all nodes may have this many bits together, and the graph this many operations: about a second.
MOST_BITS = 1 << 25
MOST_OPERATIONS = 1 << 16


def enclosed(graph: Graph, region: Region) -> dict[str, tuple[Floats, Floats]]:
    """For every output, two arrays in its shape between which the exact values lie, at every input of the region.

    These are the running bounds of binary64, turned around: there is a program whose values are this close to the exact ones.
    What is assumed of a library is true of a correctly rounded one, so nothing is assumed here. Infinite where those bounds
    do not exclude an overflow.
    """
    bounds = running(with_order(graph, "any-order"), BINARY64, region)
    return {name: exact_range(bounds, name) for name in graph.outputs}


def exact_range(bounds: Bounds, name: str) -> tuple[Floats, Floats]:
    """Between what the exact values of an output lie, by the bounds of any program of it."""
    out = bounds.graph.outputs[name]
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = step_down(bounds.low - bounds.error)[out.ids], step_up(bounds.high + bounds.error)[out.ids]
    if bounds.first_overflow() is not None:
        low, high = np.full_like(low, -np.inf), np.full_like(high, np.inf)
    known = out.ids == ZERO
    return np.where(known, out.known, low), np.where(known, out.known, high)


def exactly(graph: Graph, inputs: Inputs) -> dict[str, npt.NDArray[Any]]:
    """The exact outputs at stored inputs, object arrays of Fractions; takes time and space that grow with the degree."""
    dyadic = Dyadic()
    values = evaluate(graph, dyadic, {name: dyadic.constant(x) for name, x in inputs.items()})
    return {name: fractions(output(graph, dyadic, values, name)) for name in graph.outputs}


def sharply(graph: Graph, inputs: Inputs, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """The exact values of an output at stored inputs, and how far they may be from that; object arrays of Fractions.

    Of quotients, roots and the like to about 160 bits, otherwise exact. None if it would take long, or cannot be told.
    """
    if affordable(graph, [inputs]):
        found = exactly(graph, inputs)[name]
        return found, np.zeros(found.shape, dtype=object)
    if _is_dyadic(graph) or graph.n_operations > MOST_OPERATIONS:
        return None
    try:
        found = exact(graph, inputs, name)
    except Undecided:  # such as the larger of two equal numbers: the enclosure stands
        return None
    return found, np.asarray(np.abs(found) * RELATIVE + ABSOLUTE, dtype=object)


def affordable(graph: Graph, trials: Sequence[Inputs]) -> bool:
    """Whether `exactly` can do all of these in about a second; it cannot do quotients, roots and the like at all."""
    if not trials or graph.n_operations * len(trials) > MOST_OPERATIONS:
        return False
    if not _is_dyadic(graph):
        return False
    lengths = _Lengths()
    values = evaluate(graph, lengths, {name: lengths.constant(x) for name, x in trials[0].items()})
    return bool(np.sum(values[1] - values[0]) * len(trials) <= MOST_BITS)


def _is_dyadic(graph: Graph) -> bool:
    return DYADIC.issuperset(graph.op.tolist())


class _Lengths:
    """How long exact values can get: each is a multiple of 2**low and below 2**high in magnitude. Shape (2, lanes)."""

    exact = True

    def empty(self, n: int) -> Values:
        return np.zeros((2, n))

    def constant(self, values: npt.NDArray[np.float64]) -> Values:
        exponents = np.frexp(values)[1].astype(np.float64)
        return np.stack([exponents - 53, exponents])

    def add(self, a: Values, b: Values) -> Values:
        return np.stack([np.minimum(a[0], b[0]), np.maximum(a[1], b[1]) + 1])

    sub = add

    def mul(self, a: Values, b: Values) -> Values:
        return np.asarray(a + b)

    def neg(self, a: Values) -> Values:
        return a

    relu = neg

    def scale(self, a: Values, exponent: int) -> Values:
        return a + exponent
