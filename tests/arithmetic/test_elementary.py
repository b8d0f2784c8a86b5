"""exp, log, tanh and sigmoid: enclosures and correctly rounded values, against mpmath."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY64, elementary, format_named
from certify.arithmetic.elementary import between, correctly_rounded, grown, nearest
from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.libm import CALLS

PRECISELY = {
    "exp": mpmath.exp,
    "log": mpmath.log,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: mpmath.exp(x) / (1 + mpmath.exp(x)) if x < 0 else 1 / (1 + mpmath.exp(-x)),
}


def reference(name: str, x: float) -> Fraction:
    """The function at x, to far more bits than matter."""
    with mpmath.workprec(1200):
        sign, significand, exponent, _ = PRECISELY[name](mpmath.mpf(x))._mpf_
        value = Fraction(int(significand)) * Fraction(2) ** int(exponent)
    return -value if sign else value


def arguments(name, format, rng, count):
    """Numbers of the format where the function varies, tiny ones, and such that its values are subnormal or overflow."""
    least, largest = np.log(2) * (format.emin - format.precision - 2), np.log(2) * (format.emax + 2)
    kinds = [
        rng.standard_normal(count),
        rng.uniform(least, largest, count),
        rng.standard_normal(count) * format.u,
        rng.standard_normal(count) * format.u**2,
        rng.integers(-9, 10, count) * format.min_subnormal,
        1 + rng.integers(-9, 10, count) * 2 * format.u,
        rng.uniform(-25, 25, count),
    ]
    x = format.unbounded.round(np.choose(rng.integers(len(kinds), size=count), kinds))
    x = x[np.isfinite(x)]
    return np.abs(x[x != 0]) if name == "log" else x


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", ["float16", "bfloat16", "float32", "float64", "e4m3", "e5m2", "float16,ftz"])
@pytest.mark.parametrize("name", CALLS)
def test_values_are_correctly_rounded(name, format, count):
    """In every format, subnormal results and overflow included."""
    format = format_named(format)
    x = arguments(name, format, np.random.default_rng(4), count)
    expected = [nearest(reference(name, t), format) for t in x.tolist()]
    np.testing.assert_array_equal(correctly_rounded(name, x, format), expected)


@pytest.mark.parametrize("name", CALLS)
def test_every_number_of_float16(name):
    """All finite arguments of 16 bits: an enclosure by balls decides each as crival's does."""
    x = np.arange(1 if name == "log" else 0, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(float)
    x = x if name == "log" else np.concatenate([x, -x])
    balls = elementary._by_balls(name, x, x)
    np.testing.assert_array_equal(BINARY16.round(balls[0]), correctly_rounded(name, x, BINARY16))


@pytest.mark.parametrize("backend", ["crival", "balls"])
@pytest.mark.parametrize("name", CALLS)
def test_enclosures_contain_the_exact_values(name, backend, monkeypatch):
    """At points and over intervals, in both backends; and they are narrow."""
    if backend == "balls":
        monkeypatch.setattr(elementary, "_interval", lambda: False)
    x = np.sort(arguments(name, BINARY64, np.random.default_rng(5), 200))
    x = np.append(x, [1e-300, 1e300] if name == "log" else [1e-300, 1e300, -1e300, 0.0, -0.0])
    low, high = between(name, x, x)
    least, largest = between(name, np.minimum(x[1:], x[:-1]), np.maximum(x[1:], x[:-1]))
    known = np.nonzero((np.abs(x) < 1e5) | (name == "log"))[0].tolist()
    exact = {k: reference(name, float(x[k])) for k in known}
    for k, value in exact.items():
        assert Fraction(low[k]) <= value and (high[k] == np.inf or value <= Fraction(high[k])), x[k]
        for j in {max(k - 1, 0), min(k, len(least) - 1)}:  # the two intervals that end there
            assert Fraction(least[j]) <= value and (largest[j] == np.inf or value <= Fraction(largest[j])), x[k]
    narrow = step_up(step_up(step_up(step_up(low)))) >= step_down(high)
    assert (narrow | (low > 1e308)).all()


@pytest.mark.parametrize("backend", ["crival", "balls"])
def test_growth_is_bounded_from_above(backend, monkeypatch):
    """exp(x) - 1, from the smallest number to overflow; 0 at 0."""
    if backend == "balls":
        monkeypatch.setattr(elementary, "_interval", lambda: False)
    x = np.array([0.0, 5e-324, 1e-300, 1e-17, 1e-3, 0.5, 1.0, 30.0, 700.0, 750.0, 1e300])
    upper = grown(x)
    assert upper[0] == 0 and (upper[1:] >= x[1:]).all() and np.isinf(upper[-2:]).all()
    with mpmath.workprec(2000):
        for t, bound in zip(x[1:-2].tolist(), upper[1:-2].tolist(), strict=True):
            assert mpmath.mpf(bound) >= mpmath.expm1(mpmath.mpf(t))
            assert bound <= step_up(step_up(np.array(float(mpmath.expm1(mpmath.mpf(t))))))


def test_arguments_without_a_finite_value():
    """As IEEE has them."""
    ends = np.array([-np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(correctly_rounded("exp", ends, BINARY16), [0, np.inf, np.nan])
    np.testing.assert_array_equal(correctly_rounded("tanh", ends, BINARY16), [-1, 1, np.nan])
    np.testing.assert_array_equal(correctly_rounded("sigmoid", ends, BINARY16), [0, 1, np.nan])
    np.testing.assert_array_equal(correctly_rounded("log", [-1.0, 0.0, np.inf], BINARY16), [np.nan, -np.inf, np.inf])
    np.testing.assert_array_equal(correctly_rounded("exp", [1e4], format_named("e4m3,saturate")), [448.0])
    assert np.isnan(correctly_rounded("exp", [1e4], format_named("e4m3")))[0]


def test_exact_values():
    """exp(0), log(1), tanh(0) and sigmoid(0), where no precision would decide."""
    for name, x, value in (("exp", 0, 1), ("log", 1, 0), ("tanh", 0, 0), ("sigmoid", 0, 0.5)):
        at = np.array([float(x)])
        assert correctly_rounded(name, at, BINARY64) == value
        assert (between(name, at, at) == value).all()
