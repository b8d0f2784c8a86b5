"""Positivity of a function on a box, by branch and bound in balls."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

Interval = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Covered:
    """What became of a box.

    Attributes
    ----------
    proved : whether f > 0 was proved on all of it.
    boxes : how many boxes were evaluated.
    worst : if not proved, the box with the smallest lower bound that was left; a counterexample may be in it.
    """

    proved: bool
    boxes: int
    worst: tuple[Interval, ...] | None = None


def enclosing(interval: Interval) -> Any:
    """A ball that contains every number of the interval."""
    low, high = (arb(fmpq(end.numerator, end.denominator)) for end in interval)
    return low.union(high)


def positive_on(f: Callable[[list[Any]], Any], box: Sequence[Interval], most: int = 20_000) -> Covered:
    """Whether f > 0 on the whole box.

    Theorem. If every ball function value f(B) contains f(x) for all x in B, and f(B_k) > 0 for boxes B_k that cover the box,
    then f > 0 on it. The boxes come from bisection, so they cover it: the one with the least lower bound is cut first, along
    the axis that is longest in units of the whole box. `most` boxes are evaluated at most; then nothing is proved. A box on
    which f <= 0 is proved ends the search.

    Parameters
    ----------
    f : from one ball an axis to a ball; at the working precision of the context.
    box : one interval an axis, with exact ends.
    """
    scale = [high - low or Fraction(1) for low, high in box]
    open_boxes: list[tuple[float, int, tuple[Interval, ...]]] = []
    fresh = [tuple(box)]
    evaluated = 0
    while fresh or open_boxes:
        for part in fresh:
            if evaluated >= most:
                return Covered(False, evaluated, open_boxes[0][2] if open_boxes else part)
            evaluated += 1
            value = f([enclosing(interval) for interval in part])
            if value > 0:
                continue
            if value <= 0:
                return Covered(False, evaluated, part)
            bound = float(value.lower()) if value.is_finite() else float("-inf")
            heapq.heappush(open_boxes, (bound, evaluated, part))
        fresh = []
        if open_boxes:
            part = heapq.heappop(open_boxes)[2]
            k = max(range(len(part)), key=lambda i: (part[i][1] - part[i][0]) / scale[i])
            low, high = part[k]
            halves = ((low, (low + high) / 2), ((low + high) / 2, high))
            fresh = [(*part[:k], half, *part[k + 1 :]) for half in halves]
    return Covered(True, evaluated)
