"""Exact dyadics against Fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.arithmetic.dyadic import Dyadic, fractions, to_fraction

D = Dyadic()
EVERY = settings(max_examples=150, derandomize=True, deadline=None, database=None)
_floats = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 5e-324, -5e-324, 1.7976931348623157e308, 2.0**-1022, 0.1]),
    st.floats(allow_nan=False, allow_infinity=False),
)
_vectors = st.lists(_floats, min_size=3, max_size=3).map(np.array)


def _of(x):
    return fractions(D.constant(x)).tolist()


@EVERY
@given(x=_vectors, y=_vectors, z=_vectors, k=st.integers(-1200, 1200))
def test_operations_are_those_of_fractions(x, y, z, k):
    """+, -, *, negation, ReLU and scaling, composed; every number of binary64 is held exactly."""
    a, b, c = (D.constant(v) for v in (x, y, z))
    fx, fy, fz = ([Fraction(v) for v in w.tolist()] for w in (x, y, z))
    assert fractions(a).tolist() == fx
    results = {
        "sum": (D.add(a, b), [p + q for p, q in zip(fx, fy, strict=True)]),
        "difference": (D.sub(a, b), [p - q for p, q in zip(fx, fy, strict=True)]),
        "product": (D.mul(a, b), [p * q for p, q in zip(fx, fy, strict=True)]),
        "negation": (D.neg(a), [-p for p in fx]),
        "relu": (D.relu(a), [max(p, 0) for p in fx]),
        "scaling": (D.scale(a, k), [p * Fraction(2) ** k for p in fx]),
        "polynomial": (
            D.sub(D.mul(D.add(a, b), c), D.mul(a, c)),
            [q * r for q, r in zip(fy, fz, strict=True)],
        ),
    }
    for name, (result, expected) in results.items():
        assert fractions(result).tolist() == expected, name


@EVERY
@given(x=_vectors, y=_vectors, z=_vectors)
def test_ring_identities(x, y, z):
    """Associativity, commutativity, distributivity and cancellation hold without rounding."""
    a, b, c = (D.constant(v) for v in (x, y, z))
    for left, right in (
        (D.add(a, D.add(b, c)), D.add(D.add(a, b), c)),
        (D.mul(a, D.mul(b, c)), D.mul(D.mul(a, b), c)),
        (D.add(a, b), D.add(b, a)),
        (D.mul(a, b), D.mul(b, a)),
        (D.mul(a, D.add(b, c)), D.add(D.mul(a, b), D.mul(a, c))),
        (D.sub(D.add(a, b), b), a),
        (D.sub(D.relu(a), D.relu(D.neg(a))), a),
    ):
        assert fractions(left).tolist() == fractions(right).tolist()


def test_shapes_are_kept_and_broadcast():
    """Matrices in, matrices out; a lane axis broadcasts."""
    a = D.constant(np.arange(6.0).reshape(2, 3))
    assert a.shape == (2, 2, 3)
    assert fractions(a).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert fractions(D.mul(a, D.constant(np.array([0.5])))).tolist() == [[0, 0.5, 1], [1.5, 2, 2.5]]
    assert D.empty(4).shape == (2, 4) and D.constant(np.zeros(0)).shape == (2, 0)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_has_no_dyadic(value):
    """Never a silent number."""
    with pytest.raises((OverflowError, ValueError)):
        D.constant(np.array([value]))


def test_to_fraction():
    """Positive and negative exponents."""
    assert (to_fraction(3, 2), to_fraction(-3, -2), to_fraction(0, 5)) == (12, Fraction(-3, 4), 0)
