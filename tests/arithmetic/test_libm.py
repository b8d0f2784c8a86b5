"""What is assumed of a math library."""

import pytest

from certify.arithmetic import BINARY16, E5M2, format_named
from certify.arithmetic.libm import CORRECTLY_ROUNDED, LIBRARIES, ONE_ULP, Libm, library
from certify.errors import InputRejected


def test_assumptions_name_the_library_and_its_error():
    """One sentence for each function that is called, in a fixed order."""
    own = Libm("mine", {"exp": 2.5}, otherwise=0.5)
    assert own.assumptions({"log", "exp"}) == [
        "exp of mine returns a number within 2.5 ulp of the exact result, in the range of the function",
        "log of mine returns the correctly rounded result",
    ]
    assert own.assumptions([]) == []


def test_errors_by_function():
    """Those given, and the others."""
    assert Libm("mine", {"exp": 2.5}).of("exp", BINARY16) == 2.5
    assert ONE_ULP.of("tanh", BINARY16) == 1
    assert CORRECTLY_ROUNDED.of("log", BINARY16) == 0.5


@pytest.mark.parametrize("name", ["correct", "1ulp", "2ulp", *LIBRARIES])
def test_libraries_by_name(name):
    """All of the table; every figure is at least half an ulp."""
    assert library(name).of("exp", BINARY16) >= 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Libm("mine", {"sin": 1.0}), "the library mine gives ulps of 'sin'; use exp, log, tanh, sigmoid"),
        (lambda: Libm("mine", {"exp": 0.4}), "the library mine gives exp 0.4 ulps; give a finite number, at least 0.5"),
        (lambda: Libm("mine", otherwise=float("inf")), "gives any function inf ulps"),
        (lambda: Libm("mine", otherwise=4.0).of("exp", E5M2), "an error of 4.0 ulps is all of a result of exp in e5m2"),
        (lambda: Libm("mine", otherwise=2.0).of("exp", format_named("p=2,emin=-3,emax=7")), "is all of a result"),
        (lambda: library("amd"), "there is no math library 'amd'; use one of correct, 1ulp"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    """With the remedy."""
    with pytest.raises(InputRejected, match=message):
        make()
