"""Graph files: one entry a scalar operation, the same bytes for the same graph, and the program of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import certify
from certify import Graph, InputRejected, Variable, load
from certify.graph import ZERO, evaluate
from certify.graph.graph_file import CODES, graph_tensors, save_graph

X = np.linspace(-1.0, 2.0, 9).reshape(3, 3)


def kernel(x: Any, m: Any) -> Any:
    """Every operation that the checker knows, two layers, and a line that two loops share."""
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


def interpreted(tensors: dict[str, Any], inputs: list[float]) -> list[float]:
    """What a file says, read literally in binary64."""
    v = list(inputs)
    at, constants = tensors["at"], tensors["constants"]
    for k, code in enumerate(tensors["op"]):
        ids = tensors["operands"][at[k] : at[k + 1]]
        x = [constants[ids[0]]] if CODES[code] == "const" else [v[i] for i in ids]
        half, exponent = len(x) // 2, int(tensors["exponent"][k])
        rules = {
            "const": lambda x: x[0],
            "sum": lambda x: serial(x),
            "sub": lambda x: x[0] - x[1],
            "dot": lambda x, h=half: serial([a * b for a, b in zip(x[:h], x[h:], strict=True)]),
            "neg": lambda x: -x[0],
            "relu": lambda x: max(x[0], 0.0),
            "scale": lambda x, e=exponent: x[0] * 2.0**e,
            "overwrite": lambda x: x[0] + x[2],
        }
        v.append(rules[CODES[code]](x))
    return v


def serial(terms: list[float]) -> float:
    """A sum from left to right."""
    total = terms[0]
    for term in terms[1:]:
        total += term
    return total


def test_a_file_read_literally_is_the_program() -> None:
    """Every node has the bits that the program computes in binary64."""
    from certify.arithmetic import BINARY64, Ieee

    g = graph()
    M = np.tri(3) / 3
    wanted = evaluate(g, Ieee(BINARY64), {"x": X, "m": M})
    flat = [*X.ravel(), *M[np.tri(3, dtype=bool)]]
    assert interpreted(dict(graph_tensors(g).tensors), flat) == np.asarray(wanted).ravel()[: g.n_nodes].tolist()


def test_every_operation_has_its_place() -> None:
    """Layer and register of each node, in the metadata and by number."""
    import json

    g, saved = graph(), graph_tensors(graph())
    places = json.loads(saved.metadata["places"])
    for k, number in enumerate(saved.tensors["place"]):
        place = g.place_of(g.n_inputs + k)
        assert place is not None
        assert places[number] == [place.layer, place.register]
    assert len({tuple(pair) for pair in places}) == len(places)


def test_no_operand_is_a_structural_zero() -> None:
    """They are left out; a sum of nothing else is the constant 0."""
    tensors = graph_tensors(graph()).tensors
    assert (tensors["operands"] != ZERO).all()
    assert (np.diff(tensors["at"]) > 0).all()
    assert len(tensors["op"]) == graph().n_nodes - graph().n_inputs
    zeros = certify.trace(lambda m: m @ m, {"m": Variable((2, 2), np.eye(2, k=1))}, order="serial")
    written = graph_tensors(zeros).tensors
    assert {CODES[c] for c in written["op"]} <= {"const", "dot"}
    constants = written["constants"][written["operands"][written["at"][:-1]][written["op"] == 0]]
    assert (constants == 0.0).all()


def test_bytes_depend_on_the_graph_alone(tmp_path: Path) -> None:
    """Written again, from a second trace, they are the same; the source is not in them."""
    for name in ("one", "two"):
        save_graph(tmp_path / f"{name}.safetensors", graph())
    data = (tmp_path / "one.safetensors").read_bytes()
    assert (tmp_path / "two.safetensors").read_bytes() == data
    assert b"test_graph_file" not in data


def test_open_sums_have_no_file(tmp_path: Path) -> None:
    """A graph without an order is no program."""
    with pytest.raises(InputRejected, match="the graph has no order of sums"):
        save_graph(tmp_path / "graph.safetensors", certify.trace(kernel, {"x": X, "m": X}))


def test_a_kernel_that_does_nothing(tmp_path: Path) -> None:
    """No operation, and arrays of no length."""
    save_graph(tmp_path / "g.safetensors", certify.trace(lambda x: x.T, {"x": X}, order="serial"))
    tensors = load(tmp_path / "g.safetensors").tensors
    assert len(tensors["op"]) == 0
    assert tensors["at"].tolist() == [0]
    (ids,) = (array for name, array in tensors.items() if name.startswith("ids/"))
    assert ids.ravel().tolist() == X.argsort(axis=None).reshape(3, 3).T.ravel().tolist()
