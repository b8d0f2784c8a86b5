"""Calls of traced functions by NumPy's own signatures: an argument means what it means to NumPy, by place or by name.

What a traced function has no parameter for is refused by its name, unless NumPy's default is given: a positional dtype is
never read as something else, and no option vanishes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from certify.errors import TraceRefused
from certify.graph.places import here
from certify.graph.traced import Traced, promoted


def by_signature(
    function: Callable[..., Any],
    traced: Callable[..., Any],
    *operands: str,
    like: Callable[..., Any] | None = None,
    asarray: bool = False,
) -> Callable[..., Any]:
    """`traced` with the signature of `function`; both have the same names for the parameters that `traced` takes.

    Parameters
    ----------
    operands : the parameters that NumPy computes with: what is computed is in the format that they are promoted to.
    like : something with the signature of `function`, where older NumPy tells none.
    asarray : whether NumPy makes arrays of Python's numbers, so that they do not take the format of what they meet.

    Raises
    ------
    TraceRefused : (the result) an argument that `traced` has no parameter for.
    """
    signature = inspect.signature(like or function)
    supported = inspect.signature(traced).parameters

    def called(*args: Any, **kwargs: Any) -> Any:
        given = _given(signature, args, kwargs)
        refuse_options(function, [name for name in given if name not in supported])
        if not operands:
            return traced(**given)
        values = [given[name] for name in operands if name in given]
        with promoted([as_array(x) if asarray else x for x in values]):
            return traced(**given)

    return called


def rearranging(function: Callable[..., Any]) -> Callable[..., Traced]:
    """A NumPy function of one array that only selects, repeats or moves elements, or fills in zeros."""
    signature = inspect.signature(function)
    array = next(iter(signature.parameters))

    def called(*args: Any, **kwargs: Any) -> Traced:
        given = _given(signature, args, kwargs)
        a = given.pop(array)
        if not isinstance(a, Traced) or any(isinstance(x, Traced) for x in _flat(given.values())):
            raise TraceRefused(
                f"the kernel gives numpy.{function.__name__} computed values where it needs known ones at {here()}",
                "compute only the array itself, and give known numbers for the rest",
            )
        # other orders, and whether a copy is needed, are questions about memory
        others = {"order": ("C", "F"), "copy": (None, True)}
        refuse_options(function, [name for name, known in others.items() if given.get(name, known[0]) not in known])

        def move(x: Any) -> Any:
            call = inspect.BoundArguments(signature, _in_order(signature, {array: x, **given}))
            return function(*call.args, **call.kwargs)

        # shifted by one, so that a filled-in 0 comes out as KNOWN and not as node 0
        ids = np.asarray(move(a.ids + 1) - 1, dtype=np.int32)
        return Traced(a.assembler, ids, np.asarray(move(a.known)), a.format)

    return called


def as_array(x: Any) -> Any:
    """Python's number as one of NumPy in float64, as functions that call `numpy.asarray` take it; other operands as they are.

    An integer promotes as one of 64 bits, to float64.
    """
    return np.float64(x) if isinstance(x, int | float) and not isinstance(x, bool) else x


def refuse_options(function: Callable[..., Any], names: list[str]) -> None:
    """Raise TraceRefused if there are names of arguments that a graph cannot hold."""
    if names:
        raise TraceRefused(
            f"the kernel calls numpy.{function.__name__} with {', '.join(names)} at {here()}", "leave such options away"
        )


def _given(signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by parameter, without those that have NumPy's default. Raises TypeError if NumPy does."""
    arguments = signature.bind(*args, **kwargs).arguments
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            given.update(value)
        elif not _is_default(name, value, parameter.default):
            given[name] = value
    return given


def _is_default(name: str, value: Any, default: Any) -> bool:
    if value is default or (name == "where" and value is True):
        return True
    return type(value) is type(default) and isinstance(value, int | str) and bool(value == default)


def _in_order(signature: inspect.Signature, arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in signature.parameters if name in arguments}


def _flat(values: Any) -> Iterator[Any]:
    for x in values:
        if isinstance(x, list | tuple):
            yield from _flat(x)
        else:
            yield x
