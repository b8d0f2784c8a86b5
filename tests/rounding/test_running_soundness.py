"""The running bounds against exact arithmetic, at every node of thousands of random kernels.

Each format sees at least 20,000 pairs of a graph and a region (a state, or a box with four states in it), and in each
the theorem of `certify.rounding.running` is checked at every node in integers.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_kernels import (
    BINARY,
    CONSTANTS,
    EXPONENTS,
    LENGTH,
    PLAIN,
    REGIMES,
    REGISTERS,
    UNARY,
    Tally,
    check,
    exceeds,
    random_box,
    random_case,
    random_inputs,
    traced,
)

from certify.arithmetic import BINARY16, Ieee
from certify.arithmetic.dyadic import Dyadic, fractions
from certify.graph import evaluate, lower, trace
from certify.rounding import Region, Running, point, running

GRAPHS, PAIRS = 3000, 20_000


@pytest.mark.parametrize("name", PLAIN)
def test_error_range_and_enclosure_hold_at_every_node(name):
    """|computed - exact| <= error, low <= computed <= high, no overflow where none is announced; 20,000 pairs."""
    tally = Tally()

    @settings(max_examples=GRAPHS, derandomize=True, deadline=None, database=None)
    @given(st.integers(0, 2**63))
    def case(seed):
        graph, boxes, label = random_case(seed, PLAIN[name], points=6, boxes=3)
        check(graph, PLAIN[name], boxes, tally, label)

    case()
    assert tally.violations == []
    assert tally.checked >= PAIRS
    assert tally.excluded >= 1000 and tally.overflows >= 1000  # the range theorem was put to the test too
    assert tally.unbounded <= 1000  # of some two million nodes


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_error_range_and_enclosure_hold_at_every_node_longer(name):
    """As above, for ten times as many kernels."""
    tally = Tally()
    for seed in range(GRAPHS, 11 * GRAPHS):
        graph, boxes, label = random_case(seed, PLAIN[name], points=6, boxes=3)
        check(graph, PLAIN[name], boxes, tally, label)
    assert tally.violations == []
    assert tally.checked >= 10 * PAIRS


@pytest.mark.parametrize("name", PLAIN)
def test_bounds_of_one_region_are_those_of_many_at_once(name):
    """`running` returns what the batched evaluation of these tests returns, so that what they check is it."""
    format = PLAIN[name]
    for seed in range(40):
        graph, boxes, label = random_case(seed, format, points=2, boxes=3)
        batched = check(graph, format, boxes, Tally(), label)
        for k, box in enumerate(boxes):
            lower_, upper = (dict(zip(REGISTERS, x, strict=True)) for x in (box.lower, box.upper))
            bounds = running(graph, format, Region(lower_, upper, box.representable))
            alone = np.stack([bounds.low, bounds.high, bounds.error])
            many = batched[:, k]
            many[2] = np.where(np.isnan(many[2]), np.inf, many[2])  # an unbounded error, as `running` says it
            assert np.array_equal(alone, many, equal_nan=True), label


@pytest.mark.parametrize("name", PLAIN)
def test_peak_bounds_every_partial_sum(name):
    """Every operation of the lowered graph rounds to at most the rounded peak of the unlowered graph's bounds."""
    format, proved = PLAIN[name], 0
    for seed in range(0, 400, 2):
        rng = np.random.default_rng(seed)
        graph, _, label = random_case(seed, format, points=1, boxes=0)
        inputs = random_inputs(rng, format, seed % len(REGIMES))
        bounds = running(graph, format, point(inputs))
        if not len(graph) or bounds.first_overflow() is not None:
            continue
        ieee = Ieee(format)
        values = evaluate(lower(graph), ieee, {name: ieee.constant(value) for name, value in inputs.items()})
        proved += 1
        assert np.abs(values).max() <= format.round(np.array([bounds.peak]))[0], label
    assert proved >= 100


def test_the_exact_comparison_agrees_with_fractions():
    """The integer comparison of these tests, against Fractions, on both sides of equality."""
    computed = np.array([1.5, 1.5, -(2.0**-1074), 0.0, 1e300, 5.0])
    exact = Dyadic().constant(np.array([1.25, 1.25, 2.0**-1074, 0.0, -1e300, 5.0]))
    bound = np.array([0.25, np.nextafter(0.25, 0), 2.0**-1073, 0.0, 1e300, 0.0])
    reference = [
        abs(c - x) > e for c, x, e in zip(*map(fractions, (Dyadic().constant(computed), exact)), bound, strict=True)
    ]
    assert exceeds(exact, computed, bound).tolist() == reference == [False, True, False, False, True, False]


def _steps():
    """Kernels of up to six steps whose operands are earlier registers; shrinks to short ones."""

    def step(count):
        register = st.integers(0, count - 1)
        return st.one_of(
            st.tuples(st.sampled_from(sorted(BINARY)), register, register),
            st.tuples(st.sampled_from(sorted(UNARY)), register),
            st.tuples(st.just("scale"), register, st.sampled_from(EXPONENTS)),
            st.tuples(st.sampled_from(["times", "plus"]), register, st.sampled_from(CONSTANTS)),
        )

    counts = st.integers(1, 6)
    return counts.flatmap(lambda n: st.tuples(*(step(len(REGISTERS) + k) for k in range(n)))).filter(
        lambda steps: sum(name in ("mul", "matmul", "dot") for name, *_ in steps) <= 3
    )


def _entries(format):
    """Binary64 numbers within the format's range, most of them special: its numbers, midpoints, thresholds."""
    limit = format.largest
    special = [0.0, 1.0, 1 + format.u, 1 - format.u, 1 + 3 * format.u, format.min_normal, format.min_subnormal]
    special += [format.min_subnormal / 2, 1.5 * format.min_subnormal, 3.0, 2.0**-5, limit, limit / 2]
    return st.one_of(
        st.sampled_from([sign * x for x in special for sign in (1, -1)]),
        st.floats(-limit, limit),
        st.floats(-4, 4),
        st.integers(-20, 20).map(lambda n: n / 8),
    )


@pytest.mark.parametrize("name", PLAIN)
def test_bounds_hold_for_kernels_that_hypothesis_builds(name):
    """The same theorem, on kernels and states that shrink to a small counterexample."""
    format = PLAIN[name]
    entries = st.lists(_entries(format), min_size=len(REGISTERS) * LENGTH, max_size=len(REGISTERS) * LENGTH)

    @settings(max_examples=300, derandomize=True, deadline=None, database=None)
    @given(_steps(), entries, st.integers(0, 2**16), st.booleans())
    def holds(steps, state, seed, box):
        center = dict(zip(REGISTERS, np.array(state).reshape(len(REGISTERS), LENGTH), strict=True))
        tally = Tally()
        region = random_box(np.random.default_rng(seed), format, center, 4 if box else 1)
        check(traced(steps), format, [region], tally, f"{steps} at {state}")
        assert tally.violations == []

    holds()


def test_overwriting_across_the_range_is_reported():
    """The difference y - x of an overwrite can overflow though x and y cannot; the range theorem must notice."""
    overwrite = traced((("overwrite", 0, 1),))
    lower_ = {"x": np.full(LENGTH, -60000.0), "y": np.zeros(LENGTH), "z": np.zeros(LENGTH)}
    upper = {"x": np.zeros(LENGTH), "y": np.full(LENGTH, 60000.0), "z": np.zeros(LENGTH)}
    assert running(overwrite, BINARY16, Region(lower_, upper)).first_overflow() is not None


def test_the_overwrite_rule_alone_reports_an_overflow_of_its_difference():
    """As above with the subtraction pruned away, so that the rule itself must leave an end that is not finite."""
    graph = trace(lambda x, y: x + (y - x), {"x": 1.0, "y": 1.0}, order="serial")
    arithmetic, node = Running(BINARY16), graph.outputs["0"].ids
    ends = {"x": (-60000.0, 0.0), "y": (0.0, 60000.0)}
    inputs = {name: arithmetic.enclose(np.array(low), np.array(high)) for name, (low, high) in ends.items()}
    low, high, _ = evaluate(graph, arithmetic, inputs, outputs=["0"])[:, node]
    ieee = Ieee(BINARY16)
    worst = evaluate(graph, ieee, {"x": np.array(-60000.0), "y": np.array(60000.0)}, outputs=["0"])[node]
    assert worst == np.inf
    assert low <= worst <= high
