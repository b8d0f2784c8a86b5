"""Update counts of a fixed stage: a start in a certified ball, and how many updates come within a tolerance.

The program is replayed bit for bit; the theorems about counts are in docs/theory/contraction.md#checker.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from flint import arb, arb_mat, ctx

from certify.checker.curvature import BITS, ZERO, exact, length, norm, real
from certify.checker.document import Beyond, Claim, Finding, Rejected, agrees, binary64, integer, proved, require_upper
from certify.checker.emulation import emulate
from certify.checker.formats import format_named
from certify.checker.kernels import values_of
from certify.checker.saved import State
from certify.checker.stage import DOC, Ball, semantics_of, stage_of

_SHARES = (14, 10, 6, 4, 2, 1, 0)  # v and q are step functions with steps at r / 2**k
_LIMIT = 100_000  # updates, of the theorem and of a replay
_MOST_REPLAYED = 1_000_000_000  # operations, some minutes


def check_updates(claim: Claim, context: Any) -> Finding:
    """After how many updates a saved state is within a tolerance of the fixed point."""
    given, centre, order = claim["parameters"], stage_of(claim, context), claim["parameters"].get("order")
    format, tol = given.get("format"), binary64(given.get("tol"))
    replayed = integer(given.get("replayed"), 0, _LIMIT, "the number of replayed updates")
    if claim["verdict"] != "certified":
        raise Rejected("a count is certified or undecided")
    first = f"{replayed} replayed updates, then at most count" if replayed else "at most count"
    start = (
        f"From {context.where(given['state'])}, after {first} updates of the block in {format} with the {given['step']}"
    )
    statement = f"{start} step size, W is within {tol!r} of the fixed point of the stage, and stays so."
    words = {"assumptions": ["IEEE arithmetic as in the rounding claims of this format"], "theorem": f"{DOC}#updates"}
    keys = ("state", "format", "order", "tol", "step", "gamma", "stage", "replayed", "radius", "through")
    bounds = {"parameters": keys, "bounds": ("count", "floor", "start", "q"), "optional": ("norm_count",)}
    agrees(
        claim, context, id=f"updates/{format}", semantics=semantics_of(order), statement=statement, **bounds, **words
    )
    with ctx.workprec(BITS):
        ball = Ball(centre, context, format, order, binary64(given["radius"]))
        state = replace(context.state(given["state"]), gamma=centre.state.gamma, b=0)
        W, U = _replay(state, context, format, order, replayed), centre.state.W
        moved = {(i, j): Fraction(W[i][j]) - Fraction(U[i][j]) for i, j in centre.square}
        if {e for e, x in moved.items() if x} - set(ball.face):
            raise Rejected("the start is off the face of its ball")
        if sum(x * x for x in moved.values()) > ball.r**2:
            raise Rejected(f"the start is not in the ball of radius {ball.radius!r}")
        offset = [real(moved[e]) * centre.signs[e] for e in ball.face]
        numbers = {"q": ball.q, "floor": ball.floor, "start": length(offset)}
        numbers["norm_count"] = Fraction(_norm_count(numbers["start"] + ball.drift, ball, Fraction(tol)))
        if given["through"] == "":
            numbers["count"] = Fraction(_updates_to(ball, offset, Fraction(tol)))
        else:  # within its entry radius of U, one update leads into the inner ball and on its face
            inner = Ball(centre, context, format, order, binary64(given["through"]))
            reach = inner.entry_radius(inner.r - centre.d - inner.eps) - inner.drift
            last = _norm_count(inner.r + inner.drift, inner, Fraction(tol))
            numbers["count"] = Fraction(_updates_to(ball, offset, reach) + 1 + last)
    for name in claim["bounds"]:
        require_upper(claim, name, numbers[name])
    return proved(claim, **numbers)


def _replay(state: State, context: Any, format: str, order: str, updates: int) -> list[list[float]]:
    """W after so many updates of the program."""
    program, p = context.program(state, order), state.p
    if updates and program.order.kind == "any-order":
        raise Rejected("in any order there is no one update to replay")
    if updates * program.operations > _MOST_REPLAYED:
        raise Beyond(f"it takes {updates} updates of {program.operations} operations, more than this checker replays")
    for _ in range(updates):
        values, first = emulate(program, format_named(format), values_of(program, state))
        if first is not None and first <= max(program.outputs["W"]):
            raise Rejected("an update that it replays overflows")
        flat = program.values("W", values)
        state = replace(state, W=[flat[i * p : (i + 1) * p] for i in range(p)])
    return state.W


def _norm_count(start: Fraction, ball: Ball, tol: Fraction) -> int:
    """A number of updates L with f + q^L (start - f) <= tol, f = eps / (1 - q): the fixed-stage theorem."""
    if not ball.floor < tol:
        raise Rejected("rounding is not proved to leave it within the distance")
    if start <= tol or ball.q == 0:
        return int(start > tol)
    ratio = real(tol - ball.floor) / real(start - ball.floor)
    return math.ceil(exact((ratio.log() / real(ball.q).log()).upper()))


def _updates_to(ball: Ball, offset: list[arb], tol: Fraction) -> int:
    """A number of updates after which the distance is at most tol; `offset` is W_0 - U on the face, in signed coordinates.

    The distance is at most b and at most m + s: m bounds the part that decays in the modes, s the rest.
    """
    centre, face, gamma, c, r = ball.centre, ball.face, ball.centre.gamma, real(ball.drift).upper(), arb(ball.radius)
    most = _norm_count(length(offset) + ball.drift, ball, tol)
    if most == 0 or not face:
        return most
    modes, box, eps, q = centre.modes(face), centre.box(face, ball.radius), real(ball.eps).upper(), real(ball.q).upper()
    (low, high, _), steps = centre.spectrum(face), []
    for t in (
        ball.radius * 2.0**-k for k in _SHARES
    ):  # where ||W - U|| <= t: ||K(W) - K(U)|| <= v, ||I - gamma K(W)|| <= rate
        v = norm(centre.box(face, t).V).upper()
        steps.append((arb(t), v, q.min((1 - gamma * (low - v)).max(gamma * (high + v) - 1)).upper()))

    def means(b: arb) -> tuple[arb, arb]:
        """Of v and rate over [c, min(c + b, r)]."""
        end, at, v, rate = (c + b).min(r), c, ZERO, ZERO
        for t, v_t, rate_t in steps:
            width = (t.min(end) - at).max(ZERO)
            v, rate, at = v + v_t * width, rate + rate_t * width, at.max(t)
        return v / (end - c), rate / (end - c)

    threshold = {e: gamma * (box.gradient[e] * centre.signs[e] + box.spread[e] + centre.lam) for e in face}
    fixed = all(abs(centre.U[e]) - r > threshold[e] for e in face)  # no entry changes its branch of the soft threshold
    column, rates = arb_mat([[x] for x in offset]), [1 - gamma * x for x in modes.lam]
    parts = [x.mid() for x in (modes.Q.transpose() * column).entries()] if fixed else [ZERO] * len(face)
    s = real(length((column - modes.Q * arb_mat([[x] for x in parts])).entries())) + c
    b, size, target = real(length(offset)) + c, real(length(parts)), real(tol).lower()
    with ctx.workprec(96):
        for k in range(min(most, _LIMIT)):
            b = b.min(modes.stretch * size + s).upper()
            if b <= target:
                return k
            if b <= s:
                parts, size, s = [], ZERO, b
            v, rate = means(b)
            s = (eps + gamma * modes.leak * size + rate * s + gamma * v * modes.stretch * size).upper()
            parts = [x * a for x, a in zip(parts, rates, strict=False)]
            b, size = eps + rate * b, sum((x * x for x in parts), ZERO).upper().sqrt().upper()
    return min(most, min(most, _LIMIT) + _norm_count(exact(b.upper()), ball, tol))
