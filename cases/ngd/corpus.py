"""Contexts to certify: made by a generator that is written down here, so that no file is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certify.states import Saved

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dataset:
    """Labelled examples z_i = y_i x_i, shape (n, d), and the separator theta* that labelled them, shape (d,)."""

    Z: Floats
    star: Floats


def dataset(n: int, d: int, seed: int) -> Dataset:
    """`n` examples in `d` dimensions, every entry a multiple of 1/32 of at most 2 in magnitude.

    A linear congruential generator, s -> (1103515245 s + 12345) mod 2^31 from s = 7919 seed + 12345, gives the integers
    (s >> 16) mod 129 - 64. The first d are theta*; then each d are an x, skipped if <x, theta*> = 0, and
    z = sign<x, theta*> x/32.
    """
    stream = _integers(seed)
    star = list(islice(stream, d))
    rows: list[list[float]] = []
    while len(rows) < n:
        x = list(islice(stream, d))
        product = sum(a * b for a, b in zip(x, star, strict=True))
        if product:
            rows.append([(1 if product > 0 else -1) * a / 32 for a in x])
    return Dataset(np.array(rows), np.array(star, dtype=np.float64))


def _integers(seed: int) -> Iterator[int]:
    s = seed * 7919 + 12345
    while True:
        s = (1103515245 * s + 12345) % 2**31
        yield (s >> 16) % 129 - 64


def gaussian(n: int, d: int, seed: int) -> Dataset:
    """Normal x and theta* from PCG64(seed), in binary64."""
    rng = np.random.Generator(np.random.PCG64(seed))
    star = rng.standard_normal(d)
    X = rng.standard_normal((n, d))
    return Dataset(X * np.sign(X @ star)[:, None], star)


#: Rational points of the unit sphere of three dimensions: the last number divides the others.
SPHERE = (
    (2, 3, 6, 7),
    (1, 2, 2, 3),
    (3, 0, 4, 5),
    (1, 4, 8, 9),
    (-2, 6, 9, 11),
    (6, -6, 7, 11),
    (3, 4, -12, 13),
    (-2, 5, 14, 15),
)


def context(
    name: str,
    data: Dataset,
    theta: Iterable[int],
    denominator: int = 1,
    *,
    C1: str,
    C2: str = "1",
    layers: int = 0,
    steps: int = 0,
    star: bool = True,
) -> Saved:
    """The tensors and controls of one context; see `certify.cases.ngd.state`."""
    exact = np.array(list(theta), dtype=np.int64)
    tensors: dict[str, Any] = {f"Z.{name}": data.Z, f"theta.{name}": exact, f"start.{name}": exact / denominator}
    if star:
        tensors[f"star.{name}"] = data.star
    controls = {"denominator": denominator, "C1": C1, "C2": C2, "layers": layers, "steps": steps}
    return Saved(tensors, {f"{key}.{name}": str(value) for key, value in controls.items()})


def batch() -> Saved:
    """The eight datasets of the two-scalar training problem, divided by 4, and a rational start on the sphere for each."""
    points = np.array(SPHERE, dtype=np.int64)
    Z = np.stack([dataset(5, 3, seed).Z / 4 for seed in range(8)])
    tensors = {"batch": Z, "batch_theta": points[:, :3].copy(), "batch_denominator": points[:, 3].copy()}
    return Saved(tensors, {"batch_eta": "1/10"})


def joined(parts: Iterable[Saved]) -> Saved:
    """Several states in one file."""
    tensors: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    for part in parts:
        tensors |= part.tensors
        metadata |= part.metadata
    return Saved(tensors, metadata)


def demonstration() -> Saved:
    """What `certify demo ngd` certifies: small exact contexts, two larger ones, a batch and four population problems."""
    small = dataset(12, 3, 0)
    parts = [
        context("small", small, (3, 0, 4), 5, C1="1/4", layers=50),
        context("scaled", small, (3, 0, 4), 5, C1="3/2", C2="1/2", layers=20),
        context(
            "lemma", Dataset(dataset(5, 3, 3).Z / 4, dataset(5, 3, 3).star), (2, 3, 6), 7, C1="5/4", C2="3/4", layers=1
        ),
        context("margin-a", small, (0, 0, 0), C1="1/10", steps=4000),
        context("margin-b", dataset(20, 4, 1), (0, 0, 0, 0), C1="1/10", steps=4000),
        context("normal-60", gaussian(60, 20, 11), [0] * 20, C1="1/64", steps=2000),
        context("normal-500", gaussian(500, 20, 11), [0] * 20, C1="1/64", steps=500),
        batch(),
    ]
    population = np.array([[20, 1, 1], [25, 1, 1], [30, 1, 1], [20, 1, 2]], dtype=np.int64)
    closed = np.array([[60, 20, 1, 1], [100, 25, 1, 1], [150, 30, 1, 1]], dtype=np.int64)
    accuracies = np.array([[1, 2], [1, 5], [1, 10], [1, 20]], dtype=np.int64)
    return joined([*parts, Saved({"population": population, "closed": closed, "accuracies": accuracies})])
