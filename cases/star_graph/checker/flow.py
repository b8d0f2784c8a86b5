"""Phase I in the ratios E = e / p and O = o / p of attention weights, whose Taylor coefficients are sums of products.

With m positions of the end node, n others, and the weights p, e, o of the predecessor, of one of the m and of one of
the others, the gradient flow of the mean of -log(p + e) moves the logits at the rates G - p, (1 - G) / m - e and -o,
where G = p / (p + e). So with p = 1 / (1 + m E + n O) and G = 1 / (1 + E)

    E' = E ((1 - G) / m - G + p (1 - E)),   O' = O (p (1 - O) - G),   E(0) = O(0) = 1,   and x = p / e = 1 / E.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import arb, ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, number, proved

from .circuit import exact
from .words import exactly, require_words

BITS, DEGREE = 256, 26
TIMES = {1, 10, 100}
SIZES = {4: 5, 8: 1}
State = list[arb]


def product(a: Sequence[arb], b: Sequence[arb], k: int) -> arb:
    """Coefficient k of a product."""
    return sum((a[i] * b[k - i] for i in range(k + 1)), arb(0))


def taylor(m: int, start: State, degree: int) -> list[list[arb]]:
    """Coefficients of E and O up to `degree`; those of G, p and of the rates E'/E and O'/O on the way."""
    n = SIZES[m]
    E, O = [start[0]], [start[1]]  # noqa: E741
    G, p, falls, drops = list[arb](), list[arb](), list[arb](), list[arb]()
    for k in range(degree):
        one = int(k == 0)
        weighed = [m * e + n * o for e, o in zip(E, O, strict=True)]
        G.append((one - sum((E[i] * G[k - i] for i in range(1, k + 1)), arb(0))) / (1 + E[0]))
        p.append((one - sum((weighed[i] * p[k - i] for i in range(1, k + 1)), arb(0))) / (1 + weighed[0]))
        falls.append((one - G[k]) / m - G[k] + p[k] - product(p, E, k))
        drops.append(p[k] - product(p, O, k) - G[k])
        E.append(product(E, falls, k) / (k + 1))
        O.append(product(O, drops, k) / (k + 1))
    return [E, O]


def advance(m: int, start: State, h: Fraction) -> State:
    """One step: a box that the flow does not leave (Picard), and on it the remainder (Lagrange)."""
    ahead = exact(h / 2) + arb(0, 1) * exact(h / 2)
    box = start
    for _ in range(12):
        image = [x + ahead * c[1] for x, c in zip(start, taylor(m, box, 1), strict=True)]
        if all(b.contains(x) for b, x in zip(box, image, strict=True)):
            break
        box = [x + (x - x.mid()) / 4 for x in image]  # a little wider than what has to fit
    else:
        raise Beyond("no box holds a step of the flow")
    over, found = taylor(m, box, DEGREE), []
    for c, r in zip(taylor(m, start, DEGREE - 1), over, strict=True):
        value = r[DEGREE]
        for coefficient in reversed(c):
            value = value * exact(h) + coefficient
        found.append(value)
    return found


def reached(m: int, t: int) -> arb:
    """x at time t."""
    now, time = [arb(1), arb(1)], Fraction(0)
    while time < t:
        h = min(t - time, Fraction(1, 8) * (1 + int(time) // 6))
        now, time = advance(m, now, h), time + h
    return 1 / now[0]


def enclosure(claim: Claim, context: Any) -> Finding:
    """Where the flow is at a time."""
    m, t = (claim["parameters"].get(name) for name in ("m", "t"))
    if type(m) is not int or type(t) is not int or m not in SIZES or t not in TIMES:
        raise Rejected("its flow or time is none of this case")
    require_words(claim, context, {"m": m, "t": t}, ["low", "high"], name=f"/m={m}/t={t}")
    low, high = (number(claim["bounds"][name]) for name in ("low", "high"))
    with ctx.workprec(BITS):
        x = context.cached(("star_graph", "flow", m, t), lambda: reached(m, t))
        if not exact(low) <= x <= exact(high):
            raise Rejected("x is not proved to lie there")
    return proved(claim, low=low, high=high)


def rate(claim: Claim, context: Any) -> Finding:
    """(x - 1/m)(x + m) - (x^2 - 1) = (m - 1/m) x, coefficient by coefficient."""
    m = claim["parameters"].get("m")
    if type(m) is not int or m not in SIZES:
        raise Rejected("its flow is none of this case")
    require_words(claim, context, {"m": m, "m_plus_1": m + 1, "m_minus_1": m - 1}, ["margin", "rate"], name=f"/m={m}")
    one = Fraction(1, m)
    constant, linear, square = -one * m + 1, m - one, 1 - 1
    if constant or square:
        raise Rejected("the numerator has other terms")
    return exactly(claim, {"margin": Fraction(0), "rate": linear})


CHECKS = {"enclosure/phase-one": enclosure, "margin/phase-one": rate}
