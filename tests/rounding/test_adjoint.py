"""What adjoint bounds are for: cancelling paths, splitting, shares, norms, attained errors; and what they refuse."""

from fractions import Fraction

import numpy as np
import pytest
from random_kernels import PLAIN
from rounding_grid import cases

from certify.arithmetic import BINARY16, BINARY32, BINARY64
from certify.errors import InputRejected, OrderUnspecified
from certify.graph import layer, trace
from certify.rounding import Region, adjoint, ball, point, running
from certify.rounding.attained import attained_in
from certify.rounding.posterior import computed, error, exact
from certify.rounding.reached import reached
from certify.rounding.shares import GROUPINGS, next_wider


def _square(low, high, names="xy"):
    lower, upper = ({name: np.array(end) for name in names} for end in (low, high))
    return Region(lower, upper, representable=True)


def test_paths_that_cancel_cancel():
    """exp(x - m) / sum exp(x - m): the maximum m is subtracted everywhere, so its error drops out; in running it stays."""

    def softmax(x):
        e = np.exp(x - np.max(x))
        return e / np.sum(e)

    x = np.array([11.3, 3.1, 9.7, 10.9])
    graph = trace(softmax, {"x": x}, order="serial")
    plain, sharp = (bound(graph, BINARY32, point({"x": x})) for bound in (running, adjoint))
    assert sharp.norm_of("0") < 0.75 * plain.norm_of("0")
    errors = error(computed(graph, BINARY32, {"x": x}, "0"), exact(graph, {"x": x}, "0"))
    assert (errors.astype(float) <= sharp.error_of("0")).all()


def test_the_published_product_has_its_subnormal_term():
    """x y on [0, 0.01]**2 in float16: half the smallest subnormal, 2**-25, split or not."""
    graph = trace(lambda x, y: x * y, {"x": 1.0, "y": 1.0}, order="serial")
    for splits in (0, 20):
        bound = adjoint(graph, BINARY16, _square(0.0, 0.01), splits=splits).error_of("0")
        assert 2.0**-25 <= bound <= 2.0**-25 * (1 + 2.0**-45)


def test_exact_programs_have_no_error():
    """Halving, doubling, negation, maxima of representable inputs; a ReLU that is inactive hides what is behind it."""

    def kernel(x, y):
        return {"exact": np.maximum(-2 * x, y / 2), "hidden": np.maximum(x * y - 100, 0)}

    graph = trace(kernel, {"x": 1.0, "y": 1.0}, order="serial")
    found = adjoint(graph, BINARY16, point({"x": 1.5, "y": 1.25}))
    assert found.elements["exact"] == 0.0
    assert found.elements["hidden"] == 0.0


def test_splitting_never_loosens_and_is_deterministic():
    """More cuts of a wide box, a smaller bound; the same cuts, the same bound; every part still counts."""
    graph = trace(lambda x, y: x * y - x / (1 + y * y), {"x": 1.0, "y": 1.0}, order="serial")
    region = _square(-3.0, 3.0)
    bounds = [float(adjoint(graph, BINARY32, region, splits=n).error_of("0")) for n in (0, 1, 4, 16, 48)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.7 * bounds[0]
    assert float(adjoint(graph, BINARY32, region, splits=16).error_of("0")) == bounds[3]
    found = adjoint(graph, BINARY32, region, splits=16)
    rng = np.random.default_rng(0)
    for _ in range(300):
        at = {name: BINARY32.round(rng.uniform(-3, 3, ())) for name in "xy"}
        off = error(computed(graph, BINARY32, at, "0"), exact(graph, at, "0"))
        assert float(off[()]) <= found.error_of("0")
        value = computed(graph, BINARY32, at, "0")
        assert found.low[graph.outputs["0"].ids] <= value <= found.high[graph.outputs["0"].ids]


def test_a_part_keeps_the_bounds_of_the_whole():
    """The halves of a cut may be bounded worse than what they are cut from; then that stands."""

    def k(t, u, x):
        s = np.sqrt(np.abs(u))
        a = (s + x) - x
        p = t * t
        q = t * (t + t)
        return a + (2 * p - q)

    graph = trace(k, {"t": 1.0, "u": 1.0, "x": 1.0}, order="serial")
    ends = {"t": (0.0, 6.0), "u": (2.0**-20 - 1, 1.0), "x": (100.03, 100.03)}
    region = Region(*({name: np.array(pair[side]) for name, pair in ends.items()} for side in (0, 1)))
    norms = [adjoint(graph, BINARY16, region, splits=n).norm_of("0") for n in range(6)]
    assert norms == sorted(norms, reverse=True) and norms[-1] < norms[0]


def test_boxes_as_wide_as_binary64_are_cut():
    """Widths that overflow are no reason to warn, or not to cut."""
    graph = trace(lambda x, y: x / 4 + y, {"x": 1.0, "y": 1.0}, order="serial")
    ends = {"x": np.array(1.7e308), "y": np.array(2.0)}
    region = Region({name: -end for name, end in ends.items()}, ends)
    bounds = adjoint(graph, BINARY64, region, splits=3)
    assert bounds.first_overflow() is None and bounds.norm_of("0") <= running(graph, BINARY64, region).norm_of("0")


def test_splitting_proves_what_a_whole_box_does_not():
    """1 / (x x - x y + y y), which is not 0 on the box, though its enclosure holds 0: nothing is known without cuts."""
    graph = trace(lambda x, y: 1 / (x * x - x * y + y * y), {"x": 1.0, "y": 1.0}, order="serial")
    region = _square(1.0, 3.0)
    assert adjoint(graph, BINARY32, region).first_overflow() is not None
    found = adjoint(graph, BINARY32, region, splits=40)
    assert found.first_overflow() is None
    assert 0 < found.norm_of("0") < 1e-5


def test_shares_add_up_and_name_the_culprit():
    """A register in which nearly all of the error is made comes first, by every grouping; what is left without it is small."""

    def kernel(x):
        with layer("large"):
            big = x * 1000.1
        with layer("small"):
            little = x * x
        return little + (big - 1000 * x)

    x = np.array([0.3, 0.7])
    graph = trace(kernel, {"x": x}, order="serial")
    found = adjoint(graph, BINARY16, point({"x": BINARY16.round(x)}))
    for by in GROUPINGS:
        shares = found.shares(by)
        assert sum(share.share for share in shares) == pytest.approx(1)
        assert [s.share for s in shares] == sorted((s.share for s in shares), reverse=True)
        whole = np.linalg.norm(found.elements["0"])
        assert all(s.if_exact <= s.if_wider * (1 + 1e-12) <= whole * (1 + 1e-9) for s in shares)
    assert found.shares("layer")[0].name == "layer large"
    assert {s.name for s in found.shares("register")[:2]} >= {"big"}
    assert found.shares("operation")[0].name == "mul"


def test_shares_of_bounds_whose_squares_are_no_numbers():
    """Near the largest and the least numbers of float64."""
    for size in (1e290, 1e-290):
        x = size * np.array([0.3, 0.7])
        graph = trace(lambda x: 3 * x - x / 7, {"x": x}, order="serial")
        found = adjoint(graph, BINARY64, ball({"x": x}, "x", size / 10))
        assert sum(share.share for share in found.shares()) == pytest.approx(1)
        assert all(share.if_exact <= share.if_wider <= 1e-15 * size for share in found.shares())


def test_raising_a_register_saves_what_its_share_says():
    """The float16 bound with one product exact, x times 1 instead of a number, is what `if_exact` foretells."""
    x = BINARY16.round(np.array([0.37, 1.71, -0.9]))

    def kernel(x, c):
        first = x * c
        second = first * first
        return second + x

    graph = trace(kernel, {"x": x, "c": 1.0}, order="serial")
    c = 1.0 + 2.0**-10
    found = adjoint(graph, BINARY16, point({"x": x, "c": c}))
    [first] = [share for share in found.shares() if share.name == "first"]
    sizes = next(sizes for _, _, sizes in found.sweep.blocks(graph.outputs["0"].ids))
    local = found.sweep.secants.local.copy()
    start = next(graph.instructions()).start
    local[start : start + 3] = 0.0
    assert first.if_exact == pytest.approx(float(np.linalg.norm(local @ sizes)))


def test_wider_formats():
    """float16 before float32 before float64, and nothing beyond."""
    names = ("e4m3", "float16", "bfloat16", "tf32", "float32")
    from certify.arithmetic import format_named

    wider = {name: next_wider(format_named(name)) for name in names}
    assert {name: f and f.name for name, f in wider.items()} == {
        "e4m3": "float16",
        "float16": "float32",
        "bfloat16": "float32",
        "tf32": "float32",
        "float32": "float64",
    }
    assert next_wider(BINARY64) is None


def test_the_grid_is_attained_within_a_factor_of_two():
    """Poly-prox blocks at points and on balls, norm of W+: what an adversary reaches, and what the program does."""
    ratios = []
    for k, case in enumerate([case for case in cases() if case.state.p == 2][::3]):
        format = list(PLAIN.values())[k % 4]
        for region in (point(case.inputs), ball(case.inputs, "W", 0.01)):
            bound = adjoint(case.graph, format, region).norm_of("W")
            found = attained_in(case.graph, format, region, "W", tries=20)
            assert bound <= running(case.graph, format, region).norm_of("W")
            if bound:
                ratios.append(bound / float(found.value))
    assert len(ratios) >= 8
    assert np.median(ratios) <= 2
    assert min(ratios) >= 1 / 1.25


@pytest.mark.parametrize("format", PLAIN.values(), ids=str)
def test_adversaries_start_from_inputs_of_the_region(format):
    """Thin balls between two numbers of the format: the exact inputs lie in the ball, and fixed ones stay what they are."""
    graph = trace(lambda x, w: x * w, {"x": 1.0, "w": 1.0}, order="serial")
    for x, w, radius in ((0.7, 0.1, 1e-3), (1.7915, 107.3, 1e-4), (-0.3, 5.1, 1e-9)):
        region = ball({"x": x, "w": w}, "x", radius)
        found = attained_in(graph, format, region, "0", tries=10)
        for name in ("x", "w"):
            assert region.lower[name] <= found.inputs[name] <= region.upper[name]
        assert found.value <= 1.01 * running(graph, format, region).norm_of("0")


def test_a_single_result_is_moved_both_ways():
    """Rounding up an input that was rounded down reaches nothing; the other way does."""
    graph = trace(lambda x: x * x, {"x": 1.0003}, order="serial")
    region = point({"x": 1.0003})
    assert float(attained_in(graph, BINARY16, region, "0").value) >= 0.9 * running(graph, BINARY16, region).norm_of("0")


def test_results_far_below_every_format_are_replayed():
    """exp(-1e12) has an exponent too long to write out: to an error it is 0."""
    graph = trace(lambda x: np.exp(x * x * -1e6), {"x": 1000.0}, order="serial")
    assert reached(graph, BINARY32, point({"x": 1000.0}), "0").value == 0


def test_what_is_reached_is_replayed():
    """The inputs that a search returns lie in the region and make the error it says; no bound is below it."""

    def kernel(x, y):
        return (x - y) * (x + y) + np.sqrt(x)

    graph = trace(kernel, {"x": np.ones(2), "y": np.ones(2)}, order="serial")
    region = Region({"x": np.full(2, 1.0), "y": np.full(2, -1.0)}, {"x": np.full(2, 3.0), "y": np.full(2, 2.0)})
    found = reached(graph, BINARY16, region, "0", rounds=8)
    errors = error(computed(graph, BINARY16, found.inputs, "0"), exact(graph, found.inputs, "0")).tolist()
    square = sum((x * x for x in errors), Fraction(0))
    assert abs(found.value**2 - square) <= square / 2**100
    assert all((region.lower[n] <= x).all() and (x <= region.upper[n]).all() for n, x in found.inputs.items())
    bound = adjoint(graph, BINARY16, region).norm_of("0")
    assert bound / 8 <= float(found.value) <= bound
    assert reached(graph, BINARY16, region, "0", rounds=8).value == found.value


def test_overflows_leave_running_bounds_and_no_shares():
    """Where an overflow is not excluded nothing is sharpened."""
    graph = trace(lambda x: {"a": x * x, "b": x + 1}, {"x": 1.0}, order="serial")
    found = adjoint(graph, BINARY16, point({"x": 300.0}))
    assert found.first_overflow() is not None
    assert found.elements == {} and found.sweep is None
    with pytest.raises(InputRejected, match="an overflow is not excluded"):
        found.shares()


def test_refusals():
    """No such output, no such grouping, a negative number of cuts, sums without an order."""
    graph = trace(lambda x: np.sum(x), {"x": np.ones(3)}, order="serial")
    region = point({"x": np.ones(3)})
    with pytest.raises(InputRejected, match="no output 'z'"):
        adjoint(graph, BINARY16, region, ["z"])
    with pytest.raises(InputRejected, match="-1 times"):
        adjoint(graph, BINARY16, region, splits=-1)
    with pytest.raises(InputRejected, match="no grouping"):
        adjoint(graph, BINARY16, region).shares("colour")
    with pytest.raises(InputRejected, match="no output 'z'"):
        adjoint(graph, BINARY16, region).shares(output="z")
    with pytest.raises(OrderUnspecified):
        adjoint(trace(lambda x: np.sum(x), {"x": np.ones(3)}), BINARY16, region)


def test_many_outputs_come_in_blocks(monkeypatch):
    """The same bounds, a few results at a time or all at once; norms are those of the elements then."""
    from importlib import import_module

    graph = trace(lambda x: x @ x.T @ x, {"x": np.ones((4, 4))}, order="serial")
    region = point({"x": np.random.default_rng(0).standard_normal((4, 4))})
    whole = adjoint(graph, BINARY32, region)
    monkeypatch.setattr(import_module("certify.rounding.sweep"), "_LARGEST_BLOCK", 3 * (graph.n_nodes + 1))
    parts = adjoint(graph, BINARY32, region)
    assert np.allclose(parts.elements["0"], whole.elements["0"], rtol=1e-12, atol=0)
    assert whole.norm_of("0") <= parts.norm_of("0") * (1 + 1e-9)
