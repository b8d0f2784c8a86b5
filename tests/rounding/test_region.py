"""Regions: points, balls, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest

from certify.errors import InputRejected
from certify.graph import Variable, trace
from certify.rounding import ball, point, variables

STATE = {"W": np.array([[0.0, 0.1], [-0.3, 0.0]]), "alpha": 0.7}


def test_a_point_is_a_point():
    """Both ends are the state itself."""
    region = point(STATE)
    assert region.is_point and not region.representable
    assert (region.lower["W"] == STATE["W"]).all() and region.upper["alpha"] == 0.7


def test_a_ball_contains_the_exact_box_and_no_more_than_a_step():
    """The ends enclose w +- r exactly, within two units in the last place; other inputs stay points."""
    region = ball(STATE, "W", 0.01)
    assert not region.is_point
    for low, high, w in zip(region.lower["W"].flat, region.upper["W"].flat, STATE["W"].flat, strict=True):
        exact_low, exact_high = Fraction(w) - Fraction(0.01), Fraction(w) + Fraction(0.01)
        assert Fraction(low) <= exact_low and Fraction(high) >= exact_high
        assert exact_low - Fraction(low) <= 2 * Fraction(np.spacing(abs(low)))
        assert Fraction(high) - exact_high <= 2 * Fraction(np.spacing(abs(high)))
    assert region.lower["alpha"] == region.upper["alpha"] == 0.7


def test_a_ball_of_radius_zero_is_the_point():
    """Radius 0 widens nothing, not even by a step."""
    assert ball(STATE, "W", 0.0).is_point
    assert ball(STATE, "W", -0.0).is_point


def test_the_smallest_radius_moves_the_ends():
    """A radius below half an ulp still leaves the centre strictly inside."""
    region = ball(STATE, "W", 2.0**-1074)
    assert (region.lower["W"] < STATE["W"]).all() and (region.upper["W"] > STATE["W"]).all()


@pytest.mark.parametrize("radius", [-1.0, float("nan"), float("inf")])
def test_a_radius_that_is_no_distance_is_refused(radius):
    """Negative, undefined and infinite radii are named in the message."""
    with pytest.raises(InputRejected, match=f"the radius {radius} is no distance; give a finite number"):
        ball(STATE, "W", radius)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("make", [point, lambda state: ball(state, "W", 0.1)], ids=["point", "ball"])
def test_an_input_that_is_not_finite_is_refused(make, value):
    """The input's name is in the message."""
    with pytest.raises(InputRejected, match="input alpha has an entry that is not finite"):
        make(STATE | {"alpha": value})


def test_a_ball_beyond_binary64_is_refused_or_finite():
    """The ends of a region are finite numbers, or the ball is refused; they are never infinite."""
    try:
        region = ball({"W": np.array([1.7e308])}, "W", 1e308)
    except InputRejected:
        return
    assert np.isfinite(region.upper["W"]).all()


def test_variables_are_those_of_the_graph():
    """Known inputs are dropped, missing ones named."""
    graph = trace(lambda W, k: k * W, {"W": Variable((2, 2)), "k": 2})
    assert set(variables(graph, STATE)) == {"W"}
    with pytest.raises(InputRejected, match="input W is missing"):
        variables(graph, {"alpha": 1.0})
