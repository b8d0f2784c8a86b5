"""Compiled loops give NumPy's numbers: ends, errors and peaks bit for bit, but for the signs of zeros."""

import subprocess
import sys

import numpy as np
import pytest
from own_format_cases import NARROW, OWN, own_case
from random_kernels import REGISTERS
from random_numbers import REGIMES

from certify.arithmetic import BINARY16, BINARY64, errorfree, format_named
from certify.graph import chains, order_named, trace
from certify.rounding import Region, Running, ball, compiled, local, point, running, running_batch
from certify.rounding.anyorder import EveryOrder
from certify.rounding.batch import _Runs

loops = pytest.importorskip(
    "certify.rounding.loops", reason="the extra `compiled` is not installed", exc_type=ImportError
)

FORMATS = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "tf32",
    "e5m2",
    "e4m3",
    "float16,saturate",
    "p=4,emin=-5,emax=30",
)
ORDERS = ("serial", "pairwise", "blocked(1)", "blocked(3)", "blocked(20)", "blocked(64)", "fma")
SHAPES = (
    (1, 1, 1),
    (2, 3, 2),
    (17, 1, 1),
    (40, 1, 1),
    (40, 3, 5),
    (33, 20, 20),
    (5, 1, 700),
    (20, 2, 300),
    (9000, 1, 1),
)


@pytest.fixture
def used(monkeypatch):
    """Every product goes through the loops that can; the list says how often one did."""
    loops.load()
    compiled._loaded()
    used = []
    for name in ("ordered_dot", "fused_dot", "sums_of_products"):
        whole = getattr(loops, name)

        def noted(*arguments, whole=whole, name=name):
            used.append(name)
            return whole(*arguments)

        monkeypatch.setattr(loops, name, noted)
    with compiled.always(True):
        yield used


def _factors(rng, format, states, terms, lanes):
    """Enclosures in one regime, some of them points, some of errors 0; shape (3, states, terms, lanes)."""
    draw = REGIMES[rng.integers(len(REGIMES))]
    x = draw(rng, format.unbounded, (states, terms, lanes))
    wide = np.abs(x) * rng.choice([0.0, rng.choice([0.0, 2.0**-8, 0.5])], x.shape)
    with np.errstate(over="ignore"):
        low, high = (format.unbounded.round(np.clip(y, -format.largest, format.largest)) for y in (x - wide, x + wide))
    return np.stack([low, high, np.abs(x) * rng.choice([0.0, 2.0**-20, 2.0**-3], x.shape)])


def _product(arithmetic, order, a, b):
    with np.errstate(all="ignore"):
        return chains.matrix_product(order, arithmetic, a, b)


def _without_loops(function, *arguments):
    with compiled.always(False):
        return function(*arguments)


def _same(x, y):
    return np.array_equal(x, y, equal_nan=True)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FORMATS)
def test_products_are_those_of_numpy(name, order, used):
    """In every regime, of one state and of several; where nothing overflows the loops are used, and elsewhere NumPy's rules."""
    format, order, rng = format_named(name), order_named(order), np.random.default_rng(61)
    finite = 0
    for shape in SHAPES:
        terms, rows, columns = shape
        for _ in range(2 if terms > 1000 else 12):
            states = int(rng.choice([1, 1, 3]))
            scale = rng.choice([1.0, 1.0, 2.0**-6])
            a, b = (scale * _factors(rng, format, states, terms, lanes) for lanes in (rows, columns))
            a, b = (np.concatenate([format.unbounded.round(v[:2]), v[2:]]) for v in (a, b))
            each = [_Runs(format, Running(format).libm, states) for _ in range(2)]
            if states == 1:
                a, b, each = a[:, 0], b[:, 0], [Running(format), Running(format)]
            before = len(used)
            result = _product(each[0], order, a, b)
            in_loops = len(used) - before
            expected = _without_loops(_product, each[1], order, a, b)
            assert _same(result, expected)
            peaks = [np.asarray(getattr(arithmetic, "peaks" if states > 1 else "peak")) for arithmetic in each]
            assert _same(*peaks)
            chained = terms >= 16 and chains.may_chain(each[0], rows * columns)
            tree = order.kind == "pairwise" or 0 < order.size < terms
            left_to_numpy = tree and (terms > 4096 or (chained and order.kind == "blocked"))
            assert in_loops == (np.isfinite(a).all() and np.isfinite(b).all() and not left_to_numpy)
            finite += bool(np.isfinite(result).all())
    assert finite > 20


@pytest.mark.parametrize("name", FORMATS)
def test_products_in_any_order_are_those_of_numpy(name, used):
    """Ends, errors and flags; carried errors are one matrix product in both."""
    format, rng = format_named(name), np.random.default_rng(62)
    finite = 0
    for terms, rows, columns in SHAPES:
        for _ in range(2 if terms > 1000 else 15):
            scale = rng.choice([1.0, 1.0, 2.0**-6])
            a, b = (scale * _factors(rng, format, 1, terms, lanes)[:, 0] for lanes in (rows, columns))
            a, b = (np.concatenate([format.unbounded.round(v[:2]), v[2:], np.zeros_like(v[:1])]) for v in (a, b))
            live = np.full(rows * columns, terms)
            before, arithmetic = len(used), EveryOrder(format)
            with np.errstate(all="ignore"):
                result = arithmetic.dot(a, b, live)
                expected = _without_loops(EveryOrder(format).dot, a, b, live)
            assert len(used) - before == (np.isfinite(a).all() and np.isfinite(b).all())
            assert _same(result, expected)
            finite += bool(np.isfinite(result).all())
    assert finite > 20


@pytest.mark.parametrize(
    "order", ["serial", "pairwise", "fma", "any-order", "serial:float32", "fma:float64", "blocked(4):float64"]
)
@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16,ftz"])
def test_bounds_of_programs_are_those_of_numpy(name, order, used):
    """Accumulators, registers of formats of their own, overwritten registers, flushing; one region and a batch of them."""
    format, rng = format_named(name), np.random.default_rng(63)
    if ":" in order and not format_named(order.split(":")[1]).contains(format):
        return

    def kernel(A, B, x):
        y = A @ (B @ x)
        C = A @ B
        return {"y": y, "C": C @ C + A, "z": y + (x - y)}

    inputs = {"A": rng.standard_normal((9, 9)) / 4, "B": rng.standard_normal((9, 9)) / 4, "x": rng.standard_normal(9)}
    graph = trace(kernel, inputs, order=order)
    regions = [ball(inputs, "A", radius) for radius in (0.0, 1e-3, 100.0)] + [
        ball({**inputs, "x": 0 * inputs["x"]}, "x", 0.0)
    ]

    def found():
        return [*(running(graph, format, region) for region in regions), *running_batch(graph, format, regions)]

    for one, other in zip(found(), _without_loops(found), strict=True):
        for row in ("low", "high", "error"):
            assert _same(getattr(one, row), getattr(other, row))
        assert _same(np.array(one.peak), np.array(other.peak))
    assert used or "ftz" in name


@pytest.mark.parametrize("order", ["serial", "pairwise", "fma", "any-order", "serial:float64"])
def test_bounds_of_registers_with_formats_of_their_own_are_those_of_numpy(order, used):
    """Operands of wider formats, products that are exact, and results that round twice; of small integers errors are 0."""
    format, compared = format_named("float16"), 0
    for seed in range(60):
        graph, regions, what = own_case(seed, format, 2, 2, order, NARROW if ":" in order else OWN)

        def found(graph=graph, regions=regions):
            ends = [[dict(zip(REGISTERS, end, strict=True)) for end in (box.lower, box.upper)] for box in regions]
            return [running(graph, format, Region(*pair)) for pair in ends]

        for one, other in zip(found(), _without_loops(found), strict=True):
            assert all(_same(getattr(one, row), getattr(other, row)) for row in ("low", "high", "error")), what
            assert _same(np.array(one.peak), np.array(other.peak)), what
            compared += 1
    assert compared == 240 and used


def test_exact_products_and_sums_have_no_error(used):
    """Integers that the accumulator holds: nothing is rounded, and nothing is added for what could be."""
    x = np.arange(1.0, 17.0).reshape(4, 4)
    graph = trace(lambda x: x @ x, {"x": x}, order="serial:float32")
    bounds, by_numpy = (
        running(graph, BINARY16, point({"x": x})),
        _without_loops(running, graph, BINARY16, point({"x": x})),
    )
    assert used and np.array_equal(bounds.error, by_numpy.error)


def test_products_of_nothing_are_left_to_numpy(used):
    """No terms, no lanes, no states: there is nothing to compute, and NumPy's rules say what that is."""
    for shape in ((3, 0, 2), (3, 2, 0), (3, 0, 2, 2)):
        for order in ("serial", "fma", "blocked(2)"):
            assert Running(BINARY64).ordered_dot(np.zeros(shape), np.zeros(shape), order_named(order), 0) is None
    assert not used


@pytest.mark.parametrize("at", [0.05, 0.4, 1.0])
def test_an_interruption_is_one(at):
    """Ctrl-C ends a long product, or waits until the loops are loaded; what comes next works."""
    code = f"""
import os, signal, threading, time
import numpy as np
from certify.arithmetic import BINARY64
from certify.graph import order_named
from certify.rounding import Running, compiled

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
compiled.LOADING = 0
a = np.ones((3, 900, 700))
if {at} > 0.1:
    compiled.selftest()
threading.Timer({at}, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.perf_counter()
try:
    for _ in range(100):
        Running(BINARY64).ordered_dot(a, a, order_named("serial"), 0)
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - start < {at} + 10)
print(compiled.selftest())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout.split() == ["interrupted", "True", "True"], done.stderr


@pytest.mark.parametrize("failure", [ImportError, OSError, AttributeError, RuntimeError, SyntaxError, ValueError])
def test_without_loops_that_can_be_loaded_numpy_computes(failure, monkeypatch):
    """Whatever is wrong with numba or with what it has kept."""

    def failing():
        raise failure("broken")

    compiled._loaded.cache_clear()
    monkeypatch.setattr(loops, "load", failing)
    a = np.ones((3, 8, 8))
    with compiled.always(True):
        assert Running(BINARY64).ordered_dot(a, a, order_named("serial"), 0) is None
        assert compiled.selftest() is None
    compiled._loaded.cache_clear()


def test_loops_have_the_constants_of_the_rules():
    """Written out there, since what is compiled is kept until that file changes."""
    for name in ("LOW", "HIGH", "ERROR", "UP", "TINY", "EXPONENT", "MANTISSA"):
        assert getattr(loops, name) == getattr(local, name)
    assert loops._SPLIT == errorfree._SPLIT


def test_loops_are_loaded_once_they_pay(monkeypatch):
    """Not before so many products have been asked for; every matrix product counts as some more."""
    monkeypatch.setattr(compiled, "_asked_for", 0)
    monkeypatch.setattr(compiled, "LOADING", 10 * (64 * 8 * 4 + compiled._BEGINNING))
    arithmetic, a, b = Running(BINARY16), np.ones((3, 64, 8)), np.ones((3, 64, 4))
    asked = [arithmetic.ordered_dot(a, b, order_named("serial"), 0) is not None for _ in range(12)]
    assert asked == [False] * 9 + [True] * 3


def test_an_arithmetic_of_other_rules_is_not_compiled(used):
    """A class that changes a rule the loops write out keeps its own."""

    class Other(Running):
        def _half_ulp(self, m):
            return 2.0 * super()._half_ulp(m)

    a = np.random.default_rng(64).standard_normal((3, 64, 8)) ** 2
    assert Other(BINARY64).ordered_dot(a, a, order_named("serial"), 0) is None and not used
    assert Running(BINARY64).ordered_dot(a, a, order_named("serial"), 0) is not None and used


def test_the_selftest_sees_a_contraction(monkeypatch):
    """It passes here, and would not if a compiler fused a product into a sum."""
    assert compiled.selftest() is True
    whole = loops.ordered_dot

    def contracted(a, b, start, stop, result, *numbers):
        whole(a, b, start, stop, result, *numbers)
        result[2] *= 1 - 2.0**-53

    monkeypatch.setattr(loops, "ordered_dot", contracted)
    assert compiled.selftest() is False
    monkeypatch.setattr(compiled, "_loaded", lambda: None)
    assert compiled.selftest() is None
