"""Row-sum bounds, bounds from vectors, and the verified distances of an eigenbasis."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.arithmetic.directed import round_down, round_up
from certify.contraction.spectrum import (
    best_vectors,
    count_below,
    eigenbasis,
    gershgorin,
    interval_bounds,
    lower_bound,
    rayleigh_lower,
    rayleigh_upper,
    upper_bound,
    verified_basis,
)
from certify.errors import InputRejected

PAIR = np.array([[2.0, 1.0], [1.0, 2.0]])  # eigenvalues 1 and 3, vectors (1, -1) and (1, 1)
EIGHTHS = np.full((2, 2), 0.125)
NONE = np.zeros((0, 0))


def symmetric(a):
    """The lower triangle of `a`, mirrored."""
    return np.tril(a) + np.tril(a, -1).T


def dyadic_interval_matrix(rng, n):
    """A matrix and radius whose members mid + k/16 rad are exact in binary64."""
    mid = symmetric(rng.integers(-(1 << 20), 1 << 20, (n, n)) * 2.0**-16)
    return mid, symmetric(rng.integers(0, 1 << 14, (n, n)) * 2.0**-16)


def member(rng, mid, rad):
    """A random symmetric matrix within the radius, exact in binary64."""
    return mid + symmetric(rng.integers(-16, 17, mid.shape) / 16.0) * rad


def test_gershgorin_by_hand():
    """The lowest and highest disc ends, radii included."""
    # Row 0: 2 - 0 - (1 + 1/2) and 2 + 0 + (1 + 1/2); row 1: -3 -+ (1/4 + 1 + 1/2).
    mid, rad = np.array([[2.0, 1.0], [1.0, -3.0]]), np.array([[0.0, 0.5], [0.5, 0.25]])
    assert gershgorin(mid, rad) == (-4.75, 3.5)


def test_row_sum_ends_are_rounded_outward():
    """1 -+ 2**-60 is no binary64 number: the ends are its neighbours outside."""
    mid = np.array([[1.0, 2.0**-60], [2.0**-60, 1.0]])
    assert gershgorin(mid, 0 * mid) == (np.nextafter(1, 0), np.nextafter(1, 2))


def test_the_gram_error_divides_the_row_sums():
    """All four combinations of the signs of the ends and the direction of the division."""
    # Q = 9/8: Q^2 = 81/64, e = 17/64, 1 + e = 81/64, 1 - e = 47/64.
    Q, none = np.array([[1.125]]), np.zeros((1, 1))
    assert interval_bounds(np.array([[1.0]]), none, Q) == (1.0, round_up(Fraction(81, 47)))
    assert interval_bounds(np.array([[-1.0]]), none, Q) == (round_down(Fraction(-81, 47)), -1.0)
    # 0 -+ 1: ends -81/64 and 81/64, both divided by 1 - e.
    assert interval_bounds(none, np.array([[1.0]]), Q) == (round_down(Fraction(-81, 47)), round_up(Fraction(81, 47)))


def test_an_exact_eigenbasis_gives_the_eigenvalues():
    """Signed permutations are exactly orthogonal: the row sums of a diagonal matrix are its entries."""
    Q = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert interval_bounds(np.diag([2.0, 7.0]), np.zeros((2, 2)), Q) == (2.0, 7.0)


def test_a_basis_far_from_orthogonal_proves_nothing():
    """Q = 2 has Gram error 3: no bound, and no error."""
    assert interval_bounds(np.array([[1.0]]), np.zeros((1, 1)), np.array([[2.0]])) == (-np.inf, np.inf)
    assert interval_bounds(PAIR, EIGHTHS, np.zeros((2, 2))) == (-np.inf, np.inf)


def test_radii_are_rounded_up():
    """A radius far below the largest one, or just above a multiple of the 40-bit grid, is not cut."""
    # 5e-324 in units of 2**961 is no float but 0; 512 (1 + 2**-20) units of 2**-39 are not 512.
    for large, small in ((2.0**1000, 5e-324), (1.0, 2.0**-30 * (1 + 2.0**-20))):
        low, high = interval_bounds(np.diag([0.0, 2.0 * large]), np.diag([small, large]), np.eye(2))
        assert low <= -small and high >= 3 * large


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(0, 0.2))
def test_row_sums_hold_for_every_member_and_basis(seed, n, skew):
    """Exact eigenvalue counts of members against Gershgorin and against any basis, orthogonal or not."""
    rng = np.random.default_rng(seed)
    mid, rad = dyadic_interval_matrix(rng, n)
    basis = eigenbasis(mid).Q + skew / n * rng.uniform(-1, 1, (n, n))
    for low, high in (gershgorin(mid, rad), interval_bounds(mid, rad), interval_bounds(mid, rad, basis)):
        for _ in range(3):
            a = member(rng, mid, rad)
            assert low == -np.inf or count_below(a, low) == 0
            assert high == np.inf or count_below(-a, -high) == 0


def test_the_eigenbasis_sharpens_row_sums_to_the_eigenvalues():
    """Without a radius the interval method is within 1e-12 of the eigenvalues, where Gershgorin is not."""
    mid = symmetric(np.random.default_rng(2).standard_normal((30, 30)))
    point = np.zeros((30, 30))
    low, high = interval_bounds(mid, point)
    assert lower_bound(mid, point).value - 1e-12 <= low <= lower_bound(mid, point).value + 1e-10
    assert upper_bound(mid, point).value - 1e-10 <= high <= upper_bound(mid, point).value + 1e-12
    assert gershgorin(mid, point)[0] < low - 1 and gershgorin(mid, point)[1] > high + 1


def test_quotients_by_hand():
    """The quotient of an exact eigenvector, less the radius's share."""
    up, down = np.array([1.0, 1.0]), np.array([1.0, -1.0])
    assert rayleigh_lower(PAIR, 0 * PAIR, up) == 3.0
    assert rayleigh_upper(PAIR, 0 * PAIR, down) == 1.0
    # |v|^T rad |v| / v^T v = (4/8) / 2 = 1/4, for both vectors.
    assert rayleigh_lower(PAIR, EIGHTHS, up) == 2.75
    assert rayleigh_upper(PAIR, EIGHTHS, down) == 1.25
    # v = (1, 2): (2 + 4 + 8) / 5; v = (1, 3): (2 + 6 + 18) / 10. The nearest floats are below and above.
    for v, quotient in ((np.array([1.0, 2.0]), Fraction(14, 5)), (np.array([1.0, 3.0]), Fraction(13, 5))):
        assert rayleigh_lower(PAIR, 0 * PAIR, v) == round_down(quotient) < quotient
        assert rayleigh_upper(PAIR, 0 * PAIR, v) == round_up(quotient) > quotient


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_quotients_hold_for_every_member(seed, n):
    """Every member has an eigenvalue at or above rayleigh_lower and one at or below rayleigh_upper."""
    rng = np.random.default_rng(seed)
    mid, rad = dyadic_interval_matrix(rng, n)
    smallest, largest = best_vectors(mid)
    for v, w in ((largest, smallest), (rng.standard_normal(n), rng.standard_normal(n))):
        high, low = rayleigh_lower(mid, rad, v), rayleigh_upper(mid, rad, w)
        for _ in range(3):
            a = member(rng, mid, rad)
            assert count_below(a, high) < n
            assert count_below(-a, -low) < n


def test_the_best_vectors_reach_the_eigenvalues():
    """Inside and outside bounds meet to twelve digits, at scales that overflow when squared too."""
    for scale in (1.0, 1e300, 1e-290):
        mid = symmetric(np.random.default_rng(4).standard_normal((20, 20)) * scale)
        point, (smallest, largest) = 0 * mid, best_vectors(mid)
        low, high = lower_bound(mid, point).value, upper_bound(mid, point).value
        assert low <= rayleigh_upper(mid, point, smallest) <= low * (1 - 1e-12)
        assert high * (1 - 1e-12) <= rayleigh_lower(mid, point, largest) <= high


@pytest.mark.parametrize(
    "v", [np.zeros(2), np.ones(3), np.array([1.0, np.nan]), np.ones((2, 1)), np.ones(2, dtype=np.float32)]
)
def test_vectors_that_prove_nothing_are_refused(v):
    """Zero, of another order, not finite, not a vector, not binary64."""
    for bound in (rayleigh_lower, rayleigh_upper):
        with pytest.raises(InputRejected):
            bound(PAIR, EIGHTHS, v)


def test_empty_matrices():
    """No eigenvalues to bound, no vector, and an empty basis at no distance."""
    assert gershgorin(NONE, NONE) == (np.inf, -np.inf)
    assert interval_bounds(NONE, NONE) == (np.inf, -np.inf)
    basis = eigenbasis(NONE)
    assert (basis.Q.shape, basis.lam.shape) == ((0, 0), (0,))
    assert (basis.gram, basis.distance, basis.residual) == (0.0, 0.0, 0.0)
    with pytest.raises(InputRejected):
        best_vectors(NONE)
    with pytest.raises(InputRejected):
        rayleigh_lower(NONE, NONE, np.zeros(0))


def test_a_matrix_of_order_one_is_its_own_basis():
    """Q = +-1 and nothing is lost."""
    basis = eigenbasis(np.array([[0.1]]))
    assert abs(basis.Q[0, 0]) == 1.0 and basis.lam[0] == 0.1
    assert (basis.gram, basis.distance, basis.residual) == (0.0, 0.0, 0.0)


def test_verified_distances_by_hand():
    """The Gram error, its distance and the residual, from a stretched basis and from a wrong eigenvalue."""
    exact = verified_basis(np.diag([1.0, 2.0]), np.eye(2), np.array([1.0, 2.5]))
    assert (exact.gram, exact.distance, exact.residual) == (0.0, 0.0, 0.5)
    # Q = diag(17/16, 1): e = 289/256 - 1 = 33/256, d = e / (2 - e) = 33/479, while Q~ = I is at distance 1/16.
    # F = diag(3 - 3 289/256, 0), norm 99/256; max |lam| = 4.
    stretched = verified_basis(np.diag([3.0, -4.0]), np.diag([1.0625, 1.0]), np.array([3.0, -4.0]))
    d = Fraction(33, 479)
    assert stretched.gram == 33 / 256
    assert stretched.distance == round_up(d) >= 1 / 16
    assert stretched.residual == round_up(Fraction(99, 256) + d * (2 + d) * 4)


def test_a_basis_without_a_polar_factor_has_infinite_distances():
    """The zero matrix has Gram error 1."""
    basis = verified_basis(np.eye(2), np.zeros((2, 2)), np.ones(2))
    assert (basis.gram, basis.distance, basis.residual) == (1.0, np.inf, np.inf)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-3, 1e-2])
def test_verified_distances_against_a_polar_factor_in_high_precision(noise):
    """||Q^T Q - I||, ||Q - Q~|| and ||mid - Q~ diag(lam) Q~^T|| from a 50-digit singular value decomposition."""
    n, rng = 8, np.random.default_rng(6)
    mid = symmetric(rng.standard_normal((n, n)))
    found = eigenbasis(mid)
    Q = found.Q + noise * rng.uniform(-1, 1, (n, n))
    basis = verified_basis(mid, Q, found.lam)
    with mpmath.workdps(50):
        q = mpmath.matrix(Q.tolist())
        u, _, v = mpmath.svd_r(q)
        polar = u * v
        rebuilt = polar * mpmath.diag(found.lam.tolist()) * polar.T
        true = [
            max(mpmath.svd_r(x, compute_uv=False))
            for x in (q.T * q - mpmath.eye(n), q - polar, mpmath.matrix(mid.tolist()) - rebuilt)
        ]
    for bound, value in zip((basis.gram, basis.distance, basis.residual), true, strict=True):
        assert value <= bound <= 100 * value


def test_eigenbasis_is_accurate():
    """Order 40: distances near the unit roundoff times the order."""
    basis = eigenbasis(symmetric(np.random.default_rng(8).standard_normal((40, 40))))
    assert 0 < basis.distance <= basis.gram < 1e-13 and basis.residual < 1e-12
    assert (np.diff(basis.lam) >= 0).all()


def test_bases_of_another_shape_are_refused():
    """One column and one eigenvalue for each row, all finite; eigenvalues beyond binary64 are none."""
    with pytest.raises(InputRejected):
        interval_bounds(PAIR, EIGHTHS, np.eye(3))
    with pytest.raises(InputRejected):
        interval_bounds(PAIR, EIGHTHS, np.full((2, 2), np.nan))
    with pytest.raises(InputRejected):
        verified_basis(PAIR, np.eye(2), np.ones(3))
    with pytest.raises(InputRejected):
        verified_basis(PAIR, np.eye(3), np.ones(2))
    with pytest.raises(InputRejected):
        eigenbasis(np.full((4, 4), 1.7e308))  # 6.8e308


@pytest.mark.parametrize("mid", [np.array([[np.nan]]), np.array([[0.0, 1.0], [2.0, 0.0]]), np.zeros((1, 2))])
def test_other_matrices_are_refused(mid):
    """NaN, asymmetric and not square."""
    for bound in (gershgorin, interval_bounds):
        with pytest.raises(InputRejected):
            bound(mid, 0 * mid)
    with pytest.raises(InputRejected):
        rayleigh_lower(mid, 0 * mid, np.ones(len(mid)))
    for function in (eigenbasis, best_vectors):
        with pytest.raises(InputRejected):
            function(mid)
