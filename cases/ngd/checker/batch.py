"""The training problem of a batch, proved again: a quadratic in C1 whose coefficients are power series in C2."""

from __future__ import annotations

from typing import Any

from certify.checker.cases.ngd.layers import ball, exact
from certify.checker.cases.ngd.polynomials import plus, times, var
from certify.checker.cases.ngd.setting import THEOREM, control, require_certified, rows
from flint import arb, arb_series, ctx

from certify.checker.boxes import ball_of, positive_on
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

_MOST_BOXES = 4000


class Batch:
    """The loss C1^2 A(k) - 2 C1 B(k) + constant, where A is the mean of |U_b|^2 and B that of U_b . G_b, for C2 = k."""

    def __init__(self, context: Any) -> None:
        Z = rows(context, "batch", "float64", 3)
        theta = rows(context, "batch_theta", "int64", 2)
        below = rows(context, "batch_denominator", "int64", 1)
        eta = control(context, "batch_eta")
        fits = len(Z) == len(theta) == len(below) > 0 and all(
            len(z[0]) == len(t) for z, t in zip(Z, theta, strict=True)
        )
        if not fits or eta <= 0 or min(below) < 1:
            raise Rejected("the tensors of the batch do not fit together, or batch_eta is not positive")
        self.K, self.d, self.rate = len(Z), len(theta[0]), eta / len(theta[0])
        self.problems = []
        for examples, start, q in zip(Z, theta, below, strict=True):
            scores = [sum(x * t / q for x, t in zip(row, start, strict=True)) for row in examples]
            gram = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in examples] for a in examples]
            self.problems.append((scores, gram))

    def coefficients(self, k: Any, terms: int) -> tuple[list[Any], list[Any]]:
        """Taylor coefficients of A and B at k, a ball."""
        A, B = arb_series([0], terms), arb_series([0], terms)
        for scores, gram in self.problems:
            n = len(scores)
            e = [(arb_series([-k * ball(s), -ball(s)], terms)).exp() for s in scores]
            total = sum(e[1:], e[0])
            if total[0].contains(0):
                raise Beyond("an interval of C2 is too wide for this checker")
            p = [x / total for x in e]
            taught = [(-ball(s)).exp() / n for s in scores]
            for i in range(n):
                A += p[i] * sum((p[j] * ball(gram[i][j]) for j in range(1, n)), p[0] * ball(gram[i][0]))
                B += p[i] * sum((taught[j] * ball(gram[i][j]) for j in range(n)), arb(0))
        return [A[m] / self.K for m in range(terms)], [B[m] / self.K for m in range(terms)]

    def hessian(self, C1: Any, k: Any) -> tuple[Any, Any, Any]:
        """Second derivatives of the loss on a box."""
        A, B = self.coefficients(k, 3)
        return 2 * A[0], 2 * (C1 * A[1] - B[1]), 2 * C1 * (C1 * A[2] - 2 * B[2])


def check_minimiser(claim: Claim, context: Any) -> Finding:
    """A sign change in C2 of the derivative of the loss that is least in C1, and a Hessian that is positive around."""
    batch: Batch = context.cached(("ngd batch",), lambda: Batch(context))
    rate, bounds = batch.rate, ("low", "high", "C1_low", "C1_high", "radius", "mu", "factor")
    eta = rate * batch.d
    statement = (
        f"For the batch of {batch.K} contexts and a teacher of rate 1, the training loss of two scalars has exactly one "
        "stationary point C* with C1 within `radius` of [`C1_low`, `C1_high`] and C2 of [`low`, `high`], and it is in these "
        "intervals; the eigenvalues of the Hessian there are at least `mu` > 0, and a step of descent of rate "
        f"{eta}/{batch.d} takes every C within `radius` of C* nearer to C*, by a factor of at most `factor`."
    )
    words = {"statement": statement, "theorem": f"{THEOREM}batch", "semantics": "real"}
    agrees(claim, context, id=f"enclosure/batch-minimiser/K={batch.K}", parameters=("K",), bounds=bounds, **words)
    require_certified(claim)
    given = {name: number(claim["bounds"][name]) for name in bounds}
    low, high, radius, mu, factor = (given[name] for name in ("low", "high", "radius", "mu", "factor"))
    if claim["parameters"]["K"] != batch.K or not low < high or given["C1_low"] >= given["C1_high"]:
        raise Rejected("its intervals are empty, or it is about another batch")
    if radius <= 0 or mu <= 0 or not 0 <= factor < 1:
        raise Rejected("its radius, eigenvalue or factor is out of range")
    with ctx.workprec(128):
        slopes = []
        for end in (low, high):
            A, B = batch.coefficients(ball(end), 2)
            # the loss that is least in C1 is constant - B^2 / A
            slopes.append(B[0] * (B[0] * A[1] - 2 * A[0] * B[1]))
        if not (slopes[0] < 0 and slopes[1] > 0):
            raise Rejected("no stationary point is proved to be in its intervals")
        # B / A, by its value in the middle and its derivative: it is nearly constant on the interval
        A, B = batch.coefficients(ball((low + high) / 2), 1)
        C1 = B[0] / A[0]
        A, B = batch.coefficients(ball_of((low, high)), 2)
        C1 += (B[1] * A[0] - B[0] * A[1]) / (A[0] * A[0]) * ball_of(((low - high) / 2, (high - low) / 2))
    require_lower(claim, "C1_low", exact(C1.lower()))
    require_upper(claim, "C1_high", exact(C1.upper()))
    least, most = max(mu, (1 - factor) / rate), (1 + factor) / rate

    def between(box: list[Any]) -> Any:
        a, b, c = batch.hessian(box[0], box[1])
        found = a - ball(least)
        x, y = a - ball(least), c - ball(least)
        found = found.min(x * y - b * b)
        x, y = ball(most) - a, ball(most) - c
        return found.min(x).min(x * y - b * b)

    square = [(given["C1_low"] - radius, given["C1_high"] + radius), (low - radius, high + radius)]
    with ctx.workprec(64):
        positive_on(between, square, most=_MOST_BOXES)
    return proved(claim, mu=mu, factor=factor)


def check_scaling(claim: Claim, context: Any) -> Finding:
    """|alpha C1 u - alpha g|^2 = alpha^2 |C1 u - g|^2, summed over the entries of a batch."""
    K, d = (integer(claim["parameters"].get(name), 1, 500, name) for name in ("K", "d"))
    statement = (
        f"For every batch of {K} contexts in {d} dimensions, the training loss of two scalars with a teacher of rate alpha is "
        "at (alpha C1, C2) alpha^2 times that with rate 1 at (C1, C2): minimisers are (alpha c1, c2) with the same c1 and c2."
    )
    words = {"statement": statement, "theorem": f"{THEOREM}batch", "semantics": "real"}
    agrees(claim, context, id=f"identity/scaling/K={K},d={d}", parameters=("K", "d"), **words)
    require_certified(claim)
    if K * d > 500:
        raise Beyond("so large a batch is too much for polynomials here")
    alpha, C = var("alpha"), var("C1")
    for entry in range(K * d):
        u, g = var(f"u{entry}"), var(f"g{entry}")
        left = plus(times(alpha, C, u), times(-1, alpha, g))
        right = plus(times(C, u), times(-1, g))
        if times(left, left) != times(alpha, alpha, right, right):
            raise Rejected("the polynomials differ")
    return proved(claim)
