"""The reference solver: proximal steps with backtracking inside augmented-Lagrangian stages, and its recorder.

The schedule is outside the certified block: it chooses ``alpha, rho, gamma`` and when a stage ends. Source:
polyprox.md section 8, which gives every constant below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certify.errors import InputRejected

from .state import State
from .update import soft_threshold

Matrix = NDArray[np.float64]

MAX_STAGES = 12
MAX_STEPS = 400
STATIONARY = 1e-6
ACYCLIC = 1e-8
THRESHOLD = 0.3


@dataclass(frozen=True, eq=False)
class Step:
    """One accepted step ``W -> W_plus`` and the controls it used.

    ``h`` and ``residual`` (``||W_plus - W||_F / gamma``) belong to ``W_plus``; ``halvings`` counts the rejected trial
    steps; ``last`` says that the stage ends here, so that ``alpha`` is updated (``b = 1``).
    """

    stage: int
    number: int
    W: Matrix
    W_plus: Matrix
    alpha: float
    rho: float
    gamma: float
    h: float
    residual: float
    halvings: int
    last: bool


@dataclass(frozen=True, eq=False)
class Stage:
    """One penalty stage: fixed ``alpha, rho``, its accepted steps, and those of them that were recorded."""

    index: int
    alpha: float
    rho: float
    accepted: int
    h: float
    stationary: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class Solution:
    """What `solve` returns: the stages in order and the problem they solved. ``acyclic`` says that ``h < 1e-8``."""

    Sigma: Matrix
    M: NDArray[np.int8]
    lam: float
    p_max: int
    stages: tuple[Stage, ...]
    acyclic: bool

    @property
    def W(self) -> Matrix:
        """The final weights ``(p, p)``, not thresholded."""
        return self.stages[-1].steps[-1].W_plus

    @property
    def h(self) -> float:
        """``h`` of the final weights."""
        return self.stages[-1].h

    @property
    def accepted(self) -> int:
        """Accepted steps of all stages."""
        return sum(stage.accepted for stage in self.stages)

    def edges(self, threshold: float = THRESHOLD) -> NDArray[np.bool_]:
        """Return which ``|W|`` exceed the threshold strictly, ``(p, p)``."""
        found: NDArray[np.bool_] = np.abs(self.W) > threshold
        return found

    def states(self) -> list[State]:
        """Return every recorded step as the state it started from; ``b = 1`` where the stage ended."""
        return [self._state(x, x.W, int(x.last)) for stage in self.stages for x in stage.steps]

    def _state(self, step: Step, W: Matrix, b: int) -> State:
        controls = {"alpha": step.alpha, "rho": step.rho, "gamma": step.gamma, "lam": self.lam}
        return State(W=W, Sigma=self.Sigma, M=self.M, b=b, p_max=self.p_max, **controls)


def stage_states(solution: Solution, count: int = 3) -> list[State]:
    """Return the last state of ``count`` stages spread from the first to the last (fewer if there are fewer).

    Each has the ``alpha``, ``rho`` and last step size of its stage and ``b = 0``: the fixed map of that stage, near
    its fixed point.

    Raises
    ------
    InputRejected : count is below 1.
    """
    if count < 1:
        raise InputRejected(f"{count} stage states were asked for", "ask for at least one")
    n = len(solution.stages)
    chosen = sorted(set(np.linspace(0, n - 1, count).round().astype(int).tolist()))
    last = [solution.stages[i].steps[-1] for i in chosen]
    return [solution._state(step, step.W_plus, 0) for step in last]


def solve(
    Sigma: ArrayLike,
    *,
    lam: float = 0.1,
    M: ArrayLike | None = None,
    p_max: int | None = None,
    on_step: Callable[[Step], None] | None = None,
    record: Literal["steps", "stages"] = "steps",
) -> Solution:
    """Minimise ``loss(W) + lam ||W||_1`` subject to ``h(W) = 0`` from ``W = 0, alpha = 0, rho = 1``.

    Parameters
    ----------
    Sigma : covariance ``(p, p)``.
    lam : Lasso weight.
    M : allowed edges ``(p, p)`` of 0 and 1; all but the diagonal if not given.
    p_max : the capacity that sets ``N``; p if not given.
    on_step : called with every accepted step, for progress.
    record : keep every step, or the first, middle and last of each stage.

    Raises
    ------
    InputRejected : the problem is not a valid state, or ``Sigma`` is zero.
    """
    covariance = np.asarray(Sigma)
    p = len(covariance) if covariance.ndim else 0
    start = State(
        W=np.zeros((p, p)),
        Sigma=covariance,
        M=1 - np.eye(p, dtype=np.int8) if M is None else np.asarray(M),
        alpha=0.0,
        rho=1.0,
        gamma=1.0,
        lam=lam,
        b=0,
        p_max=p if p_max is None else p_max,
    )
    steepest = float(np.linalg.norm(start.Sigma, 2))
    if steepest == 0:
        raise InputRejected("Sigma is zero", "give the covariance of data that vary")

    gamma_max = 1 / steepest
    W, alpha, rho, gamma, h_before = start.W, 0.0, 1.0, gamma_max, np.inf
    stages: list[Stage] = []
    while True:
        steps = _run_stage(start, len(stages), W, alpha, rho, gamma, gamma_max, on_step)
        W, gamma, h = steps[-1].W_plus, steps[-1].gamma, steps[-1].h
        kept = steps if record == "steps" else [steps[i] for i in sorted({0, len(steps) // 2, len(steps) - 1})]
        stationary = steps[-1].residual < STATIONARY
        stages.append(Stage(len(stages), alpha, rho, len(steps), h, stationary, tuple(kept)))
        if h < ACYCLIC or len(stages) == MAX_STAGES:
            return Solution(start.Sigma, start.M, start.lam, start.p_max, tuple(stages), h < ACYCLIC)
        alpha += rho * h
        if h > h_before / 4:
            rho *= 10
        h_before = h


def _run_stage(
    problem: State,
    index: int,
    W: Matrix,
    alpha: float,
    rho: float,
    gamma: float,
    gamma_max: float,
    on_step: Callable[[Step], None] | None,
) -> list[Step]:
    """Take proximal steps at fixed ``alpha, rho`` until step-stationarity or ``MAX_STEPS``."""
    steps: list[Step] = []
    h, H, J = _objective(problem, W, alpha, rho)
    while True:
        gradient = problem.Sigma @ W - problem.Sigma + (alpha + rho * h) * H
        gamma = min(2 * gamma, gamma_max)
        halvings = 0
        while True:
            W_plus = problem.M * soft_threshold(W - gamma * gradient, gamma * problem.lam)
            moved = W_plus - W
            h_plus, H_plus, J_plus = _objective(problem, W_plus, alpha, rho)
            bound = J + float(np.sum(gradient * moved)) + float(np.sum(moved * moved)) / (2 * gamma)
            # J is a sum of order p*p rounded terms: a difference below this is rounding, not a failed bound
            if J_plus <= bound + 1e-12 * abs(J):
                break
            gamma /= 2
            halvings += 1
        residual = float(np.linalg.norm(moved)) / gamma
        last = residual < STATIONARY or len(steps) + 1 == MAX_STEPS
        step = Step(index, len(steps), W, W_plus, alpha, rho, gamma, h_plus, residual, halvings, last)
        steps.append(step)
        if on_step is not None:
            on_step(step)
        if last:
            return steps
        W, h, H, J = W_plus, h_plus, H_plus, J_plus


def _objective(problem: State, W: Matrix, alpha: float, rho: float) -> tuple[float, Matrix, float]:
    """Return ``h``, its gradient, and ``J``; by the doubling, as ``tr(Y**N) - p`` cancels where h nears 1e-8."""
    S = W * W / problem.N
    Q = np.zeros_like(S)
    with np.errstate(over="ignore", invalid="ignore"):  # a trial step may be far too long
        for _ in range(problem.s):
            Q, S = Q + S + Q @ S, 2 * S + S @ S
        h = float(np.trace(S))
        away = np.eye(problem.p) - W
        loss = 0.5 * float(np.sum(away * (problem.Sigma @ away)))
        return h, 2 * W * Q.T, loss + alpha * h + 0.5 * rho * h * h
