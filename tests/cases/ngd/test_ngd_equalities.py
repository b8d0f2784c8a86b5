"""The layer is the step: identities in symbols, enclosures over layers, and what happens to formulas that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certify.cases.ngd import averages, balls, corpus, lemma, symbols
from certify.cases.ngd.layer import layer
from certify.cases.ngd.state import fraction
from flint import arb, ctx
from ngd_states import context_of

Balls = list[Any]


def fifty() -> Any:
    """The context of the demo: twelve examples in three dimensions, fifty layers."""
    return context_of("small", corpus.context("small", corpus.dataset(12, 3, 0), (3, 0, 4), 5, C1="1/4", layers=50))


@pytest.mark.parametrize("name", symbols.IDENTITIES)
@pytest.mark.parametrize(("n", "d"), [(2, 1), (5, 3), (12, 3)])
def test_identities_hold(name: str, n: int, d: int) -> None:
    """For all real numbers."""
    assert symbols.IDENTITIES[name](n, d)


@pytest.mark.parametrize("name", symbols.IDENTITIES)
def test_identities_fail_for_another_loss(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The loss of -theta, or twice the loss with the same gradient."""
    good = symbols.loss
    monkeypatch.setattr(symbols, "loss", lambda ring, phi: good(ring, [-x for x in phi]))
    assert not symbols.IDENTITIES[name](5, 3)
    monkeypatch.setattr(symbols, "loss", lambda ring, phi: (2 * good(ring, phi)[0], good(ring, phi)[1]))
    assert not symbols.IDENTITIES[name](5, 3)


@pytest.mark.parametrize("apart", [balls.layers_apart, balls.effective_apart, balls.rmsnorm_apart])
def test_fifty_layers_are_equal_to_within_the_radius(apart: Callable[[Any], Any]) -> None:
    """At the precision that is chosen before the run, without a second one."""
    context = fifty()
    bits = balls.bits_for(context, context.layers, context.step)
    found = balls.greatest_radius(apart, context, bits, most=bits)
    assert found is not None and found[0] <= balls.RADIUS == Fraction(1, 10**50)


def test_a_wrong_step_is_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descent with a step of one part in 2^60 more is found to be another sequence."""
    good = balls.descent
    more = 1 + arb(2) ** -60
    monkeypatch.setattr(balls, "descent", lambda c, t, scale, step: good(c, t, scale, arb(step) * more))
    assert balls.greatest_radius(balls.layers_apart, fifty(), 400) is None


def test_too_little_precision_is_not_enough() -> None:
    """Nothing is claimed at 64 bits."""
    assert balls.greatest_radius(balls.layers_apart, fifty(), 64, most=64) is None


@pytest.mark.parametrize("seed", range(6))
def test_float_layers_lie_in_the_enclosures(seed: int) -> None:
    """The kernel in float64 is near the balls, with random contexts."""
    saved = corpus.context("a", corpus.dataset(7, 4, seed), (1, -2, 0, 3), 4, C1="3/4", C2="1/2", layers=1)
    context = context_of("a", saved)
    with ctx.workprec(128):
        H, (V, W) = balls.embedding(context), balls.weights(context)
        out = H + balls.attended(H, V, W)
        exact = [float(out[4 + k, 7].mid()) for k in range(4)]
    np.testing.assert_allclose(layer(saved.tensors["Z.a"], saved.tensors["start.a"], 0.75, 0.5), exact, rtol=1e-13)


def test_mask_matters_everywhere_here() -> None:
    """The difference is |theta| scaled by the weight of token n + 1, so positive."""
    with ctx.workprec(128):
        assert balls.lower(balls.mask_matters(fifty())) > Fraction(5, 1000)


def test_averaged_gradient_keeps_the_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the context of the demo; and changes of sign alone are not enough."""
    saved = corpus.context(
        "a", corpus.Dataset(corpus.dataset(5, 3, 3).Z / 4, np.ones(3)), (2, 3, 6), 7, C1="5/4", C2="3/4"
    )
    context = context_of("a", saved)
    assert lemma.lemma_claim(context).verdict == "certified"
    good = list(lemma.signed_permutations(3))
    monkeypatch.setattr(lemma, "signed_permutations", lambda d: iter(good[:8]))
    assert lemma.lemma_claim(context).verdict == "undecided"


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 2), (5, 3)])
def test_averaged_blocks_are_multiples_of_the_identity(n: int, d: int) -> None:
    """For all real numbers."""
    assert averages.averages_are_multiples(n, d)


def test_rotations_by_signs_alone_do_not_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of sign leave a diagonal that is no multiple of I."""
    good = list(lemma.signed_permutations(2))
    monkeypatch.setattr(averages, "signed_permutations", lambda d: iter(good[:4]))
    assert not averages.averages_are_multiples(3, 2)


def test_gradients_of_the_model_are_its_gradients() -> None:
    """Against central differences in float64, of all 72 entries."""
    data = corpus.dataset(5, 3, 3)
    Z, theta = data.Z / 4, np.array([2.0, 3.0, 6.0]) / 7
    n, d, h = 5, 3, 1e-5
    V, W = np.zeros((2, 6, 6))
    V[3:, :3], W[:3, 3:] = 1.25 * np.eye(3), -0.75 * np.eye(3)
    V += 0.01 * np.arange(36).reshape(6, 6) / 36
    H = np.vstack([Z.T, np.zeros((3, n))])
    query = np.concatenate([np.zeros(3), theta])
    target = (np.exp(-Z @ theta) @ Z) / n

    def loss(V: np.ndarray, W: np.ndarray) -> float:
        e = np.exp(H.T @ W @ query)
        return float(np.sum(((V @ (H @ (e / e.sum())))[d:] - target) ** 2))

    from flint import arb_mat

    with ctx.workprec(128):
        exact = [[arb(x) for x in row] for row in Z.tolist()]
        found = lemma.gradients(exact, [arb(x) for x in theta.tolist()], *(arb_mat(M.tolist()) for M in (V, W)))
        exact_V, exact_W = (np.array([[float(x) for x in row] for row in M.tolist()]) for M in found)
    for which, exact_gradient in enumerate((exact_V, exact_W)):
        for i in range(6):
            for j in range(6):
                moved = [[V.copy(), W.copy()], [V.copy(), W.copy()]]
                moved[0][which][i, j] += h
                moved[1][which][i, j] -= h
                difference = (loss(*moved[0]) - loss(*moved[1])) / (2 * h)
                assert abs(difference - exact_gradient[i, j]) < 1e-7


def test_fractions_and_context_fields() -> None:
    """A step is C1 C2, exactly."""
    context = replace(fifty(), C2=fifty().C1)
    assert fraction(context.step) == Fraction(1, 16)
