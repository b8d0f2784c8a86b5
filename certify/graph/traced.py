"""The array type of a trace: an ndarray of nodes that records what is done to it.

NumPy hands operations over through `__array_ufunc__` and `__array_function__`; `certify.graph.operations` says what
each one becomes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.lib.mixins
import numpy.typing as npt

from certify.errors import TraceRefused
from certify.graph.assembly import Assembler
from certify.graph.graph import ZERO, Floats, Ids
from certify.graph.places import here

KNOWN = ZERO  # an element that is no node is a known number, nearly always a structural zero

_USE = "use +, -, *, /, @, sums, maximum, sqrt, exp, log, tanh, abs, where and rearrangements"

# What a kernel may use; `certify.graph.operations` fills these tables.
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {}
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


class Traced(numpy.lib.mixins.NDArrayOperatorsMixin):
    """An array of graph nodes: element i is the node `ids[i]`, or the known number `known[i]` where `ids[i] == -1`.

    Known numbers other than structural zeros arise when a kernel mixes constants in; `known` is 0 at nodes.
    """

    def __init__(self, assembler: Assembler, ids: Ids, known: Floats) -> None:
        self.assembler = assembler
        self.ids = ids
        self.known = known

    # shape, without arithmetic

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.ids.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.ids.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.ids.size

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """What the kernel may ask of: a real dtype. The format is chosen when the graph is evaluated."""
        return np.dtype(np.float64)

    @property
    def T(self) -> Traced:
        """Transpose."""
        return self.moved(lambda x: x.T)

    def moved(self, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Traced:
        """The array after `move`, which only selects, repeats or rearranges elements."""
        return Traced(self.assembler, np.asarray(move(self.ids)), np.asarray(move(self.known)))

    def __getitem__(self, key: Any) -> Traced:
        if isinstance(key, Traced) or (isinstance(key, tuple) and any(isinstance(k, Traced) for k in key)):
            raise _refused("an index that depends on data", "index with known integers, slices or masks")
        return self.moved(lambda x: x[key])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def transpose(self, *axes: Any) -> Traced:
        """As `numpy.ndarray.transpose`."""
        return self.moved(lambda x: x.transpose(*axes))

    def reshape(self, *shape: Any) -> Traced:
        """As `numpy.ndarray.reshape`."""
        return self.moved(lambda x: x.reshape(*shape))

    def ravel(self) -> Traced:
        """As `numpy.ndarray.ravel`."""
        return self.moved(np.ravel)

    def diagonal(self, *args: Any) -> Traced:
        """As `numpy.ndarray.diagonal`."""
        return self.moved(lambda x: x.diagonal(*args))

    def trace(self) -> Traced:
        """As `numpy.ndarray.trace`: one SUM node."""
        return self.diagonal().sum()

    def copy(self) -> Traced:
        """The array itself: traced arrays do not change."""
        return self

    def sum(self, axis: Any = None, keepdims: bool = False) -> Traced:
        """As `numpy.sum`: one SUM node per result, of unspecified order."""
        result: Traced = FUNCTIONS[np.sum](self, axis=axis, keepdims=keepdims)
        return result

    def mean(self, axis: Any = None, **options: Any) -> Traced:
        """As `numpy.mean`."""
        return self._reduced(np.mean, axis, options)

    def max(self, axis: Any = None, **options: Any) -> Traced:
        """As `numpy.max`."""
        return self._reduced(np.max, axis, options)

    def min(self, axis: Any = None, **options: Any) -> Traced:
        """As `numpy.min`."""
        return self._reduced(np.min, axis, options)

    def var(self, axis: Any = None, **options: Any) -> Traced:
        """As `numpy.var`."""
        return self._reduced(np.var, axis, options)

    def std(self, axis: Any = None, **options: Any) -> Traced:
        """As `numpy.std`."""
        return self._reduced(np.std, axis, options)

    def _reduced(self, function: Any, axis: Any, options: dict[str, Any]) -> Traced:
        result: Traced = FUNCTIONS[function](self, axis, **options)
        return result

    def dot(self, other: Any) -> Traced:
        """As `numpy.dot`."""
        result: Traced = FUNCTIONS[np.dot](self, other)
        return result

    # what a graph cannot hold

    def __setitem__(self, key: Any, value: Any) -> None:
        raise _refused("an assignment to elements in place", "build the array with numpy.where or numpy.stack")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # NumPy and Python ask for protocols that are not there
            raise AttributeError(name)
        raise _NoAttribute(f"the kernel uses .{name} of an array at {here()}", "use NumPy functions that have a node")

    def __bool__(self) -> bool:
        raise _refused(
            "a branch on a value of the kernel",
            "compare it and select with numpy.where(condition, x, y), or trace each side on its own",
        )

    def __float__(self) -> float:
        raise _refused("a conversion of a traced value to a Python number", "keep it an array")

    __int__ = __index__ = __float__

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce" and ufunc in REDUCTIONS:
            return REDUCTIONS[ufunc](inputs[0], **kwargs)
        if method != "__call__" or ufunc not in UFUNCS or kwargs:
            what = f"numpy.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
            raise _refused(
                what + (" with " + ", ".join(kwargs) if kwargs else ""),
                _USE,
            )
        return UFUNCS[ufunc](*(as_traced(self.assembler, x) for x in inputs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in FUNCTIONS:
            raise _refused(f"numpy.{func.__name__}", _USE)
        return FUNCTIONS[func](*args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise _refused("a conversion of a traced array to a plain one", "keep the kernel in NumPy operations")


class _NoAttribute(TraceRefused, AttributeError):
    """So that hasattr answers, and a kernel that goes on is refused with its line."""


def as_traced(assembler: Assembler, value: Any) -> Traced:
    """`value` as a traced array; numbers become known elements."""
    if isinstance(value, Traced):
        if value.assembler is not assembler:
            raise _refused("a mixture of arrays from two traces", "trace one kernel at a time")
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "buif":
        raise _refused(f"an operand of type {type(value).__name__}", "use real numbers")
    known = array.astype(np.float64)
    if not np.isfinite(known).all():
        raise _refused("a constant that is not finite", "use finite numbers")
    if array.dtype.kind != "f" and (known.astype(array.dtype) != array).any():
        raise _refused("an integer constant that binary64 cannot hold", "use a smaller one")
    return Traced(assembler, np.full(known.shape, KNOWN, dtype=np.int32), known)


def _refused(what: str, remedy: str) -> TraceRefused:
    return TraceRefused(f"the kernel uses {what} at {here()}", remedy)
