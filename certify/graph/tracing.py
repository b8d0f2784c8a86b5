"""Tracing: run a kernel once on arrays that record every scalar operation.

The kernel is ordinary array code, and the same function runs on NumPy arrays unchanged: one source of truth.

Exact operations make no node ("zero-skipping"). For every finite number x of a binary format `0 * x`, `x + 0`, `1 * x`
and `x - x` are exact, so a dense program that carries them out and the graph that leaves them out compute the same
numbers, up to the sign of zero. (A non-finite x would differ; the range certificate excludes it.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected, TraceRefused
from certify.graph import operations as _operations  # noqa: F401  (fills the tables of Traced)
from certify.graph.assembly import Assembler
from certify.graph.elementwise import settled
from certify.graph.graph import Graph, InputBlock, Output
from certify.graph.orders import with_order
from certify.graph.parameters import require_parameters
from certify.graph.places import place_of_error
from certify.graph.traced import KNOWN, MAKING, ProgramDtype, Traced


@dataclass(frozen=True)
class Variable:
    """An input whose entries outside `support` are structural zeros: known to be 0, whatever the state.

    Parameters
    ----------
    shape : shape of the array.
    support : booleans of that shape (or 0/1); None means every entry may be nonzero.
    """

    shape: tuple[int, ...]
    support: npt.ArrayLike | None = None


def trace(kernel: Callable[..., Any], inputs: Mapping[str, Any], *, order: str | None = None) -> Graph:
    """The graph of `kernel(**inputs)`.

    Parameters
    ----------
    kernel : array code; returns an array, a tuple or a dict of arrays. Outputs of a tuple are named "0", "1", ...
    inputs : by name; a `Variable`, or a float array or scalar (only its shape counts: one node an entry), or a
        bool or integer array or a Python int, which the kernel receives as it is: a known constant.
    order : how sums are evaluated, see `certify.graph.orders`; None leaves them open.

    Raises
    ------
    TraceRefused : an operation that has no node, or a branch that depends on data; names the source line.
    InputRejected : inputs that are not the kernel's parameters, by their names; or one that is not real.
    """
    require_parameters(kernel, inputs)
    blocks: list[InputBlock] = []
    arguments: dict[str, Any] = {}
    start = 0
    for name, value in inputs.items():
        support = _support(name, value)
        if support is None:
            arguments[name] = value
            continue
        blocks.append(InputBlock(name, support, start))
        start = blocks[-1].stop
    assembler = Assembler(tuple(blocks))
    for block in blocks:
        ids = np.full(block.support.shape, KNOWN, dtype=np.int32)
        ids[block.support] = np.arange(block.start, block.stop, dtype=np.int32)
        arguments[block.name] = Traced(assembler, ids, np.zeros(ids.shape), "")
    try:
        results = kernel(**{name: arguments[name] for name in inputs})
    except ValueError as error:
        # NumPy asked a traced element for a float, to put it into an array
        if isinstance(error.__cause__, TraceRefused):
            raise error.__cause__ from None
        raise
    except TypeError as error:
        # NumPy was asked to make something of the dtype of an array in the program's format
        if ProgramDtype.__name__ in str(error):
            raise TraceRefused(
                f"the kernel makes something of the dtype of an array whose format is chosen later, at {place_of_error(error)}",
                MAKING,
            ) from None
        raise
    if not isinstance(results, Mapping):
        results = {str(k): r for k, r in enumerate(results if isinstance(results, tuple) else (results,))}
    graph = assembler.finish({name: _output(name, value) for name, value in results.items()})
    return graph if order is None else with_order(graph, order)


def _support(name: str, value: Any) -> npt.NDArray[np.bool_] | None:
    if isinstance(value, Variable):
        if value.support is None:
            return np.ones(value.shape, dtype=np.bool_)
        support = np.asarray(value.support).astype(np.bool_)
        if support.shape != value.shape:
            raise InputRejected(
                f"the support of input {name} has shape {support.shape}, the input {value.shape}",
                "give both the same shape",
            )
        return support
    array = np.asarray(value)
    if array.dtype.kind in "bui":
        return None
    if array.dtype.kind != "f":
        raise InputRejected(f"input {name} has dtype {array.dtype}", "give real numbers or a certify.Variable")
    return np.ones(array.shape, dtype=np.bool_)


def _output(name: str, value: Any) -> Output:
    if isinstance(value, Traced):
        value = settled(value, "")
        return Output(value.ids, value.known)
    array = np.asarray(value)
    if array.dtype.kind not in "buif":
        raise TraceRefused(f"output {name} of the kernel is a {type(value).__name__}", "return arrays or numbers")
    return Output(np.full(array.shape, KNOWN, dtype=np.int32), array.astype(np.float64))
