"""A graph whose inputs are stored in formats of their own, narrower than the one they arrive in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected
from certify.graph.graph import Graph, Ids, Op, Output
from certify.graph.places import Place


def with_stored_inputs(graph: Graph, formats: Mapping[str, str]) -> Graph:
    """`graph` with some inputs cast to a format of their own before anything reads them.

    Parameters
    ----------
    graph : a traced kernel.
    formats : from the name of an input to the name of a format. The input is converted to the program's format, as every
        input is, and then cast: one CAST for each of its entries, in the layer `input NAME`.

    Raises
    ------
    InputRejected : the graph has no input of that name.
    """
    names = [block.name for block in graph.inputs]
    for name in formats:
        if name not in names:
            raise InputRejected(f"the kernel has no input {name!r}", f"name one of {', '.join(names)}")
    blocks = [block for block in graph.inputs if block.name in formats and block.stop > block.start]
    if not blocks:
        return graph
    first = graph.n_inputs
    sizes = [block.stop - block.start for block in blocks]
    ends = np.cumsum(sizes)
    added = int(ends[-1])
    number = np.arange(graph.n_nodes + 1, dtype=np.int32)  # of every node in the new graph; the last is ZERO
    number[first:] += added
    number[-1] = -1
    for block, size, end in zip(blocks, sizes, ends.tolist(), strict=True):
        number[block.start : block.stop] = first + end - size + np.arange(size)
    constants = np.repeat(graph.op == Op.CONST, np.diff(graph.left_at))  # their operands are no nodes
    known = {name: k for k, name in enumerate(dict.fromkeys([*graph.format_names, *formats.values()]))}
    own = [known[formats[block.name]] for block in blocks]
    places = [Place(f"input {block.name}", "<inputs>", 0) for block in blocks]
    zeros = np.zeros(len(blocks), dtype=np.int32)
    shift = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    return replace(
        graph,
        op=np.concatenate([np.full(len(blocks), Op.CAST, dtype=np.uint8), graph.op]),
        start=np.concatenate([first + shift, graph.start + added]),
        terms=_before(zeros, graph.terms),
        left_at=np.concatenate([shift, graph.left_at + added]),
        left=_before(
            np.concatenate([np.arange(block.start, block.stop) for block in blocks]),
            np.where(constants, graph.left, number[graph.left]),
        ),
        right_at=np.concatenate([zeros.astype(np.int64), graph.right_at]),
        right=number[graph.right],
        exponent=_before(zeros, graph.exponent),
        place=_before(len(graph.places) + np.arange(len(blocks)), graph.place),
        places=(*graph.places, *places),
        outputs={name: Output(number[out.ids], out.known) for name, out in graph.outputs.items()},
        format=_before(own, graph.format),
        format_names=tuple(known),
    )


def _before(new: npt.ArrayLike, old: Ids) -> Ids:
    return np.concatenate([np.asarray(new), old]).astype(np.int32)
