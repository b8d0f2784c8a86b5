"""Outward enclosures: both backends contain the exact value and agree within a step."""

from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.arithmetic import enclosure
from certify.arithmetic.enclosure import step_down, step_up
from certify.errors import InputRejected, MissingExtra

BIG, TINY, SMALL = 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308
SPECIAL = [
    0.0,
    1.0,
    BIG,
    np.nextafter(BIG, 0),
    SMALL,
    np.nextafter(SMALL, 0),
    TINY,
    2 * TINY,
    1 + 2.0**-52,
    0.1,
    np.inf,
]
NUMPY, CRIVAL = enclosure("numpy"), enclosure("crival")
EVERY = settings(max_examples=600, derandomize=True, deadline=None, database=None)
OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}


def test_steps_are_nextafter():
    """At every special value and at a million random bit patterns; infinities and NaN as documented."""
    rng = np.random.default_rng(11)
    random = rng.integers(-(2**63), 2**63 - 1, 10**6, dtype=np.int64).view(np.float64)
    values = np.concatenate([[s * x for x in SPECIAL for s in (1, -1)], random])
    values = values[~np.isnan(values)]
    up, down = step_up(values), step_down(values)
    with np.errstate(over="ignore"):
        assert np.array_equal(up, np.nextafter(values, np.inf))
        assert np.array_equal(down, np.nextafter(values, -np.inf))
    zero = (up == 0) | (down == 0)
    assert zero.sum() == 2
    assert np.isnan(step_up(np.array([np.nan, -np.nan]))).all() and np.isnan(step_down(np.array([np.nan]))).all()
    assert step_up(np.array([np.inf, -np.inf])).tolist() == [np.inf, -BIG]
    assert step_down(np.array([np.inf, -np.inf])).tolist() == [BIG, -np.inf]
    assert step_up(np.array(1.0)).shape == ()


def _contains(result, exact):
    low, high = np.ravel(result).tolist()
    return (low == -np.inf or Fraction(low) <= exact) and (high == np.inf or Fraction(high) >= exact)


_numbers = st.one_of(
    st.sampled_from([s * x for x in SPECIAL if np.isfinite(x) for s in (1, -1)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-2, 2),
    st.floats(-1e-300, 1e-300),
)


@pytest.mark.parametrize("operation", OPERATIONS)
@EVERY
@given(ends=st.tuples(_numbers, _numbers, _numbers, _numbers), shares=st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_both_backends_contain_the_exact_value_and_agree_within_a_step(operation, ends, shares):
    """Intervals and points; the exact value of ends and of points between them."""
    a = np.array(sorted(ends[:2])).reshape(2, 1)
    b = np.array(sorted(ends[2:])).reshape(2, 1)
    if shares[0] == 0:
        a = a[[0, 0]]
    x, y = (
        Fraction(float(v[0, 0])) + (Fraction(float(v[1, 0])) - Fraction(float(v[0, 0]))) * Fraction(s, 4)
        for v, s in zip((a, b), shares, strict=True)
    )
    exact = OPERATIONS[operation](x, y)
    with np.errstate(all="ignore"):
        wide, tight = (getattr(backend, operation)(a, b) for backend in (NUMPY, CRIVAL))
    assert _contains(wide, exact) and _contains(tight, exact)
    assert wide[0] <= tight[0] and tight[1] <= wide[1]
    # at most a step wider where the tight end is not exact, two where rounding to nearest went outward already
    assert step_up(step_up(wide[0])) >= tight[0] and step_down(step_down(wide[1])) <= tight[1]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_crival_is_the_tightest_at_points(operation):
    """The ends are the exact result, or the neighbours around it."""
    rng = np.random.default_rng(12)
    x, y = rng.standard_normal((2, 500)) * 2.0 ** rng.integers(-200, 200, (2, 500))
    result = getattr(CRIVAL, operation)(np.stack([x, x]), np.stack([y, y]))
    for k in range(500):
        exact = OPERATIONS[operation](Fraction(x[k]), Fraction(y[k]))
        low, high = result[:, k]
        assert Fraction(low) <= exact <= Fraction(high)
        assert low == high or (high == np.nextafter(low, np.inf) and Fraction(low) < exact < Fraction(high))


@pytest.mark.parametrize("backend", [NUMPY, CRIVAL], ids=["numpy", "crival"])
@EVERY
@given(ends=st.tuples(_numbers, _numbers), exponent=st.integers(-1080, 1023), share=st.integers(0, 4))
def test_scaling_negation_and_relu_enclose(backend, ends, exponent, share):
    """Underflow moves outward, overflow to an infinity that still encloses, signs and kinks are exact."""
    a = np.array(sorted(ends)).reshape(2, 1)
    low, high = (Fraction(float(x)) for x in a[:, 0])
    x = low + (high - low) * Fraction(share, 4)
    with np.errstate(all="ignore"):
        scaled = backend.scale(a, exponent)
    exact = x * Fraction(2) ** exponent
    # an end that overflows promises nothing (module docstring): then the finite test of callers must see it
    assert not np.isfinite(scaled).all() or _contains(scaled, exact)
    assert _contains(backend.neg(a), -x)
    assert _contains(backend.relu(a), max(x, Fraction(0)))
    assert backend.constant(a[0]).tolist() == [a[0].tolist()] * 2


@pytest.mark.parametrize("backend", [NUMPY, CRIVAL], ids=["numpy", "crival"])
def test_an_end_beyond_binary64_becomes_infinite(backend):
    """A sum and a product of the largest numbers; the enclosure still contains the exact value."""
    a = np.full((2, 1), BIG)
    with np.errstate(all="ignore"):
        for result in (backend.add(a, a), backend.mul(a, a)):
            assert result[1, 0] == np.inf and result[0, 0] <= np.inf
        negative = backend.add(-a, -a)
    assert negative[0, 0] == -np.inf
    assert backend.empty(3).shape == (2, 3)


def test_backends_by_name(monkeypatch):
    """crival by default, numpy without it; a missing or unknown backend is refused with a remedy."""
    assert enclosure().name == "crival"
    with pytest.raises(InputRejected, match="there is no enclosure backend 'mpfi'; use one of crival, numpy"):
        enclosure("mpfi")
    # the package exports a function under the name of the module
    monkeypatch.setattr(import_module("certify.arithmetic.enclosure"), "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install crival, or use numpy"):
        enclosure("crival")
