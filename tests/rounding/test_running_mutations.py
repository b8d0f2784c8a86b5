"""A bound with a dropped term is caught: the soundness tests see each of these wrong rules fail."""

# ruff: noqa: D102  (methods here override documented ones)
from importlib import import_module

import numpy as np
import pytest
from random_kernels import PLAIN, ManyRunning, Tally, check, random_case

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64, Format
from certify.arithmetic.enclosure import step_down, step_up
from certify.graph import trace
from certify.rounding import Region, Running, compiled, point, running
from certify.rounding.posterior import computed, error, exact

LOW, HIGH, ERROR = 0, 1, 2
rules = import_module("certify.rounding.running")  # the package exports a function of that name
local = import_module("certify.rounding.local")


class HalvedUlp(ManyRunning):
    """Every rounding moves by a quarter of an ulp."""

    def _half_ulp(self, m):
        return super()._half_ulp(m) / 2


class NoUnderflow(ManyRunning):
    """Products and scalings do not underflow."""

    def __init__(self, format, count):
        super().__init__(format, count)
        self.format = type("NoOmega", (Format,), {"omega": 0.0})(format.name, format.precision, format.emax)


class SumForgetsAnOperand(ManyRunning):
    """A sum carries one operand's error only."""

    def add(self, a, b):
        return super().add(a, b * np.array([1.0, 1.0, 0.0]).reshape(3, *[1] * (b.ndim - 1)))


class ProductForgetsAnOperand(ManyRunning):
    """A product carries one operand's error only."""

    def mul(self, a, b):
        return super().mul(a, b * np.array([1.0, 1.0, 0.0]).reshape(3, *[1] * (b.ndim - 1)))


class LocalOnlyOfTheLowerEnd(ManyRunning):
    """The rounding of a sum is bounded at its lower end instead of its largest magnitude."""

    def _sum(self, a, b):
        ends, m, _ = super()._sum(a, b)
        return ends, m, np.minimum(self._half_ulp(np.abs(ends[LOW])), self._half_ulp(m))


class FreeInputs(ManyRunning):
    """Converting the inputs makes no error."""

    def enclose(self, lower, upper):
        enclosed = super().enclose(lower, upper)
        enclosed[ERROR] = 0.0
        return enclosed


class EagerRelu(ManyRunning):
    """A ReLU carries no error once the computed value is not positive, whatever the exact one is."""

    def relu(self, a):
        result = super().relu(a)
        result[ERROR] = np.where(a[HIGH] <= 0, 0.0, result[ERROR])
        return result


class OneRoundingOverwrite(ManyRunning):
    """Overwriting rounds once, as an assignment would."""

    def overwrite(self, x, y, difference):
        result = super().overwrite(x, y, difference)
        _, _, first = self._sum(y, self.neg(x))
        result[ERROR] = np.minimum(result[ERROR], y[ERROR] + np.minimum(first, self._half_ulp(np.abs(y[HIGH]))))
        return result


class NarrowOverwrite(ManyRunning):
    """Overwriting returns a number between the ends of the new value."""

    def overwrite(self, x, y, difference):
        result = super().overwrite(x, y, difference)
        return np.stack([np.maximum(result[LOW], y[LOW]), np.minimum(result[HIGH], y[HIGH]), result[ERROR]])


class FreeScaling(ManyRunning):
    """Scaling down never rounds."""

    def scale(self, a, exponent):
        result = super().scale(a, exponent)
        result[ERROR] = np.ldexp(a[ERROR], exponent)
        return result


class TwoCorners(ManyRunning):
    """A product is extreme at the corners (lo, lo) and (hi, hi)."""

    def mul(self, a, b):
        result = super().mul(a, b)
        ends = self.format.round(np.stack([a[LOW] * b[LOW], a[HIGH] * b[HIGH]]))
        return np.stack([ends.min(axis=0), ends.max(axis=0), result[ERROR]])


class InwardEnds(ManyRunning):
    """Ends of sums are one step too narrow."""

    def add(self, a, b):
        result = super().add(a, b)
        wide = result[HIGH] > result[LOW]
        result[LOW] = np.where(wide, step_up(result[LOW]), result[LOW])
        result[HIGH] = np.where(wide, step_down(result[HIGH]), result[HIGH])
        return result


MUTANTS = (
    HalvedUlp,
    NoUnderflow,
    SumForgetsAnOperand,
    ProductForgetsAnOperand,
    LocalOnlyOfTheLowerEnd,
    FreeInputs,
    EagerRelu,
    OneRoundingOverwrite,
    NarrowOverwrite,
    FreeScaling,
    TwoCorners,
    InwardEnds,
)
INVISIBLE = {  # a mutation that changes nothing in a format: omega of binary64 is far below what its other terms add
    (NoUnderflow, "float64"),
    (FreeInputs, "float64"),  # binary64 states are converted without error, except inside a box, whose samples are not
}


@pytest.fixture(autouse=True)
def _by_numpy():
    """A bug that is planted in NumPy's rules does not reach the compiled loops."""
    with compiled.always(False):
        yield


def _violations(mutant, format, seeds):
    tally = Tally()
    for seed in seeds:
        graph, boxes, label = random_case(seed, format, points=6, boxes=3)
        check(graph, format, boxes, tally, label, mutant)
        if tally.violations:
            break
    return tally.violations


@pytest.mark.parametrize("name", PLAIN)
def test_the_rules_themselves_are_not_caught(name):
    """The control of this file: without a mutation the same kernels show no violation."""
    assert _violations(ManyRunning, PLAIN[name], range(150)) == []


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_bound_with_a_dropped_term_is_caught(mutant, name):
    """Random kernels of the default suite refute each wrong rule; the unmodified rules pass them all."""
    if (mutant, name) in INVISIBLE:
        pytest.skip("this term is zero in this format")
    assert _violations(mutant, PLAIN[name], range(1500)) != []


@pytest.mark.parametrize(
    ("name", "value", "format"),
    [("UP", 1.0, f) for f in PLAIN] + [("TINY", 0.0, f) for f in ("bfloat16", "float32", "float64")],
)
def test_a_bound_rounded_to_nearest_is_caught(monkeypatch, name, value, format):
    """The factor and the summand that round the bounds upward are both needed."""
    monkeypatch.setattr(rules, name, value)
    assert _violations(ManyRunning, PLAIN[format], range(1500)) != []


def test_a_magnitude_rounded_down_to_a_power_of_two_is_caught(monkeypatch):
    """In binary64 the ends of a power of two must be settled by their exact error."""
    monkeypatch.setattr(local, "settle", lambda *_: None)
    assert _violations(ManyRunning, BINARY64, range(1500)) != []


SUM = trace(lambda x, y: x + y, {"x": 1.0, "y": 1.0}, order="serial")
PRODUCT = trace(lambda x, y: x * y, {"x": 1.0, "y": 1.0}, order="serial")


@pytest.mark.parametrize(
    ("graph", "x", "y"),
    [
        (SUM, 1.0, 2.0**-53),  # a tie: 1 is returned, the error is 2**-53, twice half an ulp below 1
        (SUM, 1.0, 0.99 * 2.0**-53),
        (SUM, -1.0, -(2.0**-54)),
        (PRODUCT, 1 + 2.0**-52, 1 - 2.0**-53),  # 1 + 2**-53 - 2**-105 rounds to 1
        (PRODUCT, 2.0**-500 * (1 + 2.0**-52), -(2.0**-400) * (1 - 2.0**-53)),
        (PRODUCT, 2.0**-500 * (1 + 2.0**-52), 2.0**-480 * (1 - 2.0**-53)),  # below the reach of Dekker's error term
        (PRODUCT, 2.0**900 * (1 + 2.0**-52), 2.0**100 * (1 - 2.0**-53)),
        (PRODUCT, 2.0**1000 * (1 + 2.0**-52), 2.0**-1000 * (1 - 2.0**-53)),
    ],
)
def test_binary64_results_just_above_a_power_of_two(graph, x, y):
    """The error there exceeds half an ulp below the power, and the bound covers it."""
    inputs = {"x": np.array(x), "y": np.array(y)}
    observed = error(computed(graph, BINARY64, inputs, "0"), exact(graph, inputs, "0"))[()]
    bounds = running(graph, BINARY64, point(inputs))
    result = abs(bounds.low[2])
    assert result == 2.0 ** np.floor(np.log2(result))
    assert observed > np.ldexp(result, -55)
    assert observed <= bounds.error_of("0")[()]


@pytest.mark.parametrize("format", [BFLOAT16, BINARY16], ids=lambda f: f.name)
def test_the_product_of_two_errors_is_needed(monkeypatch, format):
    """Ties in both conversions and in the product reach |a| E_b + |b| E_a + E_a E_b + h exactly.

    The operands are even significands s, t plus a half, which round down; s t ends in a half ulp above an even
    significand, so it rounds down too: the error is (s + t)/2 + 1/4 + ulp/2.
    """
    top = 2**format.precision
    s, t = (x.ravel() for x in np.meshgrid(*2 * [np.arange(top // 2, top, 2)], indexing="ij"))
    ulp = np.where(s * t < top * top // 2, top // 2, top)
    ties = (s * t % ulp == ulp // 2) & (s * t // ulp % 2 == 0)
    s, t, ulp = (x[ties][:500] for x in (s, t, ulp))
    assert len(s) >= 50
    graph = trace(lambda x, y: x * y, {"x": np.ones(len(s)), "y": np.ones(len(s))}, order="serial")
    inputs = {"x": (s + 0.5) / top, "y": (t + 0.5) / top}
    observed = error(computed(graph, format, inputs, "0"), exact(graph, inputs, "0"))
    assert (observed == ((s + t) / 2 + 0.25 + ulp / 2) / top**2).all()
    assert (observed <= running(graph, format, point(inputs)).error_of("0")).all()

    complete = Running.mul

    def first_order(self, a, b):
        result = complete(self, a, b)
        result[ERROR] -= a[ERROR] * b[ERROR]
        return result

    monkeypatch.setattr(Running, "mul", first_order)
    assert (observed > running(graph, format, point(inputs)).error_of("0")).all()


def test_halving_the_largest_subnormal_neighbour_rounds():
    """(2**53 - 1) 2**-1074, halved in binary64, rounds up to the smallest normal number: an error of 2**-1075."""
    graph = trace(lambda x: x / 2, {"x": 1.0}, order="serial")
    inputs = {"x": np.array(BINARY64.min_normal * 2 - BINARY64.min_subnormal)}
    observed = error(computed(graph, BINARY64, inputs, "0"), exact(graph, inputs, "0"))[()]
    assert observed > 0
    assert observed <= running(graph, BINARY64, point(inputs)).error_of("0")[()]


@pytest.mark.parametrize("format", [BINARY16, BFLOAT16, BINARY32], ids=lambda f: f.name)
def test_scaling_down_to_the_smallest_normal_number_rounds_in_every_format(format):
    """The same threshold in the formats whose scaling is exact in binary64; on points and on boxes."""
    graph = trace(lambda x: x / 2, {"x": 1.0}, order="serial")
    x = np.array(2 * format.min_normal - format.min_subnormal)
    for region in (point({"x": x}), Region({"x": x / 2}, {"x": x}, representable=True)):
        observed = error(computed(graph, format, {"x": x}, "0"), exact(graph, {"x": x}, "0"))[()]
        assert observed == format.omega
        assert observed <= running(graph, format, region).error_of("0")[()]
