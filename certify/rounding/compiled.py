"""When bounds are computed in compiled loops (`certify.rounding.loops`), which give the numbers that NumPy gives, faster.

The loops need the extra `compiled`. To import numba and load them takes NumPy's time for some millions of products. So
they are loaded once that time has been spent: nobody waits more than twice as long as with the better choice.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from certify.arithmetic import BINARY16, BINARY64
from certify.graph import ORDERS, Values
from certify.graph.chains import matrix_product

#: Products that NumPy does while the loops are loaded (benchmarks/scale.py).
LOADING = 1 << 24
#: And those in whose time it could begin with another matrix product.
_BEGINNING = 1 << 13
#: Products between two looks for an interruption: about a tenth of a second.
_AT_ONCE = 1 << 25

_asked_for = 0


def loops_for(arithmetic: object, written_out: type, rules: Iterable[str], a: Values, b: Values) -> Any:
    """The module of the loops for the matrix product of `a` (..., terms, I) and `b` (..., terms, J), or None.

    None if they are not installed or do not pay; if there are no numbers, or one is not finite; and if the arithmetic has other
    `rules` than the class whose rules the loops write out.
    """
    global _asked_for
    products = a[0].size * b.shape[-1]
    if not products or any(getattr(type(arithmetic), rule) is not getattr(written_out, rule) for rule in rules):
        return None
    _asked_for += products + _BEGINNING
    loops = _loaded() if _asked_for >= LOADING else None
    return loops if loops is not None and np.isfinite(a).all() and np.isfinite(b).all() else None


def computed(loop: Callable[..., None], results: int, a: Values, b: Values, *numbers: Any) -> Values:
    """What the loop gives of `a` (3, ..., terms, I) and `b` (3, ..., terms, J): shape (results, ..., I, J)."""
    *states, terms, rows = a.shape[1:]
    x, y = (np.ascontiguousarray(v).reshape(3, prod(states), terms, -1) for v in (a, b))
    result = np.empty((results, prod(states), rows, b.shape[-1]))
    together = max(1, _AT_ONCE // (prod(states) * terms * b.shape[-1]))
    for start in range(0, rows, together):
        with _interrupted_later():
            loop(x, y, start, min(start + together, rows), result, *numbers)
    return result.reshape(results, *states, rows, b.shape[-1])


@contextmanager
def always(yes: bool) -> Iterator[None]:
    """Use the loops wherever they can be used, or nowhere: for tests and measurements."""
    global LOADING
    before, LOADING = LOADING, 0 if yes else sys.maxsize
    try:
        yield
    finally:
        LOADING = before


def selftest() -> bool | None:
    """Whether the loops give NumPy's numbers on this machine: of sums and products that tie, cancel and round to powers of two.

    A compiler that contracts a b + c would not. None if they are not installed, or cannot be loaded.
    """
    from certify.rounding.running import Running

    if _loaded() is None:
        return None
    rng, same = np.random.default_rng(0), True
    for format, order in product((BINARY64, BINARY16), (ORDERS["serial"], ORDERS["fma"])):
        x = 2.0 ** rng.integers(-2, 3, (2, 30, 12)) * (1 + format.u * rng.integers(-4, 5, (2, 30, 12)))
        a, b = (np.stack([format.round(-v), format.round(v * (1 + format.u)), 0.1 * v]) for v in x)
        found = []
        for yes in (True, False):
            with always(yes):
                found.append(matrix_product(order, Running(format), a, b))
        same &= np.array_equal(found[0], found[1])
    return same


@cache
def _loaded() -> Any:
    try:
        with _interrupted_later():
            from certify.rounding import loops

            loops.load()
    # Not installed, or of no use: a numba that does not go with this NumPy or lacks a library, that finds no folder for what it
    # compiles or a damaged file there. NumPy computes the same numbers.
    except Exception:
        return None
    return loops


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Let Ctrl-C wait: it would leave numba half imported, and comes out of a loop as another error, or not at all."""
    handler = signal.getsignal(signal.SIGINT)
    if (
        handler is None or threading.current_thread() is not threading.main_thread()
    ):  # no handler of Python's, or not here
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)
