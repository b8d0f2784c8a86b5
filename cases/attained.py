"""What stands beside a bound: an error that is reached, so that everyone sees how loose the bound is. No claim rests on it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from certify.arithmetic import Format
from certify.arithmetic.directed import round_down
from certify.certificate import parse, to_hex
from certify.errors import Undecided
from certify.graph import Graph, Op, order_named
from certify.rounding import Bounds, point, running
from certify.rounding.attained import attained as attained_exactly
from certify.rounding.in_doubles import MOST_PRECISION, attained_quickly

Floats = npt.NDArray[np.float64]

#: Up to here all of it takes about as long as some evaluations of the kernel, and an exact replay about a second.
_MOST_OPERATIONS, _MOST_VECTORS, _MOST_EXACTLY = 200_000, 4000, 4000
#: Beyond, the first output alone, and one direction of its error.
_MANY = 10_000
_DRAWN = 2


def attained(
    bounds: Bounds, inputs: Mapping[str, npt.ArrayLike], where: Mapping[str, str], *, rounds: int
) -> dict[str, str]:
    """`attained_NAME`, of the first output and of the one with the largest bound, as far as something is known.

    An error in its norm that the program makes, or that chosen directions of all its roundings make, from inputs of the region:
    a lower bound of the worst case in the model of the bounds. Of `any-order` the program is the serial one.

    Parameters
    ----------
    bounds : the bounds that it stands beside.
    inputs : the state, the middle of the region.
    where : the region's parameters in a claim.
    rounds : how often an error of several elements is turned into one direction.
    """
    graph, format = bounds.graph, bounds.format
    if graph.n_operations > _MOST_OPERATIONS or _vectors(graph) > _MOST_VECTORS or bounds.first_overflow() is not None:
        return {}
    first = next(iter(graph.outputs))
    largest = max(graph.outputs, key=bounds.norm_of)
    few = graph.n_operations <= _MANY
    at = _worst(graph, format, inputs, where, bounds)
    found = {}
    for name in dict.fromkeys([first, largest] if few else [first]):
        value = _reached(bounds, at, name, rounds if few else 1)
        if value > 0:
            found[f"attained_{name}"] = to_hex(round_down(value))
    return found


def _reached(bounds: Bounds, at: Mapping[str, Floats], name: str, rounds: int) -> Fraction:
    graph, format, most = bounds.graph, bounds.format, bounds.norm_of(name)
    if not np.isfinite(most):  # beyond binary64 there is nothing to reach
        return Fraction(0)
    if format.precision <= MOST_PRECISION:
        return attained_quickly(graph, format, at, name, libm=bounds.libm, rounds=rounds, most=most)
    order = order_named(graph.order or "serial")
    if order.is_any or order.kind == "fma" or order.accumulator or format.flush or graph.n_operations > _MOST_EXACTLY:
        return Fraction(0)
    start = {name: format.unbounded.round(x) for name, x in at.items()}
    try:
        value = attained_exactly(graph, format, at, name, libm=bounds.libm, start=start)
    except Undecided:  # a comparison that hangs on equal numbers: nothing is known to be reached
        return Fraction(0)
    return value if value <= Fraction(most) else Fraction(0)


def _worst(
    graph: Graph, format: Format, inputs: Mapping[str, npt.ArrayLike], where: Mapping[str, str], bounds: Bounds
) -> dict[str, Floats]:
    """Inputs of the region where the running bound is large: of the middle and some on the edge of the ball, the worst."""
    middle = {block.name: np.asarray(inputs[block.name], dtype=np.float64) for block in graph.inputs}
    if where["kind"] == "point":
        return middle
    center = where.get("center", next(iter(middle)))
    support = next(block.support for block in graph.inputs if block.name == center)
    name = next(iter(graph.outputs))
    best, worst = middle, -1.0
    for step in _directions(support):
        # a hair inside, so that rounding keeps it in the ball
        length = 0.999 * float(parse(where["radius"])) / (float(np.linalg.norm(step)) or 1.0)
        tried = {**middle, center: middle[center] + step * length}
        size = running(graph, format, point(tried), libm=bounds.libm).norm_of(name)
        if np.isfinite(size) and size > worst:
            best, worst = tried, size
    return best


def _directions(support: npt.NDArray[np.bool_]) -> list[Floats]:
    """Directions from the middle: none, towards two corners, and some at random, always the same."""
    rng, inside = np.random.default_rng(0), support.astype(np.float64)
    return [0 * inside, inside, -inside, *(rng.standard_normal(support.shape) * inside for _ in range(_DRAWN))]


def _vectors(graph: Graph) -> int:
    """About how many vector operations its program is: long sums are many, however few nodes they have."""
    return sum(len(i.left) if i.op in (Op.SUM, Op.DOT) else 1 for i in graph.instructions())
