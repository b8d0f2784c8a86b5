"""The demonstration state: the inputs X1-X19 of docs/papers.md and two trained layers, all in one file."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np

from certify.certificate import to_text
from certify.states import Saved, load

THIRD = Fraction(1, 3)


def state() -> Saved:
    """The saved state. The random parts (X14, X19 and the recurrent cells) are drawn with fixed seeds."""
    tensors: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    for name, parts in {**fields(), **networks(), **layers(), **mixtures(), **vectors(), **cells()}.items():
        for part, value in parts.items():
            add(tensors, metadata, f"{name}_{part}", value)
    tensors.update(trained().tensors)
    return Saved(tensors, metadata)


def trained() -> Saved:
    """A linear layer and a mixture of experts that `train` made, with their test set; see data/ATTRIBUTION.md."""
    return load(str(Path(__file__).parent / "data" / "trained.safetensors"))


def add(tensors: dict[str, Any], metadata: dict[str, str], name: str, value: Any) -> None:
    """A list or array as a tensor, a number as a control.

    Where every entry is a binary64 number the tensor is float64, else int64 with a control NAME_denominator.
    """
    if isinstance(value, int | Fraction):
        metadata[name] = to_text(value)
        return
    if isinstance(value, np.ndarray):
        tensors[name] = value
        return
    array = np.array(value, dtype=object)
    exact = [Fraction(x) for x in array.ravel()]
    under = lcm(*(x.denominator for x in exact))
    if under & (under - 1) == 0:
        tensors[name] = np.array([float(x) for x in exact]).reshape(array.shape)
    else:
        tensors[name] = np.array([int(x * under) for x in exact], dtype=np.int64).reshape(array.shape)
        metadata[f"{name}_denominator"] = str(under)


def fields() -> dict[str, dict[str, Any]]:
    """X1-X6 and X19."""
    rng = np.random.default_rng(19)
    quarter = Fraction(-1, 4)
    return {
        "mean": {"H": [2, 3, Fraction(1, 2), 5], "mask": [1, 1, 0, 1], "m": [1, -THIRD, 4, Fraction(2, 7)]},
        "mean-matrix": {"H": [[[2, 1], [1, 3]], [[4, -1], [-1, 1]]], "m": [[1, 2], [-1, Fraction(1, 2)]]},
        "mean-draws": {"H": rng.uniform(0.5, 2, 8), "m": rng.standard_normal(8)},
        "gaussian-chain": {
            "J": [[2, -1, 0, 0], [-1, 3, -1, 0], [0, -1, 3, -1], [0, 0, -1, 2]],
            "h": [1, 0, -1, 2],
            "digits": 6,
        },
        "gaussian-cycle": {
            "J": [[1, quarter, quarter], [quarter, 1, quarter], [quarter, quarter, 1]],
            "h": [1, 0, 0],
            "digits": 6,
        },
        "convex": {
            "d": [1, 2, 1, Fraction(1, 2)],
            "e": [1, -1, 3, 0],
            "c": [[0, 1, 0, 1], [1, 0, 2, 0], [0, 2, 0, 1], [1, 0, 1, 0]],
            "digits": 6,
        },
    }


def networks() -> dict[str, dict[str, Any]]:
    """X7, X8, X10 and X18."""
    eye = [[1, 0], [0, 1]]
    theta = [
        [[[(o + 2 * c - 3 * a + b) % 5 - 2 for b in range(2)] for a in range(2)] for c in range(2)] for o in range(2)
    ]
    return {
        "attention": {"z": [[1, 0], [0, 1], [1, 1]], "Wq": eye, "Wk": eye, "Wv": [[0, 1], [1, 0]]},
        "anchor": {
            "e": [1, Fraction(-1, 2), Fraction(1, 4)],
            "digits": [3, 6, 12],
            "weight": Fraction(1, 2),
            "beta": Fraction(1, 4),
            "bound": 1,
        },
        "moe": {
            "W": [[[3, 1], [0, -2]], [[-2, -4], [-4, -4]], [[-3, 3], [1, 4]]],
            "R": [[0, 1], [2, 1], [1, 0]],
            "B": [[0, 2], [-1, 2], [1, -2]],
            "z": [Fraction(3, 4), Fraction(-1, 2)],
            "scale": 4,
        },
        "meta": {"Theta": theta, "z": [Fraction(1, 2), Fraction(-3, 4)]},
    }


def layers() -> dict[str, dict[str, Any]]:
    """X9: every gate at one point, and the linear layer beside them."""
    x, W, B = [[Fraction(1, 2), Fraction(-3, 4)]], [[[1, 2]], [[-1, 3]]], [[Fraction(1, 2)], [-1]]
    V, U, R = [[1, -1], [2, 1]], [[1, 2], [-1, 1]], [[1, -1], [0, 2]]
    common = {"x": x, "W": W, "B": B}
    return {
        "linear": {"x": x, "W": W[0], "B": B[0]},
        "identity": common,
        "swish": common,
        "pswish": {**common, "V": V},
        "swiglu": {**common, "V": V, "U": U},
        "softmax": {**common, "R": R},
    }


def mixtures() -> dict[str, dict[str, Any]]:
    """X11-X15."""
    points, side = [-2, -1, 0, 1, 3], Fraction(8, 5)
    drawn = np.round(np.random.default_rng(14).normal(size=(12, 2)) * 4 * 256) / 256
    return {
        "em": {"x": points, "share": Fraction(1, 2), "low": -1, "high": 1, "steps": 6},
        "hard": {"x": points, "low": Fraction(-1, 2), "high": Fraction(5, 2)},
        "hard-untied": {"x": points, "low": Fraction(-3, 8), "high": Fraction(5, 2)},
        "lda": {"Sigma": [[4, 2], [2, 5]], "m0": [1, -1], "delta": [0, Fraction(32, 5)], "x": drawn},
        "rule": {
            "m0": [[-side, 0], [side, 10]],
            "m1": [[side, 0], [-side, 10]],
            "a": 0,
            "b": 5,
            "slack": Fraction(1, 100),
        },
    }


def vectors() -> dict[str, dict[str, Any]]:
    """X16, and the two triples of X17 whose first merge float16 flips."""
    return {
        "linkage": {"z": [[3, 1, 0], [2, 1, 0], [5, 2, 0], [0, 1, 4], [0, 1, 3], [1, 1, 1]]},
        "linkage-flip": {"z": [[5, 1, 3], [6, 4, 8], [5, 6, 4]]},
        "linkage-flip-2": {"z": [[2, 1, 3], [3, 8, 5], [4, 5, 6]]},
    }


def cells() -> dict[str, dict[str, Any]]:
    """The two recurrent cells of section 3.4, which the paper leaves to the reader; multiples of 1/64."""
    rng = np.random.default_rng(12)

    def drawn(*shape: int) -> Any:
        return np.round(rng.standard_normal(shape) * 64) / 64

    n, d = 3, 2
    return {
        "lstm": {
            "x": drawn(d),
            "h": drawn(n) / 4,
            "c": drawn(n),
            "W": drawn(4 * n, d),
            "U": drawn(4 * n, n),
            "b": drawn(4 * n),
        },
        "ssm": {
            "x": drawn(d),
            "h": drawn(n),
            "A": -1 - np.abs(drawn(n)),
            "B": drawn(n, d),
            "C": drawn(n, d),
            "w": drawn(d),
        },
    }
