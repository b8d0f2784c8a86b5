"""Margins and directions, proved again: the separator from its support, the iterates in phi = C2 theta."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import lcm
from typing import Any

from certify.checker.cases.ngd.layers import ball, exact
from certify.checker.cases.ngd.setting import THEOREM, Examples, examples, layers_of, require_certified, rows
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat, fmpz_mat

from certify.checker.document import (
    Beyond,
    Claim,
    Finding,
    Rejected,
    agrees,
    integer,
    number,
    proved,
    require_lower,
    require_shape,
    require_upper,
)

_BITS = 144
_MOST_WORK = 8_000_000
_PROMISED = "where theta_0 = 0 and C1 C2 max|z_i|^2 <= 1"


@dataclass(frozen=True)
class Geometry:
    """Exact numbers of a context: the separator w, 1/|w|^2, the largest |z_i|^2 and |z_i - z_j|^2."""

    w: list[Fraction]
    squared: Fraction
    radius: Fraction
    diameter: Fraction


def geometry(context: Any, given: Examples) -> Geometry:
    """Of a context, by the support in the witness of its claim of the largest margin."""
    found: Geometry = context.cached(("ngd geometry", given.name), lambda: _geometry(context, given))
    return found


def _geometry(context: Any, given: Examples) -> Geometry:
    claim = context.claims.get(f"margin/max-margin/{given.name}")
    if claim is None or claim["verdict"] != "certified":
        raise Rejected(f"no certified claim gives the separator of the context {given.name}")
    scale = lcm(*(x.denominator for row in given.Z for x in row))
    whole = fmpz_mat([[int(x * scale) for x in row] for row in given.Z])
    gram = whole * whole.transpose()
    require_shape(claim["witness"], {"support": list}, "the witness of the separator")
    support = [integer(i, 0, given.n - 1, "an index of the support") for i in claim["witness"]["support"]]
    if not support or len(set(support)) < len(support) or len(support) > given.d:
        raise Rejected("the support of the separator is empty, too large, or names an example twice")
    inner = fmpq_mat(fmpz_mat([[gram[i, j] for j in support] for i in support]))
    if inner.det() == 0:
        raise Rejected("the examples of the support are not linearly independent")
    # of the whole examples, scale z_i: <scale z_i, w'> = 1, so that w = scale w'
    multipliers = inner.solve(fmpq_mat(len(support), 1, [1] * len(support)))
    lam = [multipliers[i, 0] for i in range(len(support))]
    if any(x < 0 for x in lam):
        raise Rejected("a multiplier of the support is negative")
    margins = [sum((x * gram[i, j] for x, j in zip(lam, support, strict=True)), fmpq(0)) for i in range(given.n)]
    if any(m < 1 for m in margins):
        raise Rejected("an example has less margin than the support")
    total = sum(lam, fmpq(0))
    w = [scale * sum((x * whole[i, k] for x, i in zip(lam, support, strict=True)), fmpq(0)) for k in range(given.d)]
    sizes = [int(gram[i, i]) for i in range(given.n)]
    widest = max(sizes[i] + sizes[j] - 2 * int(gram[i, j]) for i in range(given.n) for j in range(i))
    squared = 1 / Fraction(int(total.p), int(total.q)) / scale**2
    return Geometry(
        [Fraction(int(x.p), int(x.q)) for x in w], squared, Fraction(max(sizes), scale**2), Fraction(widest, scale**2)
    )


def check_max_margin(claim: Claim, context: Any) -> Finding:
    """The square of the largest margin is 1/|w|^2, exactly."""
    given = examples(context, claim["parameters"].get("context"))
    statement = (
        f"At context {given.name} the largest margin of a unit vector, the maximum of min_i <z_i, u> over |u| = 1, is at least "
        "`margin` and at most `most`, and its square is the rational number that the support given determines."
    )
    _agree(
        claim,
        context,
        given,
        "margin/max-margin/{}",
        statement,
        "max-margin",
        ("margin", "most"),
        optional=("squared",),
    )
    squared = geometry(context, given).squared
    low, high = number(claim["bounds"]["margin"]), number(claim["bounds"]["most"])
    if not 0 < low <= high or not low * low <= squared <= high * high:
        raise Rejected("the square of the largest margin is not between the squares of its bounds")
    if "squared" in claim["bounds"] and number(claim["bounds"]["squared"]) != squared:
        raise Rejected("its square is another number")
    return proved(claim, margin=low, most=high)


@dataclass(frozen=True)
class Run:
    """Iterates of a context: middles of phi_t, how far they may be off, and the sums of |g_0|, ..., |g_{t-1}| as balls."""

    middles: list[arb_mat]
    off: list[Fraction]
    slopes: list[Any]
    w: Any
    distances: list[Any]

    def phi(self, t: int) -> arb_mat:
        """Phi_t with its uncertainty."""
        wide = arb(0, ball(self.off[t]).upper())
        return arb_mat([[x + wide] for x in self.middles[t].entries()])


def run(context: Any, given: Examples) -> Run:
    """All layers of a context, in phi = C2 theta, whose step is C1 C2; errors add as the step is not expansive."""
    found: Run = context.cached(("ngd run", given.name), lambda: _run(context, given))
    return found


def _run(context: Any, given: Examples) -> Run:
    here, step = geometry(context, given), given.C1 * given.C2
    if step * here.diameter > 8:
        raise Beyond("its step is too large for errors to add")
    if given.n * given.d * given.steps > _MOST_WORK:
        raise Beyond("so many layers are too much for this checker")
    with ctx.workprec(_BITS):
        Z = arb_mat([[ball(x) for x in row] for row in given.Z])
        back, alpha, count = Z.transpose(), ball(step), range(given.n)
        start = arb_mat([[ball(given.C2 * x)] for x in given.theta])
        w = arb_mat([[ball(x) for x in here.w]])
        w = w * (1 / size(w))
        middles, off, norms = [start.mid()], [_rounded(start)], []
        for _ in range(given.steps):
            scores = Z * middles[-1]
            low = min((scores[i, 0].mid() for i in count), key=float)
            e = [(low - scores[i, 0]).exp() for i in count]
            g = back * arb_mat([[x] for x in e]) * (1 / sum(e, arb(0)))
            # |grad| of ln L changes by at most diam^2 / 4 times the distance
            norms.append(size(g) + arb(0, ball(off[-1] * here.diameter / 4).upper()))
            after = middles[-1] + g * alpha
            middles.append(after.mid())
            off.append(off[-1] + _rounded(after))
        found = Run(middles, off, [arb(0), *accumulate(norms)], w, [])
        for t in range(1, given.steps + 1):
            phi = found.phi(t)
            found.distances.append(apart(w, phi * (1 / size(phi))))
        return found


def check_angle(claim: Claim, context: Any) -> Finding:
    """The distance and margin after some layers."""
    given = examples(context, claim["parameters"].get("context"))
    layers = layers_of(claim, given.steps)
    statement = (
        f"At context {given.name}, after {layers} layers, the distance of the unit vector along theta from the max-margin one "
        "is from `low` to `high`, and its least margin min_i <z_i, u> is from `margin_low` to `margin_high`."
    )
    bounds = ("low", "high", "margin_low", "margin_high")
    _agree(claim, context, given, "enclosure/angle/{}/L=" + str(layers), statement, "angle", bounds, "layers")
    known = run(context, given)
    with ctx.workprec(_BITS):
        own = require_between(claim, "low", "high", known.distances[layers - 1])
        own |= require_between(claim, "margin_low", "margin_high", _margin(given, known.phi(layers)))
    return proved(claim, **own)


def check_rate(claim: Claim, context: Any) -> Finding:
    """What the theorem promises, before and after a run, beside the margin."""
    given = examples(context, claim["parameters"].get("context"))
    layers = layers_of(claim, given.steps)
    statement = (
        f"At context {given.name}, {_PROMISED}, the least margin of the unit vector along theta after "
        f"{layers} layers is at least `margin`; README.md#rate promises at least `before` without running them and `after` "
        "from the norms of their gradients, both less than it by at least `gap`."
    )
    bounds = ("margin", "before", "after", "gap")
    _agree(claim, context, given, "margin/rate/{}/L=" + str(layers), statement, "rate", bounds, "layers")
    here, known, step = _promised(context, given), run(context, given), given.C1 * given.C2
    if number(claim["bounds"]["gap"]) <= 0:
        raise Rejected("its gap is not positive")
    with ctx.workprec(_BITS):
        gamma, phi, logarithm = ball(here.squared).sqrt(), known.phi(layers), arb(given.n).log()
        margin = _margin(given, phi)
        before = gamma - (logarithm + ball(step * here.radius / 2)) / (ball(step * layers) * gamma)
        earned = ball(step) * (gamma * known.slopes[layers] - ball((here.radius - here.squared) / 2))
        after = (earned - logarithm) / size(phi)
        own = {
            "margin": exact(margin.lower()),
            "before": exact(before.lower()),
            "after": exact(after.lower()),
            "gap": min(exact((margin - before).lower()), exact((margin - after).lower())),
        }
    for name, value in own.items():
        require_lower(claim, name, value)
    return proved(claim, **own)


def check_count(claim: Claim, context: Any) -> Finding:
    """The layers after which the direction is within an accuracy, one by one, and when the theorem says it is."""
    given = examples(context, claim["parameters"].get("context"))
    accuracy = number(claim["parameters"].get("accuracy"))
    if [accuracy.numerator, accuracy.denominator] not in rows(context, "accuracies", "int64", 2):
        raise Rejected("its accuracy is none of the state")
    statement = (
        f"At context {given.name}, {_PROMISED}, the unit vector along theta is first at most {accuracy} "
        "from the max-margin one after exactly `attained` layers, and from `settled` to "
        f"{given.steps} layers always is, but not one layer earlier; README.md#rate predicts it after "
        "`predicted` layers and from then on, later than `settled` by `gap`."
    )
    bounds = ("attained", "settled", "predicted", "gap")
    id = "order/count/{}/eps=" + str(accuracy)
    _agree(claim, context, given, id, statement, "rate", bounds, "accuracy")
    here, known = _promised(context, given), run(context, given)
    with ctx.workprec(_BITS):
        inside = []
        for distance in known.distances:
            if not (distance <= ball(accuracy) or distance > ball(accuracy)):
                raise Beyond("a distance is too near the accuracy")
            inside.append(bool(distance <= ball(accuracy)))
        cost = arb(given.n).log() + ball(given.C1 * given.C2 * here.radius / 2)
        needed = cost / ball(given.C1 * given.C2 * here.squared * accuracy**2 / 2)
        predicted = needed.ceil().unique_fmpz()
    if predicted is None or not inside or not inside[-1]:
        raise Beyond("it is not within the accuracy at the end, or a count is not determined")
    settled = max((t for t, good in enumerate(inside, 1) if not good), default=0) + 1
    own = {"attained": inside.index(True) + 1, "settled": settled, "predicted": int(predicted)}
    own["gap"] = own["predicted"] - settled
    if own["gap"] <= 0 or any(number(claim["bounds"][name]) != value for name, value in own.items()):
        raise Rejected(f"the counts are {', '.join(f'{k} {v}' for k, v in own.items())}")
    return proved(claim, **{name: Fraction(value) for name, value in own.items()})


def check_decomposition(claim: Claim, context: Any) -> Finding:
    """Three distances between unit vectors."""
    given = examples(context, claim["parameters"].get("context"))
    layers = layers_of(claim, given.steps)
    statement = (
        f"At context {given.name}, after {layers} layers, of unit vectors u along theta, v of largest margin, s along theta*, "
        "|u - s| is from `low` to `high`, |v - s| from `statistical_low` to `statistical_high`, and "
        "|u - v| + |v - s| exceeds |u - s| by at least `gap`."
    )
    bounds = ("low", "high", "statistical_low", "statistical_high", "gap")
    id = "enclosure/decomposition/{}/L=" + str(layers)
    _agree(claim, context, given, id, statement, "decomposition", bounds, "layers")
    if given.star is None:
        raise Rejected("the state gives no theta*")
    known = run(context, given)
    with ctx.workprec(_BITS):
        star = arb_mat([[ball(x) for x in given.star]])
        star = star * (1 / size(star))
        phi = known.phi(layers)
        whole = apart(star, phi * (1 / size(phi)))
        statistical = apart(star, known.w.transpose())
        own = require_between(claim, "low", "high", whole)
        own |= require_between(claim, "statistical_low", "statistical_high", statistical)
        gap = exact((known.distances[layers - 1] + statistical - whole).lower())
    require_lower(claim, "gap", gap)
    return proved(claim, gap=gap, **own)


def _agree(
    claim: Claim,
    context: Any,
    given: Examples,
    id: str,
    statement: str,
    anchor: str,
    bounds: tuple[str, ...],
    *more: str,
    optional: tuple[str, ...] = (),
) -> None:
    words = {"statement": statement, "theorem": THEOREM + anchor, "semantics": "real", "optional": optional}
    agrees(claim, context, id=id.format(given.name), parameters=("context", *more), bounds=bounds, **words)
    require_certified(claim)


def _promised(context: Any, given: Examples) -> Geometry:
    """The conditions of the theorem about rates."""
    here = geometry(context, given)
    if any(given.theta) or given.C1 * given.C2 * here.radius > 1:
        raise Rejected("the theorem about rates does not apply: theta_0 is not 0, or C1 C2 max|z_i|^2 > 1")
    return here


def require_between(claim: Claim, low: str, high: str, own: Any) -> dict[str, Fraction]:
    """The claimed interval holds the checker's."""
    found = {low: exact(own.lower()), high: exact(own.upper())}
    require_lower(claim, low, found[low])
    require_upper(claim, high, found[high])
    return found


def _margin(given: Examples, phi: arb_mat) -> Any:
    """The least <z_i, phi> / |phi|."""
    products = (arb_mat([[ball(x) for x in row] for row in given.Z]) * phi).entries()
    least = products[0]
    for x in products[1:]:
        least = least.min(x)
    return least / size(phi)


def apart(a: arb_mat, b: arb_mat) -> Any:
    """Of unit vectors, a row and a column: sqrt(2 - 2 <a, b>)."""
    return (2 - 2 * (a * b)[0, 0]).max(arb(0)).sqrt()


def size(x: arb_mat) -> Any:
    """The Euclidean norm of all entries."""
    return sum((y * y for y in x.entries()), arb(0)).sqrt()


def _rounded(x: arb_mat) -> Fraction:
    """At most this far, in the Euclidean norm, is x from its middle."""
    return sum((exact(y.rad()) for y in x.entries()), Fraction(0))
