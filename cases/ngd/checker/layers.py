"""Enclosures over many layers, made again: softmax weights as 1 / sum_j exp(s_j - s_i), descent on unshifted exponentials."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from certify.checker.cases.ngd.setting import THEOREM, Examples, examples, require_certified
from flint import arb, ctx, fmpq

from certify.checker.document import (
    Beyond,
    Claim,
    Finding,
    Rejected,
    agrees,
    number,
    proved,
    require_lower,
    require_upper,
)

_MOST_BITS = 1 << 13
_WORDS = {
    "layers": "the n + 1 columns of the transformer minus descent from the same starts",
    "effective-layers": "C2 theta minus descent with step C1 C2 from C2 theta_0",
    "rmsnorm-layers": "theta of the transformer with a root-mean-square norm minus descent with step C1 by gradients of norm 1",
}
Vector = list[Any]


def ball(x: Fraction) -> Any:
    """A rational, to working precision."""
    return arb(fmpq(x.numerator, x.denominator))


def exact(x: Any) -> Fraction:
    """A ball of radius 0, as the number that it is."""
    if not x.is_finite():
        raise Beyond("a ball is not finite")
    m, e = x.man_exp()
    return int(m) * Fraction(2) ** int(e)


class Layer:
    """The examples of a context as balls, and the two ways to go on from theta."""

    def __init__(self, given: Examples) -> None:
        self.given, self.d, self.n = given, given.d, given.n
        self.z = [[ball(x) for x in row] for row in given.Z]
        self.C1, self.C2 = ball(given.C1), ball(given.C2)

    def dots(self, theta: Vector) -> Vector:
        """All <z_i, theta>."""
        return [sum((a * b for a, b in zip(row, theta, strict=True)), arb(0)) for row in self.z]

    def attention(self, theta: Vector, tokens: int) -> Vector:
        """What the attention adds to a column (., theta), with that many keys: key n + 1 has score and value 0."""
        scores = [-self.C2 * s for s in self.dots(theta)] + [arb(0)]
        scores = scores[:tokens]
        weights = [1 / sum(((b - a).exp() for b in scores), arb(0)) for a in scores]
        return [
            sum((p * (self.C1 * row[k]) for p, row in zip(weights, self.z, strict=False)), arb(0))
            for k in range(self.d)
        ]

    def slope(self, phi: Vector) -> tuple[Any, Vector]:
        """The sum of exp(-<z_i, phi>), and minus its gradient."""
        e = [(-s).exp() for s in self.dots(phi)]
        return sum(e, arb(0)), [sum((e[i] * self.z[i][k] for i in range(self.n)), arb(0)) for k in range(self.d)]

    def descent(self, theta: Vector, scale: Any, step: Any) -> Vector:
        """One step on the loss of scale theta, divided by the loss."""
        total, slopes = self.slope([scale * x for x in theta])
        return [x + step * g / total for x, g in zip(theta, slopes, strict=True)]


def _layers(layer: Layer, count: int) -> Iterator[Vector]:
    """All context columns start from (z_i; 0) and are alike; the top blocks stay, as the top rows of V are 0."""
    starts = [[arb(0)] * layer.d, [ball(x) for x in layer.given.theta]]
    pairs = [(start, start) for start in starts]
    for _ in range(count):
        pairs = [(_sum(a, layer.attention(a, layer.n)), layer.descent(b, layer.C2, layer.C1)) for a, b in pairs]
        yield [x - y for a, b in pairs for x, y in zip(a, b, strict=True)]


def _effective(layer: Layer, count: int) -> Iterator[Vector]:
    theta = [ball(x) for x in layer.given.theta]
    phi = [ball(layer.given.C2 * x) for x in layer.given.theta]
    for _ in range(count):
        theta = _sum(theta, layer.attention(theta, layer.n))
        phi = layer.descent(phi, arb(1), ball(layer.given.C1 * layer.given.C2))
        yield [layer.C2 * x - y for x, y in zip(theta, phi, strict=True)]


def _rmsnorm(layer: Layer, count: int) -> Iterator[Vector]:
    theta = [ball(x) for x in layer.given.theta]
    other = theta
    for _ in range(count):
        a = layer.attention(theta, layer.n)
        mean = sum((x * x for x in a), arb(0)) / (2 * layer.d)
        theta = [x + layer.C1 * y / (mean * 2 * layer.d).sqrt() for x, y in zip(theta, a, strict=True)]
        _, slopes = layer.slope([layer.C2 * x for x in other])
        size = sum((g * g for g in slopes), arb(0)).sqrt()
        other = [x + layer.C1 * g / size for x, g in zip(other, slopes, strict=True)]
        yield [x - y for x, y in zip(theta, other, strict=True)]


_RUNS = {"layers": _layers, "effective-layers": _effective, "rmsnorm-layers": _rmsnorm}


def check_layers(claim: Claim, context: Any) -> Finding:
    """All differences are enclosed around 0, within the radius."""
    _, name, *_ = claim["id"].split("/")
    given = examples(context, claim["parameters"].get("context"))
    statement = (
        f"At context {given.name}, after each of {given.layers} layers, the enclosures of {_WORDS[name]} contain 0 and reach "
        "at most `radius` from it in every entry; this alone is no proof of equality."
    )
    agrees(
        claim,
        context,
        id=f"identity/{name}/{given.name}",
        semantics="real",
        parameters=("context", "layers"),
        bounds=("radius",),
        statement=statement,
        theorem=f"{THEOREM}enclosures",
    )
    require_certified(claim)
    if claim["parameters"]["layers"] != given.layers or not given.layers:
        raise Rejected("its layers are not those of the state")
    if given.layers * given.n**2 > 100_000:
        raise Beyond("so many layers are too much for this checker")
    bits, radius = 256, number(claim["bounds"]["radius"])
    while True:
        with ctx.workprec(bits):
            own = _reach(name, given, radius)
        if own <= radius or bits >= _MOST_BITS:
            require_upper(claim, "radius", own)
            return proved(claim, radius=own)
        bits *= 2


def _reach(name: str, given: Examples, enough: Fraction) -> Fraction:
    """How far from 0 the differences reach; the first number found that is too much, if there is one."""
    worst = Fraction(0)
    for differences in _RUNS[name](Layer(given), given.layers):
        if not all(x.contains(0) for x in differences):
            raise Rejected("an enclosure of a difference excludes 0")
        worst = max([worst, *(exact(abs(x).upper()) for x in differences)])
        if worst > enough:
            break
    return worst


def check_mask(claim: Claim, context: Any) -> Finding:
    """A lower bound of the difference that the mask makes."""
    given = examples(context, claim["parameters"].get("context"))
    statement = (
        f"At context {given.name} a masked layer and one whose softmax runs over all n + 1 tokens differ by at least "
        "`margin` in some entry of theta."
    )
    agrees(
        claim,
        context,
        id=f"margin/mask/{given.name}",
        semantics="real",
        parameters=("context",),
        bounds=("margin",),
        statement=statement,
        theorem=f"{THEOREM}mask",
    )
    require_certified(claim)
    if number(claim["bounds"]["margin"]) <= 0:
        raise Rejected("its margin is not positive")
    with ctx.workprec(160):
        layer = Layer(given)
        theta = [ball(x) for x in given.theta]
        pairs = zip(layer.attention(theta, given.n), layer.attention(theta, given.n + 1), strict=True)
        own = max(exact(abs(a - b).lower()) for a, b in pairs)
    require_lower(claim, "margin", own)
    return proved(claim, margin=own)


def _sum(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]
