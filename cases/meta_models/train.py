"""Trains the layers of section 4.2 on mixtures of normals, small: `python -m certify.cases.meta_models.train -o FILE`.

The paper trains on 4000 points a class, with Adam at 1e-4 for 1000 epochs: hours. Here a class of each of the M pairs has
200 to 400 points, and 60 epochs at 1e-2 take seconds. The centres of the pairs, which the paper does not state, are uniform
in a square of the half width that its figures name as S. Nothing about the training is certified: the trained layers are,
by `certify run --case meta_models FILE`, at the points of the test set.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certify.errors import MissingExtra
from certify.states import Saved, save

#: Of each number of pairs the points a class and pair, and the half width of the square of centres.
SIZES = {1: (400, 0.0), 2: (400, 5.0), 4: (300, 8.0), 8: (200, 12.0)}
GATES = ("linear", "identity", "swish", "pswish", "swiglu", "softmax")
DISTANCE, SCALE, FREEDOM = 3.2, 0.8, 5
RATE, BATCH, EPOCHS, SEED = 1e-2, 64, 60, 23
Floats = NDArray[np.float32]


def data(pairs: int, seed: int = SEED) -> tuple[dict[str, tuple[Floats, Floats]], float]:
    """Points (n, 2) and labels (n,) by split (train, evaluate, test: 70, 15 and 15 percent of each class of each pair).

    The second result is the accuracy on the test set of the rule that knows the pair: an oracle, which the paper calls the
    theoretical upper bound.
    """
    rng = np.random.default_rng(seed)
    count, spread = SIZES[pairs]
    splits: dict[str, list[tuple[Any, Any]]] = {"train": [], "evaluate": [], "test": []}
    right = total = 0
    for _ in range(pairs):
        root = rng.standard_normal((FREEDOM, 2)) * np.sqrt(SCALE)
        sigma = root.T @ root
        direction = rng.standard_normal(2)
        delta = direction * DISTANCE / np.sqrt(direction @ np.linalg.solve(sigma, direction))
        centre = rng.uniform(-spread, spread, 2)
        w = np.linalg.solve(sigma, delta)
        for label in (0, 1):
            x = rng.multivariate_normal(centre + (label - 0.5) * delta, sigma, count).astype(np.float32)
            cuts = (int(0.7 * count), int(0.85 * count))
            for name, part in zip(splits, np.split(x, cuts), strict=True):
                splits[name].append((part, np.full(len(part), label, dtype=np.float32)))
            right += int((((x[cuts[1] :] - centre) @ w > 0) == bool(label)).sum())
            total += count - cuts[1]
    joined = {
        name: (np.concatenate([x for x, _ in v]), np.concatenate([y for _, y in v])) for name, v in splits.items()
    }
    return joined, right / total


def train(gate: str, pairs: int, x: Floats, y: Floats, seed: int = SEED) -> dict[str, NDArray[np.float64]]:
    """The parameters of one layer after EPOCHS of Adam on the binary cross-entropy; the mixture has one expert a pair.

    Raises
    ------
    MissingExtra : torch is not installed.
    """
    torch = _torch()
    torch.manual_seed(seed)
    experts = pairs if gate == "softmax" else 2
    shapes = {"W": (1, 2), "B": (1,)} if gate == "linear" else {"W": (experts, 1, 2), "B": (experts, 1)}
    shapes |= dict.fromkeys({"pswish": "V", "swiglu": "VU", "softmax": "R"}.get(gate, ""), (experts, 2))
    parameters = {name: torch.randn(shape).mul_(0.5).requires_grad_() for name, shape in shapes.items()}
    optimizer = torch.optim.Adam(parameters.values(), lr=RATE)
    points, labels = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(points)).split(BATCH):
            optimizer.zero_grad()
            output = layer(torch, gate, parameters, points[batch])
            torch.nn.functional.binary_cross_entropy_with_logits(output, labels[batch]).backward()
            optimizer.step()
    return {name: value.detach().double().numpy() for name, value in parameters.items()}


def layer(torch: Any, gate: str, p: dict[str, Any], x: Any) -> Any:
    """The output of a layer at points (n, 2)."""
    if gate == "linear":
        return (x @ p["W"].T + p["B"])[:, 0]
    s = {
        "identity": lambda: x,
        "swish": lambda: x * torch.sigmoid(x),
        "pswish": lambda: x * torch.sigmoid(x @ p["V"].T),
        "swiglu": lambda: (x @ p["V"].T) * torch.sigmoid(x @ p["V"].T) * (x @ p["U"].T),
        "softmax": lambda: torch.softmax(x @ p["R"].T, -1),
    }[gate]()
    return (s * (x @ p["W"][:, 0].T + p["B"][:, 0])).sum(-1)


def trained(pairs: int, seed: int = SEED) -> tuple[Saved, dict[str, float]]:
    """A state with every layer and the test set, and the accuracies by gate; `oracle` is the rule that knows the pair."""
    torch = _torch()
    splits, oracle = data(pairs, seed)
    x, y = splits["test"]
    tensors: dict[str, Any] = {}
    accuracy = {"oracle": oracle}
    for gate in GATES:
        parameters = train(gate, pairs, *splits["train"], seed)
        output = layer(
            torch, gate, {k: torch.from_numpy(v) for k, v in parameters.items()}, torch.from_numpy(x).double()
        )
        accuracy[gate] = float(((output > 0).numpy() == (y > 0)).mean())
        for name, value in {**parameters, "x": x, "y": y}.items():
            tensors[f"{gate}-m{pairs}_{name}"] = value
    return Saved(tensors, {}), accuracy


def main(arguments: list[str] | None = None) -> int:
    """Train for a number of pairs, save the state, and say how to certify it."""
    parser = argparse.ArgumentParser(prog="python -m certify.cases.meta_models.train", description=main.__doc__)
    parser.add_argument("-o", "--output", default="trained.safetensors", help="where the state goes")
    parser.add_argument(
        "-m", "--pairs", type=int, nargs="+", choices=sorted(SIZES), default=[8], help="pairs of classes"
    )
    given = parser.parse_args(arguments)
    tensors: dict[str, Any] = {}
    for pairs in given.pairs:
        saved, accuracy = trained(pairs)
        tensors.update(saved.tensors)
        sys.stderr.write(f"M = {pairs}: " + ", ".join(f"{name} {share:.3f}" for name, share in accuracy.items()) + "\n")
    save(given.output, Saved(tensors, {}))
    sys.stderr.write(f"certify run --case meta_models {given.output} -o trained.json\n")
    return 0


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("training needs torch", "install certify[torch]") from error
    torch.set_num_threads(1)
    return torch


if __name__ == "__main__":
    sys.exit(main())
