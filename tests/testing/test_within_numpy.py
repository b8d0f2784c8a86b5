"""Layers that NumPy runs in float16, float32 and float64 never leave their proved bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from real_layers import HEADS, attention, attention_inputs, layer_norm_rotary, norm_inputs

from certify import tolerance
from certify.testing import compare_within

#: NumPy adds numbers of float16 in float32, and rounds once.
SUMS = {"float16": "any-order:float32", "float32": "any-order", "float64": "any-order"}
RUNS = [pytest.param(500, id="500"), pytest.param(10_000, id="10000", marks=pytest.mark.slow)]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize(
    ("kernel", "drawn", "together"), [(layer_norm_rotary, norm_inputs, 50), (attention, attention_inputs, HEADS)]
)
def test_layers_stay_within_their_bound(
    kernel: Callable[..., Any], drawn: Callable[..., dict[str, np.ndarray]], together: int, name: str, runs: int
) -> None:
    """The traced function itself, run on arrays of the dtype."""
    share = 0.0
    for seed in range(runs // together):
        inputs = {key: x.astype(name) for key, x in drawn(seed, together, name).items()}
        actual = kernel(**inputs)
        assert actual.dtype == name
        found = compare_within(actual, kernel, inputs, format=name, order=SUMS[name])
        assert found.passed
        share = max(share, float(found.share("0").max()))
    print(f"{kernel.__name__} in {name}, {runs} runs: largest share of the bound {share:.2f}")
    assert 0.02 < share < 1


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_against_a_golden_of_numpy(name: str) -> None:
    """Float16 and float32 runs are within the proved pair of a float64 run, as assert_allclose compares them."""
    inputs = attention_inputs(0, format=name)
    order = SUMS[name]
    pair = tolerance(attention, inputs, format=name, order=order, golden="float64").atol_rtol()
    actual = attention(**{key: x.astype(name) for key, x in inputs.items()})
    np.testing.assert_allclose(np.float64(actual), attention(**inputs), atol=pair.atol, rtol=pair.rtol)
