"""What is assumed of a math library."""

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32, E5M2, format_named
from certify.arithmetic.libm import CALLS, CORRECTLY_ROUNDED, LIBRARIES, ONE_ULP, Libm, chosen_library, library
from certify.errors import InputRejected
from certify.graph import sigmoid


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


@pytest.mark.parametrize("name", ["correct", "1ulp", "2ulp", "numpy", "torch", *LIBRARIES])
def test_libraries_by_name(name):
    """All of the table; every figure is at least half an ulp."""
    assert library(name, [BINARY32]).of("exp", BINARY32) >= 0.5


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("format", "found"),
    [
        ("float32", "float32"),
        ("float64", "float64"),
        ("float16,ftz", "float16"),
        ("tf32", "float16"),
        ("bfloat16", "bfloat16"),
        ("e4m3", "bfloat16"),
        ("p=12,emin=-14,emax=15", "float32"),
    ],
)
def test_a_family_has_a_library_for_every_format(name, format, found):
    """The shortest of the usual formats with its precision, which has a larger error in ulps than a longer one rounded."""
    assert library(name, [format_named(format)]) is LIBRARIES[f"{name}/{found}"]


def test_a_program_in_several_formats_has_the_largest_figures():
    """One number a function, as a claim states it; a function with no figure in one of them has none."""
    both = library("numpy", [BINARY16, BINARY32, BINARY16])
    assert both.name == "numpy in float16 and numpy in float32"
    assert both.ulps == {"exp": 2.52, "log": 3.83, "tanh": 4.0, "sigmoid": 7.5}
    with pytest.raises(InputRejected, match="no error of sigmoid"):
        library("torch", [BINARY16, BINARY32]).of("sigmoid", BINARY32)


def test_what_is_chosen():
    """What is given, by name or as it is; else that of the family."""
    assert chosen_library(ONE_ULP, [BINARY32]) is ONE_ULP
    assert chosen_library("correct", [BINARY32]) is CORRECTLY_ROUNDED
    assert chosen_library(None, [BINARY32]) is LIBRARIES["numpy/float32"]
    assert chosen_library("torch", [BINARY32]) is LIBRARIES["torch/float32"]


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
@pytest.mark.parametrize("function", CALLS)
def test_numpy_does_what_is_assumed_of_it(name, function):
    """All of float16, samples of the others, against longdouble; NumPy's float32 does not keep 1 ulp."""
    if name == "float64" and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("no format wider than float64 here")
    dtype, format = np.dtype(name), format_named(name)
    rng = np.random.default_rng(5)
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    if name != "float16":
        spread = rng.standard_normal(100_000) * 10.0 ** rng.uniform(-3, 2.5, 100_000)
        x = np.concatenate([spread, rng.uniform(-4, 4, 100_000)]).astype(dtype)
    x = x[np.isfinite(x) & (x > 0 if function == "log" else True)]
    wide = x.astype(np.longdouble)
    with np.errstate(over="ignore", under="ignore"):
        exact = sigmoid(wide.copy()) if function == "sigmoid" else getattr(np, function)(wide)
        computed = sigmoid(x) if function == "sigmoid" else getattr(np, function)(x)
    assert computed.dtype == dtype
    ulp = np.ldexp(np.longdouble(1), np.maximum(np.frexp(exact)[1] - 1, format.emin) - format.precision + 1)
    fits = np.abs(exact) < format.largest / 2
    off = (np.abs(computed[fits] - exact[fits]) / ulp[fits]).max()
    assert off <= library("numpy", [format]).of(function, format)


def test_the_exp_of_attention_in_16_bits():
    """The cubic of ATen's fexp_u20 is within 1.08e-4 of 2**t: on a grid whose gaps the slopes of both cannot hide."""
    f = np.linspace(0, 1, 200_001)
    cubic = 0.00010703434948458272 + f * (0.30354260500649682 + f * (-0.22433838478672356 + f * -0.079204240219773236))
    assert np.abs((1 + f - cubic) / 2.0**f - 1).max() + 1e-7 < 1.08e-4
    assert LIBRARIES["torch-flash/float32"].ulps["exp"] * 2.0**-24 > 1.08e-4 + 3.5 * 2.0**-18


def test_what_is_not_known_is_refused():
    """A library of the table has no figure for sigmoid: no number is made up."""
    for name in ("torch/float32", "glibc/float64", "cuda/float32"):
        with pytest.raises(InputRejected, match="no error of sigmoid is known for"):
            LIBRARIES[name].of("sigmoid", BINARY32)
    with pytest.raises(InputRejected, match="no error of tanh"):
        LIBRARIES["torch-fused/float32"].assumptions({"tanh"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Libm("mine", {"sin": 1.0}), "the library mine gives ulps of 'sin'; use exp, log, tanh, sigmoid"),
        (lambda: Libm("mine", {"exp": 0.4}), "the library mine gives exp 0.4 ulps; give a finite number, at least 0.5"),
        (lambda: Libm("mine", otherwise=float("inf")), "gives any function inf ulps"),
        (lambda: Libm("mine", otherwise=4.0).of("exp", E5M2), "an error of 4.0 ulps is all of a result of exp in e5m2"),
        (lambda: Libm("mine", otherwise=2.0).of("exp", format_named("p=2,emin=-3,emax=7")), "is all of a result"),
        (lambda: library("amd", [BINARY32]), "there is no math library 'amd'; use one of numpy, torch, correct, 1ulp"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    """With the remedy."""
    with pytest.raises(InputRejected, match=message):
        make()
