"""Emulated arithmetic against hardware, ml_dtypes and exact rationals: the same bits, signs of zero and NaNs included."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64, FORMATS, Ieee
from certify.errors import InputRejected

NATIVE = {"float16": np.float16, "float32": np.float32, "float64": np.float64, "bfloat16": ml_dtypes.bfloat16}
PLAIN = (BINARY16, BFLOAT16, BINARY32, BINARY64)
OPERATIONS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def _same(a, b):
    a, b = (np.asarray(x).astype(np.float64) for x in (a, b))
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0]))


def _partners(values, rng):
    """64 partners for each value: near ones, far ones, special ones, random ones."""
    n = len(values)
    order = np.arange(n)
    for k in range(64):
        if k < 8:
            yield np.roll(values, k - 4)
        elif k < 16:
            yield -np.roll(values, k - 12)
        elif k < 24:
            yield np.full(n, values[rng.integers(n)], dtype=values.dtype)
        else:
            yield values[rng.permutation(order)]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_all_values_of_16_bits_with_64_partners_each(name):
    """4.2 million pairs for each of +, -, *: subnormals, infinities and NaNs among them."""
    dtype = NATIVE[name]
    values = np.arange(2**16, dtype=np.uint16).view(dtype)
    ieee, rng = Ieee(FORMATS[name]), np.random.default_rng(7)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        for partner in _partners(values, rng):
            other = partner.astype(np.float64)
            for operation, native in OPERATIONS.items():
                assert _same(getattr(ieee, operation)(wide, other), native(values, partner)), operation


def _special(dtype, rng, n):
    """Random bit patterns, so all exponents, subnormals, infinities and NaNs."""
    bits = {4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    return rng.integers(0, np.iinfo(bits).max, n, dtype=bits, endpoint=True).view(dtype)


@pytest.mark.parametrize("format", [BINARY32, BINARY64], ids=lambda f: f.name)
def test_wide_formats_are_the_hardware(format):
    """A million pairs of random bit patterns and of near magnitudes."""
    dtype, ieee, rng = NATIVE[format.name], Ieee(format), np.random.default_rng(8)
    with np.errstate(all="ignore"):
        for _ in range(8):
            x, y = _special(dtype, rng, 2**16), _special(dtype, rng, 2**16)
            near = (x * (1 + dtype(format.u) * rng.integers(-4, 5, len(x)).astype(dtype))).astype(dtype)
            for other in (y, near, -near):
                for operation, native in OPERATIONS.items():
                    result = getattr(ieee, operation)(x, other)
                    assert result.dtype == dtype and _same(result, native(x, other)), operation


def _nearest(format, value):
    """The exact value rounded to the format, ties to even, as a float; inf on overflow."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    ulp = Fraction(2) ** (max(exponent, format.emin) - format.precision + 1)
    rounded = round(size / ulp) * ulp
    result = np.inf if rounded >= Fraction(2) ** (format.emax + 1) else float(rounded)
    return result if value > 0 else -result


@pytest.mark.parametrize("format", PLAIN, ids=lambda f: f.name)
def test_operations_round_the_exact_result_once(format):
    """5,000 pairs with sums far apart, near midpoints and subnormal products, against rationals: no double rounding."""
    rng, ieee, n = np.random.default_rng(9), Ieee(format), 5000
    significands = rng.integers(2 ** (format.precision - 1), 2**format.precision, (2, n))
    significands[:, ::5] = 2 ** (format.precision - 1) + rng.integers(0, 2, (2, len(significands[0, ::5])))
    spread = rng.integers(-2 * format.precision - 4, 2 * format.precision + 4, n)
    base = np.where(rng.random(n) < 0.3, format.emin // 2, 0)
    exponents = np.stack([base, np.clip(base + spread, format.emin, format.emax - 1)]) - format.precision + 1
    x, y = rng.choice([-1, 1], (2, n)) * np.ldexp(significands.astype(np.float64), exponents)
    x, y = (ieee.constant(v) for v in (x, y))
    with np.errstate(all="ignore"):
        results = {"add": ieee.add(x, y), "sub": ieee.sub(x, y), "mul": ieee.mul(x, y)}
    exactly = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    for operation, result in results.items():
        assert result.tolist() == [_nearest(format, exactly[operation](a, b)) for a, b in pairs], operation


def test_a_sum_that_would_round_twice():
    """binary64 of 1 + 2**-11 + 2**-24 keeps all bits, so binary16 rounds up; a detour over 12 bits would tie to 1."""
    ieee = Ieee(BINARY16)
    assert ieee.add(np.array([1.0]), np.array([2.0**-11 + 2.0**-21]))[0] == 1 + 2.0**-10
    assert ieee.add(np.array([1.0]), np.array([2.0**-11]))[0] == 1.0


@pytest.mark.parametrize("format", PLAIN, ids=lambda f: f.name)
def test_scaling_rounds_once_on_underflow(format):
    """x 2**k for all k the format holds, against rationals; overflow gives an infinity."""
    ieee, rng = Ieee(format), np.random.default_rng(10)
    x = ieee.constant(rng.standard_normal(40) * 2.0 ** rng.integers(format.emin, format.emax, 40))
    for k in {-format.emax, format.emin, -7, -1, 0, 1, 9, format.emax}:
        with np.errstate(all="ignore"):
            result = ieee.scale(x, k)
        assert result.tolist() == [_nearest(format, Fraction(v) * Fraction(2) ** k) for v in x.tolist()]
    with pytest.raises(InputRejected, match="use a format with a wider exponent range"):
        ieee.scale(x, format.emax + 1)


@pytest.mark.parametrize("format", PLAIN, ids=lambda f: f.name)
def test_negation_and_relu_are_exact(format):
    """Signs flip, negative numbers become 0, NaN stays."""
    ieee = Ieee(format)
    x = ieee.constant(np.array([1.5, -1.5, 0.0, np.inf, -np.inf, np.nan]))
    assert ieee.neg(x)[:5].tolist() == [-1.5, 1.5, 0.0, -np.inf, np.inf]
    relu = ieee.relu(x)
    assert relu.dtype == x.dtype
    assert relu[:5].tolist() == [1.5, 0.0, 0.0, np.inf, 0.0] and np.isnan(relu[5])


def test_constants_are_converted_once():
    """0.1 in each format, and a number beyond binary16 without a warning."""
    assert Ieee(BINARY32).constant(np.array([0.1])).dtype == np.float32
    assert Ieee(BINARY16).constant(np.array([0.1, 1e6])).tolist() == [float(np.float16(0.1)), np.inf]
    assert Ieee(BFLOAT16).constant(np.array([0.1])).tolist() == [0.10009765625]
