"""What the order models cost and how wide their bounds are, beside the serial ones, on the Poly-prox block.

    python benchmarks/orders.py [--sizes 8,16,32,64] [--repeats 5]

States are those of `rounding.py`. Serial and the other orders are timed in turn, so that both see the same machine; printed
are the ratios of the medians, and the median over the grid of sizes, formats and regions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from rounding import NAMES, state, table, traced

from certify.arithmetic import BINARY16, BINARY32, BINARY64, Format
from certify.graph import with_order
from certify.rounding import Region, ball, point, running

ORDERS = ("any-order", "pairwise", "blocked(8)", "fma")
MIXED = {"float16": "any-order:float32", "float32": "any-order:float64"}


def side_by_side(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median wall time of each function, called in turn."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for k in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if k:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def grid(sizes: list[int]) -> Iterator[tuple[str, Any, Format, Region]]:
    """A label, a serial graph, a format and a region each."""
    for p in sizes:
        x = state(p)
        graph = traced(x)
        inputs = {name: np.asarray(getattr(x, name), dtype=np.float64) for name in NAMES}
        for format in (BINARY16, BINARY32, BINARY64):
            for where, region in (("point", point(inputs)), ("ball", ball(inputs, "W", 1e-3))):
                yield f"P = {p}, {format.name}, {where}", graph, format, region


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="8,16,32,64", help="values of P, by commas")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    costs: dict[str, list[float]] = {name: [] for name in (*ORDERS, "mixed")}
    widths: dict[str, list[float]] = {name: [] for name in costs}
    rows = []
    for label, graph, format, region in grid([int(p) for p in arguments.sizes.split(",")]):
        orders = {"serial": "serial", **{order: order for order in ORDERS}}
        if format.name in MIXED:
            orders["mixed"] = MIXED[format.name]
        graphs = {name: with_order(graph, order) for name, order in orders.items()}
        bounds = {name: running(g, format, region).norm_of("W") for name, g in graphs.items()}
        runs = {name: partial(running, g, format, region) for name, g in graphs.items()}
        times = side_by_side(runs, arguments.repeats)
        cells = [f"{1e3 * times['serial']:.1f}"]
        for name in costs:
            if name in times:
                costs[name].append(times[name] / times["serial"])
                widths[name].append(bounds[name] / bounds["serial"])
            cells.append(f"{costs[name][-1]:.2f} / {widths[name][-1]:.2f}" if name in times else "")
        rows.append((label, cells))
    table(rows, ["serial, ms", *costs])
    print("each cell: time over serial / bound of W over serial; medians over the grid:")
    for name in costs:
        print(f"  {name:12} time {statistics.median(costs[name]):.2f}, bound {statistics.median(widths[name]):.2f}")


if __name__ == "__main__":
    main()
