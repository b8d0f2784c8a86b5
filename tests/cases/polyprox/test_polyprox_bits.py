"""The traced array code and the literal transformer compute the same floats, bit for bit up to the sign of zero."""

from __future__ import annotations

import numpy as np
import pytest
from certify.cases.polyprox import State, block, decode, encode, forward, serial, serial_product, weights
from polyprox_states import random_state

from certify.arithmetic import BINARY16, BINARY32, BINARY64, Format, Ieee
from certify.graph import Variable, evaluate, output, trace

FORMATS = [(np.float16, BINARY16), (np.float32, BINARY32), (np.float64, BINARY64)]
STATES = {1: 12, 2: 60, 4: 80, 8: 48, 16: 4}


def traced(state: State, format: Format) -> tuple[np.ndarray, float]:
    """Evaluate the serial graph of the block, ``W`` known to be 0 outside ``M``, in a format."""
    inputs = state.inputs()
    graph = trace(block, {**inputs, "W": Variable(state.W.shape, state.M)}, order="serial")
    arithmetic = Ieee(format)
    values = evaluate(graph, arithmetic, {x.name: arithmetic.constant(inputs[x.name]) for x in graph.inputs})
    return output(graph, arithmetic, values, "W"), float(output(graph, arithmetic, values, "alpha"))


@pytest.mark.parametrize("P", STATES)
@pytest.mark.parametrize(("dtype", "emulated"), FORMATS, ids=["float16", "float32", "float64"])
def test_graph_and_layers_have_the_same_bits(P: int, dtype: type, emulated: Format) -> None:
    """Over 200 states the serial graph and the dense serial layers return equal floats, alpha included."""
    executor, layers = serial(dtype), weights(P)
    for seed in range(STATES[P]):
        rng = np.random.default_rng([P, seed])
        p = P if seed % 3 == 0 else int(rng.integers(1, P + 1))
        density, scale = (0.3, 0.7, 1.0)[seed % 3], (0.01, 2.0, 0.3)[seed % 3]
        # from alpha = 0 the new alpha is all h_plus, so that a last bit lost in the second pass shows
        state = random_state(rng, p, P, seed % 4 > 0, density, scale, alpha=0.0 if seed % 4 > 1 else None)
        want_W, want_alpha = decode(forward(encode(state), layers, executor), p)
        W, alpha = traced(state, emulated)
        assert np.all(np.isfinite(want_W))
        assert want_W.dtype == dtype
        assert np.array_equal(W, want_W.astype(W.dtype))
        assert alpha == want_alpha


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_serial_product_sums_in_index_order(dtype: type) -> None:
    """1 + tiny + tiny loses both, tiny + tiny + 1 keeps them: the order is left to right."""
    tiny = np.finfo(dtype).eps / 2
    ones = np.ones((3, 1), dtype=dtype)
    assert serial_product(np.array([[1, tiny, tiny]], dtype=dtype), ones) == 1
    assert serial_product(np.array([[tiny, tiny, 1]], dtype=dtype), ones) == dtype(1 + 2 * tiny)


def test_array_code_runs_unchanged_in_every_dtype() -> None:
    """On plain arrays of float16, 32 and 64 the block keeps the dtype and approaches the float64 result."""
    state = random_state(np.random.default_rng(5), 4, 4, 1)
    inputs = state.inputs()
    reference = block(**inputs)["W"]
    for dtype in (np.float16, np.float32, np.float64):
        cast = {k: v if k in ("M", "b", "N") else np.asarray(v).astype(dtype)[()] for k, v in inputs.items()}
        got = block(**cast)
        assert got["W"].dtype == dtype
        assert got["alpha"].dtype == dtype
        assert np.allclose(got["W"], reference, atol=16 * np.finfo(dtype).eps)
