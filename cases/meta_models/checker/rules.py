"""Discriminants, Bayes accuracy, and the best linear rule by subdivision."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.meta_models.parts import (
    BITS,
    System,
    exact,
    fraction,
    lower,
    numbers,
    positive_definite,
    real,
    require_positive,
    square,
    system_of,
    upper,
    witness,
    words,
)
from flint import arb, ctx

from certify.checker.document import (
    Beyond,
    Claim,
    Finding,
    Rejected,
    number,
    proved,
    require_lower,
    require_upper,
)

COARSE, MOST_BOXES = 80, 40_000


def discriminant(s: System) -> tuple[list[Fraction], Fraction, Fraction]:
    """w, b, and the square of the Mahalanobis distance."""
    Sigma, m0, delta = s.rows("Sigma"), s.rows("m0"), s.rows("delta")
    if not positive_definite(Sigma):
        raise Rejected("Sigma is not symmetric positive definite")
    w = [fraction(x) for x in (exact(Sigma).inv() * exact([[x] for x in delta])).entries()]
    middle = [m + x / 2 for m, x in zip(m0, delta, strict=True)]
    return w, -sum(a * x for a, x in zip(w, middle, strict=True)), sum(a * x for a, x in zip(w, delta, strict=True))


def check_lda(claim: Claim, context: Any) -> Finding:
    """The discriminant and its values at the points."""
    s, signs = system_of(claim, context), claim["kind"] == "margin"
    words(
        claim,
        s,
        f"The discriminant at the points of {s.name} has the signs of the witness and is at least `margin` in "
        "magnitude."
        if signs
        else f"The discriminant w . x + b of {s.name} is exactly that of the witness: Sigma w = delta, b = -(m0 + m1) "
        ". w / 2, and the square of the Mahalanobis distance is `square`.",
        topic="lda",
        bounds=("margin",) if signs else ("square",),
    )
    w, b, square = discriminant(s)
    if not signs:
        given_w, given_b = witness(claim, "w", "b")
        if (
            numbers(given_w, (len(w),), "w") != w
            or numbers(given_b, (1,), "b") != [b]
            or number(claim["bounds"]["square"]) != square
        ):
            raise Rejected("the discriminant of its witness, or the square, is not exact")
        return proved(claim, square=square)
    scores = [sum(a * x for a, x in zip(w, row, strict=True)) + b for row in s.rows("x")]
    if witness(claim, "positive") != [[int(x > 0) for x in scores]]:
        raise Rejected("the signs of its witness are not those of the discriminant")
    margin = min(map(abs, scores))
    require_positive(claim, margin)
    return proved(claim, margin=margin)


def phi(x: Any) -> Any:
    """The distribution function of a normal."""
    return (1 + (x / arb(2).sqrt()).erf()) / 2


def check_bayes(claim: Claim, context: Any) -> Finding:
    """Phi of half the distance."""
    s = system_of(claim, context)
    words(
        claim,
        s,
        f"The Bayes accuracy for the two normal classes of {s.name}, equally likely, which is Phi of half their "
        "Mahalanobis distance, lies in [low, high].",
        topic="bayes",
        bounds=("low", "high"),
    )
    with ctx.workprec(BITS):
        accuracy = phi(real(discriminant(s)[2]).sqrt() / 2)
        low, high = lower(accuracy), upper(accuracy)
    require_lower(claim, "low", low)
    require_upper(claim, "high", high)
    return proved(claim, low=low, high=high)


def check_rule(claim: Claim, context: Any) -> Finding:
    """The product rule by independence; all linear rules by subdivision of angle and offset."""
    s = system_of(claim, context)
    m0, m1 = s.rows("m0"), s.rows("m1")
    words(
        claim,
        s,
        f"For the equal mixture of {len(m0)} pairs of unit normal classes of {s.name}, every linear rule sign(w . x "
        "+ t) is right with probability at most `linear`, and the meta-linear rule sign((x_1 - a)(b - x_2)) with "
        "probability at least `quadratic`, which is more by at least `margin`.",
        topic="rule",
        bounds=("linear", "quadratic", "margin"),
    )
    if len(m0) > 16:
        raise Beyond("that many pairs are more than this checker takes")
    linear, quadratic, margin = (number(claim["bounds"][name]) for name in ("linear", "quadratic", "margin"))
    with ctx.workprec(BITS):
        right = arb(0)
        for means, sign in ((m1, 1), (m0, -1)):
            for x, y in means:
                # 2 P(first factor > 0) - 1 and 2 P(second > 0) - 1 multiply
                product = (2 * phi(real(x - s.number("a"))) - 1) * (2 * phi(real(s.number("b") - y)) - 1)
                right += (1 + sign * product) / 2
        own = lower(right / (2 * len(m0)))
    require_lower(claim, "quadratic", own)
    if not 0 < margin <= quadratic - linear or linear <= Fraction(1, 2):
        raise Rejected("its margin is not between the two, or not positive")
    require_all_below(m0, m1, linear)
    return proved(claim, quadratic=own, margin=own - linear)


def require_all_below(m0: Any, m1: Any, level: Fraction) -> None:
    """No linear rule is right with a larger probability than `level`.

    With |w| = 1, w at the angle pi s: P = mean of Phi(+-(w . m + t)). A box is left when its enclosure, or its centred form
    with the derivatives in t and s, is below the level. For |t| >= T one class has a tail of less than Phi(-9).
    """
    with ctx.workprec(COARSE):
        reach = max(upper((real(x) ** 2 + real(y) ** 2).sqrt()) for x, y in [*m0, *m1]) + 9
        if not (1 + phi(arb(-9))) / 2 < real(level):
            raise Beyond("the level is too near to one half")
        means = [(real(x), real(y), k) for k, side in ((-1, m0), (1, m1)) for x, y in side]
        left, boxes = [(Fraction(0), Fraction(1), Fraction(0), reach)], 0
        while left:
            boxes += 1
            if boxes > MOST_BOXES:
                raise Beyond("the subdivision does not end here")
            s, r, t, h = left.pop()
            if below(means, s, r, t, h, real(level)):
                continue
            wide = r * 2 * reach > h  # a turn by r moves a mean by up to about pi r reach
            for sign in (-1, 1):
                left.append((s + sign * r / 2, r / 2, t, h) if wide else (s, r, t + sign * h / 2, h / 2))


def below(means: list[Any], s: Fraction, r: Fraction, t: Fraction, h: Fraction, level: Any) -> bool:
    """Whether the accuracy is below the level for angles s +- r and offsets t +- h."""
    unit = arb(0, 1)
    angle, offset = real(s) + unit * real(r), real(t) + unit * real(h)
    n, root = len(means), (2 * arb.pi()).sqrt()
    cos, sin = angle.cos_pi(), angle.sin_pi()
    middle_cos, middle_sin = real(s).cos_pi(), real(s).sin_pi()
    whole, centre, by_angle, by_offset = arb(0), arb(0), arb(0), arb(0)
    for x, y, k in means:
        score = cos * x + sin * y + offset
        slope = (-square(score) / 2).exp() / root
        whole += phi(k * score)
        centre += phi(k * (middle_cos * x + middle_sin * y + real(t)))
        by_offset += k * slope
        by_angle += k * slope * arb.pi() * (cos * y - sin * x)
    form = centre / n + unit * (abs(by_angle) * real(r) + abs(by_offset) * real(h)) / n
    return bool(whole / n <= level) or bool(form <= level)


CHECKS = {
    "identity/lda": check_lda,
    "margin/lda": check_lda,
    "enclosure/bayes": check_bayes,
    "margin/rule": check_rule,
}
