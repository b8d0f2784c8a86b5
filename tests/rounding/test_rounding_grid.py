"""The 135 cases of the rounding grid (and 45 more in bfloat16): no violation, and how tight the bounds are."""

import numpy as np
import pytest
from random_kernels import PLAIN
from rounding_grid import RADIUS, cases, outcome

from certify.arithmetic import BINARY16, BINARY64


@pytest.fixture(scope="module")
def grid():
    """Outcomes at the point and on the ball, by format: 200 samples a ball, 25 where p = 5 (all in the slow run)."""
    result = {name: ([], []) for name in PLAIN}
    for case in cases():
        states = case.state.W[None]
        samples = case.samples(200 if case.state.p < 5 else 25)
        exact, exact_samples = case.exact(states), case.exact(samples)
        for name, (points, balls) in result.items():
            points.append(outcome(case, PLAIN[name], 0, states, exact))
            balls.append(outcome(case, PLAIN[name], RADIUS, samples, exact_samples))
    return result


@pytest.mark.parametrize("name", PLAIN)
def test_no_error_exceeds_its_bound_and_the_range_is_proved(grid, name):
    """Every entry of W+ and alpha+, exactly, at 45 points and on 45 balls; 135 cases without bfloat16."""
    for outcomes in grid[name]:
        assert len(outcomes) == 45
        assert all(o.holds and o.in_range for o in outcomes)
        assert all(np.isfinite(o.bound) and np.isfinite(o.alpha_bound) for o in outcomes)


@pytest.mark.parametrize("name", PLAIN)
def test_median_ratio_of_bound_to_error(grid, name):
    """At most 8 at points and 7 on balls (the paper: 6960, 6270, 8270), over cases with an error at all."""
    for outcomes, limit in zip(grid[name], (8, 7), strict=True):
        ratios = [o.ratio for o in outcomes if o.ratio is not None]
        assert len(ratios) >= 40
        assert 1 <= np.median(ratios) <= limit


def test_the_majorant_holds_too_and_is_several_times_wider(grid):
    """The paper's rules on the zero-skipping graph: no violation at the points, a median of about 5 times wider."""
    wider = []
    for case, o in zip(cases(), grid["float64"][0], strict=True):
        bounds = case.bounds(BINARY64, 0.0, method="majorant")
        assert bounds.norm_of("W") >= o.observed
        wider.append(bounds.norm_of("W") / o.bound)
    assert np.median(wider) > 2


def test_the_states_are_worth_updating():
    """Most entries of W+ survive the threshold, and every ball holds its samples: the grid is not about zeros."""
    alive = []
    for case in cases():
        samples = case.samples(4)
        assert (np.linalg.norm(samples - case.state.W, axis=(1, 2)) <= RADIUS).all()
        W_plus = case.floats(BINARY64, case.state.W[None])[0, :-1].reshape(case.state.W.shape)
        alive.append(np.count_nonzero(W_plus) / np.count_nonzero(case.state.M))
        assert case.bounds(BINARY16, RADIUS).first_overflow() is None
    assert np.mean(alive) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_the_largest_blocks_with_all_samples(name):
    """200 samples on each ball of the p = 5 cases."""
    for case in cases():
        if case.state.p == 5:
            samples = case.samples(200)
            result = outcome(case, PLAIN[name], RADIUS, samples, case.exact(samples))
            assert result.holds and result.ratio >= 1
