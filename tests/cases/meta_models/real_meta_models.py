"""The kernels of the case run for real: by NumPy, by torch from the same source lines, and emulated in short formats."""

from __future__ import annotations

import inspect
from functools import cache, lru_cache
from typing import Any

import numpy as np
from certify.cases.meta_models import kernels
from certify.cases.meta_models.inputs import Instance

from certify import Libm, format_named

#: Formats that an implementation has itself, and those that are emulated operation by operation.
NUMPY, TORCH, EMULATED = (
    ("float16", "float32", "float64"),
    ("float16", "bfloat16", "float32", "float64"),
    ("tf32", "e5m2", "e4m3"),
)
SYSTEMS = tuple(kernels.KERNELS)
#: What is assumed of torch: its published errors, and of the sigmoid that is built on its exp those of NumPy's, whose exp is
#: no better.
LIBM = {
    "float16": Libm("torch in float16", {"exp": 1.0, "log": 1.0, "tanh": 1.0, "sigmoid": 5.0}, otherwise=None),
    "bfloat16": Libm("torch in bfloat16", {"exp": 1.0, "log": 1.0, "tanh": 1.0, "sigmoid": 5.0}, otherwise=None),
    "float32": Libm("torch in float32", {"exp": 1.5, "log": 1.5, "tanh": 2.5, "sigmoid": 7.5}, otherwise=None),
    "float64": Libm("torch in float64", {"exp": 1.5, "log": 1.5, "tanh": 2.5, "sigmoid": 10.5}, otherwise=None),
}


def instance(system: str, seed: int, format: str) -> Instance:
    """A random system of a random size; its tensors are numbers of the format."""
    rng = np.random.default_rng([seed, len(system), SYSTEMS.index(system)])
    scale = (1.0, 0.25, 1.0, 2.0)[seed % 4]
    n, d, k = (int(x) for x in rng.integers(1, 6, 3))
    o = int(rng.integers(1, 3))

    def drawn(*shape: int) -> Any:
        return scale * rng.standard_normal(shape)

    def positive(*shape: int) -> Any:
        return rng.uniform(0.5, 2, shape)

    gated = {"x": drawn(n, d), "W": drawn(k, o, d), "B": drawn(k, o)}
    square = {"x": drawn(n, d), "W": drawn(d, o, d), "B": drawn(d, o)}
    c = np.triu(positive(n + 1, n + 1), 1)
    parts: dict[str, Any] = {
        "mean": lambda: {"H": positive(8), "m": drawn(8)},
        "gaussian": lambda: {"J": np.eye(n) * 3 + (lambda a: a + a.T)(drawn(n, n) / 8), "h": drawn(n)},
        "convex": lambda: {"d": positive(n + 1), "e": drawn(n + 1), "c": c + c.T},
        "attention": lambda: {"z": drawn(n, d), "Wq": drawn(d, d) / 2, "Wk": drawn(d, d) / 2, "Wv": drawn(d, d)},
        "anchor": lambda: {"e": rng.uniform(-1, 1, n)},
        "moe": lambda: {"W": drawn(k, o, d), "R": drawn(k, d), "z": drawn(d), "B": drawn(k, o)},
        "linear": lambda: {"x": drawn(n, d), "W": drawn(o, d), "B": drawn(o)},
        "identity": lambda: square,
        "swish": lambda: square,
        "pswish": lambda: {**square, "V": drawn(d, d)},
        "swiglu": lambda: {**gated, "V": drawn(k, d), "U": drawn(k, d)},
        "softmax": lambda: {**gated, "R": drawn(k, d)},
        "meta": lambda: {"Theta": drawn(o, *[d] * int(rng.integers(2, 4))), "z": drawn(d)},
        "linkage": lambda: {"z": drawn(n + 1, d + 1)},
        "lstm": lambda: {
            "x": drawn(d),
            "h": rng.uniform(-1, 1, n),
            "c": drawn(n),
            "W": drawn(4 * n, d),
            "U": drawn(4 * n, n),
            "b": drawn(4 * n),
        },
        "ssm": lambda: {
            "x": drawn(d),
            "h": drawn(n),
            "A": -positive(n),
            "B": drawn(n, d),
            "C": drawn(n, d),
            "w": drawn(d),
        },
    }[system]()
    chosen = format_named(format)
    tensors = {name: np.asarray(chosen.round(np.asarray(value, dtype=np.float64))) for name, value in parts.items()}
    from fractions import Fraction

    numbers = {"weight": Fraction(1, 2), "beta": Fraction(1, 4)} if system == "anchor" else {}
    return Instance(system, system, tensors, numbers)


@lru_cache
def torch() -> Any:
    """The module, or None."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    return torch


class _Functions:
    """What the kernels call of NumPy, on tensors."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch(), name)

    def sum(self, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return torch().sum(x) if axis is None else torch().sum(x, axis, keepdim=keepdims)

    def max(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return torch().amax(x, axis, keepdim=keepdims)

    def maximum(self, x: Any, least: int) -> Any:
        return torch().clamp(x, min=least)


def _sigmoid(x: Any) -> Any:
    small = torch().exp(-torch().abs(x))
    return torch().where(x >= 0, 1 / (1 + small), small / (1 + small))


@cache
def in_torch() -> dict[str, Any]:
    """The functions of the module of kernels, from its source, with torch for NumPy."""
    source = inspect.getsource(kernels)
    for line in ("import numpy as np\n", "from certify.graph import sigmoid\n"):
        assert source.count(line) == 1
        source = source.replace(line, "")
    namespace: dict[str, Any] = {"np": _Functions(), "sigmoid": _sigmoid, "__name__": "kernels_in_torch"}
    exec(compile(source, "kernels_in_torch", "exec"), namespace)
    return namespace


def by_numpy(function: Any, inputs: dict[str, Any], format: str) -> dict[str, Any]:
    """What NumPy returns in a dtype, as binary64; every output has the dtype."""
    dtype = np.dtype(format)
    found = function(**{name: np.asarray(value).astype(dtype) for name, value in inputs.items()})
    assert all(np.asarray(value).dtype == dtype for value in found.values())
    return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


def by_torch(name: str, inputs: dict[str, Any], fixed: dict[str, Any], format: str) -> dict[str, Any]:
    """What torch returns in a dtype, as binary64."""
    dtype = getattr(torch(), format)
    given = {key: torch().from_numpy(np.array(value)).to(dtype) for key, value in inputs.items()}
    found = in_torch()[name](**given, **fixed)
    assert all(value.dtype == dtype for value in found.values())
    return {key: value.double().numpy() for key, value in found.items()}
