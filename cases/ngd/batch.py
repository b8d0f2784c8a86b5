"""The training problem of two scalars for a batch of contexts: its minimiser in a box, alone in a larger one (C10, C12b).

Krawczyk's test gives a stationary point in a small box. On the larger box around it the Hessian is positive definite, piece by
piece: so the loss is strictly convex there, and has no other stationary point.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from certify.cases.ngd.balls import lower, upper
from certify.cases.ngd.claims import above, below, certified, undecided
from certify.cases.ngd.state import Batch, fraction, rational
from flint import Ordering, arb, ctx, fmpq_mpoly_ctx

from certify.arithmetic.directed import relaxed_down, relaxed_up
from certify.certificate import Claim, to_hex, to_text

_BITS = 128
#: The box of uniqueness reaches this far beyond the minimiser, and is cut into so many pieces along each axis.
RADIUS, PIECES = Fraction(1, 8), 16
_HALF_WIDTH = Fraction(1, 1 << 46)


@dataclass(frozen=True)
class Derivatives:
    """Gradient and Hessian of the loss mean_b |C1 U_b(C2) - G_b|^2 on a box."""

    gradient: tuple[Any, Any]
    hessian: tuple[Any, Any, Any]


def derivatives(batch: Batch, C1: Any, C2: Any) -> Derivatives:
    """On the box C1 x C2 of balls.

    U = sum_i p_i z_i with p = softmax(-C2 s), s_i = <z_i, theta_0>; U' = -sum p_i (s_i - m) z_i and
    U'' = sum p_i ((s_i - m)^2 - v) z_i, where m and v are mean and variance of s under p. G = (1/n) sum e^{-s_i} z_i.
    """
    totals = [arb(0)] * 5
    for rows, theta in zip(batch.Z, batch.theta, strict=True):
        Z = [[arb(x) for x in row] for row in rows]
        s = [arb(sum((x * y for x, y in zip(row, theta, strict=True)), rational(0))) for row in rows]
        e = [(-C2 * x).exp() for x in s]
        mass = sum(e, arb(0))
        p = [x / mass for x in e]
        m = _dot(p, s)
        central = [x - m for x in s]
        v = _dot(p, [x * x for x in central])
        columns = range(len(theta))
        U = [_dot(p, [row[k] for row in Z]) for k in columns]
        first = [-_dot([a * b for a, b in zip(p, central, strict=True)], [row[k] for row in Z]) for k in columns]
        weights = [a * (b * b - v) for a, b in zip(p, central, strict=True)]
        second = [_dot(weights, [row[k] for row in Z]) for k in columns]
        G = [_dot([(-x).exp() / len(rows) for x in s], [row[k] for row in Z]) for k in columns]
        rest = [C1 * a - b for a, b in zip(U, G, strict=True)]
        parts = [
            2 * _dot(U, rest),
            2 * C1 * _dot(first, rest),
            2 * _dot(U, U),
            2 * (_dot(first, rest) + C1 * _dot(U, first)),
            2 * C1 * (C1 * _dot(first, first) + _dot(second, rest)),
        ]
        totals = [a + b for a, b in zip(totals, parts, strict=True)]
    g1, g2, h11, h12, h22 = (x / len(batch.Z) for x in totals)
    return Derivatives((g1, g2), (h11, h12, h22))


def batch_claims(batch: Batch) -> list[Claim]:
    """The minimiser, and how it moves with the rate of the teacher."""
    return [_minimiser(batch), _scaling(batch)]


def _minimiser(batch: Batch) -> Claim:
    eta, d, K = fraction(batch.eta), len(batch.theta[0]), len(batch.Z)
    statement = (
        f"For the batch of {K} contexts and a teacher of rate 1, the training loss of two scalars has exactly one "
        "stationary point C* with C1 within `radius` of [`C1_low`, `C1_high`] and C2 of [`low`, `high`], and it is in these "
        "intervals; the eigenvalues of the Hessian there are at least `mu` > 0, and a step of descent of rate "
        f"{eta}/{d} takes every C within `radius` of C* nearer to C*, by a factor of at most `factor`."
    )
    id, parameters = f"enclosure/batch-minimiser/K={K}", {"K": K}
    with ctx.workprec(_BITS):
        middle = _newton(batch)
        tight = _krawczyk(batch, middle, tuple(_ball(x, _HALF_WIDTH) for x in middle))
    with ctx.workprec(64):
        mu, most = _eigenvalues(batch, middle, RADIUS + 2 * _HALF_WIDTH)
    rate = eta / d
    factor = max(abs(1 - rate * mu), abs(1 - rate * most))
    if tight is None or mu <= 0 or factor >= 1:
        return undecided(
            id, statement, "batch", "Krawczyk's test or the eigenvalues do not decide", parameters=parameters
        )
    # the box of the test rather than its image, which is narrower than one number of binary64
    ends = [(x - _HALF_WIDTH, x + _HALF_WIDTH) for x in middle]
    bounds = {"C1_low": below(ends[0][0]), "C1_high": above(ends[0][1])}
    bounds |= {"low": below(ends[1][0]), "high": above(ends[1][1]), "radius": to_text(RADIUS)}
    bounds |= {"mu": to_hex(relaxed_down(float(mu))), "factor": to_hex(relaxed_up(float(factor)))}
    return certified(id, statement, "batch", parameters=parameters, bounds=bounds)


def _eigenvalues(batch: Batch, middle: tuple[Fraction, Fraction], radius: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of the eigenvalues of the Hessian on the square around `middle`, piece by piece."""
    least, most = Fraction(1 << 30), Fraction(-(1 << 30))
    half = radius / PIECES
    ends = [[x - radius + (2 * i + 1) * half for i in range(PIECES)] for x in middle]
    for x in ends[0]:
        for y in ends[1]:
            h11, h12, h22 = derivatives(batch, _ball(x, half), _ball(y, half)).hessian
            spread = ((h11 - h22) * (h11 - h22) + 4 * h12 * h12).nonnegative_part().sqrt()
            trace = h11 + h22
            # the smaller one as det / larger, which does not cancel
            larger = (trace + spread) / 2
            least = min(least, lower((h11 * h22 - h12 * h12) / larger) if larger > 0 else Fraction(-1))
            most = max(most, upper(larger))
    return least, most


def _newton(batch: Batch) -> tuple[Fraction, Fraction]:
    """A point near the minimiser, by Newton's method from (e^{1/2}, 1) in middles; nothing rests on it."""
    C1, C2 = arb(0.5).exp().mid(), arb(1)
    for _ in range(12):
        found = derivatives(batch, C1, C2)
        (a, b, c), (x, y) = found.hessian, found.gradient
        det = a * c - b * b
        C1, C2 = (C1 - (c * x - b * y) / det).mid(), (C2 - (a * y - b * x) / det).mid()
    return Fraction(float(C1)), Fraction(float(C2))


def _krawczyk(batch: Batch, middle: tuple[Fraction, Fraction], box: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """The image of a box around `middle` under Krawczyk's operator, if it lies inside: it has one zero of the gradient, there.

    K(X) = m - Y g(m) + (I - Y H(X)) (X - m) with Y near H(m)^-1. Source: R. Krawczyk, Computing 4 (1969); R. E. Moore, SIAM J.
    Numer. Anal. 14 (1977): if K(X) lies in the interior of X, then X has exactly one zero, and it is in K(X).
    """
    m = [arb(rational(x)) for x in middle]
    at, over = derivatives(batch, m[0], m[1]), derivatives(batch, box[0], box[1])
    a, b, c = (x.mid() for x in at.hessian)
    det = (a * c - b * b).mid()
    Y = [[(c / det).mid(), (-b / det).mid()], [(-b / det).mid(), (a / det).mid()]]
    H = [[over.hessian[0], over.hessian[1]], [over.hessian[1], over.hessian[2]]]
    image = []
    for i in range(2):
        value = m[i] - (Y[i][0] * at.gradient[0] + Y[i][1] * at.gradient[1])
        for j in range(2):
            entry = (1 if i == j else 0) - (Y[i][0] * H[0][j] + Y[i][1] * H[1][j])
            value += entry * (box[j] - m[j])
        image.append(value)
    good = all(x.contains_interior(y) for x, y in zip(box, image, strict=True))
    return (image[0], image[1]) if good else None


def _scaling(batch: Batch) -> Claim:
    """With rate alpha of the teacher, the loss at (alpha C1, C2) is alpha^2 that of rate 1 at (C1, C2): in symbols."""
    K, d = len(batch.Z), len(batch.theta[0])
    names = [f"{letter}{b}_{k}" for letter in "ug" for b in range(K) for k in range(d)]
    ring = fmpq_mpoly_ctx.get([*names, "alpha", "C"], Ordering.degrevlex)
    *entries, alpha, C = ring.gens()
    pairs = list(zip(entries[: K * d], entries[K * d :], strict=True))

    def loss(c: Any, rate: Any) -> Any:
        return sum(((c * u - rate * g) ** 2 for u, g in pairs), ring.constant(0))

    statement = (
        f"For every batch of {K} contexts in {d} dimensions, the training loss of two scalars with a teacher of rate alpha is "
        "at (alpha C1, C2) alpha^2 times that with rate 1 at (C1, C2): minimisers are (alpha c1, c2) with the same c1 and c2."
    )
    id, parameters = f"identity/scaling/K={K},d={d}", {"K": K, "d": d}
    if loss(alpha * C, alpha) != alpha * alpha * loss(C, ring.constant(1)):
        return undecided(id, statement, "batch", "the polynomials differ", parameters=parameters)
    return certified(id, statement, "batch", parameters=parameters)


def _ball(x: Fraction, radius: Fraction) -> Any:
    return arb(rational(x)) + arb(0, arb(rational(radius)).upper())


def _dot(a: list[Any], b: list[Any]) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))
