"""The circuit at every gamma, in powers of x = e^-gamma.

Every attention weight is written out from the definition. Row t of S1 has the logits gamma at t-1 and 0 elsewhere, so
its weights are 1 and x over 1 + t x. Row T of S2 has the logits gamma times (the S1[T]-weight of the tokens equal to
token j, less that of T-1 for j = T-1). With q = x / (1 + 9 x) = S1[T, i] and p = 1 - 9 q = S1[T, T-1] such a logit is
n q + n' p, so that gamma times it, less that of the end node (n = n' = 1), is (n - 1) y + (n' - 1)(gamma - 9 y), y =
gamma q. So exp of it is x^(1 - n') exp((n - 1) y + 9 (1 - n') y).

Numbers are kept as coefficients of powers of x, whose lowest are exactly 0 where they vanish: dividing by x loses
nothing. As y is at most gamma e^-gamma, which falls from gamma = 1 on, one ball in (x, y) serves for all large gamma.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from flint import arb, ctx, fmpq

from certify.checker.boxes import positive_on
from certify.checker.document import Beyond, Rejected

from .setting import LABELS, Setting

BITS, TAIL, MOST = 160, 12, 20_000
Series = list[arb]


def exact(value: Fraction | int) -> arb:
    """A rational number as a ball."""
    value = Fraction(value)
    return arb(fmpq(value.numerator, value.denominator))


class Point:
    """x and y on some gammas, and what all circuits share there."""

    def __init__(self, x: arb, y: arb) -> None:
        self.x, self.row = x, [1 / (1 + t * x) for t in range(10)]
        self.power = {(n, m): ((n - 1 + 9 * (1 - m)) * y).exp() for n in range(1, 4) for m in (0, 1)}

    def value(self, series: Series) -> arb:
        """The sum of coefficients times powers of x."""
        total = arb(0)
        for c in reversed(series):
            total = total * self.x + c
        return total


def point(gamma: arb) -> Point:
    """For every gamma of a ball."""
    return Point((-gamma).exp(), gamma / (gamma.exp() + 9))


def box(low: Fraction, high: Fraction) -> Point:
    """For gamma in [low, high]."""
    return point(exact(low).union(exact(high)))


def tail(least: Fraction) -> Point:
    """For every gamma >= least; Rejected below 1."""
    if least < 1:
        raise Rejected("a tail that begins below 1")
    start = exact(least)
    return Point((-start).exp().union(arb(0)), (start * (-start).exp()).union(arb(0)))


class Circuit:
    """One sequence of ten tokens, end second to last."""

    def __init__(self, sequence: Sequence[str]) -> None:
        self.g = list(sequence)
        self.place = self.g.index("end")
        same = [[i for i in range(10) if self.g[i] == g] for g in self.g]
        self.exponents = [(sum(i != 8 for i in s), int(8 in s and j != 8)) for j, s in enumerate(same)]
        # of each label, the coefficients of x^0 and x^1 in (1 + t x) (S1 Z)[t, label]
        self.mass = {
            label: [
                (
                    int(self.g[max(t - 1, 0)] == label),
                    sum(self.g[i] == label for i in range(t + 1) if i != max(t - 1, 0)),
                )
                for t in range(10)
            ]
            for label in LABELS
        }

    def scores(self, at: Point) -> list[Series]:
        """exp of the logits of row T of S2, over that of the end node."""
        return [[at.power[key]] if key[1] else [arb(0), at.power[key]] for key in self.exponents]

    def sums(self, weights: dict[str, int], at: Point) -> Series:
        """The sum over positions of scores times a combination of masses: D times that combination of f1."""
        total = [arb(0), arb(0), arb(0)]
        for t, key in enumerate(self.exponents):
            score, lift = at.power[key] * at.row[t], 1 - key[1]
            for power in (0, 1):
                count = sum(w * self.mass[label][t][power] for label, w in weights.items())
                if count:
                    total[power + lift] += score * count
        return total

    def total(self, at: Point) -> Series:
        """D, the sum of the scores."""
        free = sum((at.power[key] for key in self.exponents if not key[1]), arb(0))
        return [sum((at.power[key] for key in self.exponents if key[1]), arb(0)), free]


def over_x(series: Series) -> Series:
    """A series without constant term, divided by x."""
    if not series[0] == 0:  # a ball around 0 is not enough
        raise Beyond("a number does not vanish with x")
    return series[1:]


def lead(circuit: Circuit, label: str, over: str, at: Point) -> arb:
    """D (f1[label] - f1[over])."""
    return at.value(circuit.sums({label: 1, over: -1}, at))


def first_error(circuit: Circuit, at: Point) -> arb:
    """e^gamma times what labels other than v get."""
    others = {label: 1 for label in LABELS if label != "v"}
    return at.value(over_x(circuit.sums(others, at))) / at.value(circuit.total(at))


def attention_error(circuit: Circuit, at: Point) -> arb:
    """e^gamma times the attention beside the end node among the edges."""
    return circuit.total(at)[1] / at.value(circuit.total(at))


def end_share(circuit: Circuit, at: Point) -> arb:
    """e^gamma f1[end]."""
    return at.value(over_x(circuit.sums({"end": 1}, at))) / at.value(circuit.total(at))


def gradient_row(circuit: Circuit, at: Point) -> list[arb]:
    """Row T-1 of d(-log f1[end])/dW1 of layer 2: logit j moves by p, and f1 by s_j (m_j - f1), m = (S1 Z)[j, end]."""
    D, f = circuit.total(at), circuit.sums({"end": 1}, at)
    found = []
    for j, (score, (a, b)) in enumerate(zip(circuit.scores(at), circuit.mass["end"], strict=True)):
        m = [at.row[j] * a, at.row[j] * b]
        moved = [x - y for x, y in zip(_times(m, D), f, strict=True)]
        found.append(-at.row[9] * at.value(over_x(_times(score, moved))) / (at.value(D) * at.value(over_x(f))))
    return found


def _times(a: Series, b: Series) -> Series:
    found = [arb(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            found[i + j] += x * y
    return found


def require_positive(f: Callable[[Point], arb], low: Fraction, high: Fraction | None, most: int = MOST) -> None:
    """f > 0 on [low, high], or from low on: on boxes, and beyond TAIL on one ball; Rejected, or Beyond if it takes too long."""
    if low < 0:
        raise Rejected("a gamma below 0")
    end = high if high is not None else max(low, Fraction(TAIL))
    with ctx.workprec(BITS):
        if high is None and not (value := f(tail(end))) > 0:
            raise (Rejected if value < 0 else Beyond)("an inequality is not proved for large gamma")
        positive_on(lambda gamma: f(point(gamma[0])), [(low, end)], most)


def firsts(setting: Setting) -> list[Circuit]:
    """The circuits of the first step."""
    return [Circuit(s) for s in setting.sequences]


def seconds(setting: Setting) -> list[Circuit]:
    """Those after v."""
    return [Circuit([*s[:-1], "v"]) for s in setting.sequences]
