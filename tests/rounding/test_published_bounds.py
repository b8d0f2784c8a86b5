"""Bounds that other tools print, digit for digit, and small ones derived by hand."""

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32, BINARY64
from certify.graph import trace
from certify.rounding import Region, point, running


def _box(names, shape, low, high):
    return Region({n: np.full(shape, low) for n in names}, {n: np.full(shape, high) for n in names}, True)


@pytest.mark.parametrize(("n", "printed"), [(10, "4.663e-15"), (100, "4.129e-13"), (1000, "3.750e-11")])
def test_serial_dot_product_matches_gappa(n, printed):
    """Gappa's bound of a serial binary64 dot product of inputs in [-1, 1], all printed digits (polyprox.md 3)."""
    graph = trace(lambda x, y: x @ y, {"x": np.ones(n), "y": np.ones(n)}, order="serial")
    assert f"{running(graph, BINARY64, _box('xy', n, -1.0, 1.0)).error_of('0'):.3e}" == printed


@pytest.mark.parametrize(("n", "printed"), [(4, "2.429e-17"), (8, "6.245e-17"), (16, "1.527e-16"), (32, "5.274e-16")])
def test_matrix_polynomial_matches_gappa_and_fptaylor(n, printed):
    """S S + 2 S for inputs in [0, 0.1], every entry (polyprox.md 3)."""
    graph = trace(lambda S: S @ S + 2 * S, {"S": np.ones((n, n))}, order="serial")
    error = running(graph, BINARY64, _box("S", (n, n), 0.0, 0.1)).error_of("0")
    assert error.min() == error.max()
    assert f"{error.max():.3e}" == printed


@pytest.mark.parametrize(
    ("high", "expected"),
    [
        (0.01, 2.0**-25),  # |x y| <= 1.0004e-4 in (2**-14, 2**-13]: half an ulp is 2**-25, as much as omega
        (0.02, 2.0**-23),  # up to 4e-4 in (2**-12, 2**-11]
        (0.005, 2.0**-25),  # up to 2.5e-5 < 2**-14: the subnormal term omega
        (0.0001, float(np.float16(0.0001)) ** 2),  # up to 1.0e-8 < omega: 0 is a neighbour, nothing moves further
    ],
)
def test_product_has_the_subnormal_term_of_binary16(high, expected):
    """x y on [0, high]**2, representable inputs: half the smallest subnormal where the product is subnormal."""
    graph = trace(lambda x, y: x * y, {"x": 1.0, "y": 1.0}, order="serial")
    error = running(graph, BINARY16, _box("xy", (), 0.0, high)).error_of("0")
    assert expected <= error <= expected * (1 + 2.0**-49)


def test_conversion_of_a_point_is_its_own_error():
    """0.1 in binary32 is off by |0.1 - fl(0.1)|, and twice that after an exact doubling."""
    graph = trace(lambda x: {"once": x, "twice": 2 * x}, {"x": 1.0}, order="serial")
    bounds = running(graph, BINARY32, point({"x": 0.1}))
    conversion = abs(float(np.float32(0.1)) - 0.1)
    assert bounds.error_of("once") == conversion
    assert bounds.error_of("twice") == 2 * conversion


def test_overwrite_of_one_by_a_tiny_number_loses_it():
    """fl(1 + fl(y - 1)) with y = 2**-30 returns 0 in binary32 and the bound is within twice the error (section 9)."""
    graph = trace(lambda x, y: x + (y - x), {"x": 1.0, "y": 1.0}, order="serial")
    bounds = running(graph, BINARY32, point({"x": 1.0, "y": 2.0**-30}))
    assert bounds.low[bounds.graph.outputs["0"].ids] == 0
    assert 2.0**-30 <= bounds.error_of("0") <= 2.0**-24


def test_clearing_and_known_zeros_carry_no_error():
    """x - x, 0 x and outputs that are known zeros have error 0."""
    graph = trace(lambda x: {"a": x - x, "b": 0 * x, "c": x}, {"x": np.ones(2)}, order="serial")
    bounds = running(graph, BINARY16, point({"x": np.array([0.1, 3.0])}))
    assert not bounds.error_of("a").any() and not bounds.error_of("b").any()
    assert (bounds.error_of("c") == [abs(0.1 - float(np.float16(0.1))), 0]).all()
