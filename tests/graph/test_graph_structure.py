"""The graph as a data structure: order, counting, lowering, pruning, and sums without an order."""

import operator
from functools import reduce

import numpy as np
import pytest
from certify.cases.polyprox import block

from certify.arithmetic import BINARY64, FORMATS, Ieee
from certify.errors import InputRejected, OrderUnspecified
from certify.graph import ZERO, Op, Variable, evaluate, live_terms, lower, output, trace, with_order
from certify.graph.lowering import with_plain_sums
from certify.rounding import majorant, point, running


def _states(p, seed):
    rng = np.random.default_rng(seed)
    M = rng.integers(0, 2, (p, p)) * (1 - np.eye(p, dtype=int))
    X = rng.standard_normal((20, p))
    state = {"W": 0.3 * rng.standard_normal((p, p)) * M, "Sigma": X.T @ X / 20}
    state |= {"alpha": np.array(0.3), "rho": np.array(1.5), "gamma": np.array(0.05), "lam": np.array(0.01)}
    return state, M


def _block(p, seed=0, order="serial"):
    state, M = _states(p, seed)
    N = 1 << (p - 1).bit_length()
    inputs = {"W": Variable((p, p), M), "Sigma": np.ones((p, p)), "M": M, "b": 1, "N": N}
    return trace(block, inputs | dict.fromkeys(("alpha", "rho", "gamma", "lam"), 1.0), order=order), state


def _mixed(x, A, y):
    scaled = A / 4 + 0.3 * A
    new = np.maximum(scaled @ x - y, 0)
    x = x + (new - x)
    return {"x": x, "s": np.sum(x * y) - np.trace(A), "unused": A @ A, "k": np.array([0.0, 2.5])}


def _mixed_graph(order="serial"):
    support = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    return trace(_mixed, {"x": np.ones(3), "A": Variable((3, 3), support), "y": np.ones(3)}, order=order)


GRAPHS = {"block 3": _block(3)[0], "block 5": _block(5)[0], "mixed": _mixed_graph()}
GRAPHS |= {f"{name}, lowered": lower(graph) for name, graph in GRAPHS.items()}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_operands_come_before_results_and_instructions_tile_the_nodes(graph):
    """The invariants of the class docstring."""
    at = graph.n_inputs
    assert at == sum(int(block.support.sum()) for block in graph.inputs)
    for i in graph.instructions():
        assert i.start == at < i.stop
        at = i.stop
        if i.op is Op.CONST:
            assert (i.left >= 0).all() and (i.left < len(graph.constants)).all()
            continue
        least = ZERO if i.op in (Op.SUM, Op.DOT) else 0
        for operands in (i.left, i.right):
            assert (operands >= least).all() and (operands < i.start).all()
    assert at == graph.n_nodes
    for result in graph.outputs.values():
        assert (result.ids < graph.n_nodes).all() and (result.ids >= ZERO).all()
    backward = [i.index for i in graph.instructions(backward=True)]
    assert backward == list(range(len(graph)))[::-1]


def test_operations_are_counted_by_hand():
    """A serial dot product of n terms is 2 n - 1, a sum n - 1; constants and skipped zeros count nothing."""
    ones = {"x": np.ones(5), "y": np.ones(5)}
    assert trace(lambda x, y: x @ y, ones).n_operations == 9
    assert trace(lambda x, y: np.sum(x), ones).n_operations == 4
    assert trace(lambda x, y: 3 * x + 0 * y, ones).n_operations == 5
    assert trace(lambda x, y: np.diag(x) + np.diag(y), ones).n_operations == 5
    assert trace(lambda x, y: np.maximum(-x, 0) / 2, ones).n_operations == 15


@pytest.mark.parametrize("name", ["block 3", "block 5", "mixed"])
def test_the_lowered_graph_has_as_many_operations(name):
    """One node an operation: lanes without a term do not count, and overwriting computes its difference once."""
    graph = GRAPHS[name]
    program = GRAPHS[f"{name}, lowered"]
    assert {i.op for i in program.instructions()}.isdisjoint({Op.SUM, Op.DOT, Op.OVERWRITE})
    assert graph.n_operations == program.n_operations


def test_a_product_of_sparse_matrices_counts_its_live_lanes_only():
    """Two diagonal matrices: three products, nothing for the six dead lanes."""
    diagonal = Variable((3, 3), np.eye(3))
    graph = trace(lambda A, B: A @ B, {"A": diagonal, "B": diagonal}, order="serial")
    assert graph.n_operations == lower(graph).n_operations == 3


def test_live_terms_are_those_that_are_no_structural_zeros():
    """Row i of an upper triangular matrix times a vector has 3 - i terms."""
    A = Variable((3, 3), np.triu(np.ones((3, 3))))
    graph = trace(lambda A, x: A @ x, {"A": A, "x": np.ones(3)})
    assert live_terms(next(graph.instructions())).tolist() == [3, 2, 1]


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("p", [2, 3, 5, 8])
def test_lowering_changes_no_bit_of_a_block(format, p):
    """W+ and alpha+ of the lowered graph equal those of the unlowered one in every format."""
    ieee = Ieee(format)
    for seed in range(3):
        graph, state = _block(p, seed)
        values = {name: ieee.constant(x) for name, x in state.items()}
        program = lower(graph)
        for name in ("W", "alpha"):
            results = [output(g, ieee, evaluate(g, ieee, values), name) for g in (graph, program)]
            assert np.array_equal(*results)


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_lowering_changes_no_bit_of_other_operations(format):
    """Constants, scalings, sums, masks and known outputs."""
    ieee, graph, rng = Ieee(format), GRAPHS["mixed"], np.random.default_rng(1)
    values = {"x": rng.standard_normal(3), "A": rng.standard_normal((3, 3)), "y": rng.standard_normal(3)}
    values = {name: ieee.constant(x) for name, x in values.items()}
    for name in graph.outputs:
        results = [output(g, ieee, evaluate(g, ieee, values), name) for g in (graph, GRAPHS["mixed, lowered"])]
        assert np.array_equal(*results)


def test_lowering_twice_changes_nothing():
    """A lowered graph is its own lowering."""
    program = GRAPHS["block 3, lowered"]
    again = lower(program)
    assert np.array_equal(again.op, program.op) and np.array_equal(again.left, program.left)


def test_a_kernel_without_operations_lowers_to_itself():
    """A rearrangement, an identity and a constant output have no instruction and can still be lowered."""
    graph = trace(lambda x: {"x": x.T, "k": np.array(2.0)}, {"x": np.ones((2, 2))}, order="serial")
    assert len(graph) == 0
    program = lower(graph)
    assert program.n_nodes == 4 and program.outputs["x"].ids.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("names", [["x"], ["s"], ["k"], ["x", "s"], ["unused"]])
def test_pruning_leaves_the_outputs_alone(names):
    """Evaluating for some outputs only returns the same values of these."""
    ieee, graph, rng = Ieee(BINARY64), GRAPHS["mixed"], np.random.default_rng(1)
    values = {"x": rng.standard_normal(3), "A": rng.standard_normal((3, 3)), "y": rng.standard_normal(3)}
    complete, pruned = evaluate(graph, ieee, values), evaluate(graph, ieee, values, outputs=names)
    for name in names:
        assert np.array_equal(output(graph, ieee, complete, name), output(graph, ieee, pruned, name))


def test_pruning_leaves_out_what_no_output_needs():
    """The instructions of an unused product are not evaluated."""

    class Counting(Ieee):
        calls = 0

        def mul(self, a, b):
            self.calls += 1
            return super().mul(a, b)

    values = {"x": np.ones(3), "A": np.ones((3, 3)), "y": np.ones(3)}
    complete, pruned, nothing = Counting(BINARY64), Counting(BINARY64), Counting(BINARY64)
    evaluate(GRAPHS["mixed"], complete, values)
    evaluate(GRAPHS["mixed"], pruned, values, outputs=["x"])
    evaluate(GRAPHS["mixed"], nothing, values, outputs=["k"])
    assert complete.calls > pruned.calls > nothing.calls == 0


def test_values_off_the_support_are_ignored():
    """A structural zero is zero whatever the caller stores there."""
    ieee = Ieee(BINARY64)
    A = np.array([[1.0, 2.0, 9.0], [9.0, 3.0, 4.0], [9.0, 9.0, 5.0]])
    values = {"x": np.ones(3), "y": np.zeros(3)}
    first, second = (evaluate(GRAPHS["mixed"], ieee, values | {"A": a}) for a in (A, np.triu(A) * (A < 9)))
    assert np.array_equal(first, second)


def test_a_sum_without_an_order_is_refused_where_one_is_needed():
    """Emulation, running bounds and lowering need a program; majorant bounds do not."""
    graph = _mixed_graph(order=None)
    values = {"x": np.ones(3), "A": np.ones((3, 3)), "y": np.ones(3)}
    remedy = r"the sum at .*\(test_graph_structure.py:\d+\) has no order; trace the kernel with an order such as serial"
    for refused in (
        lambda: evaluate(graph, Ieee(BINARY64), values),
        lambda: running(graph, BINARY64, point(values)),
        lambda: lower(graph),
    ):
        with pytest.raises(OrderUnspecified, match=remedy):
            refused()
    assert np.isfinite(majorant(graph, BINARY64, point(values)).error_of("s"))
    assert evaluate(with_order(graph, "serial"), Ieee(BINARY64), values).shape == (graph.n_nodes + 1,)
    assert lower(graph, "serial").order == "serial"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": np.ones(3), "A": np.ones((3, 3))}, "input y is missing"),
        ({"x": np.ones(4), "A": np.ones((3, 3)), "y": np.ones(3)}, r"input x has shape \(4,\); give the traced shape"),
        (
            {"x": np.ones(3), "A": np.ones(3), "y": np.ones(3)},
            r"input A has shape \(3,\); give the traced shape \(3, 3\)",
        ),
    ],
)
def test_inputs_of_an_evaluation_are_checked(values, message):
    """Missing inputs and wrong shapes are named."""
    with pytest.raises(InputRejected, match=message):
        evaluate(GRAPHS["mixed"], Ieee(BINARY64), values)


def test_the_block_is_traced_as_it_runs(monkeypatch):
    """The graph of the Poly-prox block in binary64, against NumPy with serial products and sums."""
    graph, state = _block(5, 3)
    ieee = Ieee(BINARY64)

    class Serial(np.ndarray):
        def __matmul__(self, other):
            return reduce(operator.add, [self[:, k, None] * other[k] for k in range(len(other))])

    _, M = _states(5, 3)
    arrays = {name: state[name].view(Serial) for name in ("W", "Sigma")}
    scalars = {name: float(state[name]) for name in ("alpha", "rho", "gamma", "lam")}
    monkeypatch.setattr(np, "sum", lambda d: reduce(operator.add, list(d)))
    expected = block(**arrays, **scalars, M=M.view(Serial), b=1, N=8)
    monkeypatch.undo()
    values = evaluate(graph, ieee, state)
    assert np.array_equal(output(graph, ieee, values, "W"), np.asarray(expected["W"]))
    assert output(graph, ieee, values, "alpha") == expected["alpha"]


def test_overwriting_as_the_addition_that_it_is():
    """Only the instructions that overwrite change; every node keeps its number and its computed value."""
    graph = _mixed_graph()
    plain = with_plain_sums(graph)
    assert Op.OVERWRITE in set(graph.op.tolist()) and Op.OVERWRITE not in set(plain.op.tolist())
    for before, after in zip(graph.instructions(), plain.instructions(), strict=True):
        assert (before.start, before.stop) == (after.start, after.stop) and (before.left == after.left).all()
        if before.op is Op.OVERWRITE:
            assert after.op is Op.ADD and (after.right == before.right[1]).all()
        else:
            assert after.op is before.op and (after.right == before.right).all()
    rng, ieee = np.random.default_rng(8), Ieee(BINARY64)
    inputs = {b.name: rng.standard_normal(b.support.shape) for b in graph.inputs}
    assert (evaluate(plain, ieee, inputs) == evaluate(graph, ieee, inputs)).all()
