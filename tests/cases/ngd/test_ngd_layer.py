"""The kernel, its full form, and the data it is certified on."""

from __future__ import annotations

import numpy as np
import pytest
from certify.cases.ngd import corpus
from certify.cases.ngd.layer import attention, embedding, layer, looped, weights
from certify.cases.ngd.state import state_of

from certify.errors import InputRejected
from certify.states import Saved


def drawn(seed: int, n: int = 9, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Examples and a start."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal(d)


def test_generator_begins_as_written_down() -> None:
    """The first numbers of dataset(12, 3, 0), and labels that theta* gives."""
    data = corpus.dataset(12, 3, 0)
    assert data.star.tolist() == [-10, -9, -6] and data.Z.shape == (12, 3)
    assert data.Z[0].tolist() == [-49 / 32, -9 / 8, -15 / 32]
    assert (data.Z @ data.star > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_layer_is_the_last_column_of_the_attention(seed: int) -> None:
    """With the weights of the construction; and context columns keep their examples."""
    Z, theta = drawn(seed)
    H = attention(embedding(Z, theta), *weights(4, 0.75, 1.5))
    np.testing.assert_allclose(H[4:, -1], layer(Z, theta, 0.75, 1.5), rtol=1e-13)
    np.testing.assert_array_equal(H[:4], embedding(Z, theta)[:4])
    assert not np.allclose(attention(embedding(Z, theta), *weights(4, 0.75, 1.5), masked=False)[4:, -1], H[4:, -1])


def test_stages_of_one_layer() -> None:
    """Scores, weights, normalised gradient and sum, each as the figure of the paper has it."""
    Z, theta = drawn(3)
    losses = np.exp(-Z @ theta)
    p = losses / losses.sum()
    gradient = -(Z * losses[:, None]).mean(axis=0)
    np.testing.assert_allclose(p @ Z, -gradient / losses.mean(), rtol=1e-13)
    np.testing.assert_allclose(layer(Z, theta, 0.25, 1.0), theta - 0.25 * gradient / losses.mean(), rtol=1e-13)


def test_components_that_do_nothing_change_no_bit() -> None:
    """A perceptron with output weights 0, a gate of 1 and positions of 0 leave every bit of the output."""
    Z, theta = drawn(4)
    rng = np.random.default_rng(5)
    H, (V, W) = embedding(Z, theta), weights(4, 0.5, 1.0)
    plain = attention(H, V, W)
    keys = H[:, :-1]
    S = keys.T @ W @ (H + 0.0)
    P = np.exp(S - np.max(S, axis=0, keepdims=True))
    gate = 2 / (1 + np.exp(0.0 * H))
    other = H + gate * (V @ keys @ (P / np.sum(P, axis=0, keepdims=True)))
    inner = np.maximum(rng.standard_normal((16, 8)) @ other, 0)
    np.testing.assert_array_equal(other + np.zeros((8, 16)) @ inner, plain)


def test_looped_layers_are_repeated_ones() -> None:
    """Three layers are three times one; and the first columns carry descent from 0."""
    Z, theta = drawn(6)
    once = layer(Z, layer(Z, layer(Z, theta, 0.5, 1), 0.5, 1), 0.5, 1)
    np.testing.assert_array_equal(looped(Z, theta, 0.5, 1, 3), once)
    H = embedding(Z, theta)
    for _ in range(3):
        H = attention(H, *weights(4, 0.5, 1))
    np.testing.assert_allclose(H[4:, 0], looped(Z, 0 * theta, 0.5, 1, 3), rtol=1e-12)


def test_layer_runs_on_torch() -> None:
    """The same code on tensors."""
    torch = pytest.importorskip("torch", reason="needs torch, which only the tests of real kernels use")
    Z, theta = drawn(7)
    found = layer(torch.from_numpy(Z), torch.from_numpy(theta), 0.5, 1.0, torch)
    np.testing.assert_allclose(found.numpy(), layer(Z, theta, 0.5, 1.0), rtol=1e-13)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t, m: t.update(other=np.ones(2)), "unknown"),
        (lambda t, m: t.pop("theta.a"), "theta.a is missing"),
        (lambda t, m: t.update({"start.a": np.ones(3)}), "rounded"),
        (lambda t, m: m.update({"C1.a": "-1"}), "negative"),
        (lambda t, m: m.update({"C2.a": "0.5"}), "the control C2.a is '0.5', no exact number"),
        (lambda t, m: m.pop("C2.a"), "the state has no control C2.a"),
        (lambda t, m: m.update({"C2.a": "1" + 30 * "0"}), "more than 30 digits"),
        (lambda t, m: m.update({"layers.a": "1/2"}), "not an integer"),
        (lambda t, m: t.update(accuracies=np.array([[0, 1]])), "positive"),
        (lambda t, m: [t.pop(k) for k in list(t)], "no context"),
        (lambda t, m: t.update(batch=np.ones((2, 3, 4))), "batch"),
    ],
)
def test_what_is_no_state_is_refused(change, words: str) -> None:
    """Each with a sentence that names the culprit."""
    good = corpus.context("a", corpus.dataset(4, 3, 1), (1, 2, 3), 4, C1="1/4", layers=2)
    assert state_of(good).contexts[0].name == "a"
    tensors, metadata = dict(good.tensors), dict(good.metadata)
    change(tensors, metadata)
    with pytest.raises(InputRejected, match=words):
        state_of(Saved(tensors, metadata))
