"""Trained weights, proved again: the whole transformer, with sums divided last, and descent of this checker's own."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.ngd.layers import Layer, ball
from certify.checker.cases.ngd.separation import apart, geometry, require_between, size
from certify.checker.cases.ngd.setting import THEOREM, Examples, examples, require_certified
from flint import arb, arb_mat, ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, agrees, number, proved

_MOST_BITS, _MOST_WORK = 1 << 12, 60_000_000


def _given(claim: Claim, context: Any) -> Examples:
    given = examples(context, claim["parameters"].get("context"))
    if not given.trained:
        raise Rejected("its context has no trained weights")
    return given


def check_structure(claim: Claim, context: Any) -> Finding:
    """Norms of what is left of both matrices, entry by entry."""
    given = _given(claim, context)
    statement = (
        f"Of the trained weights of context {given.name}, V differs from C1 [[0, 0], [I, 0]] by a share of its Frobenius "
        "norm from `low` to `high`, and W from -C2 [[0, I], [0, 0]] by one from `W_low` to `W_high`, where C1 from `C1_low` to "
        "`C1_high` and C2 from `C2_low` to `C2_high` are the means of the diagonals of these blocks."
    )
    names = [f"{name}{end}" for name in ("", "W_", "C1_", "C2_") for end in ("low", "high")]
    words = {"statement": statement, "theorem": f"{THEOREM}trained", "semantics": "real"}
    agrees(claim, context, id=f"enclosure/structure/{given.name}", parameters=("context",), bounds=names, **words)
    require_certified(claim)
    d, (V, W) = given.d, given.trained
    own: dict[str, Fraction] = {}
    for name, scalar, M, row, column, sign in (("", "C1", V, d, 0, 1), ("W_", "C2", W, 0, d, -1)):
        c = sign * sum((M[row + k][column + k] for k in range(d)), Fraction(0)) / d
        low, high = number(claim["bounds"][f"{scalar}_low"]), number(claim["bounds"][f"{scalar}_high"])
        if not low <= c <= high:
            raise Rejected(f"{scalar} is not between its bounds")
        rest = [
            [x - (sign * c if i - row == j - column and 0 <= i - row < d else 0) for j, x in enumerate(entries)]
            for i, entries in enumerate(M)
        ]
        whole, left = (sum((x * x for entries in A for x in entries), Fraction(0)) for A in (M, rest))
        if not whole:
            raise Rejected("a trained matrix is 0")
        with ctx.workprec(160):
            own |= require_between(claim, f"{name}low", f"{name}high", ball(left / whole).sqrt())
    return proved(claim, **own)


def check_trained(claim: Claim, context: Any) -> Finding:
    """Distances between directions, at a precision that is enough for the claimed ends."""
    given = _given(claim, context)
    known = ", and from `star_low` to `star_high` from theta*." if given.star else "."
    statement = (
        f"At context {given.name}, of unit vectors after {given.layers} layers, that along theta of the transformer with "
        "the trained weights is from `low` to `high` from that of descent with C1 and C2, and from `separator_low` to "
        "`separator_high` from the max-margin one" + known
    )
    goals = ["", "separator_", *(["star_"] if given.star else [])]
    bounds = [f"{name}{end}" for name in goals for end in ("low", "high")]
    words = {"statement": statement, "theorem": f"{THEOREM}trained", "semantics": "real"}
    id, parameters = f"enclosure/trained/{given.name}", ("context", "layers")
    agrees(claim, context, id=id, parameters=parameters, bounds=bounds, **words)
    require_certified(claim)
    if claim["parameters"]["layers"] != given.layers or not given.layers:
        raise Rejected("its layers are not those of the state")
    if given.layers * (given.n + 1) * given.n * 4 * given.d > _MOST_WORK:
        raise Beyond("so many layers are too much for this checker")
    separator = geometry(context, given).w
    bits = 320
    while bits <= _MOST_BITS:
        with ctx.workprec(bits):
            found = _distances(given, separator)
            if all(float(x.rad()) < 2.0**-64 for x in found.values()):
                own: dict[str, Fraction] = {}
                for name, distance in found.items():
                    own |= require_between(claim, f"{name}low", f"{name}high", distance)
                return proved(claim, **own)
        bits *= 2
    raise Beyond(f"{_MOST_BITS} bits are not enough")


def _distances(given: Examples, separator: list[Fraction]) -> dict[str, Any]:
    theta = _unit(_transformer(given))
    layer = Layer(given)
    other = [ball(x) for x in given.theta]
    for _ in range(given.layers):
        other = layer.descent(other, layer.C2, layer.C1)
    goals = {"": other, "separator_": [ball(x) for x in separator]}
    if given.star:
        goals["star_"] = [ball(x) for x in given.star]
    return {name: apart(_unit(goal).transpose(), theta) for name, goal in goals.items()}


def _unit(entries: list[Any]) -> arb_mat:
    """A column of norm 1."""
    column = arb_mat([[x] for x in entries])
    found: arb_mat = column * (1 / size(column))
    return found


def _transformer(given: Examples) -> list[Any]:
    """The bottom of the last column after all layers; columns as in the construction."""
    n, d = given.n, given.d
    V, W = (arb_mat([[ball(x) for x in row] for row in M]) for M in given.trained)
    columns = [[ball(x) for x in row] + [arb(0)] * d for row in given.Z] + [
        [arb(0)] * d + [ball(x) for x in given.theta]
    ]
    turned = arb_mat(columns)  # (n + 1, 2 d)
    for _ in range(given.layers):
        keys = arb_mat(turned.tolist()[:n])
        scores = (turned * W.transpose() * keys.transpose()).tolist()
        rows = []
        for row in scores:
            top = max(row, key=lambda x: float(x.mid())).mid()
            rows.append([(x - top).exp() for x in row])
        mixed = (arb_mat(rows) * keys).tolist()
        totals = [sum(row, arb(0)) for row in rows]
        averages = arb_mat([[x / t for x in row] for row, t in zip(mixed, totals, strict=True)])
        turned = turned + averages * V.transpose()
    found: list[Any] = turned.tolist()[n][d:]
    return found
