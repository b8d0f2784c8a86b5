"""Rounding into a format: against exact rationals, NumPy's casts, ml_dtypes and gfloat, at every value of 16 bits."""

import re
from fractions import Fraction

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64, Format, format_named
from certify.errors import InputRejected

STORED = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
GFLOAT = {
    "float16": gfloat.formats.format_info_binary16,
    "bfloat16": gfloat.formats.format_info_bfloat16,
    "float32": gfloat.formats.format_info_binary32,
}
PLAIN = (BINARY16, BFLOAT16, BINARY32, BINARY64)
SMALL = PLAIN[:3]
EVERY = settings(max_examples=500, derandomize=True, deadline=None, database=None)


def _nearest(format, x):
    """The nearest number of the format, ties to even, of a finite float; in rationals only."""
    value = Fraction(x)
    if value == 0:
        return x
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    ulp = Fraction(2) ** (max(exponent, format.emin) - format.precision + 1)
    rounded = round(size / ulp) * ulp  # Python rounds Fractions to even
    if rounded >= Fraction(2) ** (format.emax + 1):
        rounded = float("inf")
    return float(np.copysign(float(rounded), x))


def _all_values(format):
    """Every finite number of a 16-bit format, as binary64, sorted."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = np.arange(2**16, dtype=np.uint16).view(STORED[format.name]).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def _neighbourhoods(format):
    """All finite numbers, all midpoints between neighbours, and the binary64 numbers next to both."""
    values = _all_values(format)
    beyond = np.ldexp(2.0, format.emax) * np.array([1 - format.u / 2, 1, 1.5, 2])
    anchors = np.concatenate([values, (values[1:] + values[:-1]) / 2, beyond, -beyond])
    return np.concatenate([anchors, np.nextafter(anchors, np.inf), np.nextafter(anchors, -np.inf)])


@pytest.mark.parametrize("format", [BINARY16, BFLOAT16], ids=lambda f: f.name)
def test_rounding_near_every_number_and_every_tie(format):
    """65,536 numbers, the ties between them and the doubles next to those, against rationals; zeros keep their sign."""
    points = _neighbourhoods(format)
    assert len(points) > 350_000
    rounded = format.round(points)
    assert (np.signbit(rounded) == np.signbit(points)).all()
    # an anchor's neighbours decide: every point rounds to the closer of the two numbers around it, ties to even
    values = np.concatenate([[-np.inf], _all_values(format), [np.inf]])
    finite = np.abs(points) < format.largest
    above = np.searchsorted(values, points[finite], side="left")
    low, high = values[above - 1], values[above]
    on = high == points[finite]
    distance_low, distance_high = points[finite] - low, high - points[finite]  # exact: few bits or neighbours
    closer = np.where(distance_low < distance_high, low, high)
    tie = (distance_low == distance_high) & ~on
    expected = np.where(on, points[finite], closer)
    assert np.array_equal(rounded[finite][~tie], expected[~tie])
    ties = points[finite][tie]
    assert len(ties) > 60_000
    assert rounded[finite][tie].tolist() == [_nearest(format, x) for x in ties.tolist()]


@pytest.mark.parametrize("format", SMALL, ids=lambda f: f.name)
@EVERY
@given(x=st.floats(allow_nan=False, allow_infinity=False), k=st.integers(-160, 140), odd=st.integers(0, 2**25))
def test_rounding_any_double(format, x, k, odd):
    """Arbitrary doubles, and numbers of 26 bits around the format's range, against rationals."""
    for value in (x, np.ldexp(float(odd), k), -np.ldexp(float(odd) + 0.5, k)):
        rounded = float(format.round(np.array(value)))
        expected = _nearest(format, float(value))
        assert rounded == expected
        assert np.signbit(rounded) == np.signbit(value)


@pytest.mark.parametrize("format", SMALL, ids=lambda f: f.name)
def test_thresholds(format):
    """The overflow threshold, the smallest subnormal and its half, each with their neighbours."""
    top, ulp = format.largest, np.ldexp(1.0, format.emax - format.precision + 1)
    threshold = top + ulp / 2
    points = {
        top: top,
        np.nextafter(threshold, 0): top,
        threshold: np.inf,  # the tie goes to the even significand, 2**(emax + 1)
        format.min_subnormal: format.min_subnormal,
        format.min_subnormal / 2: 0.0,
        np.nextafter(format.min_subnormal / 2, 1): format.min_subnormal,
        1.5 * format.min_subnormal: 2 * format.min_subnormal,
        2.5 * format.min_subnormal: 2 * format.min_subnormal,
        format.min_normal - format.min_subnormal / 2: format.min_normal,
        2.0**-1074: 0.0,
        1e308: np.inf,
    }
    for x, expected in points.items():
        assert format.round(np.array([x, -x])).tolist() == [expected, -expected]
    special = format.round(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0]))
    assert special[:2].tolist() == [np.inf, -np.inf] and np.isnan(special[2])
    assert np.signbit(special[3:]).tolist() == [False, True]


@pytest.mark.parametrize("format", SMALL, ids=lambda f: f.name)
def test_rounding_agrees_with_casts_and_gfloat(format):
    """NumPy's casts (float16, float32), ml_dtypes (bfloat16, from float32 to round once) and gfloat."""
    rng = np.random.default_rng(5)
    exponents = rng.uniform(format.emin - format.precision - 2, format.emax + 1, 200_000)
    points = (rng.choice([-1, 1], exponents.shape) * 2.0**exponents).astype(np.float32)
    dtype = STORED.get(format.name, np.float32)
    with np.errstate(over="ignore"):
        cast = points.astype(dtype).astype(np.float64)
    assert np.array_equal(format.round(points.astype(np.float64)), cast)
    wide = rng.choice([-1, 1], 2000) * 2.0 ** exponents[:2000]
    mode = gfloat.RoundMode.TiesToEven
    by_gfloat = [gfloat.round_float(GFLOAT[format.name], x, mode) for x in wide.tolist()]
    assert format.round(wide).tolist() == by_gfloat


@pytest.mark.parametrize("format", PLAIN, ids=lambda f: f.name)
def test_rounding_is_monotone_and_idempotent(format):
    """fl(x) <= fl(y) for x <= y, and fl(fl(x)) = fl(x)."""
    rng = np.random.default_rng(6)
    points = np.sort(rng.standard_normal(20_000) * 2.0 ** rng.integers(format.emin - 20, format.emax // 2, 20_000))
    rounded = format.round(points)
    assert (rounded[1:] >= rounded[:-1]).all()
    assert np.array_equal(format.round(rounded), rounded)
    assert format.holds(rounded[np.isfinite(rounded)]).all()


@pytest.mark.parametrize(
    ("format", "finfo"),
    [
        (BINARY16, np.finfo(np.float16)),
        (BFLOAT16, ml_dtypes.finfo(ml_dtypes.bfloat16)),
        (BINARY32, np.finfo(np.float32)),
        (BINARY64, np.finfo(np.float64)),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_constants_of_the_formats(format, finfo):
    """Unit roundoff, thresholds and the largest number, against finfo."""
    assert format.u == float(finfo.eps) / 2
    assert format.largest == float(finfo.max)
    assert format.min_normal == float(finfo.tiny)
    assert format.min_subnormal == float(finfo.smallest_subnormal)
    assert format.omega == max(format.min_subnormal / 2, 2.0**-1074)
    assert format.emin == int(np.log2(float(finfo.tiny)))
    assert format.digits == pytest.approx(format.precision * 0.30103, rel=1e-6)


def test_holds_knows_the_numbers_of_a_format():
    """Numbers, numbers with a bit too many, and what is not finite."""
    x = np.array([1.0, 1 + 2.0**-10, 1 + 2.0**-11, 65504.0, 65520.0, np.inf, np.nan, 2.0**-24, 2.0**-25])
    assert BINARY16.holds(x).tolist() == [True, True, False, True, False, False, False, True, False]
    assert BINARY64.holds(x).tolist() == [True] * 5 + [False, False, True, True]


@pytest.mark.parametrize("name", ["float16", "binary16"])
def test_formats_have_two_names(name):
    """IEEE's and NumPy's."""
    assert format_named(name) is BINARY16


def test_an_unknown_format_is_refused():
    """The known ones are listed."""
    with pytest.raises(
        InputRejected, match="there is no format 'float8'; use one of e5m2, e4m3, float16, bfloat16, tf32, float32,"
    ):
        format_named("float8")


def test_scales_beyond_a_format_are_refused():
    """2**k and its reciprocal must be numbers of the format."""
    BINARY16.check_scale(15)
    BINARY16.check_scale(-15)
    for exponent in (16, -16):
        with pytest.raises(InputRejected, match=re.escape(f"the kernel scales by 2**{exponent}, which float16")):
            BINARY16.check_scale(exponent)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ((52, 127), "'mine' has a precision of 52 bits; use 2 to 24 bits, or float64"),
        ((25, 127), "a precision of 25 bits"),
        ((1, 15), "a precision of 1 bits"),
        ((53, 127), "53 bits and not the exponents of float64; use emin=-1022,emax=1023"),
        ((53, 1023, -1022, 1), "53 bits and not the exponents"),
        ((24, 401), "exponents -400 to 401; use emin < emax, both between -400 and 400"),
        ((11, 15, -401), "exponents -401 to 15"),
        ((11, 15, 15), "exponents 15 to 15"),
        ((4, 15, 2), "does not hold the number 1; use emin <= 0 <= emax"),
        ((4, -2, -9), "does not hold the number 1"),
        ((4, 8, -6, 8), "lacks 8 numbers at the top; use a cut of 0 to 7"),
        ((4, 8, -6, -1), "lacks -1 numbers at the top"),
    ],
)
def test_formats_that_cannot_be_emulated_are_refused(parameters, sentence):
    """Made by hand as by name; what the sentence says instead is accepted."""
    with pytest.raises(InputRejected, match=re.escape(sentence)):
        Format("mine", *parameters)


def test_formats_at_the_edge_are_accepted():
    """The widest exponents, the fewest and most bits, and only one number in the top binade."""
    for parameters in ((2, 1, 0), (24, 400, -400), (53, 1023), (4, 8, -6, 7), (3, 0, -1)):
        format = Format("mine", *parameters)
        assert format.holds(np.array([1.0, format.largest])).all()
    assert Format("mine", 4, 8, -6, 7).largest == 256.0
