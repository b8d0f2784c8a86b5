"""Which NumPy operations a kernel may use, and what each becomes. Importing this fills the tables of `Traced`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

import numpy as np

from certify.errors import TraceRefused
from certify.graph.conditions import comparison, equal, where
from certify.graph.contractions import einsum
from certify.graph.elementwise import (
    absolute,
    add,
    called,
    divide,
    handed_on,
    maximum,
    minimum,
    multiply,
    negative,
    power,
    settled,
    square_root,
    subtract,
)
from certify.graph.graph import Op
from certify.graph.places import here
from certify.graph.reductions import extreme, matmul, mean, norm, total, variance
from certify.graph.signatures import as_array, by_signature, rearranging
from certify.graph.traced import FUNCTIONS, KNOWN, REDUCTIONS, UFUNCS, Traced, as_traced, common_format

_NONE: Any = object()  # for an argument that is not given


def _joined(function: Callable[..., Any], arrays: Any, **axis: Any) -> Traced:
    """A sequence of arrays, joined as by that NumPy function."""
    if not isinstance(arrays, list | tuple | Traced):
        raise TraceRefused(f"the kernel joins what is no list of arrays at {here()}", "give a list of arrays")
    assembler = next(x.assembler for x in arrays if isinstance(x, Traced))
    format = common_format([as_array(x) for x in arrays])
    parts = [settled(as_traced(assembler, x), format) for x in arrays]
    ids, known = (function([getattr(x, name) for x in parts], **axis) for name in ("ids", "known"))
    return Traced(assembler, ids, known, format)


def _concatenate(arrays: Any, axis: Any = 0) -> Traced:
    return _joined(np.concatenate, arrays, axis=axis)


def _stack(arrays: Any, axis: Any = 0) -> Traced:
    return _joined(np.stack, arrays, axis=axis)


def _vstack(tup: Any) -> Traced:
    return _joined(np.vstack, tup)


def _hstack(tup: Any) -> Traced:
    return _joined(np.hstack, tup)


def _trace(a: Traced, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
    return total(a.moved(lambda x: np.diagonal(x, offset, axis1, axis2)), axis=-1)


def _zeros_like(a: Traced, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Traced:
    like = np.zeros(a.shape if shape is None else shape)
    zeros = Traced(a.assembler, np.full(like.shape, KNOWN, dtype=np.int32), like, a.format)
    return zeros if dtype is None else zeros.astype(dtype)


def _std(a: Traced, axis: Any = None, ddof: Any = 0, keepdims: Any = False) -> Traced:
    return square_root(variance(a, axis, keepdims, ddof))


def _norm(x: Traced, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Traced:
    return norm(x, ord, axis, keepdims)


def _clip(a: Any, a_min: Any = _NONE, a_max: Any = _NONE, min: Any = _NONE, max: Any = _NONE) -> Traced:
    """As numpy.clip: both bounds by place, or any by the new names."""
    old, new = ([x for x in pair if x is not _NONE] for pair in ((a_min, a_max), (min, max)))
    if len(old) == 1 or (old and new):
        raise TypeError("numpy.clip takes a_min and a_max, or min and max")
    lower, upper = old or (None if x is _NONE else x for x in (min, max))
    assembler = next(x.assembler for x in (a, lower, upper) if isinstance(x, Traced))
    a = handed_on(as_traced(assembler, a))
    for bound, function in ((lower, maximum), (upper, minimum)):
        if bound is not None:
            a = function(a, as_traced(assembler, bound))
    return cast(Traced, a)


def _where(condition: Any, x: Any = None, y: Any = None) -> Traced:
    if x is None or y is None:
        raise TraceRefused(
            f"the kernel calls numpy.where with a condition alone at {here()}",
            "give both sides, numpy.where(condition, x, y)",
        )
    return where(condition, x, y)


def _dot(a: Any, b: Any) -> Traced:
    """As numpy.dot: sums over the last axis of a and the last but one of b."""
    a, b = _both(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    if b.ndim < 3 and a.ndim < 3:
        return matmul(a, b)
    right = b if b.ndim == 1 else b.moved(lambda x: np.moveaxis(x, -2, 0))
    if a.shape[-1] != right.shape[0]:
        raise TraceRefused(
            f"the kernel multiplies arrays of shapes {a.shape} and {b.shape} at {here()}",
            "multiply arrays with matching inner dimensions",
        )
    n = len(right)
    rows, columns = prod(a.shape[:-1]), prod(right.shape[1:])
    product = matmul(a.reshape(rows, n), right.reshape(n, columns))
    return product.reshape(a.shape[:-1] + right.shape[1:])


def _outer(a: Any, b: Any) -> Traced:
    a, b = _both(a, b)
    return multiply(a.ravel()[:, None], b.ravel()[None, :])


def _both(a: Any, b: Any) -> tuple[Traced, Traced]:
    assembler = next(x.assembler for x in (a, b) if isinstance(x, Traced))
    return as_traced(assembler, a), as_traced(assembler, b)


#: NumPy functions of one array that only select, repeat or move elements, or fill in zeros.
_REARRANGING: tuple[Callable[..., Any], ...] = (
    *(np.transpose, np.reshape, np.ravel, np.diagonal, np.diag, np.tril, np.triu, np.broadcast_to, np.expand_dims),
    *(np.squeeze, np.moveaxis, np.swapaxes, np.repeat, np.tile, np.flip, np.roll),
)
_REDUCED: dict[np.ufunc, Callable[..., Traced]] = {
    np.add: total,
    np.maximum: extreme(maximum),
    np.minimum: extreme(minimum),
}


def _concatenated(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> None:
    """The signature of numpy.concatenate."""


def _reduction(ufunc: np.ufunc, traced: Callable[..., Traced]) -> Callable[..., Traced]:
    """The `reduce` of a ufunc, whose axis is 0 unless another is given."""

    def reduced(array: Traced, axis: Any = 0, keepdims: Any = False) -> Traced:
        return traced(array, axis, keepdims)

    def like(
        array: Any,
        /,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = _NONE,
        where: Any = True,
    ) -> None:
        """The signature of numpy.ufunc.reduce."""

    return by_signature(ufunc, reduced, "array", like=like)


UFUNCS.update(
    {
        np.add: add,
        np.subtract: subtract,
        np.multiply: multiply,
        np.true_divide: divide,
        np.matmul: matmul,
        np.maximum: maximum,
        np.minimum: minimum,
        np.absolute: absolute,
        np.fabs: absolute,
        np.sqrt: square_root,
        np.exp: called(Op.EXP),
        np.log: called(Op.LOG),
        np.tanh: called(Op.TANH),
        np.reciprocal: lambda a: divide(as_traced(a.assembler, np.ones(a.shape)), a),
        np.less: comparison(strict=True, swapped=False),
        np.less_equal: comparison(strict=False, swapped=False),
        np.greater: comparison(strict=True, swapped=True),
        np.greater_equal: comparison(strict=False, swapped=True),
        np.equal: equal,
        np.not_equal: lambda a, b: ~equal(a, b),
        np.negative: negative,
        np.positive: handed_on,
        np.square: lambda a: multiply(a, a),
        np.power: lambda a, b: handed_on(power(a, b)),  # the ones of x**0 are of its format
    }
)
REDUCTIONS.update({ufunc: _reduction(ufunc, traced) for ufunc, traced in _REDUCED.items()})
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: by_signature(np.sum, total, "a"),
    np.mean: by_signature(np.mean, mean, "a"),
    np.var: by_signature(np.var, variance, "a"),
    np.std: by_signature(np.std, _std, "a"),
    np.max: by_signature(np.max, extreme(maximum), "a"),
    np.min: by_signature(np.min, extreme(minimum), "a"),
    np.linalg.norm: by_signature(np.linalg.norm, _norm, "x"),
    np.clip: by_signature(np.clip, _clip, "a", "a_min", "a_max", "min", "max"),
    np.einsum: einsum,
    np.outer: by_signature(np.outer, _outer, "a", "b", asarray=True),
    np.trace: by_signature(np.trace, _trace, "a"),
    np.dot: by_signature(np.dot, _dot, "a", "b", asarray=True, like=lambda a, b, out=None: None),
    np.where: by_signature(np.where, _where, "x", "y", like=lambda condition, x=None, y=None, /: None),
    np.zeros_like: by_signature(np.zeros_like, _zeros_like),
    np.concatenate: by_signature(np.concatenate, _concatenate, like=_concatenated),
    np.stack: by_signature(np.stack, _stack),
    np.vstack: by_signature(np.vstack, _vstack),
    np.hstack: by_signature(np.hstack, _hstack),
    **{function: rearranging(function) for function in _REARRANGING},
}
FUNCTIONS.update(_FUNCTIONS)
