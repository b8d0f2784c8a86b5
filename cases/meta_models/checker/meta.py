"""Mixtures of experts in two orders, and meta-n-linear layers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from certify.checker.cases.meta_models.parts import (
    MOST_ENTRIES,
    System,
    apply,
    numbers,
    size,
    system_of,
    witness,
    words,
)
from flint import fmpq_mpoly_ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, number, proved, require_lower, require_upper
from certify.checker.formats import format_named

MOST_SYMBOLS = 400


def check_moe_identity(claim: Claim, context: Any) -> Finding:
    """Both layers as polynomials, coefficient by coefficient."""
    s = system_of(claim, context)
    if s.system not in ("moe", "softmax"):
        raise Rejected("it is about no mixture of experts")
    k, _, d = s.shape("W")
    sizes = {"experts": k, "width": d}
    words(
        claim,
        s,
        f"For every gate w, every W, B and z of the sizes of {s.name}, each output of the mixture sum_e w_e (W_e z + "
        "B_e) is exactly that of the meta-linear layer (sum_e w_e W_e) z + sum_e w_e B_e: their difference is the "
        "polynomial 0.",
        topic="moe",
        given=sizes,
    )
    if k * d > MOST_SYMBOLS:
        raise Beyond("that many coefficients are more than this checker takes")
    names = [*(f"w{e}" for e in range(k)), *(f"z{c}" for c in range(d)), *(f"b{e}" for e in range(k))]
    names += [f"m{e}.{c}" for e, c in product(range(k), range(d))]
    ring = fmpq_mpoly_ctx.get(tuple(names), "degrevlex")
    x = dict(zip(names, ring.gens(), strict=True))
    bias = [x[f"b{e}"] for e in range(k)]
    mixture = sum(
        (x[f"w{e}"] * (sum((x[f"m{e}.{c}"] * x[f"z{c}"] for c in range(d)), x["z0"] * 0) + bias[e]) for e in range(k)),
        x["z0"] * 0,
    )
    theta = [sum((x[f"w{e}"] * x[f"m{e}.{c}"] for e in range(k)), x["z0"] * 0) for c in range(d)]
    layer = sum((t * x[f"z{c}"] for c, t in enumerate(theta)), x["z0"] * 0) + sum(
        (x[f"w{e}"] * b for e, b in enumerate(bias)), x["z0"] * 0
    )
    if mixture.to_dict() != layer.to_dict():
        raise Rejected("the two polynomials differ")
    return proved(claim)


def gate_of(s: System) -> list[Fraction]:
    """2^(scale R z), normalised."""
    scores = [s.number("scale") * x for x in apply(s.rows("R"), s.rows("z"))]
    if any(x.denominator != 1 or abs(x) > 2000 for x in scores):
        raise Rejected("a score of the gate is not a whole number")
    return [1 / sum((power(int(y - x)) for y in scores), Fraction(0)) for x in scores]


def power(k: int) -> Fraction:
    """2^k."""
    return Fraction(1 << k) if k >= 0 else Fraction(1, 1 << -k)


def check_gate(claim: Claim, context: Any) -> Finding:
    """The law of the experts and the mean of their outputs, parameters first."""
    s = system_of(claim, context)
    words(
        claim,
        s,
        f"The law of the experts of {s.name}, proportional to 2^(scale R z), is the gate of the witness, and the "
        "mean of their outputs W_e z + B_e under it is exactly the output of the witness.",
        topic="gate",
    )
    gate, (law, output), (k, o, d) = gate_of(s), witness(claim, "gate", "output"), s.shape("W")
    W, z, B = s.rows("W"), s.rows("z"), s.rows("B")
    theta = [[sum(g * W[e][i][c] for e, g in enumerate(gate)) for c in range(d)] for i in range(o)]
    own = [x + sum(g * B[e][i] for e, g in enumerate(gate)) for i, x in enumerate(apply(theta, z))]
    if numbers(law, (k,), "the gate") != gate or numbers(output, (o,), "the output") != own:
        raise Rejected("the gate or the output of its witness is not exact")
    return proved(claim)


def check_orders(claim: Claim, context: Any) -> Finding:
    """Twice gamma_n of the sum of magnitudes, and what underflow adds; nothing overflows."""
    s, format = system_of(claim, context), format_named(claim["parameters"].get("format"))
    words(
        claim,
        s,
        f"In {format.name}, with the exact gate of {s.name} rounded once, the outputs computed expert first, as "
        "sum_e w_e (W_e z + B_e), and parameter first, as (sum_e w_e W_e) z + sum_e w_e B_e, differ by a number in "
        "[low, high], whatever the order of the sums; nothing overflows.",
        topic="orders",
        more=format.name,
        given={"format": format.name},
        bounds=("low", "high"),
        semantics="any-order",
        assumptions=("every operation rounds to nearest; products are not fused with additions",),
    )
    if format.flush:
        raise Beyond("sums that underflow are beyond this bound")
    (k, o, d), u, omega = s.shape("W"), Fraction(format.u), Fraction(format.omega)
    W, z, B = s.rows("W"), s.rows("z"), s.rows("B")
    given = [*z, *(x for e in W for row in e for x in row), *(x for row in B for x in row)]
    if any(abs(x) > format.largest or Fraction(format.nearest(x)) != x for x in given):
        raise Rejected(f"an input is no number of {format.name}")
    n = k + d + 1
    if n * u >= 1:
        raise Rejected(f"{format.name} is too coarse for that many terms")
    growth, high, peak = n * u / (1 - n * u), Fraction(0), Fraction(0)
    gate = [g + u * g + omega for g in gate_of(s)]
    lost = omega * (1 + growth) * (d * sum(gate) + 2 * k + d + k * sum(map(abs, z)))
    for i in range(o):
        inner = [abs(B[e][i]) + sum(abs(a * x) for a, x in zip(W[e][i], z, strict=True)) for e in range(k)]
        magnitude = sum(g * x for g, x in zip(gate, inner, strict=True))
        columns = [sum(g * abs(W[e][i][c]) for e, g in enumerate(gate)) for c in range(d)]
        high = max(high, 2 * growth * magnitude + lost)
        peak = max([peak, magnitude, *inner, *columns])
    if (peak + lost) * (1 + growth) ** 2 >= Fraction(format.largest):
        raise Rejected("an overflow is not excluded")
    require_lower(claim, "low", -high)
    require_upper(claim, "high", high)
    return proved(claim, high=high)


def flat(values: Any) -> Iterator[Fraction]:
    """The entries of nested lists, in order."""
    for x in values:
        if isinstance(x, list):
            yield from flat(x)
        else:
            yield x


def check_meta(claim: Claim, context: Any) -> Finding:
    """The polynomial, term by term; its degree is that of the terms."""
    s = system_of(claim, context)
    shape, z = s.shape("Theta"), s.rows("z")
    order, d = len(shape) - 2, len(z)
    if order < 1 or shape[1:] != (d,) * (order + 1) or size(shape) > MOST_ENTRIES:
        raise Rejected("the shape of Theta is not (d', d, d, ..., d), or it is too large")
    count = shape[0] * d ** (order + 1)
    words(
        claim,
        s,
        f"The meta-{order}-linear layer of {s.name} with the identity gate, its axes contracted from the last to the "
        "first, returns exactly the output of the witness, which is its homogeneous polynomial of degree "
        f"{order + 1} at z, and has d' d k^n = {count} parameters.",
        topic="meta",
        given={"order": order, "count": count},
        bounds=("count",),
    )
    monomials = [prod(x) for x in product(z, repeat=order + 1)]
    own = [sum(a * x for a, x in zip(flat(row), monomials, strict=True)) for row in s.rows("Theta")]
    if (
        numbers(witness(claim, "output")[0], shape[:1], "the output") != own
        or number(claim["bounds"]["count"]) != count
    ):
        raise Rejected("the output of its witness or the count is not exact")
    return proved(claim)


CHECKS = {
    "identity/moe": check_moe_identity,
    "identity/gate": check_gate,
    "enclosure/orders": check_orders,
    "identity/meta": check_meta,
}
