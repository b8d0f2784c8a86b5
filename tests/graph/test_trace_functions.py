"""Quotients, roots, library functions, maxima, selections and what NumPy makes of them: the graph computes what NumPy does."""

import numpy as np
import pytest

from certify.arithmetic import BINARY64, Ieee
from certify.graph import Op, evaluate, lower, output, sigmoid, trace
from certify.rounding.posterior import exact

RNG = np.random.default_rng(3)
SMALL = {"a": RNG.integers(-4, 5, (3, 4)).astype(float), "b": RNG.integers(-4, 5, (4, 3)).astype(float)}
REAL = {"a": RNG.standard_normal((3, 4)), "b": RNG.standard_normal((4, 3))}
STACKS = {"a": RNG.integers(-4, 5, (2, 3, 4)).astype(float), "b": RNG.integers(-4, 5, (2, 4, 3)).astype(float)}


def run(kernel, inputs):
    """The outputs of the traced kernel in binary64, by name."""
    graph, ieee = trace(kernel, inputs, order="serial"), Ieee(BINARY64)
    values = evaluate(graph, ieee, {name: ieee.constant(x) for name, x in inputs.items()})
    return [output(graph, ieee, values, name) for name in graph.outputs]


def ops(kernel, inputs):
    """The operations of the traced kernel."""
    return [i.op for i in trace(kernel, inputs).instructions()]


EXACT = {
    "max": lambda a, b: (np.max(a), a.max(axis=0), np.max(a, axis=1, keepdims=True), np.maximum.reduce(a)),
    "min": lambda a, b: (np.min(a), a.min(axis=-1), np.min(a, axis=(0, 1)), np.minimum.reduce(a, axis=1)),
    "maximum": lambda a, b: (np.maximum(a, b.T), np.maximum(a, 1), np.maximum(0, a), np.maximum(a, -2.5)),
    "minimum": lambda a, b: (np.minimum(a, b.T), np.minimum(a, 0), np.minimum(1, a)),
    "abs": lambda a, b: (np.abs(a), abs(b), np.fabs(a)),
    "clip": lambda a, b: (np.clip(a, -1, 2), np.clip(a, None, 1), np.clip(a, b.T, 3)),
    "where": lambda a, b: (np.where(a > 0, a, b.T), np.where(a <= b.T, 1, 0), np.where(np.less(0, a), 0, a)),
    "where equal": lambda a, b: (np.where(a == b.T, 5, a), np.where(a != b.T, a, 7.5)),
    "where not": lambda a, b: (np.where(~(a > 0), a, -a), np.where(np.logical_not(a >= 1), 0, a)),
    "where and": lambda a, b: np.where((a > 0) & (a < 3), a, np.where((b.T < 0) | (a == 0), b.T, 9)),
    "where mask": lambda a, b: np.where((a > 0) & np.tri(3, 4, dtype=bool), a, b.T),
    "where ufuncs": lambda a, b: np.where(np.logical_or(np.less(a, 0), np.greater_equal(b.T, 2)), a, b.T),
    "where rows": lambda a, b: np.where(a[:, :1] > 0, a, b.T[:1]),
    "square": lambda a, b: (np.square(a), a**2, a**1, a**0),
    "outer": lambda a, b: (np.outer(a[0], b[0]), np.outer(a[0], np.arange(3.0))),
    "division": lambda a, b: (a / 4, a / -1, a / np.array([1.0, 2.0, 4.0, -8.0])),
    "einsum": lambda a, b: (
        np.einsum("ij,jk->ik", a, b),
        np.einsum("ij,jk", a, b),
        np.einsum("ij,kj->ki", a, b.T),
        np.einsum("ij->ji", a),
        np.einsum("ij->", a),
        np.einsum("ij->j", a),
        np.einsum("ij,ij->i", a, b.T),
        np.einsum("ij,ji->", a, b),
        np.einsum("i,j->ji", a[0], b[0]),
        np.einsum("ij,j->ij", a, b[:, 0]),
        np.einsum("ii->i", a[:, :3]),
        np.einsum("ii", a[:, :3]),
        np.einsum("ii,i->i", a[:, :3], b[0]),
        np.einsum("ij,jk->ik", a, np.eye(4)),
        np.einsum(" ij , jk -> ik", 2 * np.eye(3), a),
    ),
    "norms": lambda a, b: (np.linalg.norm(a[0], 1), np.linalg.norm(a, 1, axis=0), np.linalg.norm(a, np.inf, axis=1)),
}


@pytest.mark.parametrize("kernel", EXACT.values(), ids=EXACT.keys())
def test_exact_results_are_those_of_numpy(kernel):
    """On small integers, where nothing rounds: the very numbers."""
    expected = kernel(**SMALL)
    for ours, theirs in zip(run(kernel, SMALL), expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.shape == np.shape(theirs)


def test_stacks_of_matrices_are_multiplied_one_by_one():
    """Batches, broadcast ones, vectors, and einsum over heads."""

    def kernel(a, b):
        heads = np.einsum("hij,hjk->ihk", a, b)
        return a @ b, a @ b[0], a[0] @ b, a @ b[0, :, 0], a[0, 0] @ b, np.matmul(a[:, None], b[None]), heads

    for ours, theirs in zip(run(kernel, STACKS), kernel(**STACKS), strict=True):
        np.testing.assert_array_equal(ours, theirs)


ROUNDED = {
    "mean": lambda a, b: (np.mean(a), a.mean(axis=0), np.mean(b, axis=0, keepdims=True)),
    "var": lambda a, b: (np.var(a), a.var(axis=1), np.std(b, axis=0, ddof=1), b.std(axis=-1, keepdims=True)),
    "norm": lambda a, b: (np.linalg.norm(a), np.linalg.norm(a, axis=1), np.linalg.norm(a, "fro", keepdims=True)),
    "functions": lambda a, b: (np.exp(a), np.tanh(a), np.log(np.abs(a)), np.sqrt(np.abs(a)), sigmoid(a), a / b.T),
    "reciprocals": lambda a, b: (np.reciprocal(a), 1 / a, a**-1, np.abs(a) ** 0.5, 3 / a, a / 3),
    "softmax": lambda a, b: (
        np.exp(a - np.max(a, axis=-1, keepdims=True))
        / np.exp(a - np.max(a, axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)
    ),
}


@pytest.mark.parametrize("kernel", ROUNDED.values(), ids=ROUNDED.keys())
def test_rounded_results_are_close_to_those_of_numpy(kernel):
    """In binary64, within what another order and another library change; and close to the exact value."""
    expected = kernel(**REAL)
    expected = expected if isinstance(expected, tuple) else (expected,)
    graph = trace(kernel, REAL, order="serial")
    for ours, theirs, name in zip(run(kernel, REAL), expected, graph.outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
        np.testing.assert_allclose(exact(graph, REAL, name).astype(float), theirs, rtol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (lambda a, b: a / b.T, [Op.DIV]),
        (lambda a, b: a / 2, [Op.SCALE]),
        (lambda a, b: a / 3, [Op.CONST, Op.DIV]),
        (lambda a, b: a / np.array([1.0, 2.0, 3.0, -1.0]), [Op.SCALE, Op.NEG, Op.CONST, Op.DIV]),
        (lambda a, b: 0 * a / b.T, [Op.CONST, Op.DIV]),  # b must not be 0
        (lambda a, b: np.exp(0 * a), [Op.CONST, Op.EXP]),  # a library's exp(0) need not be 1
        (lambda a, b: np.sqrt(0 * a), []),
        (lambda a, b: np.abs(0 * a - 1), []),
        (lambda a, b: np.maximum(a, a), []),
        (lambda a, b: np.maximum(a, 0), [Op.RELU]),
        (lambda a, b: np.maximum(a[:, :2], [0, 1]), [Op.RELU, Op.CONST, Op.MAX]),
        (lambda a, b: np.minimum(a, 0), [Op.NEG, Op.RELU, Op.NEG]),
        (lambda a, b: np.where(a > 0, a, a), []),
        (lambda a, b: np.where(a > b.T, a, b.T), [Op.SELECT]),
        (lambda a, b: a**2, [Op.MUL]),
        (lambda a, b: sigmoid(a), [Op.SIGMOID]),
        (lambda a, b: np.mean(a, axis=-1), [Op.SUM, Op.SCALE]),
        (lambda a, b: np.mean(b, axis=-1), [Op.SUM, Op.CONST, Op.DIV]),
        (lambda a, b: np.linalg.norm(a), [Op.DOT, Op.SQRT]),
        (lambda a, b: np.max(a, axis=1), [Op.MAX, Op.MAX]),
    ],
)
def test_what_each_operation_becomes(kernel, expected):
    """One node where it can round or select, none where it is exact."""
    assert ops(kernel, REAL) == expected


def test_a_lowered_graph_keeps_every_operation():
    """Sums are written out, the other operations stay."""

    def kernel(a, b):
        e = np.exp(a - np.max(a, axis=1, keepdims=True))
        s = e / np.sum(e, axis=1, keepdims=True)
        return np.where(s < 0.5, np.sqrt(np.abs(a)), np.log(s) + np.tanh(a) * sigmoid(a))

    graph = trace(kernel, REAL, order="serial")
    program = lower(graph)
    assert {i.op for i in program.instructions()} == {i.op for i in graph.instructions()} - {Op.SUM} | {Op.ADD}
    ieee = Ieee(BINARY64)
    given = {name: ieee.constant(x) for name, x in REAL.items()}
    one, other = (output(g, ieee, evaluate(g, ieee, given), "0") for g in (graph, program))
    np.testing.assert_array_equal(one, other)


def test_a_known_branch_is_named_where_it_is_written():
    """A large known number of numpy.where is a constant of that line."""

    def kernel(a, b):
        masked = np.where(np.eye(3, 4) > 0, a, -1e9)
        return masked - 1

    graph = trace(kernel, REAL)
    node = next(i for i in graph.instructions() if i.op is Op.CONST)
    assert graph.places[graph.place[node.index]].register == "masked"


def test_sigmoid_of_arrays_does_not_overflow():
    """In the dtype of the array, at both ends."""
    x = np.array([-200.0, 0.0, 200.0], dtype=np.float32)
    assert sigmoid(x).dtype == np.float32
    assert sigmoid(x).tolist() == [0.0, 0.5, 1.0]
