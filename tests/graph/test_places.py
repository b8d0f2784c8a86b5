"""Nodes are named by the register that the kernel's line assigns, the layer it is in, and the line."""

import inspect

import numpy as np
import pytest

from certify.graph import Place, layer, trace


def _kernel(x, y):
    with layer("1"):
        product = x * y
        with layer("1.attention"):
            inner = product + 0.1
        # fmt: off
        spread = (
            product
            * inner
        )
        # fmt: on
    total = [None, spread - x]
    rows: object = total[1] * total[1]
    rows = rows + y
    return np.maximum(rows, 0)


GRAPH = trace(_kernel, {"x": np.ones(2), "y": np.ones((2, 2))})
START = inspect.getsourcelines(_kernel)[1]


def _places():
    return [(p.register, p.layer, p.line - START) for p in (GRAPH.place_of(i.start) for i in GRAPH.instructions())]


def test_every_node_knows_its_register_layer_and_line():
    """Nested layers, statements over several lines, annotated and list assignments, and none for a bare return."""
    registers, layers, lines = zip(*_places(), strict=True)
    assert registers == ("product", "inner", "inner", "spread", "total", "rows", "rows", "")
    assert layers == ("1", "1.attention", "1.attention", "1", "", "", "", "")
    assert lines[:3] == (2, 4, 4) and lines[4:] == (11, 12, 13, 14)
    assert 6 <= lines[3] <= 9


def test_a_node_is_described_for_a_person():
    """Register and layer first, then file and line; inputs by name and index."""
    first = next(GRAPH.instructions()).start
    assert GRAPH.describe(first) == f"register product, layer 1 (test_places.py:{START + 2})"
    assert GRAPH.describe(GRAPH.n_nodes - 1) == f"test_places.py:{START + 14}"
    assert GRAPH.describe(0) == "input x[0]"
    assert GRAPH.describe(4) == "input y[1, 0]"
    assert GRAPH.place_of(0) is None


def test_a_scalar_input_is_described_without_an_index():
    """An array of no axes has no index."""
    assert trace(lambda x: x * x, {"x": 1.0}).describe(0) == "input x"


def test_a_node_that_is_not_there_has_no_name():
    """Negative numbers are the structural zero, no node."""
    with pytest.raises(IndexError, match="node -1 is not in the graph"):
        GRAPH.describe(-1)


def test_subscripts_and_multiple_targets():
    """`a[...] = ` names a; tuple targets and `a = b = ` name nothing; code without source still traces."""

    def kernel(x):
        results = {}
        results["square"] = x * x
        first, second = x + 0.1, x + 0.2
        return first * second + results["square"]

    graph = trace(kernel, {"x": 1.0})
    registers = [graph.place_of(i.start).register for i in graph.instructions()]
    assert registers[0] == "results" and registers[1:5] == [""] * 4
    unwritten: dict = {}
    exec(compile("def kernel(x):\n    y = x * x\n    return y", "<nowhere>", "exec"), unwritten)
    assert trace(unwritten["kernel"], {"x": 1.0}).describe(1) == "<nowhere>:2"


def test_layers_do_nothing_outside_tracing():
    """The kernel runs on NumPy arrays unchanged, and a failing one leaves no layer behind."""
    x, y = np.array([1.0, 2.0]), np.ones((2, 2))
    assert _kernel(x, y).shape == (2, 2)
    with pytest.raises(ZeroDivisionError), layer("broken"):
        raise ZeroDivisionError
    assert trace(lambda x: x * x, {"x": 1.0}).places[0].layer == ""


def test_places_print_what_they_know():
    """With and without register and layer."""
    assert str(Place("", "/somewhere/kernel.py", 7)) == "kernel.py:7"
    assert str(Place("3", "/somewhere/kernel.py", 7)) == "layer 3 (kernel.py:7)"
