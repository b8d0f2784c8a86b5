"""Casts of traced arrays, and graphs with other formats for some of their registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from certify.errors import InputRejected, TraceRefused
from certify.graph.elementwise import as_nodes, settled
from certify.graph.graph import Graph, Op
from certify.graph.in_force import asking
from certify.graph.places import here
from certify.graph.traced import CASTS, KNOWN, ProgramDtype, Traced

#: Formats by the name that NumPy or ml-dtypes gives their dtype.
_DTYPES = {name: name for name in ("float16", "float32", "float64", "bfloat16")} | {
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}
_REMEDY = f"convert to one of {', '.join(_DTYPES)}, or write certify.cast(x, format)"


def cast(x: Traced, format: str) -> Traced:
    """`x` rounded to the format of that name, "" being the program's: a CAST, and known numbers are converted."""
    with asking(format):
        x = settled(x)
        ids, known = x.ids.ravel(), x.known.ravel()
        numbers = (ids == KNOWN) & (known != 0)
        nodes = ids != KNOWN
        if not format:  # what is in the program's format already stays as it is
            result = x.assembler.converted(ids, here())
        else:
            result = ids.copy()
            if nodes.any():
                result[nodes] = x.assembler.emit(Op.CAST, ids[nodes], None, here())
            if numbers.any():
                result[numbers] = as_nodes(x.assembler, ids[numbers], known[numbers])
    values = np.where(result == KNOWN, known, 0.0).reshape(x.shape)
    return Traced(x.assembler, result.reshape(x.shape), values, format)


def astype(x: Traced, dtype: Any) -> Traced:
    """As `numpy.ndarray.astype`: to the format of that dtype, or to the program's for the dtype of an array that is in it.

    Raises
    ------
    TraceRefused : a dtype that is no floating-point format of this package.
    """
    if isinstance(dtype, ProgramDtype):
        return cast(x, "")
    try:
        described = np.dtype(dtype)
    except TypeError as unknown:
        raise TraceRefused(f"the kernel converts an array to {dtype!r} at {here()}", _REMEDY) from unknown
    if described.name not in _DTYPES:
        raise TraceRefused(f"the kernel converts an array to {described} at {here()}", _REMEDY)
    return cast(x, _DTYPES[described.name])


def with_format_names(graph: Graph, formats: Mapping[str, str]) -> Graph:
    """`graph` with the instructions of some registers in other formats, by `register` or `layer.register`; "" the program's.

    The more special name counts: that of a layer and a register before that of a register in all layers.

    Raises
    ------
    InputRejected : the graph computes no register of that name.
    """
    full = [f"{p.layer}.{p.register}" if p.layer else p.register for p in graph.places]
    short = [p.register for p in graph.places]
    known = {name for name in (*full, *short) if name and not name.endswith(".")}
    for name in formats:
        if name not in known:
            raise InputRejected(
                f"the kernel computes no register {name!r}",
                f"name one of {', '.join(sorted(known)) or 'none: it has none'}",
            )
    names = {name: k for k, name in enumerate(graph.format_names)}
    changed = np.full(len(graph.places), -2, dtype=np.int32)  # -2: stays
    for k, (layered, register) in enumerate(zip(full, short, strict=True)):
        wanted = formats.get(layered, formats.get(register))
        if wanted is not None:
            changed[k] = names.setdefault(wanted, len(names)) if wanted else -1
    by_instruction = changed[graph.place]
    format = np.where(by_instruction == -2, graph.format, by_instruction).astype(np.int32)
    return _in_use(replace(graph, format=format, format_names=tuple(names)))


def _in_use(graph: Graph) -> Graph:
    """The same graph without names of formats that no instruction has."""
    used = np.unique(graph.format[graph.format >= 0])
    number = np.full(len(graph.format_names) + 1, -1, dtype=np.int32)
    number[used] = np.arange(len(used))
    return replace(graph, format=number[graph.format], format_names=tuple(graph.format_names[k] for k in used.tolist()))


CASTS["astype"] = astype
