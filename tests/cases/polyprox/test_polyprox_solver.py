"""The reference solver on the Sachs data: its published figures, its line search, its recorder."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from certify.cases.polyprox import Solution, Step, solve, stage_states
from certify.cases.polyprox.sachs import consensus, covariance, measurements

from certify.errors import InputRejected


@pytest.fixture(scope="module")
def seen() -> list[Step]:
    """Return the steps that the progress callback received."""
    return []


@pytest.fixture(scope="module")
def solution(seen: list[Step]) -> Solution:
    """Return the run on the Sachs covariance."""
    return solve(covariance()[0], on_step=seen.append)


def test_sachs_covariance_is_a_correlation_with_the_published_spectrum() -> None:
    """11 columns of 7466 positive samples; unit diagonal; eigenvalues within [0.118, 4.37]."""
    data, names = measurements()
    Sigma, same_names = covariance()
    assert data.shape == (7466, 11)
    assert data.min() > 0
    assert names == same_names
    assert np.array_equal(Sigma, Sigma.T)
    assert np.abs(np.diagonal(Sigma) - 1).max() < 1e-13
    spectrum = np.linalg.eigvalsh(Sigma)
    assert spectrum[0] == pytest.approx(0.118, abs=5e-4)
    assert spectrum[-1] == pytest.approx(4.37, abs=5e-3)


def test_sachs_consensus_names_the_columns() -> None:
    """The 18 consensus edges connect distinct measured proteins."""
    edges = consensus()
    assert len(set(edges)) == 18
    assert {name for edge in edges for name in edge} <= set(measurements()[1])


def test_sachs_run_has_the_published_figures(solution: Solution) -> None:
    """Twelve stages, about 4200 accepted steps, final h near 4.6e-6, not yet acyclic to 1e-8."""
    assert len(solution.stages) == 12
    assert 4150 <= solution.accepted <= 4260
    assert 4e-6 < solution.h < 5.2e-6
    assert not solution.acyclic
    assert 5 <= solution.edges().sum() <= 12


def test_line_search_bounds_every_accepted_step(solution: Solution) -> None:
    """J + lam |W|_1 never rises within a stage, and no step exceeds 1/||Sigma||."""
    Sigma, N = solution.Sigma, 16
    limit = 1 / np.linalg.norm(Sigma, 2)

    def objective(step: Step, W: np.ndarray) -> float:
        away = np.eye(len(W)) - W
        h = np.trace(np.linalg.matrix_power(np.eye(len(W)) + W * W / N, N)) - len(W)
        smooth = 0.5 * np.sum(away * (Sigma @ away)) + step.alpha * h + 0.5 * step.rho * h * h
        return float(smooth + solution.lam * np.abs(W).sum())

    for stage in solution.stages[:6]:  # later, rho h^2 is too ill-conditioned for matrix powers to judge
        for step in stage.steps[::7]:
            assert objective(step, step.W_plus) <= objective(step, step.W) * (1 + 1e-11)
            assert 0 < step.gamma <= limit


def test_trial_step_doubles_and_is_halved(solution: Solution) -> None:
    """Each step size is the doubled previous one, capped, halved as often as the step says."""
    limit = 1 / np.linalg.norm(solution.Sigma, 2)
    steps = [step for stage in solution.stages for step in stage.steps]
    assert sum(step.halvings for step in steps) > 100
    for before, step in pairwise(steps):
        assert step.gamma == min(2 * before.gamma, limit) / 2**step.halvings


def test_stages_follow_the_multiplier_rule(solution: Solution) -> None:
    """Alpha grows by rho h; rho grows tenfold exactly when h > h_prev / 4; stages end stationary or at 400 steps."""
    stages = solution.stages
    assert (stages[0].alpha, stages[0].rho) == (0, 1)
    for k, (stage, following) in enumerate(pairwise(stages)):
        assert following.alpha == stage.alpha + stage.rho * stage.h
        stalled = k > 0 and stage.h > stages[k - 1].h / 4
        assert following.rho == (10 * stage.rho if stalled else stage.rho)
        assert stage.stationary or stage.accepted == 400
        assert stage.stationary == (stage.steps[-1].residual < 1e-6)


def test_recorder_keeps_the_whole_chain(solution: Solution, seen: list[Step]) -> None:
    """Every accepted step is recorded and reported, each starting where the one before ended."""
    steps = [step for stage in solution.stages for step in stage.steps]
    assert len(steps) == solution.accepted == len(seen)
    assert all(a is b for a, b in zip(steps, seen, strict=True))
    assert all(b.W is a.W_plus for a, b in pairwise(steps))
    assert [step.last for step in steps].count(True) == 12
    states = solution.states()
    assert len(states) == solution.accepted
    assert sum(state.b for state in states) == 12
    assert not states[0].W.any()


def test_recording_stages_only_keeps_first_middle_last(solution: Solution) -> None:
    """The thin record holds three steps a stage and leaves the result as it was: the solver is deterministic."""
    thin = solve(covariance()[0], record="stages")
    assert np.array_equal(thin.W, solution.W)
    assert thin.accepted == solution.accepted
    for stage, full in zip(thin.stages, solution.stages, strict=True):
        assert [step.number for step in stage.steps] == [0, full.accepted // 2, full.accepted - 1]


def test_stage_states_are_the_ends_of_early_middle_late_stages(solution: Solution) -> None:
    """Three states with b = 0 and the controls of their stage, from the first stage to the last."""
    states = stage_states(solution)
    stages = [solution.stages[k] for k in (0, 6, 11)]
    for state, stage in zip(states, stages, strict=True):
        assert np.array_equal(state.W, stage.steps[-1].W_plus)
        assert (state.alpha, state.rho, state.gamma) == (stage.alpha, stage.rho, stage.steps[-1].gamma)
        assert (state.b, state.p_max, state.N) == (0, 11, 16)
    assert len(stage_states(solution, 1)) == 1
    with pytest.raises(InputRejected, match="ask for at least one"):
        stage_states(solution, 0)


def test_solver_refuses_what_is_no_problem() -> None:
    """A zero or asymmetric covariance, or a mask of the wrong shape, is refused before any step."""
    with pytest.raises(InputRejected, match="Sigma is zero"):
        solve(np.zeros((2, 2)))
    with pytest.raises(InputRejected, match=r"Sigma\[0, 1\] differs"):
        solve([[1, 2], [3, 4]])
    with pytest.raises(InputRejected, match="M has shape"):
        solve(np.eye(2), M=np.zeros((3, 3)))


def test_heavy_lasso_keeps_the_solution_at_zero() -> None:
    """With lam at least the largest off-diagonal covariance W stays 0 and the first stage ends at once."""
    Sigma = np.array([[1, 0.5, 0.2], [0.5, 1, 0.3], [0.2, 0.3, 1]])
    solution = solve(Sigma, lam=0.5)
    assert not solution.W.any()
    assert solution.accepted == 1
    assert solution.acyclic
