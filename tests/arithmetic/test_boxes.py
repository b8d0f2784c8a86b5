"""Positivity on a box: proved where it holds with room, never where it fails, in the producer and in the checker."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from flint import arb, ctx

from certify.arithmetic.boxes import enclosing, positive_on
from certify.checker import Beyond, Rejected
from certify.checker import boxes as checker

F = Fraction


def polynomial(coefficients):
    """Sum of c x^i y^j in balls, by (i, j): c, naively."""

    def f(point):
        x, y = point
        total = arb(0)
        for (i, j), c in coefficients.items():
            total += arb(c.numerator) / c.denominator * x**i * y**j
        return total

    return f


def exactly(coefficients, x, y):
    """The same at rational numbers."""
    return sum(c * x**i * y**j for (i, j), c in coefficients.items())


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_proved_that_a_point_refutes(seed):
    """Random polynomials shifted so that their least sampled value is near 0, above or below it."""
    rng = random.Random(seed)
    box = [(F(rng.randint(-8, 0), 4), F(rng.randint(1, 8), 4)) for _ in range(2)]
    coefficients = {(i, j): F(rng.randint(-9, 9), 7) for i in range(3) for j in range(3)}
    points = [[low + (high - low) * F(k, 16) for k in range(17)] for low, high in box]
    least = min(exactly(coefficients, x, y) for x in points[0] for y in points[1])
    coefficients[0, 0] += F(rng.choice((-1, 0, 1)), rng.choice((3, 100, 10**6))) - least
    least = min(exactly(coefficients, x, y) for x in points[0] for y in points[1])
    with ctx.workprec(80):
        found = positive_on(polynomial(coefficients), box, most=800)
        assert not (found.proved and least <= 0)
        try:
            checker.positive_on(polynomial(coefficients), box, most=800)
        except (Beyond, Rejected):
            assert not found.proved
        else:
            assert found.proved and least > 0
    assert found.boxes <= 800


def test_what_is_positive_with_room_is_proved():
    """x^2 - x + 1/4 + 1/1000 on [0, 1], whose least value is 1/1000, and no box is left over."""
    f = lambda point: (point[0] - arb(1) / 2) ** 2 * 1 + point[0] * 0 + arb(1) / 1000  # noqa: E731
    with ctx.workprec(60):
        found = positive_on(f, [(F(0), F(1))])
        assert found.proved and found.worst is None
        assert checker.positive_on(f, [(F(0), F(1))]) == found.boxes


def test_a_box_that_is_not_settled_is_named():
    """Zero at one point only: never proved, and the worst box is at the point; where it is negative the search ends."""
    with ctx.workprec(60):
        found = positive_on(lambda p: (p[0] - 1) ** 2, [(F(0), F(3))], most=100)
        assert not found.proved and found.worst is not None
        ((low, high),) = found.worst
        assert low < high and abs(low - 1) < F(1, 1000)
        assert positive_on(lambda p: p[0] - 1, [(F(0), F(3))], most=100).boxes < 20
        with pytest.raises(Rejected, match="the opposite is proved"):
            checker.positive_on(lambda p: p[0] - 1, [(F(0), F(3))], most=100)
        with pytest.raises(Beyond, match="100 boxes"):
            checker.positive_on(lambda p: (p[0] - 1) ** 2, [(F(0), F(3))], most=100)


@pytest.mark.parametrize(
    "ends", [(F(1, 3), F(2, 3)), (F(-7, 3), F(-7, 3)), (F(-1), F(10**20, 3)), (F(0), F(1, 10**30))]
)
def test_a_ball_holds_its_interval(ends):
    """Both ends, which are no binary numbers, at 20 bits."""
    with ctx.workprec(20):
        for ball in (enclosing(ends), checker.ball_of(ends)):
            for end in ends:
                middle, radius = (x.man_exp() for x in (ball.mid(), ball.rad()))
                middle, radius = (F(int(m)) * F(2) ** int(e) for m, e in (middle, radius))
                assert abs(end - middle) <= radius


def test_what_is_not_finite_proves_nothing():
    """1 / x on a box with 0: cut until the budget ends."""
    with ctx.workprec(60):
        assert not positive_on(lambda p: 1 / p[0], [(F(0), F(1))], most=50).proved
        assert not positive_on(lambda p: p[0] / 0, [(F(0), F(1))], most=50).proved
