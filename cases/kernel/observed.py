"""The errors that a kernel really makes, beside what is proved: exact, and only where exact evaluation is cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import Format, Ieee
from certify.arithmetic.directed import sqrt_up
from certify.arithmetic.dyadic import Dyadic, fractions
from certify.graph import Graph, Values, evaluate, output
from certify.rounding.posterior import error

Inputs = Mapping[str, npt.NDArray[np.float64]]

#: Exact values of all nodes may have this many bits together, and the graph this many operations: about a second.
MOST_BITS = 1 << 25
MOST_OPERATIONS = 1 << 16


class Trials:
    """Inputs of a region with the exact outputs there, evaluated once for all formats; none if that would take long."""

    def __init__(self, graph: Graph, trials: Sequence[Inputs]) -> None:
        self._graph = graph
        self._trials = [(inputs, _exact(graph, inputs)) for inputs in trials] if _affordable(graph, trials) else []

    def errors(self, format: Format) -> dict[str, float]:
        """`error_NAME` for every output: the largest Euclidean error over the trials, rounded up; {} if none is known."""
        worst: dict[str, float] = {}
        for inputs, exactly in self._trials:
            ieee = Ieee(format)
            values = evaluate(self._graph, ieee, {name: ieee.constant(x) for name, x in inputs.items()})
            for name, reference in exactly.items():
                floats = output(self._graph, ieee, values, name).astype(np.float64)
                if not np.isfinite(floats).all():
                    return {}
                squares = sum((x * x for x in error(floats, reference).ravel().tolist()), Fraction(0))
                worst[f"error_{name}"] = max(worst.get(f"error_{name}", 0.0), sqrt_up(squares))
        return worst

    def __len__(self) -> int:
        return len(self._trials)


def in_ball(inputs: Inputs, center: str, radius: float, count: int) -> list[Inputs]:
    """`count` inputs of the ball around `inputs[center]`, always the same ones: a hair inside, so that rounding keeps them."""
    rng = np.random.default_rng(0)
    trials: list[Inputs] = []
    for _ in range(count):
        step = rng.standard_normal(inputs[center].shape)
        length = float(np.linalg.norm(step)) or 1.0
        trials.append({**inputs, center: np.asarray(inputs[center] + step * (0.999 * radius / length))})
    return trials


def _exact(graph: Graph, inputs: Inputs) -> dict[str, npt.NDArray[Any]]:
    dyadic = Dyadic()
    values = evaluate(graph, dyadic, {name: dyadic.constant(x) for name, x in inputs.items()})
    return {name: fractions(output(graph, dyadic, values, name)) for name in graph.outputs}


def _affordable(graph: Graph, trials: Sequence[Inputs]) -> bool:
    if not trials or graph.n_operations * len(trials) > MOST_OPERATIONS:
        return False
    lengths = _Lengths()
    values = evaluate(graph, lengths, {name: lengths.constant(x) for name, x in trials[0].items()})
    return bool(np.sum(values[1] - values[0]) * len(trials) <= MOST_BITS)


class _Lengths:
    """How long exact values can get: each is a multiple of 2**low and below 2**high in magnitude. Shape (2, lanes)."""

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
