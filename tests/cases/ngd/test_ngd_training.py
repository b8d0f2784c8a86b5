"""The training experiments in short: directions of the published curves, and gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from certify.cases.ngd import train
from certify.cases.ngd.layer import attention, embedding, trained
from ngd_states import context_of


def test_a_layer_learns_a_step_of_descent() -> None:
    """The loss falls to a twentieth, two blocks are near multiples of I, the others are 0, C comes near (e^{1/2}, 1)."""
    curve = train.train_layer(20, 5, 1.0, steps=150, K=200)
    assert curve.losses[-1] < curve.losses[0] / 4
    C1, C2 = curve.scalars[-1]
    assert abs(C1 - np.exp(0.5)) < 0.5 and abs(C2 - 1) < 0.5
    V, W = curve.V, curve.W
    assert not V[:5].any() and not V[:, 5:].any() and not W[5:].any() and not W[:, :5].any()
    assert np.linalg.norm(V[5:, :5] - C1 * np.eye(5)) < 0.2 * np.linalg.norm(V[5:, :5])


@pytest.mark.slow
def test_the_first_step_is_that_of_the_closed_form() -> None:
    """C1 = 0.016347 after one step with a large batch, n = 60 and d = 20, within four standard errors."""
    first = [train.train_layer(60, 20, 1.0, steps=1, K=2000, seed=seed).scalars[0] for seed in range(10)]
    mean, error = np.mean(first, axis=0), np.std(first, axis=0, ddof=1) / 10**0.5
    assert abs(mean[0] - 0.016347) < 4 * error[0] and mean[1] == 0


@pytest.mark.slow
def test_scalars_come_near_the_certified_minimiser() -> None:
    """n = 60 and d = 20 after 600 steps: within 0.05 of the minimiser for infinitely many examples; d = 25 is slower."""
    curve = train.train_layer(60, 20, 1.0, steps=600)
    assert np.abs(curve.scalars[-50:].mean(axis=0) - [1.6774, 0.9953]).max() < 0.06
    slower = train.train_layer(100, 25, 1.0, steps=120)
    goal = 1.3
    assert np.argmax(curve.scalars[:, 0] >= goal) < np.argmax(slower.scalars[:, 0] >= goal)


def test_trained_kernel_is_the_attention() -> None:
    """The last column of the full layer, with random weights in all blocks."""
    rng = np.random.default_rng(3)
    Z, theta = rng.standard_normal((6, 3)), rng.standard_normal(3)
    V, W = rng.standard_normal((2, 6, 6))
    np.testing.assert_allclose(trained(Z, theta, V, W), attention(embedding(Z, theta), V, W)[3:, -1], rtol=1e-12)


def test_saved_weights_are_a_state() -> None:
    """With scalars in lowest terms and a start on a grid."""
    made = train.saved(np.eye(6), np.eye(6), 4, 3, np.array([0.5, 1.0]), layers=2)
    context = context_of("trained", made)
    assert context.V is not None and made.metadata["C1.trained"] == "1/2" and context.d == 3


def test_looped_layers_learn() -> None:
    """Five layers in float32: the loss falls within thirty steps."""
    pytest.importorskip("torch", reason="needs torch, which only trains looped layers")
    V, W, losses = train.train_looped(5, steps=30, rate=0.2, n=20, d=4, K=20)
    assert V.shape == W.shape == (8, 8) and losses[-5:].mean() < losses[:5].mean()


def test_reports_say_what_they_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    """The command prints, saves a state, and refuses what is no experiment."""
    monkeypatch.setitem(
        train.REPORTS, "layer", lambda say: [say("measured"), train.saved(np.eye(6), np.eye(6), 4, 3, np.ones(2), 2)][1]
    )
    train.main(["layer", "-o", str(tmp_path / "made.safetensors")])
    assert "measured" in capsys.readouterr().out and (tmp_path / "made.safetensors").exists()
    with pytest.raises(SystemExit):
        train.main(["other"])


def test_attention_is_dense() -> None:
    """At the certified C2, n = 60 and d = 20: the largest weight is small, the entropy near that of equal weights."""
    rng = np.random.default_rng(8)
    Z, _ = train.contexts(rng, 200, 60, 20)
    theta = train.on_sphere(rng, 200, 20)
    p = np.exp(-0.9953 * np.einsum("bnd,bd->bn", Z, theta))
    p /= p.sum(axis=1, keepdims=True)
    entropy = -np.sum(p * np.log(p), axis=1)
    assert p.max() < 0.5 and np.median(p.max(axis=1)) < 0.15
    assert entropy.min() > 0.6 * np.log(60) and np.median(entropy) > 0.8 * np.log(60)
