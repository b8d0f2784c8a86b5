"""Real kernels of NumPy and torch, and the programs that they are: operations, a format, an order of sums, a library.

Every kernel is written once in NumPy, traced for its bound and run by NumPy. Torch runs the same operations (`torch`), or one
fused function of its own (`torch, fused`), which is another program of the same exact function.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from certify.cases.polyprox import block
from threadpoolctl import threadpool_limits

from certify import BFLOAT16, BINARY16, BINARY32, BINARY64, Format, cast

FORMATS = {"float32": BINARY32, "float64": BINARY64, "bfloat16": BFLOAT16, "float16": BINARY16}
SIZES = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2}  # in bytes
EPS = 2.0**-17  # of a layer norm: a number of every format
MIXED = "any-order:float32"  # numbers of 16 bits are multiplied and added in float32, and the total is rounded once


@dataclass(frozen=True)
class Program:
    """What a real kernel computes, as far as its bound is concerned.

    Attributes
    ----------
    kernels : array code of the operations; of several, the real kernel is one of them.
    format, order, libm : as for `certify.testing.assert_within`.
    result : the format that what is computed is rounded to in the end, if it is another one.
    """

    kernels: tuple[Callable[..., Any], ...]
    format: str
    order: str
    libm: str
    result: str = ""


@dataclass(frozen=True)
class Real:
    """A real kernel: who runs it, how, the program that it is, and with how many threads if that is fixed.

    `run` takes NumPy arrays or tensors by name.
    """

    name: str
    run: Callable[..., Any]
    program: Program
    threads: int = 0


@dataclass(frozen=True)
class State:
    """Inputs of a kernel: `inputs` are rounded to a format and vary, `static` are not."""

    inputs: dict[str, np.ndarray]
    static: dict[str, Any]

    def rounded(self, format: Format) -> dict[str, np.ndarray]:
        """The inputs as numbers of the format, in binary64."""
        return {name: np.asarray(format.round(np.asarray(x, dtype=np.float64))) for name, x in self.inputs.items()}


def matmul(A: Any, B: Any) -> Any:
    """A product."""
    return A @ B


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    """Of every row, in two passes."""
    c = x - np.mean(x, axis=-1, keepdims=True)
    v = np.mean(c * c, axis=-1, keepdims=True)
    return c / np.sqrt(v + EPS) * w + b


def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    """Softmax attention of one head."""
    s = q @ k.T * scale
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return p / np.sum(p, axis=-1, keepdims=True) @ v


def attention_divided_last(q: Any, k: Any, v: Any, scale: float) -> Any:
    """The same function, as torch's CPU kernel evaluates it in one block of keys: the products are divided, not the weights."""
    s = q @ k.T * scale
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return p @ v * (1.0 / np.sum(p, axis=-1, keepdims=True))


def attention_in_16_bits(q: Any, k: Any, v: Any, scale: float, format: str) -> Any:
    """The same, as torch evaluates it on numbers of 16 bits: all in float32, but for the weights in the second product."""
    s = q @ k.T * scale
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return cast(p, format) @ v * (1.0 / np.sum(p, axis=-1, keepdims=True))


def logsumexp(x: Any) -> Any:
    """Of every row, with the largest entry subtracted."""
    m = np.max(x, axis=-1)
    return np.log(np.sum(np.exp(x - m[:, None]), axis=-1)) + m


def softmax(x: Any) -> Any:
    """Of every row, with the largest entry subtracted."""
    p = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return p / np.sum(p, axis=-1, keepdims=True)


def softmax_by_reciprocal(x: Any) -> Any:
    """The same function, dividing once a row."""
    p = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return p * (1.0 / np.sum(p, axis=-1, keepdims=True))


def layer_norm_by_welford(x: Any, counts: Any, w: Any, b: Any, width: int, parts: int) -> Any:
    """A layer norm as torch's CPU kernel evaluates it: moments by Welford's algorithm, then x * scale + bias.

    Source: ATen/native/cpu/moments_utils.h and layer_norm_kernel.cpp. `width` is how many entries make up a vector: 32 bytes on
    x86, as these files are not compiled for AVX-512. A vector of 16-bit numbers becomes two of float32 (`parts` = 2). `counts`
    are 0, 1, ..., which are exact.
    """
    n = x.shape[-1]
    lanes, vectors = width // parts, n // width
    stack: list[Any] = []  # of (count, mean, squares): sizes in vectors grow towards the front, as in a binary counter
    for start in range(0, vectors, 16):
        size = min(16, vectors - start)
        for part in range(parts):
            mean, squares = None, None
            for j in range(size):
                at = (start + j) * width + part * lanes
                chunk = x[:, at : at + lanes]
                if mean is None:  # what it adds to zeros is exact
                    mean, squares = chunk, np.zeros_like(chunk)
                    continue
                delta = chunk - mean
                mean = mean + delta * (counts[1] / counts[j + 1])
                squares = squares + delta * (chunk - mean)
            stack = _joined(stack, (size, mean, squares), counts)
    total = stack[0] if stack else None
    count, mean, squares = 0, None, None
    for i in range(vectors * width, n):
        count += 1
        if mean is None:
            mean, squares = x[:, i], np.zeros_like(x[:, i])
            continue
        delta = x[:, i] - mean
        mean = mean + delta / counts[count]
        squares = squares + delta * (x[:, i] - mean)
    if total is not None:
        for lane in range(lanes):
            one = (total[0], total[1][:, lane], total[2][:, lane])
            count, mean, squares = one if mean is None else _added((count, mean, squares), one, counts)
    scale = counts[1] / np.sqrt(squares / counts[n] + EPS)
    bias = -scale * mean
    return (x * scale[:, None] + bias[:, None]) * w + b


def _added(a: Any, b: Any, counts: Any) -> Any:
    """The moments of a and of b together."""
    n = a[0] + b[0]
    c = counts[b[0]] / counts[n]
    delta = b[1] - a[1]
    return n, a[1] + c * delta, a[2] + (b[2] + delta * delta * c * counts[a[0]])


def _joined(stack: list[Any], new: Any, counts: Any) -> list[Any]:
    """At most 16 vectors a row here: one block on the stack, to which all are added."""
    return [_added(stack[0], new, counts)] if stack else [new]


OWN: dict[str, Callable[..., Any]] = {
    "block": block,
    "matmul": matmul,
    "layer norm": layer_norm,
    "attention": attention,
    "logsumexp": logsumexp,
    "softmax": softmax,
}


def state(kernel: str, seed: int) -> State:
    """A random state of a random shape: normal, nearly cancelling, positive, or of small numbers."""
    rng = np.random.default_rng([seed, len(kernel)])
    kind = ("normal", "cancelling", "positive", "small")[seed % 4]

    def drawn(*shape: int) -> np.ndarray:
        x = rng.standard_normal(shape)
        return np.abs(x) if kind == "positive" else x / 64 if kind == "small" else x

    if kernel == "block":
        p = int(rng.integers(2, 6))
        M = (rng.random((p, p)) < 0.8) & ~np.eye(p, dtype=bool)
        X = rng.standard_normal((50, p))
        scalars = {"alpha": rng.uniform(0, 1), "rho": rng.uniform(0.5, 4), "gamma": rng.uniform(0.02, 0.1), "lam": 0.01}
        drawn_W = 0.5 * rng.random() * rng.standard_normal((p, p)) * M
        arrays = {"W": drawn_W, "Sigma": X.T @ X / 50, **{name: np.array(x) for name, x in scalars.items()}}
        return State(arrays, {"M": M.astype(np.int64), "b": int(rng.integers(2)), "N": 8})
    if kernel == "matmul":
        p, n, q = (64, 80, 64) if seed % 10 == 9 else (int(size) for size in rng.integers(1, (12, 150, 12)))
        A, B = drawn(p, n), drawn(n, q)
        if kind == "cancelling" and n > 1:
            half = n // 2
            A[:, half : 2 * half], B[half : 2 * half] = A[:, :half], -B[:half] * (1 + 2.0**-7)
        return State({"A": A, "B": B}, {})
    rows, n = int(rng.integers(1, 6)), int(rng.integers(2, 80))
    if kernel == "layer norm":
        x = drawn(rows, n) + (4 if kind == "cancelling" else 0)
        return State({"x": x, "w": drawn(n), "b": drawn(n)}, {})
    if kernel == "attention":
        n, width = int(rng.integers(2, 20)), int(rng.choice([4, 8, 12, 16]))
        scale = float(np.float32(width**-0.5))
        return State({"q": drawn(rows, width), "k": drawn(n, width), "v": drawn(n, width)}, {"scale": scale})
    return State({"x": drawn(rows, n) * (8 if kind == "cancelling" else 1)}, {})  # softmax and logsumexp


def reals(kernel: str, name: str) -> Iterator[Real]:
    """The real kernels in a format that are run here: NumPy where it has the format, and torch where it is installed."""
    own = OWN[kernel]
    wide = name in ("float32", "float64")
    if wide:
        yield Real("numpy, 1 thread", own, Program((own,), name, "any-order", "numpy"), 1)
        yield Real("numpy, 2 threads", own, Program((own,), name, "any-order", "numpy"), 2)
    if torch() is None:
        return
    order = "any-order" if wide else MIXED
    yield Real("torch", _in_torch(own), Program((own,), name, order, "torch"))
    inner = name if wide else "float32"
    fused_library = "torch" if name == "float64" else "torch-fused/float32"
    result = "" if wide else name
    functional = torch().nn.functional
    if kernel == "layer norm":
        if platform.machine() not in ("x86_64", "AMD64"):
            return
        width = 32 // SIZES[name]

        def moments(x: Any, counts: Any, w: Any, b: Any) -> Any:
            return layer_norm_by_welford(x, counts, w, b, width, 1 if wide else 2)

        run = lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b, EPS)  # noqa: E731
        yield Real("torch, fused", run, Program((moments,), inner, "any-order", "torch", result))
    elif kernel == "softmax":
        run = lambda x: functional.softmax(x, -1)  # noqa: E731
        either = (softmax, softmax_by_reciprocal)
        yield Real("torch, fused", run, Program(either, inner, "any-order", fused_library, result))
    elif kernel == "logsumexp":
        yield Real("torch, fused", lambda x: torch().logsumexp(x, -1), Program((own,), name, order, "torch"))
    elif kernel == "attention":

        def attend(q: Any, k: Any, v: Any, scale: float) -> Any:
            q, k, v = (x[None, None] for x in (q, k, v))
            return functional.scaled_dot_product_attention(q, k, v, scale=scale)[0, 0]

        def in_16_bits(q: Any, k: Any, v: Any, scale: float) -> Any:
            return attention_in_16_bits(q, k, v, scale, name)

        evaluated = attention_divided_last if wide else in_16_bits
        library = fused_library if wide else "torch-flash/float32"
        yield Real("torch, fused", attend, Program((evaluated,), inner, "any-order", library, result))


@lru_cache
def torch() -> Any:
    """The module, or None."""
    try:
        import torch
    except ImportError:
        return None
    return torch


class _Functions:
    """What the kernels call of NumPy, on tensors."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch(), name)

    def mean(self, x: Any, axis: int, keepdims: bool) -> Any:
        return torch().mean(x, axis, keepdim=keepdims)

    def sum(self, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return torch().sum(x) if axis is None else torch().sum(x, axis, keepdim=keepdims)

    def max(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return torch().amax(x, axis, keepdim=keepdims)

    def maximum(self, x: Any, least: int) -> Any:
        return torch().clamp(x, min=least)


def _in_torch(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same code, with torch for NumPy."""
    return FunctionType(
        kernel.__code__, {**kernel.__globals__, "np": _Functions()}, kernel.__name__, kernel.__defaults__
    )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """BLAS and torch with that many threads."""
    before = torch().get_num_threads() if torch() else 0
    with threadpool_limits(count):
        if before:
            torch().set_num_threads(count)
        yield
    if before:
        torch().set_num_threads(before)


def run(real: Real, inputs: Mapping[str, np.ndarray], static: Mapping[str, Any], name: str) -> dict[str, np.ndarray]:
    """What a real kernel returns on inputs that are numbers of the format, by output, in binary64."""
    if real.name.startswith("numpy"):
        dtype = np.dtype(name)
        given = {key: x.astype(dtype) if x.ndim else dtype.type(x) for key, x in inputs.items()}
        fixed = {key: x.astype(dtype) if isinstance(x, np.ndarray) else x for key, x in static.items()}
        found = real.run(**given, **fixed)
    else:
        dtype = getattr(torch(), name)
        given = {key: torch().from_numpy(np.array(x)).to(dtype) for key, x in inputs.items()}
        fixed = {key: torch().from_numpy(x).to(dtype) if isinstance(x, np.ndarray) else x for key, x in static.items()}
        found = real.run(**given, **fixed)
    outputs = found if isinstance(found, dict) else {"0": found}
    assert all(x.dtype == dtype for x in outputs.values())
    return {key: np.float64(x) if real.name.startswith("numpy") else x.double().numpy() for key, x in outputs.items()}
