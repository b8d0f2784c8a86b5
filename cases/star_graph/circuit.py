"""The circuit of Corollary 1 at a finite gamma, in two variables that stay bounded as gamma grows.

Layer 1 has the position weights gamma L, layer 2 the content weights gamma I and -gamma at (T-1, T-1); all others are 0. With
x = e^-gamma and y = gamma / (e^gamma + 9) every attention weight is a rational function of x and of powers of e^y. The theorem
and its proof are in README.md#circuit. As both variables tend to 0, one evaluation on a ball around (0, 0) covers every gamma
beyond some point, and boxes cover the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from flint import arb, fmpq

from .instances import END, OTHER_END, OTHER_V, STAR, Order, T, V, second_tokens, tokens

#: From here on one ball in (x, y) serves for every gamma.
TAIL = 12


def ball(value: Fraction | int) -> arb:
    """A rational number, rounded outward to the precision in force."""
    value = Fraction(value)
    return arb(fmpq(value.numerator, value.denominator))


def between(low: Fraction, high: Fraction) -> arb:
    """A ball that contains [low, high]."""
    return ball((low + high) / 2) + arb(0, 1) * ball((high - low) / 2)


class Variables:
    """Enclosures of x, y and gamma on a set of gammas; of gamma there may be none."""

    def __init__(self, x: arb, y: arb, gamma: arb | None = None) -> None:
        self.x, self.y, self.gamma = x, y, gamma
        self.attention = {n: ((n + 8) * y).exp() for n in (1, 2, 3)}
        self.rows = [1 / (1 + t * x) for t in range(T)]


def at(gamma: arb) -> Variables:
    """For every gamma of a ball, which may not reach below 0 by more than its rounding."""
    x = (-gamma).exp()
    return Variables(x, gamma * x / (1 + 9 * x), gamma)


def beyond(least: Fraction) -> Variables:
    """For every gamma >= least >= 1: there gamma e^-gamma decreases, and y is at most that."""
    if least < 1:
        raise ValueError("gamma e^-gamma decreases from 1 on")
    start = ball(least)
    x = (-start).exp()
    return Variables(x.union(arb(0)), (start * x).union(arb(0)))


class Circuit:
    """The circuit on one sequence of tokens (end second to last): exact counts, evaluated in enclosures."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = tuple(nodes)
        self.end = self.nodes.index(END)  # among the edges, as these come first
        seen = Counter(self.nodes[: T - 2] + self.nodes[T - 1 :])
        self.occurrences = [seen[g] for g in self.nodes]

    def _counted(self, node: int) -> list[tuple[bool, int]]:
        """At each position t: whether its predecessor (itself, for t = 0) is `node`, and how many of the others up to t are."""
        found = []
        for t in range(T):
            before = self.nodes[max(t - 1, 0)] == node
            found.append((before, self.nodes[: t + 1].count(node) - before))
        return found

    def values(self, node: int, at: Variables) -> list[arb]:
        """(S1 Z)[t, node] at each position t."""
        return [(int(before) + more * at.x) * at.rows[t] for t, (before, more) in enumerate(self._counted(node))]

    def rests(self, node: int, at: Variables) -> list[arb]:
        """1 - (S1 Z)[t, node] at each position t, without a subtraction."""
        return [
            (int(not before) + (t - more) * at.x) * at.rows[t] for t, (before, more) in enumerate(self._counted(node))
        ]

    def scaled(self, at: Variables) -> list[arb]:
        """e^gamma S2[T, j] D at each position j but that of the end node, where it is 0."""
        return [arb(0) if j == self.end else at.attention[n] for j, n in enumerate(self.occurrences)]

    def total(self, at: Variables) -> arb:
        """D = 1 / S2[T, t_end]."""
        return 1 + at.x * _sum(self.scaled(at))

    def lead(self, node: int, other: int, at: Variables) -> arb:
        """(f1[node] - f1[other]) D."""
        differences = [a - b for a, b in zip(self.values(node, at), self.values(other, at), strict=True)]
        return differences[self.end] + at.x * _dot(self.scaled(at), differences)

    def attention_error(self, at: Variables) -> arb:
        """e^gamma (1 - S2[T, t_end])."""
        return _sum(self.scaled(at)) / self.total(at)

    def first_error(self, at: Variables) -> arb:
        """e^gamma (1 - f1[v]): what the other positions say, and what the position of the end node leaves to others."""
        (_, more), rests = self._counted(V)[self.end], self.rests(V, at)
        return ((self.end - more) * at.rows[self.end] + _dot(self.scaled(at), rests)) / self.total(at)

    def end_share(self, at: Variables) -> arb:
        """e^gamma f1[end]."""
        (_, more), values = self._counted(END)[self.end], self.values(END, at)
        return (more * at.rows[self.end] + _dot(self.scaled(at), values)) / self.total(at)

    def row(self, at: Variables) -> list[arb]:
        """Row T-1 of the derivative of -log f1[end] with respect to the position weights of layer 2."""
        total, share = self.total(at), self.end_share(at)
        values, p = self.values(END, at), at.rows[T - 1]
        (_, more), found = self._counted(END)[self.end], []
        for j, (weight, value) in enumerate(zip(self.scaled(at), values, strict=True)):
            moved = more * at.rows[j] - share if j == self.end else weight * (value - at.x * share)
            found.append(-p * moved / (total * share))
        return found

    def limit(self) -> int:
        """c = lim e^gamma (1 - f1[v]), from counts alone."""
        counted = self._counted(V)
        return (
            sum(not before for j, (before, _) in enumerate(counted) if j != self.end) + self.end - counted[self.end][1]
        )


def first(order: Order) -> Circuit:
    """The circuit at the first step of an edge order."""
    return Circuit(tokens(order))


def second(order: Order) -> Circuit:
    """The circuit at the second step, after v."""
    return Circuit(second_tokens(order))


#: What may be decoded instead of v; all other labels have f1 = 0.
OTHERS = (STAR, END, OTHER_V, OTHER_END)


def _sum(values: Sequence[arb]) -> arb:
    return sum(values, arb(0))


def _dot(left: Sequence[arb], right: Sequence[arb]) -> arb:
    return _sum([a * b for a, b in zip(left, right, strict=True)])
