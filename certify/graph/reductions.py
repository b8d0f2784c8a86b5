"""Sums and matrix products of traced arrays, whose order of additions is left open, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from certify.errors import TraceRefused
from certify.graph.elementwise import (
    absolute,
    as_nodes,
    divide,
    handed_on,
    maximum,
    multiply,
    settled,
    square_root,
    subtract,
)
from certify.graph.graph import ZERO, Op
from certify.graph.in_force import current_format
from certify.graph.places import here
from certify.graph.traced import KNOWN, Traced, as_traced


def total(a: Traced, axis: Any = None, keepdims: bool = False) -> Traced:
    """The sum over `axis`, one SUM of unspecified order per result; known zeros are no terms."""
    axes = tuple(range(a.ndim)) if axis is None else _axes(axis, a.ndim)
    kept = [k for k in range(a.ndim) if k not in axes]
    terms = a.moved(lambda x: x.transpose(*axes, *kept).reshape(-1, prod(a.shape[k] for k in kept)))
    return _kept(_reduce(Op.SUM, _with_nodes(settled(terms)), None), a, axes, kept, keepdims)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    numbers = [int(k) for k in np.atleast_1d(axis)]
    axes = tuple(k % ndim for k in numbers if -ndim <= k < ndim)
    if len(set(axes)) < len(numbers):
        raise TraceRefused(f"the kernel sums over axis {axis} of {ndim} at {here()}", "name each axis once")
    return axes


def extreme(function: Callable[[Traced, Traced], Traced]) -> Callable[..., Traced]:
    """The largest (or smallest) element along axes, by halves: no rounding, so that the order does not matter."""

    def traced(a: Traced, axis: Any = None, keepdims: bool = False) -> Traced:
        axes = tuple(range(a.ndim)) if axis is None else _axes(axis, a.ndim)
        kept = [k for k in range(a.ndim) if k not in axes]
        left = settled(a).moved(lambda x: x.transpose(*axes, *kept).reshape(-1, prod(a.shape[k] for k in kept)))
        if not len(left):
            raise TraceRefused(
                f"the kernel takes the largest element of none at {here()}", "give an axis that is not empty"
            )
        if len(left) == 1:
            left = handed_on(left)
        while len(left) > 1:
            half = len(left) // 2
            larger = function(left[:half], left[half : 2 * half])
            rest = left[2 * half :]
            ids, known = np.vstack([larger.ids, rest.ids]), np.vstack([larger.known, rest.known])
            left = Traced(a.assembler, ids, known, larger.format)
        return _kept(left, a, axes, kept, keepdims)

    return traced


def _kept(result: Traced, a: Traced, axes: tuple[int, ...], kept: list[int], keepdims: bool) -> Traced:
    shape = [1 if k in axes else n for k, n in enumerate(a.shape)] if keepdims else [a.shape[k] for k in kept]
    return result.moved(lambda x: x.reshape(shape))


def mean(a: Traced, axis: Any = None, keepdims: bool = False) -> Traced:
    """The sum, divided by the number of terms."""
    return _average(a, axis, keepdims, 0)


def variance(a: Traced, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Traced:
    """As numpy computes it: the mean of the squares of x - mean(x)."""
    centered = subtract(a, mean(a, axis, True))
    return _average(multiply(centered, centered), axis, keepdims, ddof)


def _average(a: Traced, axis: Any, keepdims: bool, less: int) -> Traced:
    count = prod(a.shape[k] for k in (range(a.ndim) if axis is None else _axes(axis, a.ndim)))
    return divide(total(a, axis, keepdims), as_traced(a.assembler, float(count - less)))


def norm(a: Traced, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Traced:
    """The norm of a vector as numpy computes it; of all elements without an axis, as the Frobenius norm of a matrix."""
    vectors = isinstance(axis, int) or (axis is None and a.ndim == 1)
    if (ord is None and axis is None) or (ord == 2 and axis is None and a.ndim == 1) or (ord == "fro" and axis is None):
        flat = a.ravel()
        root = square_root(matmul(flat, flat))
        return root.moved(lambda x: x.reshape((1,) * a.ndim)) if keepdims else root
    if vectors and (ord is None or ord == 2):
        return square_root(total(multiply(a, a), axis, keepdims))
    if vectors and ord == 1:
        return total(absolute(a), axis, keepdims)
    if vectors and ord == np.inf:
        return extreme(maximum)(absolute(a), axis, keepdims)
    raise TraceRefused(
        f"the kernel takes a norm with ord={ord!r} and axis={axis!r} at {here()}", "use the norm 1, 2 or inf of vectors"
    )


def matmul(a: Traced, b: Traced) -> Traced:
    """a @ b for vectors and matrices: one DOT of unspecified order, terms in index order; for stacks of them, one each."""
    if a.ndim > 2 or b.ndim > 2:
        return _stacks(a, b)
    if not (0 < a.ndim < 3 and 0 < b.ndim < 3 and a.shape[-1] == b.shape[0]):
        raise TraceRefused(
            f"the kernel multiplies matrices of shapes {a.shape} and {b.shape} at {here()}",
            "multiply vectors and matrices with matching inner dimensions",
        )
    left = a.moved(np.atleast_2d).T  # (terms, I)
    right = b if b.ndim == 2 else b[:, None]  # (terms, J)
    if any(((x.ids == KNOWN) & (x.known != 0)).any() for x in (left, right)):
        # a known factor selects or scales, which is no product
        result = total(multiply(left[:, :, None], right[:, None, :]), axis=0)
    else:
        result = _reduce(Op.DOT, left, right)
    return result.moved(lambda x: x.reshape(a.shape[:-1] + b.shape[1:]))


def _stacks(a: Traced, b: Traced) -> Traced:
    if min(a.ndim, b.ndim) < 1 or a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise TraceRefused(
            f"the kernel multiplies matrices of shapes {a.shape} and {b.shape} at {here()}",
            "multiply vectors and matrices with matching inner dimensions",
        )
    core_a, core_b = a.shape[-min(a.ndim, 2) :], b.shape[-min(b.ndim, 2) :]
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = a.moved(lambda x: np.broadcast_to(x, outer + core_a).reshape(-1, *core_a))
    right = b.moved(lambda x: np.broadcast_to(x, outer + core_b).reshape(-1, *core_b))
    parts = [matmul(left[k], right[k]) for k in range(prod(outer))]
    shape = outer + core_a[:-1] + (core_b[1:] if len(core_b) > 1 else ())
    ids, known = (np.array([getattr(part, name) for part in parts]).reshape(shape) for name in ("ids", "known"))
    return Traced(a.assembler, ids.astype(np.int32), known, current_format())


def _reduce(op: Op, left: Traced, right: Traced | None) -> Traced:
    """A SUM over axis 0 of `left` (terms, lanes), or the DOT of `left` (terms, I) and `right` (terms, J).

    Lanes whose terms are all structural zeros are structural zeros; a SUM of one live term is that term. Where a term is of
    another format than the sum, adding a zero to it rounds: there the zeros stay terms.
    """
    live = (left.ids != ZERO).astype(np.int64)
    if right is None:
        terms = live.sum(axis=0)
        ids = np.where(terms == 1, np.where(live, left.ids, 0).sum(axis=0), ZERO).astype(np.int32)
        ids = left.assembler.converted(ids, here())
        if (terms > 1).any():
            several = left.ids[:, terms > 1]
            rounding = (several == ZERO) & left.assembler.foreign(several).any(axis=0)
            if rounding.any():
                several = np.where(rounding, left.assembler.constants(np.zeros(1), here()), several)
            ids[terms > 1] = left.assembler.emit(op, several, None, here())
        return Traced(left.assembler, ids, np.zeros(ids.shape), current_format())
    terms = live.T @ (right.ids != ZERO)
    if not terms.any():
        return Traced(
            left.assembler, np.full(terms.shape, ZERO, dtype=np.int32), np.zeros(terms.shape), current_format()
        )
    ids = left.assembler.emit(op, left.ids, right.ids, here()).reshape(terms.shape)
    ids = np.where(terms == 0, np.int32(ZERO), ids)
    return Traced(left.assembler, ids, np.zeros(terms.shape), current_format())


def _with_nodes(a: Traced) -> Traced:
    """`a` with known nonzero elements turned into constants."""
    odd = (a.ids == KNOWN) & (a.known != 0)
    if not odd.any():
        return a
    ids = a.ids.copy()
    ids[odd] = as_nodes(a.assembler, a.ids[odd], a.known[odd])
    return Traced(a.assembler, ids, np.where(odd, 0.0, a.known), a.format)
