"""The Poly-prox case as the commands see it: states in, reports out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from certify.cases.case import MOST_UNASKED, Case, Options, Progress
from certify.cases.claims import FOR_COMPARISON, require_ball_to_split
from certify.cases.convergence import Convergence
from certify.cases.kernel import TracedKernel
from certify.cases.programs import order_in

from certify.arithmetic import Format, format_named
from certify.certificate import Claim, Report, Verdict, producer, to_hex
from certify.certificate.claims import STOCHASTIC
from certify.errors import InputRejected
from certify.rounding.probable import confidence_of
from certify.states import Saved, digest

from .certificates import Batch, Certifier, graph_of, inputs_of
from .state import State, saved_from, states_from

DEFAULT_FORMATS = ("float16", "float32", "float64")
#: About 40 claims a state, and a report holds 10,000.
MOST_STATES = 200
#: Exact updates have about 200 N bits an entry.
MOST_FOR_STAGES = 512


class PolyProx(Case):
    """The case: see `certify.cases.Case`."""

    name = "polyprox"
    title = "the Poly-prox block (one step of causal structure learning as a linear-attention transformer)"
    # A step of the solver changes W by more than 1e-3 until the last stages; 2000 updates replay in seconds, 200 are drawn.
    demo_options = Options(update_tol=1e-3, methods=("face",), replay=2000, further=200)

    def certify(self, saved: Saved, options: Options, progress: Progress) -> Report:
        """Rounding and range claims for each state of the file, in each format, at the state and on the ball."""
        states = states_from(saved)
        if options.update_tol is not None and not (np.isfinite(options.update_tol) and options.update_tol > 0):
            raise InputRejected(f"the tolerance {options.update_tol} is no error bound", "give a positive number")
        require_ball_to_split(options.splits, options.radius)
        if options.confidence is not None:
            confidence_of(options.confidence)  # before any work
        if not options.methods_required and not _quick_stage(states[0]):
            options = replace(options, methods=())
        if options.methods:
            _require_stage(states[0])
        # a default format that cannot hold the scaling by 1 / N, or that the accumulator cannot hold, is left out; one that is
        # named is refused
        fitting = [
            name
            for name in DEFAULT_FORMATS
            if format_named(name).emax >= states[0].s and order_in(options.order, format_named(name)) == options.order
        ]
        named = {format_named(name) for name in options.formats or fitting}
        formats = sorted(named, key=lambda format: (format.precision, format.emax, format.name))
        if len(states) > MOST_STATES:
            raise InputRejected(
                f"the file holds {len(states)} states, more than one report can", f"save at most {MOST_STATES} of them"
            )
        claims: list[Claim] = []
        steps = len(formats) + 1
        total = len(states) * steps
        batch = Batch(states, options)
        for k, state in enumerate(states):
            where, suffix = (f"state {k}", f"/state={k}") if len(states) > 1 else ("the state", "")
            certifier = Certifier(state, options, k, where, suffix, batch)
            progress(k * steps, total, f"{where}: exact update")
            claims += certifier.exactness()
            for j, format in enumerate(formats):
                progress(k * steps + j + 1, total, f"{where}: {format.name}")
                claims += certifier.rounding_and_range(format)
                claims += certifier.probable(format)
            if options.methods:
                from .stage.claims import StageCertifier

                stage = StageCertifier(state, options, formats, index=k, where=where, suffix=suffix, progress=progress)
                claims += stage.claims()
        if options.update_tol is not None:
            claims.append(_precision(claims, formats, options.update_tol))
        progress(total, total, "done")
        return Report(producer(), _subject(saved, states), claims, _required(claims, formats, options))

    def demo(self, progress: Progress) -> tuple[Saved, str]:
        """Three stage states of the reference solver on the embedded cytometry data."""
        from .sachs import covariance
        from .solver import solve, stage_states

        progress(0, 1, "solving")
        Sigma, names = covariance()
        solution = solve(Sigma, p_max=16)
        sentence = (
            f"Sachs cytometry data, {len(names)} phosphoproteins: {solution.accepted} accepted steps of the reference "
            f"solver, h = {solution.h:.1e}; an early, a middle and a late stage"
        )
        return saved_from(stage_states(solution, 3)), sentence

    def next_steps(self, states: str) -> Sequence[str]:
        """How the repeated update goes on from the first state."""
        return [f"certify updates {states} --state 0"]

    def solve(self, data: Any, names: Sequence[str], options: dict[str, Any], progress: Progress) -> tuple[Saved, str]:
        """The reference solver on a data matrix (m, p), centred; captures stage states."""
        from .solver import solve, stage_states

        X = np.asarray(data, dtype=np.float64)
        X = X - X.mean(axis=0)
        Sigma = X.T @ X / len(X)
        Sigma = (Sigma + Sigma.T) / 2
        progress(0, 1, "solving")
        solution = solve(Sigma, lam=options["lam"], p_max=options["p_max"])
        states = stage_states(solution, options["count"])
        return saved_from(states), (
            f"{solution.accepted} accepted steps in {len(solution.stages)} stages, h = {solution.h:.1e}, "
            f"{int(solution.edges().sum())} edges; {len(states)} stage states captured"
        )

    def states(self, saved: Saved) -> int:
        """How many states the file holds."""
        return len(states_from(saved))

    def kernel(self, saved: Saved, state: int, order: str) -> tuple[TracedKernel, str, str]:
        """The block at one state: W moves, and is the output that matters."""
        chosen = states_from(saved)[state]
        inputs = {name: np.asarray(value, dtype=np.float64) for name, value in inputs_of(chosen).items()}
        return TracedKernel("block", graph_of(chosen, order), inputs), "W", "W"

    def convergence(
        self, saved: Saved, state: int, format: Format, options: Options, further: int, progress: Progress
    ) -> Convergence:
        """The fixed stage of one state: alpha, rho and gamma held."""
        from .stage.convergence import converge

        _require_stage(states_from(saved)[state])
        return converge(states_from(saved)[state], format, options, further, progress)


def _quick_stage(state: State) -> bool:
    """Whether the face test takes seconds, so that it need not be asked for."""
    return state.p <= MOST_UNASKED and state.p_max <= 4 * MOST_UNASKED


def _require_stage(state: State) -> None:
    if state.p_max > MOST_FOR_STAGES:
        raise InputRejected(
            f"p_max = {state.p_max} takes too long for the exact updates of a stage",
            f"leave --methods away, or save a p_max of at most {MOST_FOR_STAGES}",
        )


def _subject(saved: Saved, states: Sequence[State]) -> dict[str, Any]:
    """What a report is about: sizes, digests of the file's tensors, and the controls as exact numbers."""
    tensors = {name: digest(array) for name, array in sorted(saved.tensors.items()) if array.ndim}
    first = states[0]
    controls = {
        name: to_hex(float(getattr(first, name)))
        for name in ("alpha", "rho", "gamma", "lam", "b")
        if name not in tensors
    }
    several = {"states": len(states)} if len(states) > 1 else {}
    sizes = {"p": first.p, "p_max": first.p_max}
    return {"case": "polyprox", **sizes, **several, "tensors": tensors, "controls": controls}


def _enough(claims: Iterable[Claim], formats: Sequence[Format], tol: float | None) -> tuple[Format, list[str]] | None:
    """The coarsest format all of whose claims are certified, with eps_W <= tol if tol is given; and their ids."""
    for format in formats:
        mine = [c for c in claims if _counts(c) and c.parameters["format"] == format.name]
        small = all(float.fromhex(c.bounds["eps_W"]) <= (tol or np.inf) for c in mine if "eps_W" in c.bounds)
        if small and all(c.verdict is Verdict.CERTIFIED for c in mine):
            return format, [c.id for c in mine]
    return None


def _counts(claim: Claim) -> bool:
    return claim.kind in ("rounding", "range") and claim.parameters.get("method") not in FOR_COMPARISON


def _precision(claims: Sequence[Claim], formats: Sequence[Format], tol: float) -> Claim:
    """Which format is enough for the tolerance."""
    enough = _enough(claims, formats, tol)
    names = [format.name for format in formats]
    listed = ", ".join(names)
    format, ids = ("none", []) if enough is None else (enough[0].name, enough[1])
    statement = (
        f"{format} is enough: at every state and ball of this report one update in {format} is proved to stay in range and "
        f"to return W within {tol!r} (Frobenius norm) of the exact update; of {listed}, no coarser one is proved to be."
        if enough
        else f"Some format of {listed} is enough: at every state and ball of this report one update in it is proved to stay in "
        f"range and to return W within {tol!r} (Frobenius norm) of the exact update."
    )
    reason = (
        f"no format of {listed} has eps_W <= {tol:g} and a certified range; take a finer format or a smaller radius"
    )
    return Claim(
        id=f"precision/update/{tol!r}",
        kind="precision",
        statement=statement,
        semantics="program",
        parameters={"tol": to_hex(tol), "format": format, "formats": names, "claims": ids},
        verdict=Verdict.UNDECIDED if enough is None else Verdict.CERTIFIED,
        reason=reason if enough is None else "",
        theorem="docs/theory/rounding.md#running",
    )


def _required(claims: Sequence[Claim], formats: Sequence[Format], options: Options) -> list[str] | None:
    """The claims that the verdict rests on: of every format asked for, else of the coarsest one that is enough.

    If none is enough for a tolerance, that is the question that stays undecided; without one, all claims count, but those
    about the stage only if they are asked for.
    """
    asked = [c.id for c in claims if c.id.startswith("precision/update/")]
    if options.methods_required:
        asked += [c.id for c in claims if _of_stage(c)]
    if options.formats:
        return [c.id for c in claims if _counts(c)] + asked
    enough = _enough(claims, formats, options.update_tol)
    if enough is None:
        return asked or [c.id for c in claims if not _of_stage(c) and c.semantics != STOCHASTIC]
    return enough[1] + asked


def _of_stage(claim: Claim) -> bool:
    stage = claim.kind in ("contraction", "updates")
    return stage or (claim.kind == "precision" and not claim.id.startswith("precision/update/"))


CASE = PolyProx()
