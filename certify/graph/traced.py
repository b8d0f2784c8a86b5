"""The array type of a trace: an ndarray of nodes that records what is done to it.

NumPy hands operations over through `__array_ufunc__` and `__array_function__`; `certify.graph.operations` says what
each one becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.lib.mixins
import numpy.typing as npt

from certify.errors import TraceRefused
from certify.graph.assembly import Assembler
from certify.graph.graph import ZERO, Floats, Ids
from certify.graph.in_force import promoting, promotion, wider_of
from certify.graph.places import here

KNOWN = ZERO  # an element that is no node is a known number, nearly always a structural zero

_USE = "use +, -, *, /, @, sums, maximum, sqrt, exp, log, tanh, abs, where and rearrangements"

# What a kernel may use; `certify.graph.operations` fills these tables.
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {}
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
CASTS: dict[str, Callable[..., Any]] = {}

MAKING = (
    "write zeros_like(x, shape=(2, 2)), with + 1.0 after it for ones, where(eye(3) > 0, zeros_like(x, shape=(3, 3)) + 1.0, 0) "
    "for the identity, or make other arrays an argument of the kernel"
)
"""Arrays made so have the format of x in the trace, and its dtype in NumPy. A plain array would be computed with in float64."""

_OWN_DTYPES = {"float16": np.float16, "float32": np.float32, "float64": np.float64}


class ProgramDtype:
    """The dtype of an array in the program's format, which is not known while the kernel is traced.

    `astype` takes it. What else a kernel would ask of a known dtype, or have NumPy make of it, is refused (`trace` says where):
    it would be another program in another format.
    """

    kind = "f"

    def _asked(self, *args: Any) -> Any:
        raise _refused(
            "what only a known dtype can tell",
            "the format of the program is chosen later: give the number as an argument of the kernel, or name a dtype",
        )

    __eq__ = __ne__ = __hash__ = _asked

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "dtype":  # numpy asks an object for it that is given as a dtype
            raise _refused("the dtype of an array whose format is chosen later", MAKING)
        return self._asked()


class Traced(numpy.lib.mixins.NDArrayOperatorsMixin):
    """An array of graph nodes: element i is the node `ids[i]`, or the known number `known[i]` where `ids[i] == -1`.

    Known numbers other than structural zeros arise when a kernel mixes constants in; `known` is 0 at nodes. `format` is that of
    the array, as NumPy's dtype is; "" is the program's. Known numbers are numbers of it, once they meet another; those of an
    array without one (None), as Python's numbers are, become numbers of the format that they meet.
    """

    def __init__(self, assembler: Assembler, ids: Ids, known: Floats, format: str | None) -> None:
        self.assembler = assembler
        self.ids = ids
        self.known = known
        self.format = format

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
    def dtype(self) -> Any:
        """The dtype of the array's own format, or a `ProgramDtype`.

        `y.astype(x.dtype)` converts y to the format of x: to its own one, or back to the program's.
        """
        if not self.format:
            return ProgramDtype()
        if self.format not in _OWN_DTYPES:
            raise _refused(f"the dtype of an array in {self.format}", "name the format, as in certify.cast(x, format)")
        return np.dtype(_OWN_DTYPES[self.format])

    def astype(self, dtype: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.astype`, to a floating-point dtype: every entry is rounded to its format."""
        if set(options) - {"copy"}:
            raise _refused(f"astype with {', '.join(options)}", "give the dtype alone")
        result: Traced = CASTS["astype"](self, dtype)
        return result

    @property
    def T(self) -> Traced:
        """Transpose."""
        return self.moved(lambda x: x.T)

    def moved(self, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Traced:
        """The array after `move`, which only selects, repeats or rearranges elements."""
        return Traced(self.assembler, np.asarray(move(self.ids)), np.asarray(move(self.known)), self.format)

    def __getitem__(self, key: Any) -> Traced:
        if isinstance(key, Traced) or (isinstance(key, tuple) and any(isinstance(k, Traced) for k in key)):
            raise _refused("an index that depends on data", "index with known integers, slices or masks")
        return self.moved(lambda x: x[key])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(len(self)))

    def transpose(self, *axes: Any) -> Traced:
        """As `numpy.ndarray.transpose`."""
        return self.moved(lambda x: x.transpose(*axes))

    def reshape(self, *shape: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.reshape`."""
        return self._called(np.reshape, shape[0] if len(shape) == 1 else shape, **options)

    def ravel(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.ravel`."""
        return self._called(np.ravel, *args, **options)

    def diagonal(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.diagonal`."""
        return self._called(np.diagonal, *args, **options)

    def trace(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.trace`: one SUM node per result."""
        return self._called(np.trace, *args, **options)

    def copy(self, order: str = "C") -> Traced:
        """The array itself: traced arrays do not change."""
        return self

    def sum(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.sum`: one SUM node per result, of unspecified order."""
        return self._called(np.sum, *args, **options)

    def mean(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.mean`."""
        return self._called(np.mean, *args, **options)

    def max(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.max`."""
        return self._called(np.max, *args, **options)

    def min(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.min`."""
        return self._called(np.min, *args, **options)

    def var(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.var`."""
        return self._called(np.var, *args, **options)

    def std(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.std`."""
        return self._called(np.std, *args, **options)

    def dot(self, *args: Any, **options: Any) -> Traced:
        """As `numpy.ndarray.dot`."""
        return self._called(np.dot, *args, **options)

    def _called(self, function: Any, *args: Any, **options: Any) -> Traced:
        """A function whose parameters are those of the method, after the array."""
        result: Traced = FUNCTIONS[function](self, *args, **options)
        return result

    # what a graph cannot hold

    def __setitem__(self, key: Any, value: Any) -> None:
        raise _refused("an assignment to elements in place", "build the array with numpy.where or numpy.stack")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # NumPy and Python ask for protocols that are not there
            raise AttributeError(name)
        refused = TraceRefused if hasattr(np.ndarray, name) else _NoAttribute
        raise refused(f"the kernel uses .{name} of an array at {here()}", "use NumPy functions that have a node")

    def __bool__(self) -> bool:
        raise _refused(
            "a branch on a value of the kernel",
            "compare it and select with numpy.where(condition, x, y), or trace each side on its own",
        )

    def __float__(self) -> float:
        raise _refused(
            "a conversion of a traced value to a Python number",
            "keep it an array, and make arrays of such values with numpy.stack",
        )

    __int__ = __index__ = __float__

    def __pow__(self, exponent: Any) -> Any:
        """As of an array. Of a scalar NumPy calls the power function of the library, which is off half an ulp now and then."""
        if (
            self.shape == ()
            and np.shape(exponent) == ()
            and not (isinstance(exponent, int | float) and exponent in (0, 1))
        ):
            raise _refused(
                "** of a scalar, which numpy hands to the power function of the library",
                "write x * x, 1 / x or numpy.sqrt(x); powers of arrays are these",
            )
        return np.power(self, exponent)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce" and ufunc in REDUCTIONS:
            return REDUCTIONS[ufunc](*inputs, **kwargs)
        if method != "__call__" or ufunc not in UFUNCS or kwargs:
            what = f"numpy.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
            raise _refused(
                what + (" with " + ", ".join(kwargs) if kwargs else ""),
                _USE,
            )
        with promoted(inputs):
            return UFUNCS[ufunc](*(as_traced(self.assembler, x) for x in inputs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in FUNCTIONS:
            raise _refused(f"numpy.{func.__name__}", _USE)
        return FUNCTIONS[func](*args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise _refused("a conversion of a traced array to a plain one", "keep the kernel in NumPy operations")


class _NoAttribute(TraceRefused, AttributeError):
    """For what no array has: hasattr answers, and a kernel that goes on is refused with its line."""


def common_format(arrays: Any) -> str | None:
    """The format of the array that NumPy joins these into; None of numbers without one. Where NumPy has none, the program's."""
    formats = set(_formats(arrays))
    return wider_of(formats) or "" if formats else None


def promoted(operands: Any) -> AbstractContextManager[None]:
    """Instructions made inside are in the format that these operands are promoted to.

    Raises
    ------
    TraceRefused : there is no such format.
    """
    formats = set(_formats(operands))
    format = promotion(formats)
    if format is None:
        raise TraceRefused(
            f"the kernel mixes arrays in {' and '.join(sorted(formats))} at {here()}",
            "cast one of them, or say the format of the result with certify.precision",
        )
    return promoting(format)


def _formats(operands: Any) -> Iterator[str]:
    """The formats of what is computed with: of traced arrays their own, of NumPy's arrays and numbers in float64 the program's.

    Python's own numbers have none: they take that of what they meet. NumPy's in float16 or float32 have that. Lists of numbers
    become arrays in float64.
    """
    for x in operands:
        if isinstance(x, Traced):
            if x.format is not None:
                yield x.format
        elif isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f":
            yield x.dtype.name if x.dtype.name in ("float16", "float32") else ""
        elif isinstance(x, list | tuple):
            yield from _formats([np.asarray(x)])


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
    return Traced(assembler, np.full(known.shape, KNOWN, dtype=np.int32), known, None)


def _refused(what: str, remedy: str) -> TraceRefused:
    return TraceRefused(f"the kernel uses {what} at {here()}", remedy)
