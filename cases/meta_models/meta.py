"""Mixtures of experts as meta-linear layers, and meta-n-linear layers: exact values, both orders, and how far these differ.

Proofs: README, sections moe, gate, orders, meta.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
from flint import fmpq_mpoly_ctx

from certify.arithmetic import Format
from certify.certificate import Claim, to_text
from certify.errors import InputRejected

from .inputs import Instance, sizes
from .linear import Vector
from .wording import at_least, at_most, claim, texts

#: Coefficients of a layer whose identity is proved in symbols.
MOST_SYMBOLS = 400


def moe_claims(instance: Instance, formats: list[Format]) -> list[Claim]:
    """Of the system `moe`: a gate of powers of two, so that everything is rational."""
    lengths = sizes(instance)
    W, R, z = instance.array("W"), instance.array("R"), instance.array("z")
    B = instance.array("B")
    gate = binary_gate(instance, R, z)
    experts = [
        [sum(W[e, o, c] * z[c] for c in range(len(z))) + B[e, o] for o in range(lengths["o"])]
        for e in range(lengths["k"])
    ]
    output = [sum((w * y[o] for w, y in zip(gate, experts, strict=True)), Fraction(0)) for o in range(lengths["o"])]
    return [
        identity_claim(instance.name, lengths["k"], lengths["d"]),
        claim(
            "identity",
            "gate",
            instance.name,
            f"The law of the experts of {instance.name}, proportional to 2^(scale R z), is the gate of the witness, "
            "and the mean of their outputs W_e z + B_e under it is exactly the output of the witness.",
            verdict=True,
            witness={"gate": texts(gate), "output": texts(output)},
        ),
        *(_orders(instance, format, W, B, z, gate) for format in formats),
    ]


def binary_gate(instance: Instance, R: Any, z: Any) -> Vector:
    """2^(scale R z), normalised, in rationals. Raises InputRejected unless the scores are whole numbers."""
    scores = [instance.number("scale") * sum(r * x for r, x in zip(row, z, strict=True)) for row in R]
    if any(s.denominator != 1 or abs(s) > 1000 for s in scores):
        raise InputRejected(
            f"{instance.name}: a score scale R z is not a whole number", "choose z, R and scale so that it is"
        )
    powers = [Fraction(2) ** int(s) for s in scores]
    return [p / sum(powers) for p in powers]


def identity_claim(name: str, k: int, d: int) -> Claim:
    """Expert first and parameter first are the same polynomial in the gate, the weights, the biases and the input."""
    counts = {"experts": k, "width": d}
    return claim(
        "identity",
        "moe",
        name,
        f"For every gate w, every W, B and z of the sizes of {name}, each output of the mixture sum_e w_e (W_e z + "
        "B_e) is exactly that of the meta-linear layer (sum_e w_e W_e) z + sum_e w_e B_e: their difference is the "
        "polynomial 0.",
        verdict=k * d <= MOST_SYMBOLS and _same_polynomial(k, d),
        reason=f"more than {MOST_SYMBOLS} coefficients",
        parameters=counts,
        witness=counts,
    )


def _same_polynomial(k: int, d: int) -> bool:
    names = [f"w{e}" for e in range(k)] + [f"z{c}" for c in range(d)]
    names += [f"W{e}_{c}" for e in range(k) for c in range(d)] + [f"B{e}" for e in range(k)]
    symbols = dict(zip(names, fmpq_mpoly_ctx.get(tuple(names), "lex").gens(), strict=True))
    zero = symbols["z0"] * 0
    first, second = zero, zero
    for e in range(k):
        inner = sum((symbols[f"W{e}_{c}"] * symbols[f"z{c}"] for c in range(d)), symbols[f"B{e}"])
        first += symbols[f"w{e}"] * inner
    for c in range(d):
        second += sum((symbols[f"w{e}"] * symbols[f"W{e}_{c}"] for e in range(k)), zero) * symbols[f"z{c}"]
    for e in range(k):
        second += symbols[f"w{e}"] * symbols[f"B{e}"]
    return not (first - second).to_dict()


def _orders(instance: Instance, format: Format, W: Any, B: Any, z: Any, gate: Vector) -> Claim:
    """The bound 2 gamma_n sum |w||W||z|, and what products that underflow may add."""
    k, outputs, d = W.shape
    n = k + d + 1
    u, eta, largest = unit(format)
    worst, peak = Fraction(0), Fraction(0)
    rounded = [w * (1 + u) + eta for w in gate]
    gamma = n * u / (1 - n * u) if n * u < 1 else Fraction(10**6)
    for o in range(outputs):
        biases = [abs(B[e, o]) for e in range(k)]
        size = sum(
            (
                w * (sum(abs(W[e, o, c]) * abs(z[c]) for c in range(d)) + b)
                for e, (w, b) in enumerate(zip(rounded, biases, strict=True))
            ),
            Fraction(0),
        )
        lost = (1 + gamma) * eta * (sum(rounded) * d + k + k * sum((abs(x) for x in z), Fraction(0)) + d + k)
        worst = max(worst, 2 * gamma * size + lost)
        inner = [sum((abs(W[e, o, c] * z[c]) for c in range(d)), biases[e]) for e in range(k)]
        theta = [sum((w * abs(W[e, o, c]) for e, w in enumerate(rounded)), Fraction(0)) for c in range(d)]
        peak = max([peak, (size + lost) * (1 + gamma) ** 2, *((x + lost) * (1 + gamma) ** 2 for x in [*inner, *theta])])
    given = [x for array in (W, z, B) for x in array.ravel()]
    exact = not format.flush and max(map(abs, given)) < largest
    exact = exact and all(Fraction(float(x)) == x and format.holds(np.array(float(x))).all() for x in given)
    return claim(
        "enclosure",
        "orders",
        instance.name,
        f"In {format.name}, with the exact gate of {instance.name} rounded once, the outputs computed expert first, "
        "as sum_e w_e (W_e z + B_e), and parameter first, as (sum_e w_e W_e) z + sum_e w_e B_e, differ by a number "
        "in [low, high], whatever the order of the sums; nothing overflows.",
        more=format.name,
        semantics="any-order",
        verdict=exact and n * u < 1 and peak < largest,
        reason="an input is no number of the format, or the format is too coarse for this many terms",
        parameters={"format": format.name},
        bounds={"low": at_least(-worst), "high": at_most(worst)},
        assumptions=("every operation rounds to nearest; products are not fused with additions",),
    )


def unit(format: Format) -> tuple[Fraction, Fraction, Fraction]:
    """The unit roundoff of a format, half its smallest positive number, and its largest number."""
    return Fraction(format.u), Fraction(format.omega), Fraction(format.largest)


def meta_claims(instance: Instance) -> list[Claim]:
    """Of the system `meta`, with the identity gate: the exact value in every order of contraction, degree and size."""
    shape = instance.tensors["Theta"].shape
    if len(shape) < 3 or any(k != instance.tensors["z"].size for k in shape[1:]) or len(shape) > 6:
        raise InputRejected(
            f"{instance.name}: Theta has the shape {shape}", "give it the shape (d', d, d, ..., d), order 1 to 4"
        )
    Theta, z = instance.array("Theta"), instance.array("z")
    order, d = len(shape) - 2, shape[1]
    by_gates = Theta
    for _ in range(order):  # the last axis first, the input last, as in equations (30)-(33)
        by_gates = by_gates.dot(z)
    value = list(by_gates.dot(z))
    direct = [
        sum(
            (
                row[index] * prod((z[i] for i in index), start=Fraction(1))
                for index in product(range(d), repeat=order + 1)
            ),
            Fraction(0),
        )
        for row in Theta
    ]
    count = shape[0] * d * d**order
    return [
        claim(
            "identity",
            "meta",
            instance.name,
            f"The meta-{order}-linear layer of {instance.name} with the identity gate, its axes contracted from the "
            "last to the first, returns exactly the output of the witness, which is its homogeneous polynomial of "
            f"degree {order + 1} at z, and has d' d k^n = {count} parameters.",
            verdict=value == direct and Theta.size == count,
            reason="the two evaluations differ",
            parameters={"order": order, "count": count},
            bounds={"count": to_text(count)},
            witness={"output": texts(value)},
        )
    ]
