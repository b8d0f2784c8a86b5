"""The training problem of two scalars, proved again: in orthonormal coordinates, with derivatives from power series in C2."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from certify.checker.cases.ngd.layers import ball, exact
from certify.checker.cases.ngd.setting import THEOREM, require_certified, table
from flint import acb, acb_series, arb, ctx

from certify.checker.boxes import ball_of
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
    require_upper,
)

_LOW, _HIGH = Fraction(1, 2), Fraction(2)
_MOST_PIECES, _MOST_VALUES = 200, 4000
_TERMS = 3
Series = Any


class Training:
    """Infinitely many examples of variance s^2 in d dimensions, in the plane of a = theta_0 and b orthogonal to it.

    There theta* = (c, sqrt(1 - c^2)) with c = sin x, U = (s h c - s^2 k, s h sqrt(1 - c^2)) for h = phi(s k c) / Phi(-s k c),
    and G = e^{s^2/2} (s q c - s^2 r, s q sqrt(1 - c^2)) for r = 2 Phi(-s c) and q = 2 phi(s c).
    """

    def __init__(self, d: int, s: Fraction) -> None:
        self.d, self.s = d, s

    def output(self, x: Any, k: Series) -> tuple[Series, Series]:
        """U for C2 = k, a series."""
        s, c = ball(self.s), x.sin()
        y = k * (s * c)
        # h(y) = phi(y) / Phi(-y)
        tail = (y * (1 / acb(2).sqrt())).erfc()
        if tail[0].contains(0):  # nothing is known on such a piece: the integration cuts it
            return (acb_series([acb("nan")] * _TERMS), acb_series([acb("nan")] * _TERMS))
        h = (y * y * acb(-0.5)).exp() * (acb(2) / acb.pi()).sqrt() / tail
        return h * (s * c) - k * (s * s), h * (s * x.cos())

    def teacher(self, x: Any) -> tuple[Any, Any]:
        """G for a teacher of rate 1."""
        s = ball(self.s)
        y = s * x.sin()
        front = (s * s / 2).exp()
        r = (y / acb(2).sqrt()).erfc()
        q = 2 * (-y * y / 2).exp() / (2 * acb.pi()).sqrt()
        return front * (s * q * x.sin() - s * s * r), front * s * q * x.cos()

    def mean(self, f: Callable[[Any], Any], tolerance: float) -> Any:
        """The integral of f times the weight of c, enclosed."""
        half = acb.pi() / 2

        def weighted(x: Any, _: bool) -> Any:
            return f(x) * x.cos() ** (self.d - 2)

        return acb.integral(weighted, -half, half, abs_tol=tolerance, rel_tol=tolerance, eval_limit=_MOST_VALUES).real

    def products(self, k: Any, order: int, tolerance: float) -> list[list[Any]]:
        """In row i <U_i, U_j> from j = i on and, last, <U_i, G>, for the Taylor coefficients U_0, ..., U_order of U at k."""
        count = order + 1

        def product(i: int, j: int) -> Callable[[Any], Any]:
            def value(x: Any) -> Any:
                first, second = self.output(x, acb_series([acb(k), 1], _TERMS))
                vectors = [*((first[m], second[m]) for m in range(count)), self.teacher(x)]
                a, b = vectors[i], vectors[j]
                return a[0] * b[0] + a[1] * b[1]

            return value

        return [[self.mean(product(i, j), tolerance) for j in range(i, count + 1)] for i in range(count)]

    def falls(self, k: Any, order: int, tolerance: float) -> tuple[Any, ...]:
        """F, and with order 2 its derivative; then <U, G>, <U, U>.

        F = <U_1, G><U, U> - <U, G><U_1, U> has the sign of minus the derivative of the loss that is least in C1.
        """
        with_g = self.products(k, order, tolerance)
        (uu, ud, *_), (dd, *_) = with_g[0], with_g[1]
        ug, dg = with_g[0][-1], with_g[1][-1]
        value = dg * uu - ug * ud
        if order < 2:
            return value, ug, uu
        ue, eg = with_g[0][2], with_g[2][-1]
        return value, 2 * eg * uu + dg * ud - ug * (2 * ue + dd), ug, uu


def check_minimiser(claim: Claim, context: Any) -> Finding:
    """F changes its sign in the bracket, and once only in the strip; C1 follows from the bracket."""
    d = integer(claim["parameters"].get("d"), 3, 200, "d")
    s = number(claim["parameters"].get("sigma"))
    if (d, s.numerator, s.denominator) not in table(context, "population"):
        raise Rejected("its problem is none of the state")
    statement = (
        f"For infinitely many examples in d = {d} dimensions, sigma = {s} and a teacher of rate 1, the training loss of two "
        f"scalars has exactly one stationary point with any C1 and {_LOW} <= C2 <= {_HIGH}, and is least there: C1 is "
        "from `C1_low` to `C1_high` and C2 from `low` to `high`."
    )
    bounds = ("low", "high", "C1_low", "C1_high")
    words = {"statement": statement, "theorem": f"{THEOREM}population", "semantics": "real"}
    agrees(claim, context, id=f"enclosure/minimiser/d={d},s={s}", parameters=("d", "sigma"), bounds=bounds, **words)
    require_certified(claim)
    low, high = number(claim["bounds"]["low"]), number(claim["bounds"]["high"])
    if not _LOW < low < high < _HIGH:
        raise Rejected("its bracket is not inside the strip")
    problem = Training(d, s)
    with ctx.workprec(112):
        first, last = (problem.falls(ball(x), 1, 2.0**-80)[0] for x in (low, high))
        if not (first > 0 and last < 0):
            raise Rejected("F is not proved to change its sign in the bracket")
        _, ug, uu = problem.falls(ball_of((low, high)), 1, 2.0**-70)
        C1 = ug / uu
    require_lower(claim, "C1_low", exact(C1.lower()))
    require_upper(claim, "C1_high", exact(C1.upper()))
    with ctx.workprec(53):
        stack = [(_LOW + Fraction(i, 8), _LOW + Fraction(i + 1, 8)) for i in range(12)]
        pieces = 0
        while stack:
            pieces += 1
            a, b = stack.pop()
            value, slope, ug, _ = problem.falls(ball_of((a, b)), 2, 2.0**-14)
            if ug > 0 and (value > 0 or value < 0 or slope < 0):
                continue
            if pieces >= _MOST_PIECES:
                raise Beyond("a second zero of F is not excluded by this checker")
            stack += [(a, (a + b) / 2), ((a + b) / 2, b)]
    return proved(claim, low=low, high=high)


def check_zero(claim: Claim, context: Any) -> Finding:
    """The loss and its derivative at 0: means over pairs of examples, equal and different."""
    n, d = (integer(claim["parameters"].get(name), 3, 10_000, name) for name in ("n", "d"))
    s = number(claim["parameters"].get("sigma"))
    if (n, d, s.numerator, s.denominator) not in table(context, "closed"):
        raise Rejected("its problem is none of the state")
    statement = (
        f"For n = {n} examples in d = {d} dimensions, sigma = {s} and a teacher of rate 1, the training loss at V = W = 0 is "
        "from `low` to `high` and its derivative in C1 from `slope_low` to `slope_high`."
    )
    bounds = ("low", "high", "slope_low", "slope_high")
    words = {"statement": statement, "theorem": f"{THEOREM}closed-forms", "semantics": "real"}
    id, parameters = f"enclosure/zero/n={n},d={d},s={s}", ("n", "d", "sigma")
    agrees(claim, context, id=id, parameters=parameters, bounds=bounds, **words)
    require_certified(claim)
    problem = Training(d, s)
    with ctx.workprec(256):
        total = problem.mean(lambda x: acb(1), 2.0**-200)
        v = ball(s * s)

        def squared(x: Any) -> Any:
            p, q = problem.teacher(x)
            return p * p + q * q

        def along(x: Any) -> Any:
            # the mean of an example is s sqrt(2/pi) theta*, of which c = sin x and cos x are the coordinates
            p, q = problem.teacher(x)
            return (p * x.sin() + q * x.cos()) * ball(s) * (2 / arb.pi()).sqrt()

        # E |z|^2 e^{-t <z, theta>} over a full normal law, which a uniform theta makes of the half
        same = [(v * t * t / 2).exp() * (d * v + t * t * v * v) for t in (1, 2)]
        pairs = [problem.mean(f, 2.0**-200) / total for f in (along, squared)]
        slope, loss = ((a + (n - 1) * b) / n for a, b in zip(same, pairs, strict=True))
        slope = -2 * slope
        found = {"low": loss.lower(), "slope_low": slope.lower(), "high": loss.upper(), "slope_high": slope.upper()}
        own = {name: exact(x) for name, x in found.items()}
    for name, value in own.items():
        (require_lower if name.endswith("low") else require_upper)(claim, name, value)
    return proved(claim, **own)
