"""Probable bounds of a serial dot product beside proved ones, and how many of 10^5 runs pass them.

    python benchmarks/probable.py [--runs 100000] [--n 1000]

Runs round stochastically, with exact probabilities (certify/arithmetic/stochastic.py); they are compared with the exact product
in rationals. Proved: adjoint bounds of rounding to nearest, and of every outcome of stochastic rounding. The theorem is
docs/theory/probable.md#bound; the cases are those of tests/rounding/probable_cases.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rounding"))

from probable_cases import beyond, dot_case, exact_dot, results

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32
from certify.rounding import adjoint, point, probable

CONFIDENCES = ("0.9", "0.99", "0.999", "0.999999")
FORMATS = (BINARY32, BINARY16, BFLOAT16)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--n", type=int, default=1000)
    options = parser.parse_args()
    print(f"dot product of {options.n} terms, {options.runs} runs; bounds of the absolute error")
    print("format    data      confidence  bound      nearest/bound  every/bound  outside  allowed  largest seen/bound")
    for format in FORMATS:
        for kind in ("positive", "signed"):
            graph, inputs = dot_case(kind, format, options.n)
            region, exact = point(inputs), exact_dot(inputs)
            nearest = float(adjoint(graph, format, region).error_of("0"))
            started = time.perf_counter()
            computed = results(graph, format, inputs, "0", options.runs)
            seconds = time.perf_counter() - started
            worst = max(abs(float(x) - exact) for x in (computed.min(), computed.max()))
            for confidence in CONFIDENCES:
                found = probable(graph, format, region, confidence=confidence)
                bound, sure = float(found.error_of("0")), float(found.surely["0"])
                outside = beyond(computed, exact, bound)
                allowed = options.runs * float(1 - found.confidence)
                print(
                    f"{format.name:9} {kind:9} {confidence:10}  {bound:.3e}  {nearest / bound:13.2f}  {sure / bound:11.2f}"
                    f"  {outside:7d}  {allowed:7.1f}  {float(worst) / bound:.2f}"
                )
            print(
                f"          {seconds:.1f} s, {2 * options.n * options.runs / seconds / 1e6:.0f} million roundings a second"
            )


if __name__ == "__main__":
    main()
