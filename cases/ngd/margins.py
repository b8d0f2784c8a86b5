r"""The max-margin separator of a context, exactly, and how near descent has come to it after many layers.

**Max margin.** Let w = sum_{i in S} lam_i z_i with lam >= 0, <z_i, w> = 1 on S and >= 1 elsewhere. Then the largest margin
max_{|u| = 1} min_i <z_i, u> is gamma = 1/|w|, attained at w/|w| only. Proof: in README.md#max-margin.
The support S is guessed in floating point (Lawson and Hanson's nonnegative least squares, from scipy); everything else is
solved and verified in rationals.

**Descent over many layers** is followed by points: theta_{t+1} is the middle of an enclosure of a step from the point theta_t.
Where step diam^2 / 4 <= 2 a step brings no two points further apart (README.md#non-expansive), so the distance to the exact
iterates is at most the sum of the radii, and the precision need not grow with the depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.ngd.balls import lower, upper
from certify.cases.ngd.state import Context, Row, fraction
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from certify.errors import Undecided

Ball = Any
#: Of a run of many layers: the iterates are known to within 2^-80 or so, whatever their number.
BITS = 128


@dataclass(frozen=True)
class Separator:
    """w = sum_i lam_i z_i over the support, with least <z_i, w> = 1, and gamma^2 = 1/|w|^2, all exact."""

    w: Row
    support: tuple[int, ...]
    multipliers: Row
    squared: Any


def separator(context: Context) -> Separator:
    """The max-margin separator.

    Raises
    ------
    Undecided : the guessed support does not satisfy the conditions, as when the examples are not separable.
    """
    for support in _guesses(context):
        found = _solved(context, support)
        if found is not None:
            return found
    raise Undecided("no guessed support satisfies the optimality conditions", "look whether the examples are separable")


def _guesses(context: Context) -> list[list[int]]:
    from scipy.optimize import nnls

    Z = np.array([[float(fraction(x)) for x in row] for row in context.Z])
    target = np.zeros(context.d + 1)
    target[-1] = 1
    weights, _ = nnls(np.vstack([Z.T, np.ones(context.n)]), target)
    order = [int(i) for i in np.argsort(-weights) if weights[i] > 0]
    # the smallest weights may be noise, and no more than d + 1 can count
    return [sorted(order[:size]) for size in range(min(len(order), context.d + 1), 0, -1)]


def _solved(context: Context, support: list[int]) -> Separator | None:
    Z = fmpq_mat([context.Z[i] for i in support])
    gram = Z * Z.transpose()
    if gram.rank() < len(support):
        return None
    multipliers = gram.solve(fmpq_mat(len(support), 1, [1] * len(support)))
    w = Z.transpose() * multipliers
    margins = fmpq_mat(context.Z) * w
    entries = [multipliers[i, 0] for i in range(len(support))]
    if min(entries) < 0 or any(margins[i, 0] < 1 for i in range(context.n)):
        return None
    return Separator([w[k, 0] for k in range(context.d)], tuple(support), entries, 1 / sum(entries, fmpq(0)))


def diameter_squared(context: Context) -> Any:
    """The largest |z_i - z_j|^2."""
    Z = fmpq_mat(context.Z)
    G = Z * Z.transpose()
    n = context.n
    return max(G[i, i] + G[j, j] - 2 * G[i, j] for i in range(n) for j in range(i))


def radius_squared(context: Context) -> Any:
    """The largest |z_i|^2."""
    return max(sum((x * x for x in row), fmpq(0)) for row in context.Z)


@dataclass(frozen=True)
class Point:
    """Where descent is after some layers.

    Attributes
    ----------
    layers : how many.
    distance : |u - w/|w|| for the direction u of theta, enclosed.
    margin : least <z_i, u>, enclosed.
    norm : |theta|, enclosed.
    slopes : the sum of |g_t| over the layers so far, enclosed, where g_t = sum_i p_i z_i at theta_t.
    theta : the entries of theta, enclosed.
    """

    layers: int
    distance: Ball
    margin: Ball
    norm: Ball
    slopes: Ball
    theta: tuple[Ball, ...]


def growth(context: Context) -> Fraction:
    """By how much a layer can increase the distance of two points, at most: max(1, step diam^2 / 4 - 1), exactly."""
    return max(Fraction(1), fraction(context.step * diameter_squared(context)) / 4 - 1)


def follow(context: Context, start: Row) -> Iterator[tuple[Any, Fraction, Any]]:
    """Descent from `start`, for ever: a point, how far it may be from the exact iterate (2-norm), and sum_i p_i z_i at it."""
    n, d = context.n, context.d
    Z = arb_mat([[arb(x) for x in row] for row in context.Z])
    T, scale, C1, factor = Z.transpose(), -arb(context.C2), arb(context.C1), growth(context)
    theta = arb_mat(d, 1, [arb(x) for x in start])
    off = _radius(theta)
    while True:
        theta = theta.mid()
        s = Z * theta * scale
        shift = max((s[i, 0] for i in range(n)), key=lambda x: float(x.mid())).mid()
        e = [(s[i, 0] - shift).exp() for i in range(n)]
        g = T * arb_mat(n, 1, e) / sum(e[1:], e[0])
        yield theta, off, g
        theta = theta + g * C1
        off = factor * off + _radius(theta)


def run(context: Context, w: Row, steps: int, kept: set[int]) -> tuple[dict[int, Point], list[Ball]]:
    """Descent with `steps` layers: points after the layers in `kept`, and the distance of directions after every layer.

    Raises
    ------
    Undecided : the step size is too large for errors to add.
    """
    if growth(context) > 1:
        raise Undecided("step diam^2 / 4 > 2: errors may grow from layer to layer", "take a smaller step size")
    n, d = context.n, context.d
    with ctx.workprec(BITS):
        Z = arb_mat([[arb(x) for x in row] for row in context.Z])
        target = arb_mat(1, d, [arb(x) for x in w])
        size, slopes = _norm(target), arb(0)
        curvature = upper(arb(context.C2 * diameter_squared(context) / 4))
        points: dict[int, Point] = {}
        distances: list[Ball] = []
        for t, (theta, off, g) in zip(range(steps + 1), follow(context, context.theta), strict=False):
            if t > 0:
                exact = arb_mat(d, 1, [theta[k, 0] + _symmetric(off) for k in range(d)])
                norm = _norm(exact)
                cosine = (target * exact)[0, 0] / (norm * size)
                distances.append((2 - 2 * cosine).nonnegative_part().sqrt())
                if t in kept:
                    margins = Z * exact
                    least = margins[0, 0]
                    for i in range(1, n):
                        least = least.min(margins[i, 0])
                    entries = tuple(exact[k, 0] for k in range(d))
                    points[t] = Point(t, distances[-1], least / norm, norm, slopes, entries)
            # g at the exact iterate differs from that at the point that is followed by at most C2 diam^2 / 4 times the distance
            slopes += _norm(g) + _symmetric(off * curvature)
        return points, distances


def within(distances: list[Ball], accuracy: Fraction) -> list[bool]:
    """Whether each distance is at most `accuracy`.

    Raises
    ------
    Undecided : an enclosure holds `accuracy` itself.
    """
    found = [upper(distance) <= accuracy for distance in distances]
    for t, (distance, inside) in enumerate(zip(distances, found, strict=True), 1):
        if not inside and lower(distance) <= accuracy:
            raise Undecided(f"the distance after {t} layers is too near {accuracy}", "take another accuracy")
    return found


def apart(a: list[Any], b: list[Any]) -> Ball:
    """|a/|a| - b/|b||, enclosed."""
    products = [sum((x * y for x, y in zip(p, q, strict=True)), arb(0)) for p, q in ((a, b), (a, a), (b, b))]
    cosine = products[0] / (products[1] * products[2]).sqrt()
    return (2 - 2 * cosine).nonnegative_part().sqrt()


def _symmetric(radius: Fraction) -> Ball:
    return arb(0, _up(radius))


def _up(radius: Fraction) -> Ball:
    x = arb(fmpq(radius.numerator, radius.denominator))
    return x.upper()


def _radius(column: arb_mat) -> Fraction:
    """An upper bound of the Euclidean norm of the radii."""
    total = sum((upper(arb(x.rad())) for x in column.entries()), Fraction(0))
    return total


def _norm(x: arb_mat) -> Ball:
    entries = x.entries()
    return sum((y * y for y in entries[1:]), entries[0] * entries[0]).sqrt()
