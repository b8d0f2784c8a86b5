"""The distance to the fixed point from what one more update moves: never below the distance itself, and near it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox import corpus
from certify.cases.polyprox.stage.convergence import posterior
from certify.cases.polyprox.stage.methods import face_test
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.prediction import Entry, distance, enter
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.search import search_face

from certify.arithmetic import BINARY32, BINARY64, Format


@pytest.mark.parametrize("format", [BINARY32, BINARY64], ids=str)
@pytest.mark.parametrize("share", [0.5, 1e-3, 0.0])
def test_the_distance_is_at_most_the_bound(format: Format, share: float) -> None:
    """From starts in the ball, off the face too; the fixed point is known to 30 digits."""
    checked = 0
    for seed in range(3):
        for state in corpus.snapshots(3, seed):
            polished = polish(state, extended=True)
            problem = Problem(replace(state, W=polished.U), format)
            found = search_face(problem, 1e-2)
            if found.largest is None:
                continue
            radius = found.largest.outcome.stage.radius
            direction = np.random.default_rng(seed).normal(size=state.W.shape) * state.M
            start = polished.U + direction * (share * radius / np.linalg.norm(direction))
            entry = enter(problem, found.largest, start, 3)
            if isinstance(entry, str):
                continue
            bound = posterior(problem, entry, found.largest)
            assert bound is not None
            pairs = zip(entry.W.flat, polished.U.flat, polished.tail.flat, strict=True)
            square = sum(((Fraction(x) - Fraction(u) - Fraction(t)) ** 2 for x, u, t in pairs), Fraction(0))
            assert square <= Fraction(bound) ** 2 * (1 + Fraction(1, 10**20))
            checked += 1
    assert checked >= 3


def test_no_single_program() -> None:
    """Any order stands for many programs: no update can be run, and nothing is said."""
    state = corpus.snapshots(3, 0)[2]
    problem = Problem(replace(state, W=polish(state).U), BINARY64, "any-order")
    attempt = face_test(problem, 1e-6)
    assert posterior(problem, Entry(0, problem.center, distance(problem.center, problem.center)), attempt) is None
