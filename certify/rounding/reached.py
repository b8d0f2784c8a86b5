"""Errors that the program itself makes: a search of a region for inputs from which it is as wrong as possible.

What is found is a fact, replayed exactly: from these inputs the program, in its own arithmetic, is off by that much. It is a
lower bound of the worst case and says nothing of how far that is. The search is deterministic. It draws inputs from the region,
keeps the worst, and moves some of its entries by a few units in the last place, or anywhere, again and again.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from certify.arithmetic import BINARY64, Format, Ieee
from certify.errors import Undecided
from certify.graph import ZERO, Graph, Values, evaluate, order_named, with_order
from certify.rounding.attained import Attained, norm_down
from certify.rounding.posterior import computed, error, exact
from certify.rounding.region import Floats, Region

_TOGETHER = 64


def reached(graph: Graph, format: Format, region: Region, output: str, *, rounds: int = 30, seed: int = 0) -> Attained:
    """The largest error in the Euclidean norm of `output` that was found from exact inputs in `region`.

    The program of `any-order` is the serial one. Errors in a format of fewer than 53 bits are first compared with binary64's;
    the worst inputs are replayed exactly. In binary64 every input tried is.
    """
    if graph.order is not None:
        graph = with_order(graph, order_named(graph.order).program.name)
    rng = np.random.default_rng(seed)
    lower = {name: np.asarray(x, dtype=np.float64) for name, x in region.lower.items()}
    upper = {name: np.asarray(x, dtype=np.float64) for name, x in region.upper.items()}
    if region.is_point:
        return Attained(_replay(graph, format, lower, output), lower)
    count = _TOGETHER if format.precision < 53 else 4
    best = {name: _inside(format, region, name, lower[name] / 2 + upper[name] / 2) for name in lower}
    largest = -1.0
    for trial in range(rounds):
        tried = {name: _moved(rng, format, best[name], lower[name], upper[name], count, trial) for name in lower}
        tried = {name: _inside(format, region, name, x) for name, x in tried.items()}
        sizes = _sizes(graph, format, tried, output, count)
        worst = int(np.argmax(sizes))
        if sizes[worst] > largest:
            largest = float(sizes[worst])
            best = {name: x[worst] for name, x in tried.items()}
    return Attained(_replay(graph, format, best, output), best)


def _moved(
    rng: np.random.Generator, format: Format, best: Floats, lower: Floats, upper: Floats, count: int, trial: int
) -> Floats:
    """`count` inputs: anywhere in the box, at its corners, or near the best."""
    shape = (count, *best.shape)
    if trial < 2:
        share = rng.random(shape)
        share = np.where(rng.random((count, *[1] * best.ndim)) < 0.5 * trial, share < 0.5, share)
        return np.asarray(lower + share * (upper - lower))
    steps = rng.integers(-8, 9, shape) * np.maximum(np.abs(best), format.min_normal) * format.u
    anywhere = lower + rng.random(shape) * (upper - lower)
    moves = rng.random(shape) < min(1.0, 2.0 / max(best.size, 1))
    near = np.where(rng.random((count, *[1] * best.ndim)) < 0.5, best + steps, anywhere)
    return np.where(moves, near, best)


def _inside(format: Format, region: Region, name: str, x: Floats) -> Floats:
    """Inputs of the region: numbers of the format, if it has no others, and where it has some."""
    lower, upper = region.lower[name], region.upper[name]
    x = np.clip(x, lower, upper)
    if not region.representable:
        return np.asarray(x)
    rounded = format.unbounded.round(x)
    low, high = format.unbounded.round(np.asarray(lower)), format.unbounded.round(np.asarray(upper))
    rounded = np.where(rounded < lower, high, np.where(rounded > upper, low, rounded))
    return np.asarray(rounded)


def _sizes(graph: Graph, format: Format, tried: dict[str, Floats], output: str, count: int) -> Floats:
    """About the norms of the errors from `count` inputs; -1 where the program overflows."""
    if format.precision >= 53:
        each = [{name: x[k] for name, x in tried.items()} for k in range(count)]
        return np.array([float(_replay(graph, format, at, output)) for at in each])
    ids = graph.outputs[output].ids
    nodes = ids[ids != ZERO].ravel()
    rough, fine = (_values(graph, f, tried, count)[:, nodes] for f in (format.unbounded, BINARY64))
    with np.errstate(all="ignore"):
        sizes = np.linalg.norm(rough - fine, axis=1)
    return np.where(np.isfinite(sizes), sizes, -1.0)


def _values(graph: Graph, format: Format, tried: dict[str, Floats], count: int) -> Values:
    ieee = _Several(format, count)
    return evaluate(graph, ieee, {name: ieee.constant(x) for name, x in tried.items()}).astype(np.float64)


class _Several(Ieee):
    """Several states at once, values (states, nodes)."""

    def __init__(self, format: Format, count: int) -> None:
        super().__init__(format)
        self._count = count

    def empty(self, n: int) -> Values:
        """Room for n values of each state."""
        return np.empty((self._count, n), dtype=self._dtype)


def _replay(graph: Graph, format: Format, at: dict[str, Floats], output: str) -> Fraction:
    try:
        errors = error(computed(graph, format, at, output), exact(graph, at, output))
    except Undecided:  # a comparison of equal numbers: not known, so nothing is reached
        return norm_down([])
    return norm_down(errors.ravel().tolist())
