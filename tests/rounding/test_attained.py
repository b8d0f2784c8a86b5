"""An adversary who chooses every rounding nearly reaches the running bounds: they cannot be made much smaller."""

import numpy as np
import pytest
from random_kernels import PLAIN, REGISTERS, random_steps, traced
from rounding_grid import cases

from certify.arithmetic import BINARY16, BINARY32, BINARY64
from certify.graph import lower, trace
from certify.rounding import point, running
from certify.rounding.attained import attained, gradient


def _ratio(graph, format, inputs, name, index):
    bound = running(graph, format, point(inputs)).error_of(name)[index]
    return float(attained(graph, format, inputs, name, index)) / bound


def test_the_adversary_reaches_half_of_the_bound_on_small_blocks():
    """20 Poly-prox states, without underflow: the worst entry of W+ and alpha+, in turn in all formats."""
    states = [case for case in cases() if case.state.p < 5 and "scale=0.01" not in case.label]
    assert len(states) == 20
    ratios = []
    for k, case in enumerate(states):
        format = list(PLAIN.values())[k % 4]
        inputs = {name: format.round(value) for name, value in case.inputs.items()}
        error = running(case.graph, format, point(inputs)).error_of("W")
        worst = np.unravel_index(error.argmax(), error.shape)
        ratios += [_ratio(case.graph, format, inputs, *at) for at in (("W", worst), ("alpha", ()))]
    assert len(ratios) == 40
    assert min(ratios) >= 0.5
    assert np.median(ratios) >= 0.9
    assert max(ratios) <= 1.25


@pytest.mark.parametrize("format", [BINARY32, BINARY64], ids=lambda f: f.name)
def test_the_adversary_never_beats_the_bound_by_more_than_second_order(format):
    """Random kernels without overwrites (whose rule knows when the computed difference vanishes), ordinary states."""
    ratios = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        steps = tuple(step for step in random_steps(rng) if step[0] != "overwrite")
        if not steps or max(i for _, *args in steps for i in args if isinstance(i, int)) >= len(REGISTERS):
            steps = steps[:1] if steps and max(steps[0][1:]) < len(REGISTERS) else (("mul", 0, 1),)
        graph = traced(steps)
        inputs = {name: format.round(rng.standard_normal(4)) for name in REGISTERS}
        name = f"r{len(REGISTERS) + len(steps) - 1}"
        bound = running(graph, format, point(inputs)).error_of(name)
        for i in np.flatnonzero(bound > 1e-200):
            if graph.outputs[name].ids[i] >= 0:
                ratios.append(float(attained(graph, format, inputs, name, (i,))) / bound[i])
    assert len(ratios) >= 300
    assert np.median(ratios) > 0.9
    assert max(ratios) <= 1 + 1e-3


def test_one_rounding_by_hand():
    """x y at 1.5 (1 + 2**-10): the product is in [2, 4), the adversary moves it 2**-10, half an ulp there."""
    graph = trace(lambda x, y: x * y, {"x": 1.0, "y": 1.0}, order="serial")
    x = 1.5 * (1 + 2.0**-9)
    assert attained(graph, BINARY16, {"x": np.array(x), "y": np.array(x)}, "0", ()) == 2.0**-10


def test_the_adversary_spends_no_direction_on_constants():
    """A constant takes no rounding: c x + y is as bad as z x + y with z that constant as an input."""
    graph = trace(lambda x, y: 0.75 * x + 0.625 * y - 0.875 * x * y, {"x": 1.0, "y": 1.0}, order="serial")
    same = trace(
        lambda x, y, a, b, c: a * x + b * y - c * x * y, dict.fromkeys(("x", "y", "a", "b", "c"), 1.0), order="serial"
    )
    rng = np.random.default_rng(0)
    for _ in range(10):
        state = {name: BINARY16.round(rng.standard_normal()) for name in ("x", "y")}
        inputs = state | {"a": np.array(0.75), "b": np.array(0.625), "c": np.array(0.875)}
        assert attained(graph, BINARY16, state, "0", ()) == attained(same, BINARY16, inputs, "0", ())


def test_the_gradient_by_hand():
    """d/dx of relu(x y - y) 4 - x at x = 2, y = 3: y 4 - 1 = 11; d/dy: (x - 1) 4 = 4."""
    graph = trace(lambda x, y: np.maximum(x * y - y, 0) * 4 - x, {"x": 1.0, "y": 1.0}, order="serial")
    program = lower(graph)
    slope = gradient(program, {"x": np.array(2.0), "y": np.array(3.0)}, program.outputs["0"].ids.ravel(), np.ones(1))
    assert slope[:2].tolist() == [11.0, 4.0]


def test_the_gradient_agrees_with_differences_on_a_block():
    """Central differences of the float64 block, every entry of W."""
    case = next(case for case in cases() if case.state.p == 3)
    program = lower(case.graph)
    slope = gradient(program, case.inputs, program.outputs["alpha"].ids.ravel(), np.ones(1))
    step, differences = 1e-6, []
    for i, j in np.argwhere(case.state.M):
        shift = np.zeros_like(case.state.W)
        shift[i, j] = step
        up, down = case.floats(BINARY64, np.stack([case.state.W + shift, case.state.W - shift]))[:, -1]
        differences.append((up - down) / (2 * step))
    assert slope[: len(differences)] == pytest.approx(differences, rel=1e-4, abs=1e-8)
