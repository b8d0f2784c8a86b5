"""Quotients and square roots of every format, against rationals: correctly rounded, subnormal and overflowing ones too."""

import math
from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32, Ieee, format_named
from certify.arithmetic.elementary import nearest

NAMES = (
    "float16",
    "bfloat16",
    "tf32",
    "float32",
    "float64",
    "e4m3",
    "e5m2",
    "float16,ftz",
    "e4m3,saturate",
    "p=24,emin=-3,emax=100",
    "p=5,emin=-3,emax=4",
)


def numbers(format, rng, count):
    """Numbers of the format: any exponent, subnormal, near 1, short significands."""
    sign = rng.choice([-1.0, 1.0], count)
    low = format.emin - format.precision + 1
    kinds = [
        np.ldexp(rng.uniform(1, 2, count), rng.integers(low, format.emax, count)),
        rng.integers(1, 2 ** min(format.precision, 20), count) * format.min_subnormal,
        rng.uniform(0.5, 2, count),
        np.ldexp(rng.integers(1, 32, count).astype(float), rng.integers(-3, 4, count)),
    ]
    x = format.unbounded.round(sign * np.choose(rng.integers(len(kinds), size=count), kinds))
    return np.clip(np.where(x == 0, format.min_normal, x), -format.largest, format.largest)


def root(x: Fraction, format) -> float:
    """The square root of a number of the format, rounded: from integers, with a sticky bit."""
    shift = 2 * 600
    scaled = (x.numerator << shift) // x.denominator  # x is dyadic and not that small: exact
    floor = math.isqrt(scaled)
    exact = Fraction(2 * floor + (floor * floor != scaled), 2 << (shift // 2))
    return nearest(exact, format)


def exactly(format, quotients, xs, ys):
    """The rounded results by rationals."""
    if quotients:
        return [nearest(Fraction(x) / Fraction(y), format) for x, y in zip(xs, ys, strict=True)]
    return [root(Fraction(x), format) for x in xs]


@pytest.mark.parametrize("count", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_quotients_and_roots_are_correctly_rounded(name, count):
    """Sampled operands; NaN where the format has no infinity."""
    format, rng = format_named(name), np.random.default_rng(1)
    ieee = Ieee(format)
    x, y = numbers(format, rng, count), numbers(format, rng, count)
    positive = np.abs(numbers(format, rng, count))
    with np.errstate(all="ignore"):
        quotients = ieee.div(ieee.constant(x), ieee.constant(y)).astype(float)
        roots = ieee.sqrt(ieee.constant(positive)).astype(float)
    np.testing.assert_array_equal(quotients, exactly(format, True, x.tolist(), y.tolist()))
    np.testing.assert_array_equal(roots, exactly(format, False, positive.tolist(), None))


def test_every_root_of_the_16_bit_formats():
    """All positive numbers of float16, and NumPy's own."""
    x = np.arange(1, 0x7C00, dtype=np.uint16).view(np.float16)
    ours = Ieee(BINARY16).sqrt(x.astype(float))
    np.testing.assert_array_equal(ours, np.sqrt(x).astype(float))
    np.testing.assert_array_equal(ours, exactly(BINARY16, False, x.astype(float).tolist(), None))


def test_quotients_of_float16_are_numpys():
    """200,000 pairs, all exponents."""
    rng = np.random.default_rng(2)
    x, y = (rng.integers(1, 0x7C00, 200_000).astype(np.uint16).view(np.float16) for _ in range(2))
    with np.errstate(all="ignore"):
        theirs = (x / y).astype(float)
    np.testing.assert_array_equal(Ieee(BINARY16).div(x.astype(float), y.astype(float)), theirs)


def test_the_hardware_of_float32_agrees_with_the_emulation():
    """binary32 computed in binary64 and rounded once more: the same numbers."""
    rng = np.random.default_rng(3)
    x, y = numbers(BINARY32, rng, 50_000), numbers(BINARY32, rng, 50_000)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(BINARY32.round(x / y), (x.astype(np.float32) / y.astype(np.float32)))
        np.testing.assert_array_equal(BINARY32.round(np.sqrt(np.abs(x))), np.sqrt(np.abs(x.astype(np.float32))))


def test_undefined_quotients_and_roots():
    """1 / 0 is infinite, 0 / 0 and the root of -1 are NaN; a saturating format has neither."""
    ieee = Ieee(BINARY16)
    with np.errstate(all="ignore"):
        assert ieee.div(np.array([1.0, -1.0]), np.zeros(2)).tolist() == [np.inf, -np.inf]
        assert np.isnan(ieee.div(np.zeros(1), np.zeros(1))).all()
        assert np.isnan(ieee.sqrt(np.array([-1.0]))).all()
        assert Ieee(format_named("e4m3,saturate")).div(np.ones(1), np.zeros(1)).tolist() == [448.0]
