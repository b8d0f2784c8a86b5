"""Bounds, time and growth beside Gappa's, in one run; writes docs/performance.md and docs/performance.svg.

    apt-get install gappa                     # Debian 12: Gappa 1.4.1
    pip install '.[html]'                     # matplotlib, for the plot
    python benchmarks/peers.py [--timeout 3600] [--results results.json] [--quick]

The same program, the same box of representable inputs, the same question for both: the largest |computed - exact|. Gappa
gets one script an entry, which is its fastest way (`gappa.py`); its time is the sum over those runs, each ended after
--timeout seconds, and a family stops at its first size with one that is. Our time is the median of five evaluations, tracing
included, inside a running Python. All times are processor time. Every entry is compared. --results keeps what is measured
and goes on from there.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import platform
import pstats
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import gappa
import numba
import numpy as np
from certify.cases.polyprox import block
from rounding import state, traced
from scale import markdown, scale_rows, seconds_of

from certify.arithmetic import BINARY16, BINARY64, Format
from certify.graph import Graph, Variable, trace
from certify.graph.graph import Output
from certify.rounding import Region, ball, compiled, running
from certify.states import write_atomically

DOCS = Path(__file__).parent.parent / "docs"
LIMIT = 1.001
Row = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """One kernel of one size over a box of representable inputs."""

    family: str
    size: int
    format: Format
    make: Callable[[], Graph]
    region: Region

    @property
    def name(self) -> str:
        """Family, size and format."""
        return f"{self.family} {self.size} {self.format.name}"


def box(low: float, high: float, **shapes: Any) -> Region:
    """The same interval for every entry."""
    ends = ({name: np.full(shape, end) for name, shape in shapes.items()} for end in (low, high))
    return Region(*ends, representable=True)


def dot(n: int, format: Format) -> Problem:
    """A serial dot product of inputs in [-1, 1]."""
    shapes = {"x": np.ones(n), "y": np.ones(n)}
    return Problem(
        "dot", n, format, lambda: trace(lambda x, y: x @ y, shapes, order="serial"), box(-1.0, 1.0, x=n, y=n)
    )


def polynomial_of_matrix(n: int, format: Format) -> Problem:
    """All entries of S S + 2 S, inputs in [0, 0.1]."""
    shapes = {"S": np.ones((n, n))}
    return Problem(
        "S S + 2 S", n, format, lambda: trace(lambda S: S @ S + 2 * S, shapes, order="serial"), box(0.0, 0.1, S=(n, n))
    )


def horner(degree: int, format: Format) -> Problem:
    """Horner's rule for a polynomial with coefficients of alternating signs near 1 / k, binary16 numbers; x in [0, 1]."""
    coefficients = [float(np.float16((-1) ** k / (k + 1))) for k in range(degree + 1)]

    def kernel(x: Any) -> Any:
        result = coefficients[-1] * x + coefficients[-2]
        for c in coefficients[-3::-1]:
            result = result * x + c
        return result

    return Problem("Horner", degree, format, lambda: trace(kernel, {"x": 1.0}, order="serial"), box(0.0, 1.0, x=()))


def product(format: Format) -> Problem:
    """x y on [0, 0.01]**2: in binary16 half the smallest subnormal, 2**-25."""
    shapes = {"x": 1.0, "y": 1.0}
    return Problem(
        "x y", 1, format, lambda: trace(lambda x, y: x * y, shapes, order="serial"), box(0.0, 0.01, x=(), y=())
    )


def first_layers(p: int, format: Format) -> Problem:
    """The Poly-prox block up to layer 2.2, its register S; W in [-0.5, 0.5]. Our time is that of the whole block."""
    x = state(p)

    def make() -> Graph:
        graph = trace(block, x.inputs() | {"W": Variable(x.W.shape, x.M)}, order="serial")
        last = max(
            (
                i
                for i in graph.instructions()
                if (q := graph.place_of(i.start)) and (q.layer, q.register) == ("2.2", "S")
            ),
            key=lambda i: i.start,
        )
        ids = np.arange(last.start, last.stop, dtype=np.int32)
        return replace(graph, outputs={"0": Output(ids, np.zeros(len(ids)))})

    inputs = {
        name: np.asarray(getattr(x, name), dtype=np.float64) for name in ("Sigma", "alpha", "rho", "gamma", "lam")
    }
    ends = ({"W": np.full(x.W.shape, end), **inputs} for end in (-0.5, 0.5))
    return Problem("block to 2.2", p, format, make, Region(*ends, representable=True))


def problems(quick: bool) -> Iterator[list[Problem]]:
    """Families with growing sizes."""
    dots = {
        BINARY64: (10, 20, 50) if quick else (10, 20, 50, 100, 200, 500, 1000),
        BINARY16: (10, 20, 50) if quick else (10, 20, 50, 100, 200, 500, 1000),
    }
    matrices = dict.fromkeys((BINARY64, BINARY16), (4, 6) if quick else (4, 6, 8, 10, 12, 14, 16))
    for format in (BINARY64, BINARY16):
        yield [product(format)]
        yield [horner(n, format) for n in ((5, 10) if quick else (5, 10, 20, 40))]
        yield [first_layers(p, format) for p in ((3,) if quick else (3, 4))]
        yield [polynomial_of_matrix(n, format) for n in matrices[format]]
        yield [dot(n, format) for n in dots[format]]


def compare(problem: Problem, timeout: float) -> Row:
    """Both bounds of every entry, and both times; Gappa's is None if one entry takes too long."""
    seconds = statistics.median(seconds_of(lambda: running(problem.make(), problem.format, problem.region), 6)[1:])
    graph = problem.make()
    ours = running(graph, problem.format, problem.region).error_of("0").ravel()
    program = gappa.Program(graph, problem.region, problem.format)
    spent, theirs, ratios = 0.0, [], []
    for node, bound in zip(program.entries("0"), ours.tolist(), strict=True):
        proved = gappa.prove(program.script(node), timeout)
        spent += proved.seconds
        if proved.bound is None:
            return _row(problem, ours, seconds, None, spent, None)
        theirs.append(proved.bound)
        ratios.append(Fraction(bound) / proved.bound)
    return _row(problem, ours, seconds, max(theirs), spent, max(ratios))


def _row(problem: Problem, ours: Any, seconds: float, theirs: Any, spent: float, ratio: Any) -> Row:
    return {
        "family": problem.family,
        "size": problem.size,
        "format": problem.format.name,
        "entries": len(ours),
        "ours": float(ours.max()),
        "seconds": seconds,
        "gappa": None if theirs is None else float(theirs),
        "gappa seconds": spent,
        "ratio": None if ratio is None else float(ratio),
    }


def peers(quick: bool, timeout: float, results: Path | None) -> list[Row]:
    """Every family until Gappa takes too long."""
    known = json.loads(results.read_text()) if results and results.exists() else {}
    rows = []
    for family in problems(quick):
        finished = True
        for problem in family:
            if problem.name not in known:
                known[problem.name] = compare(problem, timeout if finished else 0.0)
                if results:
                    write_atomically(results, json.dumps(known, indent=1).encode())
            row = known[problem.name]
            finished = finished and row["gappa"] is not None
            rows.append(row)
            print(_line(row), file=sys.stderr)
    return rows


def _line(row: Row) -> str:
    """One row of the table."""
    known = row["gappa"] is not None
    theirs = f"{row['gappa']:.4g} | {row['ratio']:.6f} | {row['gappa seconds']:.2f}" if known else "- | - | not in time"
    faster = f"{row['gappa seconds'] / row['seconds']:,.0f}" if known else "-"
    return (
        f"| {row['family']} | {row['size']} | {row['format']} | {row['entries']} | {row['ours']:.4g} | {theirs} | "
        f"{1e3 * row['seconds']:.2f} | {faster} |"
    )


def growth(rows: list[Row]) -> str:
    """Exponents of time in n, from the two largest sizes that Gappa finished."""
    lines = []
    for family in dict.fromkeys((row["family"], row["format"]) for row in rows):
        done = [row for row in rows if (row["family"], row["format"]) == family and row["gappa"] is not None]
        if len(done) > 1:
            a, b = done[-2:]
            step = np.log(b["size"] / a["size"])
            exponents = [np.log(b[key] / a[key]) / step for key in ("gappa seconds", "seconds", "ours")]
            lines.append(
                f"| {family[0]} | {family[1]} | {a['size']} to {b['size']} | "
                + " | ".join(f"{exponent:.1f}" for exponent in exponents)
                + " |"
            )
    return "\n".join(lines)


def verdicts(rows: list[Row]) -> list[str]:
    """What the project asks of this comparison, and whether it holds here."""

    def word(holds: bool) -> str:
        return "holds" if holds else "**fails**"

    compared = [row for row in rows if row["ratio"] is not None]
    sharp = [row for row in compared if row["family"] in ("dot", "S S + 2 S")]
    said = [
        f"Bounds at most {LIMIT} times Gappa's on dot products and S S + 2 S, where Gappa finished: "
        f"{word(all(r['ratio'] <= LIMIT for r in sharp))}; "
        f"the largest ratio is {max((r['ratio'] for r in sharp), default=float('nan')):.6f} over "
        f"{sum(r['entries'] for r in sharp):,} entries."
    ]
    for family, size in (("dot", 100), ("S S + 2 S", 8)):
        for row in compared:
            if (row["family"], row["size"]) == (family, size):
                faster = row["gappa seconds"] / row["seconds"]
                said.append(
                    f"1,000 times faster at {family} n = {size}, {row['format']}: {word(faster >= 1000)} ({faster:,.0f})."
                )
    for row in compared:
        if row["family"] == "x y" and row["format"] == "float16":
            off = row["ours"] / 2.0**-25 - 1
            said.append(f"x y on [0, 0.01]^2 in float16: 2^-25 to a relative {off:.0e}: {word(0 <= off <= 2.0**-40)}.")
    looser = [row for row in compared if row["ratio"] > LIMIT and row not in sharp]
    said += [
        f"Looser than Gappa by more than {LIMIT}: {row['family']} {row['size']} {row['format']}, {row['ratio']:.4f}."
        for row in looser
    ]
    return said


def profile(p: int) -> str:
    """Where the time of the bounds of one block goes: a table of functions by their own time."""
    x = state(p)
    graph = traced(x)
    inputs = {
        name: np.asarray(getattr(x, name), dtype=np.float64) for name in ("W", "Sigma", "alpha", "rho", "gamma", "lam")
    }
    region = ball(inputs, "W", 1e-3)
    profiler = cProfile.Profile()
    with compiled.always(True):
        running(graph, BINARY64, region)
        profiler.enable()
        running(traced(x), BINARY64, region)
        profiler.disable()
    entries = pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
    own = {key: value[2] for key, value in entries}
    everything = sum(own.values())
    lines = []
    for (file, _, function), seconds in sorted(own.items(), key=lambda item: -item[1])[:14]:
        where = "NumPy" if file == "~" or "numpy" in file else Path(file).name
        lines.append(f"| `{function.strip('<>')}` | {where} | {seconds / everything:.0%} |")
    return "\n".join(lines)


def plot(rows: list[Row], file: Path) -> None:
    """Time and bound against size, both tools."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "certify"
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2))
    colors = {"dot": "#1b6ca8", "S S + 2 S": "#c8553d", "Horner": "#588b5b", "block to 2.2": "#8a6fb0"}
    for (family, format), color in ((key, colors[key[0]]) for key in _families(rows) if key[0] in colors):
        mine = [row for row in rows if (row["family"], row["format"]) == (family, format)]
        done = [row for row in mine if row["gappa"] is not None]
        style = "-" if format == "float64" else "--"
        label = f"{family}, {format}"
        axes[0].loglog(*_xy(mine, "seconds"), style, marker="o", ms=3, color=color, label=label)
        axes[0].loglog(*_xy(done, "gappa seconds"), style, marker="s", ms=4, mfc="none", color=color)
        axes[1].loglog(*_xy(mine, "ours"), style, marker="o", ms=3, color=color)
        axes[1].loglog(*_xy(done, "gappa"), " ", marker="s", ms=6, mfc="none", color=color)
    axes[0].set(xlabel="n", ylabel="seconds", title="Time: certify (dots), Gappa (squares)")
    axes[1].set(xlabel="n", ylabel="|computed - exact|", title="Bound: certify (dots), Gappa (squares)")
    axes[0].legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def _families(rows: list[Row]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["family"], row["format"]) for row in rows))


def _xy(rows: list[Row], key: str) -> tuple[list[float], list[float]]:
    return [row["size"] for row in rows], [row[key] for row in rows]


def document(rows: list[Row], scale: str, timeout: float) -> str:
    """docs/performance.md."""
    said = "\n".join(f"- {sentence}" for sentence in verdicts(rows))
    table = "\n".join(map(_line, rows))
    return f"""# Performance

Made by `python benchmarks/peers.py`; do not edit. Python {platform.python_version()}, NumPy {np.__version__},
numba {numba.__version__}, {platform.machine()}, one thread; {gappa.version()}. Times are processor time, also Gappa's.

## Beside Gappa

The same programs and boxes of representable inputs. Gappa gets one script an entry, ended after {timeout:.0f} s; its
time is the sum over the entries. Our time includes tracing, not the start of Python. `dot`: a serial dot product, inputs
in [-1, 1]. `S S + 2 S`: all entries, inputs in [0, 0.1]. `Horner`: a polynomial on [0, 1]. `block to 2.2`: register S of
the Poly-prox block after layer 2.2, W in [-0.5, 0.5]; our time there is that of the whole block.

{said}

| kernel | n | format | entries | our bound | Gappa's | largest ratio | Gappa, s | ours, ms | times faster |
| --- | --: | --- | --: | --: | --: | --: | --: | --: | --: |
{table}

![Time and bounds against size](performance.svg)

Growth, as exponents of n between the two largest sizes that Gappa finished:

| kernel | format | n | Gappa's time | our time | bound |
| --- | --- | --- | --: | --: | --: |
{growth(rows)}

## Scale

A chain counts 2 n - 1 operations. Bounds are uniform on a ball. Millions of operations a second include tracing. Matrix
products are computed in compiled loops (the extra `compiled`), which are loaded before; `by NumPy` is the time without
them, for the same numbers. Loading them takes about half a second, the first time on a machine some seconds. So they are
loaded once NumPy has taken as long.

{scale}
## Where our time goes

Functions by their own share of tracing and bounding a block with p = P = 64 in binary64, profiled, so that calls weigh
more than they do:

| function | in | share |
| --- | --- | --: |
{profile(64)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--timeout", type=float, default=3600.0, help="processor seconds for one Gappa run")
    parser.add_argument("--results", type=Path, help="a JSON file of what is measured, to go on from")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing written")
    arguments = parser.parse_args()
    if not gappa.installed():
        sys.exit("Gappa is not installed: apt-get install gappa")
    rows = peers(arguments.quick, arguments.timeout, arguments.results)
    if arguments.quick:
        print("\n".join(verdicts(rows)))
        return
    scale = markdown(*scale_rows([1000, 10_000, 100_000, 1_000_000, 10_000_000], [16, 32, 64, 128]))
    plot(rows, DOCS / "performance.svg")
    write_atomically(DOCS / "performance.md", document(rows, scale, arguments.timeout).encode())


if __name__ == "__main__":
    main()
