"""Graphs as files: a safetensors file that holds every array of a graph, so that a report on a user's kernel stands alone.

Source lines are left out: a report's bytes must not depend on where the kernel lies. The register and layer of every
instruction are kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected
from certify.graph.graph import ZERO, Graph, Ids, InputBlock, Op, Output
from certify.graph.orders import with_order
from certify.graph.places import Place
from certify.states import Saved, load, parse_json, quoted, save

_ARRAYS = {
    "op": np.uint8,
    "start": np.int64,
    "terms": np.int32,
    "left_at": np.int64,
    "left": np.int32,
    "right_at": np.int64,
    "right": np.int32,
    "exponent": np.int32,
    "constants": np.float64,
    "place": np.int32,
}
_METADATA = {"order", "inputs", "outputs", "places"}
_REMEDY = "write the graph file again"
_LARGEST_NODE = 2**31 - 2
_PAIRS = (Op.ADD, Op.SUB, Op.MUL)
_SINGLES = (Op.NEG, Op.RELU, Op.SCALE)


@dataclass(frozen=True)
class StoredPlace(Place):
    """A place of a graph that was read from a file: its layer and register are known, its source line is not."""

    stored: str = ""

    @property
    def register(self) -> str:
        """The variable that the line assigned to."""
        return self.stored

    def __str__(self) -> str:
        named = [f"register {self.stored}" if self.stored else "", f"layer {self.layer}" if self.layer else ""]
        return ", ".join(part for part in named if part) or "a line of the kernel"


def graph_tensors(graph: Graph) -> Saved:
    """The contents of the file of `graph`: arrays and metadata, which depend on nothing but the graph and its registers.

    Raises
    ------
    InputRejected : the graph leaves the order of its sums open.
    """
    if graph.order is None:
        raise InputRejected("the graph has no order of sums", "trace the kernel with an order such as serial")
    tensors: dict[str, npt.NDArray[Any]] = {
        name: np.asarray(getattr(graph, name), kind) for name, kind in _ARRAYS.items()
    }
    # lines of one layer and register are one place here, numbered by their first use
    numbers: dict[tuple[str, str], int] = {}
    renumbered = [numbers.setdefault((p.layer, p.register), len(numbers)) for p in graph.places]
    tensors["place"] = np.array(renumbered, dtype=np.int32)[graph.place]
    for block in graph.inputs:
        tensors[f"support/{block.name}"] = block.support.astype(np.uint8)
    for name, out in graph.outputs.items():
        tensors[f"ids/{name}"] = np.asarray(out.ids, dtype=np.int32)
        tensors[f"known/{name}"] = np.asarray(out.known, dtype=np.float64)
    metadata = {
        "order": graph.order,
        "inputs": json.dumps([block.name for block in graph.inputs]),
        "outputs": json.dumps(list(graph.outputs)),
        "places": json.dumps([list(place) for place in numbers]),
    }
    return Saved(tensors, metadata)


def save_graph(path: str | os.PathLike[str], graph: Graph) -> None:
    """Write `graph` to a .safetensors file, in one step.

    Raises
    ------
    InputRejected : as for `graph_tensors`, or an output cannot name a tensor, or the file cannot be written.
    """
    save(path, graph_tensors(graph))


def load_graph(path: str | os.PathLike[str]) -> Graph:
    """Read a graph that `save_graph` wrote.

    Raises
    ------
    InputRejected : no such file, an order without a model, or an invariant of `Graph` that it breaks: the message says which.
    """
    name = os.fspath(path)
    saved = load(path)
    inputs, outputs, places = _names(saved.metadata, name)
    expected = {*_ARRAYS, *(f"support/{i}" for i in inputs)}
    expected |= {f"{kind}/{o}" for o in outputs for kind in ("ids", "known")}
    for tensor in sorted(expected ^ set(saved.tensors)):
        _refuse(name, f"tensor {quoted(tensor)} is {'missing' if tensor in expected else 'not part of a graph'}")
    arrays: dict[str, Any] = {key: _typed(saved, key, kind, name) for key, kind in _ARRAYS.items()}
    for key, array in arrays.items():
        if array.ndim != 1:
            _refuse(name, f"{key} has {array.ndim} axes, not 1")
    blocks = _blocks(saved, inputs, name)
    graph = Graph(
        inputs=blocks,
        outputs={
            o: Output(_typed(saved, f"ids/{o}", np.int32, name), _typed(saved, f"known/{o}", np.float64, name))
            for o in outputs
        },
        places=tuple(StoredPlace(layer, "", 0, register) for layer, register in places),
        **arrays,
    )
    _require_layout(graph, name)
    for index in range(len(graph)):
        _require_instruction(graph, index, name)
    for key, out in graph.outputs.items():
        if out.ids.shape != out.known.shape:
            _refuse(name, f"ids and known of output {quoted(key)} differ in shape")
        _require_nodes(out.ids, graph.n_nodes, f"output {quoted(key)}", name, zeros=True)
    return with_order(graph, saved.metadata["order"])


def _names(metadata: Mapping[str, str], name: str) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    if set(metadata) != _METADATA:
        _refuse(name, "its metadata are not those of a graph")
    inputs, outputs, places = (
        parse_json(metadata[key].encode("utf-8"), name, what=f"JSON list of {key}", remedy=_REMEDY)
        for key in ("inputs", "outputs", "places")
    )
    for value in (inputs, outputs):
        if not isinstance(value, list) or not all(isinstance(n, str) for n in value) or len(set(value)) < len(value):
            _refuse(name, "its inputs or outputs are no lists of different names")
    pair = isinstance(places, list) and all(
        isinstance(p, list) and len(p) == 2 and all(isinstance(text, str) for text in p) for p in places
    )
    if not pair:
        _refuse(name, "its places are no pairs of layer and register")
    return inputs, outputs, [(p[0], p[1]) for p in places]


def _typed(saved: Saved, key: str, kind: Any, name: str) -> npt.NDArray[Any]:
    array = saved.tensors[key]
    if array.dtype != np.dtype(kind):
        _refuse(name, f"tensor {quoted(key)} is {array.dtype.name}, not {np.dtype(kind).name}")
    return array


def _blocks(saved: Saved, inputs: list[str], name: str) -> tuple[InputBlock, ...]:
    blocks: list[InputBlock] = []
    start = 0
    for key in inputs:
        support = _typed(saved, f"support/{key}", np.uint8, name)
        if support.size and int(support.max()) > 1:
            _refuse(name, f"the support of input {quoted(key)} has entries other than 0 and 1")
        blocks.append(InputBlock(key, support.astype(np.bool_), start))
        start = blocks[-1].stop
    return tuple(blocks)


def _require_layout(graph: Graph, name: str) -> None:
    """The arrays have one entry an instruction, and their parts tile what they index."""
    n = len(graph.op)
    for key in ("terms", "exponent", "place"):
        if len(getattr(graph, key)) != n:
            _refuse(name, f"{key} has another length than op")
    first = graph.inputs[-1].stop if graph.inputs else 0
    ends = {
        "start": (first, None),
        "left_at": (0, len(graph.left)),
        "right_at": (0, len(graph.right)),
    }
    for key, (begin, end) in ends.items():
        offsets = getattr(graph, key)
        if len(offsets) != n + 1 or offsets[0] != begin or (end is not None and offsets[-1] != end):
            _refuse(name, f"{key} does not begin and end where it must")
        if (offsets[1:] < offsets[:-1]).any():
            _refuse(name, f"{key} decreases")
    if graph.n_nodes > _LARGEST_NODE:
        _refuse(name, f"it has {graph.n_nodes} nodes")
    if (graph.op > max(Op)).any():
        _refuse(name, "it has an operation that is not known")
    if (graph.terms < 0).any() or ((graph.place < 0) | (graph.place >= max(len(graph.places), 1))).any():
        _refuse(name, "terms or place is out of range")


def _require_instruction(graph: Graph, k: int, name: str) -> None:
    op, terms = Op(int(graph.op[k])), int(graph.terms[k])
    left = graph.left[graph.left_at[k] : graph.left_at[k + 1]]
    right = graph.right[graph.right_at[k] : graph.right_at[k + 1]]
    first, lanes = int(graph.start[k]), int(graph.start[k + 1] - graph.start[k])
    what = f"instruction {k} ({op.name})"
    sums = op in (Op.SUM, Op.DOT)
    if (terms > 0) != sums or (sums and (len(left) % terms or len(right) % terms)):
        _refuse(name, f"{what} has a wrong number of terms")
    width = len(left) // max(terms, 1)
    shaped = {
        Op.SUM: width == lanes and not len(right),
        Op.DOT: width * (len(right) // max(terms, 1)) == lanes,
        Op.OVERWRITE: len(left) == lanes and len(right) == 2 * lanes,
        **dict.fromkeys(_PAIRS, len(left) == len(right) == lanes),
        **dict.fromkeys((*_SINGLES, Op.CONST), len(left) == lanes and not len(right)),
    }
    if not shaped[op]:
        _refuse(name, f"{what} has operands of a wrong shape")
    if op is Op.CONST:
        _require_nodes(left, len(graph.constants), what, name, zeros=False)
        return
    _require_nodes(left, first, what, name, zeros=sums)
    _require_nodes(right, first, what, name, zeros=sums)
    if op is Op.OVERWRITE and not _is_difference(graph, right[lanes:], right[:lanes], left):
        _refuse(name, f"{what} adds something else than the difference")


def _is_difference(graph: Graph, nodes: Ids, minuend: Ids, subtrahend: Ids) -> bool:
    """Whether each node is computed as minuend - subtrahend; the error rule of OVERWRITE rests on it."""
    k = np.searchsorted(graph.start, nodes, side="right") - 1
    if not ((k >= 0) & (graph.op[k] == Op.SUB)).all():
        return False
    lane = nodes - graph.start[k]
    of_left, of_right = graph.left[graph.left_at[k] + lane], graph.right[graph.right_at[k] + lane]
    return bool((of_left == minuend).all() and (of_right == subtrahend).all())


def _require_nodes(ids: Ids, end: int, what: str, name: str, *, zeros: bool) -> None:
    if ids.size and (int(ids.min()) < (ZERO if zeros else 0) or int(ids.max()) >= end):
        _refuse(name, f"{what} reads a node that does not come before it")


def _refuse(name: str, why: str) -> NoReturn:
    raise InputRejected(f"{quoted(name)} is no graph file: {why}", _REMEDY)
