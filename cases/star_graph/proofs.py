"""Inequalities for every gamma of a half line: boxes by bisection up to some gamma, one ball beyond it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor

from flint import arb, ctx

from certify.arithmetic.balls import middle, radius
from certify.arithmetic.boxes import positive_on
from certify.errors import Undecided

from .circuit import TAIL, Variables, at, between, beyond

#: Working precision in bits; the thresholds are bracketed to 2**-WIDTH.
PRECISION, WIDTH = 128, 50
MOST_BOXES = 50_000

Function = Callable[[Variables], arb]


def lower(x: arb) -> Fraction:
    """The least number of a ball."""
    return middle(x) - radius(x)


def upper(x: arb) -> Fraction:
    """The largest number of a ball."""
    return middle(x) + radius(x)


def require_positive(f: Function, low: Fraction, high: Fraction | None = None) -> int:
    """Prove f > 0 for every gamma in [low, high], or >= low if there is no high; how many boxes that took.

    **Theorem.** If the enclosure of f on each box of a cover is positive, so is f. The ball of `beyond(TAIL)` contains
    (x, y) for every gamma >= TAIL, so that one enclosure covers them all.

    Raises
    ------
    Undecided : more than MOST_BOXES boxes, or f <= 0 is proved on one.
    """
    end = max(Fraction(TAIL), low) if high is None else high
    with ctx.workprec(PRECISION):
        if high is None and not f(beyond(end)) > 0:
            raise Undecided(f"the sign beyond gamma = {end} is not decided", "take a weaker inequality")
        found = positive_on(lambda ball: f(at(ball[0])), [(low, end)], MOST_BOXES)
    if not found.proved:
        raise Undecided(f"the sign on [{low}, {end}] is not proved by {found.boxes} boxes", "take a smaller region")
    return found.boxes


def bracket(f: Function, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Gammas at most 2**-WIDTH apart, between which f passes from surely negative to surely positive.

    Raises
    ------
    Undecided : the signs at the given ends, or at a midpoint, are not these.
    """
    with ctx.workprec(PRECISION):
        while high - low > Fraction(1, 1 << WIDTH):
            half = (low + high) / 2
            value = f(at(between(half, half)))
            low, high = (half, high) if value < 0 else (low, half)
        if not (f(at(between(low, low))) < 0 < f(at(between(high, high)))):
            raise Undecided("no change of sign is found", "take wider ends")
    return low, high


def sampled(f: Function, low: Fraction, high: Fraction, count: int = 200) -> list[float]:
    """f at evenly spaced gammas, not a bound: where to look for one."""
    with ctx.workprec(PRECISION):
        points = (low + (high - low) * k / count for k in range(count + 1))
        return [float(middle(f(at(between(x, x))))) for x in points]


def rounded_down(x: Fraction) -> Fraction:
    """A number of six decimals at least 10**-6 below x, so that other arithmetic proves the bound again."""
    return Fraction(floor(x * 10**6) - 1, 10**6)


def rounded_up(x: Fraction) -> Fraction:
    """A number of six decimals at least 10**-6 above x."""
    return -rounded_down(-x)
