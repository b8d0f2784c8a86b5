"""Layers whose weights depend on their input, at points and on boxes, and the order of single-linkage merges."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

from certify.checker.cases.meta_models.parts import (
    BITS,
    MOST_ENTRIES,
    System,
    lower,
    real,
    require_positive,
    size,
    system_of,
    total,
    upper,
    witness,
    words,
)
from certify.checker.cases.meta_models.programs import errors_of, largest_gap, rests_on
from flint import arb, ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, number, proved, require_lower, require_upper

GATES = {
    "linear": "the linear layer W x + B",
    "identity": "the meta-linear layer x . (W x + B)",
    "swish": "the meta-linear layer s . (W x + B), s = x * sigmoid(x),",
    "pswish": "the meta-linear layer s . (W x + B), s = x * sigmoid(V x),",
    "swiglu": "the meta-linear layer s . (W x + B), s = V x * sigmoid(V x) * U x,",
    "softmax": "the mixture of experts s . (W x + B), s = softmax(R x),",
}
RADIUS, CELLS = Fraction(1, 8), 16


class Layer:
    """A layer in balls."""

    def __init__(self, s: System) -> None:
        if s.system not in GATES:
            raise Rejected("it is about no layer")
        if size(s.shape("x")) * size(s.shape("W")) > 40 * MOST_ENTRIES:
            raise Beyond("that many points are more than this checker takes")
        self.s, self.what = s, GATES[s.system]
        self.parts = {part: balls(s.rows(part)) for part in ("W", "B", "V", "U", "R") if s.has(part)}

    def gate(self, x: list[Any]) -> list[Any]:
        """s(x)."""
        kind = self.s.system

        def through(name: str) -> list[Any]:
            return [total(a * y for a, y in zip(row, x, strict=True)) for row in self.parts[name]]

        if kind == "identity":
            return x
        if kind == "swish":
            return [y * logistic(y) for y in x]
        if kind == "pswish":
            return [y * logistic(v) for y, v in zip(x, through("V"), strict=True)]
        if kind == "swiglu":
            return [v * u * logistic(v) for v, u in zip(through("V"), through("U"), strict=True)]
        scores = through("R")
        n = range(len(scores))
        return [1 / (1 + total((scores[k] - scores[j]).exp() for k in n if k != j)) for j in n]

    def __call__(self, x: list[Any]) -> list[Any]:
        """The outputs at a point or box."""
        W, B = self.parts["W"], self.parts["B"]
        if self.s.system == "linear":
            return [total(a * y for a, y in zip(row, x, strict=True)) + b for row, b in zip(W, B, strict=True)]
        s = self.gate(x)
        inner = [
            [total(a * y for a, y in zip(W[k][o], x, strict=True)) + B[k][o] for k in range(len(s))]
            for o in range(len(B[0]))
        ]
        return [total(g * y for g, y in zip(s, row, strict=True)) for row in inner]


def balls(values: Any) -> Any:
    """Nested lists of Fractions as balls."""
    return [balls(x) for x in values] if isinstance(values, list) else real(values)


def logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)), which increases."""
    low, high = (1 / (1 + (-end).exp()) for end in (x.lower(), x.upper()))
    return low.union(high)


def check_enclosure(claim: Claim, context: Any) -> Finding:
    """One output at the point, or on the parts of the box around it."""
    layer, o = Layer(system_of(claim, context)), claim["parameters"].get("output")
    s, topic = layer.s, claim["id"].split("/")[1]
    box = topic == "box"
    where = f"wherever no coordinate of x is further than {RADIUS} from its point" if box else ""
    words(
        claim,
        s,
        f"Output {o} of {layer.what} of {s.name} lies in [low, high] {where}."
        if box
        else f"Output {o} of {layer.what} of {s.name} at its point lies in [low, high].",
        topic=topic,
        more=f"output={o}",
        given={"output": o} | ({"radius": "0x1p-3"} if box else {}),
        bounds=("low", "high"),
    )
    n, d = s.shape("x")
    if n != 1 or type(o) is not int or not 0 <= o < s.shape("B")[-1]:
        raise Rejected("it is about several points, or no output")
    if box and d > 2:
        raise Beyond("a box of more than 2 axes is more than this checker takes")
    with ctx.workprec(BITS):
        point = s.rows("x")[0]
        cells = [point]
        half = Fraction(0)
        if box:
            half = RADIUS / CELLS
            steps = [half * (2 * k + 1 - CELLS) for k in range(CELLS)]
            cells = [[x + step for x, step in zip(point, index, strict=True)] for index in product(steps, repeat=d)]
        found = [layer([real(x) + arb(0, 1) * real(half) for x in cell])[o] for cell in cells]
        low, high = min(map(lower, found)), max(map(upper, found))
    require_lower(claim, "low", low)
    require_upper(claim, "high", high)
    return proved(claim, low=low, high=high)


def outputs(layer: Layer) -> list[Any]:
    """The single output at every point, made once."""

    def make() -> list[Any]:
        with ctx.workprec(BITS):
            return [layer(balls(x))[0] for x in layer.s.rows("x")]

    if layer.s.shape("B")[-1] != 1:
        raise Rejected("it has several outputs")
    found: list[Any] = layer.s.context.cached(("outputs", layer.s.name), make)
    return found


def check_signs(claim: Claim, context: Any) -> Finding:
    """The signs of the outputs and the least magnitude."""
    layer = Layer(system_of(claim, context))
    words(
        claim,
        layer.s,
        f"{at(layer)} have the signs of the witness and are at least `margin` in magnitude.",
        topic="layer",
        bounds=("margin",),
    )
    found = outputs(layer)
    if witness(claim, "positive") != [signs(found)]:
        raise Rejected("the signs of its witness are not those of the outputs")
    with ctx.workprec(BITS):
        margin = min(lower(abs(y)) for y in found)
    require_positive(claim, margin)
    return proved(claim, margin=margin)


def at(layer: Layer) -> str:
    """How sentences about all points begin."""
    return f"The outputs of {layer.what} at the {layer.s.shape('x')[0]} points of {layer.s.name}"


def signs(found: list[Any]) -> list[int]:
    """1 for positive outputs. Beyond where one is not decided."""
    if any(y.contains(0) for y in found):
        raise Beyond("the sign of an output is not decided here")
    return [int(y > 0) for y in found]


def share(layer: Layer) -> Fraction:
    """The share of points whose output has the sign of the label."""
    if not layer.s.has("y"):
        raise Rejected("its points have no labels")
    y = layer.s.rows("y")
    return Fraction(sum(int(a == b) for a, b in zip(signs(outputs(layer)), y, strict=True)), len(y))


def check_accuracy(claim: Claim, context: Any) -> Finding:
    """A share of labels, or the difference of two."""
    layer = Layer(system_of(claim, context))
    if claim["kind"] == "expectation":
        words(
            claim,
            layer.s,
            f"{at(layer)} have the sign of the label, positive for 1, for a share of exactly `value`.",
            topic="accuracy",
            bounds=("value",),
        )
        if number(claim["bounds"]["value"]) != share(layer):
            raise Rejected("its value is not the share")
        return proved(claim, value=share(layer))
    other = Layer(System(context, claim["parameters"].get("other")))
    words(
        claim,
        layer.s,
        f"At the same points {layer.s.name} is right for a larger share than {other.s.name}, by exactly `gap`.",
        topic="accuracy",
        given={"other": other.s.name},
        bounds=("gap",),
    )
    if any(layer.s.rows(part) != other.s.rows(part) for part in ("x", "y")):
        raise Rejected("their points are not the same")
    gap = share(layer) - share(other)
    if number(claim["bounds"]["gap"]) != gap or gap <= 0:
        raise Rejected("the gap is not the difference of the shares, or not positive")
    return proved(claim, gap=gap)


def check_classes(claim: Claim, context: Any) -> Finding:
    """How many outputs are larger than the error of the kernel."""
    layer, format = Layer(system_of(claim, context)), claim["parameters"].get("format")
    s = layer.s
    source, _ = rests_on(claim, s, "y")
    name = source["id"]
    words(
        claim,
        s,
        f"{at(layer)}, computed in {format} as {name} says, have the sign of the exact output at `count` points or "
        "more, where it exceeds the running error bound of that output by at least `margin`; at the others rounding "
        "is not proved to keep it.",
        topic="classes",
        more=str(format),
        given={"format": format, "rounding": name, "points": s.shape("x")[0]},
        bounds=("margin", "count"),
        semantics=claim["semantics"],
    )
    with ctx.workprec(BITS):
        off = largest_gap(outputs(layer), s, "y")
        pairs = zip(outputs(layer), errors_of(source, s, "y"), strict=True)
        found = sorted((lower(abs(y)) - e - off for y, e in pairs), reverse=True)
    count = number(claim["bounds"]["count"])
    if count.denominator != 1 or not 0 < count <= len(found):
        raise Rejected("its count is none")
    require_positive(claim, found[int(count) - 1])
    return proved(claim, margin=found[int(count) - 1])


def check_conic(claim: Claim, context: Any) -> Finding:
    """The discriminant of the conic."""
    s, kind = system_of(claim, context), claim["parameters"].get("conic")
    if s.system != "identity" or s.shape("W") != (2, 1, 2) or kind not in ("elliptic", "hyperbolic"):
        raise Rejected("it is about no conic")
    words(
        claim,
        s,
        f"The quadratic part of x . (W x + B) of {s.name} is {kind}: the determinant of its symmetric matrix is "
        f"{'positive' if kind == 'elliptic' else 'negative'} and at least `margin` in magnitude.",
        topic="conic",
        given={"conic": kind},
        bounds=("margin",),
    )
    ((a, b),), ((c, d),) = s.rows("W")
    discriminant = (4 * a * d - (b + c) ** 2) / 4
    margin = discriminant if kind == "elliptic" else -discriminant
    require_positive(claim, margin)
    return proved(claim, margin=margin)


CHECKS = {
    "enclosure/layer": check_enclosure,
    "enclosure/box": check_enclosure,
    "margin/layer": check_signs,
    "expectation/accuracy": check_accuracy,
    "order/accuracy": check_accuracy,
    "margin/classes": check_classes,
    "margin/conic": check_conic,
}
