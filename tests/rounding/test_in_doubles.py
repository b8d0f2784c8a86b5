"""What is reached by the quick replay is a lower bound: of what the program is off by, and of what the exact replay reaches."""

from fractions import Fraction

import numpy as np
import pytest
from random_kernels import REGISTERS, random_steps, traced

import certify
from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64
from certify.graph import ZERO, trace, with_order
from certify.rounding import ball, point, running
from certify.rounding.attained import attained, norm_down
from certify.rounding.in_doubles import Doubles, _apart, _enclosed, _of_the_program, attained_quickly
from certify.rounding.posterior import computed, error, exact

FORMATS = [BFLOAT16, BINARY16, BINARY32]


def _kernels(count):
    """Random kernels with ordinary states, and the registers that have nodes."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        graph = traced(tuple(random_steps(rng)))
        state = {name: rng.standard_normal(4) for name in REGISTERS}
        for name, out in graph.outputs.items():
            if (out.ids != ZERO).any():
                yield graph, state, name


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_what_the_program_is_off_by(format):
    """Never above the exact error of the program, and nearly all of it."""
    shares = []
    for graph, state, name in _kernels(24):
        if running(graph, format, point(state)).first_overflow() is not None:
            continue
        ids = graph.outputs[name].ids
        found = _of_the_program(graph, format, state, ids[ids != ZERO].ravel())
        errors = error(computed(graph, format, state, name), exact(graph, state, name))
        real = norm_down(errors[ids != ZERO].ravel().tolist())
        assert found <= real
        if real > 1e-12:
            shares.append(float(found / real))
    assert len(shares) > 40 and min(shares) > 0.99


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_the_quick_adversary_reaches_what_the_exact_one_does(format):
    """Single elements, so that both take the same directions: no more, but for what smaller moves turn, and nearly as much."""
    shares = []
    for graph, state, name in _kernels(8):
        start = {key: format.unbounded.round(x) for key, x in state.items()}
        out = graph.outputs[name]
        k = int(np.flatnonzero(out.ids.ravel() != ZERO)[0])
        single = trace_output(graph, name, k)
        if running(single, format, point(state)).first_overflow() is not None:
            continue
        slow = attained(single, format, state, "one", start=start)
        quick = attained_quickly(single, format, state, "one")
        ids = single.outputs["one"].ids
        program = _of_the_program(single, format, state, ids.ravel())
        assert quick <= max(slow * Fraction(1000001, 1000000), program)
        if slow > 1e-12:
            shares.append(float(quick / slow))
    assert len(shares) > 8 and min(shares) > 0.9 and np.median(shares) > 0.999


def trace_output(graph, name, k):
    """The graph with one output, `one`: element k of an output."""
    from dataclasses import replace

    from certify.graph.graph import Output

    out = graph.outputs[name]
    return replace(graph, outputs={"one": Output(out.ids.ravel()[k : k + 1], out.known.ravel()[k : k + 1])})


def test_one_rounding_by_hand_in_doubles():
    """As for the exact adversary: half an ulp of a product in [2, 4)."""
    graph = trace(lambda x, y: x * y, {"x": 1.0, "y": 1.0}, order="serial")
    x = np.array(1.5 * (1 + 2.0**-9))
    found = attained_quickly(graph, BINARY16, {"x": x, "y": x}, "0")
    assert 0.999999 * 2.0**-10 <= found <= 2.0**-10


@pytest.mark.parametrize("order", ["serial", "pairwise", "fma", "any-order", "any-order:float32", "serial:float32"])
@pytest.mark.parametrize("format", ["float16", "bfloat16", "float32", "float16,ftz", "e4m3,saturate"])
def test_never_above_the_bound_that_it_stands_beside(order, format):
    """Softmax attention: with `most`, no more than that bound; without functions a ball's bound needs no such word."""

    def attend(q, k, v):
        e = np.exp(q @ k.T - np.max(q @ k.T, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True) @ v

    chosen, rng = certify.format_named(format), np.random.default_rng(1)
    inputs = {name: rng.uniform(-1, 1, (3, 4)) for name in "qkv"}
    graph = certify.trace(attend, inputs, order=order)
    bounds = running(graph, chosen, point(inputs))
    if bounds.first_overflow() is None:
        most = bounds.norm_of("0")
        found = attained_quickly(graph, chosen, inputs, "0", libm=bounds.libm, most=most)
        assert 0 < found <= most
        # an adversary held to less than he can reach gets near it all the same
        half = float(found) / 2
        less = attained_quickly(graph, chosen, inputs, "0", libm=bounds.libm, most=half)
        program = attained_quickly(graph, chosen, inputs, "0", libm=bounds.libm, rounds=0)
        assert program <= less <= max(Fraction(half), program)
    product = certify.trace(lambda q, v: q @ v.T, {key: inputs[key] for key in "qv"}, order=order)
    whole = running(product, chosen, ball({key: inputs[key] for key in "qv"}, "q", 0.5))
    if whole.first_overflow() is None:
        found = attained_quickly(product, chosen, {key: inputs[key] for key in "qv"}, "0", libm=whole.libm)
        assert 0 < found <= whole.norm_of("0")


def test_binary64_hides_its_own_errors():
    """Nothing is known to be reached in float64, nor of an undefined or overflowing program."""
    graph = trace(lambda x: np.sqrt(x) * x, {"x": np.ones(2)}, order="serial")
    assert attained_quickly(graph, BINARY64, {"x": np.array([0.3, 0.7])}, "0") == 0
    assert attained_quickly(graph, BINARY16, {"x": np.array([-0.3, -0.7])}, "0") == 0
    product = trace(lambda x: x * x, {"x": np.ones(2)}, order="serial")
    assert attained_quickly(product, BINARY16, {"x": np.array([1e5, 1e5])}, "0") == 0


def test_the_enclosures_are_of_the_exact_program_in_other_formats():
    """Own formats and orders do not matter to exact values: 1/3 rounded by a cast stays a third here."""
    graph = with_order(trace(lambda x: (1 / x).astype(np.float16), {"x": np.ones(1)}), "any-order")
    third = _enclosed(graph, Doubles(), {"x": np.array([3.0])})[..., graph.outputs["0"].ids.ravel()]
    low, high = _apart(third, np.zeros((3, 1)))
    assert Fraction(float(low[0])) < Fraction(1, 3) < Fraction(float(high[0]))
    assert high[0] - low[0] < 1e-15
