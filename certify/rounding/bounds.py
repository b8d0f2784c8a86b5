"""What a rounding analysis returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from certify.arithmetic import Format, format_named
from certify.arithmetic.directed import norm_up
from certify.arithmetic.libm import ONE_ULP, Libm
from certify.graph import ZERO, Graph, Op
from certify.graph.evaluation import OTHERS
from certify.rounding.region import Floats

_DOMAINS = {
    Op.SQRT: "square root of an enclosure that contains negative numbers",
    Op.LOG: "logarithm of an enclosure that contains 0 or negative numbers",
}


def known_numbers(graph: Graph) -> Iterator[tuple[str, Floats]]:
    """The names of outputs with entries that are known numbers, not nodes, and these numbers."""
    for name, out in graph.outputs.items():
        if (out.ids == ZERO).any():
            yield name, out.known[out.ids == ZERO]


def known_overflow(graph: Graph, format: Format) -> str:
    """The first output with a known number that overflows in its conversion to the format; empty if there is none."""
    overflowing = (name for name, x in known_numbers(graph) if not np.isfinite(format.unbounded.round(x)).all())
    return next(overflowing, "")


@dataclass(frozen=True)
class Bounds:
    """Per node: the computed value lies in [low, high] and is within `error` of the exact value, absolutely.

    This holds for every input of the region **if no operation overflows**; `first_overflow` tells. Arrays have shape
    (n_nodes + 1,), the last place being the structural zero. `peak` bounds the magnitude of every operation's result,
    partial sums included, and of the known numbers in outputs. The bounds assume `libm` of the library; `assumptions` says so.
    """

    graph: Graph
    format: Format
    low: Floats
    high: Floats
    error: Floats
    peak: float
    libm: Libm = ONE_ULP

    def limit_of(self, node: int) -> float:
        """The largest number of the format that `node` is computed in."""
        return float(np.broadcast_to(self._limits, self.low.shape)[node])

    @cached_property
    def _limits(self) -> Floats:
        """The largest number of every node's format: one number if all are in the program's."""
        largest = [format_named(name).largest for name in self.graph.format_names]
        # -1 is the program's format, and the structural zero has every one
        table = np.array([*largest, self.format.largest, self.format.largest])
        return table[self.graph.node_formats] if largest else np.array(self.format.largest)

    def first_overflow(self) -> int | None:
        """The first node that is not proved to stay finite; None if all are (and with them all partial sums).

        ZERO, which stands for known numbers, if all nodes are and a known number in an output is none that the format can hold.
        """
        proved = (self.low >= -self._limits) & (self.high <= self._limits)
        if not proved.all():
            return int(np.argmin(proved))
        return ZERO if known_overflow(self.graph, self.format) else None

    def describe(self, node: int) -> str:
        """A person's name of `node`, as of the graph; of ZERO, where `first_overflow` returns it, the output."""
        if node == ZERO:
            return f"a known number of output {known_overflow(self.graph, self.format)}"
        return self.graph.describe(node)

    def unbounded(self, output: str) -> str:
        """Where the error of an output that does not overflow is first infinite; empty if the output has a bound.

        Errors are computed in binary64, and may leave it where values do not.
        """
        if np.isfinite(self.error_of(output)).all():
            return ""
        lost = ~np.isfinite(self.error)
        return self.graph.describe(int(np.argmax(lost))) if lost.any() else f"a constant of output {output}"

    def why(self, node: int) -> str:
        """What is not proved of `node`, the first one that is not proved to stay finite, and where it is computed."""
        if node == ZERO:
            return f"{self.describe(node)} passes {self.limit_of(node):g}"
        problem = self.refusal(node) or f"an enclosure that passes {self.limit_of(node):g}"
        return f"{problem} at {self.describe(node)}"

    def refusal(self, node: int) -> str:
        """Why the operation of `node` is not proved to be defined on the region; empty if only its size may be a problem."""
        if node >= self.graph.n_inputs:
            i = self.graph.instruction_of(node)
            lane = node - i.start
            if i.op is Op.DIV and not self._apart_from_zero(int(i.right[lane])):
                return "division by an enclosure that contains 0"
            if i.op in _DOMAINS:
                operand = int(i.left[lane])
                if not self.low[operand] > self.error[operand]:
                    return _DOMAINS[i.op]
        return ""

    def _apart_from_zero(self, node: int) -> bool:
        return bool(max(self.low[node], -self.high[node]) > self.error[node])

    def assumptions(self) -> list[str]:
        """What these bounds assume of the library, one sentence for each of its functions that the kernel calls."""
        codes = set(self.graph.op.tolist())
        return self.libm.assumptions(OTHERS[op] for op in (Op.EXP, Op.LOG, Op.TANH, Op.SIGMOID) if op in codes)

    def error_of(self, output: str) -> Floats:
        """Bounds of |computed - exact| for an output, absolute, in the output's shape.

        A known number of the kernel that the format cannot hold counts as a conversion error.
        """
        out = self.graph.outputs[output]
        conversion = np.abs(out.known - self.format.unbounded.round(out.known))
        return np.where(out.ids == ZERO, conversion, self.error[out.ids])

    def norm_of(self, output: str) -> float:
        """Upper bound of the Euclidean (for a matrix: Frobenius) norm of the error of an output; inf if unknown."""
        error = self.error_of(output)
        return norm_up(error) if np.isfinite(error).all() else float("inf")
