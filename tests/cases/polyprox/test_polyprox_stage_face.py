"""The face: entries declared inactive are exactly 0 after any update from the ball, and starts off the face land in it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from certify.cases.polyprox import State, corpus, update_exact
from certify.cases.polyprox.certificates import inputs_of
from certify.cases.polyprox.stage.methods import Attempt
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.prediction import enter
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.search import search_face

from certify.arithmetic import BINARY32, BINARY64, Format, Ieee
from certify.graph import evaluate, output

SNAPSHOTS = [(3, 0, 0), (3, 1, 2), (5, 0, 1), (5, 2, 0), (10, 1, 0)]


@cache
def centered(p: int, seed: int, k: int) -> State:
    """A corpus snapshot moved to its polished centre."""
    state = corpus.snapshots(p, seed)[k]
    return replace(state, W=polish(state).U)


def polished(p: int, seed: int, k: int, format: Format = BINARY64) -> Problem:
    """The problem around the centre."""
    return Problem(centered(p, seed, k), format)


def points(problem: Problem, radius: float, where: np.ndarray, count: int, seed: int) -> list[np.ndarray]:
    """Float points of the ball on the entries `where`: its surface in random, single and extreme sign directions."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(count):
        D = (rng.normal(size=where.shape), rng.choice([-1.0, 1.0], where.shape))[k % 2] * where
        if k % 3 == 0:
            D *= rng.random(where.shape) < 2 / where.sum()
        size = np.linalg.norm(D)
        share = rng.choice([1.0, 1.0, rng.random()]) * (1 - 1e-9)
        found.append(problem.center + (D * (share * radius / size) if size else D))
    return found


def program(problem: Problem, W: np.ndarray) -> np.ndarray:
    """W+ of the serial program in the problem's format, bit for bit (other tests hold it to the literal layers)."""
    ieee = Ieee(problem.format)
    inputs = {name: ieee.constant(np.asarray(value)) for name, value in inputs_of(problem.state).items()}
    values = evaluate(problem.graph, ieee, inputs | {"W": ieee.constant(W)}, outputs=["W"])
    return output(problem.graph, ieee, values, "W").astype(np.float64)


def inside(W: np.ndarray, problem: Problem, radius: float) -> bool:
    """Whether ||W - U|| <= r, exactly."""
    pairs = zip(np.ravel(W).tolist(), problem.center.ravel().tolist(), strict=True)
    return sum(((Fraction(x) - Fraction(u)) ** 2 for x, u in pairs), Fraction(0)) <= Fraction(radius) ** 2


@pytest.mark.parametrize(("p", "seed", "k"), SNAPSHOTS)
def test_inactive_entries_are_exactly_zero_after_float_execution(p: int, seed: int, k: int) -> None:
    """The block in float64, and in float32 for its own face, at points of the whole ball, leaves them at 0."""
    checked = 0
    for format in (BINARY64, BINARY32):
        problem = polished(p, seed, k, format)
        allowed = problem.state.M != 0
        for radius in (1e-9, 1e-4, 1e-2):
            inactive = problem.inactive(radius)
            if not inactive.any():
                continue
            for W in points(problem, radius, allowed, 20, seed):
                assert not program(problem, W)[inactive].any()
                checked += 1
    assert checked > 0 or p == 3


@pytest.mark.parametrize(("p", "seed", "k"), SNAPSHOTS[:4])
def test_inactive_entries_are_exactly_zero_after_exact_updates(p: int, seed: int, k: int) -> None:
    """The same in rational arithmetic."""
    problem = polished(p, seed, k)
    for radius in (1e-9, 1e-2):
        inactive = problem.inactive(radius)
        for W in points(problem, radius, problem.state.M != 0, 4, seed):
            image = update_exact(problem.state, W=W).W
            assert not any(image[i][j] for i, j in np.argwhere(inactive).tolist())


@pytest.mark.parametrize(("p", "seed", "k"), SNAPSHOTS)
def test_inactive_entries_are_zero_at_the_centre_and_not_active(p: int, seed: int, k: int) -> None:
    """They are allowed entries with U = 0, |grad J| < lam; and they grow fewer as the radius grows."""
    problem = polished(p, seed, k)
    before = None
    for radius in (1e-12, 1e-6, 1e-3, 0.1, 1.0):
        inactive = problem.inactive(radius)
        assert not np.any(inactive & (problem.state.M == 0))
        assert not problem.center[inactive].any()
        if before is not None:
            assert not np.any(inactive & ~before)
        before = inactive


def certified_off_the_face(p: int, seed: int, k: int) -> tuple[Problem, Attempt] | None:
    """A certified ball with inactive entries and room for starts off the face."""
    problem = polished(p, seed, k)
    allowed = np.count_nonzero(problem.state.M)
    balls = [a for a in search_face(problem, 1e-6).attempts if a.outcome.certified and a.face < allowed]
    return (problem, max(balls, key=lambda a: a.outcome.stage.radius)) if balls else None


def test_starts_off_the_face_land_in_the_ball_after_one_update() -> None:
    """Within entry_radius of U, off the face: after one update, exact or float64, the state is in the ball and on the face."""
    used = 0
    for p, seed, k in SNAPSHOTS:
        known = certified_off_the_face(p, seed, k)
        if known is None:
            continue
        problem, attempt = known
        radius = attempt.outcome.stage.radius
        inactive = problem.inactive(radius)
        assert 0 < attempt.entry_radius <= radius
        for n, W in enumerate(points(problem, attempt.entry_radius, problem.state.M != 0, 12, seed)):
            landed = program(problem, W)
            assert not landed[inactive].any()
            assert inside(landed, problem, radius)
            if n < 2 and p < 10:
                image = update_exact(problem.state, W=W).W
                assert (
                    sum(
                        (x - Fraction(u)) ** 2
                        for row, at in zip(image, problem.center.tolist(), strict=True)
                        for x, u in zip(row, at, strict=True)
                    )
                    <= Fraction(radius) ** 2
                )
            if W[inactive].any():
                # as a start it is replayed once, to the point the program computes
                entry = enter(problem, attempt, W, 1)
                assert entry is not None
                assert entry.replayed == 1
                assert np.array_equal(entry.W, landed)
                used += 1
    assert used > 5


def test_a_start_off_the_face_is_no_entry_by_itself() -> None:
    """With no update allowed, a start with a nonzero inactive entry is not accepted, however close it is."""
    for p, seed, k in SNAPSHOTS:
        known = certified_off_the_face(p, seed, k)
        if known is None:
            continue
        problem, attempt = known
        W = problem.center.copy()
        W[problem.inactive(attempt.outcome.stage.radius)] = 5e-324
        assert isinstance(enter(problem, attempt, W, 0), str)
        assert not isinstance(enter(problem, attempt, problem.center, 0), str)
        return
    pytest.fail("no snapshot has an inactive entry")


def test_float_trajectories_keep_the_ball_and_come_closer() -> None:
    """From the surface of certified balls, 50 float64 updates: in the ball exactly, and ||W_k - U|| obeys the theorem."""
    for p, seed, k in SNAPSHOTS[:3]:
        problem = polished(p, seed, k)
        found = search_face(problem, 1e-6)
        if found.largest is None:
            continue
        outcome = found.largest.outcome
        radius, q = outcome.stage.radius, outcome.q
        free = (problem.state.M != 0) & ~problem.inactive(radius)
        for W in points(problem, radius, free, 4, seed):
            apart = np.linalg.norm(W - problem.center)
            for _ in range(50):
                W = program(problem, W)
                assert inside(W, problem, radius)
                now = np.linalg.norm(W - problem.center)
                assert now <= q * apart + outcome.stage.d + outcome.stage.eps + 1e-16
                apart = now
