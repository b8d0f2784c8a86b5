"""How tight the bounds are: bound over observed error on the rounding grid, and what an adversary reaches.

    python benchmarks/tightness.py [--samples 200] [--quick]

The grid is that of tests/rounding/rounding_grid.py (polyprox.md section 8). The paper's medians are for its own states.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rounding"))

from rounding_grid import RADIUS, cases, outcome

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64
from certify.rounding import point, running
from certify.rounding.attained import attained

FORMATS = {f.name: f for f in (BINARY16, BFLOAT16, BINARY32, BINARY64)}
PAPER = {"float16": 6960, "float32": 6270, "float64": 8270}
METHODS = ("majorant", "running")


def grid(samples: int, quick: bool) -> None:
    """The median ratios of both methods, at points and on balls, in each format."""
    ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    alphas: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    exact, violations, unproved, count = 0, 0, 0, 0
    start = time.perf_counter()
    for case in cases():
        if quick and case.state.p > 3:
            continue
        states = case.state.W[None]
        inside = case.samples(samples)
        known, known_inside = case.exact(states), case.exact(inside)
        for name, format in FORMATS.items():
            count += name != "bfloat16"
            for method in METHODS:
                places = {"point": (0.0, states, known), "ball": (RADIUS, inside, known_inside)}
                for where, (radius, at, reference) in places.items():
                    result = outcome(case, format, radius, at, reference, method)
                    violations += not result.holds
                    unproved += method == "running" and not result.in_range
                    if result.ratio is None:
                        exact += method == "running"
                        continue
                    ratios[name, where, method].append(result.ratio)
                    if result.alpha_observed:
                        alphas[name, where, method].append(result.alpha_bound / result.alpha_observed)
    print(f"{count} cases and bfloat16, {samples} samples a ball, {time.perf_counter() - start:.0f} s")
    print(f"violations {violations}, ranges not proved {unproved}, cases without an error {exact}")
    print(
        f"{'median bound / observed error':32}{'paper':>8}" + "".join(f"{m:>12}" for m in METHODS) + f"{'largest':>10}"
    )
    for name in FORMATS:
        for where in ("point", "ball"):
            values = [statistics.median(ratios[name, where, method]) for method in METHODS]
            worst = max(ratios[name, where, "running"])
            paper = f"{PAPER.get(name, '')}" if where == "point" else ""
            print(
                f"W+, {name}, {where:20}"[:32].ljust(32)
                + f"{paper:>8}"
                + "".join(f"{v:12.2f}" for v in values)
                + f"{worst:10.1f}"
            )
    for name in FORMATS:
        values = [statistics.median(alphas[name, "point", method]) for method in METHODS]
        print(f"alpha+, {name}, point".ljust(40) + "".join(f"{v:12.2f}" for v in values))


def adversary() -> None:
    """The share of the running bound that an adversary who chooses every rounding reaches, 20 small states a format."""
    states = [case for case in cases() if case.state.p < 5 and "scale=0.01" not in case.label]
    print(f"reached by an adversary, share of the running bound, {len(states)} states: least, median, largest")
    for name, format in FORMATS.items():
        shares: dict[str, list[float]] = {"W": [], "alpha": []}
        for case in states:
            inputs = {key: format.round(value) for key, value in case.inputs.items()}
            bounds = running(case.graph, format, point(inputs))
            for output, found in shares.items():
                error = bounds.error_of(output)
                worst = np.unravel_index(int(error.argmax()), error.shape)
                found.append(float(attained(case.graph, format, inputs, output, worst)) / float(error[worst]))
        for output, found in shares.items():
            print(f"  {name:9} {output:6} {min(found):.4f} {statistics.median(found):.4f} {max(found):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="without the p = 5 states")
    arguments = parser.parse_args()
    grid(arguments.samples, arguments.quick)
    adversary()


if __name__ == "__main__":
    main()
