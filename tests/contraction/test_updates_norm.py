"""The norm bound, its update count and the a-posteriori bound, against exact arithmetic."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from certify.contraction.updates import Ball, norm_bound, norm_count, posterior_bound, power_bound, start_bound
from certify.errors import InputRejected

SETTINGS = settings(derandomize=True, deadline=None, max_examples=150)
PROPER = st.fractions(0, Fraction(99, 100), max_denominator=1000)
SIZES = st.fractions(0, 10, max_denominator=500)


def exact_bound(start, q, eps, k):
    """b_k by the recursion b_{k+1} = q b_k + eps that defines it."""
    b = Fraction(start)
    for _ in range(k):
        b = Fraction(q) * b + Fraction(eps)
    return b


@SETTINGS
@given(SIZES, PROPER, st.fractions(0, 1, max_denominator=500), st.integers(0, 60))
@example(Fraction(0), Fraction(1, 2), Fraction(0), 3)
@example(Fraction(0), Fraction(0), Fraction(1, 3), 1)
@example(Fraction(1), Fraction(1, 10**9), Fraction(0), 60)
def test_norm_bound_is_the_recursion_rounded_up_once(start, q, eps, k):
    """The bound is at least the exact b_k, and the number before it is not."""
    exact, bound = exact_bound(start, q, eps, k), norm_bound(start, q, eps, k)
    assert Fraction(bound) >= exact
    assert bound == 0.0 or Fraction(math.nextafter(bound, 0.0)) < exact


@SETTINGS
@given(PROPER, st.integers(0, 400), st.integers(8, 80))
@example(Fraction(2, 3), 400, 8)
@example(1 - Fraction(1, 10**9), 1000, 64)
def test_powers_are_enclosed_and_nearly_exact(q, k, bits):
    """Truncated powers bound the exact one from both sides, together within (8 k + 8) / 2**bits, relative."""
    low, power, high = power_bound(q, k, bits, up=False), q**k, power_bound(q, k, bits, up=True)
    assert low <= power <= high
    if 64 * (k + 1) <= 2**bits:
        assert high - low <= power * Fraction(8 * k + 8, 2**bits)


@SETTINGS
@given(SIZES, PROPER, st.fractions(0, 1, max_denominator=500), st.fractions(Fraction(1, 500), 5, max_denominator=500))
@example(Fraction(1), Fraction(1, 2), Fraction(0), Fraction(1, 8))
@example(Fraction(1), Fraction(3, 10), Fraction(0), Fraction(27, 1000))
@example(Fraction(1), Fraction(2, 3), Fraction(1, 9), Fraction(1, 3) + Fraction(2, 3) ** 7)
def test_norm_count_is_the_first_update_within_the_tolerance(start, q, eps, tol):
    """b_L <= tol and not b_{L-1} <= tol, ties included; no count if and only if the floor is not below tol."""
    count = norm_count(start, q, eps, tol)
    if eps >= (1 - q) * tol:
        assert count is None
        return
    assume(count < 2000)
    assert exact_bound(start, q, eps, count) <= tol
    assert count == 0 or exact_bound(start, q, eps, count - 1) > tol


def test_the_count_agrees_with_the_formula_of_the_paper():
    """L = ceil(log(B_0 / (tol - eps / (1 - q))) / log(1 / q)) of polyprox.md section 5, B_0 large against the floor.

    q = 0.7, eps = 0, B_0 = 1, tol = 1e-6: log(1e6) / log(1 / 0.7) = 13.8155 / 0.356675 = 38.73, so 39. The paper's
    formula drops the -f of B_0 - f, and so may only be larger.
    """
    assert norm_count(1.0, Fraction(7, 10), 0.0, 1e-6) == 39
    for q, eps, tol in ((0.7, 1e-8, 1e-6), (0.99, 1e-5, 2e-3), (0.999, 1e-7, 1.01e-4)):
        paper = math.ceil(math.log(1.0 / (tol - eps / (1 - q))) / math.log(1 / q))
        assert norm_count(1.0, q, eps, tol) in (paper - 1, paper)


def test_counts_in_the_millions_are_verified_and_minimal():
    """q = 1 - 1e-6: the count is the first update whose bound, rounded up once, is within the tolerance."""
    count = norm_count(1.0, 1 - 1e-6, 1e-12, 1e-4)
    assert 9_000_000 < count < 10_000_000
    assert norm_bound(1.0, 1 - 1e-6, 1e-12, count) <= 1e-4 < norm_bound(1.0, 1 - 1e-6, 1e-12, count - 1)


def test_extreme_constants():
    """Powers far below binary64 are bounded by its smallest number, never by 0; q too near 1 gives no count."""
    assert norm_bound(1.0, 0.5, 0.0, 10**12) == 5e-324
    assert norm_bound(0.0, 0.5, 1.0, 10**12) == 2.0  # from below, f = 2
    assert norm_count(1.0, 1 - Fraction(1, 2**400), 0.0, 0.5) is None
    # ln 2 / -ln(1 - 2**-53) = 2**53 ln 2 - (ln 2) / 2
    assert norm_count(1.0, 1 - 2.0**-53, 0.0, 0.5) == pytest.approx(2**53 * math.log(2), rel=1e-15)


@pytest.mark.parametrize(
    ("start", "q", "eps", "tol", "count"),
    [
        (0.0, 0.5, 0.0, 1e-9, 0),  # B_0 = 0
        (1.0, 0.5, 0.0, 1.0, 0),  # tol = B_0
        (1.0, 0.5, 0.0, 2.0, 0),  # tol > B_0
        (1.0, 0.0, 0.0, 1e-9, 1),  # q = 0
        (1.0, 0.0, 1e-10, 1e-9, 1),
        (1.0, 0.5, 0.25, 0.5, None),  # tol = eps / (1 - q), reached only in the limit
        (0.0, 0.5, 0.25, 0.5, None),  # within tol at the start, but not proved to stay strictly below
        (1.0, 0.5, 0.25, 0.75, 1),  # b_1 = 0.5 + 0.25, a tie
    ],
)
def test_boundary_cases(start, q, eps, tol, count):
    """The degenerate cases of section 5, and ties, by hand."""
    assert norm_count(start, q, eps, tol) == count


@SETTINGS
@given(PROPER, st.fractions(-1, 1, max_denominator=100), st.fractions(-3, 3, max_denominator=100), st.integers(-4, 4))
def test_posterior_bound_holds_and_is_attained(q, perturbation, w, fixed):
    """P(W) = W_* + q (W - W_*) computed with an error: the distance is within the bound; equal if all of it adds up."""
    image = fixed + q * (w - fixed)
    bound = posterior_bound(abs(w - (image + perturbation)), q, abs(perturbation))
    assert abs(w - fixed) <= Fraction(bound)
    exact = posterior_bound(abs(w - image), q, 0)
    assert Fraction(math.nextafter(exact, 0.0)) <= abs(w - fixed) <= Fraction(exact)


def test_start_bound_adds_the_distance_of_the_fixed_point():
    """B_0 = 1/4 + (1/8) / (1 - 1/2) = 1/2, and floor = (1/16) / (1/2)."""
    ball = Ball(0.5, 0.125, 0.0625, 1.0)
    assert start_bound(0.25, ball) == 0.5
    assert ball.floor == Fraction(1, 8)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, -math.inf])
def test_numbers_that_prove_nothing_are_rejected(bad):
    """NaN, infinities and negative numbers never become a bound or a count, in any argument."""
    for call in (
        lambda: norm_bound(bad, 0.5, 0.0, 1),
        lambda: norm_bound(1.0, bad, 0.0, 1),
        lambda: norm_bound(1.0, 0.5, bad, 1),
        lambda: norm_count(bad, 0.5, 0.0, 0.1),
        lambda: norm_count(1.0, bad, 0.0, 0.1),
        lambda: norm_count(1.0, 0.5, bad, 0.1),
        lambda: norm_count(1.0, 0.5, 0.0, bad),
        lambda: posterior_bound(bad, 0.5, 0.0),
        lambda: posterior_bound(1.0, bad, 0.0),
        lambda: posterior_bound(1.0, 0.5, bad),
        lambda: Ball(0.5, 0.0, 0.0, bad),
        lambda: start_bound(bad, Ball(0.5, 0.0, 0.0, 1.0)),
    ):
        with pytest.raises(InputRejected):
            call()


def test_uncertified_settings_are_rejected():
    """q = 1, tol = 0, a negative update, and d + eps just above (1 - q) r; equality is certified."""
    for call in (
        lambda: norm_bound(1.0, 1.0, 0.0, 1),
        lambda: norm_bound(1.0, 0.5, 0.0, -1),
        lambda: norm_count(1.0, 1, 0.0, 0.1),
        lambda: norm_count(1.0, 0.5, 0.0, 0.0),
        lambda: posterior_bound(1.0, 1.0, 0.0),
        lambda: Ball(0.5, 0.25, math.nextafter(0.25, 1), 1.0),
    ):
        with pytest.raises(InputRejected):
            call()
    assert Ball(0.5, 0.25, 0.25, 1.0).centre == Fraction(1, 2)
