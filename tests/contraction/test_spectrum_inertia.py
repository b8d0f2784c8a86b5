"""Exact inertia and eigenvalue counts, singular and repeated eigenvalues included."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.contraction.spectrum import count_below, inertia, positive_below
from certify.errors import InputRejected


@pytest.mark.parametrize(
    ("mid", "expected"),
    [
        # No eigenvalue at all.
        (np.zeros((0, 0)), (0, 0, 0)),
        (np.array([[-3.0]]), (1, 0, 0)),
        (np.array([[0.0]]), (0, 1, 0)),
        (np.diag([-1.0, 0.0, 2.0]), (1, 1, 1)),
        # x^2 - 1.
        (np.array([[0.0, 1.0], [1.0, 0.0]]), (1, 0, 1)),
        # Rank one: 3 and twice 0.
        (np.ones((3, 3)), (0, 2, 1)),
        # The Laplacian of a path of three: 0, 1, 3.
        (np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]), (0, 1, 2)),
        # Trace above 0; determinant 2**-200 less 2**-200, 2**-1000 and 2**-198: floats cannot tell these from 0.
        (np.array([[1.0, 2.0**-100], [2.0**-100, 2.0**-200]]), (0, 1, 1)),
        (np.array([[1.0, 2.0**-500], [2.0**-500, 2.0**-200]]), (0, 0, 2)),
        (np.array([[1.0, 2.0**-99], [2.0**-99, 2.0**-200]]), (1, 0, 1)),
        (-np.eye(4), (4, 0, 0)),
    ],
)
def test_inertia_of_matrices_known_by_hand(mid, expected):
    """Negative, zero and positive eigenvalues, with multiplicity."""
    assert inertia(mid) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-2, 2), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_inertia_is_kept_by_congruence(diagonal, seed):
    """Sylvester's law: C^T D C has the inertia of D for a nonsingular C; all integers small enough to be exact."""
    n = len(diagonal)
    C = np.triu(np.random.default_rng(seed).integers(-3, 4, (n, n)), 1) + np.eye(n, dtype=int)
    mid = (C.T @ np.diag(diagonal) @ C).astype(np.float64)
    d = np.array(diagonal)
    assert inertia(mid) == ((d < 0).sum(), (d == 0).sum(), (d > 0).sum())


def test_counts_are_strict_and_count_multiplicity():
    """Eigenvalues equal to x are not below it; the next number above it has all of them below."""
    mid = np.diag([1.0, 2.0, 2.0, 5.0])
    x = 2.0
    assert [count_below(mid, y) for y in (1.0, np.nextafter(1, 2), x, np.nextafter(x, 3), 5.0, 6.0)] == [
        0,
        1,
        1,
        3,
        3,
        4,
    ]


def test_counts_are_exact_at_numbers_that_are_not_dyadic():
    """The eigenvalues 1/2 and 3/2 against thirds."""
    mid = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert [count_below(mid, Fraction(k, 3)) for k in (-1, 1, 2, 4, 5)] == [0, 0, 1, 1, 2]


def test_irrational_eigenvalues_are_separated_from_their_neighbours():
    """The golden ratio and 1 - golden ratio: x^2 - x - 1; Fibonacci quotients approach it from either side."""
    mid = np.array([[1.0, 1.0], [1.0, 0.0]])
    over, under = 1, 1
    for k in range(100):
        # F(k+2)/F(k+1) starts at 1 < golden ratio and alternates.
        assert count_below(mid, Fraction(over, under)) == (1 if k % 2 == 0 else 2)
        over, under = over + under, over


def test_counts_agree_with_a_floating_point_eigensolver_away_from_its_errors():
    """Order 60, 21 levels none of which is within 1e-6 of an eigenvalue."""
    a = np.random.default_rng(3).standard_normal((60, 60))
    mid = a + a.T
    eigenvalues = np.linalg.eigvalsh(mid)
    levels = [x for x in np.linspace(-22, 22, 21).tolist() if np.abs(eigenvalues - x).min() > 1e-6]
    assert len(levels) >= 15
    assert [count_below(mid, x) for x in levels] == [int((eigenvalues < x).sum()) for x in levels]


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf])
def test_levels_must_be_finite(x):
    """There is no count below NaN or infinity."""
    with pytest.raises(InputRejected, match="finite"):
        count_below(np.eye(2), x)


@pytest.mark.parametrize("mid", [np.array([[np.nan]]), np.array([[0.0, 1.0], [2.0, 0.0]]), np.zeros((1, 2))])
def test_other_matrices_are_refused(mid):
    """NaN, asymmetric and not square."""
    with pytest.raises(InputRejected):
        inertia(mid)
    with pytest.raises(InputRejected):
        count_below(mid, 0.0)


def test_orders_that_take_too_long_are_refused():
    """Order 101 is refused at once and the message names it."""
    with pytest.raises(InputRejected, match="101"):
        inertia(np.eye(101))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32 - 1), st.integers(0, 900))
def test_the_least_eigenvalue_from_below_by_counting(n, seed, grading):
    """No eigenvalue is below the bound, one is below 1.01 times the bound; 0 if singular, None if one is negative."""
    rng = np.random.default_rng(seed)
    factor = np.tril(rng.integers(-3, 4, size=(n, n))).astype(float)
    scales = 2.0 ** -rng.integers(0, grading // 10 + 1, size=n)
    mid = (factor @ factor.T) * scales[:, None] * scales[None, :]
    bound = positive_below(mid)
    if (np.diag(factor) == 0).any():
        assert bound == 0.0
    else:
        assert bound > 0
        assert count_below(mid, bound) == 0 < count_below(mid, 1.01 * bound)
    mid[0, 0] = -1.0
    assert positive_below(mid) is None


def test_eigenvalues_below_the_range_of_binary64():
    """An eigenvalue just below the least number is bounded by 0, that number itself by itself."""
    assert positive_below(np.array([[1.0, 2.0**-600], [2.0**-600, 2.0**-1074]])) == 0.0
    assert positive_below(np.diag([2.0**-1074, 1.0])) == 2.0**-1074
    a = 2.0**-537
    assert positive_below(np.array([[1.0, a], [a, a * a]])) == 0.0
