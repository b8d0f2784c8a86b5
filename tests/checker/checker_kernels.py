"""Small kernels that together call every operation, and inputs at which they are defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from certify import cast
from certify.graph import sigmoid

Inputs = dict[str, Any]


def layer_norm(x: Any) -> Any:
    """Mean, variance, root and quotient."""
    return (x - np.mean(x)) / np.sqrt(np.var(x) + 2.0**-7)


def attention(q: Any, k: Any, v: Any) -> Any:
    """One head, with the largest score subtracted."""
    scores = (q @ k.T) / 2
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return (weights / np.sum(weights, axis=-1, keepdims=True)) @ v


def logsumexp(x: Any) -> Any:
    """The logarithm of a sum of exponentials."""
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top)))


def norm(x: Any) -> Any:
    """A root of a sum of squares, near 0 as well."""
    return {"n": np.linalg.norm(x), "y": x * np.linalg.norm(x), "a": np.abs(x * 0.5)}


def chosen(x: Any) -> Any:
    """A selection by a threshold, strict and not, and one whose branches meet."""
    return {
        "a": np.where(x > 0.25, x * x, -x),
        "b": np.where(x <= 0.5, np.abs(x), 1.5 * x),
        "c": np.clip(x, -0.5, 0.75),
    }


def kalman(x: Any, P: Any, z: Any) -> Any:
    """A step with a scalar measurement of the first two entries; H has zeros that hold a place."""
    H = np.array([[1.0, 1.0, 0.0]])
    S = H @ P @ H.T + 0.5
    K = (P @ H.T) / S
    return {"x": x + (K * (z - H @ x))[:, 0], "P": P - K @ (H @ P)}


def gates(W: Any, x: Any, h: Any) -> Any:
    """Sigmoid and tanh of matrix products with known zeros in them, and a residual stream."""
    mask = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    z, c = sigmoid((W * mask) @ x), np.tanh(W @ h)
    y = h + (z * c - h)
    return {"h": y, "r": np.maximum(y - 0.1, 0), "s": np.sum(y * z) + c[0] * c[1] + x[0] / 4}


def sums(A: Any, x: Any) -> Any:
    """Sums with cancellation, of two, of products alone, and powers of two."""
    y = A @ x
    return {"y": y, "s": np.sum(A), "t": np.sum(x[:2]) - x[0] * x[1], "d": x[:1] @ x[:1], "q": np.sum(x * 0.125)}


def mixed(A: Any, x: Any) -> Any:
    """Registers in formats of their own, a sum of products in float32, a cast to fewer bits."""
    y = A.astype(np.float32) @ cast(x, "float32")
    b, h, e = cast(y, "bfloat16"), cast(x[:3], "float16"), np.abs(cast(x, "e5m2"))
    z = cast(b * b, "float32") - y * cast(h + h, "float32")
    return {"y": y, "z": z, "s": np.sum(e), "t": np.tanh(cast(z, "float16")) / 4, "m": np.maximum(b, b - 1)}


def inputs(seed: int = 0) -> dict[str, tuple[Callable[..., Any], Inputs, str]]:
    """Each kernel by name, with inputs, and the one that moves in a ball."""
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(3, 3))
    return {
        "layer_norm": (layer_norm, {"x": rng.normal(size=6)}, "x"),
        "attention": (attention, {n: rng.normal(size=(3, 2)) for n in "qkv"}, "k"),
        "logsumexp": (logsumexp, {"x": 2 * rng.normal(size=5)}, "x"),
        "norm": (norm, {"x": rng.normal(size=4)}, "x"),
        "chosen": (chosen, {"x": rng.normal(size=6)}, "x"),
        "kalman": (kalman, {"x": rng.normal(size=3), "P": P @ P.T + np.eye(3), "z": rng.normal(size=1)}, "x"),
        "gates": (gates, {"W": rng.normal(size=(3, 3)), "x": rng.normal(size=3), "h": rng.normal(size=3)}, "W"),
        "mixed": (mixed, {"A": rng.normal(size=(3, 4)), "x": rng.normal(size=4)}, "x"),
        "sums": (sums, {"A": rng.normal(size=(3, 7)), "x": rng.normal(size=7)}, "x"),
    }
