"""Sums of many terms in few lanes: the additions of the order's model, as many at a time as it leaves independent.

An order model adds one term after another, which costs a call of the arithmetic a term. Where lanes are few and terms many,
the same additions are grouped instead:

- `pairwise` level by level of its tree, and the blocks of `blocked` side by side: their additions are independent, and an
  arithmetic's lanes do not depend on each other, so these are the same operations on the same numbers;
- `serial` by the arithmetic's own `chain`, if it has one: the sum of a stretch of terms, left to right; and the products of
  `fma` by its `fused_chain`;
- whole matrix products by the arithmetic's `ordered_dot`, if it has one and that returns the product;
- for arithmetics of exact values by halves, since any order encloses the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.graph.orders import ORDERS, Order, serial

Values = npt.NDArray[Any]
#: Gives the terms first, ..., stop - 1 of a sum, shape (..., stop - first, lanes).
Terms = Callable[[int, int], Values]

#: Short vectors cost NumPy's call, long ones the cache: elements that are computed together.
LANES_TOGETHER = 8192
#: Sums of fewer terms go term by term.
FEWEST_TERMS = 16
#: Trees of more terms are not written down as additions on a stack.
_MOST_ON_A_STACK = 4096


def total(order: Order, arithmetic: Any, terms: Terms, n: int, lanes: int) -> Values:
    """The sum of n >= 1 rounded terms, shape (..., lanes), in an order that is a program."""
    if n >= FEWEST_TERMS and lanes * FEWEST_TERMS <= LANES_TOGETHER:
        if getattr(arithmetic, "exact", False):
            return _by_halves(arithmetic, terms, n, lanes)
        if order.kind == "pairwise":
            return _by_levels(arithmetic, terms(0, n), n)
        if order.kind == "blocked" and order.size < n:
            return _by_blocks(arithmetic, terms, n, lanes, order.size)
    if _is_serial(order, n):
        return _serial(arithmetic, terms, n, lanes)
    return np.asarray(order.total(arithmetic, _one_by_one(terms, n, lanes), n))


def matrix_product(order: Order, arithmetic: Any, a: Values, b: Values) -> Values:
    """The matrix product of `a` (..., terms, I) and `b` (..., terms, J), lanes (..., I J), in an order that is a program."""
    if order.kind == "fma":
        return _fused(arithmetic, a, b)
    n, lanes = a.shape[-2], a.shape[-1] * b.shape[-1]
    serially = _is_serial(order, n)
    chained = n >= FEWEST_TERMS and may_chain(arithmetic, lanes)
    # compiled loops chain whole serial sums only, and their stack is for trees that are not too large
    if serially or (n <= _MOST_ON_A_STACK and not (chained and order.kind == "blocked")):
        stretch = LANES_TOGETHER // lanes if chained and serially else 0
        result = _compiled(arithmetic, a, b, order, stretch)
        if result is not None:
            return result

    def terms(first: int, stop: int) -> Values:
        products = arithmetic.mul(a[..., first:stop, :, None], b[..., first:stop, None, :])
        return np.asarray(products.reshape((*products.shape[:-2], -1)))

    return total(order, arithmetic, terms, n, lanes)


def _fused(arithmetic: Any, a: Values, b: Values) -> Values:
    """The same by fused multiply-adds: each lane is fl(... fl(fl(a0 b0) + a1 b1) ... )."""
    n, lanes = a.shape[-2], a.shape[-1] * b.shape[-1]
    chained = n >= FEWEST_TERMS and lanes * FEWEST_TERMS <= LANES_TOGETHER and may_chain(arithmetic, lanes, "fma")
    stretch = LANES_TOGETHER // lanes if chained else 0
    result = _compiled(arithmetic, a, b, ORDERS["fma"], stretch)
    if result is not None:
        return result
    total = arithmetic.mul(a[..., 0, :, None], b[..., 0, None, :])
    flat = (*total.shape[:-2], lanes)
    if not chained:
        for k in range(1, n):
            total = arithmetic.fma(a[..., k, :, None], b[..., k, None, :], total)
        return np.asarray(total.reshape(flat))
    total = total.reshape(flat)
    for first in range(1, n, stretch):
        part = slice(first, first + stretch)
        x, y = np.broadcast_arrays(a[..., part, :, None], b[..., part, None, :])
        long = (*x.shape[:-2], lanes)
        total = arithmetic.fused_chain(total, x.reshape(long), y.reshape(long))
    return np.asarray(total)


def _compiled(arithmetic: Any, a: Values, b: Values, order: Order, stretch: int) -> Values | None:
    """The arithmetic's own matrix product, if it has one, and one for these operands."""
    result = arithmetic.ordered_dot(a, b, order, stretch) if hasattr(arithmetic, "ordered_dot") else None
    return None if result is None else np.asarray(result)


def may_chain(arithmetic: Any, lanes: int, operation: str = "add") -> bool:
    """Whether the arithmetic has a chain that is its own `add`, or `fma`, and is worth it for so many lanes.

    A class that overrides the operation must not inherit the chain of another one.
    """
    chain = {"add": "chain", "fma": "fused_chain"}[operation]
    kind = type(arithmetic)
    own = hasattr(kind, chain) and _definer(kind, chain) is _definer(kind, operation)
    return own and bool(getattr(arithmetic, f"{chain}s")(lanes))


def _definer(kind: type, method: str) -> type:
    return next(c for c in kind.__mro__ if method in vars(c))


def _is_serial(order: Order, n: int) -> bool:
    return order.kind in ("serial", "fma") or (order.kind == "blocked" and order.size >= n)


def _serial(arithmetic: Any, terms: Terms, n: int, lanes: int) -> Values:
    if n < FEWEST_TERMS or not may_chain(arithmetic, lanes):
        return np.asarray(serial(arithmetic, _one_by_one(terms, n, lanes), n))
    together = max(1, LANES_TOGETHER // lanes)
    result = terms(0, 1)[..., 0, :]
    for first in range(1, n, together):
        result = arithmetic.chain(result, terms(first, min(first + together, n)))
    return np.asarray(result)


def _one_by_one(terms: Terms, n: int, lanes: int) -> Callable[[int], Values]:
    """Term by term; computed several at a time where a single one is short."""
    together = max(1, LANES_TOGETHER // max(lanes, 1))
    ready: dict[int, Values] = {}

    def term(k: int) -> Values:
        first = k - k % together
        if first not in ready:
            ready.clear()
            ready[first] = terms(first, min(first + together, n))
        return ready[first][..., k - first, :]

    return term


def _by_blocks(arithmetic: Any, terms: Terms, n: int, lanes: int, size: int) -> Values:
    """Blocks of `size` terms: the full ones side by side as lanes, the rest by itself, then their sums serially."""
    full = n // size
    every = terms(0, full * size)
    # (..., block, place in it, lane) -> (..., place, block and lane)
    shape = every.shape[:-2]
    side_by_side = np.swapaxes(every.reshape((*shape, full, size, lanes)), -3, -2).reshape((*shape, size, full * lanes))
    sums = _serial(arithmetic, lambda first, stop: side_by_side[..., first:stop, :], size, full * lanes)
    sums = sums.reshape((*shape, full, lanes))
    if full * size < n:
        rest = n - full * size
        last = _serial(arithmetic, lambda first, stop: terms(full * size + first, full * size + stop), rest, lanes)
        sums = np.concatenate([sums, last[..., None, :]], axis=-2)
    return _serial(arithmetic, lambda first, stop: sums[..., first:stop, :], sums.shape[-2], lanes)


def _by_levels(arithmetic: Any, every: Values, n: int) -> Values:
    """The pairwise tree from its leaves up. The parts of one level differ in length by at most one."""
    levels = [np.array([n])]
    while levels[-1].max() > 1:
        left = levels[-1] // 2
        # a part of one term is its own sum: it goes down as (nothing, itself)
        levels.append(np.stack([left, levels[-1] - left], axis=1).ravel())
    sums = _leaves(every, levels[-1])
    for sizes in reversed(levels[:-1]):
        left, right = sums[..., 0::2, :], sums[..., 1::2, :]
        both = sizes > 1
        merged = right.copy()
        merged[..., both, :] = _lanewise(arithmetic, left[..., both, :], right[..., both, :])
        sums = merged
    return np.asarray(sums[..., 0, :])


def _leaves(every: Values, sizes: npt.NDArray[np.int64]) -> Values:
    """The terms, in places of their own; an empty place repeats a term and is not used."""
    return every[..., np.maximum(np.cumsum(sizes) - 1, 0), :]


def _by_halves(arithmetic: Any, terms: Terms, n: int, lanes: int) -> Values:
    """For exact values: stretches of terms by halves, the stretches' sums one after the other."""
    together = max(1, LANES_TOGETHER // lanes)
    sums = [_halved(arithmetic, terms(first, min(first + together, n))) for first in range(0, n, together)]
    result = sums[0] if len(sums) == 1 else _halved(arithmetic, np.stack(sums, axis=-2))
    return np.asarray(result)


def _halved(arithmetic: Any, every: Values) -> Values:
    while every.shape[-2] > 1:
        half = every.shape[-2] // 2
        added = _lanewise(arithmetic, every[..., :half, :], every[..., half : 2 * half, :])
        every = np.concatenate([added, every[..., 2 * half :, :]], axis=-2)
    return every[..., 0, :]


def _lanewise(arithmetic: Any, a: Values, b: Values) -> Values:
    """Lanewise a + b of values with a further axis before the lanes, which the arithmetic sees as lanes."""
    flat = (*a.shape[:-2], a.shape[-2] * a.shape[-1])
    return np.asarray(arithmetic.add(a.reshape(flat), b.reshape(flat))).reshape(a.shape)
