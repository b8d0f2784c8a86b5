"""From a saved state into a certified ball, and from there to the tolerance: for claims, tables and plots alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from certify.cases.case import Options, Progress
from certify.cases.convergence import Convergence, Spectrum
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.certificate import Verdict
from certify.contraction.modal import Prediction
from certify.contraction.updates import posterior_bound

from ..state import State
from .methods import Attempt
from .prediction import Entry, count_through, distance, enter, prediction, replay
from .problem import Problem
from .search import Search, ball_for

#: Of a curve in a report.
POINTS = 60


@dataclass(frozen=True)
class Approach:
    """How a state comes to the fixed point; `reason` is empty if and only if `count` is proved.

    Attributes
    ----------
    entry, attempt : the start in a certified ball, and the ball; None if none is entered.
    prediction : the bounds from there on.
    count : updates from the entry on.
    through : the smaller ball that the count goes through, if it does.
    """

    entry: Entry | None
    attempt: Attempt | None
    prediction: Prediction | None
    count: int | None
    reason: str
    through: Attempt | None = None


def approach(found: Search, W: NDArray[np.float64], options: Options, progress: Progress) -> Approach:
    """Enter a ball of `found` from W, by at most one update or by `options.replay` of them, and count from there."""
    problem = found.problem
    name = problem.format.name
    if found.largest is None:
        return _nothing(f"no ball is certified in {name}: {found.reason}")
    if found.smallest is None:
        return _nothing(_floor(problem, found.largest.outcome.floor))
    entered = _enter(found, W, options, progress)
    if isinstance(entered, str):
        return _nothing(entered)
    entry, attempt = entered
    progress(0, 1, "counting updates")
    predicted = prediction(problem, attempt, entry.W, options.tol)
    count, through = predicted.modal, None
    if count is None:
        through = found.smallest
        count = count_through(attempt, through, lambda tol: prediction(problem, attempt, entry.W, tol), options.tol)
    reason = _floor(problem, predicted.floor) if count is None else ""
    return Approach(entry, attempt, predicted, count, reason, through)


def converge(state: State, format: Format, options: Options, further: int, progress: Progress) -> Convergence:
    """What is proved about repeated updates of a state in a format, with up to `further` replayed beside it."""
    from .claims import StageCertifier

    certifier = StageCertifier(state, options, [format], progress=progress)
    found = certifier.search(format)
    problem = found.problem
    away = distance(state.W, problem.center)
    way = approach(found, state.W, options, progress)
    verdict, reason = (Verdict.UNDECIDED, way.reason) if way.reason else (Verdict.CERTIFIED, "")
    if certifier.found.largest is None:
        claim = certifier.face()
        verdict, reason = claim.verdict, claim.reason
    ball = way.attempt or found.largest
    entered = 0 if way.entry is None else way.entry.replayed
    predicted = None if way.prediction is None else replace(way.prediction, modal=way.count)
    shown = further if predicted is None else min(further, entered + int(predicted.updates[-1]))
    return Convergence(
        verdict=verdict,
        reason=reason,
        away=away,
        radius=None if ball is None else ball.outcome.stage.radius,
        q=None if ball is None else ball.outcome.q,
        entered=entered,
        posterior=None if way.entry is None or way.attempt is None else posterior(problem, way.entry, way.attempt),
        prediction=predicted,
        distances=distances(problem, state.W, shown, progress) if further else np.empty(0),
        spectrum=spectrum(problem, ball),
    )


def _enter(found: Search, W: NDArray[np.float64], options: Options, progress: Progress) -> tuple[Entry, Attempt] | str:
    problem, largest = found.problem, found.largest
    assert largest is not None
    away = distance(W, problem.center)
    near = ball_for(problem, found, away)
    if near is not None:
        entry = enter(problem, near, W, 1)
        if isinstance(entry, Entry):
            return entry, near
    total, radius = options.replay, largest.outcome.stage.radius
    if total == 0:
        outside = f"the state is {away:.3g} from the centre, outside the certified ball of radius {radius:.3g}"
        return f"{outside}; replay the block with --replay"
    what = f"replaying in {problem.format.name}"
    entry = enter(problem, largest, W, total, lambda k: progress(k, total, what))
    if isinstance(entry, str):
        return f"{entry}; a smaller step or more of them may"
    # a smaller ball has a better rate, but also a smaller face, which the entry must lie on
    tighter = ball_for(problem, found, entry.distance)
    if tighter is not None and isinstance(enter(problem, tighter, entry.W, 0), Entry):
        return entry, tighter
    return entry, largest


def posterior(problem: Problem, entry: Entry, attempt: Attempt) -> float | None:
    """Bound of the distance of an entered state to the fixed point, from what one more update of the program moves it.

    It lies on the face of the ball, where the update is q-Lipschitz; eps is what the program may be wrong by.
    """
    after = next(islice(replay(problem, entry.W), 1, 2), None)
    if after is None:
        return None
    return posterior_bound(distance(entry.W, after), attempt.outcome.q, attempt.outcome.stage.eps)


def distances(problem: Problem, start: NDArray[np.float64], count: int, progress: Progress) -> NDArray[np.float64]:
    """Distance to the centre after 0 .. count replayed updates, to nearest; fewer if the program overflows."""
    found = []
    for k, W in enumerate(islice(replay(problem, start), count + 1)):
        apart = np.abs(W - problem.center)
        size = float(apart.max(initial=0.0))  # taken out first, as squares overflow
        found.append(size * float(np.linalg.norm(apart / size)) if size else 0.0)
        progress(k, max(count, 1), f"replaying in {problem.format.name}")
    return np.array(found)


def spectrum(problem: Problem, attempt: Attempt | None) -> Spectrum | None:
    """On the face of the ball, else on the active entries of the centre."""
    gamma = problem.state.gamma
    inactive = problem.center == 0 if attempt is None else problem.inactive(attempt.outcome.stage.radius)
    face = np.nonzero((problem.state.M != 0) & ~inactive)
    if len(face[0]) == 0:
        return None
    at = problem.at_center(face)
    if not np.isfinite(at.K.mid).all():
        return None
    values = gamma * np.linalg.eigvalsh(at.K.mid)
    if attempt is None:
        return Spectrum(np.asarray(values, dtype=np.float64), None, None)
    stage = attempt.outcome.stage
    return Spectrum(np.asarray(values, dtype=np.float64), gamma * stage.mu, gamma * stage.L)


def curves(prediction: Prediction, replayed: Sequence[float]) -> dict[str, Any]:
    """What a page draws: both bounds by update, and replayed distances by update, as decimals; at most POINTS of each."""
    at = _thinned(len(prediction.updates))
    found: dict[str, Any] = {
        "updates": prediction.updates[at].tolist(),
        "norm": [f"{x:.4g}" for x in prediction.norm_bounds[at].tolist()],
        "modal": [f"{x:.4g}" for x in prediction.modal_bounds[at].tolist()],
    }
    if len(replayed):
        found["replayed"] = [[k, f"{replayed[k]:.4g}"] for k in _thinned(len(replayed)).tolist()]
    return found


def _thinned(count: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, POINTS).round().astype(np.intp))


def _nothing(reason: str) -> Approach:
    return Approach(None, None, None, None, reason)


def _floor(problem: Problem, floor: float) -> str:
    finer = "a larger tolerance" if problem.format.precision == 53 else "a finer format or a larger tolerance"
    return f"rounding in {problem.format.name} keeps the distance from being proved below {floor:.3g}; {finer} would do"
