"""The format of a result is that of all operands that NumPy computes with, and of nothing else: NumPy's own bits."""

import numpy as np
import pytest

from certify.arithmetic import Ieee, format_named
from certify.graph import evaluate, output, trace

SINGLE = np.float32
THIRDS = np.array([1 / 3, 2 / 3, 0.7, 0.1])
ROW = np.array([1.0, 0.0, 2.0, 0.0])
ZERO_TO_THREE = np.arange(4)

KERNELS = {
    # by name
    "sum": lambda x: np.sum(a=x.astype(SINGLE)[:3]) / 3,
    "mean": lambda x: np.mean(a=x.astype(SINGLE)[:3]) / 3,
    "var": lambda x: np.var(a=x.astype(SINGLE)[:3]),
    "largest": lambda x: np.max(a=x.astype(SINGLE)) / 3,
    "norm": lambda x: np.linalg.norm(x=x.astype(SINGLE)[:3], ord=1) / 3,
    "outer": lambda x: np.outer(b=x.astype(SINGLE), a=x.astype(SINGLE)),
    "dot": lambda x: np.dot(b=x.astype(SINGLE), a=SINGLE(3)),
    "clip": lambda x: np.clip(a=x.astype(SINGLE), a_min=0.2, a_max=0.5) / 3,
    "trace": lambda x: np.trace(a=x.astype(SINGLE).reshape(2, 2)) / 3,
    "joined": lambda x: np.stack(arrays=[x.astype(SINGLE), x.astype(SINGLE)]) / 3,
    "zeros": lambda x: np.zeros_like(a=x.astype(SINGLE)) + 1 / 3,
    # options and masks are no operands
    "norm of an order": lambda x: np.linalg.norm(x.astype(SINGLE)[:3], np.float64(1)) / 3,
    "where of numbers": lambda x: np.where(ROW, x.astype(SINGLE), 0.1) / 3,
    "repeated": lambda x: np.repeat(x.astype(SINGLE), ZERO_TO_THREE) / 3,
    "rolled": lambda x: np.roll(x.astype(SINGLE), np.int64(2)) / 3,
    # lists are arrays in float64
    "list": lambda x: x.astype(SINGLE) * [0.1, 0.2, 0.3, 0.4],
    "list on the left": lambda x: np.subtract([0.1, 0.2, 0.3, 0.4], x.astype(SINGLE)),
    "list in where": lambda x: np.where(ROW, x.astype(SINGLE), [0.1, 0.2, 0.3, 0.4]) / 3,
    "list in clip": lambda x: np.clip(x.astype(SINGLE), [0.2] * 4, 0.5) / 3,
    "list in a comparison": lambda x: np.where(x.astype(SINGLE) < [1 / 3, 2 / 3, 0.7, 0.2], 1.0, x),
    # and so are the numbers that these functions are given
    "dot with a number": lambda x: np.dot(x.astype(SINGLE), 0.1),
    "outer with a number": lambda x: np.outer(x.astype(SINGLE), 0.1),
    "einsum with a number": lambda x: np.einsum("i,->i", x.astype(SINGLE), 0.1),
    "joined with a list": lambda x: np.concatenate([x.astype(SINGLE), [0.1]]) / 3,
    "joined with a number": lambda x: np.hstack([x.astype(SINGLE), 0.1]) / 3,
    "stacked with an integer": lambda x: np.stack([x.astype(SINGLE)[0], 1]) / 3,
    "stacked with a truth": lambda x: np.stack([x.astype(SINGLE)[0], True]) / 3,
    "stacked with a number": lambda x: np.stack([x.astype(SINGLE)[0], 0.1]) / 3,
    # while these leave Python's numbers what they are
    "ones of a power": lambda x: x.astype(SINGLE) ** 0 / 3,
    "number": lambda x: x.astype(SINGLE) * 0.1,
    "number in where": lambda x: np.where(ROW, x.astype(SINGLE), 0.1) / 3,
    "number in clip": lambda x: np.clip(x.astype(SINGLE), 0.2, 0.5) / 3,
    "number in maximum": lambda x: np.maximum(x.astype(SINGLE), 0.2) / 3,
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_results_have_the_format_that_numpy_gives_them(kernel):
    """The program is in binary64, other arrays in binary32; every sum has three terms, which NumPy adds from left to right."""
    ieee = Ieee(format_named("float64"))
    for x in (THIRDS, 1 / THIRDS, -3 * THIRDS):
        graph = trace(kernel, {"x": x}, order="serial")
        found = output(graph, ieee, evaluate(graph, ieee, {"x": ieee.constant(x)}), "0")
        assert found.tolist() == np.asarray(kernel(x), dtype=np.float64).tolist()
