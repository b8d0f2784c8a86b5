"""Where the error comes from, as adjoint claims carry it for `certify show` and the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from certify.certificate import decimal_up
from certify.rounding import Adjoint
from certify.rounding.shares import groups

#: How many registers a claim names as those to raise first.
_MOST_NAMED = 10


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
