"""The errors that a kernel really makes, beside what is proved: exact, and only where exact evaluation is cheap."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from certify.cases.programs import one_program

from certify.arithmetic import Format, Ieee
from certify.arithmetic.directed import sqrt_up
from certify.graph import Graph, evaluate, output
from certify.rounding.posterior import error

from .reference import Inputs, affordable, exactly


class Trials:
    """Inputs of a region with the exact outputs there, evaluated once for all formats; none if that would take long."""

    def __init__(self, graph: Graph, trials: Sequence[Inputs]) -> None:
        self._graph = one_program(graph)
        self._trials = [(inputs, exactly(graph, inputs)) for inputs in trials] if affordable(graph, trials) else []

    def errors(self, format: Format) -> dict[str, float]:
        """`error_NAME` for every output: the largest Euclidean error over the trials, rounded up; {} if none is known."""
        worst: dict[str, float] = {}
        for inputs, exact in self._trials:
            ieee = Ieee(format)
            values = evaluate(self._graph, ieee, {name: ieee.constant(x) for name, x in inputs.items()})
            for name, reference in exact.items():
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
