"""The largest errors of exp, log, tanh and sigmoid that NumPy and torch make here, in ulps, beside what is assumed of them.

    python benchmarks/libm.py [--samples 1000000]

All numbers of float16 and bfloat16; of float32 and float64 random bit patterns of every magnitude and numbers near 1. A
measurement, so a plausibility test of `certify.arithmetic.libm`: sampling proves no figure, but may refute one. Exact values
are those of longdouble; without 64 bits or more there, float64 is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from certify import sigmoid
from certify.arithmetic import format_named
from certify.arithmetic.libm import CALLS, library

NAMES = ("float16", "bfloat16", "float32", "float64")
DTYPES = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
INTEGERS = {"float32": np.uint32, "float64": np.uint64}
STEP = 1 << 20


def arguments(name: str, samples: int) -> Iterator[np.ndarray]:
    """Numbers of the format as longdouble, at most `STEP` at a time."""
    if name in ("float16", "bfloat16"):
        bits = np.arange(1 << 16, dtype=np.uint16)
        yield (bits.view(np.float16) if name == "float16" else (bits.astype(np.uint32) << 16).view(np.float32)).astype(
            np.longdouble
        )
        return
    rng = np.random.default_rng(0)
    dtype, integer = DTYPES[name], INTEGERS[name]
    for start in range(0, samples, STEP):
        count = min(STEP, samples - start)
        any_bits = rng.integers(0, np.iinfo(integer).max, count, dtype=integer, endpoint=True).view(dtype)
        scale = 10.0 ** rng.uniform(-3, 2.9, count)
        for x in (any_bits, (rng.standard_normal(count) * scale).astype(dtype), rng.uniform(0, 2, count).astype(dtype)):
            yield x.astype(np.longdouble)


def exact(function: str, x: np.ndarray) -> np.ndarray:
    """The function in longdouble."""
    if function == "sigmoid":
        small = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + small), small / (1 + small))
    return np.asarray(getattr(np, function)(x))


def ulps(computed: np.ndarray, y: np.ndarray, name: str) -> np.ndarray:
    """|computed - y| in ulps of the format at y, where y and its neighbours do not overflow; elsewhere 0."""
    format = format_named(name)
    with np.errstate(all="ignore"):
        fits = np.abs(y) < format.largest * (1 - 2.0 ** (4 - format.precision))
        exponent = np.maximum(np.frexp(np.where(fits, y, 0))[1] - 1, format.emin)
        off = np.abs(computed - y) / np.ldexp(np.longdouble(1), exponent - format.precision + 1)
    return np.where(fits, off, 0)


def calls(function: str) -> Iterator[tuple[str, str, Callable[[np.ndarray], np.ndarray]]]:
    """Library, format and the function on longdoubles, for all that are installed."""
    own = sigmoid if function == "sigmoid" else getattr(np, function)
    for name, dtype in DTYPES.items():
        yield "numpy", name, lambda x, dtype=dtype: own(x.astype(dtype)).astype(np.longdouble)
    if importlib.util.find_spec("torch") is not None:
        for name in NAMES:
            yield "torch", name, torch_call(function, name)
            yield "torch, strided", name, torch_call(function, name, strided=True)


def torch_call(function: str, name: str, strided: bool = False) -> Callable[[np.ndarray], np.ndarray]:
    """A function of torch, on contiguous tensors or on every second number of one."""
    import torch

    def call(x: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(x.astype(np.float64)).to(getattr(torch, name))
        given = given.repeat_interleave(2)[::2] if strided else given
        found: Any = getattr(torch, function)(given).double().numpy()
        return np.asarray(found).astype(np.longdouble)

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=1_000_000, help="of float32 and float64, of each of three kinds")
    samples = parser.parse_args().samples
    print(f"{'library':16} {'format':9} {'function':8} {'largest':>9} {'assumed':>8}  at")
    for function in CALLS:
        for whose, name, call in calls(function):
            if name == "float64" and np.finfo(np.longdouble).nmant < 63:
                continue
            worst, at = 0.0, 0.0
            with np.errstate(all="ignore"):
                for x in arguments(name, samples):
                    off = ulps(call(x), exact(function, x), name)
                    defined = np.isfinite(x) & (x > 0 if function == "log" else True)
                    k = int(np.argmax(np.where(defined, off, 0)))
                    if off[k] > worst:
                        worst, at = float(off[k]), float(x[k])
            assumed = library(whose.split(",")[0], [format_named(name)]).ulps.get(function)
            print(f"{whose:16} {name:9} {function:8} {worst:9.3f} {assumed!s:>8}  {at!r}")


if __name__ == "__main__":
    main()
