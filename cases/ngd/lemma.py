"""The gradient of the whole model, averaged over signed permutations: it keeps the structure of two scalars (C11)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any

from certify.cases.ngd.balls import RADIUS, upper, weights
from certify.cases.ngd.claims import certified, undecided
from certify.cases.ngd.state import Context
from flint import arb, arb_mat, ctx

from certify.certificate import Claim, decimal_up, to_text

#: 2^d d! members of the group: 48 in three dimensions.
MOST_DIMENSIONS = 3
_BITS = 256


def signed_permutations(d: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """All of them: for every row its column and sign."""
    for order in permutations(range(d)):
        for signs in product((1, -1), repeat=d):
            yield tuple(zip(order, signs, strict=True))


def gradients(Z: list[list[Any]], theta: list[Any], V: arb_mat, W: arb_mat) -> tuple[arb_mat, arb_mat]:
    """The gradients in V and W of |theta_1 - theta_GD|^2 for a teacher of rate 1, by the chain rule in full matrices.

    With keys H (2 d, n), query h = (0; theta), scores s = H^T W h, p = softmax(s) and output h + V H p: for the residual r, the
    gradient in V is 2 r (H p)^T, and in W it is H ds h^T with ds = 2 p * (H^T V^T r - <p, H^T V^T r>).
    """
    n, d = len(Z), len(theta)
    H = arb_mat([[Z[i][k] for i in range(n)] for k in range(d)] + [[arb(0)] * n for _ in range(d)])
    h = arb_mat([[arb(0)] for _ in range(d)] + [[x] for x in theta])
    s = (H.transpose() * W * h).entries()
    e = [x.exp() for x in s]
    total = sum(e, arb(0))
    p = [x / total for x in e]
    mixed = H * arb_mat([[x] for x in p])
    taught = [(-sum((a * b for a, b in zip(row, theta, strict=True)), arb(0))).exp() / n for row in Z]
    step = [sum((t * row[k] for t, row in zip(taught, Z, strict=True)), arb(0)) for k in range(d)]
    out = V * mixed
    residual = arb_mat([[arb(0)] for _ in range(d)] + [[out[d + k, 0] - step[k]] for k in range(d)])
    back = (H.transpose() * (V.transpose() * residual)).entries()
    mean = sum((a * b for a, b in zip(p, back, strict=True)), arb(0))
    ds = arb_mat([[2 * a * (b - mean)] for a, b in zip(p, back, strict=True)])
    return residual * mixed.transpose() * 2, H * ds * h.transpose()


def proxy_gradient(context: Context) -> tuple[Any, Any]:
    """The gradient in (C1, C2) of |C1 sum p_i z_i - (1/n) sum e^{-<z_i, theta>} z_i|^2, p = softmax(-C2 <z_i, theta>)."""
    d, Z = context.d, [[arb(x) for x in row] for row in context.Z]
    s = [arb(sum(x * y for x, y in zip(row, context.theta, strict=True))) for row in context.Z]
    e = [(-arb(context.C2) * x).exp() for x in s]
    mass = sum(e, arb(0))
    m = sum((a * b for a, b in zip(e, s, strict=True)), arb(0)) / mass
    U = [sum((a * row[k] for a, row in zip(e, Z, strict=True)), arb(0)) / mass for k in range(d)]
    turned = zip(e, s, Z, strict=True)
    parts = [[a * (b - m) * row[k] for k in range(d)] for a, b, row in turned]
    dU = [-sum((part[k] for part in parts), arb(0)) / mass for k in range(d)]
    G = [sum(((-x).exp() * row[k] for x, row in zip(s, Z, strict=True)), arb(0)) / context.n for k in range(d)]
    rest = [arb(context.C1) * a - b for a, b in zip(U, G, strict=True)]
    dots = [sum((a * b for a, b in zip(x, rest, strict=True)), arb(0)) for x in (U, dU)]
    return 2 * dots[0], 2 * arb(context.C1) * dots[1]


def deviations(context: Context) -> list[Any]:
    """Every entry of both averaged gradients, minus what the two scalars give: d L/d C1 / d and -d L/d C2 / d on the blocks."""
    d = context.d
    V, W = weights(context)
    sums = [arb_mat(2 * d, 2 * d), arb_mat(2 * d, 2 * d)]
    group = list(signed_permutations(d))
    for turn in group:
        Z = [[sign * arb(row[column]) for column, sign in turn] for row in context.Z]
        theta = [sign * arb(context.theta[column]) for column, sign in turn]
        sums = [a + b for a, b in zip(sums, gradients(Z, theta, V, W), strict=True)]
    first, second = proxy_gradient(context)
    wanted = [arb_mat(2 * d, 2 * d), arb_mat(2 * d, 2 * d)]
    for k in range(d):
        wanted[0][d + k, k], wanted[1][k, d + k] = first / d, -second / d
    return [x for a, b in zip(sums, wanted, strict=True) for x in (a * (arb(1) / len(group)) - b).entries()]


def lemma_claim(context: Context) -> Claim:
    """The structure of the averaged gradient at one context."""
    statement = (
        f"At context {context.name}, the gradients in V and W of the squared distance to a teacher of rate 1, averaged over "
        "the context turned by all signed permutations of its coordinates, are "
        f"(dC1/{context.d}) [[0, 0], [I, 0]] and -(dC2/{context.d}) [[0, I], [0, 0]] for the gradient (dC1, dC2) of the loss "
        "of two scalars: the enclosures of all differences contain 0 and reach at most `radius` from it; this alone is no "
        "proof of equality."
    )
    id, parameters = f"identity/lemma/{context.name}", {"context": context.name}
    with ctx.workprec(_BITS):
        found = deviations(context)
        reached = max((upper(abs(x)) for x in found), default=Fraction(0))
    if not all(x.contains(0) for x in found) or reached > RADIUS:
        reason = "an enclosure excludes 0, or is too wide"
        return undecided(id, statement, "lemma", reason, parameters=parameters)
    bounds, display = {"radius": to_text(RADIUS)}, {"reached": decimal_up(reached)}
    return certified(id, statement, "lemma", parameters=parameters, bounds=bounds, display=display)
