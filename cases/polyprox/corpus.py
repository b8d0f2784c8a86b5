"""The corpus of the fixed-stage tests: 30 small structure-learning problems and three snapshots of each.

Source: polyprox.md section 8 and arXiv 2610.10395, Appendix F.3, which give every constant below; the random streams
are ours, as the paper does not publish its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from certify.errors import InputRejected

if TYPE_CHECKING:
    from .solver import Solution
    from .state import State

SIZES = (3, 5, 10)
SEEDS = range(10)
SAMPLES = 500
LAM = 0.1
MAGNITUDES = (0.5, 2.0)


def instances() -> Iterator[tuple[str, int, int]]:
    """Yield ``(name, p, seed)`` of the 30 instances, smallest p first."""
    for p in SIZES:
        for seed in SEEDS:
            yield f"p{p}-seed{seed}", p, seed


def instance(p: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``(Sigma, W)``, each ``(p, p)``: the covariance of 500 centred samples, and the true weights.

    The truth is a linear model ``x = W^T x + noise`` with unit Gaussian noise on an Erdos-Renyi acyclic graph: a
    uniformly random order, each of the ``p (p - 1) / 2`` forward edges with probability ``2 / (p - 1)`` (so p edges
    and degree 2 are expected), weights uniform on ``+-[0.5, 2]``. The same ``(p, seed)`` gives the same instance.

    Raises
    ------
    InputRejected : p is below 3, where the expected degree 2 cannot be reached, or the seed is negative.
    """
    if p < 3:
        raise InputRejected(f"an instance of p = {p} variables cannot have expected degree 2", "use p of at least 3")
    if seed < 0:
        raise InputRejected(f"the seed is {seed}", "use a seed that is not negative")
    graph, noise = (np.random.default_rng(s) for s in np.random.SeedSequence([p, seed]).spawn(2))
    order = graph.permutation(p)
    drawn = graph.random((p, p)) < 2 / (p - 1)
    signs = graph.choice([-1.0, 1.0], size=(p, p))
    weights = np.triu(drawn, 1) * signs * graph.uniform(*MAGNITUDES, size=(p, p))
    W = np.zeros((p, p))
    W[np.ix_(order, order)] = weights
    X = np.linalg.solve(np.eye(p) - W.T, noise.normal(size=(p, SAMPLES))).T
    X -= X.mean(axis=0)
    Sigma = X.T @ X / SAMPLES
    return (Sigma + Sigma.T) / 2, W


def solution(p: int, seed: int) -> Solution:
    """Return the run of the reference solver on `instance`, every edge but the diagonal allowed.

    Raises
    ------
    InputRejected : as `instance`.
    """
    from .solver import solve

    return solve(instance(p, seed)[0], lam=LAM, record="stages")


def snapshots(p: int, seed: int) -> list[State]:
    """Return the early, middle and late stage endpoints of `solution`: the fixed maps to test, with ``b = 0``.

    Each is the last accepted state of its stage with the ``alpha, rho, gamma`` that produced it.

    Raises
    ------
    InputRejected : as `instance`.
    """
    from .solver import stage_states

    return stage_states(solution(p, seed))
