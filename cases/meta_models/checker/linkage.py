"""The order of single-linkage merges on cosine similarities."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.meta_models.parts import (
    BITS,
    lower,
    real,
    require_positive,
    system_of,
    upper,
    witness,
    words,
)
from certify.checker.cases.meta_models.programs import errors_of, largest_gap, rests_on
from flint import ctx

from certify.checker.document import (
    Beyond,
    Claim,
    Finding,
    Rejected,
    proved,
)


def similarity(a: list[Fraction], b: list[Fraction]) -> Fraction:
    """sign * cos^2, which orders as the cosine."""
    p, size, other = (
        sum((x * y for x, y in zip(*pair, strict=True)), Fraction(0)) for pair in ((a, b), (a, a), (b, b))
    )
    return p * abs(p) / (size * other)


def check_merges(claim: Claim, context: Any) -> Finding:
    """The merges of the witness, one by one, each against every other pair of clusters at that time."""
    s, format = system_of(claim, context), claim["parameters"].get("format")
    z = s.rows("z")
    order = f"Single linkage by cosine similarity merges the vectors of {s.name} in the order of the witness"
    if not 2 <= len(z) <= 60 or not all(any(row) for row in z):
        raise Beyond("so many vectors, or a vector 0, are more than this checker takes")
    if format is None:
        words(
            claim,
            s,
            f"{order}; at each merge the similarity of the two clusters exceeds that of every other two by at least "
            "`gap`.",
            topic="merges",
            bounds=("gap",),
        )
        off: dict[tuple[int, int], Fraction] = {}
    else:
        source, _ = rests_on(claim, s, "S")
        words(
            claim,
            s,
            f"{order}, when the similarities are computed by the kernel in {format}, as {source['id']} says; at each "
            "merge the exact similarity of the two clusters less its running error bound exceeds that of every "
            "other two plus theirs by at least `gap`.",
            topic="merges",
            more=str(format),
            given={"format": format, "rounding": source["id"]},
            bounds=("gap",),
            semantics=claim["semantics"],
        )
        there, n = largest_gap([cosine(similarity(a, b)) for a in z for b in z], s, "S"), len(z)
        errors = errors_of(source, s, "S")
        off = {(i, j): max(errors[i * n + j], errors[j * n + i]) + there for j in range(n) for i in range(j)}
    gap = gap_of(z, witness(claim, "merges")[0], off)
    require_positive(claim, gap, "gap")
    return proved(claim, gap=gap)


def gap_of(z: list[list[Fraction]], merges: Any, off: dict[tuple[int, int], Fraction]) -> Fraction:
    """The least advantage of a merge, where similarities may be `off`; clusters are labels, their least indices."""
    n = len(z)
    if not isinstance(merges, list) or len(merges) != n - 1:
        raise Rejected(f"its witness does not have {n - 1} merges")
    pairs = [(similarity(z[i], z[j]), i, j) for j in range(n) for i in range(j)]
    ends = {}
    for k, i, j in pairs:
        with ctx.workprec(BITS):
            ends[i, j] = lower(cosine(k)) - off.get((i, j), 0), upper(cosine(k)) + off.get((i, j), 0)
    label, least = list(range(n)), Fraction(2)
    for merge in merges:
        open_pairs = [(k, i, j) for k, i, j in pairs if label[i] != label[j]]
        _, i, j = max(open_pairs)
        best = {label[i], label[j]}
        if merge != sorted(best):
            raise Rejected("another two clusters are more similar than those of its witness")
        mine = [ends[i, j][0] for _, i, j in open_pairs if {label[i], label[j]} == best]
        others = [ends[i, j][1] for _, i, j in open_pairs if {label[i], label[j]} != best]
        least = min(least, max(mine) - max(others)) if others else least
        label = [min(best) if x in best else x for x in label]
    return least


def cosine(k: Fraction) -> Any:
    """The cosine whose signed square this is."""
    with ctx.workprec(BITS):
        return real(k).sqrt() if k > 0 else -real(-k).sqrt()


CHECKS = {
    "order/merges": check_merges,
}
