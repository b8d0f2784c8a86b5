"""The attention layer as plain array code: the one program that is run, traced and certified.

It runs on NumPy arrays, on traced ones and, where said, on tensors of torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
"""A NumPy array of any float type, a traced array, or a tensor of torch."""


def layer(Z: Array, theta: Array, C1: float, C2: float, xp: Any = np) -> Array:
    """What one masked layer makes of the bottom block of the last column, theta.

    These are the operations of `attention` for that column, without the multiplications by the zeros of V and W.

    Parameters
    ----------
    Z : shape (n, d), the examples z_i.
    theta : shape (d,).
    C1, C2 : the scalars of V and W.
    xp : NumPy, or torch for tensors.
    """
    s = (Z @ theta) * -C2
    p = xp.exp(s - xp.max(s))
    p = p / xp.sum(p)
    return theta + (p @ Z) * C1


def trained(Z: Array, theta: Array, V: Array, W: Array, xp: Any = np) -> Array:
    """The same for any weights V and W (2 d, 2 d), of which the blocks for keys (z_i; 0) and a query (0; theta) count.

    So this is one layer of `attention` on `embedding`. Further layers also change the columns of the context, unless the other
    blocks are 0.
    """
    d = theta.shape[0]
    s = Z @ (W[:d, d:] @ theta)
    p = xp.exp(s - xp.max(s))
    p = p / xp.sum(p)
    return theta + V[d:, :d] @ (p @ Z)


def looped(Z: Array, theta: Array, C1: float, C2: float, layers: int, xp: Any = np) -> Array:
    """That many layers with the same parameters."""
    for _ in range(layers):
        theta = layer(Z, theta, C1, C2, xp)
    return theta


def embedding(Z: Array, theta: Array) -> Array:
    """The input of the transformer, shape (2 d, n + 1): columns (z_i; 0), and (0; theta) last."""
    n, d = Z.shape
    H = np.zeros((2 * d, n + 1), dtype=Z.dtype)
    H[:d, :n] = Z.T
    H[d:, n] = theta
    return H


def weights(d: int, C1: float, C2: float, dtype: Any = np.float64) -> tuple[Array, Array]:
    """V = [[0, 0], [C1 I, 0]] and W = [[0, -C2 I], [0, 0]]."""
    V, W = np.zeros((2, 2 * d, 2 * d), dtype=dtype)
    V[d:, :d] = C1 * np.eye(d)
    W[:d, d:] = -C2 * np.eye(d)
    return V, W


def attention(H: Array, V: Array, W: Array, masked: bool = True) -> Array:
    """The whole layer, H + V H softmax(H^T W H), the softmax over the first n keys if masked and over all n + 1 if not.

    Parameters
    ----------
    H : shape (2 d, n + 1).
    V, W : shape (2 d, 2 d), any weights, such as trained ones.
    """
    keys = H[:, :-1] if masked else H
    S = keys.T @ W @ H
    P = np.exp(S - np.max(S, axis=0, keepdims=True))
    P = P / np.sum(P, axis=0, keepdims=True)
    return H + V @ keys @ P
