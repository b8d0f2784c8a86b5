"""The averaged gradient of the whole model, made again: entry by entry, by first-order power series through the layer."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

from certify.checker.cases.ngd.layers import ball, exact
from certify.checker.cases.ngd.setting import THEOREM, Examples, examples, require_certified
from flint import arb, arb_series, ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, agrees, number, proved, require_upper

_BITS, _MOST = 288, 40


def _loss(Z: list[Any], theta: list[Any], V: Any, scores: list[Any]) -> Any:
    """|theta_1 - theta_GD|^2 for these scores of the keys; `V` gives row r of V times the top block of a key."""
    n, d = len(Z), len(theta)
    e = [s.exp() for s in scores]
    total = sum(e[1:], e[0])
    taught = [(-sum((x * t for x, t in zip(row, theta, strict=True)), arb(0))).exp() / n for row in Z]
    loss = arb_series([0], 2)
    for r in range(d):
        out = sum((e[i] * V(r, Z[i]) for i in range(1, n)), e[0] * V(r, Z[0])) / total
        rest = out - sum((t * row[r] for t, row in zip(taught, Z, strict=True)), arb(0))
        loss += rest * rest
    return loss


class Turned:
    """The context after a signed permutation of its coordinates."""

    def __init__(self, given: Examples, order: tuple[int, ...], signs: tuple[int, ...]) -> None:
        self.d = given.d
        turn = list(zip(order, signs, strict=True))
        self.Z = [[ball(row[c] * s) for c, s in turn] for row in given.Z]
        self.theta = [ball(given.theta[c] * s) for c, s in turn]
        self.C1 = ball(given.C1)
        self.dots = [sum((x * t for x, t in zip(row, self.theta, strict=True)), arb(0)) for row in self.Z]
        self.scores = [-ball(given.C2) * x for x in self.dots]

    def in_V(self, row: int, column: int) -> Any:
        """The derivative in V[row, column]: keys have a bottom block 0, and only the bottom rows of the output count."""
        if row < self.d or column >= self.d:
            return arb(0)
        scores = [arb_series([s], 2) for s in self.scores]

        def value(r: int, key: list[Any]) -> Any:
            return arb_series([self.C1 * key[r], key[column] if r == row - self.d else 0], 2)

        return _loss(self.Z, self.theta, value, scores)[1]

    def in_W(self, row: int, column: int) -> Any:
        """The derivative in W[row, column], which multiplies entry `row` of a key and `column` of the query (0; theta)."""
        if row >= self.d or column < self.d:
            return arb(0)
        at = self.theta[column - self.d]
        scores = [arb_series([s, key[row] * at], 2) for s, key in zip(self.scores, self.Z, strict=True)]
        return _loss(self.Z, self.theta, lambda r, key: arb_series([self.C1 * key[r]], 2), scores)[1]

    def in_scalars(self) -> tuple[Any, Any]:
        """The derivatives in C1 and C2."""
        still = [arb_series([s], 2) for s in self.scores]
        first = _loss(self.Z, self.theta, lambda r, key: arb_series([self.C1 * key[r], key[r]], 2), still)
        moving = [arb_series([s, -x], 2) for s, x in zip(self.scores, self.dots, strict=True)]
        second = _loss(self.Z, self.theta, lambda r, key: arb_series([self.C1 * key[r]], 2), moving)
        return first[1], second[1]


def check_lemma(claim: Claim, context: Any) -> Finding:
    """Every entry of both averages, against the derivatives in the two scalars."""
    given = examples(context, claim["parameters"].get("context"))
    d = given.d
    statement = (
        f"At context {given.name}, the gradients in V and W of the squared distance to a teacher of rate 1, averaged over "
        "the context turned by all signed permutations of its coordinates, are "
        f"(dC1/{d}) [[0, 0], [I, 0]] and -(dC2/{d}) [[0, I], [0, 0]] for the gradient (dC1, dC2) of the loss "
        "of two scalars: the enclosures of all differences contain 0 and reach at most `radius` from it; this alone is no "
        "proof of equality."
    )
    words = {"statement": statement, "theorem": f"{THEOREM}lemma", "semantics": "real"}
    agrees(claim, context, id=f"identity/lemma/{given.name}", parameters=("context",), bounds=("radius",), **words)
    require_certified(claim)
    if d > 3 or given.n * d > _MOST:
        raise Beyond("the group is too large for this checker")
    with ctx.workprec(_BITS):
        group = [
            Turned(given, order, signs) for order in permutations(range(d)) for signs in product((1, -1), repeat=d)
        ]
        first, second = group[0].in_scalars()
        worst = number("0")
        for row, column in product(range(2 * d), repeat=2):
            wanted = (first / d if row == column + d else arb(0), -second / d if column == row + d else arb(0))
            found = [
                sum((x.in_V(row, column) for x in group), arb(0)),
                sum((x.in_W(row, column) for x in group), arb(0)),
            ]
            for a, b in zip(found, wanted, strict=True):
                difference = a / len(group) - b
                if not difference.contains(0):
                    raise Rejected("an enclosure of a difference excludes 0")
                worst = max(worst, exact(abs(difference).upper()))
    require_upper(claim, "radius", worst)
    return proved(claim, radius=worst)
