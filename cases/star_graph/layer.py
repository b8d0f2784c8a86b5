"""The two-layer disentangled transformer as array code, in its factorised form (Lemma 1 of the paper).

    A_l = Z W0_l Z^T + W1_l,   S1 = softmax(MASK A_1),   S2 = softmax(MASK(S1 A_2)),   f2 = S1[T] Z,   f1 = S2[T] S1 Z

The mask is causal and lets each position see itself. Only row T of S2 is used. The same function runs on NumPy
arrays, on tensors of torch and under tracing, where Z is known: a product with it picks entries and adds none that
are 0.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .instances import T


def softmax(logits: Any, xp: ModuleType = np) -> Any:
    """exp(logits - max), divided by its sum: a row (..., n)."""
    peak = xp.max if xp is np else xp.amax
    powers = xp.exp(logits - peak(logits, axis=-1, keepdims=True))
    return powers / powers.sum(-1)[..., None]


def weighed(row: Any, matrix: Any) -> Any:
    """The sum of the rows of a matrix (..., m, n) with weights (..., m)."""
    return (row[..., None, :] @ matrix)[..., 0, :]


def first_attention(Z: Any, content: Any, position: Any, xp: ModuleType = np) -> list[Any]:
    """The rows of S1, row t of t + 1 entries, from Z (..., T, N) and the weights of layer 1 (N, N) and (T, T)."""
    A = Z @ content @ Z.swapaxes(-1, -2) + position
    return [softmax(A[..., t, : t + 1], xp) for t in range(T)]


def layer(
    Z: Any, content_1: Any, position_1: Any, content_2: Any, position_2: Any, xp: ModuleType = np
) -> dict[str, Any]:
    """f1 (..., N) and f2 (..., N), what the deep and the shallow head say of the next token, for the tokens Z (..., T, N)."""
    S1 = first_attention(Z, content_1, position_1, xp)
    A = Z @ content_2 @ Z.swapaxes(-1, -2) + position_2
    s2 = softmax(weighed(S1[T - 1], A), xp)
    values = [weighed(row, Z[..., : t + 1, :]) for t, row in enumerate(S1)]
    return {"f1": weighed(s2, xp.stack(values, -2)), "f2": values[T - 1]}
