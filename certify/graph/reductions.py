"""Sums and matrix products of traced arrays, whose order of additions is left open, and what is made of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from certify.errors import TraceRefused
from certify.graph.elementwise import (
    absolute,
    divide,
    handed_on,
    maximum,
    multiply,
    settled,
    square_root,
    subtract,
    with_constants,
)
from certify.graph.graph import ZERO, Op
from certify.graph.in_force import current_format
from certify.graph.places import here
from certify.graph.traced import KNOWN, Traced, as_traced


def total(a: Traced, axis: Any = None, keepdims: bool = False) -> Traced:
    """The sum over `axis`, one SUM of unspecified order per result; known zeros are no terms."""
    terms, shape = _terms(settled(a), axis, keepdims)
    return _reduce(Op.SUM, with_constants(terms, terms.known != 0), None).reshape(shape)


def _terms(a: Traced, axis: Any, keepdims: bool) -> tuple[Traced, tuple[int, ...]]:
    """What is reduced along `axis`, as (terms, lanes), and the shape of the result."""
    if not isinstance(keepdims, bool | int):
        raise TraceRefused(f"the kernel reduces with keepdims={keepdims!r} at {here()}", "give True or False")
    axes = _axes(axis, a.ndim)
    kept = [k for k in range(a.ndim) if k not in axes]
    n, lanes = (prod(a.shape[k] for k in some) for some in (axes, kept))
    shape = [1 if k in axes else size for k, size in enumerate(a.shape) if keepdims or k in kept]
    return a.moved(lambda x: x.transpose(*axes, *kept).reshape(n, lanes)), tuple(shape)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction: all, one, or a tuple of them."""
    if axis is None:
        return tuple(range(ndim))
    numbers = [operator.index(k) for k in (axis if isinstance(axis, tuple) else (axis,))]
    axes = tuple(k % ndim for k in numbers if -ndim <= k < ndim)
    if len(set(axes)) < len(numbers):
        raise TraceRefused(f"the kernel sums over axis {axis} of {ndim} at {here()}", "name each axis once")
    return axes


def extreme(function: Callable[[Traced, Traced], Traced]) -> Callable[..., Traced]:
    """The largest (or smallest) element along axes, by halves: no rounding, so that the order does not matter."""

    def traced(a: Traced, axis: Any = None, keepdims: bool = False) -> Traced:
        left, shape = _terms(settled(a), axis, keepdims)
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
        return left.reshape(shape)

    return traced


def mean(a: Traced, axis: Any = None, keepdims: bool = False) -> Traced:
    """The sum, divided by the number of terms."""
    return _average(a, axis, keepdims, 0)


def variance(a: Traced, axis: Any = None, keepdims: bool = False, ddof: Any = 0) -> Traced:
    """As numpy computes it: the mean of the squares of x - mean(x)."""
    try:
        less = operator.index(ddof)
    except TypeError as odd:
        raise TraceRefused(f"the kernel takes a variance with ddof={ddof!r} at {here()}", "give an integer") from odd
    centered = subtract(a, mean(a, axis, True))
    return _average(multiply(centered, centered), axis, keepdims, less)


def _average(a: Traced, axis: Any, keepdims: bool, less: int) -> Traced:
    count = prod(a.shape[k] for k in _axes(axis, a.ndim))
    if count <= less:
        raise TraceRefused(
            f"the kernel divides a sum of {count} numbers by {count} - {less} at {here()}",
            "average over an axis that is not empty, with a ddof less than the number of elements",
        )
    return divide(total(a, axis, keepdims), as_traced(a.assembler, float(count - less)))


def norm(a: Traced, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Traced:
    """The norm of a vector as numpy computes it; of all elements without an axis, as the Frobenius norm of a matrix."""
    if axis is None and (ord is None or (ord == "fro" and a.ndim == 2) or (ord == 2 and a.ndim == 1)):
        flat = a.ravel()
        root = square_root(matmul(flat, flat))
        return root.reshape((1,) * a.ndim) if keepdims else root
    if len(_axes(axis, a.ndim)) == 1:
        if ord is None or ord == 2:
            return square_root(total(multiply(a, a), axis, keepdims))
        if ord == 1:
            return total(absolute(a), axis, keepdims)
        if ord == np.inf:
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
    left = a.moved(lambda x: np.broadcast_to(x, outer + core_a).reshape(prod(outer), *core_a))
    right = b.moved(lambda x: np.broadcast_to(x, outer + core_b).reshape(prod(outer), *core_b))
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
