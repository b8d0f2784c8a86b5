"""Error-free transformations against Fractions, to the extremes of binary64."""

from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic.errorfree import product_exceeds, sum_error

BIG, TINY = 1.7976931348623157e308, 5e-324
RNG = np.random.default_rng(13)


def _pairs():
    """Pairs over the whole range: near in magnitude, far apart, cancelling, powers of two, subnormal, largest."""
    n = 4000
    mantissas = RNG.uniform(1, 2, (2, n)) * RNG.choice([-1, 1], (2, n))
    first = RNG.integers(-1022, 1023, n)
    second = np.clip(first + RNG.integers(-110, 110, n), -1074, 1022)
    x, y = np.ldexp(mantissas[0], first), np.ldexp(mantissas[1], second)
    special = np.array([0.0, TINY, 3 * TINY, 2.0**-1022, 1.0, 1 + 2.0**-52, 1 - 2.0**-53, 2.0**1023, BIG, BIG / 2])
    special = np.concatenate([special, -special])
    a, b = (v.ravel() for v in np.meshgrid(special, special))
    near = x * (1 + RNG.integers(-3, 4, n) * 2.0**-52)
    return np.concatenate([x, x, a]), np.concatenate([y, -near, b])


def test_the_error_of_a_sum_is_exact():
    """a + b - fl(a + b) for every pair whose sum is finite."""
    a, b = _pairs()
    with np.errstate(over="ignore", invalid="ignore"):
        s = a + b
    finite = np.isfinite(s)
    a, b, s = a[finite], b[finite], s[finite]
    errors = sum_error(a, b, s)
    assert len(s) > 8000 and np.count_nonzero(errors) > 2000
    for x, y, z, e in zip(*(v.tolist() for v in (a, b, s, errors)), strict=True):
        assert Fraction(x) + Fraction(y) - Fraction(z) == Fraction(e), (x, y)


def test_whether_a_product_exceeds_its_rounding():
    """Exactly right where the transformation is exact, and never a missed excess anywhere."""
    a, b = (np.abs(v) for v in _pairs())
    b = np.where(RNG.random(len(b)) < 0.7, np.ldexp(np.frexp(b)[0], RNG.integers(-300, 300, len(b))), b)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        p = a * b
        finite = np.isfinite(p)
        a, b, p = a[finite], b[finite], p[finite]
        claimed = product_exceeds(a, b, p)
    exceeds = np.array([Fraction(x) * Fraction(y) > Fraction(z) for x, y, z in zip(a, b, p, strict=True)])
    assert exceeds.sum() > 1000 and (~exceeds).sum() > 1000
    assert not (exceeds & ~claimed).any()
    exact = (a < 2.0**990) & (b < 2.0**990) & (p > 2.0**-960) & (p < 2.0**1020)
    assert exact.sum() > 2000
    assert np.array_equal(claimed[exact], exceeds[exact])


@pytest.mark.parametrize(
    ("a", "b", "exceeds"),
    [
        (1 + 2.0**-52, 1 - 2.0**-53, True),  # 1 + 2**-53 - 2**-105
        (1 - 2.0**-53, 1 - 2.0**-53, True),  # 1 - 2**-52 + 2**-106, rounded down
        (1 + 2.0**-52, 1 + 2.0**-52, True),  # 1 + 2**-51 + 2**-104
        (1.5, 1.5, False),
        (3.0, 1 / 3, False),  # 1 - 2**-54 rounds up to 1
        (2.0**-500, 2.0**-400, False),
    ],
)
def test_products_by_hand(a, b, exceeds):
    """Products whose excess is known."""
    a, b = np.array(a), np.array(b)
    assert bool(product_exceeds(a, b, a * b)) is exceeds
