"""Single linkage on cosine similarities (equation (35)): the exact order of merges, and whether rounding can change it.

Proof: README, section merges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from flint import arb, ctx

from certify.certificate import Claim, to_text
from certify.errors import InputRejected

from .inputs import Instance
from .wording import BITS, LEAST_RADIUS, at_least, ball, claim, floor_to, high_of, low_of

MOST_VECTORS = 60


def linkage_claims(
    instance: Instance, rounding: dict[str, Claim], errors: Mapping[str, Sequence[float]]
) -> list[Claim]:
    """Of the system `linkage`: the order exactly, and in every format whose rounding claim is given.

    `errors` has the bound of each similarity in a format, row by row, unless an overflow is not excluded.
    """
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
        found = Fraction(0)
        if merged and format in errors:
            found = floor_to(low_of(_gap(z, merged, _both(errors[format], len(z)))) - 2 * LEAST_RADIUS, 240)
        claims.append(
            claim(
                "order",
                "merges",
                instance.name,
                f"{order}, when the similarities are computed by the kernel in {format}, as {source.id} says; at "
                "each merge the exact similarity of the two clusters less its running error bound exceeds that of "
                "every other two plus theirs by at least `gap`.",
                more=format,
                semantics=source.semantics,
                verdict=found > 0,
                reason=f"rounding may flip a merge: where the gap is {float(gap):.3g} the bounds leave {float(found):.3g}"
                if found
                else "two merges tie, or the format is not proved to hold the similarities",
                parameters={"format": format, "rounding": source.id},
                bounds={"gap": to_text(found)},
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


def _both(errors: Sequence[float], n: int) -> dict[tuple[int, int], Fraction]:
    """Of each pair the larger bound of its two similarities."""
    return {(i, j): Fraction(max(errors[i * n + j], errors[j * n + i])) for j in range(n) for i in range(j)}


def _gap(
    z: list[list[Fraction]], order: list[tuple[int, int]], errors: dict[tuple[int, int], Fraction] | None = None
) -> Any:
    """The least difference of cosines between a merge and the next best at that time; 2 if there never is another.

    With errors the merge counts for the best of its pairs less their errors, and the others for the best of theirs plus these.
    """
    clusters, least = [[i] for i in range(len(z))], arb(2)
    with ctx.workprec(BITS):
        cosines = {(i, j): _root(key(z[i], z[j])) for j in range(len(z)) for i in range(j)}
        off = errors or dict.fromkeys(cosines, Fraction(0))
        for a, b in order:
            place = {x: c[0] for c in clusters for x in c}
            mine = {pair for pair in cosines if {place[x] for x in pair} == {a, b}}
            others = [x + ball(off[p]) for p, x in cosines.items() if p not in mine and place[p[0]] != place[p[1]]]
            best = max((cosines[p] - ball(off[p]) for p in mine), key=low_of)
            if others:
                least = min(least, best - max(others, key=high_of), key=low_of)
            joined = sorted(x for c in clusters if c[0] in (a, b) for x in c)
            clusters = [c for c in clusters if c[0] not in (a, b)] + [joined]
        return least


def _root(k: Fraction) -> Any:
    return ball(k).sqrt() if k >= 0 else -ball(-k).sqrt()


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
