"""Graph files: the same graph comes back, the same bytes come out, and what is no graph is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import certify
from certify import BINARY16, Graph, InputRejected, Saved, Variable, running
from certify.graph import Op
from certify.graph.graph_file import graph_tensors, load_graph, save_graph
from certify.rounding import point
from certify.states.safetensors_file import encode_safetensors

X = np.linspace(-1.0, 2.0, 9).reshape(3, 3)


def kernel(x: Any, m: Any) -> Any:
    """Every operation that a graph has, two layers, and a line that two loops share."""
    with certify.layer("1"):
        y = np.maximum(x @ x - 0.1 * m, 0)
        d = np.sum(np.diagonal(x)) + 0 * y[0, 0]
    with certify.layer("2"):
        for _ in range(2):
            m = m + (y - m)
        z = -(m * y) / 4.0
    return {"z": z, "d": d, "one": np.stack([d, 1.0])}


def graph() -> Graph:
    """The kernel's graph, with structural zeros in one input."""
    return certify.trace(kernel, {"x": X, "m": Variable((3, 3), np.tri(3))}, order="serial")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of the graph."""
    save_graph(tmp_path / "graph.safetensors", graph())
    return tmp_path / "graph.safetensors"


def test_the_graph_comes_back(path: Path) -> None:
    """Arrays, names, layers and registers."""
    before, after = graph(), load_graph(path)
    for name in ("op", "start", "terms", "left_at", "left", "right_at", "right", "exponent", "constants"):
        array = getattr(after, name)
        np.testing.assert_array_equal(array, getattr(before, name))
        assert array.dtype == getattr(before, name).dtype
    assert [b.name for b in after.inputs] == ["x", "m"]
    assert all(np.array_equal(a.support, b.support) for a, b in zip(after.inputs, before.inputs, strict=True))
    assert list(after.outputs) == ["z", "d", "one"]
    for name, out in before.outputs.items():
        np.testing.assert_array_equal(after.outputs[name].ids, out.ids)
        np.testing.assert_array_equal(after.outputs[name].known, out.known)
    for node in range(before.n_inputs, before.n_nodes):
        old, new = before.place_of(node), after.place_of(node)
        assert (old.layer, old.register) == (new.layer, new.register)
    assert after.order == "serial"


def test_it_has_the_bounds_of_the_graph(path: Path) -> None:
    """An analysis does not see the difference."""
    region = point({"x": X, "m": np.tri(3) / 3})
    before, after = (running(g, BINARY16, region) for g in (graph(), load_graph(path)))
    np.testing.assert_array_equal(before.error, after.error)


def test_places_of_a_read_graph_have_names(path: Path) -> None:
    """Register and layer; the source line is not in the file."""
    read = load_graph(path)
    assert read.describe(read.n_nodes - 1) == "register z, layer 2"
    assert b"test_graph_file" not in path.read_bytes()


def test_bytes_depend_on_the_graph_alone(path: Path, tmp_path: Path) -> None:
    """Written again, from a second trace or from the file itself, they are the same."""
    save_graph(tmp_path / "again.safetensors", graph())
    save_graph(tmp_path / "copy.safetensors", load_graph(path))
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    assert (tmp_path / "copy.safetensors").read_bytes() == path.read_bytes()


def test_open_sums_have_no_file(tmp_path: Path) -> None:
    """A graph without an order is no program."""
    with pytest.raises(InputRejected, match="the graph has no order of sums"):
        save_graph(tmp_path / "graph.safetensors", certify.trace(kernel, {"x": X, "m": X}))


def test_a_kernel_that_does_nothing(tmp_path: Path) -> None:
    """No instruction, and arrays of no length."""
    save_graph(tmp_path / "g.safetensors", certify.trace(lambda x: x.T, {"x": X}, order="serial"))
    assert len(load_graph(tmp_path / "g.safetensors")) == 0


Change = Callable[[dict[str, np.ndarray], dict[str, str]], None]


def change(name: str, index: int, value: int) -> Change:
    """Put a value into an array."""

    def apply(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
        tensors[name].flat[index] = value

    return apply


def put(name: str, value: np.ndarray) -> Change:
    """Replace a tensor, or add one."""
    return lambda tensors, metadata: tensors.update({name: value})


def say(name: str, text: str) -> Change:
    """Replace a line of the metadata."""
    return lambda tensors, metadata: metadata.update({name: text})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda tensors, metadata: tensors.pop("left"), "tensor 'left' is missing"),
        (put("more", np.zeros(1)), "tensor 'more' is not part of a graph"),
        (put("terms", np.zeros(3, dtype=np.int64)), "tensor 'terms' is int64, not int32"),
        (put("terms", np.zeros((3, 1), dtype=np.int32)), "terms has 2 axes"),
        (put("terms", np.zeros(3, dtype=np.int32)), "terms has another length than op"),
        (change("op", 0, 77), "an operation that is not known"),
        (change("terms", 0, 2), "instruction 0"),
        (change("terms", 0, -1), "terms or place is out of range"),
        (change("place", 0, 99), "terms or place is out of range"),
        (change("start", 0, 0), "start does not begin"),
        (change("start", -1, 10**12), "it has 1000000000000 nodes"),
        (change("start", 2, 1), "start decreases"),
        (change("left_at", -1, 10**9), "left_at does not begin and end"),
        (change("right_at", 1, 10**9), "right_at decreases"),
        (change("left", 0, 10**6), "reads a node that does not come before it"),
        (change("left", 0, -2), "reads a node that does not come before it"),
        (change("left", -1, -1), "reads a node that does not come before it"),
        (change("ids/z", 0, 10**6), "output 'z' reads a node"),
        (change("support/x", 0, 2), "the support of input 'x' has entries other than 0 and 1"),
        (change("support/x", 0, 0), "start does not begin"),
        (put("known/z", np.zeros(2)), "ids and known of output 'z' differ in shape"),
        (say("order", "sideways"), "no order model 'sideways'"),
        (say("more", ""), "not those of a graph"),
        (say("inputs", '["x", "x"]'), "no lists of different names"),
        (say("inputs", '"x"'), "no lists of different names"),
        (say("inputs", "[1]"), "no lists of different names"),
        (say("places", '[["1"]]'), "no pairs of layer and register"),
        (say("places", "[["), "list of places"),
        (say("outputs", "[" * 100000), "list of outputs"),
    ],
)
def test_what_is_no_graph_is_refused(tmp_path: Path, changed: Change, message: str) -> None:
    """One sentence that says what is wrong."""
    saved = graph_tensors(graph())
    tensors, metadata = {k: np.array(v) for k, v in saved.tensors.items()}, dict(saved.metadata)
    changed(tensors, metadata)
    (tmp_path / "g.safetensors").write_bytes(encode_safetensors(tensors, metadata))
    with pytest.raises(InputRejected, match=message):
        load_graph(tmp_path / "g.safetensors")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_number_is_refused_or_makes_another_graph(tmp_path_factory: Any, data: st.DataObject) -> None:
    """Any entry of any array set to anything: what is read can be evaluated without a fault."""
    saved = graph_tensors(graph())
    tensors = {k: np.array(v) for k, v in saved.tensors.items()}
    name = data.draw(st.sampled_from(sorted(k for k, v in tensors.items() if v.size)))
    array = tensors[name]
    index = data.draw(st.integers(0, array.size - 1))
    limits = np.iinfo(array.dtype) if array.dtype.kind != "f" else None
    near = st.integers(-2, 70)
    wide = st.integers(int(limits.min), int(limits.max)) if limits else st.integers(-9, 9)
    value = (
        data.draw(near if limits is None or limits.min < 0 else st.integers(0, 70))
        if data.draw(st.booleans())
        else data.draw(wide)
    )
    array.flat[index] = value
    path = tmp_path_factory.mktemp("graphs") / "g.safetensors"
    path.write_bytes(encode_safetensors(tensors, saved.metadata))
    try:
        read = load_graph(path)
    except InputRejected:
        return
    inputs = {block.name: np.ones(block.support.shape) for block in read.inputs}
    try:
        running(read, certify.BINARY32, point(inputs))
    except InputRejected as error:
        assert "scales by" in str(error)


def test_an_overwrite_of_another_difference_is_refused(tmp_path: Path) -> None:
    """x + (y - x) has a sharp error rule, which holds for nothing else."""
    saved = graph_tensors(graph())
    tensors = {k: np.array(v) for k, v in saved.tensors.items()}
    k = int(np.argmax(tensors["op"] == Op.OVERWRITE))
    first = int(tensors["right_at"][k])
    lanes = int(tensors["start"][k + 1] - tensors["start"][k])
    for index, value in ((first, 0), (first + lanes, 0), (first + lanes, int(tensors["right"][first + lanes]) + 1)):
        right = tensors["right"].copy()
        right[index] = value
        (tmp_path / "g.safetensors").write_bytes(encode_safetensors({**tensors, "right": right}, saved.metadata))
        with pytest.raises(InputRejected, match="adds something else than the difference"):
            load_graph(tmp_path / "g.safetensors")


def test_other_files_are_no_graphs(tmp_path: Path) -> None:
    """A state, and no file at all."""
    certify.save(tmp_path / "state.safetensors", Saved({"W": X}))
    with pytest.raises(InputRejected, match="is no graph file: its metadata"):
        load_graph(tmp_path / "state.safetensors")
    with pytest.raises(InputRejected, match="there is no file"):
        load_graph(tmp_path / "missing.safetensors")
