"""Claims about margins and directions: the separator, how near descent comes to it, and after how many layers (C6-C8, C13)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from certify.cases.ngd import margins
from certify.cases.ngd.balls import lower, upper
from certify.cases.ngd.claims import above, below, certified, undecided
from certify.cases.ngd.margins import BITS, Point, Separator
from certify.cases.ngd.state import Context, fraction
from flint import arb, ctx, fmpq

from certify.certificate import Claim, to_text
from certify.errors import Undecided

#: Exact numbers are written out up to so many characters.
_MOST_CHARACTERS = 900
_PROMISED = "where theta_0 = 0 and C1 C2 max|z_i|^2 <= 1"


@dataclass(frozen=True)
class Separation:
    """Everything that the claims about one context rest on."""

    context: Context
    separator: Separator
    points: dict[int, Point]
    distances: list[Any]


def separation(context: Context) -> Separation:
    """Solve for the separator and run the layers.

    Raises
    ------
    Undecided : the examples are not proved to be separable, or errors may grow.
    """
    found = margins.separator(context)
    points, distances = margins.run(context, found.w, context.steps, set(depths(context.steps)))
    return Separation(context, found, points, distances)


def depths(steps: int) -> list[int]:
    """After how many layers claims are made: 1, 10, 100, ... and all."""
    powers = [10**k for k in range(6) if 10**k < steps]
    return [*powers, steps]


def separation_claims(context: Context, accuracies: tuple[Fraction, ...]) -> list[Claim]:
    """All claims about margins and directions at one context."""
    try:
        found = separation(context)
    except Undecided as error:
        id, parameters = f"margin/max-margin/{context.name}", {"context": context.name}
        return [undecided(id, _largest(context.name), "max-margin", str(error), parameters=parameters)]
    claims = [max_margin_claim(context, found.separator)]
    for point in found.points.values():
        claims.append(angle_claim(found, point))
        if context.star:
            claims.append(decomposition_claim(found, point))
        if _has_rate(context):
            claims.append(rate_claim(found, point))
    if _has_rate(context):
        claims += [count_claim(found, accuracy) for accuracy in accuracies]
    return claims


def _largest(name: str) -> str:
    return (
        f"At context {name} the largest margin of a unit vector, the maximum of min_i <z_i, u> over |u| = 1, is at least "
        "`margin` and at most `most`, and its square is the rational number that the support given determines."
    )


def max_margin_claim(context: Context, found: Separator) -> Claim:
    """The largest margin, by an exact dual solution."""
    squared = fraction(found.squared)
    with ctx.workprec(BITS):
        gamma = arb(found.squared).sqrt()
    bounds = {"margin": below(lower(gamma)), "most": above(upper(gamma))}
    exact = str(squared)
    if len(exact) <= _MOST_CHARACTERS:
        bounds["squared"] = to_text(squared)
    name = context.name
    return certified(
        f"margin/max-margin/{name}",
        _largest(name),
        "max-margin",
        parameters={"context": name},
        bounds=bounds,
        witness={"support": list(found.support)},
    )


def angle_claim(found: Separation, point: Point) -> Claim:
    """How far the direction is from the separator, and its own margin."""
    name, layers = found.context.name, point.layers
    statement = (
        f"At context {name}, after {layers} layers, the distance of the unit vector along theta from the max-margin one "
        "is from `low` to `high`, and its least margin min_i <z_i, u> is from `margin_low` to `margin_high`."
    )
    return certified(
        f"enclosure/angle/{name}/L={layers}",
        statement,
        "angle",
        parameters={"context": name, "layers": layers},
        bounds={
            "low": below(lower(point.distance)),
            "high": above(upper(point.distance)),
            "margin_low": below(lower(point.margin)),
            "margin_high": above(upper(point.margin)),
        },
    )


def decomposition_claim(found: Separation, point: Point) -> Claim:
    """The three distances between theta, the separator and theta* as unit vectors: the optimisation and statistical errors."""
    context, name, layers = found.context, found.context.name, point.layers
    with ctx.workprec(BITS):
        star = [arb(x) for x in context.star or []]
        w = [arb(x) for x in found.separator.w]
        theta = list(point.theta)
        whole, statistical = margins.apart(theta, star), margins.apart(w, star)
    statement = (
        f"At context {name}, after {layers} layers, of unit vectors u along theta, v of largest margin, s along theta*, "
        "|u - s| is from `low` to `high`, |v - s| from `statistical_low` to `statistical_high`, and "
        "|u - v| + |v - s| exceeds |u - s| by at least `gap`."
    )
    gap = lower(point.distance) + lower(statistical) - upper(whole)
    return certified(
        f"enclosure/decomposition/{name}/L={layers}",
        statement,
        "decomposition",
        parameters={"context": name, "layers": layers},
        bounds={
            "low": below(lower(whole)),
            "high": above(upper(whole)),
            "statistical_low": below(lower(statistical)),
            "statistical_high": above(upper(statistical)),
            "gap": below(gap),
        },
    )


def _has_rate(context: Context) -> bool:
    """Whether the theorem of README.md#rate applies: from 0, with step R^2 <= 1; decided exactly."""
    return not any(context.theta) and bool(context.step * margins.radius_squared(context) <= 1)


def _deficit(context: Context) -> Any:
    """ln n + step R^2 / 2, enclosed."""
    return arb(context.n).log() + arb(context.step * margins.radius_squared(context) / 2)


def rate_claim(found: Separation, point: Point) -> Claim:
    """What the theorem promises of the margin, before and after a run, and what it is."""
    context, name, layers = found.context, found.context.name, point.layers
    squared = found.separator.squared
    with ctx.workprec(BITS):
        gamma, step = arb(squared).sqrt(), arb(context.step)
        before = gamma - _deficit(context) / (step * gamma * layers)
        owed = _deficit(context) - step * arb(squared) / 2
        after = (step * gamma * point.slopes - owed) / (arb(context.C2) * point.norm)
        gap = lower(point.margin - after.max(before))
    statement = (
        f"At context {name}, {_PROMISED}, the least margin of the unit vector along theta after "
        f"{layers} layers is at least `margin`; README.md#rate promises at least `before` without running them and `after` "
        "from the norms of their gradients, both less than it by at least `gap`."
    )
    id, parameters = f"margin/rate/{name}/L={layers}", {"context": name, "layers": layers}
    if gap <= 0:
        return undecided(id, statement, "rate", "the margin is too near what is promised", parameters=parameters)
    bounds = {
        "margin": below(lower(point.margin)),
        "before": below(lower(before)),
        "after": below(lower(after)),
        "gap": below(gap),
    }
    return certified(id, statement, "rate", parameters=parameters, bounds=bounds)


def count_claim(found: Separation, accuracy: Fraction) -> Claim:
    """After how many layers the direction is first within an accuracy, and by when the theorem says it is."""
    context, name = found.context, found.context.name
    with ctx.workprec(BITS):
        share = fmpq(accuracy.numerator**2, 2 * accuracy.denominator**2)
        layers = _deficit(context) / arb(context.step * found.separator.squared * share)
        predicted = -int((-layers).floor().unique_fmpz())
    statement = (
        f"At context {name}, {_PROMISED}, the unit vector along theta is first at most {accuracy} "
        "from the max-margin one after exactly `attained` layers, and from `settled` to "
        f"{context.steps} layers always is, but not one layer earlier; README.md#rate predicts it after "
        "`predicted` layers and from then on, later than `settled` by `gap`."
    )
    id = f"order/count/{name}/eps={accuracy}"
    parameters = {"context": name, "accuracy": to_text(accuracy)}
    within = margins.within(found.distances, accuracy)
    if not within[-1]:
        reason = f"it is not within {accuracy} after {context.steps} layers, the most that are run; predicted after {predicted}"
        return undecided(id, statement, "rate", reason, parameters=parameters)
    attained, settled = within.index(True) + 1, len(within) - ([*within[::-1], False]).index(False) + 1
    if settled >= predicted:
        return undecided(id, statement, "rate", "it is not earlier than predicted", parameters=parameters)
    counts = {"attained": attained, "settled": settled, "predicted": predicted, "gap": predicted - settled}
    bounds = {key: str(count) for key, count in counts.items()}
    return certified(id, statement, "rate", parameters=parameters, bounds=bounds)
