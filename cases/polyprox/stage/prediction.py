"""How many updates a certified stage needs from a given start, replayed entry included.

The theorems are in `certify.contraction.updates` and `certify.contraction.modal`; here they get their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic import Ieee
from certify.arithmetic.directed import relaxed_up, round_down, round_up, sqrt_up
from certify.arithmetic.midrad import MidRad, box
from certify.contraction.eigenbasis import eigenbasis
from certify.contraction.fixed_stage import contraction_constant
from certify.contraction.modal import Curvature, Prediction, predict
from certify.contraction.updates import Ball, norm_count, start_bound
from certify.errors import InputRejected
from certify.graph import evaluate, order_named, output

from ..certificates import inputs_of
from .hessian import Entries, hessian
from .methods import Attempt
from .problem import Problem
from .variation import variation

#: The Hessian's variation is tabulated at these shares of a ball's radius. They are dense near 1, where the rates change
#: most; at the least share they are those of the centre, up to a ten thousandth of 1 - q.
SHARES = tuple(2.0**-k for k in (14, 10, 6, 4, 2, 1, 0))


@dataclass(frozen=True)
class Entry:
    """A start in a certified ball: `replayed` updates of the literal program lead from the saved state to `W`."""

    replayed: int
    W: NDArray[np.float64]
    distance: float


def distance(W: NDArray[np.float64], center: NDArray[np.float64]) -> float:
    """Upper bound of ||W - U||_F, from exact differences, rounded up once."""
    pairs = zip(W.ravel().tolist(), center.ravel().tolist(), strict=True)
    return sqrt_up(sum(((Fraction(x) - Fraction(u)) ** 2 for x, u in pairs), Fraction(0)))


def replay(problem: Problem, start: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """W after 0, 1, 2, ... updates of the literal program, emulated bit for bit; ends where it overflows.

    An order that stands for many programs has no update to run: only the start comes.
    """
    ieee = Ieee(problem.format)
    inputs = {name: ieee.constant(np.asarray(value)) for name, value in inputs_of(problem.state).items()}
    W = np.asarray(start, dtype=np.float64)
    while np.isfinite(W).all():
        yield W
        if order_named(problem.order).is_any:
            return
        values = evaluate(problem.graph, ieee, {**inputs, "W": ieee.constant(W)}, outputs=["W"])
        W = output(problem.graph, ieee, values, "W").astype(np.float64)


def enter(
    problem: Problem,
    attempt: Attempt,
    start: NDArray[np.float64],
    limit: int,
    progress: Callable[[int], None] = lambda k: None,
) -> Entry | str:
    """Run the literal program from `start` until the decoded W is verified to lie in the ball of `attempt`, on its face.

    At most `limit` updates; if none of them arrives, the reason.
    """
    radius = attempt.outcome.stage.radius
    inactive = problem.inactive(radius)
    k = 0
    for k, W in enumerate(islice(replay(problem, start), limit + 1)):
        if k:
            progress(k)
        # an entry further away than the radius settles it; otherwise squares cannot overflow
        if np.abs(W - problem.center).max(initial=0.0) <= radius and not W[inactive].any():
            apart = distance(W, problem.center)
            if apart <= radius:
                return Entry(k, W, relaxed_up(apart))
    if limit and order_named(problem.order).is_any:
        return f"{problem.order} is no one program, so no update is replayed"
    if k < limit:
        return f"the program overflows after {k} replayed updates"
    return f"{limit} replayed updates do not reach the certified ball of radius {radius:.3g}"


def prediction(problem: Problem, attempt: Attempt, W: NDArray[np.float64], tol: float, points: int = 200) -> Prediction:
    """Counts, and bounds at `points` updates of the distance to the fixed point, from a start W in the ball, on its face."""
    stage, outcome = attempt.outcome.stage, attempt.outcome
    inactive = problem.inactive(stage.radius)
    if W[inactive].any():
        raise InputRejected("the start is off the face", "do its first update, and count from there")
    face = np.nonzero((problem.state.M != 0) & ~inactive)
    offset = W[face] - problem.center[face]
    exact = [Fraction(x) - Fraction(u) for x, u in zip(W[face].tolist(), problem.center[face].tolist(), strict=True)]
    slack = sqrt_up(sum(((e - Fraction(o)) ** 2 for e, o in zip(exact, offset.tolist(), strict=True)), Fraction(0)))
    return predict(
        Ball(outcome.q, stage.d, stage.eps, stage.radius),
        _curvature(problem, face, attempt),
        offset,
        tol,
        fixed_branches=fixed_branches(problem, face, stage.radius),
        offset_error=slack,
        points=points,
    )


def count_through(outer: Attempt, inner: Attempt, predict_to: Callable[[float], Prediction], tol: float) -> int | None:
    """Updates from a start in the ball `outer` through the smaller ball `inner` to the tolerance; None if not proved.

    **Theorem.** Let both balls be certified, with the same centre. If after L updates the distance to W_* is at most
    t = entry_radius - d / (1 - q) of the inner ball, then W is within entry_radius of U, the next update lies in the inner
    ball and on its face, and from there its own bound counts. *Proof.* ||W - U|| <= ||W - W_*|| + ||W_* - U||. QED
    """
    stage, q = inner.outcome.stage, inner.outcome.q
    reach = round_down(Fraction(inner.entry_radius) - Fraction(stage.d) / (1 - Fraction(q)))
    if not outer.outcome.floor < reach:
        return None
    first = predict_to(reach).modal
    last = norm_count(start_bound(stage.radius, Ball(q, stage.d, stage.eps, stage.radius)), q, stage.eps, tol)
    return None if first is None or last is None else first + 1 + last


def fixed_branches(problem: Problem, face: Entries, radius: float) -> bool:
    """Whether every entry of the face stays on its branch of the soft threshold over the ball: sign(U) V > gamma lam."""
    if not len(face[0]):
        return True
    over = hessian(problem.state, problem.center, radius, face)
    gamma = MidRad.exact(np.array(problem.state.gamma))
    V = box(problem.center[face], radius) - over.gradient[face] * gamma
    margin = np.sign(problem.center[face]) * V.mid - V.rad * (1 + 2.0**-20)  # for an independent evaluation
    threshold = round_up(Fraction(problem.state.gamma) * Fraction(problem.state.lam))
    # a rounded difference has the sign of the difference; one step down covers the rounding of `margin` itself
    return bool((np.nextafter(margin, -np.inf) > threshold).all())


def _curvature(problem: Problem, face: Entries, attempt: Attempt) -> Curvature:
    radius, gamma = attempt.outcome.stage.radius, problem.state.gamma
    centre = problem.curvature_at_center(face)
    K = centre.at.K
    basis = eigenbasis(K.mid)
    # the basis is of the midpoint of the enclosure of K(U); its radius joins the residual
    spread = variation(K, MidRad.exact(K.mid))
    radii = radius * np.array(SHARES)
    moved = [relaxed_up(variation(hessian(problem.state, problem.center, t, face).K, K)) for t in radii.tolist()]
    rates = [attempt.outcome.q] * len(moved)
    if len(face[0]):
        low, high = Fraction(centre.low), Fraction(centre.high)
        rates = [
            min(q, contraction_constant(low - v, high + v, gamma))
            for q, v in zip(rates, map(Fraction, moved), strict=True)
        ]
    return Curvature(
        gamma=gamma,
        Q=basis.Q,
        lam=basis.lam,
        distance=relaxed_up(basis.distance),
        residual=relaxed_up(round_up(Fraction(basis.residual) + Fraction(spread))),
        radii=radii,
        variation=np.array(moved),
        rates=np.array(rates),
    )
