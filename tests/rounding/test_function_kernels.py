"""Whole kernels with quotients, roots, library functions and selections: bounds, exact values, refusals, NumPy itself."""

from fractions import Fraction

import numpy as np
import pytest
from function_cases import Wild
from random_trees import Program

from certify.arithmetic import BINARY16, BINARY32, BINARY64, format_named
from certify.arithmetic.libm import CORRECTLY_ROUNDED, LIBRARIES, Libm
from certify.errors import InputRejected, Undecided
from certify.graph import Op, evaluate, layer, lower, order_named, output, sigmoid, trace, with_order
from certify.rounding import Region, ball, majorant, point, range_test, running
from certify.rounding.attained import gradient
from certify.rounding.posterior import computed, error, exact


def softmax(x):
    """With the maximum shifted to 0."""
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def attention(x):
    """One head without projections."""
    q, k, v = x[:, :4], x[:, 4:8], x[:, 8:]
    scores = q @ k.T / 2
    return softmax(np.where(np.tri(len(x), dtype=bool), scores, -1e4)) @ v


def layer_norm(x):
    """Without scale and shift."""
    centered = x - np.mean(x, axis=-1, keepdims=True)
    return centered / np.sqrt(np.var(x, axis=-1, keepdims=True) + 1e-5)


def logsumexp(x):
    """By rows."""
    top = np.max(x, axis=-1, keepdims=True)
    return top[:, 0] + np.log(np.sum(np.exp(x - top), axis=-1))


def gated(x):
    """Selections and everything else."""
    gate = sigmoid(x[:, :4]) * np.tanh(x[:, 4:8]) + np.abs(x[:, 8:])
    elu = np.where(gate > 0.25, gate, np.exp(gate) - 1)
    return elu / np.linalg.norm(x) + np.where((elu < 0) | (gate < 1), np.minimum(elu, gate), np.square(gate))


KERNELS = {f.__name__: f for f in (softmax, attention, layer_norm, logsumexp, gated)}


def state(rng, rows=4):
    """An input of every kernel: 12 columns, of various sizes."""
    return rng.standard_normal((rows, 12)) * rng.choice([0.1, 1.0, 5.0])


def observed(graph, format, x, libm, rng):
    """Floats of a program of the graph by a wild library, binary64."""
    wild = Wild(format, libm, rng)
    values = evaluate(graph, wild, {"x": wild.constant(x)})
    return output(graph, wild, values, "0").astype(float)


@pytest.mark.parametrize("seeds", [4, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("order", ["serial", "pairwise", "fma", "blocked(3)", "serial:float64", "any-order"])
@pytest.mark.parametrize("format", ["float16", "bfloat16", "float32", "e4m3", "float16,ftz"])
@pytest.mark.parametrize("name", KERNELS)
def test_bounds_hold_for_whole_kernels(name, format, order, seeds):
    """At points and in balls, for a library that errs by up to 1 ulp in any direction; every element."""
    format, rng, libm = format_named(format), np.random.default_rng(8), Libm("wild")
    for _ in range(seeds):
        x = state(rng)
        graph = trace(KERNELS[name], {"x": x}, order=order)
        program = with_order(graph, order_named(order).program.name)
        for radius in (0.0, 2.0**-6):
            bounds = running(graph, format, ball({"x": x}, "x", radius), libm=libm)
            if bounds.first_overflow() is not None:
                continue
            at = x + rng.uniform(-radius, radius, x.shape) / 10
            floats = observed(program, format, at, libm, rng)
            errors = error(floats, exact(graph, {"x": at}, "0"))
            bound = bounds.error_of("0")
            low, high = bounds.low[graph.outputs["0"].ids], bounds.high[graph.outputs["0"].ids]
            assert (errors.astype(float) <= bound).all(), (name, order, radius)
            assert ((low <= floats) & (floats <= high)).all()


@pytest.mark.parametrize("format", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
def test_bounds_hold_for_random_trees(name, format):
    """Any-order: random trees of every sum, products fused or not; every node, as far as the output needs it."""
    format, rng = format_named(format), np.random.default_rng(9)
    for _ in range(6):
        x = state(rng)
        graph = trace(KERNELS[name], {"x": x}, order="any-order")
        bounds = running(graph, format, point({"x": x}), libm=CORRECTLY_ROUNDED)
        if bounds.first_overflow() is not None:
            continue
        ids, reference = graph.outputs["0"].ids, exact(graph, {"x": x}, "0")
        for floats in Program(graph, format, rng)({"x": np.stack([x] * 4)}):
            assert (error(floats[ids], reference).astype(float) <= bounds.error_of("0")).all()
            inner = ~np.isin(np.arange(graph.n_nodes), _unrounded(graph))
            assert ((bounds.low[:-1] <= floats[:-1]) & (floats[:-1] <= bounds.high[:-1]))[inner].all()


def _unrounded(graph):
    """Nodes that a sum may take unrounded: their enclosures hold both."""
    return np.concatenate([np.arange(i.start, i.stop) for i in graph.instructions() if i.op is Op.MUL] or [[]])


def _real(x, name, dtype, format, library):
    graph = trace(KERNELS[name], {"x": x.astype(float)}, order="any-order")
    bounds = running(graph, format, point({"x": x.astype(float)}), libm=LIBRARIES[library])
    assert bounds.first_overflow() is None
    result = KERNELS[name](x)
    assert result.dtype == dtype
    errors = error(result.astype(float), exact(graph, {"x": x.astype(float)}, "0")).astype(float)
    return float((errors / np.maximum(bounds.error_of("0"), 1e-300)).max())


@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["softmax", "attention", "layer_norm", "logsumexp"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpys_own_programs_stay_within_any_order(name, dtype, count):
    """Its sums and matrix products in their own order, its own exp and log: no element leaves its bound."""
    rng, format = np.random.default_rng(10), {"float32": BINARY32, "float64": BINARY64}[dtype]
    for _ in range(count):
        x = state(rng, int(rng.integers(2, 9))).astype(dtype)
        assert _real(x, name, np.dtype(dtype), format, f"numpy/{dtype}") <= 1


def test_a_refused_operation_is_named_with_its_reason():
    """Division by an enclosure that contains 0, the root and the logarithm of a negative one: register, layer, line."""

    def quotient(x, y):
        with layer("2"):
            ratio = x / y
        return ratio + 1

    ones = {"x": np.ones(2), "y": np.ones(2)}
    region = ball(ones, "y", 1.5)
    bounds = running(trace(quotient, ones, order="serial"), BINARY32, region)
    tested = range_test(bounds, region)
    assert tested.reason.startswith(
        "division by an enclosure that contains 0 at register ratio, layer 2 (test_function_k"
    )
    assert tested.witness is None and np.isinf(bounds.error_of("0")).all() and np.isinf(bounds.norm_of("0"))

    region = ball(ones, "y", 0.6)
    for kernel, reason in (
        (lambda x, y: np.sqrt(x - y), "square root of an enclosure that contains negative numbers at "),
        (lambda x, y: np.log(y - 0.5), "logarithm of an enclosure that contains 0 or negative numbers at "),
        (lambda x, y: x / (y - y * 1.0000001), "division by an enclosure that contains 0 at "),
        (lambda x, y: np.exp(60 * y), "an enclosure that passes 3.40282e+38 at "),
    ):
        bounds = running(trace(kernel, ones, order="serial"), BINARY32, region)
        assert range_test(bounds, region).reason.startswith(reason)


def test_a_division_by_zero_at_a_point_refutes():
    """The program returns an infinity there."""
    x = {"x": np.zeros(1)}
    region = point(x)
    bounds = running(trace(lambda x: 1 / x, x, order="serial"), BINARY32, region)
    tested = range_test(bounds, region)
    assert tested.witness is not None
    assert tested.reason.startswith("a result that is not finite at ")


def test_masks_and_big_constants_are_named():
    """-1e9 in float16, finfo.min + (-16), and a float32 accumulation cast to float16 past 65504: node, register, line."""
    lowest = float(np.finfo(np.float16).min)
    mask = np.tri(3, dtype=bool)

    def masked(x):
        scores = np.where(mask, x, -1e9)
        return softmax(scores)

    def biased(x):
        bias = np.where(mask, 0.0 * x, lowest)
        shifted = bias + np.full((3, 3), -16.0)
        return shifted

    def accumulated(x):
        total = x @ x
        return total / 4

    for kernel, register, order, x in (
        (masked, "scores", "serial", np.ones((3, 3))),
        (biased, "shifted", "serial", np.ones((3, 3))),
        (accumulated, "total", "serial:float32", np.full((3, 3), 150.0)),
    ):
        graph, region = trace(kernel, {"x": x}, order=order), point({"x": x})
        tested = range_test(running(graph, BINARY16, region), region)
        lines = kernel.__code__.co_firstlineno
        assert tested.node is not None and tested.witness is not None
        assert tested.place.startswith(f"register {register} (test_function_kernels.py:")
        assert lines < graph.place_of(tested.node).line <= lines + 2
        wide = running(with_order(graph, "serial"), BINARY32, region)
        assert range_test(wide, region).node is None


def test_squares_and_norms_near_zero():
    """A square is not negative, so a norm of vectors around 0 has a bound, and a variance over a box has one."""
    x = np.zeros((2, 6))
    for order in ("serial", "any-order"):
        bounds = running(trace(lambda x: np.linalg.norm(x), {"x": x}, order=order), BINARY32, ball({"x": x}, "x", 1e-3))
        assert bounds.first_overflow() is None and 0 < bounds.norm_of("0") < 1e-5
        bounds = running(trace(layer_norm, {"x": x}, order=order), BINARY32, ball({"x": x}, "x", 1e-3))
        assert bounds.first_overflow() is None


def test_a_softmax_at_a_point_is_known_to_a_few_ulps():
    """In bfloat16 and float32, whatever the size of its arguments."""
    rng = np.random.default_rng(11)
    for scale in (1.0, 10.0, 1000.0):
        x = rng.standard_normal((3, 16)) * scale
        x = x.astype(np.float32).astype(float)
        graph = trace(softmax, {"x": x}, order="any-order")
        for name in ("float32", "bfloat16"):
            format = format_named(name)
            x = format.round(x)
            bounds = running(graph, format, point({"x": x}))
            spread = np.abs(x - x.max(axis=-1, keepdims=True)).max()
            assert bounds.error_of("0").max() <= (16 + 2 * spread + 20) * format.u


def test_majorants_say_what_they_cover():
    """A kernel with other operations is refused, with the operation and its place."""
    x = {"x": np.ones((2, 12))}
    with pytest.raises(
        InputRejected, match=r"majorant bounds cover \+, - and \* only, and the kernel has max at .*; use the"
    ):
        majorant(trace(softmax, x), BINARY32, point(x))


def test_bounds_state_what_they_assume_of_the_library():
    """The functions that the kernel calls."""
    x = {"x": np.ones((2, 12))}
    bounds = running(trace(softmax, x, order="serial"), BINARY32, point(x), libm=LIBRARIES["glibc/float32"])
    assert bounds.assumptions() == [
        "exp of glibc in float32 returns a number within 1.5 ulp of the exact result, in the range of the function"
    ]
    assert running(trace(lambda x: x / 3, x, order="serial"), BINARY32, point(x)).assumptions() == []


def test_a_better_library_has_smaller_bounds():
    """Correctly rounded, within 1 ulp, within 4."""
    x = {"x": np.linspace(-2, 2, 24).reshape(2, 12)}
    graph = trace(softmax, x, order="any-order")
    norms = [running(graph, BINARY32, point(x), libm=Libm("own", otherwise=u)).norm_of("0") for u in (0.5, 1.0, 4.0)]
    assert norms == sorted(norms) and norms[0] < norms[1] < norms[2]


def test_exact_values_are_known_far_beyond_binary64():
    """(e - 1)^2 / e - 2 cosh 1 + 2 is 0: the ball says so to 2**-1300; 1/3 to 160 bits."""
    x = {"x": np.array(1.0)}
    graph = trace(lambda x: np.square(np.exp(x) - 1) / np.exp(x) - np.exp(x) - np.exp(-x) + 2, x, order="serial")
    assert abs(exact(graph, x, "0")[()]) <= Fraction(1, 2**1299)
    third = exact(trace(lambda x: x / 3, x), x, "0")[()]
    assert abs(third - Fraction(1, 3)) <= Fraction(1, 2**161)
    assert computed(trace(lambda x: x / 3, x), BINARY32, x, "0") == np.float32(1) / np.float32(3)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x: 1 / (x - 1 + 0 * x), "not finite"),
        (lambda x: np.log(x - np.exp(0 * x)), "not finite|not decided|not known"),
        (lambda x: np.where(np.exp(x) * np.exp(-x) < 1, x, -x), "a comparison of the kernel is not decided"),
    ],
)
def test_exact_values_that_are_not_defined_are_undecided(kernel, message):
    """Where no precision would do."""
    x = {"x": np.array(1.0)}
    with pytest.raises(Undecided, match=message):
        exact(trace(kernel, x), x, "0")


def test_adjoints_of_every_operation():
    """Against central differences of the kernel in binary64."""
    x = np.linspace(0.3, 1.7, 24).reshape(2, 12)
    graph = trace(lambda x: np.sum(gated(x)) + np.sum(logsumexp(x)), {"x": x}, order="serial")
    program = lower(graph)
    slopes = gradient(program, {"x": x}, program.outputs["0"].ids.ravel(), np.ones(1))[: x.size]
    step = 1e-6

    def value(at):
        return float(np.sum(gated(at.reshape(x.shape))) + np.sum(logsumexp(at.reshape(x.shape))))

    unit = np.eye(x.size) * step
    differences = np.array([(value(x.ravel() + u) - value(x.ravel() - u)) / (2 * step) for u in unit])
    np.testing.assert_allclose(slopes, differences, rtol=1e-5, atol=1e-6)


def test_a_region_of_floats_has_no_conversion_error():
    """A box of numbers of the format, through a quotient of points."""
    region = Region({"x": np.ones(1)}, {"x": np.ones(1) * 3}, representable=True)
    bounds = running(trace(lambda x: x / 3, {"x": np.ones(1)}, order="serial"), BINARY32, region)
    assert bounds.error_of("0")[0] <= 2.0**-24 * 1.0001
