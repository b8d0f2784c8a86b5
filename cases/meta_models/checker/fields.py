"""Gaussian fields: belief maximizers, messages on trees and loops, and the iterations of attention on a convex field."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.meta_models.parts import (
    BITS,
    System,
    exact,
    fraction,
    numbers,
    positive_definite,
    real,
    require_positive,
    system_of,
    witness,
    words,
)
from flint import ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, number, proved, require_upper

MOST_VARIABLES = 40


def check_stationary(claim: Claim, context: Any) -> Finding:
    """The gradient at the witness, and the leading minors of the sum of the precisions."""
    s = system_of(claim, context)
    words(
        claim,
        s,
        f"At z of the witness the gradient of the sum of the quadratic log-messages of {s.name}, {which(s)}, is "
        "exactly 0, and the Hessian is negative definite: z is their precision-weighted mean.",
        topic="stationary",
    )
    H, m = messages_of(s)
    z = numbers(witness(claim, "z")[0], (len(m[0]),), "z")
    axes = range(len(z))
    gradient = [sum(A[a][b] * (x[b] - z[b]) for A, x in zip(H, m, strict=True) for b in axes) for a in axes]
    if any(gradient) or not positive_definite([[sum(A[a][b] for A in H) for b in axes] for a in axes]):
        raise Rejected("the gradient at its witness is not 0, or the precisions have no positive definite sum")
    return proved(claim)


def which(s: System) -> str:
    """Which messages a claim is about."""
    return "those that its mask keeps" if s.has("mask") else "all of them"


def messages_of(s: System) -> tuple[Any, Any]:
    """The precisions as matrices and the maximizers as vectors, of the messages that the mask keeps."""
    H, m = s.rows("H"), s.rows("m")
    mask = s.rows("mask") if s.has("mask") else [1] * len(m)
    axes, d = len(s.shape("H")), s.shape("m")[1:]
    if (axes, len(d)) not in ((1, 0), (3, 1)) or s.shape("H")[1:] != d * 2 or any(x not in (0, 1) for x in mask):
        raise Rejected(f"the shapes of {s.name} or its mask are not as they must be")
    kept = [k for k, x in enumerate(mask) if x]
    if axes == 1:
        return [[[H[k]]] for k in kept], [[m[k]] for k in kept]
    if any(A[i][j] != A[j][i] for A in H for i in range(d[0]) for j in range(d[0])):
        raise Rejected(f"a precision of {s.name} is not symmetric")
    return [H[k] for k in kept], [m[k] for k in kept]


def check_hull(claim: Claim, context: Any) -> Finding:
    """The mean against the ends."""
    s = system_of(claim, context)
    words(
        claim,
        s,
        f"The precision-weighted mean of the maximizers of {s.name}, {which(s)}, is at least `margin` above the "
        "smallest and below the largest of them.",
        topic="hull",
        bounds=("margin",),
    )
    H, m = messages_of(s)
    if len(s.shape("H")) != 1 or not H:
        raise Rejected("its messages are not of one variable")
    weights, places = [A[0][0] for A in H], [x[0] for x in m]
    if sum(weights) <= 0:
        raise Rejected("the sum of the precisions is not positive")
    z = sum(a * x for a, x in zip(weights, places, strict=True)) / sum(weights)
    margin = min(z - min(places), max(places) - z)
    if not margin > 0:
        raise Rejected("the mean is no inner point")
    require_positive(claim, margin)
    return proved(claim, margin=margin)


def field_of(s: System) -> tuple[Any, Any]:
    """J, positive definite, and h."""
    J, h = s.rows("J"), s.rows("h")
    if len(h) > MOST_VARIABLES:
        raise Beyond(f"{len(h)} variables are more than this checker takes")
    if not positive_definite(J):
        raise Rejected(f"J of {s.name} is not symmetric positive definite")
    return J, h


def weights_of(claim: Claim, n: int) -> Any:
    """v > 0 of a witness, none above 1."""
    v = numbers(witness(claim, "v")[0], (n,), "v")
    if any(not 0 < x <= 1 for x in v):
        raise Rejected("a weight of its witness is not in (0, 1]")
    return v


def contraction(A: Any, v: Any) -> Fraction:
    """The norm of A >= 0 from max |z_i| / v_i to itself."""
    image = (exact(A) * exact([[x] for x in v])).entries()
    norm: Fraction = max(fraction(y) / x for y, x in zip(image, v, strict=True))
    return norm


def jacobi(J: Any) -> Any:
    """|off-diagonal of J| over its diagonal."""
    return [[abs(x) / row[i] if i != j else Fraction(0) for j, x in enumerate(row)] for i, row in enumerate(J)]


def check_walk_summable(claim: Claim, context: Any) -> Finding:
    """|J| v against its diagonal times v."""
    s = system_of(claim, context)
    words(
        claim,
        s,
        f"For v > 0 of the witness and every i, the sum over j != i of |J_ij| v_j is at most q J_ii v_i in {s.name}, "
        "with q < 1: J is walk-summable, and the Jacobi iteration contracts by q in the norm max |z_i| / v_i.",
        topic="walk-summable",
        bounds=("q",),
    )
    J, h = field_of(s)
    q = contraction(jacobi(J), weights_of(claim, len(h)))
    require_below_one(claim, "q", q)
    return proved(claim, q=q)


def require_below_one(claim: Claim, name: str, own: Fraction) -> None:
    """A factor that is claimed is proved, and below 1."""
    require_upper(claim, name, own)
    if number(claim["bounds"][name]) >= 1:
        raise Rejected(f"{name} is not below 1")


def require_count(claim: Claim, name: str, q: Fraction, first: Fraction, tol: Fraction) -> None:
    """q^count first / (1 - q) <= tol."""
    count = number(claim["bounds"][name])
    if count.denominator != 1 or not 0 <= count <= 1_000_000 or q >= 1:
        raise Rejected(f"{name} is no count, or nothing contracts")
    with ctx.workprec(BITS):
        error = real(q) ** int(count) * real(first) / (1 - real(q))
        if not error <= real(tol):
            raise Rejected(f"after {name} updates only {float(error.mid()):.3g} is proved")


def check_jacobi(claim: Claim, context: Any) -> Finding:
    """The geometric series behind the count."""
    s = system_of(claim, context)
    digits = s.whole("digits", 200)
    words(
        claim,
        s,
        f"From z = 0, after `count` Jacobi iterations z_i <- (h_i - sum over j != i of J_ij z_j) / J_ii of {s.name} "
        f"and ever after, every z_i is within 10^-{digits} of (J^-1 h)_i.",
        topic="jacobi",
        given={"digits": digits},
        bounds=("count",),
    )
    J, h = field_of(s)
    v = weights_of(claim, len(h))
    first = max(abs(x / J[i][i]) / v[i] for i, x in enumerate(h))
    require_count(claim, "count", contraction(jacobi(J), v), first, Fraction(1, 10**digits))
    return proved(claim)


def neighbours(J: Any) -> list[list[int]]:
    """Of each variable."""
    return [[j for j, x in enumerate(row) if j != i and x] for i, row in enumerate(J)]


def check_tree(claim: Claim, context: Any) -> Finding:
    """Message passing in rationals, round by round; means and variances against J itself."""
    s, rounds = system_of(claim, context), claim["parameters"].get("rounds")
    words(
        claim,
        s,
        f"Gaussian belief propagation on the graph of {s.name}, which has no loops, from zero messages, gives "
        f"exactly the means and variances of the witness, which are J^-1 h and the diagonal of J^-1, after {rounds} "
        "rounds and no fewer.",
        topic="tree",
        given={"rounds": rounds},
    )
    J, h = field_of(s)
    near, n = neighbours(J), len(h)
    if type(rounds) is not int or not 0 <= rounds <= n or has_loops(near):
        raise Rejected("the graph has loops, or its rounds are too many")
    means, variances = (numbers(x, (n,), "a mean") for x in witness(claim, "means", "variances"))
    inverse = exact(J).inv()
    if exact(J) * exact([[x] for x in means]) != exact([[x] for x in h]) or any(
        fraction(inverse[i, i]) != x for i, x in enumerate(variances)
    ):
        raise Rejected("the means or variances of its witness are not those of J")
    inbox = [{k: (Fraction(0), Fraction(0)) for k in near[i]} for i in range(n)]
    for t in range(rounds + 1):
        P = [J[i][i] + sum(a for a, _ in inbox[i].values()) for i in range(n)]
        b = [h[i] + sum(x for _, x in inbox[i].values()) for i in range(n)]
        there = all(p * x == y and p * w == 1 for p, y, x, w in zip(P, b, means, variances, strict=True))
        if there != (t == rounds):
            raise Rejected(f"after {t} rounds the beliefs {'are exact already' if there else 'are not exact'}")
        # what i tells j: all it knows but for what j told it
        inbox = [
            {
                i: (
                    -(J[i][j] ** 2) / (P[i] - inbox[i][j][0]),
                    -J[i][j] * (b[i] - inbox[i][j][1]) / (P[i] - inbox[i][j][0]),
                )
                for i in near[j]
            }
            for j in range(n)
        ]
    return proved(claim)


def has_loops(near: list[list[int]]) -> bool:
    """Whether a variable is reached again on a walk that never turns back."""
    met: set[int] = set()
    for root in range(len(near)):
        left = [] if root in met else [(root, -1)]
        while left:
            i, before = left.pop()
            if i in met:
                return True
            met.add(i)
            left += [(j, i) for j in near[i] if j != before]
    return False


CHECKS = {
    "identity/stationary": check_stationary,
    "margin/hull": check_hull,
    "contraction/walk-summable": check_walk_summable,
    "updates/jacobi": check_jacobi,
    "identity/tree": check_tree,
}
