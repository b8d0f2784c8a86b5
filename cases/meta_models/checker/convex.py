"""The convex Gaussian field: its maximizer, cavity messages as attention rows, anchored and plain attention."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.meta_models.fields import (
    MOST_VARIABLES,
    contraction,
    neighbours,
    require_below_one,
    require_count,
    weights_of,
)
from certify.checker.cases.meta_models.parts import (
    BITS,
    System,
    exact,
    fraction,
    lower,
    numbers,
    real,
    require_positive,
    system_of,
    total,
    upper,
    witness,
    words,
)
from flint import ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, number, proved, require_upper, shown


def convex_of(s: System) -> tuple[Any, Any, Any]:
    """d > 0, e, and c >= 0 symmetric with an empty diagonal."""
    d, e, c = s.rows("d"), s.rows("e"), s.rows("c")
    n = range(len(d))
    if len(d) > MOST_VARIABLES:
        raise Beyond(f"{len(d)} variables are more than this checker takes")
    if min(d) <= 0 or any(c[i][j] < 0 or c[i][j] != c[j][i] or c[i][i] for i in n for j in n):
        raise Rejected(f"{s.name} is no convex field")
    return d, e, c


def map_of(d: Any, e: Any, c: Any) -> list[Fraction]:
    """The MAP: (D + L) z = D e."""
    n = range(len(d))
    A = [[(d[i] + sum(c[i]) if i == j else Fraction(0)) - c[i][j] for j in n] for i in n]
    return [fraction(x) for x in exact(A).solve(exact([[d[i] * e[i]] for i in n])).entries()]


def check_map(claim: Claim, context: Any) -> Finding:
    """The gradient at the witness."""
    s = system_of(claim, context)
    words(
        claim,
        s,
        f"z of the witness maximizes the density of {s.name} exactly: d_i (z_i - e_i) + the sum over j of c_ij (z_i "
        "- z_j) is 0 for every i, and the density is log-concave.",
        topic="map",
    )
    d, e, c = convex_of(s)
    z = numbers(witness(claim, "z")[0], (len(d),), "z")
    for i, x in enumerate(z):
        if d[i] * (x - e[i]) + sum(w * (x - y) for w, y in zip(c[i], z, strict=True)) != 0:
            raise Rejected(f"the gradient is not 0 in variable {i}")
    return proved(claim)


def attention_rows(s: System, rounds: int) -> list[list[tuple[Any, Any]]]:
    """(weight, value) of the self message and of each other after that many rounds of cavity messages, in balls."""
    d, e, c = convex_of(s)
    n, near = range(len(d)), neighbours(c)
    D, pull = [real(x) for x in d], [real(x * y) for x, y in zip(d, e, strict=True)]
    inbox: list[dict[int, tuple[Any, Any]]] = [{} for _ in n]
    for _ in range(rounds):
        sent: list[dict[int, tuple[Any, Any]]] = [{} for _ in n]
        for j in n:
            for i in near[j]:
                P = D[j] + total(a for k, (a, _) in inbox[j].items() if k != i)
                m = (pull[j] + total(a * x for k, (a, x) in inbox[j].items() if k != i)) / P
                sent[i][j] = (1 / (1 / real(c[i][j]) + 1 / P), m)
        inbox = sent
    return [[(D[i], real(e[i])), *inbox[i].values()] for i in n]


def check_belief(claim: Claim, context: Any) -> Finding:
    """The beliefs after `count` rounds against the MAP."""
    s = system_of(claim, context)
    digits = s.whole("digits", 100)
    words(
        claim,
        s,
        f"After `count` rounds of belief propagation with cavity messages from none on {s.name} the maximizer of "
        f"every belief is within 10^-{digits} of the MAP.",
        topic="belief",
        given={"digits": digits},
        bounds=("count",),
    )
    count = number(claim["bounds"]["count"])
    if count.denominator != 1 or not 0 <= count <= 1000:
        raise Rejected("its count is none, or too large")
    with ctx.workprec(BITS):
        for row, x in zip(attention_rows(s, int(count)), map_of(*convex_of(s)), strict=True):
            belief = total(a * m for a, m in row) / total(a for a, _ in row)
            if not abs(belief - real(x)) <= real(Fraction(1, 10**digits)):
                raise Rejected("a belief is not proved to be that close")
    return proved(claim)


def check_softmax_row(claim: Claim, context: Any) -> Finding:
    """Attention with scores log a, and the least weight."""
    s, rounds = system_of(claim, context), claim["parameters"].get("rounds")
    after = (
        f"For every variable i, after {rounds} rounds of belief propagation with cavity messages from none on {s.name}:"
    )
    equal = claim["kind"] == "identity"
    words(
        claim,
        s,
        f"{after} the enclosure of the difference between softmax attention, with scores log d_i and log a_ji and "
        "values e_i and m_ji, and the maximizer of the belief contains 0 and reaches no further than `radius`. "
        "Equal they are because exp(log a) = a."
        if equal
        else f"{after} every weight of the belief, d_i and a_ji over their sum, is at least `margin`.",
        topic="softmax-row",
        given={"rounds": rounds},
        bounds=("radius",) if equal else ("margin",),
    )
    if type(rounds) is not int or not 1 <= rounds <= 1000:
        raise Rejected("its rounds are none, or too many")
    with ctx.workprec(BITS):
        rows = attention_rows(s, rounds)
        if not equal:
            margin = min(lower(a / total(x for x, _ in row)) for row in rows for a, _ in row)
            require_positive(claim, margin)
            return proved(claim, margin=margin)
        radius = Fraction(0)
        for row in rows:
            powers = [a.log().exp() for a, _ in row]
            off = total(p * m for p, (_, m) in zip(powers, row, strict=True)) / total(powers)
            off -= total(a * m for a, m in row) / total(a for a, _ in row)
            if not off.contains(0):
                raise Rejected("attention and belief differ")
            radius = max(radius, upper(abs(off)))
    require_upper(claim, "radius", radius)
    return proved(claim, radius=radius)


RULE = "z_i <- (d_i e_i + sum over j of c_ij z_j) / (d_i + sum over j of c_ij)"


def check_anchored(claim: Claim, context: Any) -> Finding:
    """The norms of the iteration, and the geometric series behind the counts."""
    s = system_of(claim, context)
    d, e, c = convex_of(s)
    n = range(len(d))
    A = [[c[i][j] / (d[i] + sum(c[i])) for j in n] for i in n]
    v = weights_of(claim, len(d))
    q, plain = contraction(A, v), contraction(A, [Fraction(1)] * len(d))
    if claim["kind"] == "contraction":
        words(
            claim,
            s,
            f"Attention with the self value held at e_i, {RULE}, contracts on {s.name} by q < 1 in the norm max "
            "|z_i| / v_i with v of the witness, and by q_plain < 1 in the largest entry; its limit is the MAP.",
            topic="anchored",
            bounds=("q", "q_plain"),
        )
        require_below_one(claim, "q", q)
        require_below_one(claim, "q_plain", plain)
        return proved(claim, q=q, q_plain=plain)
    digits = s.whole("digits", 100)
    words(
        claim,
        s,
        f"From z = e, after `count` iterations {RULE} on {s.name} and ever after, every z_i is within 10^-{digits} "
        "of the MAP; the factor q_plain alone proves `count_plain`.",
        topic="anchored",
        given={"digits": digits},
        bounds=("count", "count_plain"),
    )
    moved = [abs(sum(c[i][j] * (e[j] - e[i]) for j in n) / (d[i] + sum(c[i]))) for i in n]
    tol = Fraction(1, 10**digits)
    require_count(claim, "count", q, max(x / w for x, w in zip(moved, v, strict=True)), tol)
    require_count(claim, "count_plain", plain, max(moved), tol)
    return proved(claim)


def check_consensus(claim: Claim, context: Any) -> Finding:
    """The coefficient of Dobrushin, the stationary law, and the distance of its mean to the MAP."""
    s = system_of(claim, context)
    d, e, c = convex_of(s)
    n, kind = range(len(d)), claim["kind"]
    about = (
        "z <- A z with A_ii = d_i / (d_i + sum over j of c_ij) and A_ij = c_ij / (d_i + sum over j of c_ij) on "
        + s.name
    )
    says = {
        "contraction": (
            f"Plain attention {about} contracts the spread max z_i - min z_i by q < 1, the coefficient of Dobrushin.",
            "q",
        ),
        "identity": (
            f"Plain attention {about}, from z = e, tends to the same number `value` in every entry, the mean of e "
            "under the law of the witness, which is stationary: pi A = pi exactly.",
            "value",
        ),
        "margin": (
            f"The limit of plain attention {about}, from z = e, differs from the MAP by at least `margin` in some "
            "entry.",
            "margin",
        ),
    }
    if kind not in says:
        raise Rejected(f"claims of the kind {shown(kind)} are none of consensus")
    words(claim, s, says[kind][0], topic="consensus", bounds=(says[kind][1],))
    A = [[(c[i][j] + (d[i] if i == j else 0)) / (d[i] + sum(c[i])) for j in n] for i in n]
    q = max(sum(abs(x - y) for x, y in zip(A[i], A[j], strict=True)) / 2 for i in n for j in n)
    if q >= 1:
        raise Rejected("the spread is not proved to shrink")
    if kind == "contraction":
        require_below_one(claim, "q", q)
        return proved(claim, q=q)
    if kind == "identity":
        pi = numbers(witness(claim, "pi")[0], (len(d),), "pi")
        if sum(pi) != 1 or min(pi) < 0 or exact([pi]) * exact(A) != exact([pi]):
            raise Rejected("the law of its witness is not stationary")
    else:  # pi A = pi with sum 1, by linear algebra
        system = [*[[A[j][i] - (i == j) for j in n] for i in n][:-1], [Fraction(1)] * len(d)]
        pi = [fraction(x) for x in exact(system).solve(exact([[Fraction(i == n[-1])] for i in n])).entries()]
    value = sum(p * x for p, x in zip(pi, e, strict=True))
    if kind == "identity":
        if number(claim["bounds"]["value"]) != value:
            raise Rejected("its value is not the mean under the law")
        return proved(claim, value=value)
    margin = max(abs(value - x) for x in map_of(d, e, c))
    if margin == 0:
        raise Rejected("the limit is the MAP")
    require_positive(claim, margin)
    return proved(claim, margin=margin)


CHECKS = {
    "identity/map": check_map,
    "updates/belief": check_belief,
    "identity/softmax-row": check_softmax_row,
    "margin/softmax-row": check_softmax_row,
    "contraction/anchored": check_anchored,
    "updates/anchored": check_anchored,
    "contraction/consensus": check_consensus,
    "identity/consensus": check_consensus,
    "margin/consensus": check_consensus,
}
