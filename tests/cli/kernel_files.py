"""A module of kernels, and the inputs of some of them, for the commands that take a kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np

MODEL = """
import numpy as np
from helping import half


def matmul(A, B):
    y = A @ B
    return y


def two(A, B, n=3):
    h = np.maximum(A @ B, 0)
    for _ in range(int(n)):
        h = h * half
    return {"h": h, "s": h.sum()}


def squares(A):
    s = A * 1000.0
    return s * s


def branching(A):
    if A[0, 0] > 0:
        return A
    return -A


def sorting(A):
    y = np.sort(A)
    return y


def broken(A):
    return A.reshape(7, 7)


def exponential(A):
    return np.exp(A)


def masked(A, mask):
    s = np.where(mask > 0, A, -1e9)
    return s


def lowest(bias):
    s = np.finfo(np.float16).min + bias
    return s


def accumulated(A, B):
    y = A @ B  # in float32
    return y


number = 3
"""


def write_kernels(folder: Path, name: str = "model.py") -> None:
    """Write the module, one that it imports, and `inputs.npz` with A (2, 8), B (8, 3) and n."""
    (folder / name).write_text(MODEL, "utf-8")
    (folder / "helping.py").write_text("half = 0.5\n", "utf-8")
    (folder / "failing.py").write_text("import numpy\nraise RuntimeError('not today')\n", "utf-8")
    (folder / "leaving.py").write_text("raise SystemExit(0)\n", "utf-8")
    (folder / "needing.py").write_text("import no_such_package\n", "utf-8")
    rng = np.random.default_rng(0)
    np.savez(folder / "inputs.npz", A=rng.standard_normal((2, 8)), B=rng.standard_normal((8, 3)), n=np.int64(2))
