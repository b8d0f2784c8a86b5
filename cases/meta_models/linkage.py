"""Single linkage on cosine similarities (equation (35)): the exact order of merges, and whether rounding can change it.

Proof: README, section merges.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb, ctx

from certify.certificate import Claim, parse
from certify.errors import InputRejected

from .inputs import Instance
from .wording import BITS, LEAST_RADIUS, at_least, ball, claim, floor_to, low_of

MOST_VECTORS = 60


def linkage_claims(instance: Instance, rounding: dict[str, Claim]) -> list[Claim]:
    """Of the system `linkage`: the order exactly, and in every format whose rounding claim is given."""
    z = instance.array("z").tolist()
    if not 2 <= len(z) <= MOST_VECTORS or any(not any(row) for row in z):
        raise InputRejected(
            f"tensor {instance.name}_z has a zero row, or not 2 to {MOST_VECTORS} rows",
            "cosines need rows that are not 0",
        )
    merged = merges(z)
    gap = low_of(_gap(z, merged)) if merged else Fraction(0)
    order = f"Single linkage by cosine similarity merges the vectors of {instance.name} in the order of the witness"
    claims = [
        claim(
            "order",
            "merges",
            instance.name,
            f"{order}; at each merge the similarity of the two clusters exceeds that of every other two by at least "
            "`gap`.",
            verdict=bool(merged),
            reason="two merges tie exactly",
            bounds={"gap": at_least(gap)},
            witness={"merges": [list(pair) for pair in merged]},
        )
    ]
    for format, source in rounding.items():
        eps = parse(source.bounds["eps_S"]) if "eps_S" in source.bounds else None
        safe = bool(merged) and eps is not None and 2 * eps < gap
        short = "the format is not proved to hold the similarities"
        claims.append(
            claim(
                "order",
                "merges",
                instance.name,
                f"{order}, when the similarities are computed by the kernel in {format}, as {source.id} says; what "
                "the exact ones differ by exceeds twice its error by at least `gap`.",
                more=format,
                semantics=source.semantics,
                verdict=safe,
                reason=short
                if eps is None
                else f"rounding may flip a merge: the gap {float(gap):.3g} is below twice the error {float(eps):.3g}",
                parameters={"format": format, "rounding": source.id},
                bounds={"gap": at_least(floor_to(gap - 2 * eps - 2 * LEAST_RADIUS, 80))}
                if safe and eps is not None
                else {},
                witness={"merges": [list(pair) for pair in merged]},
            )
        )
    return claims


def key(a: list[Fraction], b: list[Fraction]) -> Fraction:
    """The cosine times its magnitude, which is rational and orders as the cosine does."""
    p = _dot(a, b)
    return p * abs(p) / (_dot(a, a) * _dot(b, b))


def merges(z: list[list[Fraction]]) -> list[tuple[int, int]]:
    """The merges in order, each by the least indices of its two clusters; empty if two different merges tie."""
    clusters, found = [[i] for i in range(len(z))], []
    keys = {(i, j): key(z[i], z[j]) for j in range(len(z)) for i in range(j)}
    while len(clusters) > 1:
        pairs = sorted(
            (
                (max(keys[min(i, j), max(i, j)] for i in a for j in b), a, b)
                for k, b in enumerate(clusters)
                for a in clusters[:k]
            ),
            key=lambda x: -x[0],
        )
        if len(pairs) > 1 and pairs[0][0] == pairs[1][0]:
            return []
        _, a, b = pairs[0]
        found.append((min(a[0], b[0]), max(a[0], b[0])))
        clusters = [c for c in clusters if c not in (a, b)] + [sorted(a + b)]
    return found


def _gap(z: list[list[Fraction]], order: list[tuple[int, int]]) -> Any:
    """The least difference of cosines between a merge and the next best at that time; 2 if there never is another."""
    clusters, least = [[i] for i in range(len(z))], arb(2)
    with ctx.workprec(BITS):
        for i, j in order:
            similar = {
                (a[0], b[0]): max(key(z[s], z[t]) for s in a for t in b)
                for a in clusters
                for b in clusters
                if a[0] < b[0]
            }
            best = _root(similar.pop((i, j)))
            if similar:
                least = min(least, best - _root(max(similar.values())), key=low_of)
            joined = sorted(x for c in clusters if c[0] in (i, j) for x in c)
            clusters = [c for c in clusters if c[0] not in (i, j)] + [joined]
        return least


def _root(k: Fraction) -> Any:
    return ball(k).sqrt() if k >= 0 else -ball(-k).sqrt()


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
