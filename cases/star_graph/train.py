"""Training on the whole population: `python -m certify.cases.star_graph.train` (about two minutes; NumPy alone).

The loss of the paper, [(L1a + L1b)/2 + L2]/2 for multi-token prediction and (L1a + L1b)/2 for next-token prediction,
averaged over all 725,760 instances, and its exact gradient in float64: 24 edge orders, and the mean over labelings
leaves of a content gradient its mean on the diagonal and off it. So W0 stays in the span of I and 1 1^T, and what is
learned holds for every labeling. Two optimisers: gradient descent, and Adam. The paper's own run (1M samples, 300
epochs of AdamW) is not repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from certify.states import save

from .instances import END, ORDERS, N, T, V, one_hot, second_tokens, tokens
from .state import WEIGHTS, saved_from

Array = NDArray[np.float64]
Weights = dict[str, Array]
MASK = np.tril(np.ones((T, T), dtype=bool))
FIRST = np.array([one_hot(tokens(order)) for order in ORDERS], dtype=np.float64)
SECOND = np.array([one_hot(second_tokens(order)) for order in ORDERS], dtype=np.float64)


def softmax(logits: Array) -> Array:
    """Along the last axis; -inf gets nothing."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def jacobian(s: Array, u: Array) -> Array:
    """J(s) u along the last axis."""
    return np.asarray(s * (u - (s * u).sum(axis=-1, keepdims=True)))


@dataclass
class Pass:
    """Both heads on a batch of token sequences Z (n, T, N).

    The gradients are those of Lemmas 3 and 5 of the paper, the second term of dL1/dS1 being e_T (A2 r)^T: as printed
    it is transposed.
    """

    Z: Array
    weights: Weights
    S1: Array = field(init=False)
    A2: Array = field(init=False)
    s2: Array = field(init=False)

    def __post_init__(self) -> None:
        Z, w = self.Z, self.weights
        A1 = Z @ w["content_1"] @ Z.swapaxes(-1, -2) + w["position_1"]
        self.S1 = softmax(np.where(MASK, A1, -np.inf))
        self.A2 = Z @ w["content_2"] @ Z.swapaxes(-1, -2) + w["position_2"]
        self.s2 = softmax((self.S1[:, -1:] @ self.A2)[:, 0])

    def deep(self) -> Array:
        """f1 (n, N)."""
        return np.asarray((self.s2[:, None] @ self.S1 @ self.Z)[:, 0])

    def shallow(self) -> Array:
        """f2 (n, N)."""
        return np.asarray((self.S1[:, -1:] @ self.Z)[:, 0])

    def deep_loss(self, target: int) -> tuple[Array, Weights]:
        """-log f1[target] (n,), and its gradients, a matrix for each sequence."""
        u = self.Z[:, :, target]
        values = (self.S1 @ u[..., None])[..., 0]
        f = (self.s2 * values).sum(axis=-1)
        r = jacobian(self.s2, values)
        arriving = self.s2[:, :, None] * u[:, None]
        arriving[:, -1] += (self.A2 @ r[..., None])[..., 0]
        first = -jacobian(self.S1, arriving) / f[:, None, None]
        second = -self.S1[:, -1, :, None] * r[:, None] / f[:, None, None]
        return -np.log(f), self._gradients(first, second)

    def shallow_loss(self, target: int) -> tuple[Array, Weights]:
        """-log f2[target] (n,), and its gradients; layer 2 has none."""
        u = self.Z[:, :, target]
        s = self.S1[:, -1]
        f = (s * u).sum(axis=-1)
        first = np.zeros_like(self.S1)
        first[:, -1] = -jacobian(s, u) / f[:, None]
        return -np.log(f), self._gradients(first, np.zeros_like(first))

    def _gradients(self, first: Array, second: Array) -> Weights:
        Zt = self.Z.swapaxes(-1, -2)
        return dict(zip(WEIGHTS, (Zt @ first @ self.Z, first, Zt @ second @ self.Z, second), strict=True))


def population(weights: Weights, objective: str) -> tuple[float, Weights]:
    """The loss of an objective ("mtp" or "ntp") over all instances, and its gradient."""
    step, again = Pass(FIRST, weights), Pass(SECOND, weights)
    parts = [step.deep_loss(V), again.deep_loss(END)]
    shares = [0.5, 0.5]
    if objective == "mtp":
        parts.append(step.shallow_loss(END))
        shares = [0.25, 0.25, 0.5]
    loss = sum(share * float(losses.mean()) for share, (losses, _) in zip(shares, parts, strict=True))
    gradient = {
        name: sum(s * g[name].mean(axis=0) for s, (_, g) in zip(shares, parts, strict=True)) for name in WEIGHTS
    }
    for name in ("content_1", "content_2"):
        gradient[name] = over_labels(gradient[name])
    return loss, gradient


def over_labels(G: Array) -> Array:
    """The mean of P G P^T over all permutations P of the labels (N, N)."""
    diagonal = np.trace(G) / N
    off = (G.sum() - np.trace(G)) / (N * (N - 1))
    return np.asarray(np.where(np.eye(N, dtype=bool), diagonal, off))


def descent(rate: float) -> Callable[[Weights, Weights], None]:
    """Gradient descent: an update in place."""

    def update(weights: Weights, gradient: Weights) -> None:
        for name in WEIGHTS:
            weights[name] -= rate * gradient[name]

    return update


def adam(rate: float) -> Callable[[Weights, Weights], None]:
    """Adam with the usual constants (0.9, 0.999, 1e-8), no weight decay."""
    first, second = ({name: np.zeros((N, T)) for name in WEIGHTS} for _ in range(2))
    count = 0

    def update(weights: Weights, gradient: Weights) -> None:
        nonlocal count
        count += 1
        for name in WEIGHTS:
            first[name] += 0.1 * (gradient[name] - first[name])
            second[name] += 0.001 * (gradient[name] ** 2 - second[name])
            scale = np.sqrt(second[name] / (1 - 0.999**count)) + 1e-8
            weights[name] -= rate * first[name] / (1 - 0.9**count) / scale

    return update


def train(objective: str, optimiser: str, steps: int, rate: float) -> tuple[float, Weights]:
    """The last loss, and the weights after so many steps from zero."""
    weights = {name: np.zeros((N, T)) for name in WEIGHTS}
    update = {"gd": descent, "adam": adam}[optimiser](rate)
    loss = 0.0
    for _ in range(steps):
        loss, gradient = population(weights, objective)
        update(weights, gradient)
    return loss, weights


def right(weights: Weights) -> tuple[float, float]:
    """The share of edge orders in which head 1 decodes v, and then the end node."""
    first, second = Pass(FIRST, weights).deep(), Pass(SECOND, weights).deep()
    return float((first.argmax(axis=1) == V).mean()), float((second.argmax(axis=1) == END).mean())


SETTINGS = {"gd": (20_000, 1.0), "adam": (36_000, 5e-4)}


def main() -> None:
    """Train, print a line for each run, and save the weights of multi-token prediction as a state if asked for."""
    parser = argparse.ArgumentParser(
        "python -m certify.cases.star_graph.train", description="Train on the whole population."
    )
    parser.add_argument("--optimiser", choices=[*SETTINGS, "both"], default="both")
    parser.add_argument("--objective", choices=["mtp", "ntp", "both"], default="both")
    parser.add_argument("--steps", type=int, help="instead of 20000 of gradient descent and 36000 of Adam")
    parser.add_argument("--rate", type=float, help="instead of 1.0 of gradient descent and 5e-4 of Adam")
    parser.add_argument("-o", "--output", type=Path, help="a folder for states of the trained weights")
    given = parser.parse_args()
    for optimiser in SETTINGS if given.optimiser == "both" else [given.optimiser]:
        for objective in ("ntp", "mtp") if given.objective == "both" else [given.objective]:
            steps, rate = SETTINGS[optimiser]
            loss, weights = train(objective, optimiser, given.steps or steps, given.rate or rate)
            first, second = right(weights)
            w = weights["position_1"][T - 1]
            others = np.delete(w, T - 2)
            print(
                f"{objective} {optimiser}: loss {loss:.4f}, first step right in {first:.1%} of edge orders, "
                f"second in {second:.1%}; W1[T, T-1] of layer 1 {w[T - 2]:+.2f}, the rest of the row "
                f"{others.min():+.2f} to {others.max():+.2f}",
                flush=True,
            )
            if given.output:
                given.output.mkdir(parents=True, exist_ok=True)
                save(given.output / f"{objective}-{optimiser}.safetensors", saved_from(weights, Fraction(4)))


if __name__ == "__main__":
    main()
