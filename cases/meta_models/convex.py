"""The Gaussian field that attention weights fit, and three iterations on it: cavity messages, anchored and plain attention.

p(z) ~ exp(-sum_i d_i (z_i - e_i)^2 / 2 - sum_{i<j} c_ij (z_i - z_j)^2 / 2) with d_i > 0 and c_ij >= 0. All message precisions
are positive, so that one softmax row of their logarithms is the belief maximizer. Proofs: README, sections map, softmax-row,
belief, anchored, consensus.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb, ctx

from certify.certificate import Claim, to_text
from certify.errors import InputRejected

from .inputs import Instance
from .linear import Vector, count, first_within, rate, require_symmetric, solve, weights
from .wording import BITS, at_least, at_most, ball, claim, high_of, holds_zero, low_of, radius_of, texts

#: Rounds of belief propagation before a count is left undecided.
MOST_ROUNDS = 500


def convex_claims(instance: Instance) -> list[Claim]:
    """All claims of the system `convex`."""
    d, e, c = (instance.array(part).tolist() for part in "dec")
    require_symmetric(instance, "c", c)
    if any(x <= 0 for x in d) or any(x < 0 for row in c for x in row) or any(c[i][i] for i in range(len(d))):
        raise InputRejected(
            f"{instance.name}: d, c or the diagonal of c is not as it must be", "d > 0, c >= 0, c_ii = 0"
        )
    z = maximizer(d, e, c)
    return [
        _map(instance, z),
        *_messages(instance, d, e, c, z),
        *_anchored(instance, d, e, c, z),
        *_plain(instance, d, e, c, z),
    ]


def maximizer(d: Vector, e: Vector, c: Any) -> Vector:
    """The MAP, the solution of (D + L) z = D e."""
    n = range(len(d))
    A = [[d[i] + sum(c[i], Fraction(0)) if i == j else -c[i][j] for j in n] for i in n]
    return solve(A, [x * y for x, y in zip(d, e, strict=True)])


def _map(instance: Instance, z: Vector) -> Claim:
    return claim(
        "identity",
        "map",
        instance.name,
        f"z of the witness maximizes the density of {instance.name} exactly: d_i (z_i - e_i) + the sum over j of "
        "c_ij (z_i - z_j) is 0 for every i, and the density is log-concave.",
        verdict=True,
        witness={"z": texts(z)},
    )


def _messages(instance: Instance, d: Vector, e: Vector, c: Any, z: Vector) -> list[Claim]:
    """Cavity messages in balls: when the beliefs are at the MAP, and the rows of attention that they are."""
    digits, n = instance.count("digits", 100), range(len(d))
    edges = [(i, j) for i in n for j in n if c[i][j] != 0]
    with ctx.workprec(BITS):
        D, E, C = [ball(x) for x in d], [ball(x) for x in e], [[ball(x) for x in row] for row in c]
        exact, tol = [ball(x) for x in z], ball(Fraction(1, 10**digits))
        a: dict[Any, Any] = dict.fromkeys(edges, arb(0))
        m: dict[Any, Any] = dict.fromkeys(edges, arb(0))
        reached, error = None, arb(0)
        for rounds in range(1, MOST_ROUNDS + 1):
            P = {(j, i): D[j] + sum((a[k, j] for k in n if (k, j) in a and k != i), arb(0)) for j, i in edges}
            m = {
                (j, i): (D[j] * E[j] + sum((a[k, j] * m[k, j] for k in n if (k, j) in a and k != i), arb(0))) / P[j, i]
                for j, i in edges
            }
            a = {(j, i): C[i][j] * P[j, i] / (C[i][j] + P[j, i]) for j, i in edges}
            rows = [[(D[i], E[i]), *((a[j, i], m[j, i]) for j in n if (j, i) in a)] for i in n]
            belief = [sum((w * x for w, x in row), arb(0)) / sum((w for w, _ in row), arb(0)) for row in rows]
            error = max((abs(x - y) for x, y in zip(belief, exact, strict=True)), key=high_of)
            if error < tol:
                reached = rounds
                break
        softmax = [_softmax_row(row) for row in rows]
        radius = max(high_of(abs(x - y)) for x, y in zip(softmax, belief, strict=True))
        least = min((w / sum((x for x, _ in row), arb(0)) for row in rows for w, _ in row), key=low_of)
        after = f"after {rounds} rounds of belief propagation with cavity messages from none on {instance.name}"
        return [
            claim(
                "updates",
                "belief",
                instance.name,
                f"After `count` rounds of belief propagation with cavity messages from none on {instance.name} the "
                f"maximizer of every belief is within 10^-{digits} of the MAP.",
                verdict=reached is not None,
                reason=f"not within {MOST_ROUNDS} rounds",
                parameters={"digits": digits},
                bounds={"count": str(reached)},
            ),
            claim(
                "identity",
                "softmax-row",
                instance.name,
                f"For every variable i, {after}: the enclosure of the difference between softmax attention, with "
                "scores log d_i and log a_ji and values e_i and m_ji, and the maximizer of the belief contains 0 "
                "and reaches no further than `radius`. Equal they are because exp(log a) = a.",
                verdict=all(holds_zero(x - y) for x, y in zip(softmax, belief, strict=True)),
                reason="an enclosure excludes 0",
                parameters={"rounds": rounds},
                bounds={"radius": radius_of(radius)},
            ),
            claim(
                "margin",
                "softmax-row",
                instance.name,
                f"For every variable i, {after}: every weight of the belief, d_i and a_ji over their sum, is at "
                "least `margin`.",
                verdict=True,
                parameters={"rounds": rounds},
                bounds={"margin": at_least(least)},
            ),
        ]


def _softmax_row(row: list[tuple[Any, Any]]) -> Any:
    """Attention with these weights as scores log a: exp(log a - largest), normalised, times the values."""
    scores = [w.log() for w, _ in row]
    top = max(scores, key=float)
    p = [(s - top).exp() for s in scores]
    total = sum(p, arb(0))
    return sum((x / total * v for x, (_, v) in zip(p, row, strict=True)), arb(0))


def _anchored(instance: Instance, d: Vector, e: Vector, c: Any, z: Vector) -> list[Claim]:
    n, digits = range(len(d)), instance.count("digits", 100)
    step_matrix = [[c[i][j] / (d[i] + sum(c[i], Fraction(0))) for j in n] for i in n]
    v = weights(step_matrix)
    q, plain = rate(step_matrix, v), rate(step_matrix, [Fraction(1)] * len(d))

    offset = [d[i] * e[i] / (d[i] + sum(c[i], Fraction(0))) for i in n]
    first = [
        b + sum((a * x for a, x in zip(row, e, strict=True)), Fraction(0))
        for row, b in zip(step_matrix, offset, strict=True)
    ]
    tol = Fraction(1, 10**digits)
    sharp = count(q, max(abs(x - y) / w for x, y, w in zip(first, e, v, strict=True)), tol)
    loose = count(plain, max(abs(x - y) for x, y in zip(first, e, strict=True)), tol)
    rule = "z_i <- (d_i e_i + sum over j of c_ij z_j) / (d_i + sum over j of c_ij)"
    return [
        claim(
            "contraction",
            "anchored",
            instance.name,
            f"Attention with the self value held at e_i, {rule}, contracts on {instance.name} by q < 1 in the norm "
            "max |z_i| / v_i with v of the witness, and by q_plain < 1 in the largest entry; its limit is the MAP.",
            verdict=q < 1 and plain < 1,
            reason="a factor is not below 1",
            bounds={"q": at_most(q), "q_plain": at_most(plain)},
            witness={"v": texts(v)},
        ),
        claim(
            "updates",
            "anchored",
            instance.name,
            f"From z = e, after `count` iterations {rule} on {instance.name} and ever after, every z_i is within "
            f"10^-{digits} of the MAP; the factor q_plain alone proves `count_plain`.",
            verdict=sharp is not None and loose is not None,
            reason="the count is too large",
            parameters={"digits": digits},
            bounds={"count": str(sharp), "count_plain": str(loose)},
            observed={"first": str(first_within(step_matrix, offset, z, e, digits))},
            witness={"v": texts(v)},
        ),
    ]


def _plain(instance: Instance, d: Vector, e: Vector, c: Any, z: Vector) -> list[Claim]:
    """A plain stack z <- A z forgets e: it tends to the mean of e under the stationary law of A, not to the MAP."""
    n = range(len(d))
    total = [d[i] + sum(c[i], Fraction(0)) for i in n]
    A = [[(d[i] if i == j else c[i][j]) / total[i] for j in n] for i in n]
    tau = 1 - min(sum((min(A[i][k], A[j][k]) for k in n), Fraction(0)) for i in n for j in n)
    law = [x / sum(total, Fraction(0)) for x in total]
    value = sum((p * x for p, x in zip(law, e, strict=True)), Fraction(0))
    off = max(abs(value - x) for x in z)
    about = (
        "z <- A z with A_ii = d_i / (d_i + sum over j of c_ij) and A_ij = c_ij / (d_i + sum over j of c_ij) on "
        f"{instance.name}"
    )
    no = "the coefficient of Dobrushin is 1: two rows of A have no common support"
    return [
        claim(
            "contraction",
            "consensus",
            instance.name,
            f"Plain attention {about} contracts the spread max z_i - min z_i by q < 1, the coefficient of Dobrushin.",
            verdict=tau < 1,
            reason=no,
            bounds={"q": at_most(tau)},
        ),
        claim(
            "identity",
            "consensus",
            instance.name,
            f"Plain attention {about}, from z = e, tends to the same number `value` in every entry, the mean of e "
            "under the law of the witness, which is stationary: pi A = pi exactly.",
            verdict=tau < 1,
            reason=no,
            bounds={"value": to_text(value)},
            witness={"pi": texts(law)},
        ),
        claim(
            "margin",
            "consensus",
            instance.name,
            f"The limit of plain attention {about}, from z = e, differs from the MAP by at least `margin` in some "
            "entry.",
            verdict=tau < 1 and off > 0,
            reason=no if tau >= 1 else "the limit is the MAP",
            bounds={"margin": at_least(off)},
        ),
    ]
