"""The majorant bounds hold at every node, for sums in any order, and agree with hand computation."""

import numpy as np
import pytest
from random_kernels import PLAIN, REGISTERS, exact_values, exceeds, floats, random_case
from random_trees import any_floats

from certify.arithmetic import BINARY16, BINARY32, BINARY64
from certify.errors import InputRejected
from certify.graph import trace, with_order
from certify.rounding import Region, majorant, point, running


@pytest.mark.parametrize("name", PLAIN)
def test_majorant_holds_at_every_node_for_every_order(name):
    """|computed - exact| <= error in three orders and random programs; 2,000 (graph, region) pairs a format."""
    rng = np.random.default_rng(11)
    format, pairs, nodes = PLAIN[name], 0, 0
    for seed in range(800):
        graph, boxes, label = random_case(2 * seed, format, points=3, boxes=1)
        samples = np.concatenate([box.samples for box in boxes])
        of_box = np.repeat(np.arange(len(boxes)), [len(box.samples) for box in boxes])
        exact = exact_values(graph, samples)
        bounds = []
        for box in boxes:
            ends = (dict(zip(REGISTERS, x, strict=True)) for x in (box.lower, box.upper))
            with np.errstate(over="ignore", invalid="ignore"):  # see test_majorant_near_overflow_does_not_warn
                bounds.append(majorant(graph, format, Region(*ends, box.representable)))
        # the theorem excludes overflow; partial sums are not in these bounds, so ask for half the range
        proved = np.array([b.first_overflow() is None and b.peak < format.largest / 2 for b in bounds])
        proved &= [bool(np.isfinite(b.error).all()) for b in bounds]
        error, size = np.stack([b.error for b in bounds]), np.stack([b.high for b in bounds])
        for order in ("serial", "fma", "pairwise", "any-order"):
            program = with_order(graph, order)
            computed = (
                any_floats(program, format, samples, rng) if order == "any-order" else floats(program, format, samples)
            )
            inside = proved[of_box][:, None] & np.isfinite(computed)
            assert not exceeds(exact[:, inside], computed[inside], error[of_box][inside]).any(), (label, order)
            assert (np.abs(computed) <= size[of_box])[inside].all(), (label, order)
        pairs += int(proved.sum())
        nodes += int(proved.sum()) * graph.n_nodes
    assert pairs >= 2000 and nodes >= 40_000


def test_a_dot_product_by_hand():
    """k = 3 terms of magnitude at most 1 in binary32, inputs representable: Gamma_3 3 + zeta_3, to first order."""
    graph = trace(lambda x, y: x @ y, {"x": np.ones(3), "y": np.ones(3)})
    ones = {"x": np.ones(3), "y": np.ones(3)}
    region = Region({name: -value for name, value in ones.items()}, ones, representable=True)
    expected = 3 * (3 * BINARY32.u / (1 - 3 * BINARY32.u)) + 12 * BINARY32.omega
    assert majorant(graph, BINARY32, region).error_of("0") == pytest.approx(expected, rel=1e-14)


def test_a_sum_too_long_for_the_format_is_refused():
    """k u >= 1/2 is outside the theorem."""
    graph = trace(lambda x: np.sum(x), {"x": np.ones(1024)})
    region = point({"x": np.ones(1024)})
    assert np.isfinite(majorant(graph, BINARY32, region).error_of("0"))
    with pytest.raises(InputRejected, match="1024 terms"):
        majorant(graph, BINARY16, region)


def test_running_is_sharper_than_majorant_under_cancellation():
    """x - y for near x and y: magnitudes add up in the majorant, values cancel in the running bound."""
    graph = trace(lambda x, y: (x - y) * 1.1, {"x": 1.0, "y": 1.0}, order="serial")
    region = point({"x": np.array(1.0), "y": np.array(1.0 - 2.0**-20)})
    assert 1e3 * running(graph, BINARY64, region).error_of("0") < majorant(graph, BINARY64, region).error_of("0")


def test_majorant_accepts_inputs_beyond_the_format():
    """An input that overflows gives an infinite error and no warning."""
    graph = trace(lambda x: x + x, {"x": np.ones(2)}, order="serial")
    assert np.isinf(majorant(graph, BINARY16, point({"x": np.array([1e6, 1.0])})).error_of("0")[0])


def test_majorant_near_overflow_does_not_warn():
    """Magnitudes beyond binary64 become infinite silently, as in the running bounds."""
    graph = trace(lambda x: x + x, {"x": np.ones(2)}, order="serial")
    bounds = majorant(graph, BINARY64, point({"x": np.array([0.9 * BINARY64.largest, 1.0])}))
    assert np.isinf(bounds.high[2]) and np.isfinite(bounds.high[3])
    largest = majorant(graph, BINARY64, point({"x": np.array([BINARY64.largest, 1.0])}))  # the input itself rounds up
    assert np.isinf(largest.high[0]) and np.isfinite(largest.high[1])
