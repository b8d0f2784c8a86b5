"""Adjoint bounds: how tight they are, against what is attained and against running bounds, and how long they take.

    python benchmarks/adjoint.py [--quick]

`attained` is an adversary who chooses the direction of every rounding, and the inputs on a region: an error that the model
of the bounds allows. `reached` is an error that the program itself makes, found by a search. Both are replayed exactly
(certify/rounding/attained.py, reached.py). The kernels are below; the grid is that of tests/rounding/rounding_grid.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rounding"))

from rounding_grid import RADIUS, cases

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, Format
from certify.graph import Graph, sigmoid, trace
from certify.rounding import Region, adjoint, ball, point, running
from certify.rounding.attained import attained_in
from certify.rounding.reached import reached

Kernel = Callable[..., Any]


def _softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def _norm(x: Any) -> Any:
    c = x - np.mean(x)
    return c / np.sqrt(np.mean(c * c) + 0.01)


def _horner(x: Any) -> Any:
    total = 0.2 * x + 0.3
    for c in (-0.7, 0.11, 1.3, -0.5):
        total = total * x + c
    return total


def _newton(x: Any) -> Any:
    y = 1.2 - 0.2 * x
    for _ in range(2):
        y = y * (2.0 - x * y)
    return y


#: Name, kernel, and the boxes of its inputs: low, high, length.
KERNELS: tuple[tuple[str, Kernel, tuple[tuple[float, float, int], ...]], ...] = (
    ("product", lambda x, y: x * y, ((1, 2, 1), (1, 2, 1))),
    ("difference of squares", lambda x, y: x * x - y * y, ((1, 2, 1), (3, 4, 1))),
    ("factored squares", lambda x, y: (x - y) * (x + y), ((1, 2, 1), (3, 4, 1))),
    ("sum of 8", np.sum, ((0.5, 1, 8),)),
    ("mean of 8", np.mean, ((0.5, 1, 8),)),
    ("dot of 4", lambda x, y: x @ y, ((0.5, 1, 4), (0.5, 1, 4))),
    ("dot of 16", lambda x, y: x @ y, ((0.5, 1, 16), (0.5, 1, 16))),
    ("signed dot of 8", lambda x, y: x @ y, ((-1, 1, 8), (0.5, 1, 8))),
    ("variance", np.var, ((1, 2, 4),)),
    ("norm", np.linalg.norm, ((1, 2, 4),)),
    ("horner", _horner, ((0.5, 1, 1),)),
    ("cubic", lambda x: x * x * x - 2 * x + 1, ((1.5, 2, 1),)),
    ("newton reciprocal", _newton, ((0.9, 1.1, 1),)),
    ("quotient", lambda x, y: x / y, ((1, 2, 1), (1, 2, 1))),
    ("sine series", lambda x: x - x * x * x / 6 + x * x * x * x * x / 120, ((0.5, 1, 1),)),
    ("rational", lambda x: (1 + x / 2) / (1 - x / 2), ((0.1, 0.2, 1),)),
    ("hypotenuse", lambda x, y: np.sqrt(x * x + y * y), ((1, 2, 1), (2, 3, 1))),
    ("residual stream", lambda x, y: x + (y - x), ((1, 2, 4), (4, 5, 4))),
    ("relu layer", lambda x, y: np.maximum(x * y - 0.5, 0), ((1, 2, 4), (1, 2, 4))),
    ("softmax", _softmax, ((0, 1, 4),)),
    ("layer norm", _norm, ((1, 2, 4),)),
    ("logistic", sigmoid, ((1, 2, 4),)),
    ("gate", lambda x, y: sigmoid(x) * np.tanh(y), ((1, 2, 4), (0.5, 1, 4))),
    ("logsumexp", lambda x: np.log(np.sum(np.exp(x))), ((0, 1, 4),)),
    ("geometric mean", lambda x, y: np.exp((np.log(x) + np.log(y)) / 2), ((1, 2, 1), (2, 3, 1))),
    ("maximum of products", lambda x, y: np.maximum(x * y, x + y), ((1, 1.4, 1), (3, 4, 1))),
    ("absolute difference", lambda x, y: np.abs(x * x - y), ((2, 3, 1), (0, 1, 1))),
    ("matrix square", lambda x: (x.reshape(2, 2) @ x.reshape(2, 2)).ravel(), ((0.5, 1, 4),)),
    ("determinant", lambda x: x[0] * x[3] - x[1] * x[2], ((1, 2, 4),)),
    ("centred product", lambda x, y: (x - 1.5) * (y - 0.25), ((2, 3, 1), (1, 2, 1))),
)


def kernels() -> Iterator[tuple[str, Graph, Region]]:
    """The kernels with a tenth of their boxes: real inputs, converted first."""
    rng = np.random.default_rng(1)
    for name, kernel, boxes in KERNELS:
        inputs, lower, upper = {}, {}, {}
        for key, (low, high, length) in zip("xy", boxes, strict=False):
            middle = rng.uniform(low, high, () if length == 1 else (length,))
            inputs[key], half = middle, 0.05 * (high - low)
            lower[key], upper[key] = middle - half, middle + half
        yield (
            name,
            trace(_of_two(kernel) if len(boxes) > 1 else _of_one(kernel), inputs, order="serial"),
            Region(lower, upper),
        )


def _of_one(kernel: Kernel) -> Kernel:
    """The kernel with its parameter named: NumPy's own have other names."""
    return lambda x: kernel(x)


def _of_two(kernel: Kernel) -> Kernel:
    """The kernel with its parameters named."""
    return lambda x, y: kernel(x, y)


def compare(
    name: str, graph: Graph, format: Format, region: Region, output: str, rounds: int
) -> tuple[float, ...] | None:
    """Adjoint over running, adjoint over attained, adjoint over reached, and seconds of both; None if nothing is proved."""
    start = time.perf_counter()
    plain = running(graph, format, region)
    middle = time.perf_counter()
    sharp = adjoint(graph, format, region, [output])
    seconds = time.perf_counter() - middle
    bound, before = sharp.norm_of(output), plain.norm_of(output)
    if sharp.first_overflow() is not None or not bound:
        return None
    adversary = float(attained_in(graph, format, region, output, tries=40).value)
    found = float(reached(graph, format, region, output, rounds=rounds).value)
    assert found <= bound <= before, name
    return bound / before, bound / adversary, bound / found if found else np.inf, seconds / (middle - start)


def table(title: str, rows: list[tuple[str, tuple[float, ...]]], show: bool) -> None:
    """Medians, and every row if asked for."""
    print(f"{title:44}{'/ running':>10}{'/ attained':>11}{'/ reached':>10}{'time':>7}")
    for name, numbers in rows if show else []:
        print(f"  {name:42}" + "".join(f"{x:{w}.2f}" for x, w in zip(numbers, (10, 11, 10, 7), strict=True)))
    columns = list(zip(*(numbers for _, numbers in rows), strict=True))
    for label, middle in (("median", statistics.median), ("largest", max)):
        print(f"  {label:42}" + "".join(f"{middle(c):{w}.2f}" for c, w in zip(columns, (10, 11, 10, 7), strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="the grid without its p = 5 states, and one seed of the others"
    )
    arguments = parser.parse_args()
    for format in (BINARY16, BINARY32):
        rows = [(name, compare(name, graph, format, region, "0", 30)) for name, graph, region in kernels()]
        table(f"30 kernels on boxes, {format.name}", [(n, r) for n, r in rows if r], show=format is BINARY16)
    grid = [c for c in cases() if not arguments.quick or (c.state.p < 5 and c.seed == 1)]
    for format in (BINARY16, BFLOAT16, BINARY32):
        for where, radius in (("point", 0.0), ("ball", RADIUS)):
            rows = []
            for case in grid:
                region = ball(case.inputs, "W", radius) if radius else point(case.inputs)
                rows.append((case.label, compare(case.label, case.graph, format, region, "W", 20)))
            table(f"rounding grid, W+, {format.name}, {where}", [(n, r) for n, r in rows if r], show=False)


if __name__ == "__main__":
    main()
