"""The relative variation of the Hessian: what decides stiff stages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from certify.cases.polyprox import State, corpus
from certify.cases.polyprox.stage.hessian import Enclosed, hessian
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.variation import frame_at, relative_variation

from certify.arithmetic.midrad import MidRad, box


@pytest.mark.parametrize(("p", "seed", "k", "radius"), [(5, 8, 2, 1e-9), (5, 1, 1, 1e-4), (3, 2, 0, 1e-2)])
def test_no_hessian_of_the_ball_varies_by_more_than_its_share(p: int, seed: int, k: int, radius: float) -> None:
    """The generalised eigenvalues of (K(W) - K(U), K(U)) stay within e, at corners of the box too, and e is not idle."""
    state = corpus.snapshots(p, seed)[k]
    state = replace(state, W=polish(state).U)
    face = np.nonzero(state.W)
    at = hessian(state, state.W, 0.0, face)
    frame = frame_at(at)
    assert frame is not None
    e = relative_variation(hessian(state, state.W, radius, face), at, state.rho, frame)
    values, Q = np.linalg.eigh(at.K.mid)
    T = Q / np.sqrt(values)
    rng = np.random.default_rng(0)
    largest = 0.0
    for n in range(40):
        W = state.W.copy()
        step = rng.choice([-1.0, 1.0], len(face[0])) if n % 2 else rng.uniform(-1, 1, len(face[0]))
        W[face] += 0.999 * radius * step
        moved = T.T @ (hessian(state, W, 0.0, face).K.mid - at.K.mid) @ T
        largest = max(largest, float(np.abs(np.linalg.eigvalsh((moved + moved.T) / 2)).max()))
    assert largest <= e
    # loose by row sums and by taking the parts apart, not by orders of magnitude
    assert largest >= e / 50


def test_each_part_of_the_variation_counts() -> None:
    """K = I + c K_h + rho k k^T, with one part moving alone: e covers that part's own variation."""
    rng = np.random.default_rng(1)
    n, rho, r = 4, 100.0, 1e-3
    k, still = rng.normal(size=n), np.zeros((n, n))
    one, nothing = MidRad.exact(np.array(1.0)), MidRad.exact(still)
    K = np.eye(n) + rho * np.outer(k, k)
    at = Enclosed(one, nothing, MidRad.exact(K), nothing, MidRad.exact(k))
    frame = frame_at(at)
    assert frame is not None
    slope = relative_variation(Enclosed(one, nothing, MidRad.exact(K), nothing, box(k, r)), at, rho, frame)
    cycle = relative_variation(Enclosed(one, nothing, MidRad.exact(K), box(still, r), MidRad.exact(k)), at, rho, frame)
    L = np.linalg.inv(np.linalg.cholesky(K))
    for signs in rng.choice([-1.0, 1.0], (20, n)):
        h = k + r * signs
        moved = [rho * (np.outer(h, h) - np.outer(k, k)), r * np.outer(signs, signs)]
        seen = [np.abs(np.linalg.eigvalsh(L @ m @ L.T)).max() for m in moved]
        assert 0 < seen[0] <= slope
        assert 0 < seen[1] <= cycle


def test_slopes_that_are_zero_at_the_centre_count() -> None:
    """One direction of a two-cycle is 0 at U, so that H(U) = 0 and all of rho H H^T is the square of how far H moves."""
    U, r = np.array([[0.0, 1.0], [0.0, 0.0]]), 1e-2
    state = State(W=U, Sigma=np.eye(2), M=1 - np.eye(2), alpha=0.0, rho=1e3, gamma=0.1, lam=0.1, b=0, p_max=2)
    both = np.nonzero(state.M)
    at = hessian(state, U, 0.0, both)
    frame = frame_at(at)
    assert frame is not None and frame.pull < 1e-12
    e = relative_variation(hessian(state, U, r, both), at, state.rho, frame)
    W = U + 0.999 * r * state.M
    moved = frame.T.T @ (hessian(state, W, 0.0, both).K.mid - at.K.mid) @ frame.T
    assert 0 < np.abs(np.linalg.eigvalsh((moved + moved.T) / 2)).max() <= e


def test_the_share_does_not_depend_on_a_choice_of_eigenvectors() -> None:
    """K = I + a hair: any orthogonal matrix is nearly an eigenbasis, but e moves by no more than the hair."""
    rng = np.random.default_rng(2)
    n = 5
    one, nothing = MidRad.exact(np.array(1.0)), MidRad.exact(np.zeros((n, n)))
    moves, slope = box(np.zeros((n, n)), rng.uniform(size=(n, n)) * 1e-3), MidRad.exact(np.zeros(n))
    shares = []
    for _ in range(10):
        hair = rng.normal(size=(n, n)) * 1e-12
        at = Enclosed(one, nothing, MidRad.exact(np.eye(n) + hair + hair.T), nothing, slope)
        frame = frame_at(at)
        assert frame is not None
        shares.append(relative_variation(Enclosed(one, nothing, at.K, moves, slope), at, 1.0, frame))
    assert max(shares) - min(shares) < 1e-9 * max(shares)


def test_an_indefinite_hessian_has_no_frame() -> None:
    """No Cholesky factor, or none that is proved to be one."""
    one, nothing = MidRad.exact(np.array(1.0)), MidRad.exact(np.zeros((2, 2)))
    for K in (MidRad.exact(np.diag([1.0, -1.0])), box(np.eye(2), 2.0)):
        assert frame_at(Enclosed(one, nothing, K, nothing, MidRad.exact(np.zeros(2)))) is None
