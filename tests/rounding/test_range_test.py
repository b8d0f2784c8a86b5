"""The range test: proved, refuted with a witness and a name, or undecided; and the branches of ReLUs."""

import numpy as np
import pytest
from random_kernels import PLAIN

from certify.arithmetic import BINARY16, BINARY32, BINARY64, Ieee, format_named
from certify.graph import ZERO, evaluate, layer, trace
from certify.rounding import Region, adjoint, ball, point, range_test, relu_branches, running, running_batch


def _squares(x):
    with layer("1"):
        small = x / 4
    with layer("2"):
        square = small * small
    with layer("3"):
        out = square - x
    return out


GRAPH = trace(_squares, {"x": np.ones(3)}, order="serial")


def test_a_finite_program_is_proved():
    """No node is named and the largest magnitude is that of x x / 16, rounded."""
    region = point({"x": np.array([1.0, 40.0, -8.0])})
    outcome = range_test(running(GRAPH, BINARY16, region), region)
    assert (outcome.node, outcome.place, outcome.witness, outcome.limit) == (None, "", None, 65504.0)
    assert outcome.max_magnitude == 100.0


def test_an_overflow_is_exhibited_with_its_register_and_layer():
    """(2000 / 4)**2 = 250000 exceeds 65504: the witness makes that very operation overflow."""
    region = point({"x": np.array([1.0, 2000.0, 3.0])})
    bounds = running(GRAPH, BINARY16, region)
    outcome = range_test(bounds, region)
    assert outcome.place.startswith("register square, layer 2 (test_range_test.py:")
    assert outcome.max_magnitude == np.inf
    ieee = Ieee(BINARY16)
    values = evaluate(GRAPH, ieee, {"x": ieee.constant(outcome.witness["x"])})
    assert np.isinf(values[outcome.node]) and np.isfinite(values[: outcome.node]).all()
    assert bounds.first_overflow() == outcome.node


def test_an_overflow_in_the_middle_of_a_box_is_exhibited():
    """The witness lies in the region."""
    region = Region({"x": np.full(3, 1900.0)}, {"x": np.full(3, 2100.0)})
    outcome = range_test(running(GRAPH, BINARY16, region), region)
    assert outcome.witness is not None
    assert (region.lower["x"] <= outcome.witness["x"]).all() and (outcome.witness["x"] <= region.upper["x"]).all()


def test_what_may_overflow_only_by_dependency_is_undecided():
    """(x + y) + (x - y) is 2 x: the enclosure adds both ranges, no input overflows, and neither is claimed."""
    graph = trace(lambda x, y: (x + y) + (x - y), {"x": 1.0, "y": 1.0}, order="serial")
    region = Region(
        {"x": np.array(-30000.0), "y": np.array(-32000.0)}, {"x": np.array(30000.0), "y": np.array(32000.0)}
    )
    bounds = running(graph, BINARY16, region)
    outcome = range_test(bounds, region)
    assert outcome.node is not None and outcome.witness is None
    assert outcome.node == bounds.first_overflow() == 4
    assert "test_range_test.py" in outcome.place


@pytest.mark.parametrize("order", ["serial", "any-order"])
@pytest.mark.parametrize("name", ["p=3,emin=-4,emax=5", "p=3,emin=-4,emax=5,saturate", "e4m3", "float16"])
def test_known_numbers_of_outputs_are_converted_too(name, order):
    """What rounds to the largest number is in range and counts in the peak; the least that rounds to more is not."""
    format = format_named(name)
    # half a spacing above the largest number
    tie = format.largest + np.ldexp(format.u, format.emax)
    region = point({"x": np.ones(3)})
    for known, node in ((-tie * (1 - 2.0**-40), None), (tie * (1 + 2.0**-40), ZERO), (-1e300, ZERO)):
        graph = trace(lambda x, known=known: (x * x, np.array([0.0, known])), {"x": np.ones(3)}, order=order)
        (bounds,) = running_batch(graph, format, [region])
        for found in (running(graph, format, region), adjoint(graph, format, region), bounds):
            outcome = range_test(found, region)
            assert found.first_overflow() == outcome.node == node
            assert outcome.max_magnitude == (format.largest if node is None else np.inf)
            assert (outcome.witness is None) == (node is None)
            assert outcome.place == ("" if node is None else "a known number of output 1")


@pytest.mark.parametrize("format", PLAIN.values(), ids=PLAIN)
def test_the_largest_number_is_in_range_and_the_overflow_threshold_is_not(format):
    """x + y reaches the largest number (finite), and half an ulp more rounds to infinity."""
    graph = trace(lambda x, y: x + y, {"x": 1.0, "y": 1.0}, order="serial")
    half_ulp = np.ldexp(1.0, format.emax - format.precision)
    for y, overflows in ((0.0, False), (half_ulp / 2, False), (half_ulp, True)):
        region = point({"x": np.array(format.largest), "y": np.array(y)})
        outcome = range_test(running(graph, format, region), region)
        assert (outcome.node is not None) is overflows
        assert (outcome.witness is not None) is overflows


def test_an_overflow_inside_a_sum_is_found():
    """A partial sum overflows though the result would not: 60000 + 60000 - 60000 in binary16."""
    graph = trace(lambda x: np.sum(x), {"x": np.ones(3)}, order="serial")
    region = point({"x": np.array([60000.0, 60000.0, -60000.0])})
    bounds = running(graph, BINARY16, region)
    assert bounds.first_overflow() == 3
    assert range_test(bounds, region).witness is not None
    assert running(graph, BINARY32, region).first_overflow() is None


def test_an_input_that_overflows_on_conversion_is_named():
    """The first node not proved finite is an input, described by name and index."""
    region = point({"x": np.array([1.0, 1e6, 1.0])})
    outcome = range_test(running(GRAPH, BINARY16, region), region)
    assert (outcome.node, outcome.place) == (1, "input x[1]")


def test_branches_are_counted():
    """Of four ReLUs one is active, one inactive, one undecided on the box and one exactly at the kink (inactive)."""
    graph = trace(lambda x: np.maximum(x, 0), {"x": np.ones(4)}, order="serial")
    region = Region({"x": np.array([1.0, -2.0, -1.0, 0.0])}, {"x": np.array([2.0, -1.0, 1.0, 0.0])}, representable=True)
    branches = relu_branches(running(graph, BINARY64, region))
    assert (branches.active, branches.inactive, branches.undecided) == (1, 2, 1)


def test_a_branch_within_the_rounding_error_is_undecided():
    """fl(x) = 1 and y = -1 sum to 0 exactly in floats while the exact sum is 2**-30: no branch is claimed."""
    graph = trace(lambda x, y: np.maximum(x + y, 0), {"x": 1.0, "y": 1.0}, order="serial")
    inputs = {"x": np.array(1 + 2.0**-30), "y": np.array(-1.0)}
    assert relu_branches(running(graph, BINARY32, point(inputs))).undecided == 1
    assert relu_branches(running(graph, BINARY64, point(inputs))).active == 1


def test_a_proved_inactive_relu_carries_no_error():
    """Both the exact and the computed value are 0."""
    graph = trace(lambda x: np.maximum(x - 5, 0), {"x": 1.0}, order="serial")
    bounds = running(graph, BINARY16, point({"x": 0.1}))
    assert bounds.error[graph.n_nodes - 2] > 0
    assert bounds.error_of("0") == 0


@pytest.mark.parametrize("format", PLAIN.values(), ids=PLAIN)
def test_branches_of_a_program_that_overflows_are_counted_without_warning(format):
    """An infinite input of a ReLU proves no branch; the others are still counted."""
    graph = trace(lambda x: np.maximum((x * x) * x - x, 0), {"x": np.ones(3)}, order="serial")
    region = point({"x": np.array([0.6 * format.largest, -0.6 * format.largest, -3.0])})
    branches = relu_branches(running(graph, format, region))
    assert branches.inactive >= 1
    assert branches.active + branches.inactive + branches.undecided == 3


def test_a_corner_of_the_box_around_a_ball_is_no_witness():
    """The corner of the box around a ball lies outside the ball, so an overflow there refutes nothing about the ball."""
    graph = trace(lambda x: x * x, {"x": np.ones(4)}, order="serial")
    region = ball({"x": np.full(4, 200.0)}, "x", 60.0)
    # 260 ** 2 > 65504, but inside the ball all four entries cannot be 260 at once; the middle is harmless
    tested = range_test(running(graph, BINARY16, region), region)
    assert tested.node is not None and tested.witness is None
    box = Region(region.lower, region.upper)
    assert range_test(running(graph, BINARY16, box), box).witness is not None
