"""Scalar tolerances from bounds of elements: pairs (atol, rtol) with bound <= atol + rtol |e| in every element."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected

Floats = npt.NDArray[np.float64]

#: A test forms a - e, rtol |e| and the sum in binary64, each to within 2**-53 of itself; so does `pair_for`.
_SLACK = 2.0**-48


class Pair(NamedTuple):
    """An absolute and a relative tolerance."""

    atol: float
    rtol: float


def pair_for(bounds: Floats, sizes: Floats, rtol: float) -> Pair:
    """The least atol for this rtol: the largest bound - rtol |e|, where `sizes` are lower bounds of |e|.

    Raises
    ------
    InputRejected : rtol is negative or not finite.
    """
    if not (np.isfinite(rtol) and rtol >= 0):
        raise InputRejected(f"rtol is {rtol!r}, which is no tolerance", "give a finite number that is not negative")
    rest = bounds * (1.0 + _SLACK) - rtol * sizes * (1.0 - _SLACK)
    atol = float(np.max(rest, initial=0.0))
    # what is subtracted may be rounded by a share of the larger of the two, not of the rest
    return Pair(atol + _SLACK * float(np.max(bounds, initial=0.0)) if atol > 0 else 0.0, float(rtol))


def smallest_pair(bounds: Floats, sizes: Floats) -> Pair:
    """The pair whose tolerance atol + rtol |e| is least on average over the elements.

    Every pair is a line above the points (|e|, bound), not falling and not below 0 at 0. The lowest one above the mean |e| is
    a side of their upper hull; rtol is its slope, and atol what `pair_for` then asks for. An rtol above 1, which would accept 0
    for any number, is not considered.
    """
    x, y = np.ravel(sizes), np.ravel(bounds)
    if not x.size:
        return Pair(0.0, 0.0)
    mean = float(x.mean())
    hull: list[tuple[float, float]] = [(0.0, 0.0)]
    for point in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        while len(hull) > 1 and _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    rises = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(hull) if b[0] > a[0] and b[1] > a[1]]
    slopes = {0.0, *(y / x if y < x else 1.0 for x, y in rises)}
    pairs = [pair_for(bounds, sizes, slope) for slope in sorted(slopes)]
    return min(pairs, key=lambda pair: pair.atol + pair.rtol * mean)


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) >= (c[0] - a[0]) * (b[1] - a[1])
