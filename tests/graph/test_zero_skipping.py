"""Exact operations make no node, and what stays is what rounds."""

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY64, FORMATS, Ieee
from certify.graph import ZERO, Op, Variable, evaluate, output, trace

X = {"x": np.array([0.5, -2.0, 3.0]), "y": np.array([1.0, 7.0, -0.25])}


def _ops(kernel, inputs=X):
    return [i.op for i in trace(kernel, inputs).instructions()]


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x, y: 0 * x,
        lambda x, y: x * np.zeros(3),
        lambda x, y: x + 0,
        lambda x, y: 0.0 + x,
        lambda x, y: x - 0,
        lambda x, y: 1 * x,
        lambda x, y: x / 1,
        lambda x, y: x - x,
        lambda x, y: np.where([True, False, True], x, 0) * np.array([0, 1, 0]),
        lambda x, y: x[:2] @ np.zeros((2, 2)),
        lambda x, y: np.eye(3) @ x,
        lambda x, y: np.sum(x[:1]),
        lambda x, y: np.sum(np.diag(x), axis=0),
        lambda x, y: np.maximum(0 * x, 0),
        lambda x, y: x + (0 * y - 0 * x),
    ],
)
def test_exact_operations_make_no_node(kernel):
    """No instruction at all."""
    assert _ops(kernel) == []


@pytest.mark.parametrize(
    ("kernel", "ops"),
    [
        (lambda x, y: -x, [Op.NEG]),
        (lambda x, y: 0 - x, [Op.NEG]),
        (lambda x, y: -1 * x, [Op.NEG]),
        (lambda x, y: x / -1, [Op.NEG]),
        (lambda x, y: x + (-x), [Op.NEG, Op.ADD]),  # a negation in a format of its own may round
        (lambda x, y: (lambda s: s - s)(x + y), [Op.ADD]),
        (lambda x, y: (lambda p: p - p)(x * y), [Op.MUL, Op.SUB]),  # either may be fused, in any order
        (lambda x, y: (lambda p: p - p)(-(x * y)), [Op.MUL, Op.NEG, Op.SUB]),
        (lambda x, y: 8 * x, [Op.SCALE]),
        (lambda x, y: x / 4, [Op.SCALE]),
        (lambda x, y: -0.5 * x, [Op.SCALE, Op.NEG]),
        (lambda x, y: 3 * x, [Op.CONST, Op.MUL]),
        (lambda x, y: x + 1, [Op.CONST, Op.ADD]),
        (lambda x, y: x + (y - x), [Op.SUB, Op.OVERWRITE]),
        (lambda x, y: (y - x) + x, [Op.SUB, Op.OVERWRITE]),
        (lambda x, y: x + (x - y), [Op.SUB, Op.ADD]),  # doubles x, overwrites nothing
        (lambda x, y: y + (y - x), [Op.SUB, Op.ADD]),
        (lambda x, y: x - (y - x), [Op.SUB, Op.SUB]),
        (lambda x, y: x * y - y * x, [Op.MUL, Op.MUL, Op.SUB]),  # two products, though equal
        (lambda x, y: np.sum(x), [Op.SUM]),
        (lambda x, y: x @ y, [Op.DOT]),
        (lambda x, y: np.diag(x) @ np.diag(y), [Op.DOT]),
    ],
)
def test_operations_become_these_instructions(kernel, ops):
    """The instructions of a kernel, in order."""
    assert _ops(kernel) == ops


def test_structural_zeros_have_no_node():
    """Only entries on the support are nodes; sums and products skip the rest."""
    support = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    graph = trace(lambda W: {"s": W + W.T, "p": W @ W, "w": W}, {"W": Variable((3, 3), support)}, order="serial")
    assert graph.n_inputs == 2
    assert (graph.outputs["w"].ids != ZERO).tolist() == support.astype(bool).tolist()
    assert np.count_nonzero(graph.outputs["p"].ids != ZERO) == 1  # the path 0 -> 1 -> 2
    assert [i.op for i in graph.instructions()] == [Op.DOT]


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (lambda x: np.diag(x), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (lambda x: np.tril(np.stack([x, x, x])), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
        (lambda x: np.triu(np.stack([x, x, x]), 1), [[0, 1, 1], [0, 0, 1], [0, 0, 0]]),
    ],
)
def test_filled_in_zeros_are_structural(fill, expected):
    """np.diag, tril and triu fill in zeros, not copies of node 0."""
    ids = trace(fill, {"x": np.ones(3)}).outputs["0"].ids
    assert (ids != ZERO).astype(int).tolist() == expected
    assert ids[0, 0] in (ZERO, 0)


def test_each_distinct_constant_is_one_node():
    """Four lanes, two numbers."""
    graph = trace(lambda x: x * np.array([0.1, 0.3, 0.1, 0.3]), {"x": np.ones(4)})
    assert graph.constants.tolist() == [0.1, 0.3]


def test_known_numbers_that_every_format_holds_fold_and_others_do_not():
    """1 * 1 is exact in every format and folds; 2 * 3 is not where a format holds two bits, so the format computes it."""

    def kernel(x, factor):
        return np.where([True, False], x, 3.0) * np.where([True, False], x, factor)

    graph = trace(lambda x: np.where([True, False], x, 1.0) * np.where([True, False], x, -1.0), {"x": np.ones(2)})
    assert graph.outputs["0"].ids[1] == ZERO and graph.outputs["0"].known[1] == -1
    graph = trace(lambda x: (x * 0 + 2.0) * (x * 0 + 3.0), {"x": np.ones(2)}, order="serial")
    assert (graph.outputs["0"].ids != ZERO).all()
    graph = trace(lambda x: kernel(x, 0.1), {"x": np.ones(2)}, order="serial")
    assert graph.outputs["0"].ids[1] != ZERO
    ieee = Ieee(BINARY16)
    result = output(graph, ieee, evaluate(graph, ieee, {"x": ieee.constant(np.ones(2))}), "0")
    assert result[1] == float(np.float16(3) * np.float16(0.1)) != 3.0 * 0.1


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_skipping_changes_no_bit_of_a_dense_program(format):
    """A masked product computed densely, zeros and ones included, returns the same numbers in every format."""
    rng = np.random.default_rng(3)
    M = rng.integers(0, 2, (5, 5))
    W, S = rng.standard_normal((5, 5)) * M, rng.standard_normal((5, 5))
    kernel = lambda W, S: (S @ W) * 0.7 + np.eye(5)[:, [1, 0, 2, 4, 3]] @ S  # noqa: E731
    ieee = Ieee(format)
    sparse = trace(kernel, {"W": Variable((5, 5), M), "S": S}, order="serial")
    skipped = output(sparse, ieee, evaluate(sparse, ieee, {"W": ieee.constant(W), "S": ieee.constant(S)}), "0")

    def serial(a, b):
        total = ieee.mul(a[:, 0, None], b[0])
        for k in range(1, 5):
            total = ieee.add(total, ieee.mul(a[:, k, None], b[k]))
        return total

    permutation = ieee.constant(np.eye(5)[:, [1, 0, 2, 4, 3]])
    S_, W_ = ieee.constant(S), ieee.constant(W)
    dense = ieee.add(ieee.mul(serial(S_, W_), ieee.constant(np.array(0.7))), serial(permutation, S_))
    assert np.array_equal(skipped, dense)


def test_overwriting_computes_both_roundings():
    """fl(x + fl(y - x)) in every format: 1 overwritten by 2**-60 is 0 in binary64."""
    graph = trace(lambda x, y: x + (y - x), {"x": 1.0, "y": 1.0})
    ieee = Ieee(BINARY64)
    assert evaluate(graph, ieee, {"x": np.array(1.0), "y": np.array(2.0**-60)})[graph.outputs["0"].ids] == 0
