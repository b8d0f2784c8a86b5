"""The fixed-stage theorem at its boundaries: every expected verdict is derived in the comment above it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from certify.contraction.fixed_stage import Stage, contraction_constant, fixed_stage

# gamma mu = 1/2, gamma L = 5/4: q = max(1/2, 1/4) = 1/2 exactly, so (1 - q) r = 1/2
HALF = Stage(mu=1.0, L=2.5, gamma=0.5, d=0.25, eps=0.125, radius=1.0)


@pytest.mark.parametrize(
    ("mu", "L", "gamma", "q"),
    [
        (1.0, 2.5, 0.5, 0.5),
        (1.0, 1.0, 1.0, 0.0),  # the map is constant
        (0.0, 1.0, 1.0, 1.0),  # a flat direction does not contract
        (1.0, 2.0, 1.0, 1.0),  # 1 - 2 = -1: reflected
        (-1.0, 1.0, 0.5, 1.5),  # a direction of descent repels
        (0.5, 4.0, 1.0, 3.0),  # 1 - 4 = -3
        (1.0, 3.0, 0.5, 0.5),  # both ends equal: gamma = 2 / (mu + L)
    ],
)
def test_contraction_constant_is_the_larger_distance_of_gamma_times_the_spectrum_from_one(mu, L, gamma, q):
    """q = max(|1 - gamma mu|, |1 - gamma L|), exactly where it is a binary64 number."""
    assert contraction_constant(mu, L, gamma) == q


def test_contraction_constant_is_rounded_up_by_less_than_an_ulp():
    """0.1 and 0.3 are not dyadic products: the result is the least binary64 number that is not below q."""
    q = contraction_constant(0.1, 0.3, 0.7)
    exact = 1 - Fraction(0.1) * Fraction(0.7)
    assert Fraction(math.nextafter(q, 0)) < exact <= Fraction(q)


def test_a_tiny_curvature_rounds_up_to_one():
    """1 - 2**-80 lies above the largest binary64 number below 1, so the outward q is 1 and nothing is certified."""
    assert contraction_constant(2.0**-80, 1.0, 1.0) == 1.0
    assert not fixed_stage(replace(HALF, mu=2.0**-80, L=1.0, gamma=1.0)).certified


def test_equality_of_the_allowance_is_certified():
    """d + eps = 3/8 + 1/8 = 1/2 = (1 - q) r: the theorem needs no strict inequality."""
    outcome = fixed_stage(replace(HALF, d=0.375))
    assert outcome.certified
    assert outcome.reason == ""
    assert outcome.q == 0.5
    assert outcome.floor == 0.25  # eps / (1 - q) = (1/8) / (1/2)


def test_one_ulp_beyond_equality_fails():
    """d is the next number above 3/8; the comparison is exact, so it fails, and the reason names the inequality."""
    outcome = fixed_stage(replace(HALF, d=math.nextafter(0.375, 1)))
    assert not outcome.certified
    assert "d + eps <= (1 - q) r fails" in outcome.reason
    assert "polished centre" in outcome.reason  # d > eps, so d is the larger obstacle


def test_a_rounding_error_that_is_too_large_asks_for_a_finer_format():
    """d = 0, eps = 5/8 > 1/2 = (1 - q) r."""
    outcome = fixed_stage(replace(HALF, d=0.0, eps=0.625))
    assert not outcome.certified
    assert "finer format" in outcome.reason


def test_the_comparison_is_not_rounded():
    """d + eps = 1/2 + 2**-80 rounds to 1/2 in binary64, but is above (1 - q) r = 1/2."""
    assert fixed_stage(replace(HALF, d=0.5, eps=0.0)).certified
    assert not fixed_stage(replace(HALF, d=0.5, eps=2.0**-80)).certified


def test_q_equal_to_one_is_not_a_contraction():
    """gamma L = 2 exactly."""
    outcome = fixed_stage(replace(HALF, L=4.0))
    assert outcome.q == 1.0
    assert "q < 1 fails" in outcome.reason
    assert outcome.floor == math.inf


@pytest.mark.parametrize("mu", [0.0, -0.0, -1e-300, -3.0])
def test_curvature_that_is_not_positive_fails_by_name(mu):
    """mu = 0 gives q = 1, mu < 0 gives q > 1: both are named as the curvature's fault."""
    outcome = fixed_stage(replace(HALF, mu=mu))
    assert outcome.reason.startswith("mu > 0 fails")
    assert outcome.q >= 1
    assert outcome.floor == math.inf


def test_nothing_to_move_is_certified_on_a_point():
    """d = eps = r = 0: the exact map keeps the single point, and 0 <= (1 - q) 0."""
    assert fixed_stage(replace(HALF, d=0.0, eps=0.0, radius=0.0)).certified
    assert not fixed_stage(replace(HALF, d=5e-324, eps=0.0, radius=0.0)).certified


def test_zero_displacement_needs_only_room_for_the_rounding():
    """d = 0: any radius of at least eps / (1 - q) = 1/4 is certified, and none below."""
    assert fixed_stage(replace(HALF, d=0.0, radius=0.25)).certified
    assert not fixed_stage(replace(HALF, d=0.0, radius=math.nextafter(0.25, 0))).certified


def test_a_constant_map_certifies_the_displacement_itself():
    """gamma mu = gamma L = 1: q = 0, and d + eps = r is enough."""
    outcome = fixed_stage(Stage(mu=2.0, L=2.0, gamma=0.5, d=0.25, eps=0.25, radius=0.5))
    assert outcome.certified
    assert outcome.q == 0.0
    assert outcome.floor == 0.25


@pytest.mark.parametrize("name", ["mu", "L", "gamma", "d", "eps", "radius"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_a_reason_and_not_an_exception(name, bad):
    """NaN and infinities in any place: not certified, q and the floor unknown."""
    outcome = fixed_stage(replace(HALF, **{name: bad}))
    assert not outcome.certified
    assert "not finite" in outcome.reason
    assert outcome.q == outcome.floor == math.inf


def test_a_step_size_of_zero_does_not_contract():
    """gamma = 0 leaves every point where it is: q = 1."""
    outcome = fixed_stage(replace(HALF, gamma=0.0))
    assert outcome.q == 1.0
    assert not outcome.certified


def test_the_remedy_for_a_tiny_curvature_is_not_the_step_size_that_is_used():
    """gamma L = 1 < 2 already: if q < 1 fails only because mu is tiny, advising gamma < 2 / L = 2 is no remedy."""
    outcome = fixed_stage(replace(HALF, mu=2.0**-80, L=1.0, gamma=1.0))
    assert "a step size below 2 would pass" not in outcome.reason


def test_largest_numbers_do_not_overflow():
    """mu = L = 2**1023, gamma = 2**-1023: products are exact rationals, q = 0."""
    outcome = fixed_stage(Stage(2.0**1023, 2.0**1023, 2.0**-1023, 1e308, 5e307, 1.7e308))
    assert outcome.certified
    assert outcome.q == 0.0
