"""The claims about the fixed stage of a state: contraction by each method, refutation, update counts, precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from certify.cases.case import Options, Progress

from certify.arithmetic import BINARY64, Format
from certify.certificate import Claim, Verdict, decimal_up, to_hex
from certify.errors import InputRejected

from ..state import State
from .convergence import approach
from .methods import Attempt
from .polish import Polished, polish
from .problem import Problem
from .refutation import Refutation, refute
from .search import PAPER_RADII, Search, paper_protocol, search_face, with_new_step

DOC = "docs/theory/contraction.md"


class StageCertifier:
    """Makes the claims about the fixed stage of one state: alpha, rho and gamma held, b = 0.

    Parameters
    ----------
    state : the saved state.
    options : methods, step, tol and replay.
    formats : for the update counts and the precision claim, coarse to fine.
    where, suffix : as for `certify.cases.polyprox.certificates.Certifier`.
    progress : called with what is being done.
    """

    def __init__(
        self,
        state: State,
        options: Options,
        formats: Sequence[Format],
        where: str = "the state",
        suffix: str = "",
        progress: Progress = lambda done, total, what: None,
    ) -> None:
        self.state = replace(state, b=0)
        self.options = options
        self.formats = formats
        self.where = where
        self.suffix = suffix
        self.progress = progress

    def claims(self) -> list[Claim]:
        """One claim a method; with the face method also the update counts and the precision."""
        claims = [self.contraction(method) for method in self.options.methods if method != "face"]
        if "face" not in self.options.methods:
            return claims
        return [*claims, self.face(), *self.updates(), self.precision()]

    @cached_property
    def polished(self) -> Polished:
        """The centre."""
        self.progress(0, 1, f"{self.where}: polishing")
        try:
            with np.errstate(all="ignore"):
                return polish(self.state)
        except (InputRejected, OverflowError, np.linalg.LinAlgError):
            # The search for a centre is no proof: where its binary64 numbers overflow, the state itself is tried, and
            # the tests say what is not finite.
            W = self.state.W
            return Polished(U=W, face=W != 0, distance=0.0, residual=np.inf, iterations=0, method="saved")

    @cached_property
    def problem(self) -> Problem:
        """The stage around the polished centre, with the step asked for, in float64."""
        centered = replace(self.state, W=self.polished.U)
        if self.options.step == "new":
            centered = with_new_step(centered, BINARY64) or centered
        return Problem(centered, BINARY64)

    @cached_property
    def found(self) -> Search:
        """The search on the face."""
        self.progress(0, 1, f"{self.where}: face")
        return search_face(self.problem, self.options.tol)

    @cached_property
    def refutation(self) -> Refutation:
        """The attempt to refute, made only where the search certified nothing."""
        return refute(self.problem.state, self.problem.center)

    def contraction(self, method: str) -> Claim:
        """One of the paper's tests, by the paper's radii; the smallest first, as it decides whether any can pass."""
        self.progress(0, 1, f"{self.where}: {method}")
        found = paper_protocol(self.problem, method, self.options.tol, PAPER_RADII[-1:])
        if found.smallest is not None:
            found = paper_protocol(self.problem, method, self.options.tol)
        last = found.attempts[-1]
        if found.smallest is not None:
            return self._contraction(method, Verdict.CERTIFIED, "", found.smallest, found.attempts, {})
        reason = (
            f"no ball of the paper's radii passes; at the smallest, {last.outcome.reason or 'the floor is too high'}"
        )
        return self._contraction(method, Verdict.UNDECIDED, reason, last, found.attempts, {})

    def face(self) -> Claim:
        """The face test: certified on the largest ball found, or refuted at the fixed point, or undecided."""
        found = self.found
        if found.largest is not None:
            extra = {"smallest_radius": to_hex((found.smallest or found.largest).outcome.stage.radius)}
            return self._contraction("face", Verdict.CERTIFIED, "", found.largest, found.attempts, extra)
        tried = self.refutation
        if tried.refuted:
            expansive = tried.kappa_high * self.problem.state.gamma > 2
            kappa = tried.kappa_high if expansive else tried.kappa_low
            reason = (
                f"at the fixed point K_FF has an eigenvalue {'>=' if expansive else '<='} {kappa:.6g}, outside "
                f"(0, 2/gamma = {2 / self.problem.state.gamma:.6g}): the fixed point repels; a step below "
                f"{2 / tried.kappa_high:.3g} would contract"
                if expansive
                else f"at the fixed point K_FF has an eigenvalue <= {kappa:.6g} < 0: it is a saddle and repels"
            )
            evidence: dict[str, Any] = {
                "kappa": to_hex(kappa),
                "cube": to_hex(tried.radius),
                "vector": [to_hex(x) for x in tried.vector],
            }
            return self._contraction("face", Verdict.REFUTED, reason, found.attempts[-1], found.attempts, evidence)
        reason = f"{found.reason}; not refuted either: {tried.reason}"
        return self._contraction("face", Verdict.UNDECIDED, reason, found.attempts[-1], found.attempts, {})

    def updates(self) -> list[Claim]:
        """For each format, after how many updates from the saved state the distance to the fixed point is at most tol."""
        if self.found.largest is None:
            return []
        return [self._updates(format) for format in self.formats]

    def precision(self) -> Claim:
        """The coarsest format in which some ball certifies the tolerance."""
        tol = self.options.tol
        names = ", ".join(format.name for format in self.formats)
        best = next((f for f in self.formats if self.search(f).smallest is not None), None)
        format = "none" if best is None else best.name
        return Claim(
            id=f"precision/{tol:g}{self.suffix}",
            kind="precision",
            statement=f"Of {names}, {format} is the coarsest format in which the fixed stage of {self.where}, with the "
            f"{self.options.step} step size, is certified on a ball to come within {tol:g} of its fixed point and stay there.",
            semantics="program",
            parameters={"tol": to_hex(tol), "format": format, "step": self.options.step},
            verdict=Verdict.UNDECIDED if best is None else Verdict.CERTIFIED,
            reason=f"no ball is certified for {tol:g} in {names}: {self.found.reason or 'the rounding floor is higher'}"
            if best is None
            else "",
            theorem=f"{DOC}#precision",
        )

    def search(self, format: Format) -> Search:
        """The search on the face in a format; in float64 where even that finds nothing."""
        if format == BINARY64 or self.found.largest is None:
            return self.found
        if format.name not in self._searches:
            self.progress(0, 1, f"{self.where}: {format.name}")
            self._searches[format.name] = search_face(self.problem.in_format(format), self.options.tol, bisections=1)
        return self._searches[format.name]

    @cached_property
    def _searches(self) -> dict[str, Search]:
        return {}

    def _updates(self, format: Format) -> Claim:
        tol = self.options.tol
        way = approach(self.search(format), self.state.W, self.options, self.progress)
        entry, attempt, predicted = way.entry, way.attempt, way.prediction
        parameters: dict[str, Any] = {"format": format.name, "order": self.options.order, "tol": to_hex(tol)}
        bounds: dict[str, str] = {}
        display: dict[str, str] = {}
        first = "at most count"
        if way.count is not None and entry is not None and attempt is not None and predicted is not None:
            stage = attempt.outcome.stage
            bounds = {"count": str(way.count), "floor": to_hex(predicted.floor), "start": to_hex(entry.distance)}
            if predicted.norm is not None:
                bounds["norm_count"] = str(predicted.norm)
            display = {name: decimal_up(float.fromhex(bounds[name])) for name in ("floor", "start")}
            display["count"] = f"{way.count:,}"
            parameters |= {"replayed": entry.replayed, "radius": to_hex(stage.radius), "q": to_hex(attempt.outcome.q)}
            if entry.replayed:
                first = f"{entry.replayed} replayed updates, then at most count"
        return Claim(
            id=f"updates/{format.name}{self.suffix}",
            kind="updates",
            statement=f"From {self.where}, after {first} updates of the block in {format.name} with the "
            f"{self.options.step} step size, W is within {tol:g} of the fixed point of the stage, and stays so.",
            semantics="program",
            parameters=parameters,
            verdict=Verdict.UNDECIDED if way.reason else Verdict.CERTIFIED,
            reason=way.reason,
            bounds=bounds,
            assumptions=("IEEE arithmetic as in the rounding claims of this format",),
            theorem=f"{DOC}#updates",
            display=display,
        )

    def _contraction(
        self,
        method: str,
        verdict: Verdict,
        reason: str,
        attempt: Attempt,
        attempts: Sequence[Attempt],
        extra: dict[str, Any],
    ) -> Claim:
        stage, outcome = attempt.outcome.stage, attempt.outcome
        state = self.problem.state
        bounds = {}
        if verdict is Verdict.CERTIFIED:
            bounds = {"q": outcome.q, "mu": stage.mu, "L_J": stage.L, "d": stage.d, "radius": stage.radius}
            bounds |= {"eps_W": stage.eps, "floor": outcome.floor}
            if method == "face":
                bounds["entry_radius"] = attempt.entry_radius
        return Claim(
            id=f"contraction/{method}{self.suffix}",
            kind="contraction",
            statement=f"On the ball of Frobenius radius r around the centre U near {self.where}, with the "
            f"{self.options.step} step size, the fixed-stage update is q-Lipschitz with q < 1"
            f"{' on its face' if method == 'face' else ''}, it and its float64 program stay in the ball, and it has "
            "exactly one fixed point there.",
            semantics="program",
            parameters={
                "method": method,
                "step": self.options.step,
                "gamma": to_hex(state.gamma),
                "format": "float64",
                "order": self.options.order,
                "tol": to_hex(self.options.tol),
            },
            verdict=verdict,
            reason=reason,
            bounds={name: to_hex(value) for name, value in bounds.items()},
            observed={
                "center_distance": to_hex(self.polished.distance),
                "face": attempt.face,
                "allowed": int(np.count_nonzero(state.M)),
            },
            assumptions=("IEEE arithmetic as in the rounding claims of float64",),
            theorem=f"{DOC}#{method}" if verdict is not Verdict.REFUTED else f"{DOC}#refutation",
            witness={
                "center": [to_hex(x) for x in self.problem.center.ravel().tolist()],
                "attempts": [_attempt(a) for a in attempts],
                **extra,
            },
            display={name: decimal_up(value, 6 if name == "q" else 3) for name, value in bounds.items()},
        )


def _attempt(attempt: Attempt) -> dict[str, str]:
    q = attempt.outcome.q
    return {
        "radius": to_hex(attempt.outcome.stage.radius),
        "q": to_hex(q) if np.isfinite(q) else "",
        "reason": attempt.outcome.reason,
    }
