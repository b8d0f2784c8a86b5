"""The training experiments, small and seeded; what they give is measured, and the trained layers can then be certified.

    python -m certify.cases.ngd.train layer     # one layer learns a step of descent (E1, E2, E3); NumPy, half a minute
    python -m certify.cases.ngd.train shift     # that layer, looped, on other distributions (E4); NumPy, seconds
    python -m certify.cases.ngd.train looped    # looped layers learn from scratch (E5); torch, a minute

Each prints what it measured. With `-o FILE` the trained weights and a context to test them on are saved, for
`certify run --case ngd FILE`. What the publication leaves open is chosen here: 600 steps instead of an unknown number, Sigma a
Wishart matrix with a trace of d, for looped layers K = 50, small random weights to begin with, and clipped gradients.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from certify.cases.ngd import corpus
from certify.cases.ngd.layer import looped as descended
from certify.cases.ngd.layer import trained
from numpy.typing import NDArray

from certify.errors import MissingExtra
from certify.states import Saved, save

Floats = NDArray[np.float64]
Say = Callable[[str], object]


@dataclass(frozen=True)
class Curve:
    """A training run of one layer.

    Attributes
    ----------
    V, W : the weights in the end, (2 d, 2 d).
    losses : of every step, before it.
    scalars : (C1, C2) after every step: the means of the diagonals of the two blocks.
    """

    V: Floats
    W: Floats
    losses: Floats
    scalars: Floats


def on_sphere(rng: np.random.Generator, K: int, d: int) -> Floats:
    """K uniform points of the unit sphere."""
    x = rng.standard_normal((K, d))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def contexts(rng: np.random.Generator, K: int, n: int, d: int) -> tuple[Floats, Floats]:
    """K contexts (K, n, d) of labelled normal examples, and their separators."""
    star = on_sphere(rng, K, d)
    X = rng.standard_normal((K, n, d))
    return X * np.sign(X @ star[:, :, None]), star


def train_layer(n: int, d: int, alpha: float, *, steps: int, K: int = 400, eta: float = 0.1, seed: int = 0) -> Curve:
    """Online descent on |theta_1 - theta_GD|^2 in all entries of V and W, from 0, with a fresh batch in each step.

    The gradients are those of `certify.cases.ngd.lemma`: outside two blocks they are 0, as keys have a bottom block 0 and only
    the bottom of the last column counts.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    V, W = np.zeros((2, 2 * d, 2 * d))
    losses, scalars = [], []
    for _ in range(steps):
        Z, _star = contexts(rng, K, n, d)
        theta = on_sphere(rng, K, d)
        s = (Z @ (theta @ W[:d, d:].T)[:, :, None])[:, :, 0]
        p = np.exp(s - s.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        mixed = (p[:, None] @ Z)[:, 0]
        taught = alpha / n * (np.exp(-(Z @ theta[:, :, None])[:, :, 0])[:, None] @ Z)[:, 0]
        rest = mixed @ V[d:, :d].T - taught
        losses.append(float(np.mean(np.sum(rest * rest, axis=1))))
        back = (Z @ (rest @ V[d:, :d])[:, :, None])[:, :, 0]
        ds = 2 * p * (back - np.sum(p * back, axis=1, keepdims=True))
        into_V = 2 * rest.T @ mixed / K
        into_W = (ds[:, None] @ Z)[:, 0].T @ theta / K
        V[d:, :d] -= eta * into_V
        W[:d, d:] -= eta * into_W
        scalars.append([np.trace(V[d:, :d]) / d, -np.trace(W[:d, d:]) / d])
    return Curve(V, W, np.array(losses), np.array(scalars))


def report_layer(say: Say, *, steps: int = 600) -> Saved:
    """E1, E2, E3: the loss falls, two blocks are near multiples of I, and C comes near (alpha e^{1/2}, 1)."""
    n, d, alpha = 60, 20, 1.0
    curve = train_layer(n, d, alpha, steps=steps)
    say(f"(n, d) = ({n}, {d}), alpha = {alpha:g}, {steps} steps of 400 contexts, eta = 0.1")
    for t in sorted({0, steps // 8, steps // 4, steps // 2, steps - 1}):
        C1, C2 = curve.scalars[t]
        say(f"  step {t + 1:4d}: loss {curve.losses[t]:8.5f}, C = ({C1:.4f}, {C2:.4f})")
    blocks = curve.V[d:, :d], -curve.W[:d, d:]
    apart = [np.linalg.norm(B - np.trace(B) / d * np.eye(d)) / np.linalg.norm(B) for B in blocks]
    others = max(np.abs(np.delete(curve.V, np.s_[:d], 1)).max(), np.abs(curve.V[:d]).max(), np.abs(curve.W[d:]).max())
    say(
        f"  blocks differ from multiples of I by {apart[0]:.3f} and {apart[1]:.3f} of their norms; other blocks: {others}"
    )
    say(f"  the limit for large d is ({alpha * np.exp(0.5):.4f}, 1); for infinitely many examples see certify demo ngd")
    slower = train_layer(100, 25, alpha, steps=steps // 3)
    goal = 0.8 * alpha * np.exp(0.5)
    needed = [int(np.argmax(run.scalars[:, 0] >= goal)) + 1 for run in (curve, slower)]
    say(f"  steps until C1 is first at least {goal:.3f}: {needed[0]} for d = 20, {needed[1]} for (n, d) = (100, 25)")
    return saved(curve.V, curve.W, n, d, curve.scalars[-1], layers=20)


def saved(V: Floats, W: Floats, n: int, d: int, scalars: Floats, layers: int) -> Saved:
    """Trained weights with a context of normal examples and a start on the sphere, to certify them at."""
    data = corpus.gaussian(n, d, 11)
    C1, C2 = (f"{round(float(x) * 1024)}/1024" for x in scalars)
    start = ([2, -1] * d)[:d]
    context = corpus.context("trained", data, start, 8, C1=reduced(C1), C2=reduced(C2), layers=layers)
    return corpus.joined([context, Saved({"V.trained": V, "W.trained": W})])


def reduced(text: str) -> str:
    """A ratio in lowest terms."""
    from fractions import Fraction

    return str(Fraction(text))


def shifted(rng: np.random.Generator, law: str, n: int, d: int) -> tuple[Floats, Floats]:
    """One context (n, d) of x = Sigma x~ with entries of x~ from a law, and its separator."""
    laws: dict[str, Callable[[], Floats]] = {
        "normal": lambda: rng.standard_normal((n, d)),
        "Laplace": lambda: rng.laplace(size=(n, d)),
        "uniform on [0, 1]": lambda: rng.random((n, d)),
    }
    X, star = laws[law]() @ sigma(rng, d), on_sphere(rng, 1, d)[0]
    return X * np.sign(X @ star)[:, None], star


def sigma(rng: np.random.Generator, d: int) -> Floats:
    """A random positive definite matrix with a trace of d: of a Wishart law."""
    A = rng.standard_normal((d, 2 * d))
    S = A @ A.T
    return np.asarray(S * (d / np.trace(S)))


def report_shift(say: Say, *, layers: int = 400, contexts_each: int = 8) -> Saved:
    """E4: distances from theta* of the trained layer looped, of normalised descent, and of plain descent."""
    n, d = 500, 20
    curve = train_layer(60, d, 1.0, steps=300)
    C1, C2 = curve.scalars[-1]
    rng = np.random.Generator(np.random.PCG64(4))
    say(f"n = {n}, d = {d}, {layers} layers, mean distance of directions from theta* over {contexts_each} contexts")
    for law in ("normal", "Laplace", "uniform on [0, 1]"):
        totals = np.zeros(3)
        for _ in range(contexts_each):
            Z, star = shifted(rng, law, n, d)
            first = theta = plain = on_sphere(rng, 1, d)[0]
            for _ in range(layers):
                theta = trained(Z, theta, curve.V, curve.W)
                plain = plain + C1 * np.exp(np.minimum(-Z @ plain, 50.0)) @ Z / n
            ends = (theta, descended(Z, first, C1, C2, layers), plain)
            totals += [np.linalg.norm(x / np.linalg.norm(x) - star) for x in ends]
        looped, normalised, gradient = totals / contexts_each
        say(f"  {law:18s} trained, looped {looped:.4f}, normalised {normalised:.4f}, plain descent {gradient:.4f}")
    return saved(curve.V, curve.W, 60, d, curve.scalars[-1], layers=20)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("training looped layers needs torch", "pip install 'certify[torch]'") from error
    return torch


def train_looped(L: int, *, steps: int, rate: float, n: int = 60, d: int = 20, K: int = 50, seed: int = 0) -> Any:
    """Online descent on |theta_L / |theta_L| - theta*|^2 in all entries of V and W of a looped layer, in float32.

    From small random weights, with 0.3 and -0.3 on the diagonals of the two blocks: from 0 nothing would move. Gradients are
    clipped to norm 1. Returns V, W and the losses.
    """
    torch = _torch()
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.Generator(np.random.PCG64(seed))
    V, W = (0.01 * torch.randn(2 * d, 2 * d, generator=generator) for _ in range(2))
    V[d:, :d] += 0.3 * torch.eye(d)
    W[:d, d:] -= 0.3 * torch.eye(d)
    V.requires_grad_()
    W.requires_grad_()
    losses = []
    for _ in range(steps):
        H, star = _looped_batch(torch, rng, K, n, d)
        for _ in range(L):
            S = H[:, :, :n].transpose(1, 2) @ W @ H
            H = H + V @ (H[:, :, :n] @ torch.softmax(S, dim=1))
        theta = H[:, d:, n]
        loss = ((theta / theta.norm(dim=1, keepdim=True) - star) ** 2).sum(1).mean()
        gradients = torch.autograd.grad(loss, (V, W))
        size = float(sum((g * g).sum() for g in gradients)) ** 0.5
        with torch.no_grad():
            for weight, g in zip((V, W), gradients, strict=True):
                weight -= rate * min(1.0, 1.0 / size) * g
        losses.append(float(loss.detach()))
    arrays = [x.detach().double().numpy() for x in (V, W)]
    return arrays[0], arrays[1], np.array(losses)


def _looped_batch(torch: Any, rng: np.random.Generator, K: int, n: int, d: int) -> tuple[Any, Any]:
    """Contexts, each with a random covariance Sigma, theta_0 on the sphere, as inputs H (K, 2 d, n + 1); and theta*."""
    star = on_sphere(rng, K, d)
    X = np.stack([rng.standard_normal((n, d)) @ np.linalg.cholesky(sigma(rng, d)).T for _ in range(K)])
    Z = X * np.sign(X @ star[:, :, None])
    H = np.zeros((K, 2 * d, n + 1))
    H[:, :d, :n] = Z.transpose(0, 2, 1)
    H[:, d:, n] = on_sphere(rng, K, d)
    return torch.from_numpy(H).float(), torch.from_numpy(star).float()


def report_looped(say: Say, *, steps: int = 120) -> Saved:
    """E5: deeper looped layers lose less; the weights of the deepest have the structure of the construction."""
    d = 20
    ends = {}
    for L, rate in ((5, 0.1), (10, 0.05), (20, 0.03)):
        V, W, losses = train_looped(L, steps=steps, rate=rate)
        ends[L] = float(losses[-20:].mean())
        blocks = V[d:, :d], W[:d, d:]
        share = [
            float(np.linalg.norm(np.diag(np.diag(B))) / np.linalg.norm(M)) for B, M in zip(blocks, (V, W), strict=True)
        ]
        say(
            f"L = {L:2d}: loss {losses[:20].mean():.4f} to {ends[L]:.4f} in {steps} steps; C1 = {np.trace(blocks[0]) / d:.3f}, "
            f"C2 = {-np.trace(blocks[1]) / d:.3f}; {share[0]:.2f} and {share[1]:.2f} of V and W on the diagonals of the blocks"
        )
    say("deeper is better" if ends[5] > ends[10] > ends[20] else "deeper is not better here")
    scalars = np.array([np.trace(blocks[0]) / d, -np.trace(blocks[1]) / d])
    return saved(V, W, 60, d, scalars, layers=20)


REPORTS: dict[str, Callable[[Say], Saved]] = {"layer": report_layer, "shift": report_shift, "looped": report_looped}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one experiment and print what it measured."""
    parser = argparse.ArgumentParser(
        prog="python -m certify.cases.ngd.train", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("experiment", choices=REPORTS)
    parser.add_argument("-o", "--output", metavar="FILE", help="where the trained weights go, .safetensors or .npz")
    given = parser.parse_args(arguments)
    made = REPORTS[given.experiment](print)
    if given.output:
        save(given.output, made)
        print(f"Trained weights: {given.output}; certify run --case ngd {given.output}")


if __name__ == "__main__":
    main()
