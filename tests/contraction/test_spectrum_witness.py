"""Eigenvalue bounds with witnesses: exact in hand-made cases, sound for any witness, tight for the one that is found."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.arithmetic.directed import round_down
from certify.contraction.spectrum import (
    Witness,
    count_below,
    lower_bound,
    upper_bound,
    verify,
    verify_upper,
)
from certify.errors import InputRejected

PAIR = np.array([[2.0, 1.0], [1.0, 2.0]])  # eigenvalues 1 and 3, vectors (1, -1) and (1, 1)
ZERO = np.zeros((2, 2))


def symmetric(a):
    """The lower triangle of `a`, mirrored."""
    return np.tril(a) + np.tril(a, -1).T


def with_spectrum(eigenvalues, seed):
    """A symmetric matrix with nearly these eigenvalues in a random basis."""
    n = len(eigenvalues)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    return symmetric((Q * eigenvalues) @ Q.T)


def extremes(mid):
    """The smallest and the largest eigenvalue to 60 digits or more."""
    with mpmath.workdps(80):
        eigenvalues = sorted(mpmath.eigsy(mpmath.matrix(mid.tolist()), eigvals_only=True))
        return eigenvalues[0], eigenvalues[-1]


def test_an_exact_factor_proves_the_eigenvalue_itself():
    """A zero residual leaves sigma, less the infinity norm of the radius."""
    # mid - I = [[1, 1], [1, 1]] = L L^T with L = [[1, 0], [1, 0]] = [[2, 0], [2, 0]] 2**-1.
    witness = Witness(((2,), (2, 0)), 1, Fraction(1))
    assert verify(PAIR, ZERO, witness) == 1.0
    # Row sums of the radius are 1/8 + 1/4 and 1/4 + 1/2.
    assert verify(PAIR, np.array([[0.125, 0.25], [0.25, 0.5]]), witness) == 0.25


def test_an_exact_factor_proves_the_largest_eigenvalue():
    """The upper bound is the same theorem for the negated matrix."""
    # 3 I - mid = [[1, -1], [-1, 1]] = L L^T with L = [[1, 0], [-1, 0]].
    witness = Witness(((1,), (-1, 0)), 0, Fraction(3))
    assert verify_upper(PAIR, ZERO, witness) == 3.0
    assert verify_upper(PAIR, np.full((2, 2), 0.125), witness) == 3.25


def test_the_residual_is_charged_in_full():
    """L = 0 leaves all of mid - sigma I; the largest row sum counts."""
    # mid - 2 I = [[0, 1], [1, 3]]: row sums 1 and 4, so 2 - 4.
    mid = np.array([[2.0, 1.0], [1.0, 5.0]])
    assert verify(mid, ZERO, Witness(((0,), (0, 0)), 40, Fraction(2))) == -2.0


def test_a_shift_that_is_no_dyadic_number_is_used_exactly():
    """Sigma = 1/3 is not rounded before the one rounding of the result."""
    # 1 - 1/3 - 0 = 2/3, and 1/3 - 2/3 = -1/3.
    value = verify(np.array([[1.0]]), np.zeros((1, 1)), Witness(((0,),), 0, Fraction(1, 3)))
    assert value == round_down(Fraction(-1, 3))
    # L = 1/2: 1 - 1/3 - 1/4 = 5/12, and 1/3 - 5/12 = -1/12.
    value = verify(np.array([[1.0]]), np.zeros((1, 1)), Witness(((1,),), 1, Fraction(1, 3)))
    assert value == round_down(Fraction(-1, 12))


def test_a_negative_grid_scales_the_factor_up():
    """Units of 2**-grid = 4: the factor 3 means 12."""
    # 150 - 5 - 144 = 1, and 5 - 1 = 4.
    assert verify(np.array([[150.0]]), np.zeros((1, 1)), Witness(((3,),), -2, Fraction(5))) == 4.0


def test_bounds_beyond_binary64_are_infinite():
    """A residual above the largest float proves minus infinity, not an error."""
    witness = Witness(((1 << 600,),), 0, Fraction(0))
    assert verify(np.array([[1.0]]), np.zeros((1, 1)), witness) == -np.inf
    assert verify_upper(np.array([[1.0]]), np.zeros((1, 1)), witness) == np.inf


def test_the_empty_matrix_has_no_eigenvalue():
    """Every number bounds no eigenvalues: inf from below, -inf from above."""
    none = np.zeros((0, 0))
    assert lower_bound(none, none).value == np.inf
    assert upper_bound(none, none).value == -np.inf
    assert lower_bound(none, none).witness.factor == ()


@pytest.mark.parametrize("x", [1.0, -3.5, 0.1, 0.0, 1e300, -5e-324])
def test_a_matrix_of_order_one_is_its_eigenvalue(x):
    """Within 2**-40 and on the right side; a zero matrix exactly."""
    low = lower_bound(np.array([[x]]), np.zeros((1, 1))).value
    high = upper_bound(np.array([[x]]), np.zeros((1, 1))).value
    assert low <= x <= high
    assert high - low <= max(abs(x) * 2.0**-38, 1e-323 if x else 0.0)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_witness_proves_something_true(data):
    """Garbage factors, grids and shifts never prove more than the smallest or less than the largest eigenvalue."""
    n = data.draw(st.integers(1, 5))
    entries = data.draw(st.lists(st.floats(-100, 100), min_size=n * n, max_size=n * n))
    mid = symmetric(np.array(entries).reshape(n, n))
    integers = st.integers(-(1 << 12), 1 << 12)
    factor = tuple(tuple(data.draw(integers) for _ in range(i + 1)) for i in range(n))
    witness = Witness(factor, data.draw(st.integers(-4, 14)), data.draw(st.fractions(-200, 200)))
    low, high = verify(mid, 0 * mid, witness), verify_upper(mid, 0 * mid, witness)
    assert count_below(mid, low) == 0
    assert count_below(-mid, -high) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-60, 60), st.integers(0, 50))
def test_a_changed_witness_still_proves_something_true(seed, change, places):
    """One entry off the good factor, by much or little: a valid bound, and a worse one when the change is large."""
    rng = np.random.default_rng(seed)
    mid = symmetric(rng.standard_normal((6, 6)))
    good = lower_bound(mid, 0 * mid)
    i = int(rng.integers(6))
    j = int(rng.integers(i + 1))
    rows = [list(row) for row in good.witness.factor]
    rows[i][j] += change << places
    value = verify(mid, 0 * mid, replace(good.witness, factor=tuple(map(tuple, rows))))
    assert count_below(mid, value) == 0
    if abs(change) << places >= 1 << (good.witness.grid + 3):  # 8 or more in a matrix with entries below 8
        assert value < good.value - 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_no_member_of_the_interval_matrix_has_an_eigenvalue_outside(seed, n):
    """Vertices of the interval matrix and members inside, exactly representable, against exact eigenvalue counts."""
    rng = np.random.default_rng(seed)
    mid = symmetric(rng.integers(-(1 << 20), 1 << 20, (n, n)) * 2.0**-16)
    rad = symmetric(rng.integers(0, 1 << 14, (n, n)) * 2.0**-16)
    low, high = lower_bound(mid, rad).value, upper_bound(mid, rad).value
    for k in range(6):
        units = rng.choice([-16, 16], (n, n)) if k < 4 else rng.integers(-16, 17, (n, n))
        member = mid + symmetric(units / 16.0) * rad
        assert count_below(member, low) == 0
        assert count_below(-member, -high) == 0


def test_the_radius_costs_its_norm_and_little_more():
    """With a radius the gap is its infinity norm, to one part in 2**15."""
    mid = with_spectrum(np.linspace(1.0, 2.0, 12), 5)
    rad = np.full((12, 12), 2.0**-12)
    norm = 12 * 2.0**-12
    low, high = lower_bound(mid, rad), upper_bound(mid, rad)
    assert 1 - norm * (1 + 2.0**-15) <= low.value <= 1 - norm * (1 - 2.0**-15)
    assert 2 + norm * (1 - 2.0**-15) <= high.value <= 2 + norm * (1 + 2.0**-15)
    assert low.witness.grid < lower_bound(mid, 0 * rad).witness.grid  # no more digits than the radius deserves


GRADED = np.diag(np.logspace(-4, 4, 12))
STEEP = np.diag(np.logspace(-8, 8, 12))
CASES = {
    "random": symmetric(np.random.default_rng(1).standard_normal((20, 20))),
    "spread of 16 orders": with_spectrum(np.logspace(-8, 8, 16), 2),
    "two small, many large": with_spectrum(np.r_[1e-8, 2e-8, np.full(10, 1e8)], 3),
    "small negative": with_spectrum(np.r_[-1e-9, np.linspace(1, 2, 10)], 4),
    "graded": symmetric(GRADED @ symmetric(with_spectrum(np.linspace(1, 2, 12), 5)) @ GRADED),
    "graded by 32 orders": symmetric(STEEP @ symmetric(with_spectrum(np.linspace(1, 2, 12), 5)) @ STEEP),
    "Hilbert": np.array([[1 / (i + j + 1) for j in range(16)] for i in range(16)]),
    "repeated": with_spectrum(np.repeat([1.0, 2.0], 8), 6),
    "identity": np.eye(7),
    "large": with_spectrum(np.logspace(299, 300, 5), 7),
    "small": with_spectrum(np.logspace(-280, -279, 5), 8),
    "order two": PAIR,
}


@pytest.mark.parametrize("name", CASES)
def test_point_matrices_are_bounded_to_ten_digits(name):
    """Relative to the eigenvalue itself, however small beside the norm; reference: 80-digit eigenvalues."""
    mid = CASES[name]
    smallest, largest = extremes(mid)
    low, high = lower_bound(mid, 0 * mid).value, upper_bound(mid, 0 * mid).value
    assert smallest * (1 - mpmath.sign(smallest) * mpmath.mpf("1e-11")) <= low <= smallest
    assert largest <= high <= largest * (1 + mpmath.sign(largest) * mpmath.mpf("1e-11"))


def test_a_singular_matrix_is_bounded_by_zero():
    """No factor proves it, as sigma must be below the eigenvalue; a count does. With a radius there is nothing to count."""
    assert lower_bound(np.ones((5, 5)), np.zeros((5, 5))) == (0.0, None)
    assert lower_bound(np.ones((5, 5)), np.full((5, 5), 1e-30)).value < 0


@pytest.mark.parametrize("n", [2, 100])
def test_large_orders_are_bounded_as_well(n):
    """At n = 100 the bounds are within 1e-12 of the norm; an exact count shows that they hold."""
    mid = symmetric(np.random.default_rng(n).standard_normal((n, n)))
    low, high = lower_bound(mid, 0 * mid).value, upper_bound(mid, 0 * mid).value
    assert count_below(mid, low) == 0 and count_below(-mid, -high) == 0
    tolerance = 1e-12 * max(-low, high)
    assert count_below(mid, low + tolerance) >= 1 and count_below(-mid, tolerance - high) >= 1


@pytest.mark.slow
def test_order_three_hundred():
    """The bounds agree with a floating-point eigensolver to its own accuracy."""
    mid = symmetric(np.random.default_rng(9).standard_normal((300, 300)))
    eigenvalues = np.linalg.eigvalsh(mid)
    assert abs(lower_bound(mid, 0 * mid).value - eigenvalues[0]) <= 1e-10
    assert abs(upper_bound(mid, 0 * mid).value - eigenvalues[-1]) <= 1e-10


def test_bounds_are_recomputed_from_the_witness_alone():
    """The value returned by the search is what `verify` says of the witness."""
    mid, rad = CASES["random"], np.full((20, 20), 1e-3)
    low, high = lower_bound(mid, rad), upper_bound(mid, rad)
    assert verify(mid, rad, low.witness) == low.value
    assert verify_upper(mid, rad, high.witness) == high.value


BAD = {
    "NaN": (np.array([[np.nan]]), np.zeros((1, 1))),
    "infinite": (np.array([[np.inf]]), np.zeros((1, 1))),
    "asymmetric": (np.array([[1.0, 2.0], [2.5, 1.0]]), ZERO),
    "not square": (np.zeros((2, 3)), np.zeros((2, 3))),
    "a vector": (np.zeros(2), np.zeros(2)),
    "float32": (PAIR.astype(np.float32), ZERO),
    "radius below zero": (PAIR, -0.5 * np.eye(2)),
    "radius NaN": (PAIR, np.full((2, 2), np.nan)),
    "radius asymmetric": (PAIR, np.array([[0.0, 1.0], [0.0, 0.0]])),
    "radius of another order": (PAIR, np.zeros((3, 3))),
}


@pytest.mark.parametrize("name", BAD)
def test_matrices_that_are_not_symmetric_intervals_are_refused(name):
    """Nothing is bounded for an input that does not describe an interval matrix."""
    mid, rad = BAD[name]
    witness = Witness(((0,), (0, 0)), 0, Fraction(0))
    for bound in (lower_bound, upper_bound):
        with pytest.raises(InputRejected):
            bound(mid, rad)
    for check in (verify, verify_upper):
        with pytest.raises(InputRejected):
            check(mid, rad, witness)


@pytest.mark.parametrize("factor", [(), ((1,),), ((1,), (1,)), ((1,), (1, 1), (1, 1, 1)), ((1, 0), (1, 1))])
def test_a_factor_of_another_shape_is_refused(factor):
    """Rows must have 1, 2, ..., n integers."""
    with pytest.raises(InputRejected, match="order 2"):
        verify(PAIR, ZERO, Witness(factor, 0, Fraction(0)))
