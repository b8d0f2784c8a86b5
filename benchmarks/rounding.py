"""How long bounds take beside one evaluation, and how much memory: tracing, emulation, running bounds, the command.

    python benchmarks/rounding.py [--sizes 8,16,32,64] [--repeats 5]

States are random Poly-prox blocks with p = P. All ratios come from one run on one machine; times are medians.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from certify.cases.polyprox import State, block, saved_from

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64, Ieee
from certify.graph import Graph, Variable, evaluate, lower, trace
from certify.rounding import ball, point, running
from certify.states import save

NAMES = ("W", "Sigma", "alpha", "rho", "gamma", "lam")


def state(p: int, density: float = 1.0, scale: float | None = None, seed: int = 0) -> State:
    """A state of p variables with p_max = p, scaled so that no format overflows."""
    rng = np.random.default_rng(seed)
    M = (rng.random((p, p)) < density).astype(np.int8)
    np.fill_diagonal(M, 0)
    X = rng.standard_normal((50, p))
    W = (scale or 0.2 / p) * rng.standard_normal((p, p)) * M
    return State(W, X.T @ X / 50, M, alpha=0.3, rho=1.5, gamma=0.05, lam=0.01, b=1, p_max=p)


def traced(x: State) -> Graph:
    """Its graph, in serial order."""
    return trace(block, x.inputs() | {"W": Variable(x.W.shape, x.M)}, order="serial")


def median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Median wall time of `repeats` calls, after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(p: int, repeats: int) -> dict[str, float]:
    """All times of one size, in seconds."""
    x = state(p)
    graph = traced(x)
    program = lower(graph)
    inputs = {name: np.asarray(getattr(x, name), dtype=np.float64) for name in NAMES}
    ieee = Ieee(BINARY64)
    at, around = point(inputs), ball(inputs, "W", 1e-3)
    return {
        "operations": graph.n_operations,
        "trace": median_seconds(lambda: traced(x), repeats),
        "lower": median_seconds(lambda: lower(graph), max(1, repeats // 2)),
        "evaluate": median_seconds(lambda: evaluate(graph, ieee, inputs), repeats),
        "evaluate, lowered": median_seconds(lambda: evaluate(program, ieee, inputs), max(1, repeats // 2)),
        "point, float64": median_seconds(lambda: running(graph, BINARY64, at), repeats),
        "ball, float64": median_seconds(lambda: running(graph, BINARY64, around), repeats),
        "ball, float32": median_seconds(lambda: running(graph, BINARY32, around), repeats),
        "ball, float16": median_seconds(lambda: running(graph, BINARY16, around), repeats),
        "ball, bfloat16": median_seconds(lambda: running(graph, BFLOAT16, around), repeats),
    }


def table(rows: list[tuple[str, list[str]]], head: list[str]) -> None:
    """Print a table with a wide first column."""
    print(f"{'':30}" + "".join(f"{h:>14}" for h in head))
    for name, cells in rows:
        print(f"{name:30}" + "".join(f"{c:>14}" for c in cells))


def report(sizes: list[int], repeats: int) -> None:
    """Times, ratios and times per operation."""
    results = {p: measure(p, repeats) for p in sizes}
    columns = [results[p] for p in sizes]
    rows = [("scalar operations", [f"{c['operations']:,.0f}" for c in columns])]
    names = [name for name in columns[0] if name != "operations"]
    rows += [(f"{name}, ms", [f"{1e3 * c[name]:.2f}" for c in columns]) for name in names]
    for bound in ("point, float64", "ball, float64", "ball, float32", "ball, float16", "ball, bfloat16"):
        ratios = [(c["trace"] + c[bound]) / c["evaluate"] for c in columns]
        rows.append((f"(trace + {bound}) / evaluate", [f"{r:.2f}" for r in ratios]))
    lowered = [(c["trace"] + c["ball, float64"]) / c["evaluate, lowered"] for c in columns]
    rows.append(("same, over evaluate, lowered", [f"{r:.2f}" for r in lowered]))
    for name in ("evaluate", "point, float64", "ball, float64"):
        rows.append((f"{name}, ns/operation", [f"{1e9 * c[name] / c['operations']:.1f}" for c in columns]))
    table(rows, [f"P = {p}" for p in sizes])
    if len(sizes) > 1:
        (a, b), (p, q) = columns[-2:], sizes[-2:]
        for name in ("point, float64", "ball, float64"):
            growth = (b[name] / b["operations"]) / (a[name] / a["operations"])
            print(f"{name}: time per operation at P = {q} over P = {p}: {growth:.2f}")


def memory(sizes: list[int]) -> None:
    """Peak resident memory of tracing and bounding in a process of its own, less one that only imports."""
    command = [sys.executable, __file__, "--peak"]

    def peak(p: int) -> tuple[int, int]:
        result = json.loads(subprocess.run([*command, str(p)], check=True, capture_output=True, text=True).stdout)
        return result["kilobytes"], result["operations"]

    baseline = peak(0)[0]
    print(f"peak memory (an import alone takes {baseline / 1024:.0f} MiB)")
    for p in sizes:
        kilobytes, operations = peak(p)
        more = kilobytes - baseline
        print(f"  P = {p:3}: {more / 1024:8.1f} MiB more, {1024 * more / operations:6.1f} bytes an operation")


def peak_of(p: int) -> None:
    """What the subprocess of `memory` runs: trace and bound on a ball in binary64; p = 0 only imports."""
    operations = 1
    if p:
        x = state(p)
        graph = traced(x)
        inputs = {name: np.asarray(getattr(x, name), dtype=np.float64) for name in NAMES}
        running(graph, BINARY64, ball(inputs, "W", 1e-3))
        operations = graph.n_operations
    print(json.dumps({"kilobytes": _peak_kilobytes(), "operations": operations}))


def _peak_kilobytes() -> int:
    """Peak resident memory of this process. On Linux ru_maxrss starts at the parent's, so ask the kernel's status."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


def command(repeats: int) -> None:
    """Wall time of the command: its help, and a run on a state of 11 variables."""
    beside = Path(sys.executable).with_name("certify")
    program = str(beside) if beside.exists() else shutil.which("certify")
    if program is None:
        print("the command certify is not installed: its times are left out")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.safetensors"
        save(file, saved_from(state(11, density=0.3, scale=0.3)))
        for arguments in (["--help"], ["run", str(file)]):
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=folder)
                times.append(time.perf_counter() - start)
                # verdicts have exit codes of their own: 0 certified, 1 undecided, 4 refuted
                if done.returncode not in (0, 1, 4):
                    print(f"certify {arguments[0]} is not available here: {done.stderr.strip()[-200:]}")
                    break
            else:
                print(f"certify {arguments[0]:8} {statistics.median(times):.3f} s (median of {repeats})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="8,16,32,64", help="values of P, by commas")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak is not None:
        peak_of(arguments.peak)
        return
    sizes = [int(p) for p in arguments.sizes.split(",")]
    report(sizes, arguments.repeats)
    memory(sizes)
    command(5)


if __name__ == "__main__":
    main()
