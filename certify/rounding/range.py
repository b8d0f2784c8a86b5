"""The range test: no operation overflows, or which one may, or one that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from certify.arithmetic import Format, Ieee
from certify.graph import ZERO, Graph, evaluate, order_named, with_order
from certify.rounding.bounds import Bounds, known_overflow
from certify.rounding.region import Floats, Region


@dataclass(frozen=True)
class Range:
    """Outcome of the range test.

    `max_magnitude` is the largest number that an operation may return, whatever its format, or that an output is known to hold;
    `limit` is the largest number of the program's format. Exactly one of these holds: `node` is None (proved: no operation
    overflows anywhere in the region, and no result exceeds `max_magnitude`); `witness` names inputs of the region at which
    `node` overflows (refuted); or neither could be shown (undecided), and `node` is the first that is not proved finite. ZERO
    is the node of a known number in an output, whose conversion counts as the last operation. `reason` says what is not proved
    of the node, or what it does: an overflow, or an operation outside its domain, such as a division by an enclosure that
    contains 0.
    """

    max_magnitude: float
    limit: float
    node: int | None
    place: str
    witness: Mapping[str, Floats] | None
    reason: str = ""


def range_test(bounds: Bounds, region: Region) -> Range:
    """Whether the program of `bounds` can overflow in `region`.

    **Theorem.** If every enclosure [low, high] of the running error analysis is finite, no operation overflows, and none is
    outside its domain. *Proof.* By induction over the operations, partial sums included: an operation that is not proved to be
    in its domain has infinite ends; and as long as none before it overflowed, the computed value of an operation lies
    between fl of its extreme exact values: numbers of the format or, on overflow, infinite. An infinite or undefined end of
    a partial sum stays one in the sum: adding never makes it finite again. Known numbers of outputs are converted as they are:
    whether one overflows is computed. QED
    """
    limit = bounds.format.largest
    node = bounds.first_overflow()
    if node is None:
        return Range(bounds.peak, limit, None, "", None)
    for inputs in _candidates(region, bounds.format):
        overflowed = _overflow_at(bounds.graph, bounds, inputs)
        if overflowed is not None:
            place = bounds.describe(overflowed)
            return Range(float("inf"), limit, overflowed, place, inputs, f"a result that is not finite at {place}")
    return Range(float("inf"), limit, node, bounds.describe(node), None, bounds.why(node))


def _candidates(region: Region, format: Format) -> Iterator[Mapping[str, Floats]]:
    """Inputs of the region worth a try: its middle, and the two extreme corners of a box."""
    middle = {name: region.lower[name] / 2 + region.upper[name] / 2 for name in region.lower}
    corners = [region.lower, region.upper] if region.filled else []
    for inputs in [region.lower] if region.is_point else [middle, *corners]:
        if region.representable:
            inputs = {name: format.round(x) for name, x in inputs.items()}
        if all((region.lower[name] <= x).all() and (x <= region.upper[name]).all() for name, x in inputs.items()):
            yield inputs


def _overflow_at(graph: Graph, bounds: Bounds, inputs: Mapping[str, Floats]) -> int | None:
    ieee = Ieee(bounds.format, infinities=True)
    if graph.order is not None:
        graph = with_order(graph, order_named(graph.order).program.name)
    values = evaluate(graph, ieee, {name: ieee.constant(value) for name, value in inputs.items()})
    finite = np.isfinite(values)
    if not finite.all():
        return int(np.argmin(finite))
    return ZERO if known_overflow(graph, bounds.format) else None


@dataclass(frozen=True)
class Branches:
    """How many ReLUs are proved active, proved inactive, or take both branches in the region as far as is known."""

    active: int
    inactive: int
    undecided: int


def relu_branches(bounds: Bounds) -> Branches:
    """Count the ReLUs of the program by branch; decided means that computed and exact value agree on the side."""
    from certify.graph import Op

    active = inactive = undecided = 0
    for i in bounds.graph.instructions():
        if i.op is Op.RELU:
            low, high, error = bounds.low[i.left], bounds.high[i.left], bounds.error[i.left]
            # x^ >= low and x >= x^ - E; comparisons with NaN, after an overflow, are false: undecided
            above, below = (low >= error), (high <= -error)
            inactive += int(np.count_nonzero(below))
            active += int(np.count_nonzero(above & ~below))
            undecided += int(np.count_nonzero(~above & ~below))
    return Branches(active, inactive, undecided)
