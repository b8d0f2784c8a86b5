"""Layers as NumPy kernels, to be traced, and the same in torch, to be run; each input row or head is one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from certify import Format, format_named

WIDTH, HEADS, LENGTH, DEPTH = 32, 25, 6, 16


def layer_norm_rotary(x: Any, w: Any, b: Any, cos: Any, sin: Any) -> Any:
    """Layer norm of each row, then a rotation of its halves; every operation rounds."""
    m = np.mean(x, axis=-1, keepdims=True)
    c = x - m
    v = np.mean(c * c, axis=-1, keepdims=True)
    n = c / np.sqrt(v + 2.0**-16)
    y = n * w + b
    left, right = y[:, : WIDTH // 2], y[:, WIDTH // 2 :]
    z = np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=1)
    return z


def layer_norm_rotary_torch(torch: Any, x: Any, w: Any, b: Any, cos: Any, sin: Any, last: int | None = None) -> Any:
    """The same, in the dtype of the tensors; the mean is of the entries before `last`, which should be all."""
    c = x - x[:, :last].mean(-1, keepdim=True)
    n = c / torch.sqrt((c * c).mean(-1, keepdim=True) + 2.0**-16)
    y = n * w + b
    left, right = y[:, : WIDTH // 2], y[:, WIDTH // 2 :]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=1)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Softmax attention of several heads, with the largest score subtracted; every operation rounds."""
    s = np.stack([a @ b.T for a, b in zip(q, k, strict=True)]) * 0.25
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))
    a = p / np.sum(p, axis=-1, keepdims=True)
    y = np.stack([c @ d for c, d in zip(a, v, strict=True)])
    return y


def attention_torch(torch: Any, q: Any, k: Any, v: Any) -> Any:
    """The same, in the dtype of the tensors."""
    s = (q @ k.transpose(-1, -2)) * 0.25
    p = torch.exp(s - s.max(-1, keepdim=True).values)
    return (p / p.sum(-1, keepdim=True)) @ v


def norm_inputs(seed: int, runs: int, format: Format | str = "bfloat16") -> dict[str, np.ndarray]:
    """Unit normal rows and parameters, and the angles of one position."""
    rng = np.random.default_rng(seed)
    angles = rng.integers(0, 512) / 10.0 ** (np.arange(WIDTH // 2) / 4)
    drawn = {"x": rng.standard_normal((runs, WIDTH)), "w": rng.standard_normal(WIDTH), "b": rng.standard_normal(WIDTH)}
    return rounded({**drawn, "cos": np.cos(angles), "sin": np.sin(angles)}, format)


def attention_inputs(seed: int, heads: int = HEADS, format: Format | str = "float16") -> dict[str, np.ndarray]:
    """Unit normal queries, keys and values."""
    rng = np.random.default_rng(seed)
    return rounded({name: rng.standard_normal((heads, LENGTH, DEPTH)) for name in "qkv"}, format)


def rounded(inputs: dict[str, np.ndarray], format: Format | str) -> dict[str, np.ndarray]:
    """Inputs that are numbers of the format, as binary64."""
    chosen = format if isinstance(format, Format) else format_named(format)
    return {name: chosen.round(np.asarray(x, dtype=np.float64)) for name, x in inputs.items()}
