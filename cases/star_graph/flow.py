r"""Phase I of Theorem 2 as a flow of two numbers, enclosed step by step; and its rate.

Gradient flow on the mean of L2 from 0, with Toeplitz weights, moves row T of the logits alone. The predecessor has
the weight s_p, each of m positions where the end node may also stand, equally likely, s_e, and each of n others s_o,
with m + n = T - 1:

    w_p' = s_p / (s_p + s_e) - s_p,   w_e' = s_e / (m (s_p + s_e)) - s_e,   w_o' = -s_o

(README.md#phase-one). With a = w_p - w_e and b = w_p - w_o, E = e^-a, O = e^-b and s_p = 1 / (1 + m E + n O),

    a' = (1 - E/m) / (1 + E) - s_p (1 - E),   b' = 1 / (1 + E) - s_p (1 - O),   a(0) = b(0) = 0.

The paper takes m = 8 and n = 1 (E u_t = 1/8 at every context position). In fact the end node is always the second of
an edge, so that m = 4 and n = 5 if these four are equally likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx

from certify.errors import Undecided

from .circuit import ball, between

#: Bits, terms of the Taylor series, and the first step; steps grow with t as the flow slows down.
PRECISION, TERMS, STEP = 192, 18, Fraction(1, 8)


@dataclass(frozen=True)
class Flow:
    """The flow with m positions where the end node may stand, and n where it never does."""

    m: int
    n: int

    def taylor(self, a: arb, b: arb) -> tuple[list[arb], list[arb]]:
        """Coefficients 0 to TERMS of the solution from (a, b), one by one with those of

        E' = -E a',   O' = -O b',   G (1 + E) = 1,   s (1 + m E + n O) = 1,   a' = (1 + 1/m) G - 1/m - s (1 - E).
        """
        m, n = self.m, self.n
        xs, ys, E, O = [a], [b], [(-a).exp()], [(-b).exp()]  # noqa: E741
        G, s, da, db = list[arb](), list[arb](), list[arb](), list[arb]()
        for k in range(TERMS):
            D = [m * e + n * o for e, o in zip(E, O, strict=True)]
            G.append((int(k == 0) - _conv(E[1:], G, k - 1)) / (1 + E[0]))
            s.append((int(k == 0) - _conv(D[1:], s, k - 1)) / (1 + D[0]))
            da.append((G[k] * (m + 1) - int(k == 0)) / m - s[k] + _conv(s, E, k))
            db.append(G[k] - s[k] + _conv(s, O, k))
            xs.append(da[k] / (k + 1))
            ys.append(db[k] / (k + 1))
            E.append(-_conv(E, da, k) / (k + 1))
            O.append(-_conv(O, db, k) / (k + 1))
        return xs, ys

    def step(self, a: arb, b: arb, h: Fraction) -> tuple[arb, arb]:
        """The flow for a time h.

        **Theorem.** Let Y be a box with y + [0, h] f(Y) inside Y. Then the solution from y stays in Y until h, and it
        is the Taylor polynomial of degree TERMS - 1 plus h^TERMS times a value of coefficient TERMS on Y. *Proof.*
        The first is Picard's theorem, the second Lagrange's remainder, component by component. QED
        """
        start, ahead, time = (a, b), between(Fraction(0), h), ball(h)
        wide = between(Fraction(1, 2), Fraction(3, 2))
        Y = [y + ahead * x[1] * wide for y, x in zip(start, self.taylor(a, b), strict=True)]
        coefficients = self.taylor(*Y)
        if not all(box.contains(y + ahead * x[1]) for box, y, x in zip(Y, start, coefficients, strict=True)):
            raise Undecided("no box holds the flow for one step", "take a smaller step")
        results = []
        for point, box in zip(self.taylor(a, b), coefficients, strict=True):
            value = box[TERMS]
            for coefficient in reversed(point[:TERMS]):
                value = value * time + coefficient
            results.append(value)
        return results[0], results[1]

    def enclosed(self, times: Sequence[int]) -> list[arb]:
        """x(t) = s_p / s_e = e^a at each of increasing times; raises Undecided."""
        found, t = list[arb](), Fraction(0)
        with ctx.workprec(PRECISION):
            a = b = arb(0)
            for stop in times:
                while t < stop:
                    h = min(stop - t, STEP * (1 + int(t) // 4))
                    a, b = self.step(a, b, h)
                    t += h
                found.append(a.exp())
        return found

    def rate(self, x: arb, t: int) -> arb:
        """x + (m + 1) ln x - m/x + m - 1 - (m - 1/m) t, which is never negative along the flow (README.md#phase-one)."""
        m = self.m
        return x + (m + 1) * x.log() - m / x + (m - 1) - ball(m - Fraction(1, m)) * t


def _conv(left: Sequence[arb], right: Sequence[arb], k: int) -> arb:
    """Coefficient k of a product of series."""
    return sum((left[j] * right[k - j] for j in range(k + 1)), arb(0))
