"""The relative variation of the Hessian: what decides stiff stages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from certify.cases.polyprox import corpus
from certify.cases.polyprox.stage.hessian import Enclosed, hessian
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.problem import relative_variation

from certify.arithmetic.midrad import MidRad, box


@pytest.mark.parametrize(("p", "seed", "k", "radius"), [(5, 8, 2, 1e-9), (5, 1, 1, 1e-4), (3, 2, 0, 1e-2)])
def test_no_hessian_of_the_ball_varies_by_more_than_its_share(p: int, seed: int, k: int, radius: float) -> None:
    """The generalised eigenvalues of (K(W) - K(U), K(U)) stay within e, at corners of the box too, and e is not idle."""
    state = corpus.snapshots(p, seed)[k]
    state = replace(state, W=polish(state).U)
    face = np.nonzero(state.W)
    at = hessian(state, state.W, 0.0, face)
    e = relative_variation(hessian(state, state.W, radius, face), at, state.rho)
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
    slope = relative_variation(Enclosed(one, nothing, MidRad.exact(K), nothing, box(k, r)), at, rho)
    cycle = relative_variation(Enclosed(one, nothing, MidRad.exact(K), box(still, r), MidRad.exact(k)), at, rho)
    L = np.linalg.inv(np.linalg.cholesky(K))
    for signs in rng.choice([-1.0, 1.0], (20, n)):
        h = k + r * signs
        moved = [rho * (np.outer(h, h) - np.outer(k, k)), r * np.outer(signs, signs)]
        seen = [np.abs(np.linalg.eigvalsh(L @ m @ L.T)).max() for m in moved]
        assert 0 < seen[0] <= slope
        assert 0 < seen[1] <= cycle
