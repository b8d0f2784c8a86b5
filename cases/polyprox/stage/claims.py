"""The claims about the fixed stage of a state: contraction by each method, refutation, update counts, precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from certify.cases.case import Options, Progress
from certify.cases.programs import order_in, semantics_of

from certify.arithmetic import BINARY64, Format
from certify.certificate import Claim, Verdict, decimal_up, to_hex
from certify.errors import InputRejected

from ..state import State
from .convergence import approach, curves, distances, spectrum
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
    index, where, suffix : as for `certify.cases.polyprox.certificates.Certifier`.
    progress : called with what is being done.
    """

    def __init__(
        self,
        state: State,
        options: Options,
        formats: Sequence[Format],
        index: int = 0,
        where: str = "the state",
        suffix: str = "",
        progress: Progress = lambda done, total, what: None,
    ) -> None:
        self.state = replace(state, b=0)
        self.options = options
        self.formats = formats
        self.index = index
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
        return Problem(centered, BINARY64, self.options.order)

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
            extra = {} if found.smallest is None else {"smallest_radius": found.smallest.outcome.stage.radius}
            return self._contraction("face", Verdict.CERTIFIED, "", found.largest, found.attempts, extra)
        tried, gamma = self.refutation, self.problem.state.gamma
        if tried.refuted:
            kappa = tried.kappa(gamma)
            reason = (
                f"at the fixed point K_FF has an eigenvalue >= {kappa:.6g}, outside (0, 2/gamma = {2 / gamma:.6g}): "
                f"the fixed point repels; a step below {2 / kappa:.3g} would contract"
                if kappa > 0
                else f"at the fixed point K_FF has an eigenvalue <= {kappa:.6g} < 0: it is a saddle and repels"
            )
            extra = {"kappa": kappa, "cube": tried.radius}
            return self._contraction("face", Verdict.REFUTED, reason, found.attempts[-1], found.attempts, extra)
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
        names = [format.name for format in self.formats]
        best = next((s for f in self.formats if (s := self.search(f)).smallest is not None), None)
        order = order_in(self.options.order, BINARY64 if best is None else best.problem.format)
        parameters: dict[str, Any] = {"state": self.index, "tol": to_hex(tol), "format": "none", "formats": names}
        parameters |= {"order": order, **self._stage()}
        verdict, reason = Verdict.UNDECIDED, ""
        if best is None or best.smallest is None:
            why = self.found.reason or "the rounding floor is higher"
            reason = f"no ball is certified for {tol!r} in {', '.join(names)}: {why}"
        else:
            verdict = Verdict.CERTIFIED
            parameters["format"] = best.problem.format.name
            parameters["radius"] = to_hex(best.smallest.outcome.stage.radius)
        enough = f"Some format of {', '.join(names)}" if best is None else parameters["format"]
        return Claim(
            id=f"precision/{tol!r}{self.suffix}",
            kind="precision",
            statement=f"{enough} is enough: in it the fixed stage of {self.where}, with the {self.options.step} step size, "
            f"is certified on a ball to come within {tol!r} of its fixed point and stay there; of {', '.join(names)}, no "
            "coarser format is proved to be.",
            semantics=semantics_of(order),
            parameters=parameters,
            verdict=verdict,
            reason=reason,
            theorem=f"{DOC}#precision",
        )

    def search(self, format: Format) -> Search:
        """The search on the face in a format; in float64 where even that finds nothing."""
        if format == BINARY64 or self.found.largest is None:
            return self.found
        if format.name not in self._searches:
            self.progress(0, 1, f"{self.where}: {format.name}")
            self._searches[format.name] = search_face(self.problem.in_format(format), self.options.tol, growths=5)
        return self._searches[format.name]

    @cached_property
    def _searches(self) -> dict[str, Search]:
        return {}

    def _stage(self) -> dict[str, str]:
        """The parameters of a claim that say which stage it is about; the named claim's witness has the centre."""
        gamma = to_hex(self.problem.state.gamma)
        return {"step": self.options.step, "gamma": gamma, "stage": f"contraction/face{self.suffix}"}

    def _updates(self, format: Format) -> Claim:
        tol, order = self.options.tol, order_in(self.options.order, format)
        way = approach(self.search(format), self.state.W, self.options, self.progress)
        parameters: dict[str, Any] = {"state": self.index, "format": format.name, "order": order}
        parameters |= {"tol": to_hex(tol), **self._stage()}
        bounds: dict[str, str] = {}
        display: dict[str, str] = {}
        observed: dict[str, Any] = {}
        first = "at most count"
        if way.count is not None and way.entry is not None and way.attempt is not None and way.prediction is not None:
            numbers = {"floor": way.prediction.floor, "start": way.entry.distance, "q": way.attempt.outcome.q}
            counts = {"count": way.count}
            if way.prediction.norm is not None:
                counts["norm_count"] = way.prediction.norm
            bounds = {name: str(n) for name, n in counts.items()} | {name: to_hex(x) for name, x in numbers.items()}
            display = {name: str(n) for name, n in counts.items()} | _decimals(numbers)
            parameters |= {"replayed": way.entry.replayed, "radius": to_hex(way.attempt.outcome.stage.radius)}
            parameters["through"] = "" if way.through is None else to_hex(way.through.outcome.stage.radius)
            if way.entry.replayed:
                first = f"{way.entry.replayed} replayed updates, then at most count"
            observed = {"convergence": curves(way.prediction, self._replayed(format))}
        return Claim(
            id=f"updates/{format.name}{self.suffix}",
            kind="updates",
            statement=f"From {self.where}, after {first} updates of the block in {format.name} with the "
            f"{self.options.step} step size, W is within {tol!r} of the fixed point of the stage, and stays so.",
            semantics=semantics_of(order),
            parameters=parameters,
            verdict=Verdict.UNDECIDED if way.reason else Verdict.CERTIFIED,
            reason=way.reason,
            bounds=bounds,
            observed=observed,
            assumptions=("IEEE arithmetic as in the rounding claims of this format",),
            theorem=f"{DOC}#updates",
            display=display,
        )

    def _replayed(self, format: Format) -> list[float]:
        """Distances to the centre after 0, 1, ... replayed updates, if any were asked for."""
        if not self.options.further:
            return []
        problem = self.problem.in_format(format)
        found: list[float] = distances(problem, self.state.W, self.options.further, self.progress).tolist()
        return found

    def _contraction(
        self,
        method: str,
        verdict: Verdict,
        reason: str,
        attempt: Attempt,
        attempts: Sequence[Attempt],
        extra: dict[str, float],
    ) -> Claim:
        stage, outcome = attempt.outcome.stage, attempt.outcome
        state = self.problem.state
        bounds = {}
        if verdict is Verdict.CERTIFIED:
            bounds = {"q": outcome.q, "mu": stage.mu, "L_J": stage.L, "d": stage.d, "radius": stage.radius}
            bounds |= {"eps_W": stage.eps, "floor": outcome.floor}
            if method == "face":
                bounds["entry_radius"] = attempt.entry_radius
        bounds |= extra
        observed: dict[str, Any] = {
            "center_distance": to_hex(self.polished.distance),
            "face": attempt.face,
            "allowed": int(np.count_nonzero(state.M)),
            "attempts": [_attempt(a) for a in attempts],
        }
        witness: dict[str, Any] | None = None
        if verdict is not Verdict.UNDECIDED:  # of what is undecided there is nothing to prove
            witness = {"center": [to_hex(x) for x in self.problem.center.ravel().tolist()]}
        if method == "face":
            found = spectrum(self.problem, attempt if verdict is Verdict.CERTIFIED else None)
            observed["spectrum"] = [] if found is None else [f"{x:.4g}" for x in found.values.tolist()]
        if verdict is Verdict.REFUTED:
            witness = {**(witness or {}), "vector": [to_hex(x) for x in self.refutation.vector]}
        return Claim(
            id=f"contraction/{method}{self.suffix}",
            kind="contraction",
            statement=f"On the ball of Frobenius radius r around the centre U near {self.where}, with the "
            f"{self.options.step} step size, the fixed-stage update is q-Lipschitz with q < 1"
            f"{' on its face' if method == 'face' else ''}, it and its float64 program stay in the ball, and it has "
            "exactly one fixed point there.",
            semantics=semantics_of(self.problem.order),
            parameters={
                "state": self.index,
                "method": method,
                "step": self.options.step,
                "gamma": to_hex(state.gamma),
                "format": "float64",
                "order": self.problem.order,
                "tol": to_hex(self.options.tol),
            },
            verdict=verdict,
            reason=reason,
            bounds={name: to_hex(value) for name, value in bounds.items()},
            observed=observed,
            assumptions=("IEEE arithmetic as in the rounding claims of float64",),
            theorem=f"{DOC}#{method}" if verdict is not Verdict.REFUTED else f"{DOC}#refutation",
            witness=witness,
            display=_decimals(bounds),
        )


def _decimals(bounds: dict[str, float]) -> dict[str, str]:
    return {name: decimal_up(value, 6 if name == "q" else 3) for name, value in bounds.items()}


def _attempt(attempt: Attempt) -> dict[str, str]:
    q = attempt.outcome.q
    return {
        "radius": to_hex(attempt.outcome.stage.radius),
        "q": to_hex(q) if np.isfinite(q) else "",
        "reason": attempt.outcome.reason,
    }
