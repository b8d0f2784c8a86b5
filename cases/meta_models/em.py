"""EM for a mixture of two unit normals on the line: soft steps that never lose likelihood, and hard ones that do.

log p(x_n, z = k) = log share_k - (x_n - m_k)^2 / 2 - log(2 pi) / 2. Proofs: README, sections em and hard-em.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from flint import arb, ctx

from certify.certificate import Claim, Verdict, to_text
from certify.errors import InputRejected

from .inputs import Instance
from .wording import BITS, at_least, ball, claim, floor_to, high_of, holds_zero, low_of, radius_of, square, texts

SOURCE = "arXiv 2610.12741, equations (21)-(25)"


class Mixture(NamedTuple):
    """Parameters: the shares of the two components, and their means; balls. The shares sum to 1, neither by subtraction."""

    rest: Any
    share: Any
    low: Any
    high: Any

    def joint(self, x: Any) -> tuple[Any, Any]:
        """log p(x, z) for z = 0 and 1."""
        constant = (2 * arb.pi()).log() / 2
        return (
            self.rest.log() - square(x - self.low) / 2 - constant,
            self.share.log() - square(x - self.high) / 2 - constant,
        )

    def posterior(self, x: Any) -> tuple[Any, Any]:
        """p(z | x)."""
        a, b = self.joint(x)
        return 1 / (1 + (b - a).exp()), 1 / (1 + (a - b).exp())

    def likelihood(self, points: list[Any]) -> Any:
        """The log-likelihood."""
        return sum((a + (1 + (b - a).exp()).log() for a, b in map(self.joint, points)), arb(0))


def soft_claims(instance: Instance) -> list[Claim]:
    """Of the system `em`: log-likelihood = Q + H, and what every step gains."""
    steps = instance.count("steps", 50)
    if not 0 < instance.number("share") < 1:
        raise InputRejected(f"{instance.name}_share is not between 0 and 1", "give the share of the second component")
    with ctx.workprec(BITS):
        points = [ball(x) for x in instance.array("x")]
        share = instance.number("share")
        at = Mixture(*map(ball, (1 - share, share, instance.number("low"), instance.number("high"))))
        errors, gains_q, gains_h, gains = [], [], [], []
        for _ in range(steps):
            new = step(at, points)
            for a in (at, new):
                errors.append(a.likelihood(points) - surrogate(a, at, points) - cross_entropy(a, at, points))
            gains_q.append(surrogate(new, at, points) - surrogate(at, at, points))
            gains_h.append(cross_entropy(new, at, points) - cross_entropy(at, at, points))
            gains.append(new.likelihood(points) - at.likelihood(points))
            at = new
        radius = max(high_of(abs(x)) for x in errors)
        least = [min(x, key=low_of) for x in (gains_q, gains_h, gains)]
        start = f"in {steps} soft EM steps on the points of {instance.name} from its share and means"
        return [
            claim(
                "identity",
                "em",
                instance.name,
                f"Before and after each step, {start}: the enclosure of log-likelihood - Q - H contains 0 and "
                "reaches no further than `radius`. Equal they are by definition of the posterior.",
                verdict=all(holds_zero(x) for x in errors),
                reason="an enclosure excludes 0",
                bounds={"radius": radius_of(radius)},
            ),
            claim(
                "margin",
                "em",
                instance.name,
                f"In each step, {start}, Q grows by at least `gain_Q` > 0, H by at least `gain_H` > 0, and the "
                "log-likelihood by at least `margin`.",
                verdict=all(low_of(x) > 0 for x in least),
                reason="a gain is not proved positive",
                bounds={"margin": at_least(least[2]), "gain_Q": at_least(least[0]), "gain_H": at_least(least[1])},
            ),
            claim(
                "order",
                "em",
                instance.name,
                f"The log-likelihoods stand in increasing order {start}, at least `gap` apart.",
                verdict=low_of(least[2]) > 0,
                reason="a gain is not proved positive",
                bounds={"gap": at_least(least[2])},
            ),
        ]


def step(at: Mixture, points: list[Any]) -> Mixture:
    """One soft EM step: the means of the points under the posterior, and its share."""
    weights = [at.posterior(x) for x in points]
    first, second = sum((a for a, _ in weights), arb(0)), sum((b for _, b in weights), arb(0))
    low = sum((a * x for (a, _), x in zip(weights, points, strict=True)), arb(0)) / first
    high = sum((b * x for (_, b), x in zip(weights, points, strict=True)), arb(0)) / second
    return Mixture(first / len(points), second / len(points), low, high)


def surrogate(new: Mixture, old: Mixture, points: list[Any]) -> Any:
    """Q(new | old)."""
    return sum((p * a for x in points for p, a in zip(old.posterior(x), new.joint(x), strict=True)), arb(0))


def cross_entropy(new: Mixture, old: Mixture, points: list[Any]) -> Any:
    """H(new | old): a cross-entropy, not an entropy."""
    return -sum((p * q.log() for x in points for p, q in zip(old.posterior(x), new.posterior(x), strict=True)), arb(0))


def hard_claims(instance: Instance) -> list[Claim]:
    """Of the system `hard`, with equal shares: one hard step gains in Q, and what becomes of the likelihood."""
    points, low, high = list(instance.array("x")), instance.number("low"), instance.number("high")
    if low == high:
        raise InputRejected(f"{instance.name}: both means are equal", "give different ones")
    # the nearer mean; of equally near ones the first
    labels = [int((x - high) ** 2 < (x - low) ** 2) for x in points]
    tied = sum((x - high) ** 2 == (x - low) ** 2 for x in points)
    if len(set(labels)) < 2:
        raise InputRejected(f"{instance.name}: a component has no point", "give means on both sides")
    new = [_mean([x for x, k in zip(points, labels, strict=True) if k == side]) for side in (0, 1)]

    def spread(means: Any) -> Fraction:
        return sum(((x - means[k]) ** 2 for x, k in zip(points, labels, strict=True)), Fraction(0))

    gain = (spread((low, high)) - spread(new)) / 2
    with ctx.workprec(BITS):
        half, balls = ball(Fraction(1, 2)), [ball(x) for x in points]
        before, after = (Mixture(half, half, ball(a), ball(b)).likelihood(balls) for a, b in ((low, high), new))
        fall = before - after
        least = floor_to(low_of(fall), 300)  # of far components it differs from -gain by very little
        short = gain > 0 and gain + least > 0
        ties = f"{tied} of the points being equally near to both" if tied else "no point being equally near to both"
        numbers = f"Q gains {float(gain):.6g} and the log-likelihood {-float(fall.mid()):.6g}"
        refuted = f"{numbers}; the inequality holds for the exact E-step, as claims of the kind margin/em show"
        return [
            claim(
                "counterexample",
                "hard-em",
                instance.name,
                f"One hard EM step on the points of {instance.name}, from its means with equal shares, {ties}: when "
                "Q = log p(x, z | theta) at the maximizing z gains, the log-likelihood gains at least as much.",
                verdict=Verdict.REFUTED if short else Verdict.UNDECIDED,
                reason=refuted if short else f"{numbers}, which is no counterexample",
                parameters={
                    "tied": tied,
                    "published": "an improvement of Q gives at least as much improvement of the log-likelihood, and a "
                    "layer's hard E-step and the next layer's M-step are such an EM iteration",
                    "source": SOURCE,
                },
                bounds={"gain_Q": at_least(gain), "fall": to_text(least)},
                witness={"labels": labels, "means": texts(new)},
            ),
            claim(
                "margin",
                "hard-em",
                instance.name,
                f"One hard EM step on the points of {instance.name}, from its means with equal shares, {ties}: the "
                "hard objective, the largest log p(x, z | theta) over z, gains at least `margin`.",
                verdict=gain > 0,
                reason="the means are a fixed point",
                parameters={"tied": tied},
                bounds={"margin": at_least(gain)},
                witness={"labels": labels, "means": texts(new)},
            ),
        ]


def _mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)
