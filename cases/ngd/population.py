r"""The training problem of two scalars for infinitely many examples: its only minimiser in a strip, in a small box (C9, C12).

One layer with C = (C1, k) is trained to do a step of plain descent with rate alpha = 1. With n -> infinity its output is
theta_0 + C1 U_k, that of the teacher theta_0 + G, where (README.md#population) for c = <theta*, theta_0>,
h(x) = phi(x) / Phi(-x), U_k = -s^2 k theta_0 + s h(s k c) theta*, G = 2 e^{s^2/2} Phi(-s c) (-s^2 theta_0 + s h(s c) theta*),
and c has a density proportional to (1 - c^2)^{(d-3)/2}. The loss is quadratic in C1, so stationary points have
C1 = <U, G>/<U, U> or <U, G> = 0, and

    F(k) = <U', G><U, U> - <U, G><U', U> = 0,   <X, Y> = E_c X . Y,

F having the sign of minus the derivative of the loss that is minimal in C1. With c = sin x every mean is an integral over
[-pi/2, pi/2] with the weight cos^{d-2} x, of a function without singularities on it; arb encloses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from certify.cases.ngd.balls import lower, upper
from certify.cases.ngd.claims import above, below, certified, undecided
from certify.cases.ngd.state import rational
from flint import acb, arb, ctx

from certify.certificate import Claim, to_text

#: C2 is looked for here, whatever C1.
STRIP = (Fraction(1, 2), Fraction(2))
#: It is cut into so many pieces, and these further, up to so many; an integral may take so many values of its integrand.
_PIECES, _MOST_PIECES, _MOST_VALUES = 12, 200, 4000
_HALF_WIDTH = Fraction(1, 1 << 46)
_LOSS_BITS = 120
_NAMES = ("U", "dU", "ddU", "G")
#: The means that F needs, and its derivative beside them.
_FOR_SIGN = (("U", "U"), ("U", "G"), ("dU", "G"), ("dU", "U"))
_FOR_SLOPE = (("ddU", "G"), ("ddU", "U"), ("dU", "dU"))


@dataclass(frozen=True)
class Population:
    """The problem in d dimensions with examples of variance s^2."""

    d: int
    s: Fraction

    def means(self, k: Any, pairs: Iterable[tuple[str, str]], tolerance: float) -> list[Any]:
        """Enclosures of <X, Y> for all k of a ball, each times the integral of the weight."""
        half = acb.pi() / 2
        found = []
        for left, right in pairs:
            a, b = _NAMES.index(left), _NAMES.index(right)

            def integrand(x: Any, _: bool, a: int = a, b: int = b) -> Any:
                c, vectors = self._at(x, k)
                (p, q), (r, t) = vectors[a], vectors[b]
                return x.cos() ** (self.d - 2) * (p * r + q * t + c * (p * t + q * r))

            found.append(
                acb.integral(integrand, -half, half, rel_tol=tolerance, abs_tol=tolerance, eval_limit=_MOST_VALUES).real
            )
        return found

    def _at(self, x: Any, k: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """C and the coefficients on theta_0 and theta* of U, its two derivatives in k, and G."""
        s, c, root = arb(rational(self.s)), x.sin(), acb(2).sqrt()
        y, z = k * s * c, s * c
        h = (acb(2) / acb.pi()).sqrt() * (-y * y / 2).exp() / (y / root).erfc()
        dh = h * (h - y)
        ddh = (dh - 1) * h + (h - y) * dh
        weight, density = (s * s / 2).exp(), (-z * z / 2).exp() / (2 * acb.pi()).sqrt()
        U = (acb(-s * s * k), s * h)
        dU = (acb(-s * s), s * s * c * dh)
        ddU = (acb(0), s * s * s * c * c * ddh)
        G = (-s * s * weight * (z / root).erfc(), 2 * s * weight * density)
        return c, [U, dU, ddU, G]

    def sign(self, k: Any, tolerance: float) -> tuple[Any, Any, Any]:
        """F up to a positive factor, <U, G>, and C1."""
        uu, ug, dg, du = self.means(k, _FOR_SIGN, tolerance)
        return dg * uu - ug * du, ug, ug / uu

    def is_settled(self, low: Fraction, high: Fraction) -> bool:
        """Whether on [low, high] F has a sign, or a negative derivative; and <U, G> > 0, which excludes C1 = 0."""
        k = arb(rational(low)).union(arb(rational(high)))
        tolerance = 2.0**-14
        uu, ug, dg, du = self.means(k, _FOR_SIGN, tolerance)
        if not ug > 0:
            return False
        value = dg * uu - ug * du
        if value > 0 or value < 0:
            return True
        ddg, ddu, dd = self.means(k, _FOR_SLOPE, tolerance)
        return bool(ddg * uu + dg * du - ug * (ddu + dd) < 0)


def minimiser_claim(d: int, s: Fraction) -> Claim:
    """The minimiser in a box, alone in the strip."""
    problem = Population(d, s)
    statement = (
        f"For infinitely many examples in d = {d} dimensions, sigma = {s} and a teacher of rate 1, the training loss of two "
        f"scalars has exactly one stationary point with any C1 and {STRIP[0]} <= C2 <= {STRIP[1]}, and is least there: C1 is "
        "from `C1_low` to `C1_high` and C2 from `low` to `high`."
    )
    id = f"enclosure/minimiser/d={d},s={s}"
    parameters = {"d": d, "sigma": to_text(s)}
    with ctx.workprec(96):
        guess = _guess(problem)
        low, high = guess - _HALF_WIDTH, guess + _HALF_WIDTH
        tolerance = 2.0**-70
        signs = [problem.sign(arb(rational(x)), tolerance)[0] for x in (low, high)]
        k = arb(rational(low)).union(arb(rational(high)))
        C1 = problem.sign(k, 2.0**-60)[2]
        bracket = bool(signs[0] > 0 and signs[1] < 0)
    with ctx.workprec(53):
        unsettled = _unsettled(problem)
    if not bracket or unsettled is not None:
        reason = "no change of sign is proved" if not bracket else f"a second one is not excluded near C2 = {unsettled}"
        return undecided(id, statement, "population", reason, parameters=parameters)
    bounds = {"C1_low": below(lower(C1)), "C1_high": above(upper(C1)), "low": below(low), "high": above(high)}
    return certified(id, statement, "population", parameters=parameters, bounds=bounds)


def _guess(problem: Population) -> Fraction:
    """By secants through middles of enclosures; nothing rests on it."""
    points = [(0.9, 0.0), (1.1, 0.0)]
    points = [(k, float(problem.sign(arb(k), 2.0**-60)[0].mid())) for k, _ in points]
    while abs(points[-1][0] - points[-2][0]) > 2.0**-44 and len(points) < 20:
        (a, x), (b, y) = points[-2:]
        k = b - y * (b - a) / (y - x)
        points.append((k, float(problem.sign(arb(k), 2.0**-60)[0].mid())))
    return Fraction(points[-1][0])


def _unsettled(problem: Population) -> float | None:
    """Where in the strip more than one zero of F is not excluded; None if nowhere.

    Once F is not positive it is negative from there on: a piece on which F has a sign keeps it, on the others F falls. So it
    has one zero at most in the strip.
    """
    step = (STRIP[1] - STRIP[0]) / _PIECES
    stack = [(STRIP[0] + i * step, STRIP[0] + (i + 1) * step) for i in range(_PIECES)]
    pieces = 0
    while stack:
        low, high = stack.pop()
        pieces += 1
        if problem.is_settled(low, high):
            continue
        if pieces >= _MOST_PIECES:
            return float(low)
        middle = (low + high) / 2
        stack += [(low, middle), (middle, high)]
    return None


def zero_claim(n: int, d: int, s: Fraction) -> Claim:
    """The loss and its derivative in C1 at C = 0 for n examples, in closed form but for one mean over c."""
    problem = Population(d, s)
    with ctx.workprec(2 * _LOSS_BITS):
        sigma = arb(rational(s))
        square = sigma * sigma
        gg, total, cross = _at_zero(problem, 2.0**-180)
        share = arb(n - 1) / n
        loss = (2 * square).exp() * (d * square + 4 * square * square) / n + share * gg / total
        slope = (square / 2).exp() * (d * square + square * square) / n
        slope = -2 * (slope + share * sigma * (2 / arb.pi()).sqrt() * cross / total)
        ends = [lower(loss), upper(loss), lower(slope), upper(slope)]
    grid = 1 << _LOSS_BITS
    texts = [to_text(Fraction(x * grid // 1 if k % 2 == 0 else -(-x * grid // 1), grid)) for k, x in enumerate(ends)]
    statement = (
        f"For n = {n} examples in d = {d} dimensions, sigma = {s} and a teacher of rate 1, the training loss at V = W = 0 is "
        "from `low` to `high` and its derivative in C1 from `slope_low` to `slope_high`."
    )
    names = ("low", "high", "slope_low", "slope_high")
    return certified(
        f"enclosure/zero/n={n},d={d},s={s}",
        statement,
        "closed-forms",
        parameters={"n": n, "d": d, "sigma": to_text(s)},
        bounds=dict(zip(names, texts, strict=True)),
    )


def _at_zero(problem: Population, tolerance: float) -> tuple[Any, Any, Any]:
    """The integrals of |G|^2, of 1 and of c g0 + g*, with the weight."""
    half, k = acb.pi() / 2, arb(1)

    def size(x: Any, _: bool) -> Any:
        c, (*_unused, (p, q)) = problem._at(x, k)
        return x.cos() ** (problem.d - 2) * (p * p + q * q + 2 * c * p * q)

    def cross(x: Any, _: bool) -> Any:
        c, (*_unused, (p, q)) = problem._at(x, k)
        return x.cos() ** (problem.d - 2) * (c * p + q)

    def one(x: Any, _: bool) -> Any:
        return x.cos() ** (problem.d - 2)

    gg, total, mixed = (
        acb.integral(f, -half, half, rel_tol=tolerance, abs_tol=tolerance).real for f in (size, one, cross)
    )
    return gg, total, mixed
