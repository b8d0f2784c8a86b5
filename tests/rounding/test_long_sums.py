"""Long dot products in every order: random trees, adversarial data, and the bounds by hand."""

import numpy as np
import pytest
from random_kernels import ManyDyadic, ManyEveryOrder, exceeds
from random_numbers import REGIMES
from random_trees import Program

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64, Ieee, format_named
from certify.graph import evaluate, trace, with_order
from certify.rounding import Region, point, running

FORMATS = ("float16", "bfloat16", "float32", "float64", "e4m3", "e5m2", "float16,ftz", "p=4,emin=-5,emax=30")


def _dot(k):
    return trace(lambda x, y: x @ y, {"x": np.ones(k), "y": np.ones(k)}, order="any-order")


def _bounds(graph, format, x, y, arithmetic=ManyEveryOrder):
    bounding = arithmetic(format, len(x))
    return evaluate(graph, bounding, {"x": bounding.enclose(x, x), "y": bounding.enclose(y, y)})


def _exact(graph, x, y):
    dyadic = ManyDyadic(len(x))
    return evaluate(graph, dyadic, {"x": dyadic.constant(x), "y": dyadic.constant(y)})


def _violations(format, order, states, programs, arithmetic=ManyEveryOrder, lengths=(2, 3, 5, 17, 40)):
    """Pairs of a state and a program whose dot product leaves its bound, and how many were tried."""
    rng, wrong, tried = np.random.default_rng(14), 0, 0
    for k in lengths:
        graph = with_order(_dot(k), order)
        draws = [draw(rng, format, (2, states, k)) for draw in (*REGIMES, _growing, _alternating)]
        x, y = np.concatenate(draws, axis=1)
        low, high, error, _ = _bounds(graph, format, x, y, arithmetic)[..., -2]
        exact = _exact(graph, x, y)[..., -2]
        proved = (low >= -format.largest) & (high <= format.largest) & np.isfinite(error)
        for _ in range(programs):
            computed = Program(graph, format, rng)({"x": x, "y": y})[:, -2]
            here = proved & np.isfinite(computed)
            wrong += int((proved & ~here).sum())
            wrong += int(((computed < low) | (computed > high))[here].sum())
            wrong += int(exceeds(exact[:, here], computed[here], error[here]).sum())
            tried += int(proved.sum())
    return wrong, tried


def _growing(rng, f, shape):
    """All of one sign: partial sums pass a power of two by their roundings alone."""
    return 1.0 - f.u * rng.integers(0, 3, shape)


def _alternating(rng, f, shape):
    """Terms that cancel to a small total."""
    return np.where(np.arange(shape[-1]) % 2, -1.0, 1.0) * (1.0 + f.u * rng.integers(-2, 3, shape))


@pytest.mark.parametrize("order", ["any-order", "any-order:float32"])
@pytest.mark.parametrize("name", FORMATS)
def test_long_dot_products_hold_for_random_programs(name, order):
    """Lengths up to 40, all regimes: enclosure, error and range of about 2,000 states under random programs."""
    if order == "any-order:float32" and not format_named("float32").contains(format_named(name)):
        order = "any-order:float64"
    wrong, tried = _violations(format_named(name), order, states=8, programs=4)
    assert wrong == 0
    assert tried >= 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_long_dot_products_hold_for_random_programs_longer(name):
    """20,000 pairs of a state and a program."""
    wrong, tried = _violations(format_named(name), "any-order", states=30, programs=15, lengths=(2, 3, 7, 24, 60))
    assert wrong == 0
    assert tried >= 20_000


class _Halved(ManyEveryOrder):
    """Half of the drift."""

    def _drift(self, *arguments):
        drift, linear = super()._drift(*arguments)
        return drift / 2, linear / 2


class _WithoutDrift(ManyEveryOrder):
    """h(M) without the drift: partial sums are no larger than the terms allow."""

    def _drift(self, largest, total, n, inner, loss, least):
        _, linear = super()._drift(largest, total, n, inner, loss, least)
        return inner * self._staircase(largest, loss, least), linear


def test_half_the_drift_is_caught():
    """Sums of one sign in a coarse format round up again and again."""
    assert _violations(format_named("e5m2"), "any-order", 30, 10, _Halved)[0] > 0


def test_a_partial_sum_that_drifts_over_a_power_of_two_is_covered():
    """Terms of total below 2 reach 2 by being rounded up, where the spacing doubles: (n - 1) h(M) is too small then.

    p = 5: 16 terms just above half the spacing below 2, then 7 just above half the spacing above it.
    """
    format = format_named("p=5,emin=-20,emax=20")
    x = np.array([1.0] + [17 / 512] * 16 + [17 / 256] * 7)
    graph = trace(lambda x: np.sum(x), {"x": x}, order="any-order")
    ieee = Ieee(format)
    computed = evaluate(with_order(graph, "serial"), ieee, {"x": x})[-2]
    off = abs(computed - x.sum())  # few bits: that sum is exact
    assert x.sum() < 2 < computed
    sound, mutant = (
        evaluate(graph, a(format, 1), {"x": a(format, 1).enclose(x, x)[:, None]})[2, 0, -2]
        for a in (ManyEveryOrder, _WithoutDrift)
    )
    assert mutant < off <= sound


@pytest.mark.parametrize("format", [BINARY16, BINARY32, BINARY64], ids=lambda f: f.name)
def test_the_bound_of_a_dot_product_by_hand(format):
    """Ten products in [-1, 1]: ten roundings of at most u / 2, and nine additions of at most 8 u."""
    ones = {"x": np.ones(10), "y": np.ones(10)}
    region = Region({name: -value for name, value in ones.items()}, ones, representable=True)
    error = running(_dot(10), format, region).error_of("0")
    # M = 10, in (8, 16]: h = 8 u
    by_hand = format.u * (10 / 2 + 9 * 8)
    assert by_hand <= error * (1 + 2.0**-40)
    assert error <= by_hand * (1 + 2.0**-40)


def test_no_quadratic_term():
    """1,000 products of one sign in binary32: less than k u sum |a b|, where the classical bound has k u / (1 - k u)."""
    rng = np.random.default_rng(16)
    x, y = np.abs(BINARY32.round(rng.standard_normal((2, 1000))))
    error = running(_dot(1000), BINARY32, point({"x": x, "y": y})).error_of("0")
    assert error < 1000 * BINARY32.u * float(x @ y)


def test_sums_too_long_for_the_staircase_have_the_linear_bound():
    """2,000 terms in bfloat16, n u = 8: (n - 1) u sum |x| all the same, and it holds for serial sums."""
    graph = trace(lambda x: np.sum(x), {"x": np.ones(2000)}, order="any-order")
    x = np.ones(2000)
    error = running(graph, BFLOAT16, point({"x": x})).error_of("0")
    assert error == pytest.approx(1999 * BFLOAT16.u * 2000, rel=1e-9)
    assert error >= 2000 - 256  # what serial summation loses: it stops at 2**p = 256


def test_the_enclosure_of_a_sum_of_zeros_is_zero():
    """Terms whose computed value is 0 add nothing and count for nothing."""
    graph = _dot(8)
    x = np.zeros(8)
    x[3] = 3.0
    bounds = running(graph, BINARY16, point({"x": x, "y": np.full(8, 7.0)}))
    assert bounds.error_of("0") <= 2.0**-7 * (1 + 2.0**-40)  # of the one product, 21, as if it were rounded
    assert (bounds.low[-2], bounds.high[-2]) == (21.0, 21.0)


def test_no_tree_overflows_where_the_range_is_proved():
    """60000 - 60000 + 60000 - 60000 in binary16: serial stays in range, another order does not."""
    graph = trace(lambda x: np.sum(x), {"x": np.ones(4)}, order="serial")
    region = point({"x": np.array([60000.0, -60000.0, 60000.0, -60000.0])})
    assert running(graph, BINARY16, region).first_overflow() is None
    assert running(with_order(graph, "any-order"), BINARY16, region).first_overflow() == 4
    assert running(with_order(graph, "any-order:float32"), BINARY16, region).first_overflow() is None
