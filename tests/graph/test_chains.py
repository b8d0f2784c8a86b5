"""Long sums in few lanes: the same trees as the order's models, however the additions are grouped."""

from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32, BINARY64, Ieee, enclosure
from certify.arithmetic.dyadic import Dyadic, fractions
from certify.graph import evaluate, order_named, trace
from certify.graph.chains import FEWEST_TERMS, LANES_TOGETHER, may_chain, total

ORDERS = ("serial", "pairwise", "blocked(1)", "blocked(3)", "blocked(16)", "blocked(1000)", "fma")


class _Written:
    """An arithmetic that writes sums down: values are object arrays of strings."""

    def __init__(self):
        self.calls = 0

    def add(self, a, b):
        self.calls += 1
        return "(" + a + b + ")"


def _leaves(n, lanes):
    return np.array([[f"{k}.{lane} " for lane in range(lanes)] for k in range(n)], dtype=object)


@pytest.mark.parametrize("lanes", [1, 3, 600])
@pytest.mark.parametrize("name", ORDERS)
def test_the_additions_are_those_of_the_model(name, lanes):
    """Every tree, written down term by term, for lengths that do and do not divide."""
    order = order_named(name)
    for n in [*range(1, 40), 64, 65, 97, 100] if lanes < 600 else [1, 17, 33]:
        leaves = _leaves(n, lanes)
        result = total(order, _Written(), lambda first, stop, x=leaves: x[first:stop], n, lanes)
        assert (result == order.total(_Written(), lambda k, x=leaves: x[k], n)).all()


@pytest.mark.parametrize(("name", "most"), [("pairwise", 14), ("blocked(64)", 64 + 4096 // 64)])
def test_trees_take_few_calls(name, most):
    """Levels and blocks are added side by side: not one call a term."""
    written = _Written()
    leaves = _leaves(4096, 1)
    total(order_named(name), written, lambda first, stop: leaves[first:stop], 4096, 1)
    assert written.calls <= most


class _OwnAddition(Ieee):
    """An addition of its own: it must not get its parent's chain."""

    def add(self, a, b):
        return super().add(a, b) + 1.0


class _OwnRoom(Ieee):
    """The addition of its parent."""

    def empty(self, n):
        return super().empty(n)


def test_a_chain_belongs_to_its_addition():
    """A subclass that adds differently loses the chain, any other keeps it; without an addition by hand there is none."""
    assert may_chain(Ieee(BINARY64), 1) and may_chain(_OwnRoom(BINARY64), 1)
    assert not may_chain(_OwnAddition(BINARY64), 1)
    assert not may_chain(enclosure("numpy"), 1)
    graph = trace(lambda x: np.sum(x), {"x": np.ones(100)}, order="serial")
    assert evaluate(graph, _OwnAddition(BINARY64), {"x": np.ones(100)})[-2] == 199


class _OwnFused(Ieee):
    """A fused multiply-add of its own: its parent's chain of them is of another."""

    def fma(self, a, b, c):
        return super().fma(a, b, c) + 1.0


def test_a_fused_chain_belongs_to_its_fused_multiply_add():
    """The chain of additions is kept by a class that overrides the other operation."""
    assert may_chain(Ieee(BINARY64), 1, "fma") and may_chain(_OwnAddition(BINARY64), 1, "fma")
    assert not may_chain(_OwnFused(BINARY64), 1, "fma") and may_chain(_OwnFused(BINARY64), 1)
    assert not may_chain(enclosure("numpy"), 1, "fma")
    x = np.ones(100)
    graph = trace(lambda x: x @ x, {"x": x}, order="fma")
    assert evaluate(graph, _OwnFused(BINARY64), {"x": x})[-2] == 199


@pytest.mark.parametrize("n", [FEWEST_TERMS - 1, FEWEST_TERMS, 1000])
def test_fused_matrix_products_are_loops(n):
    """Lanes of a matrix product, in stretches that join, in binary64 and with an accumulator."""
    rng = np.random.default_rng(7)
    inputs = {"A": BINARY16.round(rng.standard_normal((3, n))), "B": BINARY16.round(rng.standard_normal((n, 5)))}
    for format, order in ((BINARY64, "fma"), (BINARY16, "fma:float32")):
        graph = trace(lambda A, B: A @ B, inputs, order=order)
        ieee, wide = Ieee(format), Ieee(BINARY64 if format == BINARY64 else BINARY32)
        computed = evaluate(graph, ieee, {name: ieee.constant(x) for name, x in inputs.items()})[-16:-1]
        A, B = (wide.constant(x) for x in inputs.values())
        total = wide.mul(A[:, :1], B[:1])
        for k in range(1, n):
            total = wide.fma(A[:, k : k + 1], B[k : k + 1], total)
        assert (computed == ieee.cast(total).ravel()).all()


def test_stretches_join():
    """A chain of several stretches, each joined to the sum before it, is the loop."""
    x = np.random.default_rng(3).standard_normal(3 * LANES_TOGETHER + 5)
    graph = trace(lambda x: np.sum(x), {"x": x}, order="serial")
    by_hand = x[0]
    for term in x[1:]:
        by_hand += term
    assert evaluate(graph, Ieee(BINARY64), {"x": x})[-2] == by_hand


def test_long_dot_products_are_numpy_loops():
    """Serial dot products of float16, float32 and float64 in NumPy's own types, in several lanes."""
    rng = np.random.default_rng(4)
    A, b = rng.standard_normal((3, 500)), rng.standard_normal(500)
    graph = trace(lambda A, b: A @ b, {"A": A, "b": b}, order="serial")
    for format, dtype in ((BINARY16, np.float16), (BINARY32, np.float32), (BINARY64, np.float64)):
        ieee = Ieee(format)
        computed = evaluate(graph, ieee, {"A": ieee.constant(A), "b": ieee.constant(b)})[-4:-1]
        products = A.astype(dtype) * b.astype(dtype)
        by_hand = products[:, 0]
        for column in products.T[1:]:
            by_hand = by_hand + column
        assert (computed == by_hand.astype(np.float64)).all()


@pytest.mark.parametrize("backend", ["crival", "numpy"])
@pytest.mark.parametrize("n", [FEWEST_TERMS - 1, FEWEST_TERMS, 100, 20_000])
def test_enclosures_of_long_sums_hold(backend, n):
    """Terms of all sizes that cancel: the exact sum lies within, and the enclosure is no wider than n ulps of the terms."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n) * 2.0 ** rng.integers(-30, 30, n)
    x[1::2] = -x[: n - n % 2 : 2] * (1 + 2.0**-50)
    graph = trace(lambda x: np.sum(x), {"x": x}, order="serial")
    arithmetic, dyadic = enclosure(backend), Dyadic()
    low, high = evaluate(graph, arithmetic, {"x": arithmetic.constant(x)})[:, -2]
    exact = fractions(evaluate(graph, dyadic, {"x": dyadic.constant(x)})[:, -2:-1])[0]
    assert exact == sum(map(Fraction, x.tolist()))
    assert low <= exact <= high
    assert high - low <= n * 2.0**-51 * np.abs(x).sum()


def test_exact_sums_go_by_halves():
    """The depth of an exact sum is logarithmic in a stretch, and lanes stay apart."""
    written = _Written()
    written.exact = True
    leaves = _leaves(64, 2)
    result = total(order_named("serial"), written, lambda first, stop: leaves[first:stop], 64, 2)
    assert written.calls == 6
    for lane in range(2):
        assert sorted(result[lane].replace("(", "").replace(")", "").split()) == sorted(
            f"{k}.{lane}" for k in range(64)
        )
