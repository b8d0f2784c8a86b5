"""Repeated blocks as in the paper's Table 2: the literal layers, the whole residual stream fed back, within the counts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox import corpus, decode, encode, forward, registers, serial, weights
from certify.cases.polyprox.layers import SCALAR_SCRATCH, WIDE_SCRATCH
from certify.cases.polyprox.stage.methods import Attempt, face_test
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.prediction import distance, enter, prediction
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.search import Search, search_face, with_new_step

from certify.arithmetic import BINARY64

TOL = 1e-6
SLOW = pytest.mark.slow
# (p, seed, start): snapshots whose counts are about those of the paper's runs, 43 to 978
RUNS = [
    pytest.param(3, 5, "half radius"),
    pytest.param(3, 4, "saved endpoint", marks=SLOW),
    pytest.param(5, 7, "half radius", marks=SLOW),
    pytest.param(5, 3, "saved endpoint", marks=SLOW),
    pytest.param(10, 7, "half radius", marks=SLOW),
    pytest.param(10, 5, "saved endpoint", marks=SLOW),
]


def start_of(problem: Problem, found: Search, saved: np.ndarray, start: str) -> tuple[Attempt, np.ndarray, int]:
    """The ball, a start in it, and how many updates were replayed to get there."""
    assert found.largest is not None
    radius = found.largest.outcome.stage.radius
    if start == "half radius":
        # of a ball well within: in the largest one q is next to 1, and a count from it says little
        radius /= 8
        attempt = face_test(problem, radius)
        assert attempt.outcome.certified
        free = (problem.state.M != 0) & ~problem.inactive(radius)
        D = np.random.default_rng(0).normal(size=free.shape) * free
        return attempt, problem.center + D * (radius / 2 / np.linalg.norm(D)), 0
    entry = enter(problem, found.largest, saved, 3000)
    assert entry is not None
    assert entry.distance <= radius
    return found.largest, entry.W, entry.replayed


@pytest.mark.parametrize(("p", "seed", "start"), RUNS)
def test_repeated_blocks_meet_the_target_within_the_count(p: int, seed: int, start: str) -> None:
    """In the ball after every update, on the face, scratch clean, alpha still; at the count within 1e-6 of the fixed point."""
    saved = corpus.snapshots(p, seed)[0]
    centered = with_new_step(replace(saved, W=polish(saved).U), BINARY64)
    assert centered is not None
    problem = Problem(centered, BINARY64)
    found = search_face(problem, TOL)
    attempt, W, _ = start_of(problem, found, saved.W, start)
    radius = attempt.outcome.stage.radius
    inactive = problem.inactive(radius)
    predicted = prediction(problem, attempt, W, TOL)
    assert predicted.modal is not None
    assert predicted.norm is not None
    assert 0 < predicted.modal <= predicted.norm

    # the fixed point to far better than the tolerance: the centre in twice the precision
    fixed = polish(problem.state, extended=True, max_iterations=0)
    assert fixed.extended_residual is not None
    exact = fixed.extended()
    off = fixed.extended_residual / (1 - attempt.outcome.q)
    assert off < 1e-9 * TOL

    def apart(W: np.ndarray) -> float:
        pairs = zip(W.ravel().tolist(), [x for row in exact for x in row], strict=True)
        return float(sum(((Fraction(w) - x) ** 2 for w, x in pairs), Fraction(0))) ** 0.5

    at = registers(centered.P)
    scratch = np.concatenate([np.arange(at[n].start, at[n].stop) for n in (*WIDE_SCRATCH, *SCALAR_SCRATCH)])
    bounds = dict(zip(predicted.updates.tolist(), predicted.modal_bounds.tolist(), strict=True))
    Z = encode(replace(centered, W=W))
    executor, layers = serial(np.float64), weights(centered.P)
    met = None
    for k in range(predicted.modal + 1):
        decoded, alpha = decode(Z, p)
        assert distance(decoded, problem.center) <= radius
        assert not decoded[inactive].any()
        assert alpha == centered.alpha
        assert not Z[:, scratch].any()
        now = apart(decoded)
        if k in bounds:
            assert now <= bounds[k] + off
        if met is None and now <= TOL:
            met = k
        if k < predicted.modal:
            Z = forward(Z, layers, executor)
    assert now <= TOL
    assert met is not None
    # the count is no idle one
    assert met > 0.3 * predicted.modal
