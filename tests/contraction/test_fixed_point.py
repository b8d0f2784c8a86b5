"""Newton-Kantorovich: one zero, next to the centre, or a reason; numbers of the scalar examples by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from certify.arithmetic.midrad import MidRad
from certify.contraction.fixed_point import newton_kantorovich


def square_minus_two(radius: float, inverse: float = 1 / 3):
    """The test for G(x) = x^2 - 2 at u = 3/2: G(u) = 1/4, G' in [3 - 2 r, 3 + 2 r]."""
    return newton_kantorovich(
        MidRad.exact(np.array([0.25])),
        MidRad(np.array([[3.0]]), np.array([[2 * radius]])),
        np.array([[inverse]]),
        radius,
    )


def test_the_square_root_of_two_is_found():
    """Y = 1/12, Z = 2 r / 3. At r = 1/10: Y + Z r = 0.08333 + 0.00667 = 0.09 <= 0.1, and indeed 3/2 - sqrt 2 = 0.0858."""
    assert square_minus_two(0.1).proved


def test_a_cube_without_the_zero_is_never_proved():
    """3/2 - sqrt 2 = 0.08578...: no cube of a smaller radius holds the zero."""
    for radius in (0.0, 1e-300, 0.01, 0.08, 0.0857):
        outcome = square_minus_two(radius)
        assert not outcome.proved
        assert "Y + Z r <= r fails" in outcome.reason
        assert outcome.radius == radius


def test_a_jacobian_that_varies_too_much_fails_by_name():
    """Z = 2 r / 3 < 1 needs r < 3/2; at r = 1.6 the derivative 3 - 3.2 may vanish."""
    outcome = square_minus_two(1.6)
    assert not outcome.proved
    assert "Z < 1 fails" in outcome.reason


def test_z_equal_to_one_fails():
    """C = 1, G' = 2: 1 - C G' = -1, so Z >= 1, however small the residual."""
    outcome = newton_kantorovich(MidRad.exact(np.zeros(1)), MidRad.exact(np.array([[2.0]])), np.eye(1), 1.0)
    assert "Z < 1 fails" in outcome.reason


def test_a_useless_inverse_proves_nothing():
    """C = 0 gives Z = 1: the identity map has every point as a fixed point."""
    outcome = newton_kantorovich(MidRad.exact(np.zeros(2)), MidRad.exact(np.eye(2)), np.zeros((2, 2)), 1.0)
    assert not outcome.proved


def test_two_zeros_in_the_cube_are_not_proved_unique():
    """G(x) = x^2 - 1/4 around 0 has the zeros -1/2 and 1/2: no C makes |1 - C 2 x| < 1 for all |x| <= 1."""
    for inverse in (0.1, 1.0, -5.0):
        jacobian = MidRad(np.array([[0.0]]), np.array([[2.0]]))
        outcome = newton_kantorovich(MidRad.exact(np.array([-0.25])), jacobian, np.array([[inverse]]), 1.0)
        assert not outcome.proved


def test_a_linear_system_is_solved_within_its_residual():
    """G(x) = A x - b with C = A^-1 exact (powers of two): Z = 0, so a cube barely larger than Y = max |C G(u)| is enough."""
    A = np.array([[2.0, 0.0], [0.0, 0.25]])
    residual = MidRad.exact(np.array([1.0, 0.5]))  # C G(u) = (1/2, 2)
    inverse = np.array([[0.5, 0.0], [0.0, 4.0]])
    assert newton_kantorovich(residual, MidRad.exact(A), inverse, 2.0 + 1e-12).proved
    assert not newton_kantorovich(residual, MidRad.exact(A), inverse, math.nextafter(2.0, 0)).proved


def test_the_residual_radius_counts():
    """|G(u)| <= 1/4 + 1/100: Y = 0.0867, and Y + 0.00667 = 0.0933 <= 0.1 still; with 1/20 more, Y = 0.1 fails."""
    jacobian = MidRad(np.array([[3.0]]), np.array([[0.2]]))
    for extra, proved in ((0.01, True), (0.05, False)):
        residual = MidRad(np.array([0.25]), np.array([extra]))
        assert newton_kantorovich(residual, jacobian, np.array([[1 / 3]]), 0.1).proved is proved


def test_no_unknowns_have_one_solution():
    """The empty system is solved by the empty vector."""
    empty = np.zeros((0, 0))
    assert newton_kantorovich(MidRad.exact(np.zeros(0)), MidRad.exact(empty), empty, 1.0).proved


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["residual", "residual radius", "jacobian", "jacobian radius", "inverse"])
def test_enclosures_that_are_not_finite_are_a_reason(where, bad):
    """NaN and infinity in any argument: nothing is proved, nothing is raised."""
    residual, jacobian, inverse = (np.zeros(2), np.zeros(2)), (np.eye(2), np.zeros((2, 2))), np.eye(2)
    target = {
        "residual": residual[0],
        "residual radius": residual[1],
        "jacobian": jacobian[0],
        "jacobian radius": jacobian[1],
        "inverse": inverse,
    }[where]
    target.flat[0] = bad
    with np.errstate(invalid="ignore"):
        outcome = newton_kantorovich(MidRad(*residual), MidRad(*jacobian), inverse, 1.0)
    assert not outcome.proved
    assert "not finite" in outcome.reason


def test_random_systems_are_proved_only_with_their_zero_inside():
    """Random quadratics G(x) = A x + x * x - b with a known zero: proved only if the zero lies in the cube."""
    rng = np.random.default_rng(0)
    proved = 0
    for _ in range(300):
        n = int(rng.integers(1, 4))
        zero, A = rng.integers(-64, 65, n) / 64, rng.integers(-64, 65, (n, n)) / 16
        u = zero + rng.integers(-8, 9, n) / 256
        # all numbers are dyadic with few bits, so G(u) and G'(u) are exact in binary64
        residual = (A @ u + u * u) - (A @ zero + zero * zero)
        derivative = A + np.diag(2 * u)
        radius = float(2.0 ** rng.integers(-9, 1))
        jacobian = MidRad(derivative, 2 * radius * np.eye(n))
        if abs(np.linalg.det(derivative)) < 1e-9:
            continue
        outcome = newton_kantorovich(MidRad.exact(residual), jacobian, np.linalg.inv(derivative), radius)
        proved += outcome.proved
        if outcome.proved:
            assert np.abs(u - zero).max() <= radius
    assert proved > 50
