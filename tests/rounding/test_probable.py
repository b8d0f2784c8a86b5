"""Probable bounds hold as often as they say, are small where there are many roundings, and a wrong one is caught."""

from dataclasses import replace
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from adjoint_cases import function_graph, random_function_steps
from probable_cases import Tally, beyond, check_functions, dot_case, exact_dot, most_allowed, results
from random_kernels import REGISTERS, random_inputs

from certify.arithmetic import BINARY16, BINARY32, BINARY64, format_named
from certify.errors import InputRejected, OrderUnspecified
from certify.graph import Op, Variable, lower, trace, with_order
from certify.rounding import Region, adjoint, ball, point, probable, running
from certify.rounding.outcomes import EveryOutcome
from certify.rounding.running import analysed

module = import_module("certify.rounding.probable")
CONFIDENCES = (0.9, 0.99, 0.999, 0.999999)


def _dot_runs(kind, format, runs):
    graph, inputs = dot_case(kind, format)
    exact = exact_dot(inputs)
    computed = results(graph, format, inputs, "0", runs)
    for confidence in CONFIDENCES:
        found = probable(graph, format, point(inputs), confidence=confidence)
        failures = beyond(computed, exact, float(found.error_of("0")))
        assert failures <= most_allowed(runs, 1 - confidence) - (confidence == 0.999999) * 12
        assert beyond(computed, exact, float(found.surely["0"])) == 0


def test_a_dot_product_of_1000_terms_keeps_its_bounds():
    """10,000 runs in float32: no more outside than 1 - confidence, at 0.999999 none."""
    _dot_runs("positive", BINARY32, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("format", [BINARY16, BINARY32], ids=lambda f: f.name)
@pytest.mark.parametrize("kind", ["positive", "signed"])
def test_a_dot_product_of_1000_terms_keeps_its_bounds_longer(kind, format):
    """100,000 runs."""
    _dot_runs(kind, format, 100_000)


def test_it_is_five_times_smaller_than_what_is_proved():
    """At dot n = 1000 and 0.999999: five times against rounding to nearest, nine times against every outcome."""
    for format in (BINARY32, BINARY64):
        graph, inputs = dot_case("positive", format)
        region = point(inputs)
        found = probable(graph, format, region)
        assert found.confidence == Fraction("0.999999")
        assert 5 * found.error_of("0") <= min(adjoint(graph, format, region).error_of("0"), 1e300)
        assert 5 * found.error_of("0") <= running(graph, format, region).error_of("0")
        assert 10 * found.error_of("0") <= found.surely["0"]
        signed, inputs = dot_case("signed", format)
        found = probable(signed, format, point(inputs))
        assert 9 * found.error_of("0") <= found.surely["0"]
        assert 4.5 * found.error_of("0") <= adjoint(signed, format, point(inputs)).error_of("0")


FORMATS = ("float16", "e4m3", "p=5,emin=-3,emax=4", "float32")


def _violations(seeds, formats=FORMATS, **options):
    tally = Tally()
    for seed in seeds:
        for name in formats:
            check_functions(seed, format_named(name), tally, **options)
    return tally


def test_random_kernels_keep_their_bounds():
    """All operations, at inputs of points and boxes; in float64 too."""
    tally = _violations(range(25))
    tally64 = _violations(range(3), ["float64"], runs=20)
    assert tally.violations == tally64.violations == []
    assert tally.checked > 40 and tally64.checked > 0
    assert tally.sharper > tally.elements / 10


@pytest.mark.slow
def test_random_kernels_keep_their_bounds_longer():
    """400 kernels a format."""
    tally = _violations(range(1000, 1400))
    assert tally.violations == []


# kernels that reach their bounds, for what random ones do not see


def _halves(n, elements=1):
    """Sums of 1024 and n halves in float16: every addition is a tie, so each rounding is up or down with equal odds."""
    x = np.full((n, elements), 0.5)
    return trace(
        lambda x: np.sum(np.concatenate([np.full((1, elements), 1024.0), x]), axis=0), {"x": x}, order="serial"
    ), x


def _fails(graph, inputs, confidence, format=BINARY16, runs=2000, name="0"):
    """The share of runs in which an element of an output passes its bound, and the bounds; exact values in binary64."""
    found = probable(graph, format, point(inputs), confidence=confidence)
    exact = results(graph, BINARY64, inputs, name, 1)[0]
    values = results(graph, format, inputs, name, runs)
    return (np.abs(values - exact) > found.error_of(name).ravel()).any(axis=1).mean(), found


def _tight():
    """Cases in which a bound fails with a probability close to what is allowed, or is nearly equal to the error always."""
    one, x = _halves(1)
    yield one, {"x": x}, 0.01  # one rounding, which is half an ulp always
    many, x = _halves(64)
    yield many, {"x": x}, 0.1
    several, x = _halves(16, 64)
    yield several, {"x": x}, 0.5  # one of 64 sums
    # q is 0, computed as 1/2 or -1/2: its square has a secant of 0 in the middle
    inputs = {"x": np.array(1024.0), "y": np.array(0.5), "z": np.array(1024.0)}
    square = trace(lambda x, y, z: ((x + y) - z - y) * ((x + y) - z - y), inputs, order="serial")
    yield square, inputs, 0.01
    below = float(np.nextafter(0.1, 0.0))  # converted to the float of 0.1
    step = trace(lambda x, y: np.where(x < y, -1.0, 1.0), {"x": 1.0, "y": 1.0}, order="serial")
    yield step, {"x": np.array(below), "y": np.array(0.1)}, 0.01
    converted = trace(lambda x: np.max(x) * 1.0, {"x": np.ones(1)}, order="serial")
    yield converted, {"x": np.array([1.0 + 0.999 * 2.0**-11])}, 0.01
    # every product is near the middle of 1/2 and the next number, with both signs, and the sums are exact
    products = {"x": np.tile([1.0, -1.0], 64) * (1.0 + 2.0**-10), "y": np.full(128, 0.5 - 2.0**-12)}
    products["y"][-1] = 0.5 - 2.0**-11
    yield trace(lambda x, y: x @ y, products, order="pairwise"), products, 0.5
    inputs = trace(lambda x: np.sum(x), {"x": np.ones(16)}, order="pairwise")
    yield inputs, {"x": np.full(16, 1.0 + 0.999 * 2.0**-11)}, 0.9


def _caught():
    """Whether some case fails more often than it may."""
    for graph, inputs, confidence in _tight():
        rate, _ = _fails(graph, inputs, confidence)
        if rate * 2000 > most_allowed(2000, 1 - confidence):
            return True
        if confidence == 0.01 and rate > 1 - confidence:
            return True
    return False


def test_tight_cases_hold():
    """With nothing dropped."""
    assert not _caught()


def _with_local(factor):
    def wrong(graph, arithmetic, values, right=module.secants):
        found = right(graph, arithmetic, values)
        return replace(found, local=found.local * factor)

    return wrong


def _all_drawn(linear):
    return np.ones(linear.cut.shape, dtype=np.bool_)


def _cut_ones_drawn(linear, right=module.drawn_nodes):
    return right(linear) | linear.cut


def _inputs_drawn(linear, right=module.drawn_nodes):
    drawn = right(linear)
    drawn[: linear.graph.n_inputs] = True
    return drawn


def _without_radii(local, roots, drawn, mid, sizes, deviations, right=module._likely):
    return right(local, roots, drawn, mid, np.where(drawn[:, None], np.abs(mid), sizes), deviations)


def _without_others(local, roots, drawn, mid, sizes, deviations, right=module._likely):
    return right(np.where(drawn, local, 0.0), roots, drawn, mid, sizes, deviations)


def _halved(linear, arithmetic, values, right=module.root_spacings):
    return right(linear, arithmetic, values) / 2


def _of_the_last(linear, arithmetic, values):
    """A sum counted as if it were rounded once, by the spacing at its end."""
    last = (values[1] - values[0] + np.abs(values[1])) * 2.0**-10
    return np.minimum(linear.local, last)


def _of_additions(linear, arithmetic, values, right=module.root_spacings):
    """No products."""

    class Wrong(module.Squares):
        def _product(self, size_a, size_b, ends):
            return size_a * size_b, 0.0 * size_a * size_b

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Squares", Wrong)
        return right(linear, arithmetic, values)


WRONG = {
    "half an ulp": ("secants", _with_local(0.5)),
    "no factor 2 in the logarithm": ("deviations_allowed", lambda d, f=module.deviations_allowed: f(d * 2)),
    "half the variance": ("deviations_allowed", lambda d, f=module.deviations_allowed: f(d) / np.sqrt(2)),
    "radii dropped": ("_likely", _without_radii),
    "others dropped": ("_likely", _without_others),
    "cut nodes drawn": ("drawn_nodes", _cut_ones_drawn),
    "conversions drawn": ("drawn_nodes", _inputs_drawn),
    "all drawn": ("drawn_nodes", _all_drawn),
    "half of a root": ("root_spacings", _halved),
    "sums rounded once": ("root_spacings", _of_the_last),
    "products of sums exact": ("root_spacings", _of_additions),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_bound_is_caught(name, monkeypatch):
    """Some case fails too often."""
    monkeypatch.setattr(module, *WRONG[name])
    assert _caught()


def test_each_of_several_results_has_its_share(monkeypatch):
    """64 sums at once at 0.5: with 0.5 each, one of them fails nearly always."""
    graph, x = _halves(16, 64)
    allowed = module.deviations_allowed
    assert _fails(graph, {"x": x}, 0.5)[0] < 0.5
    monkeypatch.setattr(module, "deviations_allowed", lambda delta: allowed(delta * 64))
    assert _fails(graph, {"x": x}, 0.5)[0] > 0.6


def test_deviations():
    """sqrt(log(2 / delta) / 2) from above, closely; a probability that no binary64 number is near is refused."""
    for delta in (0.5, 1e-6, 1e-200):
        found = module.deviations_allowed(Fraction(delta))
        assert found >= np.sqrt(np.log(2 / delta) / 2) * (1 - 1e-15)
        assert found <= np.sqrt(np.log(2 / delta) / 2) * (1 + 1e-12)
    with pytest.raises(InputRejected, match="too close to 1"):
        module.deviations_allowed(Fraction(1, 10**320))


def test_one_result_is_never_looser_than_every_outcome():
    """Where there are few roundings, what holds surely is smaller, and is taken."""
    graph = trace(lambda x: x * 0.1, {"x": 1.0}, order="serial")
    found = probable(graph, BINARY16, point({"x": 0.3}))
    assert found.error_of("0") == found.surely["0"]
    assert found.norm_of("0") >= found.error_of("0")


def test_overwriting_is_two_roundings():
    """x + (y - x): the adjoint of x cancels, so that y is what is left but for roundings of its size."""
    graph = trace(lambda x, y: x + (y - x), {"x": 1.0, "y": 1.0}, order="serial")
    found = probable(
        graph, BINARY32, Region({"x": np.array(-1.0), "y": np.array(2.0)}, {"x": np.array(1.0), "y": np.array(3.0)})
    )
    assert Op.OVERWRITE not in {i.op for i in found.every_outcome.graph.instructions()}
    assert found.error_of("0") < 2.0**-20


@pytest.mark.parametrize("order", ["serial", "pairwise", "blocked(3)"])
def test_sums_need_no_node_an_addition(order):
    """The bounds of random kernels and of matrix products with zeros are those of the program of single operations."""
    cases, rng = [], np.random.default_rng(31)
    for seed in range(8):
        steps = random_function_steps(np.random.default_rng([seed, 9]))
        drawn = dict(zip(REGISTERS, np.stack(list(random_inputs(rng, BINARY16, seed % 3).values())), strict=True))
        cases.append((function_graph(steps, order), drawn))
    support = rng.random((3, 20)) < 0.7
    inputs = {
        "A": support * rng.standard_normal((3, 20)),
        "B": rng.standard_normal((20, 2)),
        "x": rng.standard_normal(2),
    }
    shapes = {"A": Variable((3, 20), support), "B": Variable((20, 2)), "x": Variable((2,))}
    cases.append((trace(lambda A, B, x: x + ((A @ B).sum(axis=0) - x), shapes, order=order), inputs))
    compared = 0
    for graph, given in cases:
        for format in (BINARY16, BINARY32, BINARY64):
            found, single = (probable(program, format, point(given)) for program in (graph, lower(graph)))
            assert found.every_outcome.graph.n_nodes == graph.n_nodes
            for name in graph.outputs:
                for mine, other in ((found.elements, single.elements), (found.surely, single.surely)):
                    assert np.isfinite(mine[name]).tolist() == np.isfinite(other[name]).tolist()
                    assert mine[name] == pytest.approx(other[name], rel=1e-12)
                    compared += int(np.isfinite(mine[name]).sum())
    assert compared > 100


@pytest.mark.parametrize("scale", [1.0, 2.0**-500, 2.0**-1030, 2.0**505])
def test_root_spacings_are_no_less_than_the_root_of_squares(scale):
    """In binary64, for products of every size, against rationals; and close, but where squares underflow."""
    rng = np.random.default_rng(32)
    inputs = {"x": scale * rng.standard_normal(30) * 2.0 ** rng.integers(-6, 6, 30), "y": rng.standard_normal(30)}
    graph = trace(lambda x, y: x @ y, inputs, order="serial")
    linears = []
    for program in (graph, lower(graph)):
        arithmetic = EveryOutcome(BINARY64)
        values = analysed(program, arithmetic, BINARY64, point(inputs))[1]
        linear = module.secants(program, arithmetic, values)
        linears.append((linear.local, module.root_spacings(linear, arithmetic, values)))
    [found], locals_ = linears[0][1][60:61], linears[1][0][60:-1]
    assert len(locals_) == 59
    if scale < 2.0**-1000:  # sums are exact, and products round to multiples of the smallest number
        assert Fraction(found) ** 2 >= 30 * Fraction(BINARY64.min_subnormal) ** 2
    else:
        # each of these was rounded up by a factor 1 + 2**-50 of its own
        needed = sum((Fraction(c) ** 2 for c in locals_.tolist()), Fraction(0))
        assert needed <= Fraction(found) ** 2 * (1 + Fraction(1, 2**48)) <= needed * (1 + Fraction(1, 2**40))
    assert found <= linears[0][0][60]


def test_a_ball_holds_its_states():
    """Bounds on a ball are at least those at states in it."""
    graph, inputs = dot_case("signed", BINARY32, 50)
    whole = probable(graph, BINARY32, ball(inputs, "x", 0.01))
    assert whole.error_of("0") >= probable(graph, BINARY32, point(inputs)).error_of("0")
    assert whole.norm_of("0") >= whole.error_of("0")


def test_overflow_leaves_no_bound():
    """Rounding up may reach infinity where rounding to nearest does not."""
    graph = trace(lambda x: x + 0.25, {"x": 1.0}, order="serial")
    region = point({"x": BINARY16.largest})
    assert running(graph, BINARY16, region).first_overflow() is None
    found = probable(graph, BINARY16, region)
    assert found.every_outcome.first_overflow() is not None
    assert found.error_of("0") == found.norm_of("0") == found.surely["0"] == np.inf


def test_what_is_assumed_is_said():
    """Stochastic rounding, conversions to nearest, and the library of a function that is called."""
    graph = trace(lambda x: np.exp(x), {"x": 1.0}, order="serial")
    first, second, library = probable(graph, BINARY16, point({"x": 0.3})).assumptions()
    assert "rounds stochastically" in first and "to nearest" in second and "exp" in library


def test_refusals():
    """No confidence, no model, no order, no such output."""
    graph = trace(lambda x: np.sum(x), {"x": np.ones(3)}, order="serial")
    region = point({"x": np.ones(3)})
    for confidence in (0, 1, 1.5, "nan", "much", -0.1, "1/0"):
        with pytest.raises(InputRejected, match="is no confidence"):
            probable(graph, BINARY16, region, confidence=confidence)
    with pytest.raises(InputRejected, match="no output 'z'"):
        probable(graph, BINARY16, region, ["z"])
    with pytest.raises(InputRejected, match="flushes"):
        probable(graph, format_named("float16,ftz"), region)
    for order in ("serial:float32", "fma", "any-order"):
        with pytest.raises(InputRejected, match=f"no model of the order {order}"):
            probable(with_order(graph, order), BINARY16, region)
    with pytest.raises(OrderUnspecified):
        probable(with_order(graph, None), BINARY16, region)
    mixed = trace(lambda x: x.astype(np.float16) * x, {"x": np.ones(3)}, order="serial")
    with pytest.raises(InputRejected, match="several formats"):
        probable(mixed, BINARY32, region)
