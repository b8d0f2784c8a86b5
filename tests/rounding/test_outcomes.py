"""Bounds for every outcome of stochastic rounding: no run is outside, however its roundings are drawn."""

# ruff: noqa: D102  (methods here override documented ones)
import numpy as np
import pytest
from random_kernels import PLAIN, Box, Tally, check, random_case

from certify.arithmetic import BINARY16, BINARY64, format_named
from certify.arithmetic.stochastic import Stochastic
from certify.errors import InputRejected
from certify.graph import lower
from certify.rounding.outcomes import EveryOutcome


class Ends:
    """A generator that draws the ends of [0, 1) more often than not, so that results go up or down together."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def random(self, shape=None):
        if shape is None:
            return float(self._rng.random())
        lane = self._rng.choice([0.0, 1.0 - 2.0**-53], shape)
        kind = self._rng.integers(4)
        if kind < 2:
            return np.full(shape, (0.0, 1.0 - 2.0**-53)[kind])
        return lane if kind == 2 else self._rng.random(shape)


class ManyEveryOutcome(EveryOutcome):
    """`EveryOutcome` on several regions at once, values (3, regions, nodes)."""

    def __init__(self, format, count):
        super().__init__(format)
        self.count = count

    def empty(self, n):
        return np.empty((3, self.count, n))

    def constant(self, values):
        return super().constant(values)[:, None, :]


def drawn(seed):
    """What runs compute, shape (states, nodes)."""

    def compute(graph, format, samples):
        from certify.graph import evaluate

        machine = Stochastic(format.unbounded, 0, len(samples))
        machine._rng = Ends(seed)
        inputs = {name: machine.constant(samples[:, k]) for k, name in enumerate("xyz")}
        return evaluate(graph, machine, inputs)

    return compute


def checked(seeds, formats, arithmetic=ManyEveryOutcome, points=12, boxes=3):
    """A tally of random kernels, each sample of each box run four times."""
    tally = Tally()
    for seed in seeds:
        for name in formats:
            format = format_named(name)
            graph, regions, label = random_case(seed, format, points, boxes, "serial")
            several = [Box(b.lower, b.upper, b.representable, np.repeat(b.samples, 4, axis=0)) for b in regions]
            check(lower(graph), format, several, tally, f"{label} {name}", arithmetic, drawn(seed))
    return tally


SMALL = ("e4m3", "p=5,emin=-3,emax=4", "p=2,emin=-8,emax=8")


@pytest.mark.parametrize("name", [*PLAIN, *SMALL])
def test_every_outcome_is_within_its_bounds(name):
    """Every node of random kernels, with roundings up, down, mixed and at random."""
    tally = checked(range(3 if name == "float64" else 25), [name], points=3 if name == "float64" else 12)
    assert tally.violations == []
    assert tally.checked > (5 if name == "float64" else 50)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PLAIN, *SMALL])
def test_every_outcome_is_within_its_bounds_longer(name):
    """As above, more kernels."""
    tally = checked(range(100, 115 if name == "float64" else 500), [name])
    assert tally.violations == []


class HalfSpacings(ManyEveryOutcome):
    """Half an ulp, as of rounding to nearest."""

    def _sum(self, a, b):
        ends, m, local = super()._sum(a, b)
        return ends, m, local / 2

    def _spacing(self, m):
        return super()._spacing(m) / 2


class NoSubnormals(ManyEveryOutcome):
    """No spacing of subnormal numbers."""

    def _spacing(self, m):
        return 2.0 * self._half_ulp(m)


class NearestEnds(ManyEveryOutcome):
    """Enclosures rounded to nearest."""

    def _round(self, ends):
        return self.format.round(ends)


class DistanceToOperands(ManyEveryOutcome):
    """A sum moves by no more than an operand, which is a number of the format: true of rounding to nearest."""

    def _sum(self, a, b):
        ends, m, local = super()._sum(a, b)
        size = [np.maximum(-x[0], x[1]) for x in (a, b)]
        return ends, m, np.minimum(np.minimum(local, size[0]), size[1])


@pytest.mark.parametrize("wrong", [HalfSpacings, NoSubnormals, NearestEnds, DistanceToOperands])
def test_a_wrong_rule_is_caught(wrong):
    """Some run is outside."""
    assert checked(range(25), ["float16", *SMALL], wrong).violations


def test_rounding_up_may_overflow():
    """The largest number plus a little stays in rounding to nearest, and may become infinite here."""
    rules = EveryOutcome(BINARY16)
    big, little = (rules.enclose(*[np.array([x])] * 2) for x in (BINARY16.largest, 0.25))
    assert rules.add(big, little)[1, 0] == np.inf
    assert rules.add(rules.neg(big), rules.neg(little))[0, 0] == -np.inf
    assert rules.largest_result == np.inf


def test_exact_operations_stay_exact():
    """Small integers, and halves: no error, points stay points; in binary64 sums too."""
    for format in (BINARY16, BINARY64):
        rules = EveryOutcome(format)
        a, b = (rules.enclose(*[np.array([x])] * 2) for x in (3.0, 0.5))
        total = rules.add(a, b)
        assert total[0, 0] == total[1, 0] == 3.5
        assert rules.scale(a, -1)[:, 0].tolist()[:2] == [1.5, 1.5]
        assert rules.scale(a, -1)[2, 0] == 0.0
        zero = rules.enclose(*[np.zeros(1)] * 2)
        assert rules.add(a, zero).tolist() == rules.sub(a, zero).tolist() == a.tolist()
    assert EveryOutcome(BINARY16).mul(a, b)[:2, 0].tolist() == [1.5, 1.5]


def test_flushing_is_refused():
    """It is biased."""
    with pytest.raises(InputRejected, match="flushes"):
        EveryOutcome(format_named("float16,ftz"))
