"""EM for a mixture on the line, discriminants, Bayes accuracy, and the best linear rule by subdivision."""

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
    total,
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
    shown,
)

COARSE, MOST_BOXES, MOST_POINTS = 80, 40_000, 2000
PUBLISHED = (
    "an improvement of Q gives at least as much improvement of the log-likelihood, and a layer's hard E-step and "
    "the next layer's M-step are such an EM iteration"
)
SOURCE = "arXiv 2610.12741, equations (21)-(25)"


def density(x: Any, mean: Any) -> Any:
    """Of a unit normal."""
    return (-square(x - mean) / 2).exp() / (2 * arb.pi()).sqrt()


class Law:
    """Shares and means of two unit normals, balls."""

    def __init__(self, shares: tuple[Any, Any], means: tuple[Any, Any]) -> None:
        self.parts = tuple(zip(shares, means, strict=True))

    def joint(self, x: Any) -> list[Any]:
        """p(x, z) for each z."""
        return [w * density(x, m) for w, m in self.parts]

    def posterior(self, x: Any) -> list[Any]:
        """p(z | x)."""
        both = self.joint(x)
        return [p / total(both) for p in both]

    def likelihood(self, points: list[Any]) -> Any:
        """log p(x) of all points."""
        return total(total(self.joint(x)).log() for x in points)

    def next(self, points: list[Any]) -> Law:
        """One EM step."""
        weights = [self.posterior(x) for x in points]
        mass = [total(w[k] for w in weights) for k in (0, 1)]
        means = [total(w[k] * x for w, x in zip(weights, points, strict=True)) / mass[k] for k in (0, 1)]
        return Law((mass[0] / len(points), mass[1] / len(points)), (means[0], means[1]))


def expected(points: list[Any], old: Law, new: Law, joint: bool) -> Any:
    """The mean under the old posterior of log p(x, z), or of log p(z | x), by the new law."""
    parts = new.joint if joint else new.posterior
    return total(p * q.log() for x in points for p, q in zip(old.posterior(x), parts(x), strict=True))


def check_em(claim: Claim, context: Any) -> Finding:
    """Every step again: likelihood, Q and H."""
    s, kind = system_of(claim, context), claim["kind"]
    steps = s.whole("steps", 50)
    start = f"in {steps} soft EM steps on the points of {s.name} from its share and means"
    says: dict[str, tuple[str, tuple[str, ...]]] = {
        "identity": (
            f"Before and after each step, {start}: the enclosure of log-likelihood - Q - H contains 0 and reaches no "
            "further than `radius`. Equal they are by definition of the posterior.",
            ("radius",),
        ),
        "margin": (
            f"In each step, {start}, Q grows by at least `gain_Q` > 0, H by at least `gain_H` > 0, and the "
            "log-likelihood by at least `margin`.",
            ("margin", "gain_Q", "gain_H"),
        ),
        "order": (f"The log-likelihoods stand in increasing order {start}, at least `gap` apart.", ("gap",)),
    }
    if kind not in says:
        raise Rejected(f"claims of the kind {shown(kind)} are none of EM")
    words(claim, s, says[kind][0], topic="em", bounds=says[kind][1])
    share, found = s.number("share"), dict[str, list[Fraction]](radius=[], gain_Q=[], gain_H=[], gap=[])
    if not 0 < share < 1 or len(s.rows("x")) > MOST_POINTS:
        raise Rejected("its share is not between 0 and 1, or its points are too many")
    with ctx.workprec(BITS):
        points = [real(x) for x in s.rows("x")]
        law = Law((real(1 - share), real(share)), (real(s.number("low")), real(s.number("high"))))
        for _ in range(steps):
            new = law.next(points)
            for at in (law, new):
                off = at.likelihood(points) - expected(points, law, at, True) + expected(points, law, at, False)
                if not off.contains(0):
                    raise Rejected("the log-likelihood is not Q + H")
                found["radius"].append(upper(abs(off)))
            found["gain_Q"].append(lower(expected(points, law, new, True) - expected(points, law, law, True)))
            found["gain_H"].append(lower(expected(points, law, law, False) - expected(points, law, new, False)))
            found["gap"].append(lower(new.likelihood(points) - law.likelihood(points)))
            law = new
    found["margin"] = found["gap"]
    own = {name: max(found[name]) if name == "radius" else min(found[name]) for name in says[kind][1]}
    for name, value in own.items():
        if name == "radius":
            require_upper(claim, name, value)
        else:
            require_positive(claim, value, name)
    return proved(claim, **own)


def check_hard(claim: Claim, context: Any) -> Finding:
    """The hard assignment, the new means, the exact gain of Q, and what becomes of the likelihood."""
    s, tied = system_of(claim, context), claim["parameters"].get("tied")
    ties = f"{tied} of the points being equally near to both" if tied else "no point being equally near to both"
    begin = f"One hard EM step on the points of {s.name}, from its means with equal shares, {ties}:"
    refutes = claim["kind"] == "counterexample"
    words(
        claim,
        s,
        f"{begin} when Q = log p(x, z | theta) at the maximizing z gains, the log-likelihood gains at least as much."
        if refutes
        else f"{begin} the hard objective, the largest log p(x, z | theta) over z, gains at least `margin`.",
        topic="hard-em",
        given={"tied": tied} | ({"published": PUBLISHED, "source": SOURCE} if refutes else {}),
        bounds=("gain_Q", "fall") if refutes else ("margin",),
        verdict="refuted" if refutes else "certified",
    )
    points, old = s.rows("x"), (s.number("low"), s.number("high"))
    labels, means = witness(claim, "labels", "means")
    means = numbers(means, (2,), "a mean")
    if (
        not isinstance(labels, list)
        or len(labels) != len(points)
        or any(type(k) is not int or k not in (0, 1) for k in labels)
    ):
        raise Rejected("its witness does not assign every point")
    distances = [((x - old[0]) ** 2, (x - old[1]) ** 2) for x in points]
    if any(both[k] > both[1 - k] for both, k in zip(distances, labels, strict=True)):
        raise Rejected("its witness assigns a point to the farther mean")
    if tied != sum(a == b for a, b in distances):
        raise Rejected("that many points are not equally near")
    for k in (0, 1):
        # the maximizing mean: deviations sum to 0
        if k not in labels or sum(x - means[k] for x, label in zip(points, labels, strict=True) if label == k) != 0:
            raise Rejected("a mean of its witness does not maximize Q")
    gain = sum(both[k] - (x - means[k]) ** 2 for x, both, k in zip(points, distances, labels, strict=True)) / 2
    if not refutes:
        require_positive(claim, gain)
        return proved(claim, margin=gain)
    with ctx.workprec(BITS):
        balls, half = [real(x) for x in points], real(Fraction(1, 2))
        before, after = (Law((half, half), (real(a), real(b))).likelihood(balls) for a, b in (old, means))
        fall = lower(before - after)
    require_positive(claim, gain, "gain_Q")
    require_lower(claim, "fall", fall)
    if number(claim["bounds"]["gain_Q"]) + number(claim["bounds"]["fall"]) <= 0:
        raise Rejected("the log-likelihood gains as much as Q")
    return proved(claim, gain_Q=gain, fall=fall)


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
    "identity/em": check_em,
    "margin/em": check_em,
    "order/em": check_em,
    "counterexample/hard-em": check_hard,
    "margin/hard-em": check_hard,
    "identity/lda": check_lda,
    "margin/lda": check_lda,
    "enclosure/bayes": check_bayes,
    "margin/rule": check_rule,
}
