"""Linear discriminants: exact weights, the classes of points, Bayes accuracy, and how far every linear rule stays behind.

Proofs: README, sections lda, bayes, rule.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx

from certify.arithmetic.boxes import positive_on
from certify.certificate import Claim, to_text
from certify.errors import InputRejected

from .inputs import Instance, sizes
from .linear import definite, require_symmetric, solve
from .wording import BITS, at_least, at_most, ball, ceil_to, claim, floor_to, high_of, low_of, texts

#: Bits of the balls of branch and bound, and its boxes before it gives up.
COARSE, MOST_BOXES = 64, 60_000


def lda_claims(instance: Instance) -> list[Claim]:
    """Of the system `lda`: the discriminant exactly, the classes of the points, and the Bayes accuracy."""
    Sigma, m0, delta, x = (instance.array(part) for part in ("Sigma", "m0", "delta", "x"))
    require_symmetric(instance, "Sigma", Sigma)
    if not definite(Sigma):
        raise InputRejected(f"tensor {instance.name}_Sigma is not positive definite", "give a covariance")
    w = solve(Sigma, delta)
    b = -sum(((2 * m + s) * a for m, s, a in zip(m0, delta, w, strict=True)), Fraction(0)) / 2
    square = sum((a * s for a, s in zip(w, delta, strict=True)), Fraction(0))
    scores = [sum((a * y for a, y in zip(w, row, strict=True)), b) for row in x]
    with ctx.workprec(BITS):
        accuracy = normal(ball(square).sqrt() / 2)
        return [
            claim(
                "identity",
                "lda",
                instance.name,
                f"The discriminant w . x + b of {instance.name} is exactly that of the witness: Sigma w = delta, b = "
                "-(m0 + m1) . w / 2, and the square of the Mahalanobis distance is `square`.",
                verdict=True,
                bounds={"square": to_text(square)},
                witness={"w": texts(w), "b": texts([b])},
            ),
            claim(
                "margin",
                "lda",
                instance.name,
                f"The discriminant at the points of {instance.name} has the signs of the witness and is at least "
                "`margin` in magnitude.",
                verdict=all(scores),
                reason="a point lies on the boundary",
                bounds={"margin": at_least(min(map(abs, scores)))},
                witness={"positive": [int(s > 0) for s in scores]},
            ),
            claim(
                "enclosure",
                "bayes",
                instance.name,
                f"The Bayes accuracy for the two normal classes of {instance.name}, equally likely, which is Phi of "
                "half their Mahalanobis distance, lies in [low, high].",
                verdict=True,
                bounds={
                    "low": to_text(floor_to(low_of(accuracy), 200)),
                    "high": to_text(ceil_to(high_of(accuracy), 200)),
                },
            ),
        ]


def normal(x: Any) -> Any:
    """Phi(x) = erfc(-x / sqrt 2) / 2 of a ball."""
    return (-x / arb(2).sqrt()).erfc() / 2


def rule_claims(instance: Instance) -> list[Claim]:
    """Of the system `rule`: the quadratic rule (x_1 - a)(b - x_2) > 0 beats every linear rule."""
    lengths = sizes(instance)
    m0, m1 = (instance.array(part).tolist() for part in ("m0", "m1"))
    a, b, slack = (instance.number(part) for part in ("a", "b", "slack"))
    if slack <= 0 or lengths["M"] > 16:
        raise InputRejected(
            f"{instance.name}: slack is not positive, or there are more than 16 pairs", "give slack > 0"
        )
    best, _ = best_linear(m0, m1)
    level = Fraction(round((best + float(slack)) * 2**20), 2**20)
    with ctx.workprec(BITS):
        quadratic = rule_accuracy(m0, m1, a, b)
    proved, boxes = _all_below(m0, m1, level)
    margin = low_of(quadratic) - level
    return [
        claim(
            "margin",
            "rule",
            instance.name,
            f"For the equal mixture of {lengths['M']} pairs of unit normal classes of {instance.name}, every linear "
            "rule sign(w . x + t) is right with probability at most `linear`, and the meta-linear rule sign((x_1 - "
            "a)(b - x_2)) with probability at least `quadratic`, which is more by at least `margin`.",
            verdict=proved and margin > 0,
            reason="branch and bound did not end, or the rule is no better",
            bounds={
                "linear": at_most(level),
                "quadratic": at_least(quadratic),
                "margin": at_least(floor_to(margin, 40)),
            },
            observed={"boxes": boxes},
        )
    ]


def rule_accuracy(m0: Any, m1: Any, a: Fraction, b: Fraction) -> Any:
    """The probability that the product rule is right: its factors are independent. A ball."""
    total = arb(0)
    for means, positive in ((m1, True), (m0, False)):
        for x, y in means:
            right, below = normal(ball(x - a)), normal(ball(b - y))
            both = right * below + (1 - right) * (1 - below)
            total += both if positive else 1 - both
    return total / (2 * len(m0))


def linear_accuracy(m0: Any, m1: Any, angle: Any, t: Any) -> Any:
    """The probability that sign(u . x + t) is right, u = (cos, sin)(pi angle). A ball; the means are balls."""
    c, s = angle.cos_pi(), angle.sin_pi()
    total = arb(0)
    for (x0, y0), (x1, y1) in zip(m0, m1, strict=True):
        total += normal(c * x1 + s * y1 + t) + normal(-(c * x0 + s * y0) - t)
    return total / (2 * len(m0))


def best_linear(m0: Any, m1: Any) -> tuple[float, tuple[float, float]]:
    """The best accuracy of a linear rule that a search finds: a guess, which nothing rests on."""
    from scipy.optimize import minimize
    from scipy.special import ndtr

    first, second = np.array(m0, dtype=float), np.array(m1, dtype=float)

    def loss(p: Any) -> float:
        u = np.array([np.cos(np.pi * p[0]), np.sin(np.pi * p[0])])
        return float(-(ndtr(second @ u + p[1]) + ndtr(-(first @ u) - p[1])).sum() / (2 * len(first)))

    reach = float(np.abs([first, second]).max()) * 1.5 + 4
    grid = [(loss((s, t)), s, t) for s in np.linspace(-1, 1, 65) for t in np.linspace(-reach, reach, 65)]
    starts = sorted(grid)[:5]
    found = min((minimize(loss, x[1:], method="Nelder-Mead") for x in starts), key=lambda r: float(r.fun))
    return -float(found.fun), (float(found.x[0]), float(found.x[1]))


def _all_below(m0: Any, m1: Any, level: Fraction) -> tuple[bool, int]:
    """Whether every linear rule has an accuracy below `level`, and how many boxes that took.

    Beyond |t| = T, T = the longest mean + 10, one class is nearly always missed: the accuracy is at most (1 + Phi(-10)) / 2.
    A rule with w = 0 is right half of the time.
    """
    with ctx.workprec(COARSE):
        reach = max(high_of((ball(x) ** 2 + ball(y) ** 2).sqrt()) for x, y in [*m0, *m1])
        T = Fraction(int(reach) + 11)
        if high_of((1 + normal(arb(-10))) / 2) >= level:
            return False, 0
        first, second = ([(ball(x), ball(y)) for x, y in means] for means in (m0, m1))
        top = ball(level)

        def slack(box: list[Any]) -> Any:
            return top - linear_accuracy(first, second, *box)

        covered = positive_on(slack, [(Fraction(-1), Fraction(1)), (-T, T)], MOST_BOXES)
        return covered.proved, covered.boxes
