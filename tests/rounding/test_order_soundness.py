"""Every order model and format against exact arithmetic: fixed programs, and random programs of `any-order`."""

# ruff: noqa: D102  (methods here override documented ones)
from dataclasses import fields

import numpy as np
import pytest
from random_kernels import (
    PLAIN,
    REGISTERS,
    ManyEveryOrder,
    ManyRunning,
    Tally,
    check,
    exact_values,
    exceeds,
    floats,
    random_case,
)
from random_trees import any_floats

from certify.arithmetic import BINARY64, Format, format_named
from certify.graph import order_named
from certify.rounding import Region, majorant
from certify.rounding.anyorder import EveryOrder

FORMATS = (
    *("float16", "bfloat16", "tf32", "float32", "float64", "e4m3", "e5m2", "e4m3,saturate", "e5m2,saturate"),
    *("float16,ftz", "float32,ftz", "float64,ftz", "bfloat16,ftz"),
    *("p=5,emin=-3,emax=4,ftz", "p=2,emin=-3,emax=7", "p=24,emin=-40,emax=300,saturate"),
)
ORDERS = ("serial", "pairwise", "blocked(2)", "fma", "any-order")
MIXED = (
    *(("float16", f"{order}:float32") for order in ORDERS),
    *(("float32", f"{order}:float64") for order in ("serial", "fma", "any-order")),
    *(("bfloat16", "any-order:float32"), ("bfloat16", "fma:float32"), ("e4m3", "any-order:float16")),
    *(("e5m2", "any-order:float16"), ("e5m2", "serial:float16"), ("float16,ftz", "any-order:float32")),
    *(("e4m3,saturate", "any-order:float32"), ("float64", "any-order:float64"), ("float32", "any-order:float32")),
)
EACH = [(name, order) for name in FORMATS for order in ORDERS]


def _run(name, order, seeds, points, boxes, arithmetic=None):
    format, tally = format_named(name), Tally()
    every = order_named(order).is_any
    rng = np.random.default_rng(12)
    compute = (lambda graph, f, samples: any_floats(graph, f, samples, rng)) if every else floats
    arithmetic = arithmetic or (ManyEveryOrder if every else ManyRunning)
    for seed in seeds:
        graph, regions, label = random_case(seed, format, points, boxes, order)
        check(graph, format, regions, tally, label, arithmetic, compute)
        if tally.violations:
            break
    return tally


@pytest.mark.parametrize(("name", "order"), [*EACH, *MIXED])
def test_error_range_and_enclosure_hold_in_every_order(name, order):
    """|computed - exact| <= error, low <= computed <= high, no overflow where none is announced, at every node."""
    tally = _run(name, order, range(10), points=12, boxes=6)
    assert tally.violations == []
    assert tally.checked >= 80


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order"), [*EACH, *MIXED])
def test_error_range_and_enclosure_hold_in_every_order_longer(name, order):
    """As above, for 20,000 pairs of a graph and a region."""
    tally = _run(name, order, range(10**6, 10**6 + 1000), points=24, boxes=12)
    assert tally.violations == []
    assert tally.checked >= 20_000


class NoDrift(ManyEveryOrder):
    """The additions of a sum round by nothing, but for the last."""

    def _drift(self, *arguments):
        drift, linear = super()._drift(*arguments)
        return 0.0 * drift, linear


class OneAdditionLess(ManyEveryOrder):
    """n - 2 roundings instead of n - 1."""

    def _tree(self, ends, parts, n, *rest):
        return super()._tree(ends, parts, np.where(n > 1, np.maximum(n - 1, 1), n), *rest)


class OnlyTheTotal(ManyEveryOrder):
    """Partial sums are no larger than the total."""

    def _tree(self, ends, parts, *rest):
        return super()._tree(ends, (np.maximum(-ends[0], 0.0), np.maximum(ends[1], 0.0)), *rest)


class RoundedProductsOnly(ManyEveryOrder):
    """No elementwise product is fused."""

    def _kept(self, ends, rounded, moves):
        return rounded


class SameOperand(ManyEveryOrder):
    """Overwriting a product takes it out rounded, and puts it in rounded."""

    def _replacing(self, *arguments):
        first, second, _ = super()._replacing(*arguments)
        return first, second, 0.0


class NoFlush(ManyRunning):
    """Results that underflow are rounded, not flushed."""

    def _flushed(self, ends, m):
        return np.zeros(m.shape)


class NoFlushOfSums(ManyRunning):
    """Sums are exact below 2**(emin + 1), as they are with subnormals."""

    def _sum(self, a, b):
        least, self._least = self._least, 0.0
        result = super()._sum(a, b)
        self._least = least
        return result


class FreeNarrowing(ManyRunning):
    """A total goes from the accumulator to the format without a rounding."""

    def narrow(self, a):
        result = super().narrow(a)
        result[2] = a[2]
        return result


class FreeFusedProducts(ManyRunning):
    """A fused multiply-add does not round."""

    def fma(self, a, b, c):
        result = super().fma(a, b, c)
        exact = (a[0] == a[1]) & (b[0] == b[1]) & (c[0] == c[1]) & (a[2] == 0) & (b[2] == 0)
        result[2] = np.where(exact, c[2], result[2])
        return result


@pytest.mark.parametrize(
    ("mutant", "name", "order"),
    [
        (NoDrift, "p=2,emin=-3,emax=7", "any-order"),
        (NoDrift, "e5m2", "any-order"),
        (OneAdditionLess, "p=2,emin=-3,emax=7", "any-order"),
        (OnlyTheTotal, "p=2,emin=-3,emax=7", "any-order"),
        (OnlyTheTotal, "float16", "any-order"),
        (RoundedProductsOnly, "float16", "any-order"),
        (RoundedProductsOnly, "float64", "any-order"),
        (SameOperand, "float16", "any-order"),
        (NoFlush, "float16,ftz", "serial"),
        (NoFlush, "float64,ftz", "fma"),
        (NoFlushOfSums, "float16,ftz", "serial"),
        (FreeNarrowing, "float16", "serial:float32"),
        (FreeFusedProducts, "bfloat16", "fma"),
    ],
)
def test_a_wrong_rule_is_caught(mutant, name, order):
    """The kernels that the rules pass refute each of them with a term left out."""
    assert _run(name, order, range(1500), 12, 6, mutant).violations != []


class FlushesBefore(Format):
    """Tiny before rounding: everything below 2**emin is flushed."""

    threshold = 1.0

    @property
    def unbounded(self):
        return self

    def round(self, x):
        x = np.asarray(x)
        return np.where(np.abs(x) < self.threshold * self.min_normal, np.copysign(0.0, x), super().round(x))


class FlushesAfter(FlushesBefore):
    """Tiny after rounding with unbounded exponents, as x86 has it: what rounds up to 2**emin in p bits stays."""

    @property
    def threshold(self):
        return 1 - self.u / 2


class EndsAsEmulated(ManyRunning):
    """Ends of enclosures are flushed as the emulation flushes."""

    def _inward(self, ends):
        return ends


def _with_hardware(kind, name, order, seeds, arithmetic):
    format, tally, rng = format_named(name).unbounded, Tally(), np.random.default_rng(20)
    hardware = kind(*(getattr(format, field.name) for field in fields(Format)))
    run = (lambda *a: any_floats(*a, rng)) if order_named(order).is_any else floats
    for seed in seeds:
        graph, regions, label = random_case(seed, format, 12, 6, order)
        check(graph, format, regions, tally, label, arithmetic, lambda g, _, samples: run(g, hardware, samples))
    return tally


@pytest.mark.parametrize("order", ["serial", "fma", "any-order"])
@pytest.mark.parametrize("name", ["float16,ftz", "p=5,emin=-3,emax=4,ftz"])
@pytest.mark.parametrize("kind", [FlushesBefore, FlushesAfter])
def test_bounds_hold_for_hardware_that_flushes_otherwise(kind, name, order):
    """Tininess before rounding, or after it with unbounded exponents: other results than the emulation, same bounds."""
    every = order_named(order).is_any
    tally = _with_hardware(kind, name, order, range(30), ManyEveryOrder if every else ManyRunning)
    assert tally.violations == []
    assert tally.checked >= 300


def test_ends_that_flush_as_the_emulation_does_are_caught():
    """They need the step to zero at 2**emin."""
    assert (
        _with_hardware(FlushesBefore, "p=5,emin=-3,emax=4,ftz", "serial", range(100), EndsAsEmulated).violations != []
    )


@pytest.mark.parametrize(
    ("name", "order"), [("float16", "any-order:float32"), ("float16,ftz", "any-order"), ("e4m3,saturate", "any-order")]
)
def test_majorants_hold_in_every_order_and_format(name, order):
    """The paper's rules with accumulators and flushing; hundreds of regions that stay in range."""
    format, rng, pairs = format_named(name), np.random.default_rng(13), 0
    for seed in range(120):
        graph, boxes, label = random_case(seed, format, points=3, boxes=1, order=order)
        for box in boxes:
            ends = (dict(zip(REGISTERS, x, strict=True)) for x in (box.lower, box.upper))
            bounds = majorant(graph, format, Region(*ends, box.representable))
            if bounds.first_overflow() is not None or bounds.peak > format.largest / 2:
                continue
            pairs += 1
            computed = any_floats(graph, format, box.samples, rng)
            inside = np.isfinite(computed)
            error = np.broadcast_to(bounds.error, computed.shape)[inside]
            exact = exact_values(graph, box.samples)[:, inside]
            assert not exceeds(exact, computed[inside], error).any(), label
    assert pairs >= 100


def test_the_formats_of_the_older_tests_are_in_this_one():
    """Nothing is tested only there."""
    assert set(PLAIN) <= set(FORMATS)


def test_overwriting_an_unrounded_product_next_to_a_power_of_two():
    """1 + 2**-53 is halfway between two binary64 numbers: that half ulp is charged, though the ends of the sum round to 1."""
    every = EveryOrder(BINARY64)
    x = np.array([[1.0], [1.0], [0.0], [1.0]])
    y, difference = (np.array([[v], [v], [0.0], [0.0]]) for v in (1.0 + 2.0**-52, 2.0**-53))
    _, (_, _, second), _ = every._replacing(x, y, difference)
    assert second[0] >= 2.0**-53
