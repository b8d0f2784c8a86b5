"""Stochastic rounding as emulated: neighbours only, unbiased, exact probabilities, and what it refuses."""

# ruff: noqa: D102  (methods here override documented ones)
from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64, E4M3, format_named
from certify.arithmetic.stochastic import Stochastic
from certify.errors import InputRejected, OrderUnspecified
from certify.graph import evaluate, trace

FORMATS = (E4M3, BINARY16, BFLOAT16, BINARY32, BINARY64)
EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


class Bits:
    """A generator whose uniform numbers are given, again and again."""

    def __init__(self, *numbers):
        self.numbers = numbers
        self.drawn = 0

    def random(self, shape=None):
        if shape is None:
            self.drawn += 1
            return self.numbers[self.drawn % len(self.numbers)]
        return np.full(shape, self.numbers[0])


def _with(format, generator):
    arithmetic = Stochastic(format, 0)
    arithmetic._rng = generator
    return arithmetic


def _around(y, f):
    """The numbers of a format around a rational, by integers."""
    size = abs(y)
    e = f.emin
    while Fraction(2) ** (e + 1) <= size:
        e += 1
    quantum = Fraction(2) ** (e - f.precision + 1)
    below = y // quantum
    return below * quantum, (below if below * quantum == y else below + 1) * quantum


def _operands(rng, f, n):
    """Numbers of a format of many sizes, subnormal ones among them."""
    exponents = rng.integers(max(f.emin - f.precision + 2, -60), min(f.emax - 1, 60) // 2, n)
    a = rng.uniform(1, 2, n) * 2.0**exponents * rng.choice([-1.0, 1.0], n)
    return f.round(np.where(rng.random(n) < 0.3, f.round(rng.uniform(-2, 2, n)), a))


@pytest.mark.parametrize("f", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("name", EXACT)
def test_results_are_neighbours_of_the_exact_one(f, name):
    """Of 300 pairs, drawn high, low and at random; both neighbours occur, and numbers of the format stay."""
    rng = np.random.default_rng(3)
    a, b = _operands(rng, f, 300), _operands(rng, f, 300)
    b = np.where(b == 0, 1.0, b)
    machines = [_with(f, Bits(0.0)), _with(f, Bits(1.0 - 2.0**-53)), Stochastic(f, 5)]
    results = [getattr(machine, name)(a, b) for machine in machines]
    compared = 0
    for k, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        lo, hi = _around(EXACT[name](Fraction(x), Fraction(y)), f)
        if max(abs(lo), abs(hi)) > Fraction(f.largest):
            continue
        compared += 1
        found = [Fraction(float(result[k])) for result in results]
        assert found[0] == hi
        assert found[1] == lo or EXACT[name](Fraction(x), Fraction(y)) >= hi - (hi - lo) / 2**52
        assert found[2] in (lo, hi)
    assert compared > 150


@pytest.mark.parametrize("f", FORMATS, ids=lambda f: f.name)
def test_roots_are_neighbours(f):
    """Squares of what is drawn low and high enclose the number."""
    a = np.abs(_operands(np.random.default_rng(4), f, 200))
    low, high = (_with(f, Bits(u)).sqrt(a) for u in (1.0 - 2.0**-53, 0.0))
    for x, lo, hi in zip(a.tolist(), low.tolist(), high.tolist(), strict=True):
        assert Fraction(lo) ** 2 <= Fraction(x) <= Fraction(hi) ** 2
        around = _around((Fraction(lo) + Fraction(hi)) / 2, f)
        assert lo == hi or around == (Fraction(lo), Fraction(hi))


@pytest.mark.parametrize(
    ("f", "name", "a", "b"),
    [
        (BINARY16, "add", 1.0, 2.0**-12),
        (BINARY16, "add", 1.0, -(2.0**-14)),
        (BINARY16, "mul", 1.0 + 2.0**-10, 1.0 + 3 * 2.0**-10),
        (BINARY16, "mul", 2.0**-14, 0.3 * 2.0**-8),
        (BFLOAT16, "div", 1.0, 3.0),
        (BINARY32, "sub", 1.0, 2.0**-26 * 1.5),
        (BINARY64, "add", 1.0, 2.0**-54 * 1.25),
        (BINARY64, "add", 1.0, -(2.0**-55)),
    ],
)
def test_the_mean_is_the_exact_result(f, name, a, b):
    """100,000 draws: the share that goes up is that of the exact result, within 5 standard deviations."""
    runs = 100_000
    b = float(f.round(np.array(b)))
    result = getattr(Stochastic(f, 11), name)(np.full(runs, a), np.full(runs, b))
    y = EXACT[name](Fraction(a), Fraction(b))
    lo, hi = _around(y, f)
    share = float((y - lo) / (hi - lo))
    assert 0 < share < 1
    ups = int((result == float(hi)).sum())
    assert ups + int((result == float(lo)).sum()) == runs
    assert abs(ups - share * runs) <= 5 * np.sqrt(share * (1 - share) * runs)


def test_products_and_quotients_of_binary64_are_unbiased():
    """As above where rationals decide, in 4000 draws; a product that underflows among them."""
    for name, a, b in (
        ("mul", 1.1, 1.3),
        ("div", 1.0, 3.0),
        ("mul", 3.0 * 2.0**-1074, 0.4),
        ("mul", 1.7e-160, 1.9e-161),
    ):
        y = EXACT[name](Fraction(a), Fraction(b))
        lo, hi = _around(y, BINARY64)
        share = float((y - lo) / (hi - lo))
        result = getattr(Stochastic(BINARY64, 2), name)(np.full(4000, a), np.full(4000, b))
        ups = int((result == float(hi)).sum())
        assert ups + int((result == float(lo)).sum()) == 4000
        assert abs(ups - share * 4000) <= 5 * np.sqrt(share * (1 - share) * 4000) + 1


def test_more_bits_are_drawn_where_53_do_not_decide():
    """1 / 3 in float16 and float64: its share has all bits, and U agrees with the first 53; the next ones decide."""
    for f in (BINARY16, BINARY64):
        lo, hi = _around(Fraction(1, 3), f)
        share = (Fraction(1, 3) - lo) / (hi - lo)
        first = Fraction(int(share * 2**53), 2**53)
        assert 0 < share - first < Fraction(1, 2**53)
        for second in (0.0, 1.0 - 2.0**-53):
            bits = Bits(float(first), second)
            result = _with(f, bits)
            if f is BINARY64:
                result._rng.random = lambda shape=None, bits=bits, first=first, second=second: (
                    second if shape is None else np.full(shape, float(first))
                )
            value = float(result.div(np.array([1.0]), np.array([3.0]))[0])
            assert value == float(hi if second == 0.0 else lo)


def test_overflow_and_what_is_not_finite():
    """Above the largest number as the format says, infinities and NaNs stay."""
    x = np.array([BINARY16.largest, np.inf, np.nan, -BINARY16.largest])
    with np.errstate(all="ignore"):  # warnings are the caller's
        up = _with(BINARY16, Bits(0.0)).add(x, np.array([1.0, 1.0, 1.0, -100.0]))
        assert up[0] == np.inf and up[1] == np.inf and np.isnan(up[2])
        assert _with(BINARY16, Bits(0.0)).add(x, -x)[0] == 0.0
        assert np.isnan(_with(E4M3, Bits(0.0)).mul(np.array([400.0]), np.array([2.0]))[0])
        wide = Stochastic(BINARY64, 0)
        assert wide.add(np.array([np.inf]), np.array([1.0]))[0] == np.inf
        assert np.isnan(wide.sqrt(np.array([-1.0]))[0])


def test_the_seed_decides():
    """The same seed, the same run; rows of one call are runs of their own."""
    x = np.random.default_rng(0).uniform(0, 1, 50)
    graph = trace(lambda x: np.sum(x * x), {"x": x}, order="pairwise")
    first, again, other = (
        evaluate(graph, Stochastic(BINARY16, seed, 20), {"x": BINARY16.round(x)})[:, -2] for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()
    assert len(np.unique(first)) >= 3


def test_refusals():
    """Fused operations, accumulators, several formats, flushing, and sums without an order."""
    x = {"x": np.ones(3), "y": np.ones(3)}
    for order in ("fma", "serial:float32"):
        graph = trace(lambda x, y: x @ y, x, order=order)
        with pytest.raises(InputRejected, match="stochastic rounding has no model"):
            evaluate(graph, Stochastic(BINARY16, 0), x)
    with pytest.raises(OrderUnspecified):
        evaluate(trace(lambda x, y: x @ y, x), Stochastic(BINARY16, 0), x)
    with pytest.raises(InputRejected, match="several formats"):
        graph = trace(lambda x, y: x.astype(np.float16) * y, x, order="serial")
        evaluate(graph, Stochastic(BINARY32, 0), x)
    with pytest.raises(InputRejected, match="flushes"):
        Stochastic(format_named("float32,ftz"), 0)
