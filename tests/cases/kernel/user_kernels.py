"""Kernels as a user writes them, with inputs to certify them at; the same functions run on plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import certify


def dot(x: Any, y: Any) -> Any:
    """A dot product."""
    return x @ y


def chain(x: Any, A: Any, B: Any) -> Any:
    """A chain of matrix products, and what it leaves over."""
    y = (x @ A) @ B
    return {"y": y, "rest": x - y}


def polynomial(x: Any, degree: int) -> Any:
    """1 + x (1 + x / 2 (...)), by Horner's rule; the degree is static."""
    total = np.zeros_like(x) + 1.0
    for k in range(degree, 0, -1):
        total = total * x * (1.0 / k) + 1.0
    return total


def residual_mlp(x: Any, A: Any, b: Any, B: Any) -> Any:
    """A residual step with ReLU, its layers named."""
    with certify.layer("hidden"):
        h = x @ A + b
        h = np.maximum(h, 0)
    with certify.layer("residual"):
        y = x + h @ B
    return {"y": y}


def masked_attention(x: Any, W: Any, mask: Any) -> Any:
    """Causal linear attention: scores without a softmax, masked by a static array."""
    scores = np.where(mask, (x @ W) @ x.T, 0)
    y = scores @ x
    return {"y": y, "total": np.sum(y, axis=0)}


def growing(x: Any) -> Any:
    """Squares again and again: overflows float16 for entries beyond 4."""
    s = x * x
    q = s * s
    return q * q


Case = tuple[Callable[..., Any], dict[str, Any], str]


def cases(seed: int) -> dict[str, Case]:
    """Each kernel with random inputs and the input whose ball is certified."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 4))
    return {
        "dot": (dot, {"x": rng.standard_normal(9), "y": rng.standard_normal(9)}, "x"),
        "chain": (chain, {"x": x, "A": rng.standard_normal((4, 5)), "B": rng.standard_normal((5, 4))}, "A"),
        "polynomial": (polynomial, {"x": rng.uniform(-2, 2, 6), "degree": 5}, "x"),
        "residual_mlp": (
            residual_mlp,
            {"x": x, "A": rng.standard_normal((4, 6)), "b": rng.standard_normal(6), "B": rng.standard_normal((6, 4))},
            "x",
        ),
        "masked_attention": (
            masked_attention,
            {"x": x, "W": rng.standard_normal((4, 4)), "mask": np.tri(3, dtype=bool)},
            "x",
        ),
    }
