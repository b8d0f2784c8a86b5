"""What tuning saves on the states of the demo, how much could be saved at most, and whether the programs keep their bounds.

    python benchmarks/tune.py [--runs 1000]

The three states are those of `certify demo`: the Poly-prox block on the Sachs data, 11 variables. `saved` is the share of the
bits of uniform float32; `at most` what no program certified by running bounds can save more than (proved), and `alone` the
same if refining a register never loosens the bounds. Every program found is run in emulation at the state and at points
of the ball, and its W is compared with the exact one.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
from certify.cases import case_named
from certify.cases.kernel import TracedKernel

from certify.arithmetic import BINARY32, BINARY64
from certify.arithmetic.directed import relaxed_up
from certify.rounding import Tuned, running, tune
from certify.rounding.batch import computed_batch

TOLERANCES = (1e-3, 1e-4, 1e-5)


def main() -> None:
    """Print one line a state, region and tolerance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    case = case_named("polyprox")
    saved, sentence = case.demo(lambda done, total, what: None)
    print(sentence)
    print(f"{'state':5} {'region':9} {'tol':>8} {'bound':>8} {'saved':>6} {'alone':>6} {'at most':>7} "
          f"{'largest error':>13} {'runs outside':>12} {'seconds':>7}")  # fmt: skip
    for k in range(case.states(saved)):
        kernel, center, name = case.kernel(saved, k, "serial")
        for radius in (0.0, 0.01):
            region = kernel.region(center if radius else None, radius)[1]
            float32 = relaxed_up(running(kernel.graph, BINARY32, region).norm_of(name))
            for tol in (*TOLERANCES, float32):
                started = time.perf_counter()
                found = tune(kernel.graph, region, {name: tol}, formats=("float16", "bfloat16", "float32"))
                seconds = time.perf_counter() - started
                worst, outside = _runs(kernel, found, center, radius, name, runs)
                where = f"ball {radius:g}" if radius else "state"
                alone = float(1 - found.alone / found.uniform)
                most = math.ceil(1000 * found.most) / 10
                print(
                    f"{k:5} {where:9} {tol:8.1e} {found.eps[name]:8.1e} {found.saved:6.1%} {alone:6.1%} {most:6.1f}% "
                    f"{worst:13.1e} {outside:12} {seconds:7.1f}",
                    flush=True,
                )


def _runs(kernel: TracedKernel, found: Tuned, center: str, radius: float, name: str, runs: int) -> tuple[float, int]:
    """The largest error of the output over many runs, Frobenius, and how many runs leave the bound of an element.

    The exact result is taken from binary64, whose own proved error is added to the one seen: nothing is missed.
    """
    rng = np.random.default_rng(0)
    support = next(block.support for block in kernel.graph.inputs if block.name == center)
    trials: list[dict[str, Any]] = []
    for _ in range(runs if radius else 1):  # at the state itself all runs are the same
        step = rng.standard_normal(support.shape) * support
        step *= 0.999 * radius * rng.random() / (float(np.linalg.norm(step)) or 1.0)
        trials.append({**kernel.inputs, center: kernel.inputs[center] + step})
    off = running(kernel.graph, BINARY64, kernel.region(center if radius else None, radius)[1]).error_of(name)
    bound = found.bounds.error_of(name)
    reference = computed_batch(kernel.graph, BINARY64, trials, (name,))
    floats = computed_batch(found.graph, found.format, trials, (name,))
    worst, outside = 0.0, 0
    for ours, double in zip(floats, reference, strict=True):
        wrong = np.abs(ours[name] - double[name]) + off
        outside += not (wrong <= bound).all()
        worst = max(worst, float(np.linalg.norm(wrong)))
    return worst, outside


if __name__ == "__main__":
    main()
