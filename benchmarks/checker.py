"""How long the independent checker takes beside the producer, on the demo's report and on one of 37 variables.

    python benchmarks/checker.py [--repeats 3] [--demo]

Limits: 20 times the producer on the demo (p = 11, three states, all that `certify demo` asks for); three minutes at p = 37,
P = 64, with the default options and with the face test. Times are of the processor, medians of one run on one machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from certify.cases import Options
from certify.cases.polyprox import saved_from
from certify.cases.polyprox.case import CASE
from contraction import large_state

from certify.certificate import encode
from certify.checker import Rejected, check
from certify.states import Saved
from certify.states.safetensors_file import encode_safetensors

TIMES, SECONDS = 20, 180
DEMO = Options(update_tol=1e-3, methods=("face",), replay=2000)


def seconds(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median processor time, and the result."""
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        result = function()
        taken.append(time.process_time() - began)
    return statistics.median(taken), result


def quiet(*args: object) -> None:
    """No progress."""


def none(name: str) -> bytes:
    """No file beside the report."""
    raise Rejected(f"there is no file {name}")


def compare(what: str, saved: Saved, options: Options, repeats: int) -> None:
    """One line: producer, checker, their ratio, and what became of the claims."""
    made, report = seconds(lambda: encode(CASE.certify(saved, options, quiet)), repeats)
    state = encode_safetensors(saved.tensors, saved.metadata)
    checked, findings = seconds(lambda: check(report, state, none), repeats)
    count = {verdict: sum(f.verdict == verdict for f in findings) for verdict in ("certified", "refuted", "undecided")}
    open_ = [f"{f.verdict} {f.id}: {f.sentence}" for f in findings if f.verdict != f.claimed]
    print(
        f"{what}: {len(json.loads(report)['claims'])} claims, {len(report) / 1000:.0f} kB; producer {made:.2f} s, checker "
        f"{checked:.2f} s, {checked / made:.1f} times; {count}, {len(open_)} of them not proved again",
        *open_,
        sep="\n  ",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--demo", action="store_true", help="no p = 37 state")
    arguments = parser.parse_args()
    compare(f"demo (at most {TIMES} times)", CASE.demo(quiet)[0], DEMO, arguments.repeats)
    if not arguments.demo:
        saved = saved_from(large_state())
        limit = f"p = 37, P = 64 (at most {SECONDS} s)"
        compare(f"{limit}, default options", saved, Options(), 1)
        faced = Options(formats=("float64",), methods=("face",), methods_required=True, step="new")
        compare(f"{limit}, --methods face --step new", saved, faced, 1)


if __name__ == "__main__":
    main()
