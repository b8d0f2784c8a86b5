"""Predicted counts against replayed updates: the distance never exceeds a bound, and the modal count is close to the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from certify.cases.polyprox import corpus
from certify.cases.polyprox.stage.methods import Attempt, face_test
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.prediction import Entry, enter, prediction
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.search import search_face, with_new_step

from certify.arithmetic import BINARY64
from certify.contraction.modal import Prediction
from certify.errors import InputRejected

#: More points than any replay has updates: a bound for each.
EVERY = 100_000


@dataclass
class Replay:
    """A prediction and what happened: the distances at predicted.updates, and the first update within the target."""

    predicted: Prediction
    distances: np.ndarray
    met: int

    @property
    def ratio(self) -> float:
        """Predicted over actual, for the modal count."""
        assert self.predicted.modal is not None
        return self.predicted.modal / self.met


def problems(p: int, seeds: range, new: bool, count: int = 3) -> list[Problem]:
    """The corpus snapshots around polished centres, with the recorded or a new step."""
    found = []
    for seed in seeds:
        for state in corpus.snapshots(p, seed)[:count]:
            centered = replace(state, W=polish(state).U)
            found.append(Problem((with_new_step(centered, BINARY64) or centered) if new else centered, BINARY64))
    return found


def balls(problem: Problem) -> list[Attempt]:
    """The largest certified ball and that of the geometric mean of the smallest and the largest radius."""
    found = search_face(problem, 1e-6)
    if found.smallest is None or found.largest is None:
        return []
    radii = [a.outcome.stage.radius for a in (found.smallest, found.largest)]
    middle = face_test(problem, float(np.sqrt(radii[0] * radii[1])))
    return [found.largest, middle] if middle.outcome.certified else [found.largest]


def replayed(problem: Problem, attempt: Attempt, seed: int, most: int, points: int = 200) -> Replay | None:
    """Float64 updates from half the radius, in a seeded direction of the face, to a thousandth of the radius."""
    state, radius = problem.state, attempt.outcome.stage.radius
    free = (state.M != 0) & ~problem.inactive(radius)
    if not free.any():
        return None
    D = np.random.default_rng(seed).normal(size=free.shape) * free
    W = problem.center + D * (radius / 2 / np.linalg.norm(D))
    predicted = prediction(problem, attempt, W, radius / 1000, points=points)
    if predicted.modal is None or predicted.modal > most:
        return None
    fixed = polish(state, extended=True, max_iterations=0)
    assert fixed.tail is not None
    distances, met = [], None
    wanted = set(predicted.updates.tolist())
    S_scale, tau = 1.0 / state.N, state.gamma * state.lam
    for k in range(int(predicted.updates[-1]) + 1):
        apart = float(np.linalg.norm((W - fixed.U) - fixed.tail))
        if k in wanted:
            distances.append(apart)
        if met is None and apart <= radius / 1000:
            met = k
        S = W * W * S_scale
        Q = np.zeros_like(S)
        for _ in range(state.s):
            Q, S = Q + S + Q @ S, 2 * S + S @ S
        c = state.alpha + state.rho * np.trace(S)
        V = W - state.gamma * (state.Sigma @ W - state.Sigma + c * (2 * W * Q.T))
        W = state.M * (np.maximum(V - tau, 0) - np.maximum(-V - tau, 0))
    assert met is not None, "the target was not met at the last predicted update"
    return Replay(predicted, np.array(distances), met)


def check(replay: Replay) -> None:
    """No distance is above a bound, no count below the truth; float64 distances are off by 2**-40 at most."""
    slack = 1 + 2.0**-40
    assert (replay.distances <= replay.predicted.norm_bounds * slack).all()
    assert (replay.distances <= replay.predicted.modal_bounds * slack).all()
    assert replay.predicted.modal is not None
    assert replay.predicted.norm is not None
    assert replay.met <= replay.predicted.modal <= replay.predicted.norm


@pytest.mark.parametrize(("p", "seeds", "new"), [(3, range(2), True), (3, range(2), False), (5, range(1), True)])
def test_replayed_distances_stay_below_both_bounds(p: int, seeds: range, new: bool) -> None:
    """A corpus subset, two balls each, replays of up to 2000 updates; the modal count is within 20 % in the median."""
    replays = []
    for seed, problem in enumerate(problems(p, seeds, new)):
        for attempt in balls(problem):
            replay = replayed(problem, attempt, seed, 2000)
            if replay is not None:
                check(replay)
                replays.append(replay)
    assert len(replays) >= 2
    assert np.median([replay.ratio for replay in replays]) <= 1.2


@pytest.mark.slow
@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("p", corpus.SIZES)
def test_the_corpus_stays_below_both_bounds(p: int, new: bool) -> None:
    """All snapshots of a size, at every one of up to 60,000 updates; benchmarks/contraction.py reports the ratios."""
    ratios = []
    for seed, problem in enumerate(problems(p, corpus.SEEDS, new)):
        for attempt in balls(problem):
            replay = replayed(problem, attempt, seed, 30_000, EVERY)
            if replay is not None:
                assert np.array_equal(replay.predicted.updates, np.arange(len(replay.distances)))
                check(replay)
                ratios.append(replay.ratio)
    assert len(ratios) >= 15
    assert np.median(ratios) <= 1.2


def test_a_start_at_every_share_of_the_radius_is_predicted() -> None:
    """From 2**-k of the radius the count falls with k, and is 0 once the start is within the tolerance."""
    problem = problems(3, range(1), True, count=1)[0]
    attempt = balls(problem)[0]
    radius = attempt.outcome.stage.radius
    free = (problem.state.M != 0) & ~problem.inactive(radius)
    D = np.random.default_rng(1).normal(size=free.shape) * free
    D /= np.linalg.norm(D)
    counts = []
    for k in range(12):
        predicted = prediction(problem, attempt, problem.center + D * radius * 2.0 ** -(k + 0.01), radius / 1000)
        assert predicted.modal is not None
        counts.append(predicted.modal)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 0
    assert counts[-1] == 0


def test_the_bounds_start_at_the_start_and_never_rise_above_the_norm_bound() -> None:
    """Bound 0 is at least the distance of the start; the modal bounds are below the norm bounds, and both fall to the floor."""
    problem = problems(3, range(1, 2), True, count=1)[0]
    for attempt in balls(problem):
        replay = replayed(problem, attempt, 5, 5000)
        assert replay is not None
        predicted = replay.predicted
        assert predicted.start >= replay.distances[0] * (1 - 2.0**-40)
        assert (predicted.modal_bounds <= predicted.norm_bounds).all()
        assert (np.diff(predicted.norm_bounds) <= 0).all()
        assert predicted.modal_bounds[-1] >= predicted.floor * (1 - 2.0**-40)


def test_entry_replays_until_the_ball_and_not_longer() -> None:
    """From a saved state outside the ball, the first float64 iterate inside and on the face is the entry."""
    state = corpus.snapshots(3, 4)[0]
    centered = with_new_step(replace(state, W=polish(state).U), BINARY64)
    assert centered is not None
    problem = Problem(centered, BINARY64)
    attempt = balls(problem)[0]
    radius = attempt.outcome.stage.radius
    assert np.linalg.norm(state.W - problem.center) > radius
    seen = []
    entry = enter(problem, attempt, state.W, 3000, seen.append)
    assert isinstance(entry, Entry)
    assert entry.replayed > 0
    assert seen == list(range(1, entry.replayed + 1))
    assert entry.distance <= radius
    # one update less is not enough
    assert isinstance(enter(problem, attempt, state.W, entry.replayed - 1), str)


def test_a_start_off_the_face_is_refused_or_counted_in_full() -> None:
    """Half the radius away in an inactive entry alone: the start bound may not be that of the centre."""
    for problem in problems(5, range(3), False, count=1):
        attempt = search_face(problem, 1e-6).smallest
        if attempt is None or attempt.face == np.count_nonzero(problem.state.M):
            continue
        radius = attempt.outcome.stage.radius
        inactive = np.argwhere(problem.inactive(radius))
        W = problem.center.copy()
        W[tuple(inactive[0])] = radius / 2
        try:
            predicted = prediction(problem, attempt, W, radius / 1000)
        except InputRejected:
            return
        assert predicted.start >= radius / 2
        assert predicted.modal != 0
        return
    pytest.fail("no snapshot has an inactive entry")
