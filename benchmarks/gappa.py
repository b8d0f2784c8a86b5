"""Programs of `certify` as Gappa scripts, and what Gappa proves about them.

A graph is lowered to single operations. Every operation gets two lines, what the program computes and what is exact:

    v7 rnd= v1 * v2;
    e7 = v1 * v2;

Inputs are numbers of the format in a box, as in a `Region` with `representable=True`. One goal asks for one entry: Gappa
takes longer for many goals in one script than for as many scripts.
"""

from __future__ import annotations

import math
import re
import resource
import shutil
import subprocess
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from certify.arithmetic import Format
from certify.graph import Graph, Op, lower
from certify.rounding import Region

FORMATS = {"float64": "float<ieee_64,ne>", "float16": "float<11,-24,ne>"}
_SIGNS = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*"}
_BOUND = re.compile(r"in \[[^,]*, (-?\d+)(?:b(-?\d+))?[ \]]")


@dataclass(frozen=True)
class Proved:
    """Gappa's bound of |computed - exact|, None if it proved none in time; and its processor time in seconds."""

    bound: Fraction | None
    seconds: float


def installed() -> bool:
    """Whether there is a Gappa to run."""
    return shutil.which("gappa") is not None


def version() -> str:
    """Gappa's own name."""
    return subprocess.run(["gappa", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def prove(script: str, timeout: float) -> Proved:
    """Run Gappa on a script with one goal, for at most `timeout` seconds of processor time."""
    if timeout <= 0:
        return Proved(None, 0.0)
    before = _children_seconds()
    done = subprocess.run(
        ["gappa"], input=script, capture_output=True, text=True, preexec_fn=lambda: _limit(math.ceil(timeout))
    )
    seconds = _children_seconds() - before
    found = _BOUND.search(done.stdout + done.stderr)
    if found is None:
        return Proved(None, seconds)
    return Proved(int(found[1]) * Fraction(2) ** int(found[2] or 0), seconds)


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    # its recursion over 1000 terms takes more than the usual 8 MB
    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (most, most))


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Program:
    """A graph, with a box of inputs and a format, from which scripts for single entries are made."""

    def __init__(self, graph: Graph, region: Region, format: Format) -> None:
        self._program = lower(graph)
        self._format = format
        self._ends: dict[int, tuple[float, float]] = {}
        for block in self._program.inputs:
            lower_ends, upper_ends = (
                np.asarray(end[block.name])[block.support] for end in (region.lower, region.upper)
            )
            nodes = range(block.start, block.stop)
            self._ends |= dict(zip(nodes, zip(lower_ends.tolist(), upper_ends.tolist(), strict=True), strict=True))

    def entries(self, output: str) -> list[int]:
        """The nodes of an output's entries, those that are no known numbers."""
        return [int(node) for node in self._program.outputs[output].ids.ravel() if node >= 0]

    def script(self, node: int) -> str:
        """What bounds |computed - exact| of one node: everything it depends on, and one goal."""
        operations: dict[int, tuple[list[int], str, str]] = {}
        needed, stack = set(), [node]
        while stack:
            here = stack.pop()
            if here not in needed:
                needed.add(here)
                if here not in self._ends:
                    i = self._program.instruction_of(here)
                    operations[here] = _operation(self._program, i, here - i.start)
                    stack += operations[here][0]
        lines = [f"@rnd = {FORMATS[self._format.name]};"]
        hypotheses = []
        for here in sorted(needed):
            if here in self._ends:
                low, high = self._ends[here]
                lines += [f"v{here} = rnd(x{here});", f"e{here} = v{here};"]
                hypotheses.append(f"v{here} in [{_exactly(low)}, {_exactly(high)}]")
            else:
                _, computed, exact = operations[here]
                lines += [f"v{here} {computed};", f"e{here} = {exact};"]
        goal = f"|v{node} - e{node}| in ?"
        return "\n".join([*lines, "{ " + " /\\ ".join(hypotheses) + " -> " + goal + " }"])


def _operation(program: Graph, i: object, lane: int) -> tuple[list[int], str, str]:
    """The operands, and the right-hand sides of the computed and of the exact result of one lane."""
    a = int(i.left[lane])
    if i.op is Op.CONST:
        number = _exactly(float(program.constants[a]))
        return [], f"= {number}", number  # the constants here are numbers of the format
    if i.op in _SIGNS:
        b = int(i.right[lane])
        sign = _SIGNS[i.op]
        return [a, b], f"rnd= v{a} {sign} v{b}", f"e{a} {sign} e{b}"
    if i.op is Op.NEG:
        return [a], f"= -v{a}", f"-e{a}"
    if i.op is Op.SCALE:
        power = f"1b{i.exponent}"
        return [a], f"rnd= {power} * v{a}", f"{power} * e{a}"
    raise NotImplementedError(f"no Gappa for {i.op.name}")


def _exactly(x: float) -> str:
    """A binary64 number as Gappa's own dyadic number."""
    if x == 0:
        return "0"
    over, under = x.as_integer_ratio()
    return f"{over}b{1 - under.bit_length()}"
