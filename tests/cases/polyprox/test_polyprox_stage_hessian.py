"""The interval Hessian against exact rationals at random points of the box, and against finite differences."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox import State
from certify.cases.polyprox.stage.hessian import Enclosed, Entries, hessian
from certify.cases.polyprox.update import acyclicity
from polyprox_states import fractions, random_state

SIZES = [(2, 2), (2, 4), (3, 4), (3, 8)]


def exactly(state: State, W: np.ndarray, entries: Entries) -> tuple[Fraction, np.ndarray, np.ndarray]:
    """c, grad J and K at W by the formulas of the specification, in Fractions; W holds floats or Fractions."""
    p, N = state.p, state.N
    W, Sigma, eye = fractions(W), fractions(state.Sigma), fractions(np.eye(p))
    alpha, rho = Fraction(state.alpha), Fraction(state.rho)
    Y = eye + W * W * Fraction(1, N)
    powers = [eye]
    for _ in range(N):
        powers.append(powers[-1] @ Y)
    c = alpha + rho * (sum(np.diagonal(powers[N]).tolist()) - p)
    H = 2 * W * powers[N - 1].T
    gradient = Sigma @ (W - eye) + H * c
    n = len(entries[0])
    K = np.zeros((n, n), dtype=object)
    pairs = list(zip(*(index.tolist() for index in entries), strict=True))
    for row, (i, j) in enumerate(pairs):
        for column, (a, b) in enumerate(pairs):
            walks = sum(powers[k][j, a] * powers[N - 2 - k][b, i] for k in range(N - 1))
            K_h = 4 * W[i, j] * W[a, b] * walks * Fraction(1, N)
            if row == column:
                K_h += 2 * powers[N - 1][j, i]
            K[row, column] = (Sigma[i, a] if j == b else 0) + c * K_h + rho * H[i, j] * H[a, b]
    return c, gradient, K


def encloses(enclosure, exact) -> bool:
    """Whether |exact - mid| <= rad in every entry, in exact arithmetic."""
    mids, rads = np.ravel(enclosure.mid).tolist(), np.ravel(enclosure.rad).tolist()
    values = np.ravel(np.asarray(exact, dtype=object)).tolist()
    return all(abs(x - Fraction(m)) <= Fraction(r) for x, m, r in zip(values, mids, rads, strict=True))


def assert_encloses(found: Enclosed, state: State, W: np.ndarray, entries: Entries) -> None:
    """All three enclosures hold at W."""
    c, gradient, K = exactly(state, W, entries)
    assert encloses(found.c, c)
    assert encloses(found.gradient, gradient)
    assert encloses(found.K, K)


def some_entries(rng: np.random.Generator, state: State) -> Entries:
    """A random subset of the allowed entries, in the order of numpy.nonzero; at times all."""
    return np.nonzero((state.M != 0) & (rng.random(state.M.shape) < 0.8))


@pytest.mark.parametrize(("p", "P"), SIZES)
def test_every_point_of_the_box_is_enclosed(p: int, P: int) -> None:
    """K, grad J and c at random points and corners of the box, exact, lie in the enclosure; entries outside stay put."""
    rng = np.random.default_rng([p, P])
    for k in range(8):
        state = replace(random_state(rng, p, P, 0, 0.9, 2.0), rho=float(rng.choice([0.0, 1.0, 1e4])))
        entries = some_entries(rng, state)
        radius = float(10.0 ** rng.uniform(-14, 0))
        found = hessian(state, state.W, radius, entries)
        for corner in (True, False):
            share = rng.choice([-1.0, 1.0], p * p) if corner else rng.uniform(-1, 1, p * p)
            W = fractions(state.W)
            for where, s in zip(zip(*entries, strict=True), share.tolist(), strict=False):
                W[where] = W[where] + Fraction(radius) * Fraction(s)
            assert_encloses(found, state, W, entries)
        if k == 0:
            assert_encloses(hessian(state, state.W, 0.0, entries), state, fractions(state.W), entries)


@pytest.mark.parametrize(("p", "P"), SIZES)
def test_a_point_is_enclosed_to_a_few_roundoffs(p: int, P: int) -> None:
    """With radius 0 the exact values are enclosed, and the radius is below 1e-13 of the largest entry."""
    rng = np.random.default_rng([7, p, P])
    for _ in range(5):
        state = random_state(rng, p, P, 0, 0.9, 2.0)
        entries = np.nonzero(state.M)
        found = hessian(state, state.W, 0.0, entries)
        assert_encloses(found, state, fractions(state.W), entries)
        assert found.K.rad.max() <= 1e-13 * np.abs(found.K.mid).max()
        assert found.gradient.rad.max() <= 1e-13 * (1 + np.abs(found.gradient.mid).max())


def test_extreme_weights_are_enclosed() -> None:
    """Weights of 1e-160, whose squares are subnormal, and of 1e20, whose powers need 160 bits of range."""
    for scale in (1e-170, 1e-160, 1e-154, 1e20):
        W = scale * np.array([[0.0, 1.25, -0.7], [0.3, 0.0, 1.0], [-1.1, 0.0, 0.0]])
        M = (W != 0).astype(int)
        state = State(W=W, Sigma=np.eye(3) + 0.25, M=M, alpha=1e8, rho=3.0, gamma=0.1, lam=0.1, b=0, p_max=4)
        entries = np.nonzero(M)
        assert_encloses(hessian(state, W, 0.0, entries), state, fractions(W), entries)
        assert_encloses(hessian(state, W, scale / 8, entries), state, fractions(W * 1.0625), entries)


@pytest.mark.parametrize(("p", "P"), [(2, 2), (3, 3), (5, 8), (10, 10), (11, 16)])
def test_hessian_is_the_derivative_of_the_gradient(p: int, P: int) -> None:
    """Central differences of the reference gradient, whose error is about 1e-8, agree with every column of K."""
    rng = np.random.default_rng([13, p, P])
    state = random_state(rng, p, P, 0, 1.0 if p < 10 else 0.4, 1.5)
    entries = np.nonzero(state.M)
    K = hessian(state, state.W, 0.0, entries).K.mid

    def gradient(W: np.ndarray) -> np.ndarray:
        h, H = acyclicity(W, state.N)
        return (state.Sigma @ (W - np.eye(p)) + (state.alpha + state.rho * h) * H)[entries]

    step = 1e-5
    for column, where in enumerate(zip(*entries, strict=True)):
        e = np.zeros((p, p))
        e[where] = step
        slope = (gradient(state.W + e) - gradient(state.W - e)) / (2 * step)
        assert np.abs(slope - K[:, column]).max() < 1e-7 * (1 + np.abs(K).max())


def test_enclosures_are_exactly_symmetric() -> None:
    """Midpoint and radius of K are symmetric to the bit, as the eigenvalue bounds require."""
    rng = np.random.default_rng(17)
    for p, P in [(2, 2), (3, 4), (6, 8), (10, 16)]:
        state = random_state(rng, p, P, 0, 0.8, 1.5)
        for radius in (0.0, 1e-9, 0.1):
            K = hessian(state, state.W, radius, np.nonzero(state.M)).K
            assert np.array_equal(K.mid, K.mid.T)
            assert np.array_equal(K.rad, K.rad.T)
            assert (K.rad >= 0).all()


def test_a_larger_box_has_a_larger_enclosure() -> None:
    """The ends of K over radius r contain those over smaller radii, up to rounding."""
    rng = np.random.default_rng(19)
    state = random_state(rng, 4, 4, 0, 0.8, 1.5)
    entries = np.nonzero(state.M)
    boxes = [hessian(state, state.W, r, entries).K for r in (0.0, 1e-6, 1e-3, 0.1)]
    for small, large in itertools.pairwise(boxes):
        assert (large.mid - large.rad <= small.mid - small.rad + 1e-12).all()
        assert (large.mid + large.rad >= small.mid + small.rad - 1e-12).all()


def test_one_variable_has_no_entries_and_no_penalty() -> None:
    """p = 1, N = 1: K is empty, c = alpha, and the gradient is Sigma (0 - 1)."""
    zero = np.zeros((1, 1))
    state = State(W=zero, Sigma=2.0 * np.ones((1, 1)), M=zero, alpha=3.0, rho=1.0, gamma=0.1, lam=0.1, b=0, p_max=1)
    found = hessian(state, zero, 0.0, np.nonzero(zero))
    assert found.K.mid.shape == (0, 0)
    assert encloses(found.c, Fraction(3))
    assert encloses(found.gradient, [[Fraction(-2)]])


def test_an_overflow_is_not_a_finite_enclosure() -> None:
    """W = 1e200: W * W overflows, so some entry of K is not finite, and none is finite and wrong."""
    W = np.array([[0.0, 1e200], [1e200, 0.0]])
    state = State(W=W, Sigma=np.eye(2), M=(W != 0), alpha=1.0, rho=1.0, gamma=0.1, lam=0.1, b=0, p_max=2)
    with np.errstate(over="ignore", invalid="ignore"):
        found = hessian(state, W, 0.0, np.nonzero(W))
    assert not np.isfinite(found.K.mid).all() or not np.isfinite(found.K.rad).all()
