"""An adversary who chooses every rounding nearly reaches the running bounds: they cannot be made much smaller."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from random_kernels import PLAIN, REGISTERS, random_steps, traced
from rounding_grid import cases

import certify
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


def _special(format):
    """0, 1, powers of two and their neighbours, subnormal numbers, and the largest, with both signs."""
    powers = [format.min_normal, 2 * format.min_normal, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 2.0**format.emax]
    near = [x * (1 + s * 2 * format.u) for x in powers[2:-1] for s in (1, -0.5)]
    small = [] if format.flush else [format.min_subnormal, 3 * format.min_subnormal, format.min_normal / 2]
    positive = [*powers, *near, *small, format.largest, 0.3, 10.0]
    found = format.round(np.array([0.0, *positive, *(-x for x in positive)]))
    return found[format.holds(found)]


FUNCTIONS = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "sigmoid": certify.sigmoid}
REFERENCES = {
    "exp": (mpmath.exp, 0, None),
    "log": (mpmath.log, None, None),
    "tanh": (mpmath.tanh, -1, 1),
    "sigmoid": (lambda x: mpmath.exp(-abs(x)) / (1 + mpmath.exp(-abs(x))) if x < 0 else 1 / (1 + mpmath.exp(-x)), 0, 1),
}


def _furthest(name, x, format, ulps):
    """How far from its exact value a library may return at x, by the definition: a rational, from 2,000 bits."""
    function, lowest, largest = REFERENCES[name]
    with mpmath.workprec(2000):
        y = function(mpmath.mpf(x))
        if abs(y) == 1 and x:  # rounded from below
            y = mpmath.sign(y) * (1 - mpmath.mpf(2) ** -1900)
        exponent = max(int(mpmath.floor(mpmath.log(abs(y), 2))), format.emin) if y else format.emin
        for guess in (exponent + 1, exponent, exponent - 1):  # the logarithm may be off
            if abs(y) >= mpmath.mpf(2) ** guess or guess <= format.emin:
                exponent = max(guess, format.emin)
                break
        reach = mpmath.mpf(ulps) * mpmath.mpf(2) ** (exponent - format.precision + 1)
        above = reach if largest is None else min(reach, largest - y)
        return max(above, reach if lowest is None else min(reach, y - lowest))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("format", ["e5m2", "e4m3", "float16", "bfloat16", "tf32", "float32", "float64", "float16,ftz"])
def test_what_is_attained_is_allowed_to_a_library(name, format):
    """Special points, two libraries: the adversary goes as far as the definition lets it, not further, nor beyond the bound."""
    chosen, checked = certify.format_named(format), 0
    graph = trace(lambda x: FUNCTIONS[name](x), {"x": 1.0}, order="serial")
    for ulps in (1.0, 1.75):
        library = certify.Libm("a library", otherwise=ulps)
        for x in _special(chosen).tolist():
            if name == "log" and x <= 0:
                continue
            bounds = running(graph, chosen, point({"x": x}), libm=library)
            if bounds.first_overflow() is not None:
                continue
            found = attained(graph, chosen, {"x": np.array(x)}, "0", (), libm=library)
            most = _furthest(name, x, chosen, ulps)
            assert found <= Fraction(float(bounds.error_of("0")))
            with mpmath.workprec(2000):
                exact = mpmath.mpf(found.numerator) / found.denominator
                assert exact <= most * (1 + mpmath.mpf(2) ** -500)
                # a ball around a power of two holds numbers of both binades
                assert exact >= most * 0.49 or most < 2.0**-400
            checked += 1
    assert checked >= 30


@pytest.mark.parametrize("format", ["e5m2", "e4m3", "float16", "bfloat16", "float32", "float64"])
def test_what_is_attained_at_special_points_is_within_the_bound(format):
    """One operation at every pair of special points: correctly rounded ones, and a correctly rounded library."""
    chosen, checked, some = certify.format_named(format), 0, 0
    kernels = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y]
    kernels += [lambda x, y, f=f: f(np.abs(x)) for f in (np.sqrt, *FUNCTIONS.values())]
    points = _special(chosen).tolist()
    for k, kernel in enumerate(kernels):
        graph = trace(lambda x, y, kernel=kernel: kernel(x, y), {"x": 1.0, "y": 1.0}, order="serial")
        for x in points:
            for y in points[::7] if k < 4 else points[:1]:
                given = {"x": np.array(x), "y": np.array(y)}
                bounds = running(graph, chosen, point(given), libm="correct")
                if bounds.first_overflow() is not None:
                    continue
                found = attained(graph, chosen, given, "0", (), libm=certify.arithmetic.libm.library("correct", []))
                assert found <= Fraction(float(bounds.error_of("0"))), (x, y)
                checked, some = checked + 1, some + (found > 0)
    assert checked > 200 and some > 40


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constants_of_own_formats_are_numbers_of_these(dtype):
    """0.1 and 1e5 in a wider format than the program's: what is attained stays below the bound, and 1e5 is no overflow."""
    for kernel in (lambda x: x.astype(dtype) * 0.1, lambda x: x.astype(dtype) * 1e5):
        graph, x = trace(kernel, {"x": np.ones(2)}, order="serial"), {"x": np.array([0.5, 0.3])}
        bound = running(graph, BINARY16, point(x)).error_of("0")
        for k in range(2):
            assert 0 < attained(graph, BINARY16, x, "0", (k,)) <= Fraction(bound[k])


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
