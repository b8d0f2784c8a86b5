"""Norms and eigenvalue bounds from binary64 products: never beyond the truth, and sharp or None."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic.midrad import MidRad, box
from certify.contraction import floating
from certify.contraction.floating import eigenvalue_bounds, gram_defect, inverse_factor, spectral_norm, thickened
from certify.contraction.spectrum import count_below, lower_bound, upper_bound


def symmetric(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """A symmetric matrix with about these eigenvalues."""
    Q = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


@pytest.mark.parametrize("seed", range(20))
def test_norm_bounds_every_symmetric_matrix_below(seed: int) -> None:
    """||A||_2 <= bound for random signs of |A| = B, which is at most the largest row sum, and near the Perron root."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    B = rng.exponential(size=(n, n)) ** 4 * (rng.random((n, n)) < 0.5)
    B = B + B.T
    bound = spectral_norm(B)
    assert bound <= B.sum(axis=1).max() * (1 + 1e-12)
    for _ in range(10):
        signs = np.triu(rng.choice([-1.0, 1.0], (n, n)))
        assert np.linalg.norm(B * (signs + np.triu(signs, 1).T), 2) <= bound
    assert np.linalg.norm(B, 2) <= bound <= 2 * np.linalg.norm(B, 2) + 1e-300


def test_norm_of_one_row_sum_is_not_the_largest_entry() -> None:
    """All ones: exactly n, not less; a diagonal matrix: its largest entry, not a sum."""
    assert 7 <= spectral_norm(np.ones((7, 7))) <= 7 * (1 + 1e-13)
    assert 5 <= spectral_norm(np.diag([1.0, 5.0, 2.0])) <= 5 * (1 + 1e-13)


def test_norms_at_the_edges() -> None:
    """0 for nothing and for zeros, infinite for overflow and NaN, never below subnormal entries."""
    assert spectral_norm(np.zeros((0, 0))) == 0
    assert spectral_norm(np.zeros((3, 3))) == 0
    assert spectral_norm(np.full((2, 2), 1e308)) == np.inf
    assert spectral_norm(np.full((2, 2), np.nan)) == np.inf
    assert spectral_norm(np.full((2, 2), 5e-324)) >= 1e-323


@pytest.mark.parametrize("seed", range(30))
def test_eigenvalue_bounds_hold_and_are_sharp(seed: int) -> None:
    """Against exact counts: no eigenvalue of a point matrix outside, and 2**-23 inwards there is one; graded ones too."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    values = 10 ** rng.uniform(-float(rng.choice([0, 3, 8])), 0, n)
    if seed % 3 == 0:
        values[0] = -values[0]
    A = symmetric(rng, values)
    if seed % 3 == 1:  # graded by rows, as stiff stages are
        d = 2.0 ** rng.integers(-20, 20, n)
        A = A * d[:, None] * d[None, :]
    bounds = eigenvalue_bounds(MidRad.exact(A))
    if bounds is None:
        assert seed % 3 != 0
        return
    low, high = bounds
    assert count_below(A, low) == 0
    assert count_below(A, np.nextafter(high, np.inf)) == n
    assert count_below(A, Fraction(high) * (1 - Fraction(1, 2**23))) < n
    if low > 0:
        assert count_below(A, Fraction(low) * (1 + Fraction(1, 2**23))) > 0


def test_bounds_hold_for_every_matrix_of_an_interval() -> None:
    """A radius moves both ends by its norm, and no corner lies outside."""
    rng = np.random.default_rng(1)
    A = symmetric(rng, np.array([1.0, 2.0, 3.0]))
    for radius in (1e-12, 1e-9):
        K = box(A, radius)
        bounds = eigenvalue_bounds(K)
        assert bounds is not None
        for _ in range(20):
            signs = np.triu(rng.choice([-1.0, 1.0], (3, 3)))
            values = np.linalg.eigvalsh(A + radius * (signs + np.triu(signs, 1).T))
            assert bounds[0] <= values[0] + 1e-15
            assert values[-1] - 1e-15 <= bounds[1]


def test_what_is_not_sharp_is_left_to_exact_arithmetic() -> None:
    """A wide interval, a nearly singular matrix and one that is not finite."""
    assert eigenvalue_bounds(box(np.eye(3), 0.1)) is None
    singular = np.ones((3, 3)) + 2.0**-60 * np.eye(3)
    assert eigenvalue_bounds(MidRad.exact(singular)) is None
    assert eigenvalue_bounds(MidRad.exact(np.array([[np.inf]]))) is None


def test_agrees_with_exact_arithmetic_on_a_graded_matrix() -> None:
    """Eigenvalues from 1e-9 to 1e9, where only the factor reaches the smallest."""
    d = np.diag(10.0 ** np.array([-4.5, 0.0, 4.5]))
    A = d @ (np.eye(3) + 0.25) @ d
    A = (A + A.T) / 2
    bounds = eigenvalue_bounds(MidRad.exact(A))
    assert bounds is not None
    assert bounds[0] == pytest.approx(lower_bound(A, np.zeros_like(A)).value, rel=2.0**-20)
    assert bounds[1] == pytest.approx(upper_bound(A, np.zeros_like(A)).value, rel=2.0**-20)


def test_gram_defect_bounds_the_frame_of_every_member() -> None:
    """||T^T A T - I|| at corners of the interval, with subnormal radii raised and not lost."""
    rng = np.random.default_rng(3)
    A = symmetric(rng, np.array([0.5, 1.0, 4.0, 9.0]))
    K = box(A, 1e-6)
    T = inverse_factor(K)
    assert T is not None
    defect = gram_defect(K, T)
    for _ in range(20):
        signs = np.triu(rng.choice([-1.0, 1.0], (4, 4)))
        member = A + 1e-6 * (signs + np.triu(signs, 1).T)
        assert np.linalg.norm(T.T @ member @ T - np.eye(4), 2) <= defect * (1 + 1e-9)
    assert inverse_factor(MidRad.exact(np.diag([1.0, -1.0]))) is None
    assert (thickened(box(A, 5e-324)).rad >= 5e-324).all()


def test_a_basis_that_is_not_orthogonal_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q (1 + t) with lam / (1 + t)^2 has no residual at all, but its numbers are off by 2 t: within the published error."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 6))
    K, eigh, t = A @ A.T + np.eye(6), np.linalg.eigh, 1e-6
    truth = eigh(K)[0]

    def stretched(mid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lam, Q = eigh(mid)
        return lam / (1 + t) ** 2, Q * (1 + t)

    monkeypatch.setattr(np.linalg, "eigh", stretched)
    found = floating._from_basis(MidRad.exact(K))
    assert found is not None
    low, high, error = found
    assert low <= truth[0] and truth[-1] <= high
    assert error < 20 * t * truth[-1]
