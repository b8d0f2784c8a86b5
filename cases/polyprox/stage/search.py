"""Which balls certify: the smallest that reaches a tolerance, and the largest found; with the recorded or a new step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from certify.arithmetic import Format

from ..state import State
from .methods import METHODS, Attempt, face_test
from .problem import Problem

#: The radii of the paper's protocol, in the order in which they are tried.
PAPER_RADII = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001, 0.00003, 0.00001, 0.000003, 0.000001)
PROBES = (1e-9, 1e-12, 1e-14)
LARGEST_RADIUS = 1.0
GROWTHS = 9  # attempts at a larger ball
ROUNDS = 4  # of choosing a new step for the ball it needs


@dataclass(frozen=True)
class Search:
    """What a search over radii found; every attempt is kept.

    Attributes
    ----------
    attempts : in the order in which they were made.
    smallest : the smallest certified ball whose floor is below the tolerance; None if there is none.
    largest : the largest certified ball; None if there is none.
    """

    problem: Problem
    attempts: tuple[Attempt, ...]
    smallest: Attempt | None
    largest: Attempt | None

    @property
    def reason(self) -> str:
        """Why nothing is certified, in the words of the attempt that came closest: a contraction that nearly fits its ball."""
        failed = [a for a in self.attempts if not a.outcome.certified]
        return min(failed, key=_short_by).outcome.reason if failed else ""


def paper_protocol(problem: Problem, method: str, tol: float, radii: Sequence[float] = PAPER_RADII) -> Search:
    """Try the paper's radii in descending order and stop at the first that certifies the tolerance."""
    attempts = []
    for radius in radii:
        attempt = METHODS[method](problem, radius)
        attempts.append(attempt)
        if _enough(attempt, tol):
            return Search(problem, tuple(attempts), attempt, attempt)
    return Search(problem, tuple(attempts), None, None)


def search_face(problem: Problem, tol: float, growths: int = GROWTHS) -> Search:
    """The smallest ball that certifies `tol`, by raising (d + eps) / (1 - q) until it passes; then the largest, by growing.

    q grows and d + eps <= (1 - q) r gets easier with r, so the certified radii are an interval as far as the enclosures are
    monotone; nothing relies on it. Where the smallest certified ball does not reach `tol`, no larger one is looked for.
    """
    attempts: list[Attempt] = []

    def tried(radius: float) -> Attempt:
        attempts.append(face_test(problem, radius))
        return attempts[-1]

    probe = next((a for a in map(tried, PROBES) if a.outcome.stage.mu > 0 and a.outcome.q < 1), None)
    if probe is None:
        return Search(problem, tuple(attempts), None, None)
    smallest = None
    radius = max(_needed(probe), PROBES[-1])  # a centre without any error needs no ball at all
    for _ in range(8):
        attempt = tried(radius)
        if attempt.outcome.certified:
            smallest = attempt
            break
        if not attempt.outcome.q < 1:
            break
        radius = max(_needed(attempt), 1.5 * radius)
    if smallest is None:
        return Search(problem, tuple(attempts), None, None)
    if not _enough(smallest, tol):
        return Search(problem, tuple(attempts), None, smallest)
    largest = _largest(tried, smallest, growths)
    return Search(problem, tuple(attempts), smallest, largest)


def _largest(tried: Callable[[float], Attempt], smallest: Attempt, growths: int) -> Attempt:
    """The largest certified ball that `growths` attempts find: q is nearly linear in the radius, which says where it is 1."""
    best, failed = smallest, 2 * LARGEST_RADIUS
    for _ in range(growths):
        radius, q = best.outcome.stage.radius, best.outcome.q
        if failed < 1.5 * radius:
            break
        risen, gap = q - smallest.outcome.q, 1 - smallest.outcome.q
        guess = radius * min(0.9 * gap / risen, 1e5) if risen > 1e-3 * gap else 1e3 * radius
        if not 1.2 * radius < guess < 0.9 * failed:
            guess = sqrt(radius * failed)
        attempt = tried(min(guess, LARGEST_RADIUS))
        if attempt.outcome.certified:
            best = attempt
        else:
            failed = attempt.outcome.stage.radius
        if best.outcome.stage.radius == LARGEST_RADIUS:
            break
    return best


def ball_for(problem: Problem, found: Search, distance: float) -> Attempt | None:
    """A certified ball that contains a start at `distance` from the centre; the tightest that is cheap to find."""
    if found.smallest is None or found.largest is None:
        return None
    if distance <= found.smallest.outcome.stage.radius:
        return found.smallest
    for radius in (1.001 * distance, 1.5 * distance):
        attempt = face_test(problem, radius)
        if attempt.outcome.certified and distance <= radius:
            return attempt
    covers = distance <= found.largest.outcome.stage.radius
    return found.largest if covers else None


def with_new_step(state: State, format: Format) -> State | None:
    """The state with a step size near 2 / (mu + L) of its face, which minimises q; None if mu > 0 is not proved.

    The step defines another map with the same fixed points. mu and L are those of the ball that the step needs, which
    depends on the step: a few rounds settle it, and any step is safe, as the search tests it afresh.
    """
    radius, chosen = PROBES[-1], None
    for probe in PROBES:
        if face_test(Problem(state, format), probe).outcome.stage.mu > 0:
            radius = probe
            break
    for _ in range(ROUNDS):
        stage = face_test(Problem(chosen or state, format), radius).outcome.stage
        if not (stage.mu > 0 and np.isfinite(stage.L)):
            break
        chosen = replace(state, gamma=2.0 / (stage.mu + stage.L))
        needed = _needed(face_test(Problem(chosen, format), radius))
        if needed <= radius:
            break
        radius = needed
    return chosen


def _needed(attempt: Attempt) -> float:
    stage, q = attempt.outcome.stage, attempt.outcome.q
    return 1.01 * (stage.d + stage.eps) / (1 - q) if q < 1 else stage.radius


def _short_by(attempt: Attempt) -> tuple[bool, float]:
    stage, q = attempt.outcome.stage, attempt.outcome.q
    room = (1 - q) * stage.radius
    return (False, (stage.d + stage.eps) / room) if q < 1 and room > 0 else (True, q)


def _enough(attempt: Attempt, tol: float) -> bool:
    return attempt.outcome.certified and attempt.outcome.floor < tol
