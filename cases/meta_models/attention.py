"""Softmax attention on a few tokens: equation (13), equation (27), and an exact one with powers of two; and its iteration.

Proofs: README, sections attention, attention-weights, anchor, anchor-local.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb, ctx

from certify.arithmetic.balls import middle
from certify.certificate import Claim
from certify.errors import InputRejected

from .inputs import Instance
from .linear import MOST_UPDATES, count
from .wording import BITS, at_least, at_most, ball, ceil_to, claim, high_of, interval, low_of, square, texts

#: Entries of an output that have an enclosure each.
MOST_ENTRIES = 64
#: What equations (13) and (27) divide the scores by, in words and as the power of the width.
SCALES = {
    "eq13": ("as in equation (13), exp(q_i . k_j)", 0),
    "eq27": ("as in equation (27), exp(q_i . k_j / sqrt d)", 1),
}


def attention_claims(instance: Instance) -> list[Claim]:
    """Of the system `attention`: exact values in base 2, enclosures of both published scales, and that these differ."""
    z, Wq, Wk, Wv = (instance.array(part) for part in ("z", "Wq", "Wk", "Wv"))
    scores, values = (z.dot(Wq.T)).dot(z.dot(Wk.T).T), z.dot(Wv.T)
    claims = [_exact(instance, scores, values)]
    with ctx.workprec(BITS):
        outputs, least = {}, arb(1)
        for name, (words, scaled) in SCALES.items():
            divisor = arb(z.shape[1]).sqrt() if scaled else arb(1)
            rows = [softmax([ball(s) / divisor for s in row]) for row in scores]
            outputs[name] = [[_mean(row, values[:, k]) for k in range(values.shape[1])] for row in rows]
            least = min((x for row in rows for x in row), key=low_of) if scaled else least
            entries = [(i, k) for i in range(len(rows)) for k in range(values.shape[1])][:MOST_ENTRIES]
            claims += [
                claim(
                    "enclosure",
                    "attention",
                    instance.name,
                    f"Entry ({i}, {k}) of softmax attention on the tokens of {instance.name}, with weights {words}, "
                    "lies in [low, high].",
                    more=f"{name}/entry={i},{k}",
                    verdict=True,
                    parameters={"scale": name, "entry": [i, k]},
                    bounds=interval(outputs[name][i][k]),
                )
                for i, k in entries
            ]
        gaps = [abs(x - y) for a, b in zip(*outputs.values(), strict=True) for x, y in zip(a, b, strict=True)]
        gap = max(gaps, key=low_of)
        claims += [
            claim(
                "margin",
                "attention",
                instance.name,
                f"Softmax attention on the tokens of {instance.name} by equation (13), without 1 / sqrt d, and by "
                "equation (27), with it, differ by at least `margin` in some entry.",
                verdict=low_of(gap) > 0,
                reason="the enclosures overlap",
                bounds={"margin": at_least(gap)},
            ),
            claim(
                "margin",
                "attention-weights",
                instance.name,
                f"Every weight of softmax attention on the tokens of {instance.name} by equation (27) is at least "
                "`margin` > 0: no score removes an edge of the graph, which only a mask does.",
                verdict=low_of(least) > 0,
                reason="a weight is not proved positive",
                bounds={"margin": at_least(least)},
            ),
        ]
    return claims


def softmax(scores: list[Any]) -> list[Any]:
    """Weights from scores that are balls."""
    top = max(scores, key=high_of).mid()
    p = [(s - top).exp() for s in scores]
    total = sum(p, arb(0))
    return [x / total for x in p]


def _mean(weights: list[Any], values: Any) -> Any:
    return sum((w * ball(v) for w, v in zip(weights, values, strict=True)), arb(0))


def _exact(instance: Instance, scores: Any, values: Any) -> Claim:
    whole = all(s.denominator == 1 and abs(s) < 500 for s in scores.ravel())
    rows: Any = []
    for row in scores if whole else []:
        powers = [Fraction(2) ** int(s) for s in row]
        rows.append([p / sum(powers) for p in powers])
    output = [[sum(w * v for w, v in zip(row, column, strict=True)) for column in values.T] for row in rows]
    return claim(
        "identity",
        "attention",
        instance.name,
        f"With powers of 2 for exp, each row of attention on the tokens of {instance.name} is exactly the law of the "
        "witness, and the mean of the values under it exactly its output.",
        verdict=whole,
        reason="a score is not a whole number below 500 in magnitude",
        witness={"rows": texts(rows), "output": texts(output)},
    )


def anchor_claims(instance: Instance) -> list[Claim]:
    """Of the system `anchor`: z <- w Att(z) + (1 - w) e contracts on a box, where it goes and how fast."""
    w, beta, R = (instance.number(part) for part in ("weight", "beta", "bound"))
    e = list(instance.array("e"))
    if not 0 < w < 1 or beta < 0 or max(map(abs, e)) > R:
        raise InputRejected(
            f"{instance.name}: weight, beta or bound is not as it must be", "0 < weight < 1, beta >= 0, |e_i| <= bound"
        )
    q = w * (1 + 2 * beta * R * R)
    rule = f"z <- w Att(z) + (1 - w) e of {instance.name}"
    claims = [
        claim(
            "contraction",
            "anchor",
            instance.name,
            f"On the box |z_i| <= bound, {rule} stays in the box and contracts by q < 1 in the largest entry.",
            verdict=q < 1,
            reason=f"w (1 + 2 beta bound^2) = {float(q):.3g} is not below 1",
            bounds={"q": at_most(q)},
        )
    ]
    if q >= 1:
        return claims
    centre, off = fixed_point(instance)
    with ctx.workprec(BITS):
        E, exact = [ball(x) for x in e], [ball(x) for x in centre]
        first = max(high_of(abs(x - y)) for x, y in zip(update(E, E, w, beta), E, strict=True))
        claims += [
            claim(
                "enclosure",
                "anchor",
                instance.name,
                f"Entry {i} of the only fixed point of {rule} in the box |z_i| <= bound lies in [low, high].",
                more=f"entry={i}",
                verdict=max(map(abs, centre)) <= R,
                reason="no point of the box is known that the iteration hardly moves",
                parameters={"entry": i},
                bounds=interval(ball(x) + arb(0, 1) * ball(off)),
                witness={"z": texts(centre)},
            )
            for i, x in enumerate(centre)
        ]
        for digits in sorted({int(x) for x in instance.array("digits")}):
            tol = Fraction(1, 10**digits)
            updates, start = count(q, first, tol), max(abs(x - y) for x, y in zip(e, centre, strict=True)) + off
            sharper = _shrinking(centre, start, off, w, beta, R, tol)
            until = f"iterations of {rule}, from z = e, and ever after, every entry is within 10^-{digits} of the fixed point"
            claims += [
                claim(
                    "updates",
                    "anchor",
                    instance.name,
                    f"After `count` {until}.",
                    more=f"digits={digits}",
                    verdict=updates is not None,
                    reason="the count is too large",
                    parameters={"digits": digits},
                    bounds={"count": str(updates)},
                    observed={"first": str(_first(E, exact, w, beta, tol))},
                ),
                claim(
                    "updates",
                    "anchor-local",
                    instance.name,
                    f"After `count` {until}: by enclosures of the Jacobian on boxes around the witness that shrink.",
                    more=f"digits={digits}",
                    verdict=sharper is not None,
                    reason="the count is too large",
                    parameters={"digits": digits},
                    bounds={"count": str(sharper)},
                    witness={"z": texts(centre)},
                ),
            ]
    return claims


def fixed_point(instance: Instance) -> tuple[list[Fraction], Fraction]:
    """A point near the fixed point of an iteration that contracts on its box, and how far that is from it at most.

    The distance is at most |F(z) - z| / (1 - q), by Banach's theorem.
    """
    w, beta, R = (instance.number(part) for part in ("weight", "beta", "bound"))
    with ctx.workprec(BITS):
        E = [ball(x) for x in instance.array("e")]
        at = E
        for _ in range(MOST_UPDATES):
            new = [x.mid() for x in update(at, E, w, beta)]
            done = all(abs(x - y) < arb(2) ** -280 for x, y in zip(new, at, strict=True))
            at = new
            if done:
                break
        centre = [Fraction(round(middle(x) * 2**256), 2**256) for x in at]
        exact = [ball(x) for x in centre]
        moved = max(high_of(abs(x - y)) for x, y in zip(update(exact, E, w, beta), exact, strict=True))
    return centre, moved / (1 - w * (1 + 2 * beta * R * R))


def update(z: list[Any], e: list[Any], w: Fraction, beta: Fraction) -> list[Any]:
    """One iteration, in balls."""
    scale, keep, rest = ball(beta), ball(w), ball(1 - w)
    found = []
    for i in range(len(z)):
        row = softmax([scale * z[i] * x for x in z])
        found.append(keep * sum((a * x for a, x in zip(row, z, strict=True)), arb(0)) + rest * e[i])
    return found


def jacobian_norm(z: list[Any], w: Fraction, beta: Fraction) -> Fraction:
    """An upper bound of the row sums of |dF| over a box of balls.

    dAtt_i/dz_j = A_ij (1 + beta z_i (z_j - Att_i)) + [i=j] beta Var_i, the variance of z under row i.
    """
    scale, worst = ball(beta), Fraction(0)
    for i in range(len(z)):
        row = softmax([scale * z[i] * x for x in z])
        mean = sum((a * x for a, x in zip(row, z, strict=True)), arb(0))
        variance = sum((a * square(x - mean) for a, x in zip(row, z, strict=True)), arb(0))
        entries = [a * (1 + scale * z[i] * (x - mean)) for a, x in zip(row, z, strict=True)]
        entries[i] += scale * variance
        worst = max(worst, high_of(ball(w) * sum((abs(x) for x in entries), arb(0))))
    return worst


def _shrinking(
    centre: list[Fraction], start: Fraction, off: Fraction, w: Fraction, beta: Fraction, R: Fraction, tol: Fraction
) -> int | None:
    """Steps until the distance to the fixed point is at most tol; each shrinks it by the Jacobian on the ball that it has.

    Around the fixed point z*, |F(z) - z*| <= q(r) |z - z*| where q(r) bounds the Jacobian on |z - z*| <= r; that ball lies in
    the one of radius r + off around the witness. Where that is too wide for the enclosure, the factor for |z_i| <= bound
    holds.
    """
    reach = start
    for t in range(MOST_UPDATES):
        if reach <= tol:
            return t
        box = [ball(x) + arb(0, 1) * ball(ceil_to(reach + off, 300)) for x in centre]
        q = min(jacobian_norm(box, w, beta), w * (1 + 2 * beta * R * R))
        reach = ceil_to(reach * q, 300)
    return None


def _first(z: list[Any], limit: list[Any], w: Fraction, beta: Fraction, tol: Fraction) -> int | None:
    """The iteration at which z is first within tol of its limit: a measurement."""
    start = z
    for t in range(MOST_UPDATES):
        if all(abs(x - y) <= ball(tol) for x, y in zip(z, limit, strict=True)):
            return t
        z = [x.mid() for x in update(z, start, w, beta)]
    return None
