"""From which gamma on a format decodes right: the float program's own outputs, enclosed for all edge orders at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from certify.cases.kernels import CaseKernel

from certify.arithmetic import Format
from certify.arithmetic.directed import relaxed_down, round_down
from certify.certificate import Claim, to_text
from certify.rounding import point, running

from .instances import Law, N, V
from .state import circuit_weights
from .words import instances, make

#: Gammas are multiples of 1 / GRID; these are tested beside the first that is proved.
GRID, BESIDE = 16, (3, 4, 6, 8, 12)
#: Where the search begins, below the exact threshold 2.57, and where it gives up.
FIRST, LAST = 36, 64


class Decoder:
    """The kernel of all edge orders, at the weights of the circuit, in one format."""

    def __init__(self, kernel: CaseKernel, format: Format) -> None:
        self.kernel, self.format = kernel, format

    def leads(self, gamma: Fraction) -> tuple[Fraction, Fraction]:
        """By how much v leads in every order, and another label in some order, each at least; at most one is positive.

        **Theorem.** Where nothing overflows, computed entries are in [low, high] of the running bounds
        (docs/theory/rounding.md), so that low[v] - max high[a] is a lower bound of the lead of v, and max low[a] -
        high[v] one of the lead of another label. Both are given as 0 where an overflow is not excluded.
        """
        graph = self.kernel.traced.graph
        bounds = running(graph, self.format, point(circuit_weights(float(gamma))), libm=self.kernel.libm)
        if bounds.first_overflow() is not None:
            return Fraction(0), Fraction(0)
        out = graph.outputs["f1"]
        low, high = (np.where(out.ids < 0, out.known, ends[out.ids]) for ends in (bounds.low, bounds.high))
        others = np.arange(N) != V
        right = [
            Fraction(float(x)) - Fraction(float(y)) for x, y in zip(low[:, V], high[:, others].max(axis=1), strict=True)
        ]
        wrong = [
            Fraction(float(x)) - Fraction(float(y)) for x, y in zip(low[:, others].max(axis=1), high[:, V], strict=True)
        ]
        return min(right), max(wrong)


def decoded_claim(kernel: CaseKernel, format: Format, law: Law, rounding: Claim) -> Claim | None:
    """The first gamma of the grid at which the format is proved to decode right, and a few larger ones; None if there is none.

    Its assumptions are those of the rounding claim, which it rests on for the program.
    """
    decoder, wrong, first = Decoder(kernel, format), Fraction(0), None
    for k in range(FIRST, LAST + 1):
        right, other = decoder.leads(Fraction(k, GRID))
        if right > 0:
            first = Fraction(k, GRID)
            break
        if other > 0:
            wrong = Fraction(k, GRID)
    if first is None or wrong == 0:
        return None
    found = {x: decoder.leads(x)[0] for x in [first, *(Fraction(x) for x in BESIDE if x > first)]}
    kept = [x for x, lead in found.items() if lead > 0]
    parameters = {
        "format": format.name,
        "gammas": [to_text(x) for x in kept],
        "listed": spoken(kept),
        "wrong": to_text(wrong),
        "instances": instances(law),
        "rounding": rounding.id,
    }
    bounds = {"margin": Fraction(relaxed_down(round_down(min(found[x] for x in kept))))}
    return make(
        f"margin/decoded/{format.name}",
        parameters,
        bounds=bounds,
        assumptions=rounding.assumptions,
        semantics=rounding.semantics,
    )


def spoken(gammas: Sequence[Fraction]) -> str:
    """The gammas, for a sentence."""
    return ", ".join(str(x) for x in gammas)
