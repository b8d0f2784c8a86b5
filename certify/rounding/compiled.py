"""When bounds are computed in compiled loops (`certify.rounding.loops`), which give the numbers that NumPy gives, faster.

The loops need the extra `compiled`. To import numba and load them takes NumPy's time for some millions of products. So
they are loaded once that many have been asked for: nobody waits more than twice as long as with the better choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from certify.graph import Values

#: Products that NumPy does while the loops are loaded (benchmarks/scale.py).
LOADING = 1 << 24
#: So few products of one instruction are left to NumPy.
FEWEST = 1 << 11

_asked_for = 0


def loops_for(arithmetic: object, written_out: type, rules: Iterable[str], a: Values, b: Values) -> Any:
    """The module of the loops for the matrix product of `a` (..., terms, I) and `b` (..., terms, J), or None.

    None if they are not installed or do not pay; if a number is not finite; and if the arithmetic has other `rules` than the
    class whose rules the loops write out.
    """
    global _asked_for
    products = a[0].size * b.shape[-1]
    if products < FEWEST or any(getattr(type(arithmetic), rule) is not getattr(written_out, rule) for rule in rules):
        return None
    _asked_for += products
    loops = _loaded() if _asked_for >= LOADING else None
    return loops if loops is not None and np.isfinite(a).all() and np.isfinite(b).all() else None


def with_states(a: Values) -> Values:
    """Values of shape (rows, ..., terms, lanes) with one axis of states, (rows, states, terms, lanes)."""
    return np.ascontiguousarray(a).reshape(len(a), -1, *a.shape[-2:])


@cache
def _loaded() -> Any:
    if find_spec("numba") is None:
        return None
    try:
        from certify.rounding import loops
    except (
        ImportError,
        RuntimeError,
    ):  # a numba that does not go with this NumPy, or finds no folder for compiled code
        return None
    return loops
