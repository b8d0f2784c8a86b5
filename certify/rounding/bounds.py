"""What a rounding analysis returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certify.arithmetic import Format
from certify.arithmetic.directed import norm_up
from certify.graph import ZERO, Graph
from certify.rounding.region import Floats


@dataclass(frozen=True)
class Bounds:
    """Per node: the computed value lies in [low, high] and is within `error` of the exact value, absolutely.

    This holds for every input of the region **if no operation overflows**; `first_overflow` tells. Arrays have shape
    (n_nodes + 1,), the last place being the structural zero. `peak` bounds the magnitude of every operation's result
    before rounding, partial sums included.
    """

    graph: Graph
    format: Format
    low: Floats
    high: Floats
    error: Floats
    peak: float

    def first_overflow(self) -> int | None:
        """The first node that is not proved to stay finite; None if all are (and with them all partial sums)."""
        proved = (self.low >= -self.format.largest) & (self.high <= self.format.largest)
        return None if proved.all() else int(np.argmin(proved))

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
