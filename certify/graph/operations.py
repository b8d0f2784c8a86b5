"""Which NumPy operations a kernel may use, and what each becomes. Importing this fills the tables of `Traced`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.errors import TraceRefused
from certify.graph.elementwise import add, divide, maximum, multiply, power, subtract
from certify.graph.places import here
from certify.graph.reductions import matmul, total
from certify.graph.traced import FUNCTIONS, REDUCTIONS, UFUNCS, Traced, as_traced


def _rearranged(function: Callable[..., Any]) -> Callable[..., Traced]:
    """A NumPy function of one array that only selects, repeats or moves elements, or fills in zeros."""

    def traced(a: Traced, *args: Any, **kwargs: Any) -> Traced:
        # shifted by one, so that a filled-in 0 comes out as KNOWN and not as node 0
        ids = function(a.ids + 1, *args, **kwargs) - 1
        return Traced(a.assembler, np.asarray(ids, dtype=np.int32), np.asarray(function(a.known, *args, **kwargs)))

    return traced


def _joined(function: Callable[..., Any]) -> Callable[..., Traced]:
    """A NumPy function that joins a sequence of arrays."""

    def traced(arrays: Any, axis: int | None = None, **others: Any) -> Traced:
        if others:
            raise _option(function.__name__, others)
        given = {} if axis is None else {"axis": axis}
        assembler = next(x.assembler for x in arrays if isinstance(x, Traced))
        parts = [as_traced(assembler, x) for x in arrays]
        return Traced(
            assembler,
            function([x.ids for x in parts], **given),
            function([x.known for x in parts], **given),
        )

    return traced


def _where(condition: Any, x: Any, y: Any) -> Traced:
    if isinstance(condition, Traced):
        raise TraceRefused(
            f"the kernel selects by values it computed at {here()}",
            "trace each side on its own, with a known mask",
        )
    assembler = next(v.assembler for v in (x, y) if isinstance(v, Traced))
    x, y = as_traced(assembler, x), as_traced(assembler, y)
    return Traced(assembler, np.where(condition, x.ids, y.ids), np.where(condition, x.known, y.known))


def _trace_of_matrix(a: Traced, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
    return total(a.moved(lambda x: np.diagonal(x, offset, axis1, axis2)), axis=-1)


def _zeros_like(a: Traced, *args: Any, **kwargs: Any) -> npt.NDArray[np.float64]:
    return np.zeros(a.shape)


def _sum(a: Traced, axis: Any = None, *, keepdims: bool = False, **others: Any) -> Traced:
    others = {name: value for name, value in others.items() if value is not None or name not in ("dtype", "out")}
    if others:
        raise _option("sum", others)
    return total(a, axis, keepdims)


def _option(function: str, others: dict[str, Any]) -> TraceRefused:
    return TraceRefused(
        f"the kernel calls numpy.{function} with {', '.join(others)} at {here()}", "leave such options away"
    )


def _dot(a: Any, b: Any) -> Traced:
    assembler = next(x.assembler for x in (a, b) if isinstance(x, Traced))
    a, b = as_traced(assembler, a), as_traced(assembler, b)
    return multiply(a, b) if a.ndim == 0 or b.ndim == 0 else matmul(a, b)


UFUNCS.update(
    {
        np.add: add,
        np.subtract: subtract,
        np.multiply: multiply,
        np.true_divide: divide,
        np.matmul: matmul,
        np.maximum: maximum,
        np.negative: lambda a: subtract(as_traced(a.assembler, np.zeros(a.shape)), a),
        np.positive: lambda a: a,
        np.square: lambda a: multiply(a, a),
        np.power: power,
    }
)
REDUCTIONS.update({np.add: lambda a, axis=0, **options: _sum(a, axis, **options)})
FUNCTIONS.update(
    {
        np.sum: _sum,
        np.trace: _trace_of_matrix,
        np.dot: _dot,
        np.where: _where,
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
)
