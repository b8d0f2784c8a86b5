"""Training on the population: the gradient, the mean over labels, and short runs."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice, permutations

import numpy as np
import pytest
from certify.cases.star_graph.instances import END, ORDERS, N, T, V
from certify.cases.star_graph.layer import layer
from certify.cases.star_graph.state import WEIGHTS, circuit_weights, saved_from, state_from
from certify.cases.star_graph.stored import decoding
from certify.cases.star_graph.train import (
    FIRST,
    SECOND,
    Pass,
    adam,
    descent,
    over_labels,
    population,
    right,
    train,
)
from star_graph_reports import about, findings


def random_weights(seed):
    """Unit normal weights of both layers."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((N, T)) for name in WEIGHTS}


@pytest.mark.parametrize(("Z", "head", "target"), [(FIRST, "f1", V), (SECOND, "f1", END), (FIRST, "f2", END)])
def test_the_gradient_is_that_of_autodiff(Z, head, target):
    """Losses and gradients of both heads at random weights, against torch."""
    torch = pytest.importorskip("torch")
    weights = random_weights(3)
    given = {name: torch.tensor(x, requires_grad=True) for name, x in weights.items()}
    loss = -torch.log(layer(torch.tensor(Z), **given, xp=torch)[head][:, target]).mean()
    loss.backward()
    run = Pass(Z, weights)
    losses, gradient = (run.deep_loss if head == "f1" else run.shallow_loss)(target)
    assert losses.mean() == pytest.approx(loss.item(), rel=1e-13)
    for name in WEIGHTS:
        wanted = np.zeros((N, T)) if given[name].grad is None else given[name].grad.numpy()
        np.testing.assert_allclose(gradient[name].mean(axis=0), wanted, atol=1e-14)


def test_the_printed_second_term_is_transposed():
    """With (A2 r) e_T^T in place of e_T (A2 r)^T the derivative in S1 misses a difference quotient."""
    weights = random_weights(4)
    run = Pass(FIRST[:1], weights)
    u, S1, A2 = FIRST[0][:, V], run.S1[0], run.A2[0]

    def output(S):
        logits = S[-1] @ A2
        s = np.exp(logits - logits.max())
        return s @ S @ u / s.sum()

    s2, f = run.s2[0], output(S1)
    r = s2 * (S1 @ u - s2 @ S1 @ u)
    good, printed = np.outer(s2, u), np.outer(s2, u)
    good[-1] += A2 @ r
    printed[:, -1] += A2 @ r
    D = np.tril(np.random.default_rng(0).standard_normal((T, T)))
    quotient = (np.log(output(S1 + 1e-6 * D)) - np.log(output(S1 - 1e-6 * D))) / 2e-6
    assert (good * D).sum() / f == pytest.approx(quotient, abs=1e-8)
    assert abs((printed * D).sum() / f - quotient) > 1e-3


def test_the_mean_over_labels_is_the_mean_over_permutations():
    """Of a small block of a matrix, over all of its permutations, against the formula at that size by enumeration."""
    G = np.random.default_rng(1).standard_normal((N, N))
    mean = over_labels(G)
    assert np.trace(mean) == pytest.approx(np.trace(G)) and mean.sum() == pytest.approx(G.sum())
    for p in islice(permutations(range(N)), 0, 4000, 500):
        np.testing.assert_allclose(mean[np.ix_(p, p)], mean)
        np.testing.assert_allclose(over_labels(G[np.ix_(p, p)]), mean)


def test_heads_are_those_of_the_kernel():
    """The training code and the array code that is certified."""
    weights = random_weights(6)
    run, found = Pass(FIRST, weights), layer(FIRST, **weights)
    np.testing.assert_allclose(run.deep(), found["f1"], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(run.shallow(), found["f2"], rtol=1e-12, atol=1e-15)


def test_the_circuit_is_right_at_its_first_step_alone():
    """The share of orders, as the command prints it."""
    assert right(circuit_weights(4.0)) == (1.0, 0.0) and right(circuit_weights(1.0))[0] < 1


@pytest.mark.parametrize("objective", ["mtp", "ntp"])
@pytest.mark.parametrize("optimiser", ["gd", "adam"])
def test_a_short_run_descends_and_keeps_labels_alike(objective, optimiser):
    """The loss falls; content weights stay a I + b 1 1^T; the result is a state of the case."""
    zero = {name: np.zeros((N, T)) for name in WEIGHTS}
    start = population(zero, objective)[0]
    loss, weights = train(objective, optimiser, 40, {"gd": 0.5, "adam": 5e-3}[optimiser])
    assert loss < start - 1e-3
    for name in ("content_1", "content_2"):
        others = weights[name][~np.eye(N, dtype=bool)]
        assert len(np.unique(np.diag(weights[name]))) == len(np.unique(others)) == 1
    assert state_from(saved_from(weights, Fraction(4))).law.orders == ORDERS


def test_next_token_descent_raises_the_predecessor_weight_at_first():
    """The first step of descent from zero on (L1a + L1b)/2 in Toeplitz weights: w(1) goes up, as the exact mean says."""
    zero = {name: np.zeros((N, T)) for name in WEIGHTS}
    _, gradient = population(zero, "ntp")
    assert np.trace(gradient["position_1"], offset=-1) == pytest.approx(-0.0583424082, abs=1e-9)


def test_phase_two_descends():
    """Layer 1 at 30 L, descent on L1a alone from layer 2 zero: W1[T-1, T-1] falls, S2 moves to t_end, row sums stay 0."""
    weights = circuit_weights(30.0) | {"content_2": np.zeros((N, N)), "position_2": np.zeros((T, T))}
    places = [2 * order.index(1) + 1 for order in ORDERS]
    shares = []
    for _ in range(400):
        run = Pass(FIRST, weights)
        shares.append(np.mean([s[t] for s, t in zip(run.s2, places, strict=True)]))
        _, gradient = run.deep_loss(V)
        weights["content_2"] -= over_labels(gradient["content_2"].mean(axis=0))
        weights["position_2"] -= gradient["position_2"].mean(axis=0)
    assert shares[-1] > 0.8 > 0.2 > shares[0] and weights["position_2"][T - 2, T - 2] < -1
    assert np.abs(weights["content_2"].sum(axis=1)).max() < 1e-12
    assert np.abs(weights["position_2"].sum(axis=1)).max() < 1e-12
    assert np.abs(np.delete(weights["position_2"][T - 2], T - 2)).min() > 1e-3


def test_optimisers_take_the_steps_they_are_named_for():
    """One step of each from zero: the gradient times the rate, and the rate times its sign."""
    gradient = random_weights(8)
    for update, wanted in ((descent(0.1), lambda g: -0.1 * g), (adam(0.1), lambda g: -0.1 * np.sign(g))):
        weights = {name: np.zeros((N, T)) for name in WEIGHTS}
        update(weights, gradient)
        for name in WEIGHTS:
            np.testing.assert_allclose(weights[name], wanted(gradient[name]), rtol=1e-3)


@pytest.mark.slow
def test_adam_learns_the_task_by_multi_token_prediction_alone():
    """4000 steps from zero: both steps are proved for all instances; by next tokens the first step is refuted."""
    for objective, verdict in (("mtp", "certified"), ("ntp", "refuted")):
        _, weights = train(objective, "adam", 4000, 5e-3)
        state = saved_from(weights, Fraction(4))
        read = state_from(state)
        claims = decoding(read.law, read.exact_weights)
        assert [claim.verdict for claim in claims] == [verdict, "certified"]
        assert all("725760" in claim.parameters["covered"] for claim in claims)
        found = findings(about(state, claims), state)
        assert all(found[claim.id].verdict == claim.verdict for claim in claims)
