"""The formats beside the four of IEEE: against ml_dtypes and gfloat over all their values, torch where it is installed."""

from fractions import Fraction
from importlib.util import find_spec

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32, E4M3, E5M2, FORMATS, TF32, Ieee, format_named
from certify.arithmetic.accumulators import accumulator, products_are_exact
from certify.errors import InputRejected

STORED = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
}
GFLOAT = {"e4m3": gfloat.formats.format_info_ocp_e4m3, "e5m2": gfloat.formats.format_info_ocp_e5m2}
OPERATIONS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def _values(name, bits=None):
    """Every value of a stored format, NaNs and infinities included, as binary64."""
    dtype = STORED[name]
    unsigned = {1: np.uint8, 2: np.uint16}[np.dtype(dtype).itemsize]
    with np.errstate(invalid="ignore"):
        return np.arange(2 ** (8 * np.dtype(dtype).itemsize)).astype(unsigned).view(dtype).astype(np.float64)


def _same(a, b):
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    zeros = (a == 0) & (b == 0)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]))


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_all_pairs_of_8_bits(name):
    """65,536 pairs for each of +, -, *: ml_dtypes computes the same, overflow to NaN or infinity included."""
    values, ieee = _values(name), Ieee(FORMATS[name])
    a, b = (x.ravel() for x in np.meshgrid(values, values, indexing="ij"))
    with np.errstate(all="ignore"):
        for operation, native in OPERATIONS.items():
            # their sums and products are exact in binary32, which ml_dtypes rounds once
            expected = native(a.astype(STORED[name]), b.astype(STORED[name])).astype(np.float64)
            assert _same(getattr(ieee, operation)(a, b), expected), operation


@pytest.mark.parametrize("source", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "bfloat16", "float16"])
def test_all_casts_from_16_bits(name, source):
    """65,536 inputs: the cast of ml_dtypes, by way of binary32, which holds them all."""
    values = _values(source)
    with np.errstate(all="ignore"):
        expected = values.astype(np.float32).astype(STORED[name]).astype(np.float64)
        assert _same(FORMATS[name].round(values), expected)


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e4m3,saturate", "e5m2,saturate"])
def test_casts_agree_with_gfloat(name):
    """Numbers, ties, the neighbourhood of the largest number, infinities: saturating and not."""
    format = format_named(name)
    values = np.unique(_values(name.split(",")[0]))
    values = values[np.isfinite(values)]
    ties = (values[1:] + values[:-1]) / 2
    top = format.largest * np.array([1.0, 1.01, 1.03, 1.0357142857142858, 1.036, 1.0625, 1.07, 1.125, 1.2, 2.0, 1e9])
    points = np.concatenate([values, ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), top, -top])
    points = np.concatenate([points, [np.inf, -np.inf, np.nan]])
    saturates = name.endswith("saturate")
    info, mode = GFLOAT[name.split(",")[0]], gfloat.RoundMode.TiesToEven
    expected = [gfloat.round_float(info, x, mode, saturates) for x in points.tolist()]
    assert _same(format.round(points), expected)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "bfloat16", "float16"])
def test_all_casts_of_torch(name):
    """65,536 inputs of bfloat16 and of float16 cast by torch; its e4m3 saturates, infinities included."""
    import torch

    dtype = {
        "e4m3": torch.float8_e4m3fn,
        "e5m2": torch.float8_e5m2,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
    }
    for source in ("float16", "bfloat16"):
        values = _values(source)
        with np.errstate(invalid="ignore"):  # of signalling NaNs
            cast = torch.from_numpy(values.astype(np.float32)).to(dtype[name]).to(torch.float64).numpy()
        assert _same(format_named(f"{name},saturate" if name == "e4m3" else name).round(values), cast)


def test_tf32_has_the_precision_of_binary16_and_the_range_of_binary32():
    """Ten bits after the point."""
    assert (TF32.u, TF32.min_normal, TF32.emax) == (BINARY16.u, BINARY32.min_normal, BINARY32.emax)
    x = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 3e38, 2.0**-140, 3.4028e38])
    assert TF32.round(x).tolist() == [1.0, 1 + 2.0**-9, float(TF32.round(np.array([3e38]))[0]), 0.0, np.inf]
    normal = np.random.default_rng(1).standard_normal(1000)
    assert (
        np.array_equal(TF32.round(normal), BINARY16.round(normal * 2.0**3) / 2.0**3)
        or (np.abs(normal) < 2.0**-10).any()
    )


def test_constants_of_the_8_bit_formats():
    """OCP: 448 and 57344 are the largest numbers, 2**-9 and 2**-16 the smallest."""
    assert (E4M3.largest, E4M3.min_subnormal, E4M3.min_normal) == (448.0, 2.0**-9, 2.0**-6)
    assert (E5M2.largest, E5M2.min_subnormal, E5M2.min_normal) == (57344.0, 2.0**-16, 2.0**-14)
    for format in (E4M3, E5M2):
        finfo = ml_dtypes.finfo(STORED[format.name])
        assert format.largest == float(finfo.max)
        assert format.min_subnormal == float(finfo.smallest_subnormal)


@pytest.mark.parametrize("name", ["float16,ftz", "float32,ftz", "float64,ftz", "e4m3,ftz", "p=5,emin=-3,emax=4,ftz"])
def test_flushing_looks_at_the_rounded_result(name):
    """What rounds to a subnormal number becomes a zero of its sign; what rounds up to the smallest normal one stays."""
    format = format_named(name)
    least, tiny = format.min_normal, format.min_subnormal
    x = np.array([least, least - tiny, least / 2, tiny, 0.0, 1.0])
    assert format.round(x).tolist() == [least, 0.0, 0.0, 0.0, 0.0, 1.0]
    assert np.signbit(format.round(-x)).all()
    if format.precision < 53:
        up = np.array([least - tiny / 4, least - tiny / 2, least - 0.75 * tiny])
        assert format.round(up).tolist() == [least, least, 0.0]
    ieee = Ieee(format)
    assert ieee.sub(np.array([1.5 * least]), np.array([least])).tolist() == [0.0]
    assert not format.holds(np.array([tiny]))[0]


def test_saturation_and_nan_propagate():
    """A saturated result is the largest number, NaN stays NaN, and infinities are gone."""
    format = format_named("e5m2,saturate")
    assert format.round(np.array([6e4, 1e9, np.inf, -np.inf])).tolist() == [57344.0, 57344.0, 57344.0, -57344.0]
    assert np.isnan(format.round(np.array([np.nan]))[0])
    assert format.unbounded.round(np.array([1e9]))[0] == np.inf
    ieee = Ieee(E4M3)
    assert np.isnan(ieee.mul(np.array([448.0]), np.array([2.0]))[0])
    assert ieee.add(np.array([448.0]), np.array([16.0])).tolist() == [448.0]  # the tie goes to the even significand


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("p=11,emin=-14,emax=15", "float16"),
        ("p=24,emin=-126,emax=127,ftz", "float32,ftz"),
        ("p=53,emin=-1022,emax=1023", "float64"),
        ("binary32,saturate,ftz", "float32,ftz,saturate"),
        ("p=8,emin=-10,emax=20,saturate", "p=8,emin=-10,emax=20,saturate"),
        ("float8_e4m3fn", "e4m3"),
    ],
)
def test_names_are_canonical(name, canonical):
    """Equal formats have equal names, whatever they were called, and a name is that of the format it names."""
    format = format_named(name)
    assert format.name == canonical
    assert format_named(canonical) == format


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("p=25,emin=-10,emax=10", "has a precision of 25 bits; use 2 to 24 bits, or float64"),
        ("p=53,emin=-10,emax=10", "53 bits and not the exponents of float64"),
        ("p=8,emin=-900,emax=10", "has exponents -900 to 10; use emin < emax"),
        ("p=8,emin=5,emax=5", "has exponents 5 to 5"),
        ("float16,ftz,ftz", "says ftz twice"),
        ("float16,round", "there is no format"),
        ("p=8", "there is no format 'p=8'; use one of e5m2"),
    ],
)
def test_formats_that_cannot_be_emulated_are_refused(name, message):
    """The culprit and the remedy, in one sentence."""
    with pytest.raises(InputRejected, match=message.replace("?", ".")):
        format_named(name)


@pytest.mark.parametrize("name", [*FORMATS, "float16,ftz", "p=2,emin=-3,emax=7", "p=24,emin=-40,emax=300"])
def test_fused_multiply_add_rounds_the_exact_result_once(name):
    """Thousands of triples, cancelling and far apart, against rationals rounded once."""
    format, rng, n = format_named(name), np.random.default_rng(3), 3000
    ieee = Ieee(format)
    a, b = (format.unbounded.round(rng.standard_normal(n) * 2.0 ** rng.integers(-3, 3, n)) for _ in range(2))
    near = -a * b * (1 + format.u * rng.integers(-3, 4, n))
    far = rng.standard_normal(n) * 2.0 ** rng.integers(format.emin, format.emax, n)
    tie = np.where(rng.random(n) < 0.5, near, far)
    a[::7] = a[::7] * 2.0 ** (format.emin // 2)
    b[::7] = b[::7] * 2.0 ** (format.emin // 2)
    tie[::14] = format.min_normal * rng.integers(-3, 4, len(tie[::14]))
    a, b, c = (np.where(np.isfinite(x), x, 0.0) for x in (format.unbounded.round(v) for v in (a, b, tie)))
    with np.errstate(all="ignore"):
        result = ieee.fma(*(ieee.constant(x) for x in (a, b, c))).astype(np.float64)
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), result.tolist(), strict=True):
        assert r == _nearest(format, Fraction(x) * Fraction(y) + Fraction(z)) or np.isnan(r), (x, y, z)


def _nearest(format, value):
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    ulp = Fraction(2) ** (max(exponent, format.emin) - format.precision + 1)
    rounded = round(size / ulp) * ulp
    if rounded > Fraction(format.largest):
        rounded = float("inf")
    if format.flush and rounded < Fraction(format.min_normal):
        rounded = 0
    return float(np.copysign(float(rounded), float(value > 0) - 0.5))


def test_accumulators_hold_the_format():
    """binary16 in binary32 and so on; bfloat16 does not fit into binary16; which products are exact."""
    assert accumulator("float32", BINARY16) == BINARY32
    with pytest.raises(InputRejected, match="the accumulator float16 cannot hold every number of bfloat16"):
        accumulator("float16", FORMATS["bfloat16"])
    exact = {
        ("float16", "float32"),
        ("float32", "float64"),
        ("e4m3", "float16"),
        ("e4m3", "float32"),
        ("e5m2", "float32"),
    }
    inexact = {("bfloat16", "float32"), ("e5m2", "float16"), ("float16", "float16"), ("tf32", "float32")}
    for name, wide in exact | inexact:
        assert products_are_exact(FORMATS[name], FORMATS[name], FORMATS[wide]) is ((name, wide) in exact)
