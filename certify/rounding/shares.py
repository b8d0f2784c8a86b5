"""Where a bound comes from: the share of each register, layer, operation or source line, and what raising it would save.

The adjoint bound of a result is a sum over the nodes, r_k max |A_k|. So a node's part in it is known, and with it that of a
group of nodes. Of an output with several elements b_i the bound is |b|_2, and the group's share is sum_i b_i c_i / |b|_2**2,
c_i being its part of b_i: the shares add up to 1, and the norm falls by about the share of a group made exact.

A rounding that a selection or a root near 0 hides (docs/theory/adjoint.md#secants) counts where that operation is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from certify.arithmetic import BINARY16, BINARY32, BINARY64, Format, format_named
from certify.errors import InputRejected
from certify.graph import ZERO, Graph, Op
from certify.rounding.region import Floats

if TYPE_CHECKING:
    from certify.rounding.adjoint import Adjoint

GROUPINGS = ("register", "layer", "operation", "line")
_WIDER = (BINARY16, BINARY32, BINARY64)


@dataclass(frozen=True)
class Share:
    """The part of a group of operations in the bound of an output.

    Attributes
    ----------
    name : the register, layer (a line of no layer by its register), operation or source line; of an input's conversion,
        `input NAME`.
    share : its share of the adjoint bound, 0 to 1; those of all groups add up to 1.
    if_exact : about the bound if its operations did not round.
    if_wider : about the bound if they rounded to the next wider format; as it is where there is none.
    """

    name: str
    share: float
    if_exact: float
    if_wider: float


def next_wider(format: Format) -> Format | None:
    """The coarsest of float16, float32 and float64 with more bits than `format` and its range; None if there is none."""
    holding = (w for w in _WIDER if w.precision > format.precision and w.emax >= format.emax and w.emin <= format.emin)
    return next(holding, None)


@np.errstate(all="ignore")
def shares(bounds: Adjoint, by: str = "register", output: str | None = None) -> list[Share]:
    """The groups of a kernel by their shares of the bound of `output` (by default the first), the largest first.

    The first is the one to raise first. Of a region that was split, the shares are those of its part with the largest bound.
    Where binary64 does not hold the adjoints they are NaN.

    Raises
    ------
    InputRejected : there is no such grouping or output, or no bound, an overflow being possible.
    """
    if by not in GROUPINGS:
        raise InputRejected(f"there is no grouping by {by!r}", f"use one of {', '.join(GROUPINGS)}")
    name = next(iter(bounds.graph.outputs)) if output is None else output
    if name not in bounds.graph.outputs:
        raise InputRejected(f"there is no output {name!r}", f"name one of {', '.join(bounds.graph.outputs)}")
    if bounds.sweep is None:
        raise InputRejected("there is no bound to share out: an overflow is not excluded", "use a wider format")
    ids = bounds.graph.outputs[name].ids
    nodes = ids[ids != ZERO].ravel()
    labels = list(groups(bounds.graph, by))
    named = list(dict.fromkeys(label for _, _, label in labels))
    row_of = {label: row for row, label in enumerate(named)}
    parts, gains = np.zeros((2, len(named), len(nodes)))
    local, gain = bounds.sweep.secants.local, _gains(bounds.graph, bounds.format)
    for part, _, sizes in bounds.sweep.blocks(nodes):
        for start, stop, label in labels:
            live = local[start:stop] > 0
            own = local[start:stop][live, None] * sizes[start:stop][live]
            parts[row_of[label], part] += own.sum(axis=0)
            gains[row_of[label], part] += gain[start:stop][live] @ own
    scale = float(parts.max(initial=0.0)) or 1.0  # squares of what is near the largest or least numbers are no numbers
    parts, gains = parts / scale, gains / scale
    total = parts.sum(axis=0)
    whole = float(np.linalg.norm(total))
    found = [
        Share(
            label,
            float(total @ row) / whole**2 if whole else 0.0,
            scale * float(np.linalg.norm(total - row)),
            scale * float(np.linalg.norm(total - better)),
        )
        for label, row, better in zip(named, parts, gains, strict=True)
        if row.any()
    ]
    return sorted(found, key=lambda share: -share.share)  # which is stable: the earlier of equal ones first


def _gains(graph: Graph, format: Format) -> Floats:
    """The share of each node's rounding that its next wider format would save, shape (n_nodes,)."""

    def of(own: Format) -> float:
        wider = next_wider(own)
        return 0.0 if wider is None else 1.0 - wider.u / own.u

    gain = np.full(graph.n_nodes, of(format))
    for i in graph.instructions():
        if i.format:
            gain[i.start : i.stop] = of(format_named(i.format))
    return gain


def groups(graph: Graph, by: str) -> Iterator[tuple[int, int, str]]:
    """Ranges of nodes in execution order, with the name of their group."""
    for block in graph.inputs:
        if block.stop > block.start:
            yield block.start, block.stop, "conversion" if by == "operation" else f"input {block.name}"
    starts = graph.start.tolist()
    for k, (start, stop) in enumerate(pairwise(starts)):
        place = graph.places[int(graph.place[k])]
        line = f"{PurePath(place.filename).name}:{place.line}"
        layer = f"layer {place.layer}" if place.layer else place.register
        named = {"register": place.register, "layer": layer, "line": line}
        label = Op(int(graph.op[k])).name.lower() if by == "operation" else named[by] or line
        if stop > start:
            yield start, stop, label
