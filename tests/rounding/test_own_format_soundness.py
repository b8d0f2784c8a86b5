"""Programs with a format per instruction against exact arithmetic: every order, every format, random mixtures."""

# ruff: noqa: D102  (methods here override documented ones)
import numpy as np
import pytest
from own_format_cases import NARROW, OWN, own_case
from random_kernels import REGISTERS, ManyEveryOrder, ManyRunning, Tally, check, exact_values, exceeds, floats
from random_trees import any_floats

import certify
from certify.arithmetic import BINARY16, BINARY32, format_named
from certify.errors import InputRejected
from certify.graph import order_named, trace, with_order
from certify.rounding import Region, majorant, point, range_test, running
from certify.rounding.attained import attained
from certify.rounding.posterior import computed, error, exact

ORDERS = ("serial", "pairwise", "blocked(2)", "fma", "any-order")
PROGRAMS = ("float16", "bfloat16", "float32", "float64", "e4m3", "float16,ftz", "float64,ftz", "p=24,emin=-40,emax=300")
EACH = [(name, order, OWN) for name in PROGRAMS for order in ORDERS]
WIDER = [(name, f"{order}:float32", NARROW) for name in ("float16", "bfloat16", "float32") for order in ORDERS]
WIDEST = [("float32", f"{order}:float64", (*NARROW, "float64")) for order in ("serial", "fma", "any-order")]
ALL = [*EACH, *WIDER, *WIDEST]


def _run(name, order, names, seeds, points, boxes, arithmetic=None):
    format, tally = format_named(name), Tally()
    every = order_named(order).is_any
    rng = np.random.default_rng(12)
    compute = (lambda graph, f, samples: any_floats(graph, f, samples, rng)) if every else floats
    arithmetic = arithmetic or (ManyEveryOrder if every else ManyRunning)
    for seed in seeds:
        graph, regions, label = own_case(seed, format, points, boxes, order, names)
        check(graph, format, regions, tally, label, arithmetic, compute)
        if tally.violations:
            break
    return tally


@pytest.mark.parametrize(("name", "order", "names"), ALL, ids=[f"{name}-{order}" for name, order, _ in ALL])
def test_error_range_and_enclosure_hold_with_own_formats(name, order, names):
    """|computed - exact| <= error, low <= computed <= high, no overflow where none is announced, at every node."""
    tally = _run(name, order, names, range(6), points=10, boxes=5)
    assert tally.violations == []
    assert tally.checked >= 10


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order", "names"), ALL, ids=[f"{name}-{order}" for name, order, _ in ALL])
def test_error_range_and_enclosure_hold_with_own_formats_longer(name, order, names):
    """As above, for about 20,000 pairs of a graph and a region."""
    tally = _run(name, order, names, range(10**6, 10**6 + 1000), points=24, boxes=12)
    assert tally.violations == []
    assert tally.checked >= 5_000


class OperandsTakenForNumbers(ManyRunning):
    """Every operand is taken for a number of the result's format."""

    def compute_in(self, format, left=None, right=None, products=False):
        super().compute_in(format)


class SumsBoundedByBothOperands(ManyRunning):
    """A sum moves by no more than either operand, whatever their formats."""

    def _sum_of_any(self, a, b):
        ends, m, local = super()._sum_of_any(a, b)
        return ends, m, np.minimum(local, np.minimum(np.maximum(-a[0], a[1]), np.maximum(-b[0], b[1])))


class SumsNeverUnderflow(ManyRunning):
    """Small sums are taken for exact ones, whatever their operands."""

    def _sum_of_any(self, a, b):
        ends, m, local = super()._sum_of_any(a, b)
        return ends, m, local * (m > self._exact_sums)


class SumsRoundedTwice(ManyRunning):
    """The ends of sums are rounded to binary64 first."""

    def _sum_of_any(self, a, b):
        _, m, local = super()._sum_of_any(a, b)
        return a[:2] + b[:2], m, local


class ProductsRoundedTwice(ManyRunning):
    """The ends of products are rounded to binary64 first, whatever their operands."""

    def compute_in(self, format, left=None, right=None, products=False):
        super().compute_in(format, left, right, products)
        self._rounded_twice = False


class ProductsAlwaysFit(ManyRunning):
    """Products of short numbers are exact, although they may underflow."""

    def compute_in(self, format, left=None, right=None, products=False):
        super().compute_in(format, left, right, products)
        self._products_exact = not self._products_round


class CastsAreFree(ManyRunning):
    """A cast rounds its enclosure and makes no error."""

    def cast(self, a):
        result = super().cast(a)
        result[2] = a[2]
        return result


class OverwritingIsAlwaysSharp(ManyRunning):
    """The rule of overwriting is used although the difference was rounded to another format."""

    def compute_in(self, format, left=None, right=None, products=False):
        super().compute_in(format, left, right, products)
        self._uniform = True


class ScalingsAreExact(ManyRunning):
    """Scaling a number of another format does not round."""

    def _scaled(self, a, exponent):
        result = super()._scaled(a, exponent)
        result[2] = np.ldexp(a[2], exponent)
        return result


class ZerosAddNothing(ManyEveryOrder):
    """In any order, a term that is 0 is added to a wider number without rounding it."""

    def sum(self, a, live):
        return super().sum(a, (np.abs(a[:2]).max(axis=0) > 0).sum(axis=-2))


class ReplacedInAnyFormat(ManyEveryOrder):
    """In any order, the sharp rule of overwriting holds for numbers of any format that the result's contains."""

    def overwrite(self, x, y, difference):
        kept, self._uniform = self._uniform, self._left_in and self._right_in
        result = super().overwrite(x, y, difference)
        self._uniform = kept
        return result


WRONG = (
    *((OperandsTakenForNumbers, name, "serial") for name in ("float16", "float32")),
    *((SumsBoundedByBothOperands, name, "serial") for name in ("bfloat16", "float64")),
    *((SumsNeverUnderflow, name, "serial") for name in ("float32", "float64")),
    *((SumsRoundedTwice, name, "serial") for name in ("float64",)),
    *((ProductsRoundedTwice, name, "serial") for name in ("float64",)),
    *((ProductsAlwaysFit, name, "serial") for name in ("float16",)),
    *((CastsAreFree, name, "serial") for name in ("float16", "float64")),
    *((OverwritingIsAlwaysSharp, name, "serial") for name in ("float16", "float32")),
    *((ScalingsAreExact, name, "serial") for name in ("float32",)),
    *((ZerosAddNothing, name, "any-order") for name in ("float16", "float64")),
    *((ReplacedInAnyFormat, name, "any-order") for name in ("float32",)),
)


@pytest.mark.parametrize(("rules", "name", "order"), WRONG, ids=[f"{r.__name__}-{name}" for r, name, _ in WRONG])
def test_rules_without_a_guard_are_caught(rules, name, order):
    """What is proved only of numbers of the format fails where operands are wider."""
    assert _run(name, order, OWN, range(400), points=10, boxes=5, arithmetic=rules).violations


@pytest.mark.parametrize("order", ["serial", "pairwise", "any-order"])
@pytest.mark.parametrize("name", ["float16", "float32", "float64,ftz", "e4m3"])
def test_majorant_bounds_hold_with_own_formats(name, order):
    """Of programs that do not overflow, at every output."""
    format, checked = format_named(name), 0
    for seed in range(25):
        graph, regions, label = own_case(
            seed, format, 8, 0, order, tuple(name for name in OWN if name != "e5m2")
        )  # too short for sums
        for box in regions:
            inputs = {register: box.lower[k] for k, register in enumerate(REGISTERS)}
            bounds = majorant(graph, format, point(inputs))
            found = floats(with_order(graph, order_named(order).program.name), format, box.samples)
            values = exact_values(graph, box.samples)
            # no overflow so far, nor in what the bound says of it
            inside = (
                np.isfinite(found) & np.isfinite(bounds.error) & (np.maximum.accumulate(~np.isfinite(found), 1) == 0)
            )
            checked += int(inside.sum())
            assert not exceeds(values[:, inside], found[inside], bounds.error[inside[0]]).any(), label
    assert checked > 2000


def test_every_node_has_its_own_limit():
    """A float32 accumulation passes 65504 and may; its cast to float16 may not, and is named with that limit."""

    def kernel(x):
        with certify.precision("float32"):
            s = np.sum(x * x)
        y = s.astype(x.dtype)
        return y

    graph, inputs = trace(kernel, {"x": np.ones(4)}, order="serial"), {"x": np.full(4, 200.0)}
    bounds = running(graph, BINARY16, point(inputs))
    assert bounds.why(bounds.first_overflow()).startswith("an enclosure that passes 65504 at register y")
    tested = range_test(bounds, point(inputs))
    assert tested.place.startswith("register y") and tested.witness is not None
    inside = {"x": np.full(4, 100.0)}
    tested = range_test(running(graph, BINARY16, point(inside)), point(inside))
    assert tested.node is None and tested.max_magnitude == 40000.0


def test_the_largest_result_of_a_wide_register_is_not_held_against_the_program():
    """A float32 register of a float16 program may be larger than 65504; a saturating own format may not."""

    def kernel(x, name):
        with certify.precision(name):
            y = x * x
        return y / 4

    for name, proved in (("float32", True), ("e4m3,saturate", False), ("e4m3", False)):
        graph = trace(lambda x, name=name: kernel(x, name), {"x": np.ones(2)}, order="serial")
        region = point({"x": np.array([300.0, 2.0])})
        tested = range_test(running(graph, BINARY16, region), region)
        assert (tested.node is None) is proved
        assert proved or tested.witness is not None  # it does overflow, also where overflow saturates
        assert not proved or tested.max_magnitude == 90000.0


def test_an_accumulator_that_cannot_hold_an_own_format_is_refused():
    """Sums of float64 registers in float32: the message names both."""

    def kernel(x):
        with certify.precision("float64"):
            return np.sum(x)

    graph = trace(kernel, {"x": np.ones(3)}, order="serial:float32")
    with pytest.raises(InputRejected, match=r"float32 cannot hold every number of float64"):
        running(graph, BINARY16, point({"x": np.ones(3)}))


def test_the_adversary_knows_the_formats():
    """What it reaches is within the bound and near it; a cast that is exact does not move."""

    def kernel(x, w):
        h = certify.cast(x * w, "bfloat16")
        return h.astype(np.float32) + x

    inputs = {"x": np.array([1.2345, -0.377]), "w": np.array([0.77, 3.1])}
    inputs = {name: value.astype(np.float32).astype(np.float64) for name, value in inputs.items()}
    graph = trace(kernel, inputs, order="serial")
    bounds = running(graph, BINARY32, Region(inputs, inputs, representable=True))
    for index in ((0,), (1,)):
        reached = float(attained(graph, BINARY32, inputs, "0", index))
        assert 0.9 * bounds.error_of("0")[index] <= reached <= bounds.error_of("0")[index]


@pytest.mark.parametrize("order", ["serial", "any-order"])
def test_the_error_of_one_rounding_is_that_rounding(order):
    """A kernel in float32 with a cast to float16: the bound is half an ulp of float16, and the error itself is inside."""
    inputs = {"x": np.float64(np.float32(1 / 3) + np.zeros(2))}
    graph = trace(lambda x: x.astype(np.float16), inputs, order=order)
    bounds = running(graph, BINARY32, Region(inputs, inputs, representable=True))
    assert np.allclose(bounds.error_of("0"), 2.0**-13, rtol=1e-9)
    found = error(computed(graph, BINARY32, inputs, "0"), exact(graph, inputs, "0"))
    assert (found > 0).all() and (found <= bounds.error_of("0")).all()


def test_what_is_rounded_in_one_place_only_does_not_cancel():
    """X plus its negation in a narrower format is not 0; nor, where a product may be fused, a product less itself."""

    def narrower(x):
        with certify.precision("e4m3"):
            d = 0.0 - x
        with certify.precision("float32"):
            return x + d

    x = {"x": np.array([1.3])}
    assert running(trace(narrower, x, order="serial"), BINARY32, point(x)).error_of("0") >= 1.3 - 1.25

    def fused(x):
        p = x * x
        return p - p

    v = float(np.float32(1.3))
    apart = abs(float(np.float32(v * v)) - v * v)
    assert running(trace(fused, x, order="any-order"), BINARY32, point(x)).error_of("0") >= apart > 0
    assert running(trace(fused, x, order="serial"), BINARY32, point(x)).low[-2] == 0.0


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: np.where(x < 1, x, x),
        lambda x: np.max(x),
        lambda x: np.where(np.array([True]), x, 0 * x),
        lambda x: np.maximum(x, x),
        lambda x: np.sum(x),
    ],
)
def test_what_is_handed_on_is_rounded_to_the_format_in_force(kernel):
    """A choice between equals, the largest of one, a sum of one: in e4m3 1.3 becomes 1.25."""

    def narrow(x):
        with certify.precision("e4m3"):
            return kernel(x)

    x = {"x": np.array([1.3])}
    assert running(trace(narrow, x, order="serial"), BINARY32, point(x)).error_of("0") >= 1.3 - 1.25


@pytest.mark.parametrize(
    ("kernel", "x", "name"),
    [
        (lambda x: (x * 0 + 1.25) + (x * 0 + 0.25), np.array([0.0, 1.0]), "p=2,emin=-14,emax=15"),
        (lambda x: np.zeros(3) * x[0] + 1.25 + 0.25, np.array([1.0]), "p=2,emin=0,emax=2"),
    ],
)
def test_known_numbers_are_computed_in_narrow_formats(kernel, x, name):
    """1.25 + 0.25 in two bits is 1, not 1.5: the constants are rounded, and so is their sum."""
    from certify import tolerance

    assert (tolerance(kernel, {"x": x}, format=name).error["0"] >= 0.5).all()


def test_a_format_without_the_number_1_is_refused():
    """Ones are folded in every graph."""
    with pytest.raises(InputRejected, match="does not hold the number 1"):
        format_named("p=4,emin=2,emax=9")


@pytest.mark.parametrize("order", ["serial", "pairwise", "blocked(2)", "any-order"])
def test_adding_a_known_zero_rounds_a_wider_number(order):
    """(y + 0) + a in binary16, y and a in binary32, rounds twice; y + a rounds once, by less than that."""
    y, a = 1 + 2.0**-11 + 2.0**-20, 3 + 2.0**-10 + 2.0**-20

    def kernel(y, a):
        zero = y - y
        with certify.precision("float16"):
            return np.sum(np.stack([y, zero, a]))

    graph = trace(kernel, {"y": y, "a": a}, order=order)
    found = running(graph, BINARY32, point({"y": y, "a": a})).error_of("0")
    first = np.float16(y + 0.0)  # numbers of binary64 hold both sums
    assert abs(float(np.float16(float(first) + a)) - (y + a)) <= found
