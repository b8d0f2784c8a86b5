"""How far bounds reach: operations a second on long chains and large blocks, memory, batches of states.

    python benchmarks/scale.py [--terms 1000,10000,100000,1000000,10000000] [--blocks 16,32,64,128] [--lanes]

A chain is a serial dot product of two vectors, one DOT of one lane. A block is one Poly-prox update with p = P in binary64,
on a ball. Both include tracing. All times are processor time. Each size runs in a process of its own, whose peak memory is
what it took. Compiled loops are loaded before anything is timed, and bounds are also timed without them.

With --lanes it measures instead where one addition at a time overtakes a chain (`certify.arithmetic.chains`), how many nodes of
several states are best evaluated together (`certify.rounding.batch`), and what loading the compiled loops takes
(`certify.rounding.compiled`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rounding import NAMES, _peak_kilobytes, state, traced

from certify.arithmetic import BINARY16, BINARY64, Ieee, format_named
from certify.graph import Graph, evaluate, trace
from certify.rounding import ball, batch, compiled, point, running, running_batch
from certify.rounding.running import Running

CHAIN_FORMATS = ("float64", "float32", "float16", "bfloat16")
FUSED_FORMATS = ("float64", "float32", "float16")
STATES = 100
MOST = 60  # times one state that these may cost
Row = dict[str, Any]


def seconds_of(function: Callable[[], Any], repeats: int) -> list[float]:
    """Processor time of several calls: what other programs take of the machine is not counted."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return times


def median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """The median processor time of several calls, after one that is not counted; of one call, its own."""
    return statistics.median(seconds_of(function, repeats + (repeats > 1))[-repeats:])


def by_numpy(function: Callable[[], Any], repeats: int) -> float:
    """The median processor time in NumPy alone."""
    with compiled.always(False):
        return median_seconds(function, repeats)


def chain(terms: int, name: str, order: str = "serial") -> Row:
    """A dot product of random inputs, left to right: tracing and bounds on a ball, and the emulation beside them."""
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal(terms), "y": rng.standard_normal(terms)}
    format = format_named(name)
    ieee, region = Ieee(format), ball(inputs, "x", 1e-3)
    given = {key: ieee.constant(value) for key, value in inputs.items()}
    repeats = 15 if terms <= 10_000 else 5 if terms <= 1_000_000 else 1

    def made() -> Graph:
        return trace(lambda x, y: x @ y, inputs, order=order)

    graph = made()
    return {
        "size": terms,
        "format": name if order == "serial" else f"{name}, {order}",
        "operations": graph.n_operations,
        "trace": median_seconds(made, repeats),
        "bounds": median_seconds(lambda: running(graph, format, region), repeats + 1),
        "numpy": by_numpy(lambda: running(graph, format, region), repeats),
        "emulation": median_seconds(lambda: evaluate(graph, ieee, given), repeats),
        "megabytes": _peak_kilobytes() / 1024,
    }


def block(p: int) -> Row:
    """An update with p = P: tracing, bounds on a ball, emulation."""
    x = state(p)
    inputs = {name: np.asarray(getattr(x, name), dtype=np.float64) for name in NAMES}
    region, repeats = ball(inputs, "W", 1e-3), 15 if p <= 32 else 5 if p <= 64 else 1
    graph, ieee = traced(x), Ieee(BINARY64)
    return {
        "size": p,
        "format": "float64",
        "operations": graph.n_operations,
        "trace": median_seconds(lambda: traced(x), repeats),
        "bounds": median_seconds(lambda: running(graph, BINARY64, region), repeats + 1),
        "numpy": by_numpy(lambda: running(graph, BINARY64, region), repeats),
        "emulation": median_seconds(lambda: evaluate(graph, ieee, inputs), repeats),
        "megabytes": _peak_kilobytes() / 1024,
    }


def states(p: int, name: str) -> Row:
    """Tracing and bounds of one state, and of 100 states of its shape."""
    x, format, rng = state(p), format_named(name), np.random.default_rng(1)
    inputs = {key: np.asarray(getattr(x, key), dtype=np.float64) for key in NAMES}
    moved = [inputs | {"W": x.W * (1 + 0.1 * rng.standard_normal(x.W.shape))} for _ in range(STATES)]
    regions = [ball(one, "W", 1e-3) for one in moved]

    def one() -> None:
        running(traced(x), format, regions[0])

    def many() -> None:
        for _ in running_batch(traced(x), format, regions):
            pass

    return {
        "size": p,
        "format": name,
        "one": median_seconds(one, 15),
        "many": median_seconds(many, 3),
        "one by numpy": by_numpy(one, 15),
        "many by numpy": by_numpy(many, 3),
    }


def apart(what: str, *arguments: Any) -> Row:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--one", json.dumps([what, *arguments])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def rate(row: Row, bounds: str = "bounds") -> float:
    """Scalar operations a second, tracing and bounds together."""
    return float(row["operations"] / (row["trace"] + row[bounds]))


def scale_rows(terms: list[int], blocks: list[int]) -> tuple[list[Row], list[Row], list[Row]]:
    """Chains, blocks, and batches of states."""
    # the longest chain in one format: its two gigabytes and its time an operation are much the same in all
    chains = [apart("chain", n, name) for name in CHAIN_FORMATS for n in (terms if name == "float64" else terms[:-1])]
    chains += [apart("chain", n, name, "fma") for name in FUSED_FORMATS for n in terms[:-1]]
    return (
        chains,
        [apart("block", p) for p in blocks],
        [apart("states", p, name) for p in (4, 11, 16, 32, 37, 48, 64) for name in ("float64", "float16")],
    )


def markdown(chains: list[Row], blocks: list[Row], batches: list[Row]) -> str:
    """The tables of docs/performance.md."""
    head = (
        "| {} | format | operations | trace, s | bounds, s | by NumPy, s | emulation, s | million operations/s | by NumPy "
        "| peak, MB |\n"
    )
    line = "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: |\n"

    def table(rows: list[Row], title: str) -> str:
        cells = "".join(
            f"| {row['size']:,} | {row['format']} | {row['operations']:,} | {row['trace']:.3f} | {row['bounds']:.3f} | "
            f"{row['numpy']:.3f} | {row['emulation']:.3f} | {rate(row) / 1e6:.1f} | {rate(row, 'numpy') / 1e6:.1f} | "
            f"{row['megabytes']:.0f} |\n"
            for row in rows
        )
        return head.format(title) + line + cells

    many = (
        "| p = P | format | one state, ms | 100 states, ms | ratio | one by NumPy, ms | 100 by NumPy, ms | ratio |\n"
        "| --- | --- | --: | --: | --: | --: | --: | --: |\n"
    ) + "".join(
        f"| {row['size']} | {row['format']} | {1e3 * row['one']:.1f} | {1e3 * row['many']:.0f} | "
        f"{row['many'] / row['one']:.0f} | {1e3 * row['one by numpy']:.1f} | {1e3 * row['many by numpy']:.0f} | "
        f"{row['many by numpy'] / row['one by numpy']:.0f} |\n"
        for row in batches
    )

    def but(what: str) -> str:
        above = [row for row in batches if row["many" + what] > MOST * row["one" + what]]
        names = [f"p = {row['size']} in {row['format']}" for row in above]
        return f", but for {' and '.join(names)}" if names else ""

    return (
        f"### Serial dot products\n\n{table(chains, 'terms')}\n{_linearity(chains, 10_000)}\n"
        f"### Poly-prox blocks\n\n{table(blocks, 'p = P')}\n{_linearity(blocks, 1_000_000)}\n"
        f"### {STATES} states through one graph\n\nTracing and bounds on a ball.\n\n{many}\n"
        f"At most {MOST} times one state{but('')}; in NumPy alone{but(' by numpy') or ' too'}. The larger a state, the more "
        f"of it is arithmetic, and nothing of that is shared.\n"
    )


def _linearity(rows: list[Row], fewest: int) -> str:
    sentences = []
    for name in dict.fromkeys(row["format"] for row in rows):
        large = [row for row in rows if row["format"] == name and row["operations"] >= fewest]
        if len(large) > 1:
            share = rate(large[0]) / rate(large[-1])
            sentences.append(f"{name} {share:.2f} from {large[0]['operations']:,} to {large[-1]['operations']:,}")
    return f"Time an operation, largest over smaller (1 is linear): {'; '.join(sentences)}.\n" if sentences else ""


def lanes() -> None:
    """Where chains and groups of states stop paying."""
    rng = np.random.default_rng(0)
    print("nanoseconds a term and lane: one addition at a time, a chain")
    for name in ("float64", "float16", "bfloat16"):
        format = format_named(name)
        for count in (1, 4, 16, 32, 64, 128, 256, 512):
            terms = max(16, 8192 // count)
            ends = np.sort(format.round(rng.standard_normal((2, terms, count))), axis=0)
            x, arithmetic = np.concatenate([ends, np.zeros((1, terms, count))]), Running(format)

            def loop(x: Any = x, arithmetic: Any = arithmetic) -> None:
                total = x[:, 0]
                for k in range(1, x.shape[1]):
                    total = arithmetic.add(total, x[:, k])

            def chained(x: Any = x, arithmetic: Any = arithmetic) -> None:
                arithmetic.chain(x[:, 0], x[:, 1:])

            each = [median_seconds(function, 5) / terms / count * 1e9 for function in (loop, chained)]
            print(f"{name:9} {count:4} lanes {each[0]:9.1f} {each[1]:9.1f}")
    print("seconds to load compiled loops in a new process, kept from an earlier one")
    code = "from certify.rounding import loops; import time; loops.load(); "
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code + "print(time.process_time())"], check=True, capture_output=True, text=True
        )
        print(f"{float(done.stdout):.2f}")
    print("milliseconds a state, by nodes evaluated together")
    for p in (4, 11, 16, 32):
        x = state(p)
        graph = traced(x)
        regions = [point({name: np.asarray(getattr(x, name), dtype=np.float64) for name in NAMES})] * 50
        for bits in (14, 16, 17, 18, 19, 20, 22):
            batch.NODES_TOGETHER = 1 << bits
            seconds = median_seconds(lambda g=graph, r=regions: list(running_batch(g, BINARY16, r)), 2)
            print(f"p = {p:2} 2**{bits} nodes, {batch.states_together(graph):5} states {1e3 * seconds / 50:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--terms", default="1000,10000,100000,1000000,10000000")
    parser.add_argument("--blocks", default="16,32,64,128", help="values of P")
    parser.add_argument("--lanes", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        what, *rest = json.loads(arguments.one)
        with compiled.always(True):
            print(json.dumps({"chain": chain, "block": block, "states": states}[what](*rest)))
    elif arguments.lanes:
        lanes()
    else:
        sizes = ([int(n) for n in text.split(",")] for text in (arguments.terms, arguments.blocks))
        print(markdown(*scale_rows(*sizes)))


if __name__ == "__main__":
    main()
