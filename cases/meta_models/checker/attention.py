"""Attention on a few tokens, by both published scales and exactly, and its anchored iteration."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.meta_models.fields import require_below_one, require_count
from certify.checker.cases.meta_models.parts import (
    BITS,
    System,
    apply,
    lower,
    numbers,
    real,
    require_positive,
    size,
    square,
    system_of,
    total,
    upper,
    witness,
    words,
)
from flint import arb, ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, number, proved, require_lower, require_upper

SCALES = {"eq13": "as in equation (13), exp(q_i . k_j)", "eq27": "as in equation (27), exp(q_i . k_j / sqrt d)"}
MOST_ENTRIES, MOST_STEPS, MOST_SYMBOLS = 20_000, 6000, 400


def tokens(s: System) -> tuple[Any, Any]:
    """The scores q_i . k_j and the values v_j."""
    if size(s.shape("z")) * s.shape("z")[0] > MOST_ENTRIES:
        raise Beyond("that many tokens are more than this checker takes")
    z = s.rows("z")
    Q, K, V = ([apply(s.rows(name), x) for x in z] for name in ("Wq", "Wk", "Wv"))
    return [[sum(a * b for a, b in zip(q, k, strict=True)) for k in K] for q in Q], V


def rows_of(s: System, scale: str) -> tuple[list[list[Any]], Any]:
    """The weights and values of attention, in balls: a weight is 1 over the sum of exp of differences of scores."""
    scores, V = tokens(s)
    by = 1 / arb(s.shape("z")[1]).sqrt() if scale == "eq27" else arb(1)
    return [[1 / total((real(y - x) * by).exp() for y in row) for x in row] for row in scores], V


def attended(s: System, scale: str) -> list[list[Any]]:
    """Softmax attention, in balls."""
    rows, V = rows_of(s, scale)
    return [
        [total(w * real(v) for w, v in zip(row, column, strict=True)) for column in zip(*V, strict=True)]
        for row in rows
    ]


def check_attention_enclosure(claim: Claim, context: Any) -> Finding:
    """One entry against its interval."""
    s, scale = system_of(claim, context), claim["parameters"].get("scale")
    entry = claim["parameters"].get("entry")
    n, d = s.shape("z")
    if not isinstance(scale, str) or scale not in SCALES or entry not in [[i, k] for i in range(n) for k in range(d)]:
        raise Rejected("its scale is that of no equation, or its entry none")
    i, k = entry
    words(
        claim,
        s,
        f"Entry ({i}, {k}) of softmax attention on the tokens of {s.name}, with weights {SCALES[scale]}, lies in "
        "[low, high].",
        topic="attention",
        more=f"{scale}/entry={i},{k}",
        given={"scale": scale, "entry": entry},
        bounds=("low", "high"),
    )
    with ctx.workprec(BITS):
        found = context.cached(("attended", s.name, scale), lambda: attended(s, scale))[i][k]
        low, high = lower(found), upper(found)
    require_lower(claim, "low", low)
    require_upper(claim, "high", high)
    return proved(claim, low=low, high=high)


def check_attention_margin(claim: Claim, context: Any) -> Finding:
    """The largest difference between the two scales, or the least weight."""
    s = system_of(claim, context)
    weights = claim["id"].split("/")[1] == "attention-weights"
    words(
        claim,
        s,
        f"Every weight of softmax attention on the tokens of {s.name} by equation (27) is at least `margin` > 0: no "
        "score removes an edge of the graph, which only a mask does."
        if weights
        else f"Softmax attention on the tokens of {s.name} by equation (13), without 1 / sqrt d, and by equation "
        "(27), with it, differ by at least `margin` in some entry.",
        topic="attention-weights" if weights else "attention",
        bounds=("margin",),
    )
    with ctx.workprec(BITS):
        if weights:
            margin = min(lower(w) for row in rows_of(s, "eq27")[0] for w in row)
        else:
            both = zip(attended(s, "eq13"), attended(s, "eq27"), strict=True)
            margin = max(lower(abs(x - y)) for a, b in both for x, y in zip(a, b, strict=True))
    require_positive(claim, margin)
    return proved(claim, margin=margin)


def check_attention_exact(claim: Claim, context: Any) -> Finding:
    """Rows of powers of two, and the means under them."""
    s = system_of(claim, context)
    words(
        claim,
        s,
        f"With powers of 2 for exp, each row of attention on the tokens of {s.name} is exactly the law of the "
        "witness, and the mean of the values under it exactly its output.",
        topic="attention",
    )
    scores, V = tokens(s)
    n = len(scores)
    rows, output = witness(claim, "rows", "output")
    for row, law, mean in zip(
        scores, numbers(rows, (n, n), "a row"), numbers(output, s.shape("z"), "the output"), strict=True
    ):
        if any(x.denominator != 1 or abs(x) > 1000 for x in row):
            raise Rejected("a score is not a whole number")
        # a law with weights in the ratios 2^(difference of scores)
        ratios = all(w == law[0] * Fraction(2) ** int(x - row[0]) for w, x in zip(law, row, strict=True))
        if not ratios or sum(law) != 1 or mean != apply(list(zip(*V, strict=True)), law):
            raise Rejected("a row or an output of its witness is not exact")
    return proved(claim)


class Anchor:
    """z <- w Att(z) + (1 - w) e on |z_i| <= bound, with Att_i = sum_j softmax_j(beta z_i z_j) z_j."""

    def __init__(self, s: System) -> None:
        self.s, self.e = s, s.rows("e")
        self.w, self.beta, self.R = (s.number(part) for part in ("weight", "beta", "bound"))
        if not 0 < self.w < 1 or self.beta < 0 or max(map(abs, self.e)) > self.R:
            raise Rejected(f"the numbers of {s.name} are not as they must be")
        self.q = self.w * (1 + 2 * self.beta * self.R**2)
        self.rule = f"z <- w Att(z) + (1 - w) e of {s.name}"

    def weights(self, z: list[Any], i: int) -> list[Any]:
        """Row i of the attention matrix."""
        n, scale = range(len(z)), real(self.beta) * z[i]
        # the score of an entry against itself is no difference of two balls, but 0
        return [1 / (1 + total((scale * (z[k] - z[j])).exp() for k in n if k != j)) for j in n]

    def step(self, z: list[Any]) -> list[Any]:
        """One iteration, in balls."""
        means = [total(a * x for a, x in zip(self.weights(z, i), z, strict=True)) for i in range(len(z))]
        return [real(self.w) * m + real((1 - self.w) * x) for m, x in zip(means, self.e, strict=True)]

    def slope(self, z: list[Any]) -> Fraction:
        """A bound of the row sums of the Jacobian: of Att_i by z_k, A_ik (1 + beta z_i (z_k - Att_i)) + [i=k] beta Var."""
        most = Fraction(0)
        for i in range(len(z)):
            A = self.weights(z, i)
            mean = total(a * x for a, x in zip(A, z, strict=True))
            spread = total(a * square(x - mean) for a, x in zip(A, z, strict=True))
            rows = [
                A[k] * (1 + real(self.beta) * z[i] * (z[k] - mean)) + (real(self.beta) * spread if k == i else 0)
                for k in range(len(z))
            ]
            row = total(abs(x) for x in rows)
            if not row.is_finite():
                return self.q
            most = max(most, upper(row) * self.w)
        return min(most, self.q)

    def distance(self, z: list[Fraction]) -> Fraction:
        """How far a point of the box can be from the fixed point, by Banach's theorem."""
        if max(map(abs, z)) > self.R or self.q >= 1:
            raise Rejected("its witness lies outside the box, or nothing contracts")
        at = [real(x) for x in z]
        return max(upper(abs(x - y)) for x, y in zip(self.step(at), at, strict=True)) / (1 - self.q)


def check_anchor(claim: Claim, context: Any) -> Finding:
    """The factor on the box, the fixed point, and the geometric series behind the counts."""
    a, kind = Anchor(system_of(claim, context)), claim["kind"]
    if kind == "contraction":
        words(
            claim,
            a.s,
            f"On the box |z_i| <= bound, {a.rule} stays in the box and contracts by q < 1 in the largest entry.",
            topic="anchor",
            bounds=("q",),
        )
        require_below_one(claim, "q", a.q)
        return proved(claim, q=a.q)
    if kind == "enclosure":
        entry = claim["parameters"].get("entry")
        words(
            claim,
            a.s,
            f"Entry {entry} of the only fixed point of {a.rule} in the box |z_i| <= bound lies in [low, high].",
            topic="anchor",
            more=f"entry={entry}",
            given={"entry": entry},
            bounds=("low", "high"),
        )
        z = numbers(witness(claim, "z")[0], (len(a.e),), "z")
        if type(entry) is not int or not 0 <= entry < len(z):
            raise Rejected("it is about no entry")
        with ctx.workprec(BITS):
            off = a.distance(z)
        require_lower(claim, "low", z[entry] - off)
        require_upper(claim, "high", z[entry] + off)
        return proved(claim, low=z[entry] - off, high=z[entry] + off)
    digits = digits_of(claim, a)
    words(
        claim,
        a.s,
        f"After `count` {until(a, digits)}.",
        topic="anchor",
        more=f"digits={digits}",
        given={"digits": digits},
        bounds=("count",),
    )
    with ctx.workprec(BITS):
        start = [real(x) for x in a.e]
        first = max(upper(abs(x - y)) for x, y in zip(a.step(start), start, strict=True))
    require_count(claim, "count", a.q, first, Fraction(1, 10**digits))
    return proved(claim)


def digits_of(claim: Claim, a: Anchor) -> int:
    """The tolerance, one of those of the state."""
    digits = claim["parameters"].get("digits")
    if type(digits) is not int or not 0 < digits <= 100 or digits not in a.s.rows("digits"):
        raise Rejected("its digits are none of the state's")
    return digits


def until(a: Anchor, digits: int) -> str:
    """How sentences about counts go on."""
    return f"iterations of {a.rule}, from z = e, and ever after, every entry is within 10^-{digits} of the fixed point"


def check_anchor_local(claim: Claim, context: Any) -> Finding:
    """Balls around the fixed point that each iteration shrinks."""
    a = Anchor(system_of(claim, context))
    digits = digits_of(claim, a)
    words(
        claim,
        a.s,
        f"After `count` {until(a, digits)}: by enclosures of the Jacobian on boxes around the witness that shrink.",
        topic="anchor-local",
        more=f"digits={digits}",
        given={"digits": digits},
        bounds=("count",),
    )
    z, count = numbers(witness(claim, "z")[0], (len(a.e),), "z"), number(claim["bounds"]["count"])
    if count.denominator != 1 or not 0 <= count <= MOST_STEPS:
        raise Rejected("its count is none, or too large")
    with ctx.workprec(BITS):
        off = a.distance(z)
        reach = max(abs(x - y) for x, y in zip(a.e, z, strict=True)) + off
        for _ in range(int(count)):
            radius = reach + off
            slope = a.slope([real(x) + arb(0, 1) * real(radius) for x in z])
            reach = upper(real(reach * slope))
    if reach > Fraction(1, 10**digits):
        raise Rejected(f"after its count only {float(reach):.3g} is proved")
    return proved(claim)


CHECKS = {
    "enclosure/attention": check_attention_enclosure,
    "margin/attention": check_attention_margin,
    "margin/attention-weights": check_attention_margin,
    "identity/attention": check_attention_exact,
    "contraction/anchor": check_anchor,
    "enclosure/anchor": check_anchor,
    "updates/anchor": check_anchor,
    "updates/anchor-local": check_anchor_local,
}
