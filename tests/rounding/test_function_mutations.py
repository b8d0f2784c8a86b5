"""A rule with a dropped term is caught: the cases of `test_function_soundness` refute each of these."""

# ruff: noqa: D102  (methods here override documented ones)
import numpy as np
import pytest
from function_cases import violations

from certify.arithmetic import format_named
from certify.arithmetic.elementary import between
from certify.arithmetic.libm import Libm
from certify.rounding import Running
from certify.rounding.local import ERROR, HIGH, LOW

NO_ERROR = np.array([[1.0], [1.0], [0.0]])
UNSIGNED = np.zeros(1, dtype=bool)


class DividendOnly(Running):
    """A quotient carries no error of the divisor."""

    def div(self, a, b):
        return super().div(a, b * NO_ERROR)


class DivisorAsComputed(Running):
    """The exact divisor is taken to be the computed one."""

    def div(self, a, b):
        result, away = super().div(a, b), np.maximum(b[LOW], -b[HIGH])
        quotient = np.maximum(-result[LOW], result[HIGH])
        first = (a[ERROR] + quotient * b[ERROR]) / np.where(away > 0, away, np.nan)
        result[ERROR] = np.fmin(result[ERROR], first + self._half_ulp(quotient) + self.format.omega)
        return result


class TwoCorners(Running):
    """A quotient is extreme where dividend and divisor both are."""

    def div(self, a, b):
        result = super().div(a, b)
        ends = self.format.round(np.stack([a[LOW] / b[HIGH], a[HIGH] / b[LOW]]))
        finite = np.isfinite(result[LOW]) & np.isfinite(result[HIGH])
        result[:2] = np.where(finite, np.sort(ends, axis=0), result[:2])
        return result


class FreeQuotient(Running):
    """A quotient does not round."""

    def _correct(self, ends, m, exceeds):
        return 0 * super()._correct(ends, m, exceeds)


class SlopeAtTheTop(Running):
    """The slope of a root is that of its upper end."""

    def sqrt(self, a, nonnegative):
        result = super().sqrt(a, nonnegative)
        root = np.sqrt(np.maximum(a[HIGH], 0))
        slope = np.where(root > 0, a[ERROR] / (2 * root), 0) + self._half_ulp(root) + self.format.omega
        result[ERROR] = np.minimum(result[ERROR], slope)
        return result


class FirstOrder(Running):
    """exp carries e^hi E."""

    def exp(self, a):
        result = super().exp(a)
        local = super().exp(a * NO_ERROR)[ERROR]
        result[ERROR] = np.minimum(result[ERROR], between("exp", a[LOW], a[HIGH])[1] * a[ERROR] + local)
        return result


class LogAtTheComputed(Running):
    """log carries E / lo."""

    def log(self, a):
        result = super().log(a)
        local = super().log(a * NO_ERROR)[ERROR]
        result[ERROR] = np.fmin(result[ERROR], a[ERROR] / np.where(a[LOW] > 0, a[LOW], np.nan) + local)
        return result


class SlopeOfTheComputed(Running):
    """tanh and sigmoid have the slope of their computed operand."""

    def tanh(self, a):
        return self._sharp(super().tanh, a, lambda t: 1 - np.tanh(t) ** 2)

    def sigmoid(self, a):
        return self._sharp(super().sigmoid, a, lambda t: np.exp(-t) / (1 + np.exp(-t)) ** 2)

    def _sharp(self, rule, a, slope):
        result, local = rule(a), rule(a * NO_ERROR)[ERROR]
        apart = np.maximum(np.maximum(a[LOW], -a[HIGH]), 0)
        with np.errstate(over="ignore", under="ignore"):
            result[ERROR] = np.minimum(result[ERROR], slope(apart) * a[ERROR] + local)
        return result


class HalfTheUlps(Running):
    """A library is twice as accurate as it says."""

    def _spread(self, size, ulps):
        return super()._spread(size, ulps) / 2


class UlpBelow(Running):
    """The ulp at a power of two is that below it, and underflow has none."""

    def _spread(self, size, ulps):
        return 2 * ulps * self._half_ulp(size)


class Monotone(Running):
    """A library is monotone: its results lie between the rounded ends."""

    def _lowest(self, low, high, ulps):
        return low


class AlwaysChosen(Running):
    """The exact program selects as the computed one does."""

    def select(self, p, q, x, y, strict):
        return super().select(p * NO_ERROR, q * NO_ERROR, x, y, strict)


class NoJump(Running):
    """An undecided selection has the larger of both errors."""

    def select(self, p, q, x, y, strict):
        result = super().select(p, q, x, y, strict)
        result[ERROR] = np.minimum(result[ERROR], np.maximum(x[ERROR], y[ERROR]))
        return result


class LooseComparison(Running):
    """A strict comparison is decided by a tie."""

    def select(self, p, q, x, y, strict):
        return super().select(p, q, x, y, False)


class LargerWins(Running):
    """A maximum has the error of the one that is computed to be larger."""

    def max(self, a, b):
        result = super().max(a, b)
        result[ERROR] = np.where(a[LOW] >= b[HIGH], a[ERROR], np.where(b[LOW] >= a[HIGH], b[ERROR], result[ERROR]))
        return result


class EagerRoot(Running):
    """A root is taken of an operand whose exact value may be negative."""

    def sqrt(self, a, nonnegative):
        return super().sqrt(a, nonnegative | (a[LOW] >= 0))


class EagerDivision(Running):
    """A division is refused only where the computed divisor may be 0."""

    def div(self, a, b):
        apart = np.maximum(b[LOW], -b[HIGH]) > 0
        smaller = np.where(apart, np.minimum(b[ERROR], 0.9 * np.maximum(b[LOW], -b[HIGH])), b[ERROR])
        return super().div(a, np.stack([b[LOW], b[HIGH], smaller]))


MUTANTS = [
    (DividendOnly, "div"),
    (DivisorAsComputed, "div"),
    (TwoCorners, "div"),
    (FreeQuotient, "div"),
    (FreeQuotient, "sqrt"),
    (EagerDivision, "div"),
    (SlopeAtTheTop, "sqrt"),
    (EagerRoot, "sqrt"),
    (FirstOrder, "exp"),
    (LogAtTheComputed, "log"),
    (SlopeOfTheComputed, "tanh"),
    (SlopeOfTheComputed, "sigmoid"),
    *((HalfTheUlps, name) for name in ("exp", "log", "tanh", "sigmoid")),
    (UlpBelow, "exp"),
    (Monotone, "exp"),
    (Monotone, "log"),
    (AlwaysChosen, "select"),
    (NoJump, "select"),
    (LooseComparison, "select"),
    (LargerWins, "max"),
]


def _found(kind, name, format):
    format, rng = format_named(format), np.random.default_rng(7)
    for _ in range(20):
        with np.errstate(all="ignore"):
            wrong, _ = violations(kind(format, Libm("wild", otherwise=1.0)), name, format, rng, 300, kind(format).libm)
        if wrong:
            return True
    return False


@pytest.mark.parametrize(("kind", "name"), MUTANTS, ids=[f"{kind.__name__}-{name}" for kind, name in MUTANTS])
def test_a_wrong_rule_is_caught(kind, name):
    """In float16."""
    assert _found(kind, name, "float16")


@pytest.mark.parametrize("name", ["div", "sqrt", "exp", "select"])
def test_the_rules_themselves_are_not(name):
    """The control of this file."""
    assert not _found(Running, name, "float16")
