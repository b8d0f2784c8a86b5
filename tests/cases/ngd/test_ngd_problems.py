"""The training problems of two scalars, against other routes: scipy's quadrature, sampling, minimisation in floating point."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certify.cases.ngd import batch, corpus, population
from certify.cases.ngd.state import rational, state_of
from flint import arb, ctx
from scipy.integrate import quad
from scipy.stats import norm

from certify.certificate import parse


def reduced_slope(d: int, s: float, k: float) -> float:
    """The derivative in C2 of the loss that is least in C1, by scipy's quadrature over c and a central difference."""

    def h(x: float) -> float:
        return norm.pdf(x) / norm.cdf(-x)

    def moment(k: float, which: int) -> float:
        def integrand(c: float) -> float:
            u = (-(s**2) * k, s * h(s * k * c))
            m = 2 * np.exp(s**2 / 2) * norm.cdf(-s * c)
            g = (-(s**2) * m, s * h(s * c) * m)
            uu = u[0] ** 2 + u[1] ** 2 + 2 * c * u[0] * u[1]
            ug = u[0] * g[0] + u[1] * g[1] + c * (u[0] * g[1] + u[1] * g[0])
            return float((1 - c**2) ** ((d - 3) / 2) * (uu, ug)[which])

        return float(quad(integrand, -1, 1, epsabs=1e-13, epsrel=1e-13)[0])

    def least(k: float) -> float:
        return -(moment(k, 1) ** 2) / moment(k, 0)

    return (least(k + 1e-4) - least(k - 1e-4)) / 2e-4


def test_minimiser_is_where_the_slope_changes_sign() -> None:
    """By quadrature in another variable, for the case d = 20, sigma = 1; and C1 there."""
    claim = population.minimiser_claim(20, Fraction(1))
    bounds = {name: parse(text) for name, text in claim.bounds.items()}
    assert claim.verdict == "certified"
    assert bounds["high"] - bounds["low"] < Fraction(1, 10**12) and bounds["C1_high"] - bounds["C1_low"] < Fraction(
        1, 10**12
    )
    middle = float(bounds["low"])
    assert reduced_slope(20, 1.0, middle - 1e-4) < 0 < reduced_slope(20, 1.0, middle + 1e-4)
    # the limit in d is (e^{1/2}, 1)
    assert abs(middle - 1) < 0.01 and abs(float(bounds["C1_low"]) - np.exp(0.5)) < 0.03


def test_a_strip_with_too_wide_pieces_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece to begin with is cut until all is settled; with pieces that may not be cut nothing is certified."""
    problem = population.Population(20, Fraction(1, 2))
    monkeypatch.setattr(population, "_PIECES", 2)
    with ctx.workprec(53):
        assert population._unsettled(problem) is None
        monkeypatch.setattr(population, "_MOST_PIECES", 3)
        monkeypatch.setattr(population.Population, "is_settled", lambda self, low, high: False)
        assert population._unsettled(problem) is not None


def test_first_step_of_training() -> None:
    """With eta = 0.1 and d = 20 the first step takes C1 to 0.016347, from the derivative at 0."""
    claim = population.zero_claim(60, 20, Fraction(1))
    slope = float(parse(claim.bounds["slope_low"]))
    assert abs(-0.1 / 20 * slope - 0.016347) < 5e-7
    assert parse(claim.bounds["high"]) - parse(claim.bounds["low"]) < Fraction(1, 10**30)


def test_closed_forms_agree_with_samples() -> None:
    """Loss and slope at 0 within 4 standard errors of 40 x 1000 sampled contexts, n = 60 and d = 20."""
    claim = population.zero_claim(60, 20, Fraction(1))
    rng = np.random.default_rng(2)
    values = []
    for _ in range(40):
        X = rng.standard_normal((1000, 60, 20))
        star, theta = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in rng.standard_normal((2, 1000, 20)))
        Z = X * np.sign(np.einsum("bnd,bd->bn", X, star))[:, :, None]
        G = np.einsum("bn,bnd->bd", np.exp(-np.einsum("bnd,bd->bn", Z, theta)), Z) / 60
        values.append([np.mean(np.sum(G * G, axis=1)), np.mean(-2 * np.sum(G * Z.mean(axis=1), axis=1))])
    mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / 40**0.5
    for k, name in enumerate(("low", "slope_low")):
        assert abs(mean[k] - float(parse(claim.bounds[name]))) < 4 * error[k]


def losses(C: np.ndarray) -> float:
    """The loss of the batch in float64."""
    saved = corpus.batch()
    total = 0.0
    starts = saved.tensors["batch_theta"] / saved.tensors["batch_denominator"][:, None]
    for Z, theta in zip(saved.tensors["batch"], starts, strict=True):
        e = np.exp(-C[1] * Z @ theta)
        total += np.sum((C[0] * (e @ Z) / e.sum() - np.exp(-Z @ theta) @ Z / len(Z)) ** 2)
    return total / 8


def test_minimiser_of_the_batch() -> None:
    """Where scipy finds it; its eigenvalue and factor are those of second differences there."""
    from scipy.optimize import minimize

    claim, scaling = batch.batch_claims(state_of(corpus.joined([corpus.batch(), one_context()])).batch)
    assert claim.verdict == scaling.verdict == "certified"
    found = minimize(losses, np.array([1.0, 1.0]), tol=1e-12).x
    bounds = {name: float(parse(text)) for name, text in claim.bounds.items()}
    assert abs(found[0] - bounds["C1_low"]) < 1e-4 and abs(found[1] - bounds["low"]) < 1e-3
    rng = np.random.default_rng(0)
    star = np.array([bounds["C1_low"], bounds["low"]])
    for _ in range(200):
        direction = rng.standard_normal(2)
        C = star + bounds["radius"] * rng.random() * direction / np.linalg.norm(direction)
        h = 1e-6
        gradient = np.array([(losses(C + h * e) - losses(C - h * e)) / (2 * h) for e in np.eye(2)])
        moved = C - 0.1 / 3 * gradient
        assert np.linalg.norm(moved - star) <= bounds["factor"] * np.linalg.norm(C - star) + 1e-9
        assert gradient @ (C - star) >= bounds["mu"] * np.sum((C - star) ** 2) - 1e-9


def test_derivatives_of_the_batch_are_its_derivatives() -> None:
    """Gradient and Hessian against differences, away from the minimiser."""
    given = state_of(corpus.joined([corpus.batch(), one_context()])).batch
    C, h = np.array([0.7, 1.4]), 1e-4
    with ctx.workprec(96):
        found = batch.derivatives(given, arb(0.7), arb(1.4))
        gradient = [float(x) for x in found.gradient]
        hessian = [float(x) for x in found.hessian]
    unit = np.eye(2) * h
    for k in range(2):
        assert abs((losses(C + unit[k]) - losses(C - unit[k])) / (2 * h) - gradient[k]) < 1e-6
    for value, (a, b) in zip(hessian, ((0, 0), (0, 1), (1, 1)), strict=True):
        corners = [losses(C + i * unit[a] + j * unit[b]) * i * j for i in (1, -1) for j in (1, -1)]
        assert abs(sum(corners) / (4 * h * h) - value) < 1e-5


def test_krawczyk_refuses_boxes_without_a_zero() -> None:
    """Away from the minimiser, and in a box that is too large for it."""
    given = state_of(corpus.joined([corpus.batch(), one_context()])).batch
    with ctx.workprec(128):
        middle = batch._newton(given)
        away = (middle[0] + Fraction(1, 16), middle[1])
        tiny, large = Fraction(1, 1 << 30), Fraction(1)
        assert batch._krawczyk(given, away, tuple(batch._ball(x, tiny) for x in away)) is None
        assert batch._krawczyk(given, middle, tuple(batch._ball(x, large) for x in middle)) is None
        assert batch._krawczyk(given, middle, tuple(batch._ball(x, tiny) for x in middle)) is not None
        # a second derivative that is said to be 2^-20 too small is still inside, one that is doubled is not
        assert arb(rational(middle[0])).is_finite()


def one_context() -> object:
    """What a state needs beside a batch."""
    return corpus.context("a", corpus.dataset(3, 2, 0), (0, 0), C1="1/4")
