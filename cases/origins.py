"""Where the error comes from, as adjoint claims carry it for `certify show` and the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from certify.arithmetic import Format
from certify.arithmetic.directed import round_down
from certify.arithmetic.libm import Libm
from certify.certificate import decimal_up, to_hex
from certify.errors import Undecided
from certify.graph import Graph, order_named
from certify.rounding import Adjoint, Region
from certify.rounding.attained import attained_in
from certify.rounding.shares import groups

#: How many registers a claim names as those to raise first.
_MOST_NAMED = 10
#: Exact replays of an adversary take about a second up to here.
_MOST_OPERATIONS = 4000
_TRIES = 40


def origins(bounds: Adjoint) -> dict[str, Any]:
    """Where the bound of the first output comes from, for drawing: decimals.

    `shares`: layer by layer in execution order (a line of no layer by its register), the name and its share. `raise_first`: the
    registers with the largest shares: name, share, the bound if it were exact, the bound if it were in the next wider format.
    """
    if bounds.sweep is None:
        return {}
    layers = {share.name: share.share for share in bounds.shares("layer")}
    order = dict.fromkeys(name for _, _, name in groups(bounds.graph, "layer") if name in layers)
    first = bounds.shares("register")[:_MOST_NAMED]
    if not np.isfinite([x for s in first for x in (s.share, s.if_exact, s.if_wider)]).all():
        return {}  # adjoints that binary64 does not hold: the running bound stands
    return {
        "shares": [[name, decimal_up(layers[name], 2)] for name in order],
        "raise_first": [
            [s.name, decimal_up(s.share, 2), decimal_up(s.if_exact, 2), decimal_up(s.if_wider, 2)] for s in first
        ],
    }


def attained(graph: Graph, format: Format, region: Region, libm: Libm) -> dict[str, str]:
    """`attained`: an error in the first output that chosen directions of all roundings reach from inputs of the region.

    It is replayed exactly, and is a lower bound of the worst case in the model of the bounds; nothing for large graphs, and for
    orders that are no sequence of a graph's operations.
    """
    order = None if graph.order is None else order_named(graph.order)
    if order is None or order.is_any or order.kind == "fma" or order.accumulator or format.flush:
        return {}
    if graph.n_operations > _MOST_OPERATIONS:
        return {}
    try:
        found = attained_in(graph, format, region, next(iter(graph.outputs)), libm=libm, tries=_TRIES)
    except Undecided:  # a comparison that hangs on equal numbers: nothing is known to be attained
        return {}
    return {"attained": to_hex(round_down(found.value))}
