"""EM for a mixture on the line, discriminants, Bayes accuracy, and the best linear rule by subdivision."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.meta_models.parts import (
    BITS,
    lower,
    numbers,
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
    Claim,
    Finding,
    Rejected,
    number,
    proved,
    require_lower,
    require_upper,
    shown,
)

MOST_POINTS = 2000
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


CHECKS = {
    "identity/em": check_em,
    "margin/em": check_em,
    "order/em": check_em,
    "counterexample/hard-em": check_hard,
    "margin/hard-em": check_hard,
}
