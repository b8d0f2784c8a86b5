"""Graphs as files: a safetensors file with one entry a scalar operation, so that a report on a user's kernel stands alone.

The format is made for a reader that shares no code with this package (docs/report-format.md). Source lines are left out: a
report's bytes must not depend on where the kernel lies. The register and layer of every operation are kept.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected
from certify.graph.graph import ZERO, Graph, Ids, Instruction, Op
from certify.graph.orders import order_named
from certify.states import Saved, save

#: What an operation of a file does, by its code: ADD and MUL are a sum and a dot of two terms and of one product.
_FURTHER = tuple(op.name.lower() for op in Op if op > Op.OVERWRITE)
CODES = ("const", "sum", "sub", "dot", "neg", "relu", "scale", "overwrite", *_FURTHER)
_NAMES = {Op.ADD: "sum", Op.MUL: "dot"}


def graph_tensors(graph: Graph) -> Saved:
    """The contents of the file of `graph`: arrays and metadata, which depend on nothing but the graph and its registers.

    Raises
    ------
    InputRejected : the graph leaves the order of its sums open.
    """
    if graph.order is None:
        raise InputRejected("the graph has no order of sums", "trace the kernel with an order such as serial")
    # lines of one layer and register are one place here, numbered by their first use
    numbers: dict[tuple[str, str], int] = {}
    place = [numbers.setdefault((p.layer, p.register), len(numbers)) for p in graph.places]
    codes, counts, operands = [], [], [np.zeros(0, dtype=np.int32)]
    order, alone = order_named(graph.order), []
    for i in graph.instructions():
        code = np.full(i.stop - i.start, CODES.index(_NAMES.get(i.op, i.op.name.lower())), dtype=np.uint8)
        table = _operands(i)
        empty = (table == ZERO).all(axis=1)  # a sum of known zeros is the constant 0, put after the others
        code[empty], table[empty, :1] = CODES.index("const"), len(graph.constants)
        codes.append(code)
        # in a tree or in blocks known zeros hold their places
        kept = table != ZERO
        if i.op in (Op.SUM, Op.DOT) and order.kind in ("pairwise", "blocked"):
            kept |= ~empty[:, None]
        counts.append(kept.sum(axis=1))
        operands.append(table[kept])
        # beside an accumulator it matters which sums of two and products of two it is for
        alone.append(int(bool(order.accumulator) and i.op in _NAMES))
    lanes = np.diff(graph.start)
    tensors: dict[str, npt.NDArray[Any]] = {
        "op": np.concatenate([np.zeros(0, dtype=np.uint8), *codes]),
        "at": np.cumsum(np.concatenate([[0], *counts]), dtype=np.int64),
        "operands": np.concatenate(operands),
        "exponent": np.repeat(graph.exponent + np.array(alone, dtype=np.int32), lanes).astype(np.int32),
        "place": np.repeat(np.array(place, dtype=np.int32)[graph.place], lanes),
        "constants": np.append(graph.constants, 0.0),
    }
    for block in graph.inputs:
        tensors[f"support/{block.name}"] = block.support.astype(np.uint8)
    for name, out in graph.outputs.items():
        tensors[f"ids/{name}"] = np.asarray(out.ids, dtype=np.int32)
        tensors[f"known/{name}"] = np.asarray(out.known, dtype=np.float64)
    metadata = {
        "order": graph.order,
        "inputs": json.dumps([block.name for block in graph.inputs]),
        "outputs": json.dumps(list(graph.outputs)),
        "places": json.dumps([list(pair) for pair in numbers]),
    }
    if graph.format_names:
        tensors["format"] = np.repeat(graph.format, lanes).astype(np.int32)
        metadata["formats"] = json.dumps(list(graph.format_names))
    return Saved(tensors, metadata)


def _operands(i: Instruction) -> Ids:
    """The operands of each lane, (lanes, n) in the order of the file; ZERO where there is none."""
    if i.op is Op.SUM:
        return i.left.T.copy()
    if i.op is Op.DOT:
        left, right = np.broadcast_arrays(i.left.T[:, None, :], i.right.T[None, :, :])  # (I, J, terms)
        live = (left != ZERO) & (right != ZERO)
        both = np.stack([np.where(live, left, ZERO), np.where(live, right, ZERO)], axis=2)
        return both.reshape(i.stop - i.start, -1)
    return np.stack([i.left, *i.right.reshape(-1, max(len(i.left), 1))], axis=1)


def save_graph(path: str | os.PathLike[str], graph: Graph) -> None:
    """Write `graph` to a .safetensors file, in one step.

    Raises
    ------
    InputRejected : as for `graph_tensors`, or an output cannot name a tensor, or the file cannot be written.
    """
    save(path, graph_tensors(graph))
