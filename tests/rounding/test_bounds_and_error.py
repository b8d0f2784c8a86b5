"""What bounds report of outputs, and the error itself."""

from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32
from certify.errors import InputRejected
from certify.graph import trace
from certify.rounding import point, running
from certify.rounding.posterior import computed, error, exact


def _kernel(x):
    return {"square": x * x, "known": np.array([0.1, 0.5]), "mixed": np.where([True, False], x, 0.3)}


GRAPH = trace(_kernel, {"x": np.ones(2)}, order="serial")
INPUTS = {"x": np.array([0.1, 3.0])}


def test_known_outputs_carry_their_conversion_error():
    """A number of the kernel that the format cannot hold is off by its conversion, others by nothing."""
    bounds = running(GRAPH, BINARY16, point(INPUTS))
    off = [abs(0.1 - float(np.float16(0.1))), 0.0]
    assert bounds.error_of("known").tolist() == off
    assert bounds.error_of("mixed").tolist() == [off[0], abs(0.3 - float(np.float16(0.3)))]
    assert computed(GRAPH, BINARY16, INPUTS, "known").tolist() == [float(np.float16(0.1)), 0.5]


def test_a_known_output_beyond_the_format_has_no_finite_error():
    """1e6 is not a number of binary16: the error is infinite and nothing warns."""
    graph = trace(lambda x: {"a": x, "k": np.full(2, 1e6)}, {"x": 1.0}, order="serial")
    bounds = running(graph, BINARY16, point({"x": 1.0}))
    assert np.isinf(bounds.error_of("k")).all()
    assert bounds.norm_of("k") == np.inf


def test_the_norm_is_rounded_up():
    """The Frobenius norm of the entries' bounds, at least its exact value and within an ulp of it."""
    bounds = running(GRAPH, BINARY32, point(INPUTS))
    square = sum(Fraction(x) ** 2 for x in bounds.error_of("square").tolist())
    norm = bounds.norm_of("square")
    assert Fraction(norm) ** 2 >= square
    assert Fraction(np.nextafter(np.nextafter(norm, 0), 0)) ** 2 < square


def test_the_exact_value_is_that_of_the_stored_inputs():
    """The double nearest 0.1, squared, as a fraction."""
    assert exact(GRAPH, INPUTS, "square").tolist() == [Fraction(0.1) ** 2, 9]


def test_the_error_is_exact():
    """|fl(x)**2 rounded - x**2|, as a fraction, for a square that binary16 rounds twice."""
    observed = error(computed(GRAPH, BINARY16, INPUTS, "square"), exact(GRAPH, INPUTS, "square"))
    by_hand = abs(Fraction(float(np.float16(0.1) * np.float16(0.1))) - Fraction(0.1) ** 2)
    assert observed.tolist() == [by_hand, 0]


def test_a_state_that_overflows_has_no_error():
    """The culprit is the program at this state, and the remedy is named."""
    floats = computed(GRAPH, BINARY16, {"x": np.array([300.0, 1.0])}, "square")
    with pytest.raises(InputRejected, match="the program overflows at this state; read its range claim"):
        error(floats, exact(GRAPH, INPUTS, "square"))
