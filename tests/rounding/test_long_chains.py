"""Running bounds of long serial sums and fused chains: the ends of one operation at a time, and errors that hold."""

from fractions import Fraction

import numpy as np
import pytest
from random_numbers import REGIMES

from certify.arithmetic import BINARY16, BINARY64, Ieee, format_named
from certify.graph import evaluate, order_named, trace, with_order
from certify.rounding import Region, ball, point, running, running_batch
from certify.rounding.local import ERROR, HIGH, LOW
from certify.rounding.posterior import error
from certify.rounding.running import Running, analysed

FORMATS = ("float16", "bfloat16", "float32", "float64", "e5m2", "e4m3", "float16,saturate", "p=4,emin=-5,emax=30")


class _Looped(Running):
    """One addition at a time."""

    def chains(self, lanes):
        return False

    def fused_chains(self, lanes):
        return False


def _boxes(rng, format, n, lanes):
    """Enclosures of terms in every regime, some of them points."""
    draws = [draw(rng, format.unbounded, (n, lanes)) for draw in REGIMES]
    for x in [*draws, 1.0 - format.u * rng.integers(0, 3, (n, lanes))]:
        wide = np.abs(x) * rng.choice([0.0, 2.0**-8, 0.5], (n, lanes))
        limit = format.largest
        with np.errstate(over="ignore"):
            lower, upper = (format.unbounded.round(np.clip(y, -limit, limit)) for y in (x - wide, x + wide))
        yield np.stack([lower, upper, np.abs(x) * rng.choice([0.0, 2.0**-20, 2.0**-3], (n, lanes))])


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", FORMATS)
def test_a_chain_has_the_ends_of_the_loop_and_an_error_no_smaller(name, lanes):
    """Ends and peak have the same bits; E is at least the exact sum of what the theorem adds, and within 2**-30 of it."""
    format = format_named(name)
    rng = np.random.default_rng(21)
    for terms in _boxes(rng, format, 120, lanes):
        chained, looped = Running(format), _Looped(format)
        with np.errstate(all="ignore"):
            result = chained.chain(terms[:, 0], terms[:, 1:])
            total, needed = terms[:, 0], [Fraction(e) for e in terms[ERROR, 0].tolist()]
            for k in range(1, terms.shape[1]):
                local = looped._sum(total, terms[:, k])[2]
                total = looped.add(total, terms[:, k])
                for lane in range(lanes):
                    parts = (local[lane], terms[ERROR, k, lane])
                    needed[lane] += sum(map(Fraction, parts)) if np.isfinite(parts).all() else 0
        assert (result[:ERROR].view(np.int64) == total[:ERROR].view(np.int64)).all() or np.isnan(total).any()
        assert np.array_equal([chained.peak], [looped.peak], equal_nan=True)
        for lane in range(lanes):
            if np.isfinite(total[:, lane]).all():
                assert needed[lane] <= Fraction(result[ERROR, lane]) <= needed[lane] * (1 + Fraction(1, 2**30))


@pytest.mark.parametrize("name", (*FORMATS, "float16,ftz", "float64,ftz"))
def test_a_fused_chain_has_the_ends_of_the_loop_and_an_error_no_smaller(name, lanes=2):
    """Ends and peak have the same bits; E is at least the exact sum of what the theorem adds, and within 2**-40 of it."""
    format = format_named(name)
    rng = np.random.default_rng(24)
    boxes = list(_boxes(rng, format, 60, lanes))
    for a, b in [*zip(boxes, boxes, strict=True), *zip(boxes, rng.permutation(boxes), strict=True)]:
        chained, looped = Running(format), _Looped(format)
        with np.errstate(all="ignore"):
            start = total = looped.mul(a[:, 0], b[:, 0])
            result = chained.fused_chain(start, a[:, 1:], b[:, 1:])
            looped.peak = 0.0
            needed = [Fraction(e) if np.isfinite(e) else Fraction(0) for e in total[ERROR].tolist()]
            for k in range(1, a.shape[1]):
                local = looped._fused(a[:, k], b[:, k], looped._unrounded(a[:, k], b[:, k]), total[:2])[2]
                total = looped.fma(a[:, k], b[:, k], total)
                for lane in range(lanes):
                    sizes = [max(abs(x[LOW, k, lane]), abs(x[HIGH, k, lane])) for x in (a, b)]
                    parts = (local[lane], *sizes, a[ERROR, k, lane], b[ERROR, k, lane])
                    if np.isfinite(parts).all():
                        own, size_a, size_b, error_a, error_b = map(Fraction, parts)
                        needed[lane] += own + size_a * error_b + size_b * error_a + error_a * error_b
        assert (result[:ERROR].view(np.int64) == total[:ERROR].view(np.int64)).all() or np.isnan(total).any()
        assert np.array_equal([chained.peak], [looped.peak], equal_nan=True)
        for lane in range(lanes):
            if np.isfinite(total[:, lane]).all():
                slack = needed[lane] / 2**40 + Fraction(1, 2**1060)
                assert needed[lane] <= Fraction(result[ERROR, lane]) <= needed[lane] + slack


@pytest.mark.parametrize("order", ["fma", "fma:float32", "fma:float64"])
@pytest.mark.parametrize("name", ["float16", "float16,ftz", "e4m3", "float32", "float64"])
def test_bounds_of_long_fused_products_are_those_of_the_loop(name, order):
    """Matrix products through a graph, of points and of boxes, alone and in a batch, with accumulators and without."""
    format, rng = format_named(name), np.random.default_rng(25)
    if order != "fma" and not format_named(order[4:]).contains(format):
        return
    inputs = {"A": rng.standard_normal((2, 70)) / 8, "B": rng.standard_normal((70, 3))}
    graph = trace(lambda A, B: A @ B, inputs, order=order)
    regions = [point(inputs), ball(inputs, "A", 2.0**-6)]
    batch = list(running_batch(graph, format, regions))
    for region, together in zip(regions, batch, strict=True):
        bounds = running(graph, format, region)
        looped = analysed(graph, _Looped(format), format, region)[0]
        for other in (looped, together):
            assert np.array_equal(bounds.low, other.low) and np.array_equal(bounds.high, other.high)
            assert bounds.error_of("0") == pytest.approx(other.error_of("0"), rel=2.0**-40)
            assert bounds.peak == other.peak


@pytest.mark.parametrize(("order", "terms", "most"), [("serial", 2000, 8), ("fma", 1000, 4)])
@pytest.mark.parametrize("name", (*FORMATS, "float16,ftz"))
def test_bounds_of_long_dot_products_hold(name, order, terms, most):
    """Terms of several regimes: the computed result lies between the ends and its exact error within E."""
    format = format_named(name)
    rng = np.random.default_rng(22)
    tried = 0
    for draw in (*REGIMES, lambda rng, f, shape: 1.0 - f.u * rng.integers(0, 3, shape) / 2):
        x, y = draw(rng, format.unbounded, (2, terms))
        with np.errstate(all="ignore"):
            x, y = np.clip(x, -most, most), np.clip(y, -most, most)
        graph = trace(lambda x, y: x @ y, {"x": x, "y": y}, order=order)
        bounds = running(graph, format, point({"x": x, "y": y}))
        node = int(graph.outputs["0"].ids)
        if bounds.first_overflow() is not None:
            continue
        ieee = Ieee(format)
        computed = float(evaluate(graph, ieee, {"x": ieee.constant(x), "y": ieee.constant(y)})[node])
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True))
        assert bounds.low[node] <= computed <= bounds.high[node]
        assert abs(Fraction(computed) - exact) <= Fraction(bounds.error_of("0").item())
        tried += 1
    assert tried >= 1


def test_a_chain_that_stalls_is_within_its_bound():
    """Ones in binary16 stop at 2048; the bound knows, and is attained: every lost term counts."""
    x = np.ones(6000)
    graph = trace(lambda x: np.sum(x), {"x": x}, order="serial")
    bounds = running(graph, BINARY16, point({"x": x}))
    assert (bounds.low[-2], bounds.high[-2]) == (2048, 2048)
    assert bounds.error_of("0") >= 6000 - 2048
    assert error(np.array(2048.0), np.array(Fraction(6000), dtype=object)) <= Fraction(bounds.error_of("0").item())


def test_an_accumulator_has_chains_of_its_own():
    """Ones in binary16 accumulated in binary32: the last rounding, and 6000 of at most 2**-12."""
    x = np.ones(6001)
    graph = trace(lambda x: np.sum(x), {"x": x}, order="serial:float32")
    bounds = running(graph, BINARY16, point({"x": x}))
    assert (bounds.low[-2], bounds.high[-2]) == (6000, 6000)
    assert 1 <= bounds.error_of("0") <= 2 + 6000 * 2.0**-12


def test_an_overflow_on_the_way_is_found():
    """Partial sums beyond the largest number, which cancel later: not proved, and the peak says so."""
    x = np.concatenate([np.full(40, 30000.0), np.full(40, -30000.0)])
    graph = trace(lambda x: np.sum(x), {"x": x}, order="serial")
    bounds = running(graph, BINARY16, point({"x": x}))
    assert bounds.first_overflow() is not None
    assert not bounds.peak < np.inf


@pytest.mark.parametrize("order", ["pairwise", "blocked(8)", "blocked(7)", "blocked(1000)"])
def test_grouped_orders_have_the_same_bits(order):
    """Levels and blocks side by side: all three rows have the bits of term by term, and so has the peak."""
    rng = np.random.default_rng(23)
    lower = BINARY64.round(rng.standard_normal((100, 2)))
    graph = with_order(trace(lambda x: np.sum(x, axis=0), {"x": lower}, order="serial"), order)
    bounds = running(graph, BINARY64, Region({"x": lower}, {"x": lower + 0.25}, True))
    looped = _Looped(BINARY64)
    given = looped.enclose(lower, lower + 0.25)
    given[ERROR] = 0.0
    total = order_named(order).total(looped, lambda k: given[:, k], 100)
    for row, values in ((LOW, bounds.low), (HIGH, bounds.high)):
        assert (values[-3:-1] == total[row]).all()
    # the full blocks may go by a chain, whose error is summed differently
    assert bounds.error_of("0") == pytest.approx(total[ERROR], rel=2.0**-30)
    assert bounds.peak == max(looped.peak, float(np.abs(given[:2]).max()))
