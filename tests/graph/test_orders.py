"""Order models: names, the trees they mean, emulation, accumulators, exact evaluation, lowering."""

import re

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32, BINARY64, Ieee, enclosure
from certify.arithmetic.dyadic import Dyadic, fractions
from certify.errors import InputRejected, OrderUnspecified
from certify.graph import Graph, Op, evaluate, lower, order_named, trace, with_order
from certify.graph.orders import blocked, pairwise, serial
from certify.rounding import point, running

NAMES = (
    "serial",
    "pairwise",
    "blocked(4)",
    "fma",
    "any-order",
    "serial:float32",
    "any-order:float64",
    "blocked(16):float32",
)


class _Written:
    """An arithmetic that writes sums down."""

    def add(self, a, b):
        return f"({a}{b})"


def _written(order, n):
    return order(_Written(), lambda k: "abcdefghijkl"[k], n)


@pytest.mark.parametrize(
    ("order", "n", "expected"),
    [
        (serial, 4, "(((ab)c)d)"),
        (pairwise, 1, "a"),
        (pairwise, 3, "(a(bc))"),
        (pairwise, 5, "((ab)(c(de)))"),
        (lambda *a: blocked(*a, 3), 8, "((((ab)c)((de)f))(gh))"),
        (lambda *a: blocked(*a, 3), 2, "(ab)"),
        (lambda *a: blocked(*a, 1), 3, "((ab)c)"),
    ],
)
def test_the_trees_of_the_models(order, n, expected):
    """As their docstrings say, for lengths that do and do not divide."""
    assert _written(order, n) == expected


@pytest.mark.parametrize("name", NAMES)
def test_names_are_canonical(name):
    """A model knows its name, and the name the model; claims can carry it in their ids."""
    order = order_named(name)
    assert order.name == name
    assert order_named(order.program.name).is_any is False
    assert re.fullmatch(r"[A-Za-z0-9._/()=:+,-]+", name)


@pytest.mark.parametrize(
    "name", ["", "random", "blocked", "blocked(0)", "blocked(-1)", "serial:float7", "serial:", "fma(2)"]
)
def test_unknown_models_are_refused(name):
    """The known ones are listed."""
    with pytest.raises(
        InputRejected, match=re.escape(f"there is no order model {name!r}; use one of serial, pairwise")
    ):
        order_named(name)


def _graph(order: str | None, k: int = 11) -> Graph:
    return trace(
        lambda A, x: {"dot": A @ x, "sum": np.sum(A, axis=1)}, {"A": np.ones((3, k)), "x": np.ones(k)}, order=order
    )


def _inputs(k=11):
    rng = np.random.default_rng(2)
    return {"A": rng.standard_normal((3, k)), "x": rng.standard_normal(k)}


def _values(graph, format):
    ieee = Ieee(format)
    values = evaluate(graph, ieee, {name: ieee.constant(x) for name, x in _inputs().items()})
    return [values[graph.outputs[name].ids].astype(np.float64) for name in ("dot", "sum")]


def test_emulated_orders_against_plain_loops():
    """binary32, whose operations NumPy has: serial, pairwise and blocked by loops over float32."""
    A, x = (v.astype(np.float32) for v in _inputs().values())
    terms = [A[:, k] * x[k] for k in range(11)]

    def added(parts):
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def halves(parts):
        n = len(parts)
        return parts[0] if n == 1 else halves(parts[: n // 2]) + halves(parts[n // 2 :])

    expected = {"serial": added(terms), "pairwise": halves(terms)}
    expected["blocked(4)"] = added([added(terms[:4]), added(terms[4:8]), added(terms[8:])])
    for name, result in expected.items():
        assert _values(_graph(name), BINARY32)[0].tolist() == result.tolist()


@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_accumulators_against_numpy(wide):
    """binary16 products, exact in either accumulator, added there and rounded once at the end."""
    dtype = np.dtype(wide).type
    A, x = (v.astype(np.float16).astype(dtype) for v in _inputs().values())
    total = A[:, 0] * x[0]
    sums = A[:, 0]
    for k in range(1, 11):
        total, sums = total + A[:, k] * x[k], sums + A[:, k]
    for order in (f"serial:{wide}", f"fma:{wide}"):
        dot, plain = _values(_graph(order), BINARY16)
        assert dot.tolist() == total.astype(np.float16).tolist()
        assert plain.tolist() == sums.astype(np.float16).tolist()


def test_fused_sums_of_binary32_against_binary64():
    """s + a b is exact enough in binary64 that odd rounding there and then one to binary32 is the fused operation."""
    A, x = (v.astype(np.float32).astype(np.longdouble) for v in _inputs().values())
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("no extended precision here")
    total = (A[:, 0] * x[0]).astype(np.float32)
    for k in range(1, 11):
        total = (total.astype(np.longdouble) + A[:, k] * x[k]).astype(np.float32)
    assert _values(_graph("fma"), BINARY32)[0].tolist() == total.astype(np.float64).tolist()


def test_exact_values_do_not_depend_on_the_order():
    """Dyadics and enclosures evaluate every order, any-order and accumulators included."""
    inputs, results = _inputs(), []
    for name in NAMES:
        graph, dyadic, outward = _graph(name), Dyadic(), enclosure("numpy")
        exact = fractions(evaluate(graph, dyadic, {n: dyadic.constant(v) for n, v in inputs.items()})[:, -7:-1])
        results.append(exact.tolist())
        low, high = evaluate(graph, outward, {n: outward.constant(v) for n, v in inputs.items()})[:, -7:-1]
        assert all(a <= x <= b for a, x, b in zip(low.tolist(), exact.tolist(), high.tolist(), strict=True))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("name", ["any-order", "any-order:float32", None])
def test_what_is_no_single_program_is_not_emulated(name):
    """The sum is named, and the remedy."""
    with pytest.raises(OrderUnspecified, match=r"the sum at .* has no order; trace the kernel with an order"):
        _values(_graph(name), BINARY16)


def test_a_sum_without_an_order_has_no_running_bound():
    """Any order has to be asked for."""
    with pytest.raises(OrderUnspecified, match="has no order"):
        running(_graph(None), BINARY32, point(_inputs()))


@pytest.mark.parametrize("name", ["serial", "pairwise", "blocked(4)"])
def test_lowering_a_program_changes_no_bit(name):
    """The scalar program computes what the order model does, in 3 (2 k - 1) + 3 (k - 1) operations."""
    graph = _graph(name)
    program = lower(graph)
    assert program.n_operations == graph.n_operations == 3 * 21 + 3 * 10
    assert {Op.SUM, Op.DOT}.isdisjoint(i.op for i in program.instructions())
    for a, b in zip(_values(graph, BINARY64), _values(program, BINARY64), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize(
    ("name", "error"), [("fma", InputRejected), ("serial:float32", InputRejected), ("any-order", OrderUnspecified)]
)
def test_what_a_graph_cannot_spell_is_not_lowered(name, error):
    """Fused operations, other formats, and no single program."""
    with pytest.raises(error, match=r"no order|cannot name"):
        lower(_graph(name))


def test_an_accumulator_that_is_too_narrow_is_refused():
    """binary64 in binary32."""
    for evaluation in (lambda g: _values(g, BINARY64), lambda g: running(g, BINARY64, point(_inputs()))):
        with pytest.raises(InputRejected, match="the accumulator float32 cannot hold every number of float64"):
            evaluation(with_order(_graph(None), "serial:float32"))
