"""A user's kernel, traced: its graph, and the inputs that the graph keeps as variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certify.errors import InputRejected
from certify.graph import Graph, trace
from certify.graph.parameters import require_parameters
from certify.rounding import Region, ball, point
from certify.states import quoted

from .arrays import binary64, plain

Kernel = Callable[..., Any]


@dataclass(frozen=True)
class TracedKernel:
    """A kernel at given inputs.

    Attributes
    ----------
    name : what a report calls it.
    graph : its operations, with an order of sums.
    inputs : the variables of the graph as binary64 arrays, by name.
    """

    name: str
    graph: Graph
    inputs: Mapping[str, NDArray[np.float64]]

    def region(self, center: str | None, radius: float) -> tuple[str | None, Region]:
        """The inputs themselves if the radius is 0, else the ball around the one named `center`; and the center's name.

        Raises
        ------
        InputRejected : no such variable, none named where there are several, one named for no ball, or a radius that is no
            distance.
        """
        if radius == 0 and center is not None:
            raise InputRejected(
                f"the center {center!r} is given, but no radius of the ball around it",
                "give a radius, or leave the center out",
            )
        if radius == 0:
            return None, point(self.inputs)
        if center is None and len(self.inputs) > 1:
            raise InputRejected(
                "a radius is given, but not which input moves", f"give center, one of {', '.join(self.inputs)}"
            )
        name = next(iter(self.inputs)) if center is None else center
        if name not in self.inputs:
            raise InputRejected(f"the center {name!r} is no variable", f"use one of {', '.join(self.inputs)}")
        return name, ball(self.inputs, name, float(radius))


def trace_kernel(
    kernel: Kernel,
    inputs: Mapping[str, Any],
    *,
    order: str = "serial",
    variables: Iterable[str] | None = None,
    name: str | None = None,
) -> TracedKernel:
    """Trace `kernel(**inputs)`.

    Parameters
    ----------
    kernel : array code; returns an array, a tuple or a dict of arrays. Outputs of a tuple are named "0", "1", ...
    inputs : its arguments by name, at which it is certified; real arrays or numbers, finite, of NumPy, torch or JAX.
    order : how sums are evaluated, see `certify.graph.orders`.
    variables : the inputs that are data of the kernel. The others are constants of it: known when it is traced, so that
        it may loop over them or index with them. None: the data are the floating-point inputs.
    name : what a report calls the kernel; its Python name, if None.

    Raises
    ------
    TraceRefused : an operation that has no node; the message names the source line.
    InputRejected : inputs that do not fit the kernel's parameters, one that is not real or not finite, no variable at all, no
        output, or an unknown order.
    """
    require_parameters(kernel, inputs)
    inputs = {key: plain(value) for key, value in inputs.items()}
    if variables is None:
        moving = [key for key, value in inputs.items() if np.asarray(value).dtype.kind == "f"]
    else:
        moving = [variables] if isinstance(variables, str) else list(variables)
        unknown = [key for key in moving if key not in inputs]
        if unknown:
            raise InputRejected(f"the variable {unknown[0]!r} is no input", f"use some of {', '.join(inputs)}")
    if not moving:
        raise InputRejected("the kernel has no variable: no input is a floating-point array", "name its variables")
    arrays = {key: _binary64(key, value) for key, value in inputs.items() if key in moving}
    constants = {key: value for key, value in inputs.items() if key not in moving}
    graph = trace(lambda **given: kernel(**{**constants, **given}), arrays, order=order)
    for output in graph.outputs:
        if not isinstance(output, str) or not output.isprintable() or output in ("", "__metadata__"):
            raise InputRejected(f"the kernel returns an output named {output!r}", "name outputs by printable strings")
    if not graph.outputs:
        raise InputRejected("the kernel returns nothing", "return an array, or a dict of arrays")
    return TracedKernel(_named(kernel, name), graph, arrays)


def _named(kernel: Kernel, name: str | None) -> str:
    found = getattr(kernel, "__name__", type(kernel).__name__) if name is None else name
    if not (isinstance(found, str) and found and found.isprintable()):
        raise InputRejected(f"{quoted(str(found))} cannot name a kernel", "use printable characters")
    return found


def _binary64(name: str, value: Any) -> NDArray[np.float64]:
    array = binary64(value, f"input {name}")
    if not np.isfinite(array).all():
        raise InputRejected(f"input {name} has an entry that is not finite", "give finite numbers")
    return array
