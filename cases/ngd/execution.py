"""The kernel's own code, run on symbols: that it is the masked layer, for all real inputs.

A number is a quotient of polynomials (`symbols.Ring`). The largest score is a symbol m of its own, and exp(s - m) is the symbol
of exp(s) times one for exp(-m): whichever score is the largest, it cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from certify.cases.kernels import CaseKernel
from certify.cases.ngd.claims import certified, undecided
from certify.cases.ngd.layer import layer
from certify.cases.ngd.state import Context, rational
from certify.cases.ngd.symbols import Quotient, Ring, attention

from certify.certificate import Claim

Poly = Any


@dataclass(frozen=True)
class Symbol:
    """A quotient of polynomials of a ring, with the operations that a layer needs."""

    over: Poly
    under: Poly

    def __add__(self, other: Symbol) -> Symbol:
        if self.under == other.under:
            return Symbol(self.over + other.over, self.under)
        return Symbol(self.over * other.under + other.over * self.under, self.under * other.under)

    def __sub__(self, other: Symbol) -> Symbol:
        return self + other * -1.0

    def __mul__(self, other: Symbol | float) -> Symbol:
        if isinstance(other, Symbol):
            return Symbol(self.over * other.over, self.under * other.under)
        return Symbol(self.over * rational(other), self.under)

    def __truediv__(self, other: Symbol) -> Symbol:
        return Symbol(self.over * other.under, self.under * other.over)


class Functions:
    """What the layer calls of NumPy, on arrays of symbols."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring

    def max(self, s: Any) -> Symbol:
        """A symbol of its own."""
        return Symbol(self.ring.largest, self.ring.one)

    def sum(self, p: Any) -> Symbol:
        """The sum of a vector."""
        found: Symbol = np.sum(p)
        return found

    def exp(self, s: Any) -> Any:
        """Of differences to the largest entry."""
        values = [self.ring.exp(x.over + self.ring.largest) * self.ring.lowered for x in s]
        if any(x.under != self.ring.one for x in s):
            raise ArithmeticError("the exponent of an exponential is no polynomial")
        return np.array([Symbol(x, self.ring.one) for x in values], dtype=object)


def is_layer(n: int, d: int, C1: float, C2: float) -> bool:
    """Whether `layer`, run on symbols, is the last column of the masked attention with these scalars."""
    ring = Ring(n, d, n)
    Z = np.array([[Symbol(x, ring.one) for x in row] for row in ring.Z], dtype=object)
    theta = np.array([Symbol(x, ring.one) for x in ring.theta], dtype=object)
    found: Any = layer(Z, theta, C1, C2, Functions(ring))
    ring.C1, ring.C2 = ring.one * rational(C1), ring.one * rational(C2)
    (column,) = attention(ring, True, [n])
    pairs = zip(found, column.over[d:], strict=True)
    return all(Quotient([x.over], x.under).equals(Quotient([y], column.under)) for x, y in pairs)


def program_claim(context: Context, kernel: CaseKernel, C1: float, C2: float) -> Claim:
    """That the exact function of the kernel's program is the layer of its context, for all inputs."""
    statement = (
        f"In exact arithmetic the program of the kernel {kernel.name} returns, for all real Z and theta, theta after the "
        f"masked layer with the C1 and C2 of context {context.name}: an identity of rational functions in the exponentials."
    )
    id, parameters = f"identity/program/kernel={kernel.name}", {"context": context.name, "kernel": kernel.name}
    if not is_layer(context.n, context.d, C1, C2):
        return undecided(id, statement, "program", "the rational functions differ", parameters=parameters)
    return certified(id, statement, "program", parameters=parameters)
