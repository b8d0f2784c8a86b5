"""The fixed stage of the Poly-prox block, for `certify updates`: with the classes that make the claims of a report."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from certify.cases import Options
from certify.cases.polyprox.certificates import inputs_of
from certify.cases.polyprox.stage.claims import StageCertifier
from certify.cases.polyprox.stage.methods import Attempt
from certify.cases.polyprox.stage.prediction import Entry, distance, enter, prediction
from certify.cases.polyprox.stage.search import Search, ball_for, search_face
from certify.cases.polyprox.state import State
from certify.cli.convergence import Convergence, Floats, Progress, Spectrum

from certify.arithmetic import BINARY64, Format, Ieee
from certify.certificate import Verdict
from certify.graph import evaluate, output


class Stage:
    """The fixed stage of one state in one format.

    Parameters
    ----------
    state, format : the saved state, and what the program computes in.
    options : tol, step and replay.
    progress : called with what is being done.
    """

    def __init__(self, state: State, format: Format, options: Options, progress: Progress) -> None:
        self.state = state
        self.format = format
        self.options = options
        self.progress = progress
        self.certifier = StageCertifier(state, options, [format], progress=progress)

    def convergence(self, further: int) -> Convergence:
        """All of it, with at most `further` replayed updates beside the bounds."""
        away = distance(self.state.W, self.certifier.problem.center)
        verdict, reason, entry, attempt = self._entry(away)
        predicted = None
        if entry is not None and attempt is not None:
            self.progress(0, 1, "counting updates")
            predicted = prediction(self.found.problem, attempt, entry.W, self.options.tol)
            if predicted.modal is None:
                verdict, reason = Verdict.UNDECIDED, self._floor(predicted.floor)
        ball = attempt or self.found.largest
        entered = 0 if entry is None else entry.replayed
        shown = further if predicted is None else min(further, entered + int(predicted.updates[-1]))
        return Convergence(
            verdict=verdict,
            reason=reason,
            away=away,
            radius=None if ball is None else ball.outcome.stage.radius,
            q=None if ball is None else ball.outcome.q,
            entered=entered,
            prediction=predicted,
            distances=self.distances(shown) if further else np.empty(0),
            spectrum=self.spectrum(ball),
        )

    @cached_property
    def found(self) -> Search:
        """The certified balls in the format; in float64 if even the exact map has none."""
        exact = self.certifier.found
        if self.format == BINARY64 or exact.largest is None:
            return exact
        self.progress(0, 1, f"the state: {self.format.name}")
        return search_face(self.certifier.problem.in_format(self.format), self.options.tol, bisections=1)

    def distances(self, count: int) -> Floats:
        """Distance to the centre after 0 .. count updates of the program in the format; fewer if it overflows."""
        problem, ieee = self.found.problem, Ieee(self.format)
        inputs = {name: ieee.constant(np.asarray(value)) for name, value in inputs_of(problem.state).items()}
        W = np.asarray(self.state.W, dtype=np.float64)
        found = []
        for k in range(count + 1):
            # of what a program of that format can hold: the largest entry first, as squares overflow
            apart = np.abs(W - problem.center)
            size = float(apart.max(initial=0.0))
            if not np.isfinite(size):
                break
            found.append(size * float(np.linalg.norm(apart / size)) if size else 0.0)
            self.progress(k, max(count, 1), f"replaying in {self.format.name}")
            if k < count:
                values = evaluate(problem.graph, ieee, {**inputs, "W": ieee.constant(W)}, outputs=["W"])
                W = output(problem.graph, ieee, values, "W").astype(np.float64)
        return np.array(found)

    def spectrum(self, attempt: Attempt | None) -> Spectrum | None:
        """On the face of the ball, else on the active entries of the centre."""
        problem = self.found.problem
        gamma = problem.state.gamma
        inactive = problem.center == 0 if attempt is None else problem.inactive(attempt.outcome.stage.radius)
        face = np.nonzero((problem.state.M != 0) & ~inactive)
        if len(face[0]) == 0:
            return None
        values = gamma * np.linalg.eigvalsh(problem.curvature_at_center(face)[0].mid)
        if attempt is None:
            return Spectrum(values, None, None)
        return Spectrum(values, gamma * attempt.outcome.stage.mu, gamma * attempt.outcome.stage.L)

    def _entry(self, away: float) -> tuple[Verdict, str, Entry | None, Attempt | None]:
        """How the updates come into a certified ball, as in the claims; or the verdict and reason if they do not."""
        found, name = self.found, self.format.name
        if self.certifier.found.largest is None:
            claim = self.certifier.face()
            return claim.verdict, claim.reason, None, None
        if found.largest is None:
            return Verdict.UNDECIDED, f"no ball is certified in {name}: {found.reason}", None, None
        if found.smallest is None:
            return Verdict.UNDECIDED, self._floor(found.largest.outcome.floor), None, None
        attempt = ball_for(found.problem, found, away)
        entry = None if attempt is None else enter(found.problem, attempt, self.state.W, 1)
        if entry is not None:
            return Verdict.CERTIFIED, "", entry, attempt
        radius, total = found.largest.outcome.stage.radius, self.options.replay
        if total == 0:
            reason = f"the state is {away:.3g} from the centre, outside the certified ball of radius {radius:.3g}"
            return Verdict.UNDECIDED, f"{reason}; replay the block with --replay", None, None
        entry = enter(
            found.problem,
            found.largest,
            self.state.W,
            total,
            lambda k: self.progress(k, max(total, 1), f"replaying in {name}"),
        )
        if entry is None:
            reason = (
                f"within {total} replayed updates the state does not enter the certified ball of radius {radius:.3g}"
            )
            return Verdict.UNDECIDED, f"{reason}; a smaller step or more of them may", None, None
        return Verdict.CERTIFIED, "", entry, ball_for(found.problem, found, entry.distance) or found.largest

    def _floor(self, floor: float) -> str:
        finer = "a larger tolerance" if self.format == BINARY64 else "a finer format or a larger tolerance"
        return (
            f"rounding in {self.format.name} keeps the distance from being proved below {floor:.3g}; {finer} would do"
        )
