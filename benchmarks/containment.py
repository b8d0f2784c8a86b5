"""Real kernels of NumPy and torch beside their proved bounds: violations, and how much of the bound the errors reach.

    python benchmarks/containment.py [--states 500] [--kernels block,matmul]

Every state is random, of a random shape; the exact results are rationals, or balls of 2**-160. What each kernel is taken to
compute stands in tests/testing/real_kernels.py. Then a real product that violates the bound of the serial program.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "testing"))

from containment import Contained, beyond_serial, contained
from real_kernels import FORMATS, OWN, torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--states", type=int, default=500, help="of each kernel and format")
    parser.add_argument("--kernels", default=",".join(OWN), help="some of " + ", ".join(OWN))
    arguments = parser.parse_args()
    for kernel in (kernels := arguments.kernels.split(",")):
        if kernel not in OWN:
            parser.error(f"there is no kernel {kernel!r}: name some of {', '.join(OWN)}")
    head = ("kernel", "implementation", "format", "states", "elements", "violations", "median share", "largest")
    print("{:11} {:16} {:9} {:>6} {:>9} {:>10} {:>12} {:>8}".format(*head))
    violations = 0
    for kernel in kernels:
        for name in FORMATS:
            runs: dict[str, list[Contained]] = defaultdict(list)
            for seed in range(arguments.states):
                for found in contained(kernel, seed, name):
                    runs[found.implementation].append(found)
            for implementation, found in runs.items():
                shares = [run.share for run in found]
                wrong = sum(run.violations for run in found)
                violations += wrong
                print(
                    f"{kernel:11} {implementation:16} {name:9} {len(found):6} {sum(run.elements for run in found):9} "
                    f"{wrong:10} {statistics.median(shares):12.3f} {max(shares):8.3f}",
                    flush=True,
                )
    print(f"{violations} violations")
    dots = {"numpy": np.dot}
    if torch() is not None:
        dots["torch"] = lambda x, y: torch().dot(torch().from_numpy(x), torch().from_numpy(y))
    for library, dot in dots.items():
        off, serial, every = beyond_serial(dot)
        print(
            f"dot product of {library} in float32: error {off:.3g}; proved serially {serial:.3g}, in any order {every:.3g}"
        )


if __name__ == "__main__":
    main()
