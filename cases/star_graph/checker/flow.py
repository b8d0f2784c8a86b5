"""Phase I in attention weights: a polynomial flow, whose Taylor coefficients are sums of products.

With m positions of the end node, n others, s = (p, e, o) the weights of the predecessor, of one of the m, and of one of the others,
and G = p / (p + e), the gradient flow of -log(p + e), averaged, moves the logits at the rates

    P = G - p,   Q = (1 - G) / m - e,   R = -o,

and softmax at p' = p (P - c), e' = e (Q - c), o' = o (R - c) with c = p P + m e Q + n o R; and G' = G (1 - G)(P - Q). It starts at
p = e = o = 1/10 and G = 1/2, and x = p / e = G / (1 - G).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import arb, ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, number, proved

from .circuit import exact
from .words import exactly, require_words

BITS, DEGREE = 256, 20
TIMES = {1, 10, 100}
SIZES = {4: 5, 8: 1}
State = list[arb]


def product(a: Sequence[arb], b: Sequence[arb], k: int) -> arb:
    """Coefficient k of a product."""
    return sum((a[i] * b[k - i] for i in range(k + 1)), arb(0))


def taylor(m: int, start: State, degree: int) -> list[list[arb]]:
    """Coefficients of p, e, o, G up to `degree`."""
    n = SIZES[m]
    series = [[x] for x in start]
    p, e, o, G = series
    pP, eQ, oR, drift, rest, gap = ([] for _ in range(6))
    for k in range(degree):
        P, Q = [a - b for a, b in zip(G, p, strict=True)], [(int(i == 0) - G[i]) / m - e[i] for i in range(k + 1)]
        pP.append(product(p, P, k))
        eQ.append(product(e, Q, k))
        oR.append(-product(o, o, k))
        drift.append(pP[k] + m * eQ[k] + n * oR[k])
        rest.append(G[k] - product(G, G, k))
        gap.append(P[k] - Q[k])
        slopes = [pP[k] - product(p, drift, k), eQ[k] - product(e, drift, k), oR[k] - product(o, drift, k)]
        for x, slope in zip(series, [*slopes, product(rest, gap, k)], strict=True):
            x.append(slope / (k + 1))
    return series


def advance(m: int, start: State, h: Fraction) -> State:
    """One step: a box that the flow does not leave (Picard), and on it the remainder (Lagrange)."""
    ahead = exact(h / 2) + arb(0, 1) * exact(h / 2)
    box = start
    for _ in range(12):
        image = [x + ahead * c[1] for x, c in zip(start, taylor(m, box, 1), strict=True)]
        if all(b.contains(x) for b, x in zip(box, image, strict=True)):
            break
        box = [x + (x - x.mid()) / 4 + arb(0, 2.0**-200) for x in image]  # a little wider than what has to fit
    else:
        raise Beyond("no box holds a step of the flow")
    over = taylor(m, box, DEGREE)
    found = []
    for c, r in zip(taylor(m, start, DEGREE - 1), over, strict=True):
        value = r[DEGREE]
        for coefficient in reversed(c):
            value = value * exact(h) + coefficient
        found.append(value)
    return found


def reached(m: int, t: int) -> arb:
    """x at time t."""
    now, time = [exact(Fraction(1, 10))] * 3 + [exact(Fraction(1, 2))], Fraction(0)
    while time < t:
        h = min(t - time, Fraction(1, 8) * (1 + int(time) // 6))
        now, time = advance(m, now, h), time + h
    return now[3] / (1 - now[3])


def enclosure(claim: Claim, context: Any) -> Finding:
    """Where the flow is at a time."""
    m, t = (claim["parameters"].get(name) for name in ("m", "t"))
    if m not in SIZES or t not in TIMES or type(m) is not int or type(t) is not int:
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
    if m not in SIZES or type(m) is not int:
        raise Rejected("its flow is none of this case")
    require_words(claim, context, {"m": m, "m_plus_1": m + 1, "m_minus_1": m - 1}, ["rate"], name=f"/m={m}")
    one = Fraction(1, m)
    constant, linear, square = -one * m + 1, m - one, 1 - 1
    if constant or square:
        raise Rejected("the numerator has other terms")
    return exactly(claim, {"rate": linear})


CHECKS = {"enclosure/phase-one": enclosure, "margin/phase-one": rate}
