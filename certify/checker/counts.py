"""Update counts of a fixed stage: a start in a certified ball, and how many updates come within a tolerance.

**Theorem.** In a ball of the fixed-stage theorem let e_k = W_k - W_*, c = d / (1 - q), A = I - gamma K(U) on the face, q_0
at least ||A||, and v(b) the mean over [c, c + b] of phi(min(t, r)), where phi(t) >= ||K(W) - K(U)|| for ||W - U|| <= t. Let
no entry change its branch on the ball, so that P(W) - P(W') = (I - gamma Kbar)(W - W') with a mean Hessian Kbar. For any
Q, lam, y let a = 1 - gamma lam, R = K(U) Q - Q diag(lam), m_k >= ||Q a^k y||, r_k >= ||R a^k y||. Then ||e_k|| <= b_k, where

    b_0 = ||W_0 - U|| + c,    s_0 = ||W_0 - U - Q y|| + c,    q_k the mean of min(q, q_0 + gamma phi),
    s_{k+1} = eps + gamma r_k + min(q_0 s_k + gamma v(b_k) b_k,  q_k s_k + gamma v(b_k) m_k),
    b_{k+1} = min(eps + q_k b_k,  m_{k+1} + s_{k+1}).

Where b_k <= s_k one may go on from y = 0, s_k = b_k; with y = 0 branches may change. *Proof.* The segment from W_* to W_k
lies in the ball, its point at x from W_* within c + x of U, so ||Kbar - K(U)|| <= v(b_k), ||I - gamma Kbar|| <= q_k. With
e_k = Q a^k y + f_k, M = I - gamma Kbar and Q a^(k+1) y = A Q a^k y + gamma R a^k y, where g_k is the rounding,
f_{k+1} = M f_k + (M - A) Q a^k y - gamma R a^k y + g_k and M f_k + (M - A) Q a^k y = A f_k + (M - A) e_k: s_k bounds f_k. QED

phi is convex (a norm of majorants), so its chords lie above it, and its means are at most those of the two ends.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from flint import arb, arb_mat, ctx

from certify.checker.curvature import BITS, absolute, exact, identity, length, norm, real
from certify.checker.document import (
    Claim,
    Finding,
    Rejected,
    agrees,
    binary64,
    integer,
    proved,
    require_upper,
)
from certify.checker.program import inputs_of
from certify.checker.rounding import FORMATS, emulate
from certify.checker.saved import State
from certify.checker.stage import DOC, Ball, stage_of

_SHARES = (14, 10, 6, 4, 2, 1, 0)  # phi is tabulated at r / 2**k
_LIMIT = 100_000  # updates, of the theorem and of a replay


def check_updates(claim: Claim, context: Any) -> Finding:
    """After how many updates a saved state is within a tolerance of the fixed point."""
    given = claim["parameters"]
    centre, format, tol = stage_of(claim, context), given.get("format"), Fraction(binary64(given.get("tol")))
    replayed = integer(given.get("replayed"), 0, _LIMIT, "the number of replayed updates")
    known = isinstance(format, str) and format in FORMATS and given.get("order") == "serial"
    if claim["verdict"] != "certified" or not known:
        raise Rejected("it is not certified, for a known format and serial sums")
    first = f"{replayed} replayed updates, then at most count" if replayed else "at most count"
    agrees(
        claim,
        context,
        id=f"updates/{format}",
        bounds=("count", "floor", "start", "q"),
        optional=("norm_count",),
        statement=f"From {context.where(given['state'])}, after {first} updates of the block in {format} with the "
        f"{given['step']} step size, W is within {float(tol)!r} of the fixed point of the stage, and stays so.",
        theorem=f"{DOC}#updates",
        assumptions=["IEEE arithmetic as in the rounding claims of this format"],
        parameters=("state", "format", "order", "tol", "step", "gamma", "stage", "replayed", "radius", "through"),
    )
    with ctx.workprec(BITS):
        ball = Ball(centre, context, format, binary64(given["radius"]))
        state = replace(context.state(given["state"]), gamma=centre.state.gamma, b=0)
        W, U, square = _replay(state, context, format, replayed), centre.state.W, range(state.p)
        moved = {(i, j): Fraction(W[i][j]) - Fraction(U[i][j]) for i in square for j in square}
        if {e for e, x in moved.items() if x} - set(ball.face):
            raise Rejected("the start is off the face of its ball")
        if sum(x * x for x in moved.values()) > Fraction(ball.radius) ** 2:
            raise Rejected(f"the start is not in the ball of radius {ball.radius!r}")
        offset = [real(moved[e]) * centre.signs[e] for e in ball.face]
        numbers = {"q": ball.q, "floor": ball.floor, "start": length(offset)}
        if "norm_count" in claim["bounds"]:
            numbers["norm_count"] = Fraction(_norm_count(length(offset) + ball.d / (1 - ball.q), ball, tol))
        if given["through"] == "":
            numbers["count"] = Fraction(_updates_to(ball, offset, tol))
        else:
            # within its entry radius of U, one update leads into the inner ball and on its face
            inner = Ball(centre, context, format, binary64(given["through"]))
            drift = inner.d / (1 - inner.q)
            reach = inner.entry_radius(Fraction(inner.radius) - inner.d - inner.eps) - drift
            last = _norm_count(Fraction(inner.radius) + drift, inner, tol)
            numbers["count"] = Fraction(_updates_to(ball, offset, reach) + 1 + last)
    for name, value in numbers.items():
        require_upper(claim, name, value)
    return proved(claim, **numbers)


def _replay(state: State, context: Any, format: str, updates: int) -> list[list[float]]:
    """W after so many updates of the program."""
    program, p = context.program(state), state.p
    for _ in range(updates):
        values, first = emulate(program, FORMATS[format], inputs_of(program, state))
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
    """A number of updates after which the distance is at most tol; `offset` is W_0 - U on the face, in signed coordinates."""
    centre, face, r, gamma = ball.centre, ball.face, arb(ball.radius), ball.centre.gamma
    drift = ball.d / (1 - ball.q)
    most = _norm_count(length(offset) + drift, ball, tol)
    if most == 0 or not face:
        return most
    lam, Q, low, high = centre.basis(face)
    n, box, column = len(face), centre.box(face, ball.radius), arb_mat([[x] for x in offset])
    c, q, q_0 = real(drift).upper(), real(ball.q).upper(), (1 - gamma * low).max(gamma * high - 1).upper()
    knots = [(arb(0), arb(0))]
    knots += [(arb(t), norm(centre.box(face, t).V)) for t in (ball.radius * 2.0**-k for k in _SHARES)]

    def phi(t: arb) -> arb:
        for (t_0, v_0), (t_1, v_1) in pairwise(knots):
            if t <= t_1:
                return v_0 + (v_1 - v_0) * (t - t_0) / (t_1 - t_0)
        return knots[-1][1]

    def mean(b: arb, cut: arb, beyond: arb) -> arb:
        """Of phi over [c, c + b], with another bound of it beyond the cut."""
        end = (c + b).upper()
        inner = end.min(cut).max(c)
        return ((phi(c) + phi(inner)) / 2 * (inner - c) + beyond * (end - inner)) / b

    # q bounds the rate from where q_0 + gamma phi exceeds it; any cut will do
    limit, bend = ((q - q_0) / gamma).upper().max(arb(0)), arb(0)
    for (t_0, v_0), (t_1, v_1) in pairwise(knots):
        bend = t_1 if v_1 <= limit else (t_0 + (limit - v_0) * (t_1 - t_0) / (v_1 - v_0)).mid()
        if v_1 > limit:
            break
    threshold = [gamma * (box.gradient[e] * centre.signs[e] + box.spread[e] + centre.lam) for e in face]
    fixed = all(abs(arb(centre.state.W[i][j])) - r > x for (i, j), x in zip(face, threshold, strict=True))
    parts = [x.mid() for x in (Q.transpose() * column).entries()] if fixed else [arb(0)] * n
    rates = [1 - gamma * x for x in lam]
    rest = box.K * Q - Q * arb_mat([[x if i == j else 0 for j in range(n)] for i, x in enumerate(lam)])
    leak = (gamma * real(length(rest.entries()))).upper()
    stretch = (1 + norm(absolute(Q.transpose() * Q - identity(n)))).upper().sqrt().upper()
    s = (real(length((column - Q * arb_mat([[x] for x in parts])).entries())) + c).upper()
    b, target, eps = (real(length(offset)) + c).upper(), real(tol).lower(), real(ball.eps).upper()
    with ctx.workprec(96):
        size = real(length(parts)).upper()
        b = b.min(stretch * size + s).upper()
        for k in range(min(most, _LIMIT)):
            if b <= target:
                return k
            if b <= s:
                parts, size, s = [], arb(0), b
            v = gamma * mean(b, r, knots[-1][1])
            shrink = q.min(q_0 + gamma * mean(b, bend, limit))
            s = (eps + leak * size + (q_0 * s + v * b).min(shrink * s + v * stretch * size)).upper()
            parts = [x * y for x, y in zip(parts, rates, strict=False)]
            size = sum((x * x for x in parts), arb(0)).upper().sqrt().upper()
            b = (eps + shrink * b).min(stretch * size + s).upper()
    return min(most, min(most, _LIMIT) + _norm_count(exact(b), ball, tol))
