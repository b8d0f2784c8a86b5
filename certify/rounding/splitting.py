"""Cutting a wide region in two, again and again, where its bound is largest.

**Theorem.** If the parts of a region cover it, and B bounds an error on each part, then the largest B bounds it on the region;
the computed value lies in the hull of the parts' enclosures. *Proof.* Every input lies in a part. QED

What bounds a part bounds all that is cut from it, so no cut makes a bound larger.

A cut at a number m of the box makes [low, m] and [m, high], so nothing is lost, representable regions included. The part with
the largest bound is cut next, first where (width times influence on a result) is largest, and every other time along the widest
entry of those that the graph reads, as a share of the region's width: so every width tends to 0. Ties go to the first. It may
be stopped after any cut; the same call gives the same bounds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from certify.graph import Graph
from certify.rounding.adjoint import Adjoint
from certify.rounding.region import Floats, Region


def split(root: Adjoint, region: Region, splits: int, analyse: Callable[[Region], Adjoint]) -> Adjoint:
    """Bounds on `region` from at most `splits` cuts of it; `root` are those without any, and never smaller."""
    names = [*root.graph.outputs]
    scale = {name: root.norm_of(name) for name in names}
    parts = [(-_size(root, scale), 0, 0, region, root)]
    made, done = 1, []
    for _ in range(splits):
        if not parts:
            break
        size, number, depth, box, bounds = heapq.heappop(parts)
        halves = _cut(root.graph, region, box, bounds.influence if depth % 2 == 0 else None)
        if halves is None:
            done.append((size, number, depth, box, bounds))
            continue
        for half in halves:
            found = _within(bounds, analyse(half))
            heapq.heappush(parts, (-_size(found, scale), made, depth + 1, half, found))
            made += 1
    return _together(root, [part[-1] for part in sorted([*parts, *done], key=lambda part: part[:2])])


def _size(bounds: Adjoint, scale: Mapping[str, float]) -> float:
    """How much a part needs cutting: its largest norm, relative to that on the whole region."""
    if bounds.first_overflow() is not None:
        return float("inf")
    norms = [(bounds.norm_of(name), whole) for name, whole in scale.items() if whole > 0]
    return max((norm / whole if np.isfinite(whole) else norm for norm, whole in norms), default=0.0)


def _cut(graph: Graph, region: Region, box: Region, influence: Floats | None) -> tuple[Region, Region] | None:
    """The halves of a box; None if no entry that the graph reads is wide enough."""
    best: tuple[float, str, int, float] | None = None
    for block in graph.inputs:
        low, high = (np.asarray(ends[block.name], dtype=np.float64).ravel() for ends in (box.lower, box.upper))
        middle = low / 2 + high / 2
        with np.errstate(over="ignore", invalid="ignore"):  # of a box as wide as binary64 a share is not known
            width = high - low
            whole = np.asarray(region.upper[block.name] - region.lower[block.name], dtype=np.float64).ravel()
            score = np.divide(width, whole, out=np.zeros_like(width), where=whole > 0)
        if influence is not None:
            score = np.zeros_like(width)
            with np.errstate(over="ignore", invalid="ignore"):
                score[block.support.ravel()] = width[block.support.ravel()] * influence[block.start : block.stop]
        score = np.where(block.support.ravel() & (low < middle) & (middle < high), np.nan_to_num(score), 0.0)
        if score.size and score.max() > (best[0] if best else 0.0):
            at = int(score.argmax())
            best = float(score[at]), block.name, at, float(middle[at])
    if best is None:
        return None if influence is None else _cut(graph, region, box, None)
    _, name, at, middle_value = best
    return _half(box, "upper", name, at, middle_value), _half(box, "lower", name, at, middle_value)


def _half(box: Region, side: str, name: str, at: int, value: float) -> Region:
    ends = box.upper if side == "upper" else box.lower
    moved = np.array(ends[name], dtype=np.float64)
    moved.flat[at] = value
    if side == "upper":
        return replace(box, upper={**ends, name: moved})
    return replace(box, lower={**ends, name: moved})


def _within(whole: Adjoint, part: Adjoint) -> Adjoint:
    """The bounds of a part of a region, none of them larger than that of the region."""
    return replace(_together(whole, [part]), influence=part.influence)


def _together(root: Adjoint, parts: list[Adjoint]) -> Adjoint:
    """What holds on every part, the first of which has the largest bound, and no less than what is known of the region."""
    low = np.fmax(root.low, np.minimum.reduce([part.low for part in parts]))
    high = np.fmin(root.high, np.maximum.reduce([part.high for part in parts]))
    error = np.minimum(root.error, np.maximum.reduce([part.error for part in parts]))
    elements, norms = {}, {}
    for name in root.graph.outputs:
        elements[name] = np.minimum(root.error_of(name), np.maximum.reduce([part.error_of(name) for part in parts]))
        norms[name] = min(root.norm_of(name), max(part.norm_of(name) for part in parts))
    peak = float(np.fmin(root.peak, np.max([part.peak for part in parts])))
    return replace(
        root, low=low, high=high, error=error, peak=peak, elements=elements, norms=norms, sweep=parts[0].sweep
    )
