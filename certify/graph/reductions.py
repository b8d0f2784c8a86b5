"""Sums and matrix products of traced arrays: instructions whose order of additions is left open."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from certify.errors import TraceRefused
from certify.graph.elementwise import as_nodes, multiply
from certify.graph.graph import ZERO, Op
from certify.graph.places import here
from certify.graph.traced import KNOWN, Traced


def total(a: Traced, axis: Any = None, keepdims: bool = False) -> Traced:
    """The sum over `axis`, one SUM of unspecified order per result; known zeros are no terms."""
    axes = tuple(range(a.ndim)) if axis is None else _axes(axis, a.ndim)
    kept = [k for k in range(a.ndim) if k not in axes]
    shape = tuple(a.shape[k] for k in kept)
    terms = a.moved(lambda x: x.transpose(*axes, *kept).reshape(-1, prod(shape)))
    result = _reduce(Op.SUM, _with_nodes(terms), None).moved(lambda x: x.reshape(shape))
    if keepdims:
        result = result.moved(lambda x: x.reshape(*(1 if k in axes else n for k, n in enumerate(a.shape))))
    return result


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    numbers = [int(k) for k in np.atleast_1d(axis)]
    axes = tuple(k % ndim for k in numbers if -ndim <= k < ndim)
    if len(set(axes)) < len(numbers):
        raise TraceRefused(f"the kernel sums over axis {axis} of {ndim} at {here()}", "name each axis once")
    return axes


def matmul(a: Traced, b: Traced) -> Traced:
    """a @ b for vectors and matrices: one DOT of unspecified order, terms in index order."""
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


def _reduce(op: Op, left: Traced, right: Traced | None) -> Traced:
    """A SUM over axis 0 of `left` (terms, lanes), or the DOT of `left` (terms, I) and `right` (terms, J).

    Lanes whose terms are all structural zeros are structural zeros; a SUM of one live term is that term.
    """
    live = (left.ids != ZERO).astype(np.int64)
    if right is None:
        terms = live.sum(axis=0)
        ids = np.where(terms == 1, np.where(live, left.ids, 0).sum(axis=0), ZERO).astype(np.int32)
        if (terms > 1).any():
            ids[terms > 1] = left.assembler.emit(op, left.ids[:, terms > 1], None, here())
        return Traced(left.assembler, ids, np.zeros(ids.shape))
    terms = live.T @ (right.ids != ZERO)
    if not terms.any():
        return Traced(left.assembler, np.full(terms.shape, ZERO, dtype=np.int32), np.zeros(terms.shape))
    ids = left.assembler.emit(op, left.ids, right.ids, here()).reshape(terms.shape)
    return Traced(left.assembler, np.where(terms == 0, np.int32(ZERO), ids), np.zeros(terms.shape))


def _with_nodes(a: Traced) -> Traced:
    """`a` with known nonzero elements turned into constants."""
    odd = (a.ids == KNOWN) & (a.known != 0)
    if not odd.any():
        return a
    ids = a.ids.copy()
    ids[odd] = as_nodes(a.assembler, a.ids[odd], a.known[odd])
    return Traced(a.assembler, ids, np.where(odd, 0.0, a.known))
