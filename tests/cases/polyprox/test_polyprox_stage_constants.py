"""The constants of both kinds bound h, its gradient, its Hessian, and the change of the Hessian, with the truth in floats."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox.stage.constants import Constants, published, zero_diagonal

KINDS = {"published": published, "zero diagonal": zero_diagonal}
# The truth is a float computation of relative error far below this.
MARGIN = 1 + 1e-9


def truth(W: np.ndarray, N: int) -> tuple[float, np.ndarray, np.ndarray]:
    """h, its gradient and its Hessian on all off-diagonal entries; h by powers of S alone, so that nothing cancels."""
    p = len(W)
    S = W * W / N
    powers = [np.eye(p)]
    for _ in range(N):
        powers.append(powers[-1] + powers[-1] @ S)
    h = 0.0
    for k in range(N):  # Y^N - I = sum_k Y^k S
        h += float(np.trace(powers[k] @ S))
    H = 2 * W * powers[N - 1].T
    i, j = np.nonzero(~np.eye(p, dtype=bool))
    w = W[i, j]
    walks = sum(powers[k][np.ix_(j, i)] * powers[N - 2 - k][np.ix_(j, i)].T for k in range(N - 1))
    K = 4 / N * np.outer(w, w) * walks + 2 * np.diag(powers[N - 1][j, i])
    return h, H, K


def directions(rng: np.random.Generator, p: int, trials: int) -> Iterator[np.ndarray]:
    """Unit matrices with zero diagonal: two-cycles (the extreme case), longer cycles, dense and sparse ones."""
    for k in range(trials):
        W = np.zeros((p, p))
        if k % 3 == 0:
            i, j = rng.choice(p, 2, replace=False)
            W[i, j], W[j, i] = 1.0, rng.choice([1.0, -1.0]) * rng.uniform(0.3, 1)
        elif k % 3 == 1:
            order = rng.permutation(p)[: int(rng.integers(2, p + 1))]
            W[order, np.roll(order, 1)] = rng.uniform(0.5, 1, len(order))
        else:
            W = rng.normal(size=(p, p)) * (rng.random((p, p)) < rng.uniform(0.3, 1))
            np.fill_diagonal(W, 0)
        if np.any(W):
            yield W / np.linalg.norm(W)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("N", [2, 4, 8, 16])
def test_constants_bound_the_truth_on_the_ball(kind: str, N: int) -> None:
    """h <= c_h, ||H|| <= c_H, ||h''|| <= L_H, ||h''(W) - h''(W')|| <= T_H ||W - W'|| for random and two-cycle W in it."""
    rng = np.random.default_rng([N, len(kind)])
    constants = KINDS[kind]
    closest = np.zeros(4)
    for R in (1e-3, 0.1, 0.7, 1.5, 3.0):
        bound = constants(Fraction(R), N)
        limits = np.array([float(x) for x in (bound.c_h, bound.c_H, bound.L_H, bound.T_H)])
        for p in (2, 3, 5):
            for D, E in zip(directions(rng, p, 12), directions(rng, p, 12), strict=False):
                W = R * D
                h, H, K = truth(W, N)
                # a neighbour in the ball, inwards and sideways
                other = W - R * rng.choice([1e-3, 1e-2, 0.3]) * (E if rng.random() < 0.5 else D)
                other *= min(1.0, R / np.linalg.norm(other))
                if np.linalg.norm(other - W) < 1e-9 * R:  # back where it came from
                    continue
                moved = np.linalg.norm(truth(other, N)[2] - K, 2) / np.linalg.norm(other - W)
                found = np.array([h, np.linalg.norm(H), np.linalg.norm(K, 2), moved])
                # the quotient cancels: 1e-13 of K over a step of 1e-6 at the least
                slack = np.array([0.0, 0.0, 0.0, 1e-12 * np.linalg.norm(K, 2) / np.linalg.norm(other - W)])
                assert (found <= limits * MARGIN + slack).all(), (R, p, found, limits)
                closest = np.maximum(closest, found / limits)
    # the bounds are not vacuous: something comes within a factor of 10 of each
    assert (closest > 0.1).all(), closest


def test_two_variables_and_the_first_power_are_known_exactly() -> None:
    """N = 2, W = t [[0, 1], [1, 0]], R^2 = 2 t^2, N = 2: h = t^4 / 2 = R^4 / 8, ||H|| = sqrt 2 t^3 = R^3 / 2."""
    R = Fraction(3, 5)
    sharp = zero_diagonal(R, 2)
    # c_h = C(2,2) 2^-2 R^4 / 2 = R^4 / 8: attained
    assert sharp.c_h == R**4 / 8
    # the published one is x^2 = R^4 / 4, twice as large
    assert published(R, 2).c_h == R**4 / 4
    # h'' = 0 at W = 0 has third derivatives 12 R b_2 = 6 R, d_2 = 0
    assert published(R, 2).T_H == 6 * R
    h, H, _ = truth(np.array([[0.0, 1.0], [1.0, 0.0]]) * float(R) / 2**0.5, 2)
    assert h == pytest.approx(float(R**4 / 8), rel=1e-12)
    assert np.linalg.norm(H) == pytest.approx(float(R**3 / 2), rel=1e-12)


@pytest.mark.parametrize("N", [1, 2, 4, 8, 16, 32, 64])
def test_zero_diagonal_constants_are_never_larger(N: int) -> None:
    """For radii from 0 to 10, each of the four is at most the published one; h and the gradient strictly below for N > 1."""
    for R in (Fraction(0), Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(10)):
        sharp, paper = zero_diagonal(R, N), published(R, N)
        for name in ("c_h", "c_H", "L_H", "T_H"):
            assert 0 <= getattr(sharp, name) <= getattr(paper, name)
        if N > 1 and R > 0:
            assert sharp.c_h < paper.c_h
    # (1 + x/2)^N against (1 + x)^N at x = R^2 / N = 9 / N
    if N >= 16:
        assert zero_diagonal(Fraction(3), N).L_H * 4 < published(Fraction(3), N).L_H


@pytest.mark.parametrize("kind", KINDS)
def test_one_power_has_no_penalty(kind: str) -> None:
    """N = 1: Y^0 = I and h = tr B = 0 on a zero diagonal, so all four are 0."""
    assert KINDS[kind](Fraction(2), 1) == Constants(Fraction(0), Fraction(0), Fraction(0), Fraction(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("N", [2, 4, 64])
def test_at_the_origin_everything_vanishes(kind: str, N: int) -> None:
    """R = 0: h, H, h'' and, as h''' is odd, its Lipschitz constant are 0."""
    assert KINDS[kind](Fraction(0), N) == Constants(Fraction(0), Fraction(0), Fraction(0), Fraction(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("N", [2, 4, 16])
def test_constants_grow_with_the_radius(kind: str, N: int) -> None:
    """A bound on a ball holds on smaller ones: no constant falls as R grows."""
    found = [KINDS[kind](Fraction(k, 10), N) for k in range(30)]
    for small, large in itertools.pairwise(found):
        for name in ("c_h", "c_H", "L_H", "T_H"):
            assert getattr(small, name) <= getattr(large, name)
