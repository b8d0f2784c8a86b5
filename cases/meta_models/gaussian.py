"""Gaussian belief propagation in information form, and the maximizer of a sum of quadratic log-messages.

Equations (5)-(12) of the paper for Gaussian potentials: p(z) ~ exp(-z^T J z / 2 + h^T z). Messages are pairs (precision,
information). On a tree they are exact after diameter rounds; on loops the means are exact in the limit and the variances
are not. Proofs: README, sections stationary, hull, tree, walk-summable, jacobi, loop-variance, loop-means.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb, arb_mat, ctx

from certify.certificate import Claim
from certify.errors import InputRejected

from .inputs import Instance
from .linear import Vector, count, definite, first_within, inverse, rate, require_symmetric, solve, weights
from .wording import BITS, at_least, at_most, ball, claim, high_of, holds_zero, low_of, radius_of, texts

Edge = tuple[int, int]
#: Messages on a graph with loops, which are passed one by one.
MOST_MESSAGES = 150
#: Sweeps of the message precisions on a loop before the claim is left undecided.
MOST_SWEEPS = 4000


def mean_claims(instance: Instance) -> list[Claim]:
    """Of the system `mean`: stationarity of the belief maximizer, and that it lies among the maximizers."""
    shapes = instance.tensors["H"].shape[1:], instance.tensors["m"].shape[1:]
    scalar = shapes == ((), ())
    if scalar:
        H = [[[x]] for x in instance.array("H")]
        m = [[x] for x in instance.array("m")]
    elif len(shapes[1]) == 1 and shapes[0] == shapes[1] * 2:
        H, m = instance.array("H").tolist(), instance.array("m").tolist()
    else:
        raise InputRejected(
            f"{instance.name}: H and m do not fit", "give them the shapes (n) and (n), or (n, d, d) and (n, d)"
        )
    for k, matrix in enumerate(H):
        require_symmetric(instance, f"H[{k}]", matrix)
    kept = [k for k in range(len(H)) if not instance.has("mask") or instance.array("mask")[k] != 0]
    if instance.has("mask") and any(x not in (0, 1) for x in instance.array("mask")):
        raise InputRejected(f"tensor {instance.name}_mask has an entry other than 0 and 1", "a mask keeps or drops")
    which = "those that its mask keeps" if instance.has("mask") else "all of them"
    axes = range(len(m[0]))
    total = [[sum((H[k][a][b] for k in kept), Fraction(0)) for b in axes] for a in axes]
    right = [sum((H[k][a][b] * m[k][b] for k in kept for b in axes), Fraction(0)) for a in axes]
    good = definite(total)
    z = solve(total, right) if good else []
    claims = [
        claim(
            "identity",
            "stationary",
            instance.name,
            f"At z of the witness the gradient of the sum of the quadratic log-messages of {instance.name}, {which}, "
            "is exactly 0, and the Hessian is negative definite: z is their precision-weighted mean.",
            verdict=good,
            reason="the sum of the precisions is not positive definite, so that there is no maximizer",
            witness={"z": texts(z)},
        )
    ]
    if scalar:
        ends = [m[k][0] for k in kept]
        inside = good and all(H[k][0][0] > 0 for k in kept) and min(ends) < max(ends)
        claims.append(
            claim(
                "margin",
                "hull",
                instance.name,
                f"The precision-weighted mean of the maximizers of {instance.name}, {which}, is at least `margin` "
                "above the smallest and below the largest of them.",
                verdict=inside,
                reason="a precision is not positive, or all maximizers are equal",
                bounds={"margin": at_least(min(z[0] - min(ends), max(ends) - z[0]))} if inside else {},
            )
        )
    return claims


def gaussian_claims(instance: Instance) -> list[Claim]:
    """Of the system `gaussian`: exactness on a tree; on loops walk-summability, update counts, means and variances."""
    J, h = instance.array("J").tolist(), instance.array("h").tolist()
    require_symmetric(instance, "J", J)
    if not definite(J):
        raise InputRejected(f"tensor {instance.name}_J is not positive definite", "give a precision matrix")
    edges = [(i, j) for i in range(len(h)) for j in range(len(h)) if i != j and J[i][j] != 0]
    means, variances = solve(J, h), [inverse(J)[i][i] for i in range(len(h))]
    claims = [*_walk_summable(instance, J, h)]
    if _has_no_loops(len(h), edges):
        rounds = _rounds(J, h, edges, means, variances)
        claims.append(
            claim(
                "identity",
                "tree",
                instance.name,
                f"Gaussian belief propagation on the graph of {instance.name}, which has no loops, from zero "
                "messages, gives exactly the means and variances of the witness, which are J^-1 h and the diagonal "
                f"of J^-1, after {rounds} rounds and no fewer.",
                verdict=True,
                parameters={"rounds": rounds},
                witness={"means": texts(means), "variances": texts(variances)},
            )
        )
    else:
        claims += _loops(instance, J, h, edges, means, variances)
    return claims


def messages(J: Any, h: Any, edges: list[Edge], a: dict[Edge, Any], b: dict[Edge, Any]) -> tuple[Any, Any]:
    """One round: the precisions and informations of the messages i -> j from those before it."""
    new_a, new_b = {}, {}
    for i, j in edges:
        P = J[i][i] + sum((a[k, t] for k, t in edges if t == i and k != j), 0 * J[i][i])
        information = h[i] + sum((b[k, t] for k, t in edges if t == i and k != j), 0 * h[i])
        new_a[i, j] = -J[i][j] * J[i][j] / P
        new_b[i, j] = -J[i][j] * information / P
    return new_a, new_b


def beliefs(J: Any, h: Any, edges: list[Edge], a: dict[Edge, Any], b: dict[Edge, Any]) -> tuple[list[Any], list[Any]]:
    """Means and variances of the beliefs."""
    P = [J[i][i] + sum((a[k, t] for k, t in edges if t == i), 0 * J[i][i]) for i in range(len(h))]
    total = [h[i] + sum((b[k, t] for k, t in edges if t == i), 0 * h[i]) for i in range(len(h))]
    return [x / p for x, p in zip(total, P, strict=True)], [1 / p for p in P]


def _has_no_loops(n: int, edges: list[Edge]) -> bool:
    """Whether the graph is a forest: as many edges as variables that are not the first of their component."""
    parts = [{i} for i in range(n)]
    for i, j in edges:
        joined = [part for part in parts if i in part or j in part]
        parts = [part for part in parts if part not in joined] + [set().union(*joined)]
    return len(edges) == 2 * (n - len(parts))


def _rounds(J: Any, h: Any, edges: list[Edge], means: Vector, variances: Vector) -> int:
    zero = dict.fromkeys(edges, Fraction(0))
    a, b, rounds = zero, zero, 0
    while beliefs(J, h, edges, a, b) != (means, variances):
        a, b = messages(J, h, edges, a, b)
        rounds += 1
    return rounds


def _walk_summable(instance: Instance, J: Any, h: Any) -> list[Claim]:
    n = len(h)
    jacobi = [[abs(J[i][j]) / J[i][i] if i != j else Fraction(0) for j in range(n)] for i in range(n)]
    v = weights(jacobi)
    q = rate(jacobi, v)
    step = [[-J[i][j] / J[i][i] if i != j else Fraction(0) for j in range(n)] for i in range(n)]
    offset = [h[i] / J[i][i] for i in range(n)]
    digits = instance.count("digits", 200)
    first = max(abs(h[i] / J[i][i]) / v[i] for i in range(n))
    updates = count(q, first, Fraction(1, 10**digits))
    return [
        claim(
            "contraction",
            "walk-summable",
            instance.name,
            "For v > 0 of the witness and every i, the sum over j != i of |J_ij| v_j is at most q J_ii v_i in "
            f"{instance.name}, with q < 1: J is walk-summable, and the Jacobi iteration contracts by q in the norm "
            "max |z_i| / v_i.",
            verdict=q < 1,
            reason=f"the best q found is {float(q):.3g}, not below 1",
            bounds={"q": at_most(q)},
            witness={"v": texts(v)},
        ),
        claim(
            "updates",
            "jacobi",
            instance.name,
            "From z = 0, after `count` Jacobi iterations z_i <- (h_i - sum over j != i of J_ij z_j) / J_ii of "
            f"{instance.name} and ever after, every z_i is within 10^-{digits} of (J^-1 h)_i.",
            verdict=updates is not None,
            reason="no contraction is proved, or the count is too large",
            parameters={"digits": digits},
            bounds={"count": str(updates)},
            observed={"first": str(first_within(step, offset, solve(J, h), [Fraction(0)] * n, digits))},
            witness={"v": texts(v)},
        ),
    ]


def _loops(instance: Instance, J: Any, h: Any, edges: list[Edge], means: Vector, variances: Vector) -> list[Claim]:
    """Where the graph has loops: the fixed point that the precisions tend to, and what the beliefs there are."""
    box = _lower_box(J, edges)
    place, margin, errors, reason = 0, arb(0), [], "no box is found that the message precisions cannot leave"
    with ctx.workprec(BITS):
        inner = None if box is None else _fixed_precisions(J, edges, box)
        if inner is not None:
            found_means, found_variances = _limits(J, h, edges, inner)
            gaps = [abs(x - ball(y)) for x, y in zip(found_variances, variances, strict=True)]
            place = max(range(len(h)), key=lambda i: low_of(gaps[i]))
            margin = gaps[place]
            errors = [x - ball(y) for x, y in zip(found_means, means, strict=True)]
            reason = "the enclosures do not decide it"
        radius = max((high_of(abs(x)) for x in errors), default=Fraction(0))
        tends = (
            f"In Gaussian belief propagation on the loops of {instance.name}, from zero messages, the message "
            "precisions tend to their only fixed point between those of the witness and 0; there"
        )
        witness = {"precisions": [[str(i), str(j), *texts([x])] for (i, j), x in (box or {}).items()]}
        return [
            claim(
                "margin",
                "loop-variance",
                instance.name,
                f"{tends} the variance of the belief of variable {place} differs from the exact one by at least "
                "`margin`.",
                verdict=inner is not None and low_of(margin) > 0,
                reason=reason,
                parameters={"variable": place},
                bounds={"margin": at_least(margin)},
                witness=witness,
            ),
            claim(
                "identity",
                "loop-means",
                instance.name,
                f"{tends} the enclosure of the difference between the means of the beliefs and J^-1 h contains 0 and "
                "reaches no further than `radius`. This alone proves no equality; that the means are exact is a "
                "theorem.",
                verdict=bool(errors) and all(holds_zero(x) for x in errors),
                reason=reason,
                bounds={"radius": radius_of(radius)},
                witness=witness,
            ),
        ]


def _lower_box(J: Any, edges: list[Edge]) -> dict[Edge, Fraction] | None:
    """L < 0 with F(L) >= L for the map F of the message precisions, and F contracting on [L, 0]; None if none is found."""
    if len(edges) > MOST_MESSAGES:
        return None
    a = dict.fromkeys(edges, 0.0)
    floats = [[float(x) for x in row] for row in J]
    for _ in range(MOST_SWEEPS):
        P = {e: _cavity(floats, edges, a, e) for e in edges}
        if min(P.values()) <= 0:
            return None
        a = {(i, j): -(floats[i][j] ** 2) / P[i, j] for i, j in edges}
    low = {e: Fraction(a[e]).limit_denominator(1 << 30) * Fraction(1025, 1024) for e in edges}
    for i, j in edges:
        P_low = _cavity(J, edges, low, (i, j))
        if P_low <= 0 or -(J[i][j] ** 2) / P_low < low[i, j]:
            return None
        slope = J[i][j] ** 2 / P_low**2
        if sum((slope * -low[k, t] for k, t in edges if t == i and k != j), Fraction(0)) >= -low[i, j]:
            return None
    return low


def _cavity(J: Any, edges: list[Edge], a: dict[Edge, Any], e: Edge) -> Any:
    i, j = e
    return J[i][i] + sum((a[k, t] for k, t in edges if t == i and k != j), 0 * J[i][i])


def _fixed_precisions(J: Any, edges: list[Edge], box: dict[Edge, Fraction]) -> dict[Edge, Any] | None:
    """Balls around the fixed point: F is increasing, so that F^t(L) <= a* <= F^t(0) for every t."""
    balls = [[ball(x) for x in row] for row in J]
    low, high = {e: ball(x) for e, x in box.items()}, {e: arb(0) for e in edges}
    for _ in range(MOST_SWEEPS):
        low = {(i, j): (-(balls[i][j] ** 2) / _cavity(balls, edges, low, (i, j))).lower() for i, j in edges}
        high = {(i, j): (-(balls[i][j] ** 2) / _cavity(balls, edges, high, (i, j))).upper() for i, j in edges}
        if all(high[e] - low[e] < arb(2) ** -300 for e in edges):
            return {e: low[e].union(high[e]) for e in edges}
    return None


def _limits(J: Any, h: Any, edges: list[Edge], a: dict[Edge, Any]) -> tuple[list[Any], list[Any]]:
    """Means and variances of the beliefs where the precisions are `a` and the informations at their fixed point."""
    balls, right = [[ball(x) for x in row] for row in J], [ball(x) for x in h]
    P = {e: _cavity(balls, edges, a, e) for e in edges}
    factor = {(i, j): -balls[i][j] / P[i, j] for i, j in edges}
    system = [
        [(1 if e == f else 0) - (factor[e] if f[1] == e[0] and f[0] != e[1] else 0) for f in edges] for e in edges
    ]
    solved = arb_mat(system).solve(arb_mat([[factor[e] * right[e[0]]] for e in edges])).entries()
    return beliefs(balls, right, edges, a, dict(zip(edges, solved, strict=True)))
