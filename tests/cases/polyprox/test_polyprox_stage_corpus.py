"""The corpus and the Sachs states: every new step certified, every recorded step decided, q tight, late stages on faces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest
from certify.cases.polyprox import State, corpus, sachs, solve, stage_states
from certify.cases.polyprox.stage.hessian import hessian
from certify.cases.polyprox.stage.methods import Attempt, interval_test, local_test
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.refutation import refute
from certify.cases.polyprox.stage.search import search_face, with_new_step

from certify.arithmetic import BINARY64

TOL = 1e-6


def excess(problem: Problem, attempt: Attempt) -> float:
    """(q - spectral radius of I - gamma K_FF(U)) / (1 - q); the radius is a float value, q is proved."""
    face = np.nonzero((problem.state.M != 0) & ~problem.inactive(attempt.outcome.stage.radius))
    if not len(face[0]):
        return 0.0
    eigenvalues = np.linalg.eigvalsh(hessian(problem.state, problem.center, 0.0, face).K.mid)
    q = attempt.outcome.q
    return float((q - np.abs(1 - problem.state.gamma * eigenvalues).max()) / (1 - q))


@dataclass
class Tally:
    """Verdicts by step policy, why something stayed undecided, and the excess of q of every certified snapshot."""

    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: {"recorded": Counter(), "new": Counter()})
    undecided: list[str] = field(default_factory=list)
    excesses: list[float] = field(default_factory=list)


def judge(instances: Iterable[tuple[int, int]]) -> Tally:
    """Both step policies on the three snapshots of each instance, around polished centres."""
    tally = Tally()
    for p, seed in instances:
        for k, state in enumerate(corpus.snapshots(p, seed)):
            centered = replace(state, W=polish(state).U)
            for step in ("recorded", "new"):
                stepped = with_new_step(centered, BINARY64) if step == "new" else centered
                problem = Problem(stepped or centered, BINARY64)
                found = search_face(problem, TOL)
                if found.smallest is not None:
                    verdict = "certified"
                    tally.excesses.append(excess(problem, found.smallest))
                    assert found.smallest.outcome.floor < TOL
                else:
                    tried = refute(problem.state, problem.center)
                    verdict = "refuted" if tried.refuted else "undecided"
                    if verdict == "undecided":
                        tally.undecided.append(f"p{p}-seed{seed}/{k}, {step}: {found.reason}; {tried.reason}")
                tally.verdicts[step][verdict] += 1
    return tally


def test_small_instances_are_all_decided() -> None:
    """p = 3 and 5, seeds 0 to 2, 18 snapshots: certified with a new step, certified or refuted with the recorded one."""
    tally = judge((p, seed) for p in (3, 5) for seed in range(3))
    assert not tally.undecided
    assert tally.verdicts["new"] == {"certified": 18}
    assert sum(tally.verdicts["recorded"].values()) == 18
    assert tally.verdicts["recorded"]["refuted"] > 0
    assert np.median(tally.excesses) <= 2e-6  # what the published mu and L give away


@pytest.mark.slow
def test_the_whole_corpus_is_decided() -> None:
    """90 of 90 certified with a new step, 0 undecided with the recorded one; q tight on at least 80 certified snapshots."""
    tally = judge((p, seed) for _, p, seed in corpus.instances())
    assert not tally.undecided
    assert tally.verdicts["new"] == {"certified": 90}
    assert sum(tally.verdicts["recorded"].values()) == 90
    assert sum(x <= 1e-3 for x in tally.excesses) >= 80


@pytest.mark.parametrize(
    ("p", "seed", "k", "step"),
    [
        pytest.param(5, 8, 2, "recorded"),
        pytest.param(10, 6, 2, "recorded"),
        pytest.param(10, 6, 2, "new"),
    ],
)
def test_stiff_late_snapshots_are_decided(p: int, seed: int, k: int, step: str) -> None:
    """Late stages with c or rho of 1e9 beside curvatures of order 1e-3: K varies most along its own stiff directions."""
    state = corpus.snapshots(p, seed)[k]
    centered = replace(state, W=polish(state).U)
    stepped = with_new_step(centered, BINARY64) if step == "new" else centered
    assert stepped is not None
    found = search_face(Problem(stepped, BINARY64), TOL)
    assert found.smallest is not None, found.reason


@cache
def sachs_stages() -> tuple[State, ...]:
    """The last state of every stage of the solver on the Sachs data, P = 16."""
    solution = solve(sachs.covariance()[0], p_max=16, record="stages")
    return tuple(stage_states(solution, len(solution.stages)))


def spectrum(problem: Problem, where: np.ndarray) -> np.ndarray:
    """Float eigenvalues of K(U) on the entries `where`."""
    return np.linalg.eigvalsh(hessian(problem.state, problem.center, 0.0, np.nonzero(where)).K.mid)


def centre(state: State) -> Problem:
    """The state around its polished centre."""
    return Problem(replace(state, W=polish(state).U), BINARY64)


def test_a_late_sachs_stage_with_an_indefinite_hessian_is_certified_on_its_face() -> None:
    """Stage 11: K on all 110 entries has a negative eigenvalue, so no test on them can pass; on the face it is positive."""
    problem = centre(sachs_stages()[11])
    assert spectrum(problem, problem.state.M != 0).min() < 0
    for test in (local_test, interval_test):
        attempt = test(problem, 1e-12)
        assert not attempt.outcome.certified
        assert attempt.outcome.stage.mu < 0
    found = search_face(problem, TOL)
    assert found.smallest is not None
    assert found.largest is not None
    assert found.largest.face < np.count_nonzero(problem.state.M)
    face = (problem.state.M != 0) & ~problem.inactive(found.largest.outcome.stage.radius)
    assert spectrum(problem, face).min() > 0
    assert found.smallest.outcome.q < 1


def test_the_sachs_stage_with_too_long_a_step_is_refuted() -> None:
    """Stage 9: gamma lambda_max(K_FF) is near 3.8, so the fixed point repels; a step below 2 / lambda_max contracts."""
    problem = centre(sachs_stages()[9])
    assert search_face(problem, TOL).largest is None
    found = refute(problem.state, problem.center)
    assert found.refuted
    steepest = problem.state.gamma * found.kappa_high
    assert steepest == pytest.approx(3.8, abs=0.1)
    active = problem.center != 0
    assert steepest == pytest.approx(problem.state.gamma * spectrum(problem, active).max(), rel=2e-6)
    shorter = replace(problem.state, gamma=1.9 / found.kappa_high)
    assert search_face(Problem(shorter, BINARY64), TOL).smallest is not None
    assert not refute(shorter, problem.center).refuted


@pytest.mark.slow
def test_no_sachs_stage_is_undecided() -> None:
    """All twelve stages, recorded step: certified or refuted; with a new step all are certified."""
    for index, state in enumerate(sachs_stages()):
        problem = centre(state)
        found = search_face(problem, TOL)
        assert found.smallest is not None or refute(problem.state, problem.center).refuted, index
        stepped = with_new_step(problem.state, BINARY64)
        assert stepped is not None
        assert search_face(Problem(stepped, BINARY64), TOL).smallest is not None, index
