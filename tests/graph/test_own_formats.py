"""Formats of single instructions in traced graphs: casts, blocks, promotion, registers moved to another, lowering, files."""

import json

import ml_dtypes
import numpy as np
import pytest

import certify
from certify.errors import InputRejected, TraceRefused
from certify.graph import Op, lower, trace, with_order
from certify.graph.graph_file import CODES, graph_tensors

X = {"x": np.ones(3), "w": np.ones(3)}


def _formats(kernel, **inputs):
    """Operation and format of every instruction."""
    return [(i.op.name, i.format) for i in trace(kernel, inputs or X, order="serial").instructions()]


def test_graphs_without_own_formats_have_none():
    """And no names, so that nothing about them changes."""
    graph = trace(lambda x, w: np.sum(x * w) + 1.5, X, order="serial")
    assert graph.format_names == () and graph.format.tolist() == [-1] * len(graph)
    assert set(graph_tensors(graph).metadata) == {"order", "inputs", "outputs", "places"}


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        *((np.float16, "float16"), ("float32", "float32"), (float, "float64"), (ml_dtypes.bfloat16, "bfloat16")),
        *((ml_dtypes.float8_e4m3fn, "e4m3"), (np.dtype(ml_dtypes.float8_e5m2), "e5m2")),
    ],
)
def test_astype_is_a_cast_to_the_format_of_the_dtype(dtype, name):
    """By NumPy's and ml-dtypes' own dtypes, their names and Python's float."""
    assert _formats(lambda x, w: x.astype(dtype)) == [("CAST", name)]
    assert _formats(lambda x, w: x.astype(dtype, copy=False)) == [("CAST", name)]


def test_cast_of_known_numbers_and_zeros():
    """Known numbers become constants of the format of their array, and are cast as all are; structural zeros stay."""

    def kernel(x, w):
        return certify.cast(np.where([True, False, False], x, np.array([0, 0, 0.1])), "bfloat16")

    graph = trace(kernel, X, order="serial")
    assert [(i.op, i.format) for i in graph.instructions()] == [(Op.CONST, ""), (Op.CAST, "bfloat16")]
    values = certify.evaluate(graph, certify.Ieee(certify.BINARY64), {"x": np.full(3, 1 / 3), "w": np.ones(3)})
    assert certify.output(graph, certify.Ieee(certify.BINARY64), values, "0").tolist() == [
        0.333984375,
        0.0,
        0.10009765625,
    ]


def test_operations_follow_numpys_promotion():
    """Of arrays of own formats the promoted one; with an array of the program's, or a NumPy number, the program's."""

    def half(x):
        return x.astype(np.float16)

    def single(x):
        return x.astype(np.float32)

    assert _formats(lambda x, w: half(x) * half(w))[-1] == ("MUL", "float16")
    assert _formats(lambda x, w: half(x) + single(w))[-1] == ("ADD", "float32")
    assert _formats(lambda x, w: half(x) + w)[-1] == ("ADD", "")
    assert _formats(lambda x, w: half(x) * 3)[-2:] == [("CONST", "float16"), ("MUL", "float16")]
    assert _formats(lambda x, w: half(x) * np.float64(3))[-1] == ("MUL", "")
    assert _formats(lambda x, w: np.sum(half(x)))[-1] == ("SUM", "float16")
    assert _formats(lambda x, w: half(x).mean())[-1] == ("DIV", "float16")
    assert _formats(lambda x, w: half(x) @ single(w))[-1] == ("DOT", "float32")
    assert _formats(lambda x, w: certify.sigmoid(half(x)))[-1] == ("SIGMOID", "float16")
    assert _formats(lambda x, w: np.where(x > w, half(x), half(w)))[-1] == ("SELECT", "float16")


def test_formats_that_numpy_does_not_promote_are_refused():
    """The message names the line and both formats."""
    with pytest.raises(TraceRefused, match=r"bfloat16 and float16 at .*test_own_formats.py"):
        _formats(lambda x, w: certify.cast(x, "bfloat16") + x.astype(np.float16))


def test_back_to_the_dtype_of_an_input():
    """`astype(x.dtype)` is the format of x: the program's, or its own."""
    assert _formats(lambda x, w: x.astype(np.float32).astype(x.dtype)) == [("CAST", "float32"), ("CAST", "")]

    def kernel(x, w):
        h = x.astype(np.float16)
        return (h.astype(np.float32) * 3).astype(h.dtype)

    assert _formats(kernel)[-1] == ("CAST", "float16")
    assert _formats(lambda x, w: x.astype(x.dtype)) == []
    with pytest.raises(TraceRefused, match="bfloat16"):
        _formats(lambda x, w: w.astype(certify.cast(x, "bfloat16").dtype))


def test_blocks_come_before_promotion_and_nest():
    """Inside, every operation is in the format asked for; outside, nothing has changed."""

    def kernel(x, w):
        h = x.astype(np.float16)
        with certify.precision("bfloat16"):
            y = h * w
            with certify.precision("binary32"):
                y = y + h
            y = -y
        return y + w

    assert [f for _, f in _formats(kernel)] == ["float16", "bfloat16", "float32", "bfloat16", ""]
    with pytest.raises(InputRejected, match="float17"):
        certify.precision("float17")
    with certify.precision("e4m3"):  # does nothing to plain arrays
        assert (np.ones(1) / 3).tolist() == [1 / 3]


def test_an_operation_that_rounds_nothing_still_converts():
    """x + 0, 1 x, x**1, +x and a sum of one term make no node, unless x has another format."""
    for same in (lambda x: x + 0, lambda x: 1 * x, lambda x: x**1, lambda x: +x, lambda x: np.sum(x[:, None], axis=1)):

        def kernel(x, w, same=same):
            with certify.precision("float16"):
                return same(x)

        assert _formats(kernel) == [("CAST", "float16")]
        assert _formats(lambda x, w, same=same: same(x)) == []
        assert _formats(lambda x, w, same=same: same(x.astype(np.float16))) == [("CAST", "float16")]


def _two_layers(x, w):
    with certify.layer("first"):
        y = x * w
        s = np.sum(y)
    with certify.layer("second"):
        y = y / s
    return y


def test_registers_move_to_other_formats():
    """By register, or by layer and register, the latter first; and back to the program's."""
    graph = trace(_two_layers, X, order="serial")
    every = certify.with_formats(graph, {"y": "bfloat16"})
    assert [i.format for i in every.instructions()] == ["bfloat16", "", "bfloat16"]
    one = certify.with_formats(graph, {"y": "bfloat16", "second.y": "binary16"})
    assert [i.format for i in one.instructions()] == ["bfloat16", "", "float16"]
    assert one.format_names == ("bfloat16", "float16")
    back = certify.with_formats(one, {"y": ""})
    assert back.format_names == () and [i.format for i in back.instructions()] == ["", "", ""]
    assert [i.format for i in graph.instructions()] == ["", "", ""]
    with pytest.raises(InputRejected, match=r"no register 'z'.*first\.s, first\.y, s, second\.y, y"):
        certify.with_formats(graph, {"z": "float16"})
    with pytest.raises(InputRejected, match="float17"):
        certify.with_formats(graph, {"y": "float17"})


def test_lowering_keeps_formats():
    """The lowered program computes the same numbers, in every order that has one."""
    graph = certify.with_formats(trace(_two_layers, X, order="pairwise"), {"first.y": "float32", "s": "bfloat16"})
    ieee = certify.Ieee(certify.BINARY16)
    inputs = {name: ieee.constant(np.array([1 / 3, 0.1, 2.7])) for name in X}
    for order in ("serial", "pairwise", "blocked(2)"):
        whole = with_order(graph, order)
        lowered = lower(whole)
        assert {i.format for i in lowered.instructions()} == {"", "float32", "bfloat16"}
        found = [certify.output(g, ieee, certify.evaluate(g, ieee, inputs), "0") for g in (whole, lowered)]
        assert np.array_equal(*found)


def test_structural_zeros_are_terms_of_a_sum_of_wider_numbers():
    """Adding 0 rounds a wider number, to 1 below, whether it is known to be 0 or happens to be; a dense program adds both."""

    def kernel(x):
        a = np.stack([np.where([False, True, True], x, 0), x])
        with certify.precision("bfloat16"):
            return np.sum(a, axis=1)

    graph = trace(kernel, {"x": np.ones(3)}, order="serial")
    values = certify.evaluate(graph, certify.Ieee(certify.BINARY32), {"x": np.array([0.0, 1 + 2.0**-8, 2.0**-8])})
    assert values[graph.outputs["0"].ids].tolist() == [1.0, 1.0]


def test_signs_pass_through_casts():
    """A square, rounded to another format, is not negative."""
    graph = trace(lambda x, w: (x * x).astype(np.float16), X, order="serial")
    assert graph.nonnegative[graph.outputs["0"].ids].all()


def test_graph_files_hold_formats():
    """One entry an operation, and the names; the code of a cast is the last one."""
    graph = trace(lambda x, w: (x.astype(np.float16) @ w.astype(np.float16)) * w, X, order="serial")
    saved = graph_tensors(graph)
    assert CODES[-1] == "cast" and saved.tensors["op"][0] == len(CODES) - 1
    assert json.loads(saved.metadata["formats"]) == ["float16"]
    assert saved.tensors["format"].dtype == np.int32
    assert saved.tensors["format"].tolist() == [0] * 7 + [-1] * 3


def test_stacked_products_are_traced():
    """Matrices of three and more axes, broadcast, and vectors: each element one sum of products, as NumPy has it."""
    rng = np.random.default_rng(0)
    shapes = [((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((6, 1, 3, 4), (2, 4, 2))]
    for first, second in [*shapes, ((2, 3, 4), (4,)), ((4,), (2, 4, 3)), ((0, 2, 3), (3, 2))]:
        inputs = {"a": rng.integers(-4, 5, first) / 2, "b": rng.integers(-4, 5, second) / 2}
        graph = trace(lambda a, b: a @ b, inputs, order="serial")
        ieee = certify.Ieee(certify.BINARY64)
        found = certify.output(graph, ieee, certify.evaluate(graph, ieee, inputs), "0")
        assert np.array_equal(found, inputs["a"] @ inputs["b"])
