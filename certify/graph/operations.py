"""Which NumPy operations a kernel may use, and what each becomes. Importing this fills the tables of `Traced`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from certify.graph.traced import FUNCTIONS, KNOWN, REDUCTIONS, UFUNCS, Traced, as_traced, common_format


def _rearranged(function: Callable[..., Any]) -> Callable[..., Traced]:
    """A NumPy function of one array that only selects, repeats or moves elements, or fills in zeros."""

    def traced(a: Traced, *args: Any, **kwargs: Any) -> Traced:
        # shifted by one, so that a filled-in 0 comes out as KNOWN and not as node 0
        ids = function(a.ids + 1, *args, **kwargs) - 1
        return Traced(
            a.assembler, np.asarray(ids, dtype=np.int32), np.asarray(function(a.known, *args, **kwargs)), a.format
        )

    return traced


def _joined(function: Callable[..., Any]) -> Callable[..., Traced]:
    """A NumPy function that joins a sequence of arrays."""

    def traced(arrays: Any, axis: int | None = None, **others: Any) -> Traced:
        if others:
            raise _option(function.__name__, others)
        given = {} if axis is None else {"axis": axis}
        assembler = next(x.assembler for x in arrays if isinstance(x, Traced))
        format = common_format(arrays)
        parts = [settled(as_traced(assembler, x), format) for x in arrays]
        return Traced(
            assembler,
            function([x.ids for x in parts], **given),
            function([x.known for x in parts], **given),
            format,
        )

    return traced


def _trace_of_matrix(a: Traced, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
    return total(a.moved(lambda x: np.diagonal(x, offset, axis1, axis2)), axis=-1)


def _zeros_like(a: Traced, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Traced:
    like = np.zeros(a.shape if shape is None else shape)
    zeros = Traced(a.assembler, np.full(like.shape, KNOWN, dtype=np.int32), like, a.format)
    return zeros if dtype is None else zeros.astype(dtype)


def _reducing(name: str, function: Callable[..., Traced], *options: str) -> Callable[..., Traced]:
    """A NumPy reduction with `axis`, `keepdims` and the named options; every other option that is given is refused."""

    def traced(a: Traced, axis: Any = None, keepdims: bool = False, **others: Any) -> Traced:
        known = {key: others.pop(key) for key in options if key in others}
        others = {key: value for key, value in others.items() if value is not None or key not in ("dtype", "out")}
        if others:
            raise _option(name, others)
        return function(a, axis=axis, keepdims=bool(keepdims), **known)

    return traced


_sum = _reducing("sum", total)
_max, _min = _reducing("max", extreme(maximum)), _reducing("min", extreme(minimum))
_var = _reducing("var", variance, "ddof")


def _std(a: Traced, *args: Any, **options: Any) -> Traced:
    return square_root(_var(a, *args, **options))


def _norm(x: Traced, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Traced:
    return norm(x, ord, axis, keepdims)


def _clip(a: Any, lower: Any = None, upper: Any = None, **others: Any) -> Any:
    if others:
        raise _option("clip", others)
    for bound, function in ((lower, maximum), (upper, minimum)):
        if bound is not None:
            a = function(a, as_traced(a.assembler, bound))
    return a


def _option(function: str, others: dict[str, Any]) -> TraceRefused:
    return TraceRefused(
        f"the kernel calls numpy.{function} with {', '.join(others)} at {here()}", "leave such options away"
    )


def _dot(a: Any, b: Any) -> Traced:
    assembler = next(x.assembler for x in (a, b) if isinstance(x, Traced))
    a, b = as_traced(assembler, a), as_traced(assembler, b)
    return multiply(a, b) if a.ndim == 0 or b.ndim == 0 else matmul(a, b)


def _both(a: Any, b: Any, first: Callable[..., Traced], second: Callable[..., Traced]) -> tuple[Traced, Traced]:
    assembler = next(x.assembler for x in (a, b) if isinstance(x, Traced))
    return first(as_traced(assembler, a)), second(as_traced(assembler, b))


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
        np.power: power,
    }
)
REDUCTIONS.update(
    {
        np.add: lambda a, axis=0, **options: _sum(a, axis, **options),
        np.maximum: lambda a, axis=0, **options: _max(a, axis, **options),
        np.minimum: lambda a, axis=0, **options: _min(a, axis, **options),
    }
)
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _sum,
    np.mean: _reducing("mean", mean),
    np.var: _var,
    np.std: _std,
    np.max: _max,
    np.min: _min,
    np.linalg.norm: _norm,
    np.clip: _clip,
    np.einsum: einsum,
    np.outer: lambda a, b: multiply(*_both(a, b, lambda x: x.ravel()[:, None], lambda x: x.ravel()[None, :])),
    np.trace: _trace_of_matrix,
    np.dot: _dot,
    np.where: where,
    np.zeros_like: _zeros_like,
    **{f: _joined(f) for f in (np.concatenate, np.stack, np.vstack, np.hstack)},
    **{
        f: _rearranged(f)
        for f in (
            np.transpose,
            np.reshape,
            np.ravel,
            np.diagonal,
            np.diag,
            np.tril,
            np.triu,
            np.broadcast_to,
            np.expand_dims,
            np.squeeze,
            np.moveaxis,
            np.swapaxes,
            np.repeat,
            np.tile,
            np.flip,
            np.roll,
        )
    },
}
FUNCTIONS.update(_FUNCTIONS)
