"""Many states through one graph: each gets what it gets by itself."""

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32, BINARY64, format_named
from certify.errors import InputRejected
from certify.graph import trace
from certify.rounding import Region, ball, batch, point, running, running_batch
from certify.rounding.batch import computed_batch
from certify.rounding.posterior import computed


def _kernel(A, x):
    """Every kind of operation: sums, quotients, roots, functions, choices, constants, an overwritten register."""
    y = A @ x + 0.3
    z = np.exp(-y * y) / (1 + np.abs(y)) + np.tanh(y) * np.sqrt(1 + x * x)
    y = y + (np.where(y < z, np.maximum(y, x), y / 4) - y)
    return {"y": y, "total": np.sum(y * z) - np.log(2 + y[0] * y[0]), "known": np.zeros(2)}


def _states(seed, count, n=5, scale=1.0):
    rng = np.random.default_rng(seed)
    return [{"A": scale * rng.standard_normal((n, n)), "x": scale * rng.standard_normal(n)} for _ in range(count)]


def _same(one, other):
    return all(
        np.array_equal(getattr(one, key), getattr(other, key), equal_nan=True) for key in ("low", "high", "peak")
    ) and np.allclose(one.error, other.error, rtol=2.0**-40, atol=0)


@pytest.mark.parametrize("order", ["serial", "pairwise", "blocked(2)", "fma", "any-order", "serial:float64"])
@pytest.mark.parametrize("name", ["float16", "float64", "bfloat16,ftz", "e4m3"])
def test_every_state_has_its_own_bounds(order, name, monkeypatch):
    """Ends and peak have the bits of a single evaluation, errors agree to 2**-40; some states overflow, some do not."""
    states = [*_states(31, 3), *_states(32, 2, scale=40.0), *_states(33, 2, scale=1e-4)]
    graph = trace(_kernel, states[0], order=order)
    monkeypatch.setattr(batch, "NODES_TOGETHER", 3 * graph.n_nodes)  # parts of three, three and one
    regions = [*map(point, states[:4]), *(ball(state, "x", 0.01) for state in states[4:])]
    format = format_named(name)
    together = list(running_batch(graph, format, regions))
    alone = [running(graph, format, region) for region in regions]
    assert all(map(_same, together, alone)) and len(together) == 7
    assert [b.first_overflow() for b in together] == [b.first_overflow() for b in alone]


def test_long_sums_of_many_states():
    """Chains have an axis of states too."""
    states = [{"x": x} for x in np.random.default_rng(34).standard_normal((5, 300))]
    graph = trace(lambda x: np.sum(x), states[0], order="serial")
    for format in (BINARY16, format_named("bfloat16")):
        regions = [point(state) for state in states]
        assert all(map(_same, running_batch(graph, format, regions), (running(graph, format, r) for r in regions)))


def test_a_state_does_not_depend_on_its_neighbours():
    """A state whose program overflows leaves the others as they are."""
    graph = trace(lambda x: x * x, {"x": 1.0}, order="serial")
    fine, over = running_batch(graph, BINARY16, [point({"x": 3.0}), point({"x": 60000.0})])
    assert (fine.peak, over.peak) == (9.0, np.inf)
    assert fine.first_overflow() is None and over.first_overflow() is not None


def test_the_floats_of_a_batch_are_those_of_each_state():
    """Outputs as floats, in their shapes, with an output that is known."""
    states = _states(35, 4)
    graph = trace(_kernel, states[0], order="serial")
    names = ("y", "total", "known")
    for state, found in zip(states, computed_batch(graph, BINARY32, states, names), strict=True):
        for name in names:
            assert np.array_equal(found[name], computed(graph, BINARY32, state, name))


def test_representable_and_other_regions_do_not_mix():
    """One batch converts its inputs, or does not."""
    graph = trace(lambda x: x + 1, {"x": 1.0}, order="serial")
    box = Region({"x": np.array(0.0)}, {"x": np.array(0.1)}, representable=True)
    (bounds,) = running_batch(graph, BINARY64, [box])
    assert bounds.error_of("0") == running(graph, BINARY64, box).error_of("0")
    with pytest.raises(InputRejected, match="make one batch of each kind"):
        list(running_batch(graph, BINARY64, [box, point({"x": 1.0})]))
    assert list(running_batch(graph, BINARY64, [])) == []
