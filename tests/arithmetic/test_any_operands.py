"""Operations in one format on numbers of any other are rounded once: against rationals, NumPy and ml-dtypes."""

from fractions import Fraction
from math import isqrt

import ml_dtypes
import numpy as np
import pytest

from certify.arithmetic import cast, format_named
from certify.arithmetic.elementary import nearest
from certify.arithmetic.errorfree import product_to_odd, quotient_to_odd, root_to_odd, sum_to_odd
from certify.arithmetic.ieee import AnyOperands
from certify.errors import InputRejected

DTYPES = {
    "float16": np.float16,
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
TARGETS = (*DTYPES, "tf32", "float64", "float16,ftz", "e4m3,saturate", "p=5,emin=-3,emax=4", "p=24,emin=-300,emax=300")
SOURCES = ("float16", "float32", "float64", "e5m2")


def _sixteen_bits(dtype):
    """All 65,536 numbers of a 16-bit format, as binary64."""
    return np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float64)


def _same(a, b):
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)])
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_casts_of_every_16_bit_number(source, target):
    """Infinities, NaNs, subnormals and signs of zero included."""
    x = _sixteen_bits(DTYPES[source])
    assert _same(cast(x, target), x.astype(DTYPES[target]).astype(np.float64))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_casts_of_wider_numbers(source, target):
    """100,000 numbers: halfway cases and their neighbours, around the largest and the smallest numbers, and any."""
    rng, f = np.random.default_rng(3), format_named(target)
    below = f.round(rng.standard_normal(20_000) * 2.0 ** rng.integers(f.emin - 3, min(f.emax, 100) + 1, 20_000))
    below = np.where(np.isfinite(below), below, 1.0)
    halfway = below + np.copysign(2.0 ** (np.maximum(np.frexp(below)[1] - 1, f.emin) - f.precision), below)
    edges = f.largest * rng.uniform(0.9, 1.2, 10_000)
    small = f.min_subnormal * rng.uniform(0, 3, 10_000)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, f.largest, f.min_subnormal / 2, f.min_normal])
    x = np.concatenate([halfway, np.nextafter(halfway, np.inf), np.nextafter(halfway, -np.inf), edges, -edges, small])
    x = np.concatenate([x, -small, rng.standard_normal(20_000) * 10.0 ** rng.integers(-50, 38, 20_000), special])
    with np.errstate(over="ignore", under="ignore"):
        x = x.astype(source)
    assert len(x) >= 100_000
    # ml-dtypes rounds binary64 by way of binary32 in some versions, twice: 8 bits are compared from binary32 only
    given = x if source is np.float32 or target in ("float16", "float32") else _to_odd_32(x.astype(np.float64))
    assert _same(cast(x, target), given.astype(DTYPES[target]).astype(np.float64))


def _to_odd_32(x):
    """Binary64 numbers rounded to odd in binary32, from where one more rounding is the only one that counts."""
    y = x.astype(np.float32)
    error = x - y.astype(np.float64)
    bits = y.view(np.int32)
    move = np.isfinite(y) & (error != 0) & ((bits & 1) == 0)
    towards = np.where(error > 0, np.float32(np.inf), np.float32(-np.inf))
    return np.where(move, np.nextafter(y, towards), y)


def _numbers(rng, name, target, n):
    """Numbers of a format near where the target rounds: midpoints of it, sums and products that come close to some."""
    f, t = format_named(name), format_named(target)
    least, most = max(f.emin, t.emin - 3, -60), min(f.emax, t.emax + 1, 60)
    x = rng.choice([-1.0, 1.0], n) * rng.uniform(1, 2, n) * 2.0 ** rng.integers(least, max(most, least + 1) + 1, n)
    short = np.ldexp(rng.integers(1, 2 ** (t.precision + 1), n) if t.precision < 53 else x, rng.integers(-4, 3, n))
    return np.clip(f.unbounded.round(np.where(rng.random(n) < 0.5, x, short)), -f.largest, f.largest)


def _fraction(x):
    return Fraction(float(x))


def _root(x, format):
    """The correctly rounded root: of an integer root with a sticky bit far below the last."""
    shift = 600
    scaled = x * 4**shift
    root = isqrt(scaled.numerator // scaled.denominator)
    exact = root * root * scaled.denominator == scaled.numerator
    return nearest((Fraction(root) if exact else root + Fraction(1, 2)) / 2**shift, format)


EXACT = {
    "add": lambda a, b, c, f: nearest(a + b, f),
    "sub": lambda a, b, c, f: nearest(a - b, f),
    "mul": lambda a, b, c, f: nearest(a * b, f),
    "div": lambda a, b, c, f: nearest(a / b, f),
    "sqrt": lambda a, b, c, f: _root(abs(a), f),
    "fma": lambda a, b, c, f: nearest(a * b + c, f),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("target", TARGETS)
def test_operations_on_wider_numbers_are_rounded_once(target, source):
    """+, -, *, /, roots and fused multiply-adds against rationals, with midpoints among the results."""
    rng, f = np.random.default_rng(4), format_named(target)
    machine, n = AnyOperands(f), 250
    a, b, c = (_numbers(rng, source, target, n) for _ in range(3))
    # sums and products that end a little beside a midpoint of the target
    b[: n // 2] *= rng.choice([1.0, 2.0**-30, 2.0**-45], n // 2)
    b = format_named(source).round(b)
    b = np.where(b == 0, 1.0, b)
    calls = {"add": (a, b), "sub": (a, b), "mul": (a, b), "div": (a, b), "sqrt": (np.abs(a),), "fma": (a, b, c)}
    for name, operands in calls.items():
        with np.errstate(all="ignore"):
            found = getattr(machine, name)(*operands)
        wanted = [EXACT[name](*map(_fraction, lane), f) for lane in zip(a, b, c, strict=True)]
        assert np.array_equal(found, wanted, equal_nan=True), name


def test_rounding_to_odd_is_what_keeps_midpoints_apart():
    """Without it, binary64 rounds these to a midpoint of binary32, and that to the wrong side."""
    f = format_named("float32")
    machine, tiny = AnyOperands(f), 2.0**-60
    middle = np.array([1 + 2.0**-24])
    assert machine.add(middle, np.array([tiny])) == 1 + 2.0**-23
    assert f.round(middle + tiny) == 1
    a, b = np.array([1 + 2.0**-24 + 2.0**-52]), np.array([1 - 2.0**-53])
    exact = _fraction(a[0]) * _fraction(b[0])
    assert machine.mul(a, b) == nearest(exact, f)


@pytest.mark.parametrize("operation", ["sum", "product", "quotient", "root"])
def test_rounding_to_odd_is_on_the_right_side(operation):
    """Exact results stay; others become the neighbour of odd significand, below or above."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(2000) * 2.0 ** rng.integers(-40, 40, 2000) for _ in range(2))
    a[::3], b[::3] = np.rint(a[::3]) + 1.0, np.rint(b[::3]) + 0.5
    exactly = {
        "sum": (sum_to_odd, lambda x, y: x + y),
        "product": (product_to_odd, lambda x, y: x * y),
        "quotient": (quotient_to_odd, lambda x, y: x / y),
    }
    if operation == "root":
        squares = [_fraction(r) ** 2 - _fraction(x) for r, x in zip(root_to_odd(np.abs(a)), np.abs(a), strict=True)]
        errors, found = squares, root_to_odd(np.abs(a))
    else:
        odd, rational = exactly[operation]
        found = odd(a, b)
        errors = [_fraction(r) - rational(_fraction(x), _fraction(y)) for r, x, y in zip(found, a, b, strict=True)]
    inexact = np.array([e != 0 for e in errors])
    assert inexact.any()
    assert ((found.view(np.int64) & 1)[inexact] == 1).all()
    spacing = np.spacing(np.abs(found))
    scale = 2 * found if operation == "root" else np.ones(len(found))
    assert all(abs(e) <= 1.01 * abs(s) * t for e, s, t in zip(errors, scale.tolist(), spacing.tolist(), strict=True))


def test_infinities_and_nans_pass_through():
    """As IEEE 754 has them; a format without infinities gives NaN."""
    machine = AnyOperands(format_named("bfloat16"))
    inf, nan, one = np.array([np.inf]), np.array([np.nan]), np.array([1.0])
    with np.errstate(all="ignore"):
        assert machine.add(inf, one) == np.inf and np.isnan(machine.add(inf, -inf))
        assert machine.mul(inf, -one) == -np.inf and np.isnan(machine.mul(inf, 0 * one))
        assert machine.div(one, 0 * one) == np.inf and np.isnan(machine.sqrt(-one)) and machine.sqrt(inf) == np.inf
        assert np.isnan(machine.fma(nan, one, one)) and machine.fma(inf, one, one) == np.inf
        assert np.isnan(AnyOperands(format_named("e4m3")).add(np.array([300.0]), np.array([300.0])))


def test_cast_of_plain_numbers():
    """A scalar, a list; and a format that there is not."""
    assert cast(1.0 + 2.0**-9, "bfloat16") == 1.0
    assert cast([500.0, 0.1], "e4m3,saturate").tolist() == [448.0, 0.1015625]
    with pytest.raises(InputRejected, match="bfloat17"):
        cast(1.0, "bfloat17")
