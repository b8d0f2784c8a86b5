"""Lemma 4.4 in symbols: the blocks of the gradient, averaged over signed permutations, are multiples of I (C11).

For theta_1 - theta_GD = r, mean g = sum p_i z_i and scores with derivatives ds_i, the blocks are 2 r g^T and
sum_i ds_i z_i theta^T (README.md#lemma). All are quotients of polynomials in z, theta, C1, C2 and exponentials, with n D^2 and
n D^3 below, D = sum e_i.
"""

from __future__ import annotations

from typing import Any

from certify.cases.ngd.claims import certified, undecided
from certify.cases.ngd.lemma import signed_permutations
from certify.cases.ngd.symbols import Matrix, Poly, Ring

from certify.certificate import Claim

#: Contexts of at most so many examples are averaged in symbols: seconds.
MOST_EXAMPLES = 6


def _blocks(ring: Ring, Z: Matrix, theta: list[Poly]) -> tuple[Matrix, Matrix, Poly, Poly]:
    """Numerators of both blocks, and of the derivatives in C1 and C2, over n D^2 and n D^3 in turn."""
    n, columns, zero = ring.n, range(ring.d), ring.zero
    dots = [sum((x * t for x, t in zip(row, theta, strict=True)), zero) for row in Z]
    e, f = [ring.exp(-ring.C2 * s) for s in dots], [ring.exp(-s) for s in dots]
    D = sum(e, zero)
    S = [sum((a * row[k] for a, row in zip(e, Z, strict=True)), zero) for k in columns]
    taught = [sum((a * row[k] for a, row in zip(f, Z, strict=True)), zero) for k in columns]
    R = [n * ring.C1 * S[k] - D * taught[k] for k in columns]
    in_V = [[2 * R[a] * S[b] for b in columns] for a in columns]
    ds = [2 * ring.C1 * e[i] * sum((R[k] * (Z[i][k] * D - S[k]) for k in columns), zero) for i in range(n)]
    in_W = [[sum((ds[i] * Z[i][a] for i in range(n)), zero) * theta[b] for b in columns] for a in columns]
    mixed = sum((a * s for a, s in zip(e, dots, strict=True)), zero)
    moved = [sum((e[i] * (dots[i] * D - mixed) * Z[i][k] for i in range(n)), zero) for k in columns]
    first = sum((2 * R[k] * S[k] for k in columns), zero)
    second = -2 * ring.C1 * sum((R[k] * moved[k] for k in columns), zero)
    return in_V, in_W, first, second


def averages_are_multiples(n: int, d: int) -> bool:
    """Whether the averages are dC1/d I and -dC2/d I, for all real numbers."""
    ring = Ring(n, d, 2 * n)
    *_, first, second = _blocks(ring, ring.Z, ring.theta)
    sums: list[Any] = [[[ring.zero] * d for _ in range(d)] for _ in range(2)]
    count = 0
    for turn in signed_permutations(d):
        Z = [[sign * row[column] for column, sign in turn] for row in ring.Z]
        blocks = _blocks(ring, Z, [sign * ring.theta[column] for column, sign in turn])
        sums = [
            [[x + y for x, y in zip(*rows, strict=True)] for rows in zip(s, b, strict=True)]
            for s, b in zip(sums, blocks, strict=False)
        ]
        count += 1
    wanted = (first, -second)
    return all(
        sums[m][a][b] * d == (wanted[m] * count if a == b else ring.zero)
        for m in range(2)
        for a in range(d)
        for b in range(d)
    )


def average_claim(n: int, d: int) -> Claim:
    """The identity for contexts of n examples in d dimensions."""
    statement = (
        f"For all real numbers in a context of n = {n} examples in d = {d} dimensions, the blocks 2 r g^T and "
        "sum_i ds_i z_i theta^T of the gradient in V and W, averaged over the context turned by all signed permutations, are "
        "dC1/d I and -dC2/d I, for the gradient (dC1, dC2) of the loss of two scalars."
    )
    id, parameters = f"identity/average/n={n},d={d}", {"n": n, "d": d}
    if not averages_are_multiples(n, d):
        return undecided(id, statement, "lemma", "the rational functions differ", parameters=parameters)
    return certified(id, statement, "lemma", parameters=parameters)
