"""Gaussian belief propagation on loops: the fixed point of the precisions, and the beliefs there."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.meta_models.fields import field_of, neighbours
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
from flint import arb, arb_mat, ctx

from certify.checker.document import (
    Beyond,
    Claim,
    Finding,
    Rejected,
    proved,
    require_upper,
)

MOST_MESSAGES, MOST_SWEEPS = 150, 6000


def check_loop_variance(claim: Claim, context: Any) -> Finding:
    """The variance at the enclosed fixed point against the inverse of J."""
    s, place = system_of(claim, context), claim["parameters"].get("variable")
    words(
        claim,
        s,
        f"{tends(s)} the variance of the belief of variable {place} differs from the exact one by at least `margin`.",
        topic="loop-variance",
        given={"variable": place},
        bounds=("margin",),
    )
    J, h = field_of(s)
    if type(place) is not int or not 0 <= place < len(h):
        raise Rejected("it is about no variable")
    with ctx.workprec(BITS):
        a = fixed_precisions(claim, J)
        P = real(J[place][place]) + total(a[k, place] for k in neighbours(J)[place])
        gap = lower(abs(1 / P - real(fraction(exact(J).inv()[place, place]))))
    if gap <= 0:
        raise Beyond("the variances are not told apart here")
    require_positive(claim, gap)
    return proved(claim, margin=gap)


def tends(s: System) -> str:
    """How sentences about loops begin."""
    return (
        f"In Gaussian belief propagation on the loops of {s.name}, from zero messages, the message precisions tend "
        "to their only fixed point between those of the witness and 0; there"
    )


def fixed_precisions(claim: Claim, J: Any) -> Any:
    """Balls around the fixed point of the message precisions, after proving that the box of the witness holds and shrinks.

    The map a_ij -> -J_ij^2 / (J_ii + sum of a_ki, k != j) increases in each a. So it maps [L, 0] into itself if it maps L above
    L, where its denominators are least and positive; and its derivatives are largest there.
    """
    near = neighbours(J)
    edges = {(i, j) for i, row in enumerate(near) for j in row}
    if len(edges) > MOST_MESSAGES:
        raise Beyond(f"{len(edges)} messages are more than this checker takes")
    rows = witness(claim, "precisions")[0]
    if not isinstance(rows, list) or len(rows) != len(edges):
        raise Rejected("its witness does not have one precision for each message")
    low: dict[Any, Fraction] = {}
    for row in rows:
        i, j, value = numbers(row, (3,), "a precision")
        if i.denominator * j.denominator != 1:
            raise Rejected("its witness names no message")
        low[int(i), int(j)] = value
    if set(low) != edges or any(x >= 0 for x in low.values()):
        raise Rejected("its witness does not have a negative precision for each message")
    for (i, j), x in low.items():
        others = [low[k, i] for k in near[i] if k != j]
        P = J[i][i] + sum(others)
        if P <= 0 or -(J[i][j] ** 2) / P < x:
            raise Rejected("the box of its witness does not hold the precisions")
        if J[i][j] ** 2 / P**2 * -sum(others) >= -x:
            raise Rejected("the precisions are not proved to contract in the box of its witness")
    box = {e: real(x / 2) + arb(0, 1) * real(abs(x) / 2) for e, x in low.items()}
    for _ in range(MOST_SWEEPS):
        box = {
            (i, j): -(real(J[i][j]) ** 2) / (real(J[i][i]) + total(box[k, i] for k in near[i] if k != j))
            for i, j in edges
        }
        if all(x.rad() < arb(2) ** -320 for x in box.values()):
            return box
    raise Beyond("the enclosures of the precisions do not become small here")


def check_loop_means(claim: Claim, context: Any) -> Finding:
    """The informations at the fixed point solve a linear system; the means against J."""
    s = system_of(claim, context)
    words(
        claim,
        s,
        f"{tends(s)} the enclosure of the difference between the means of the beliefs and J^-1 h contains 0 and "
        "reaches no further than `radius`. This alone proves no equality; that the means are exact is a theorem.",
        topic="loop-means",
        bounds=("radius",),
    )
    J, h = field_of(s)
    near = neighbours(J)
    with ctx.workprec(BITS):
        a = fixed_precisions(claim, J)
        edges = sorted(a)
        # J_ij^-1 P b_ij + sum of b_ki = -h_i, with P = -J_ij^2 / a_ij
        rows = [
            [real(-J[i][j]) / a[i, j] if (k, t) == (i, j) else arb(int(t == i and k != j)) for k, t in edges]
            for i, j in edges
        ]
        b = arb_mat(rows).solve(arb_mat([[-real(h[i])] for i, _ in edges])).entries()
        told = dict(zip(edges, b, strict=True))
        radius = Fraction(0)
        limit = exact(J).solve(exact([[x] for x in h])).entries()
        for i in range(len(h)):
            P = real(J[i][i]) + total(a[k, i] for k in near[i])
            off = (real(h[i]) + total(told[k, i] for k in near[i])) / P - real(fraction(limit[i]))
            if not off.contains(0):
                raise Rejected(f"the mean of variable {i} differs")
            radius = max(radius, upper(abs(off)))
    require_upper(claim, "radius", radius)
    return proved(claim, radius=radius)


CHECKS = {
    "margin/loop-variance": check_loop_variance,
    "identity/loop-means": check_loop_means,
}
