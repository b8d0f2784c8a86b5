"""Programs with a format per instruction against exact arithmetic: every order, every format, random mixtures."""

# ruff: noqa: D102  (methods here override documented ones)
import numpy as np
import pytest
from own_formats import NARROW, OWN, own_case
from random_kernels import ManyEveryOrder, ManyRunning, Tally, check, floats
from random_trees import any_floats

from certify.arithmetic import format_named
from certify.graph import order_named

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
