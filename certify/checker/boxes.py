"""Positivity on a box, by cutting it where nothing is proved yet."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from fractions import Fraction

from flint import arb, fmpq

from certify.checker.document import Beyond, Rejected

Axis = tuple[Fraction, Fraction]


def ball_of(axis: Axis) -> arb:
    """A ball that contains all numbers from axis[0] to axis[1]."""
    low, high = (arb(fmpq(x.numerator, x.denominator)) for x in axis)
    return low.union(high)


def positive_on(f: Callable[[list[arb]], arb], box: Sequence[Axis], most: int = 20_000) -> int:
    """Prove f > 0 on the whole box, cutting the box with the worst bound along its longest axis; how many boxes it took.

    f takes a ball for each axis and returns a ball that contains f of every point in them. The box is covered by the boxes
    that are proved, as each cut replaces a box by two that cover it. Relative to the given box the axes are cut by their
    width. Rejected where f <= 0 is proved on a box, Beyond where `most` boxes do not settle it.
    """
    widths = [high - low or Fraction(1) for low, high in box]
    queue: list[tuple[float, int, list[Axis]]] = []
    count = 0

    def take(part: list[Axis]) -> None:
        nonlocal count
        count += 1
        value = f([ball_of(axis) for axis in part])
        if value > 0:
            return
        if value <= 0:
            raise Rejected("on a part of its region the opposite is proved")
        worst = float(value.lower()) if value.is_finite() else float("-inf")
        heapq.heappush(queue, (worst, count, part))

    take(list(box))
    while queue:
        if count >= most:
            raise Beyond(f"{most} boxes do not settle it for this checker")
        _, _, part = heapq.heappop(queue)
        k = max(range(len(part)), key=lambda i: (part[i][1] - part[i][0]) / widths[i])
        low, high = part[k]
        middle = (low + high) / 2
        for half in ((low, middle), (middle, high)):
            take([*part[:k], half, *part[k + 1 :]])
    return count
