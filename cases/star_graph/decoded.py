"""From which gamma on a format decodes right: the float program's own outputs, enclosed for all edge orders at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from certify.cases.kernels import CaseKernel

from certify.arithmetic import Format
from certify.arithmetic.directed import relaxed_down
from certify.certificate import Claim, to_text
from certify.rounding import point, running

from .instances import Law, V
from .state import circuit_weights
from .words import instances, make

#: Gammas are multiples of 1 / GRID; these are tested beside the first that is proved.
GRID, BESIDE = 16, (4, 6, 8, 12)
#: Where the search begins, and where it gives up.
FIRST, LAST = 40, 64


class Decoder:
    """The kernel of all edge orders, at the weights of the circuit, in one format."""

    def __init__(self, kernel: CaseKernel, format: Format) -> None:
        self.kernel, self.format = kernel, format

    def leads(self, gamma: Fraction) -> np.ndarray:
        """Of each order (n,): computed f1[v] exceeds the computed entries of all other labels by at least this.

        **Theorem.** Where nothing overflows, computed entries are in [low, high] of the running bounds (docs/theory/rounding.md), so
        that low[v] - max high[a] is a lower bound of the lead. -inf where an overflow is not excluded.
        """
        low, high = self._ends(gamma)
        return low[:, V] - np.delete(high, V, axis=1).max(axis=1)

    def trails(self, gamma: Fraction) -> np.ndarray:
        """Of each order (n,): some label's computed entry exceeds that of v by at least this."""
        low, high = self._ends(gamma)
        return np.delete(low, V, axis=1).max(axis=1) - high[:, V]

    def _ends(self, gamma: Fraction) -> tuple[np.ndarray, np.ndarray]:
        graph = self.kernel.traced.graph
        bounds = running(graph, self.format, point(circuit_weights(float(gamma))), libm=self.kernel.libm)
        out = graph.outputs["f1"]
        if bounds.first_overflow() is not None:
            return np.full(out.ids.shape, -np.inf), np.full(out.ids.shape, np.inf)
        return tuple(np.where(out.ids < 0, out.known, ends[out.ids]) for ends in (bounds.low, bounds.high))  # type: ignore[return-value]


def decoded_claim(kernel: CaseKernel, format: Format, law: Law, rounding: Claim) -> Claim | None:
    """The first gamma of the grid from which on the format is proved to decode right, and a few larger ones; None if there is none.

    Its assumptions are those of the rounding claim, which it rests on for the program.
    """
    decoder = Decoder(kernel, format)
    proved = [k for k in range(FIRST, LAST + 1) if decoder.leads(Fraction(k, GRID)).min() > 0]
    first = next((k for k in proved if all(j in proved for j in range(k, LAST + 1))), None)
    if first is None:
        return None
    gammas = [Fraction(k, GRID) for k in range(first, LAST + 1)] + [Fraction(x) for x in BESIDE if x * GRID > LAST]
    leads = [float(decoder.leads(x).min()) for x in gammas]
    kept = [x for x, lead in zip(gammas, leads, strict=True) if lead > 0]
    wrong = next(k for k in range(first, -1, -1) if decoder.trails(Fraction(k, GRID)).max() > 0)
    parameters = {
        "format": format.name,
        "gammas": [to_text(x) for x in kept],
        "listed": spoken(kept),
        "wrong": to_text(Fraction(wrong, GRID)),
        "instances": instances(law),
        "rounding": rounding.id,
    }
    bounds = {"margin": relaxed_down(min(x for x in leads if x > 0))}
    return make(f"margin/decoded/{format.name}", parameters, bounds=bounds, assumptions=rounding.assumptions, semantics=rounding.semantics)


def spoken(gammas: Sequence[Fraction]) -> str:
    """The gammas, for a sentence."""
    return ", ".join(str(x) for x in gammas)
