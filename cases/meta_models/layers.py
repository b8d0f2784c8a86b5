"""Layers whose weights depend on their input, f(x) = s(x)^T (W x + B): outputs, classes and accuracy at points, and on boxes.

The gates s are those of section 4.2 of the paper. Proofs: README, sections layer, box, classes, accuracy, conic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from flint import arb, ctx

from certify.arithmetic.balls import sigmoid
from certify.certificate import Claim, parse, to_text
from certify.errors import InputRejected

from .attention import softmax
from .inputs import Instance
from .meta import identity_claim
from .wording import BITS, LEAST_RADIUS, ball, ceil_to, claim, floor_to, high_of, low_of

#: The gates, in words that statements use.
GATES = {
    "linear": "the linear layer W x + B",
    "identity": "the meta-linear layer x . (W x + B)",
    "swish": "the meta-linear layer s . (W x + B), s = x * sigmoid(x),",
    "pswish": "the meta-linear layer s . (W x + B), s = x * sigmoid(V x),",
    "swiglu": "the meta-linear layer s . (W x + B), s = V x * sigmoid(V x) * U x,",
    "softmax": "the mixture of experts s . (W x + B), s = softmax(R x),",
}
#: Half the width of the box around a single point, parts an axis, and the most axes.
RADIUS, PARTS, MOST_AXES = Fraction(1, 8), 16, 2


def layer_claims(instance: Instance, rounding: dict[str, Claim], errors: Mapping[str, Sequence[float]]) -> list[Claim]:
    """All claims about one layer at its points `x`.

    Of the kernel in a format `rounding` holds the claim on which classes rest, and `errors` the bound of each output, point by
    point, unless an overflow is not excluded.
    """
    _require(instance)
    parts = {part: instance.array(part).tolist() for part in instance.tensors}
    points = parts["x"]
    with ctx.workprec(BITS):
        outputs = [evaluate(instance.system, parts, [ball(x) for x in row]) for row in points]
    claims = [identity_claim(instance.name, len(parts["W"]), len(points[0]))] if instance.system == "softmax" else []
    if instance.system == "identity" and len(points[0]) == 2 and len(parts["W"][0]) == 1:
        claims.append(_conic(instance, parts["W"]))
    if len(points) == 1:
        claims += _at_point(instance, parts, outputs[0])
    if len(outputs[0]) == 1:
        claims += _classes(instance, parts, [y for (y,) in outputs], rounding, errors)
    return claims


def evaluate(system: str, parts: dict[str, Any], x: list[Any]) -> list[Any]:
    """The layer at a point or box of balls."""

    def through(matrix: Any) -> list[Any]:
        return [sum((ball(a) * y for a, y in zip(row, x, strict=True)), arb(0)) for row in matrix]

    if system == "linear":
        return [y + ball(b) for y, b in zip(through(parts["W"]), parts["B"], strict=True)]
    if system == "identity":
        s = x
    elif system == "swish":
        s = [y * _sigmoid(y) for y in x]
    elif system == "pswish":
        s = [y * _sigmoid(v) for y, v in zip(x, through(parts["V"]), strict=True)]
    elif system == "swiglu":
        s = [v * _sigmoid(v) * u for v, u in zip(through(parts["V"]), through(parts["U"]), strict=True)]
    else:
        s = softmax(through(parts["R"]))
    rows = [
        [y + ball(b) for y, b in zip(through(W), B, strict=True)] for W, B in zip(parts["W"], parts["B"], strict=True)
    ]
    return [sum((g * row[o] for g, row in zip(s, rows, strict=True)), arb(0)) for o in range(len(rows[0]))]


def _sigmoid(x: Any) -> Any:
    """Of a ball that may be wide: the function increases."""
    low, high = sigmoid(x.lower()), sigmoid(x.upper())
    return low.union(high)


def _require(instance: Instance) -> None:
    if instance.has("y") and any(y not in (0, 1) for y in instance.array("y")):
        raise InputRejected(f"tensor {instance.name}_y has a label other than 0 and 1", "give classes 0 and 1")


def _at_point(instance: Instance, parts: dict[str, Any], output: list[Any]) -> list[Claim]:
    what, claims = GATES[instance.system], []
    for o, y in enumerate(output):
        claims.append(
            claim(
                "enclosure",
                "layer",
                instance.name,
                f"Output {o} of {what} of {instance.name} at its point lies in [low, high].",
                more=f"output={o}",
                verdict=True,
                parameters={"output": o},
                bounds=_interval(low_of(y), high_of(y), Fraction(1, 1 << 200)),
            )
        )
    axes = len(parts["x"][0])
    if axes > MOST_AXES:
        return claims
    ends: list[tuple[Fraction, Fraction]] = []
    with ctx.workprec(BITS):
        for index in product(range(PARTS), repeat=axes):
            half = RADIUS / PARTS
            centre = [x - RADIUS + (2 * k + 1) * half for x, k in zip(parts["x"][0], index, strict=True)]
            box = [ball(x) + arb(0, 1) * ball(half) for x in centre]
            found = evaluate(instance.system, parts, box)
            ends = [
                (min(low_of(y), low), max(high_of(y), high))
                for y, (low, high) in zip(found, ends or [(low_of(y), high_of(y)) for y in found], strict=True)
            ]
    for o, (low, high) in enumerate(ends):
        claims.append(
            claim(
                "enclosure",
                "box",
                instance.name,
                f"Output {o} of {what} of {instance.name} lies in [low, high] wherever no coordinate of x is further "
                f"than {RADIUS} from its point.",
                more=f"output={o}",
                verdict=True,
                parameters={"output": o, "radius": to_text(RADIUS)},
                bounds=_interval(low, high, (high - low) / 32),
            )
        )
    return claims


def _classes(
    instance: Instance,
    parts: dict[str, Any],
    outputs: list[Any],
    rounding: dict[str, Claim],
    errors: Mapping[str, Sequence[float]],
) -> list[Claim]:
    what, n = GATES[instance.system], len(outputs)
    margins = [max(low_of(y), -high_of(y)) for y in outputs]
    decided = min(margins) > 0
    positive = [int(low_of(y) > 0) for y in outputs]
    at = f"The outputs of {what} at the {n} points of {instance.name}"
    claims = [
        claim(
            "margin",
            "layer",
            instance.name,
            f"{at} have the signs of the witness and are at least `margin` in magnitude.",
            verdict=decided,
            reason="the sign of an output is not decided",
            bounds={"margin": to_text(floor_to(min(margins), 240))},
            witness={"positive": positive},
        )
    ]
    if "y" in parts:
        right = sum(int(p == y) for p, y in zip(positive, parts["y"], strict=True))
        claims.append(
            claim(
                "expectation",
                "accuracy",
                instance.name,
                f"{at} have the sign of the label, positive for 1, for a share of exactly `value`.",
                verdict=decided,
                reason="the sign of an output is not decided",
                bounds={"value": to_text(Fraction(right, n))},
            )
        )
    for format, source in rounding.items():
        kept = []
        if format in errors:
            over = [margin - Fraction(e) - LEAST_RADIUS for margin, e in zip(margins, errors[format], strict=True)]
            kept = [floor_to(x, 240) for x in over if x > 0]
        claims.append(
            claim(
                "margin",
                "classes",
                instance.name,
                f"{at}, computed in {format} as {source.id} says, have the sign of the exact output at `count` "
                "points or more, where it exceeds the running error bound of that output by at least `margin`; at "
                "the others rounding is not proved to keep it.",
                more=format,
                semantics=source.semantics,
                verdict=bool(kept) and min(kept) > 0,
                reason="no class is proved to be kept",
                parameters={"format": format, "rounding": source.id, "points": n},
                bounds={"margin": to_text(min(kept)), "count": str(len(kept))} if kept else {},
            )
        )
    return claims


def accuracy_order(better: Instance, worse: Instance, first: Claim, second: Claim) -> list[Claim]:
    """That the mixture is right at more points than the linear layer, where both have the same points and labels."""
    same = all(better.has(p) and worse.has(p) and (better.array(p) == worse.array(p)).all() for p in "xy")
    if not same or not first.bounds or not second.bounds:
        return []
    gap = parse(first.bounds["value"]) - parse(second.bounds["value"])
    return [
        claim(
            "order",
            "accuracy",
            better.name,
            f"At the same points {better.name} is right for a larger share than {worse.name}, by exactly `gap`.",
            verdict=gap > 0,
            reason=f"the difference is {float(gap):.3g}",
            parameters={"other": worse.name},
            bounds={"gap": to_text(gap)},
        )
    ]


def _conic(instance: Instance, W: Any) -> Claim:
    """The boundary of the identity gate is the conic x^T W x + B^T x = 0, of the kind that the sign of det sym(W) says."""
    a, b, d = W[0][0][0], (W[0][0][1] + W[1][0][0]) / 2, W[1][0][1]
    det = a * d - b * b
    kind = "elliptic" if det > 0 else "hyperbolic"
    return claim(
        "margin",
        "conic",
        instance.name,
        f"The quadratic part of x . (W x + B) of {instance.name} is {kind}: the determinant of its symmetric matrix "
        f"is {'positive' if det > 0 else 'negative'} and at least `margin` in magnitude.",
        verdict=det != 0,
        reason="the determinant is 0: the conic is parabolic or degenerate",
        parameters={"conic": kind},
        bounds={"margin": to_text(abs(det))},
    )


def _interval(low: Fraction, high: Fraction, slack: Fraction) -> dict[str, str]:
    """Ends moved out by the slack, so that an enclosure by other operations proves them, and to a multiple of 2**-240."""
    return {"low": to_text(floor_to(low - slack, 240)), "high": to_text(ceil_to(high + slack, 240))}
