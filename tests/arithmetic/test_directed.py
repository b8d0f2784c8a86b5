"""Directed roundings of rationals: never the wrong way, never further than a step."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.arithmetic.directed import norm_up, relaxed_down, relaxed_up, round_down, round_up, sqrt_up

EVERY = settings(max_examples=300, derandomize=True, deadline=None, database=None)
LARGEST = Fraction(1.7976931348623157e308)
_floats = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 5e-324, -5e-324, 1.7976931348623157e308, 2.0**-1022, 0.1]),
    st.floats(allow_nan=False, allow_infinity=False),
)


def _predecessor(x):
    return math.nextafter(x, -math.inf)


_rationals = st.one_of(
    st.fractions(),
    _floats.map(Fraction),
    st.tuples(_floats, st.fractions(-1, 1)).map(lambda t: Fraction(t[0]) + t[1] * Fraction(2) ** -1080),
    st.tuples(st.integers(-(2**60), 2**60), st.integers(-1140, 1030)).map(lambda t: t[0] * Fraction(2) ** t[1]),
    st.tuples(st.integers(1, 2**54), st.integers(1, 2**54), st.integers(-1070, 900)).map(
        lambda t: Fraction(t[0], t[1]) * Fraction(2) ** t[2]
    ),
)


@settings(max_examples=1500, derandomize=True, deadline=None, database=None)
@given(x=_rationals)
def test_rounding_up_gives_the_least_upper_bound(x):
    """No binary64 number lies between x and round_up(x); beyond the largest it is infinite."""
    up = round_up(x)
    if x > LARGEST:
        assert up == np.inf
    else:
        assert Fraction(up) >= x
        assert _predecessor(up) == -np.inf or Fraction(_predecessor(up)) < x
    down = round_down(x)
    if x < -LARGEST:
        assert down == -np.inf
    else:
        assert Fraction(down) <= x
        above = math.nextafter(down, math.inf)
        assert above == np.inf or Fraction(above) > x
    if Fraction(min(max(up, -1e308), 1e308)) == x:
        assert up == down == x


@pytest.mark.parametrize(
    ("x", "up", "down"),
    [
        (Fraction(0), 0.0, 0.0),
        (Fraction(1, 2**1075), 5e-324, 0.0),
        (-Fraction(1, 2**2000), 0.0, -5e-324),
        (LARGEST, float(LARGEST), float(LARGEST)),
        (LARGEST + Fraction(1, 3), np.inf, float(LARGEST)),
        (-LARGEST - 1, -float(LARGEST), -np.inf),
        (Fraction(2) ** 1024, np.inf, float(LARGEST)),
        (Fraction(10) ** 400, np.inf, float(LARGEST)),
        (1 + Fraction(1, 2**53), 1 + 2.0**-52, 1.0),
        (1 - Fraction(1, 2**54), 1.0, 1 - 2.0**-53),
        (Fraction(1, 3), 0.33333333333333337, 0.3333333333333333),
        (Fraction(2) ** -1022 - Fraction(1, 2**1075), 2.0**-1022, 2.0**-1022 - 2.0**-1074),
    ],
)
def test_roundings_by_hand(x, up, down):
    """Underflow, overflow, ties, and the border of the subnormals."""
    assert (round_up(x), round_down(x)) == (up, down)


@settings(max_examples=500, derandomize=True, deadline=None, database=None)
@given(x=_rationals.map(abs))
def test_square_roots_are_rounded_up_within_a_step(x):
    """sqrt_up(x)**2 >= x, and two steps lower is too small."""
    root = sqrt_up(x)
    if root == np.inf:
        assert x > LARGEST**2
        return
    assert Fraction(root) ** 2 >= x
    lower = _predecessor(_predecessor(root))
    assert lower < 0 or Fraction(lower) ** 2 < x or x == 0


@pytest.mark.parametrize("x", [0.0, 1.0, 1.5, 3.0, 2.0**-500, 2.0**400, 0.1, 2.0**-537])
def test_square_roots_of_squares_are_exact(x):
    """No step is lost where the root is a number of binary64."""
    assert sqrt_up(Fraction(x) ** 2) == x


@EVERY
@given(entries=st.lists(_floats, min_size=0, max_size=6))
def test_norms_are_upper_bounds_within_a_step(entries):
    """Exact sum of squares, root rounded up, from subnormals to the largest numbers."""
    norm = norm_up(np.array(entries))
    square = sum((Fraction(x) ** 2 for x in entries), Fraction(0))
    if norm == np.inf:
        assert square > LARGEST**2
        return
    assert Fraction(norm) ** 2 >= square
    lower = _predecessor(_predecessor(norm))
    assert lower < 0 or Fraction(lower) ** 2 < square or square == 0


@EVERY
@given(x=_floats)
def test_published_bounds_leave_the_slack_and_little_more(x):
    """relaxed_up is at least 2**-20 above and at most 2**-19 more than that, in 24 significant bits; down is its mirror."""
    up = relaxed_up(abs(x))
    assert (up == 0) == (x == 0)
    if math.isfinite(up):
        least = Fraction(abs(x)) * (1 + Fraction(1, 1 << 20))
        assert least <= Fraction(up) <= least * (1 + Fraction(1, 1 << 22)) + Fraction(5e-324)
        assert Fraction(up).numerator.bit_length() <= 24 or math.log2(up) > 24
    down = relaxed_down(abs(x))
    assert 0 <= down <= Fraction(abs(x)) * (1 - Fraction(1, 1 << 20))
    assert relaxed_down(-abs(x)) == -up


@pytest.mark.parametrize("value", [0.0, np.inf])
def test_zero_and_infinity_are_published_as_they_are(value):
    """There is nothing to relax."""
    assert relaxed_up(value) == relaxed_down(value) == value
