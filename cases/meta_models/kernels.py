"""The kernels of the systems, once, as array code that runs on NumPy and is traced; torch runs the same lines.

Every kernel takes the tensors of its system, and returns a dict of outputs. Shapes are those of README, section inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from certify.graph import sigmoid


def weighted_mean(H: Any, m: Any) -> dict[str, Any]:
    """The precision-weighted mean of equation (12): sum H m / sum H."""
    return {"z": np.sum(H * m) / np.sum(H)}


def jacobi(J: Any, h: Any) -> dict[str, Any]:
    """One Jacobi iteration for J z = h from z = h."""
    D = np.diagonal(J)
    return {"z": (h - J @ h + D * h) / D}


def anchored(z: Any, d: Any, e: Any, c: Any) -> dict[str, Any]:
    """One step of attention with the self value held and weights that do not change."""
    return {"z": (d * e + c @ z) / (d + np.sum(c, axis=1))}


def anchor(z: Any, e: Any, weight: float, beta: float) -> dict[str, Any]:
    """One step of anchored softmax attention on scalar tokens, weight Att(z) + (1 - weight) e."""
    A = softmax(beta * (z[:, None] * z[None, :]))
    return {"z": weight * (A @ z) + (1 - weight) * e}


def attention(z: Any, Wq: Any, Wk: Any, Wv: Any) -> dict[str, Any]:
    """Softmax attention by equation (13), the largest score subtracted."""
    s = (z @ Wq.T) @ (z @ Wk.T).T
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return {"y": (p / np.sum(p, axis=-1, keepdims=True)) @ (z @ Wv.T)}


def softmax(s: Any) -> Any:
    """Of a vector or of every row, the largest score subtracted."""
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return p / np.sum(p, axis=-1, keepdims=True)


def experts_first(W: Any, R: Any, z: Any, B: Any) -> dict[str, Any]:
    """A mixture of experts, sum_e w_e (W_e z + B_e) with w = softmax(R z)."""
    w = softmax(R @ z)
    return {"y": w @ (W @ z + B)}


def parameters_first(W: Any, R: Any, z: Any, B: Any) -> dict[str, Any]:
    """The same as a meta-linear layer: first theta = sum_e w_e W_e, then theta z + sum_e w_e B_e."""
    w = softmax(R @ z)
    theta = np.sum(w[:, None, None] * W, axis=0)
    return {"y": theta @ z + w @ B}


def linear(x: Any, W: Any, B: Any) -> dict[str, Any]:
    """A linear layer on rows."""
    return {"y": x @ W.T + B}


def _gated(s: Any, x: Any, W: Any, B: Any) -> dict[str, Any]:
    """s . (W x + B) on rows; W (k, o, d), B (k, o), s (n, k)."""
    outputs = [x @ W[e].T + B[e] for e in range(W.shape[0])]
    total = s[:, 0:1] * outputs[0]
    for e in range(1, W.shape[0]):
        total = total + s[:, e : e + 1] * outputs[e]
    return {"y": total}


def identity(x: Any, W: Any, B: Any) -> dict[str, Any]:
    """The gate s = x."""
    return _gated(x, x, W, B)


def swish(x: Any, W: Any, B: Any) -> dict[str, Any]:
    """The gate s = x * sigmoid(x)."""
    return _gated(x * sigmoid(x), x, W, B)


def pswish(x: Any, W: Any, B: Any, V: Any) -> dict[str, Any]:
    """The gate s = x * sigmoid(V x)."""
    return _gated(x * sigmoid(x @ V.T), x, W, B)


def swiglu(x: Any, W: Any, B: Any, V: Any, U: Any) -> dict[str, Any]:
    """The gate s = V x * sigmoid(V x) * U x."""
    v = x @ V.T
    return _gated(v * sigmoid(v) * (x @ U.T), x, W, B)


def mixture(x: Any, W: Any, B: Any, R: Any) -> dict[str, Any]:
    """The gate s = softmax(R x)."""
    return _gated(softmax(x @ R.T), x, W, B)


def meta(Theta: Any, z: Any) -> dict[str, Any]:
    """A meta-n-linear layer with the identity gate: contracts the last axis until only the outputs are left."""
    while Theta.ndim > 1:
        Theta = Theta @ z
    return {"y": Theta}


def cosines(z: Any) -> dict[str, Any]:
    """The similarities of equation (35)."""
    n = np.sqrt(np.sum(z * z, axis=1))
    return {"S": (z @ z.T) / (n[:, None] * n[None, :])}


def lstm(x: Any, h: Any, c: Any, W: Any, U: Any, b: Any) -> dict[str, Any]:
    """One LSTM cell; rows of W (4 n, d), U (4 n, n) and b are input, forget, cell, output."""
    n = h.shape[0]
    a = W @ x + U @ h + b
    new = sigmoid(a[n : 2 * n]) * c + sigmoid(a[:n]) * np.tanh(a[2 * n : 3 * n])
    return {"h": sigmoid(a[3 * n :]) * np.tanh(new), "c": new}


def ssm(x: Any, h: Any, A: Any, B: Any, C: Any, w: Any) -> dict[str, Any]:
    """One step of a selective state-space model of one channel: the step size depends on the input.

    step = softplus(w . x), h <- exp(step A) h + step (B x) u, y = (C x) . h, with u the first entry of x; A (n,), B (n, d).
    """
    t = np.sum(w * x)
    step = np.log(1.0 + np.exp(-np.abs(t))) + np.maximum(t, 0)
    new = np.exp(step * A) * h + step * (B @ x) * x[0]
    return {"h": new, "y": np.sum((C @ x) * new)}


#: Of a system its kernels: what names them beside the system, and the tensors that their inputs are.
KERNELS: dict[str, tuple[tuple[str, Callable[..., dict[str, Any]], dict[str, str]], ...]] = {
    "mean": (("", weighted_mean, {"H": "H", "m": "m"}),),
    "gaussian": (("", jacobi, {"J": "J", "h": "h"}),),
    "convex": (("", anchored, {"z": "e", "d": "d", "e": "e", "c": "c"}),),
    "attention": (("", attention, {"z": "z", "Wq": "Wq", "Wk": "Wk", "Wv": "Wv"}),),
    "anchor": (("", anchor, {"z": "e", "e": "e"}),),
    "moe": (
        ("-experts-first", experts_first, {"W": "W", "R": "R", "z": "z", "B": "B"}),
        ("-parameters-first", parameters_first, {"W": "W", "R": "R", "z": "z", "B": "B"}),
    ),
    "linear": (("", linear, {"x": "x", "W": "W", "B": "B"}),),
    "identity": (("", identity, {"x": "x", "W": "W", "B": "B"}),),
    "swish": (("", swish, {"x": "x", "W": "W", "B": "B"}),),
    "pswish": (("", pswish, {"x": "x", "W": "W", "B": "B", "V": "V"}),),
    "swiglu": (("", swiglu, {"x": "x", "W": "W", "B": "B", "V": "V", "U": "U"}),),
    "softmax": (("", mixture, {"x": "x", "W": "W", "B": "B", "R": "R"}),),
    "meta": (("", meta, {"Theta": "Theta", "z": "z"}),),
    "linkage": (("", cosines, {"z": "z"}),),
    "lstm": (("", lstm, {"x": "x", "h": "h", "c": "c", "W": "W", "U": "U", "b": "b"}),),
    "ssm": (("", ssm, {"x": "x", "h": "h", "A": "A", "B": "B", "C": "C", "w": "w"}),),
}
