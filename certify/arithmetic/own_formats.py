"""Formats of a kernel's own: casts, blocks computed in a format, and registers of a traced graph moved to another.

What it means that an instruction has a format, and the theorems: docs/theory/rounding.md, own formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from certify.arithmetic.naming import format_named
from certify.graph import Graph, Traced, cast_traced, with_format_names
from certify.graph.in_force import asking


def cast(x: Any, format: str) -> Any:
    """`x` rounded to the format of that name, entry by entry, ties to even.

    In a traced kernel this is an operation, like `x.astype` for the formats that NumPy has. On plain arrays and numbers the
    result is a binary64 array of the same shape that holds numbers of the format (what passes its largest as the format says).

    Raises
    ------
    InputRejected : there is no such format.
    """
    named = format_named(format)
    if isinstance(x, Traced):
        return cast_traced(x, named.name)
    return named.round(np.asarray(x, dtype=np.float64))


def precision(format: str) -> AbstractContextManager[None]:
    """`with certify.precision("float16"):` every operation that the kernel carries out inside is computed in that format.

    Operands are taken as the numbers they are, results are rounded to the format, once an operation; sums are added in it (or
    in the accumulator of the order). It counts before NumPy's promotion. Blocks may be nested: the innermost one counts. On
    plain NumPy arrays it does nothing: they are computed in their dtype.

    Raises
    ------
    InputRejected : there is no such format.
    """
    return asking(format_named(format).name)


def with_formats(graph: Graph, formats: Mapping[str, str]) -> Graph:
    """`graph` with the operations of these registers in other formats, whatever they had before.

    Parameters
    ----------
    graph : a traced kernel.
    formats : from `register` or `layer.register` to the name of a format, or "" for the format of the program. A register is
        the variable that a line of the kernel assigns to; with a layer, only its lines in that layer.

    What a line hands on without computing it (x + 0, a copy, a slice, a sum of one term) keeps the format that it was computed
    in; a kernel that converts there says so with `cast`.

    Raises
    ------
    InputRejected : there is no such register, with the names of those there are, or no such format.
    """
    return with_format_names(graph, {key: format_named(name).name if name else "" for key, name in formats.items()})
