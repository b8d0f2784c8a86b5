"""Real runs of the layer on random states stay inside its rounding claims: NumPy, torch, and every format by emulation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certify.cases.kernel.reference import sharply
from certify.cases.programs import one_program
from certify.cases.star_graph.instances import ORDERS, N, T, one_hot, second_tokens, tokens
from certify.cases.star_graph.layer import layer
from certify.cases.star_graph.state import WEIGHTS, circuit_weights

from certify import format_named, point, running, trace
from certify.arithmetic import Ieee
from certify.graph import evaluate, output

EMULATED = ("float16", "bfloat16", "float32", "float64", "tf32", "e4m3", "e5m2")
STATES = [pytest.param(6, id="6"), pytest.param(200, id="200", marks=pytest.mark.slow)]
#: Numbers of 16 bits are multiplied and added in float32, and each total is rounded once.
MIXED = "any-order:float32"


def state(seed, format):
    """Weights that are numbers of the format, and the tokens of one instance: random ones of several sizes, or a circuit."""
    rng = np.random.default_rng(seed)
    if seed % 4 == 3:
        weights = circuit_weights(float(rng.uniform(0, 4)))
    else:
        size = (1.0, 0.125, 2.0)[seed % 4]
        weights = {name: size * rng.standard_normal((N, T)) for name in WEIGHTS}
        if seed % 8 == 1:
            weights["content_1"][:] = 0
    order = ORDERS[rng.integers(24)]
    Z = one_hot(second_tokens(order) if seed % 5 == 4 else tokens(order))
    return Z, {name: np.asarray(format.round(x)) for name, x in weights.items()}


def claimed(Z, weights, format, order, libm=None):
    """The graph and its running bounds at the state."""
    graph = trace(lambda **given: layer(Z, **given), weights, order=order)
    bounds = running(graph, format, point(weights), libm=libm)
    return graph, bounds


def share(graph, bounds, weights, outputs):
    """The largest error of these outputs as a share of its bound, compared exactly; of a known zero, none."""
    worst = Fraction(0)
    for name, values in outputs.items():
        found = sharply(graph, weights, name)
        assert found is not None
        exact, slack = found
        limits = bounds.error_of(name)
        for index in np.ndindex(values.shape):
            off = abs(Fraction(float(values[index])) - exact[index])
            if off > 0:
                assert limits[index] > 0
                worst = max(worst, (off + slack[index]) / Fraction(float(limits[index])))
    return worst


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("name", EMULATED)
def test_the_serial_program_stays_inside_its_claim(name, states):
    """Emulated operation by operation, functions correctly rounded; states whose bounds exclude no overflow are counted."""
    format, shares = format_named(name), []
    for seed in range(states):
        Z, weights = state(seed, format)
        graph, bounds = claimed(Z, weights, format, "serial")
        if bounds.first_overflow() is not None:
            continue
        ieee = Ieee(format)
        values = evaluate(one_program(graph), ieee, {key: ieee.constant(x) for key, x in weights.items()})
        outputs = {head: output(graph, ieee, values, head).astype(np.float64) for head in graph.outputs}
        shares.append(share(graph, bounds, weights, outputs))
    assert all(x <= 1 for x in shares) and (name in ("e4m3", "e5m2") or len(shares) > states // 2)
    assert not shares or max(shares) > 0


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_numpy_stays_inside_the_claim_of_any_order(name, states):
    """NumPy's own sums and BLAS."""
    format, shares = format_named(name), []
    for seed in range(states):
        Z, weights = state(seed, format)
        graph, bounds = claimed(Z, weights, format, "any-order", "numpy")
        assert bounds.first_overflow() is None
        dtype = np.dtype(name)
        found = layer(Z.astype(dtype), **{key: x.astype(dtype) for key, x in weights.items()})
        assert all(x.dtype == dtype for x in found.values())
        shares.append(share(graph, bounds, weights, {key: np.float64(x) for key, x in found.items()}))
    assert 0 < max(shares) <= 1


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16"])
def test_torch_stays_inside_the_claim_of_any_order(name, states):
    """The same code on CPU tensors."""
    torch = pytest.importorskip("torch")
    format, shares = format_named(name), []
    for seed in range(states):
        Z, weights = state(seed, format)
        graph, bounds = claimed(Z, weights, format, "any-order" if name in ("float32", "float64") else MIXED, "torch")
        if bounds.first_overflow() is not None:
            continue
        dtype = getattr(torch, name)
        given = {key: torch.from_numpy(x.copy()).to(dtype) for key, x in weights.items()}
        found = layer(torch.from_numpy(Z).to(dtype), **given, xp=torch)
        assert all(x.dtype == dtype for x in found.values())
        shares.append(share(graph, bounds, weights, {key: x.double().numpy() for key, x in found.items()}))
    assert 0 < max(shares) <= 1 and len(shares) > states // 2


def test_an_error_beyond_its_bound_is_seen():
    """One entry moved by a little more than its bound."""
    format = format_named("float32")
    Z, weights = state(0, format)
    graph, bounds = claimed(Z, weights, format, "serial")
    exact, _ = sharply(graph, weights, "f1")
    moved = exact.astype(np.float64)
    moved[0] += 1.01 * bounds.error_of("f1")[0]
    assert share(graph, bounds, weights, {"f1": moved}) > 1
