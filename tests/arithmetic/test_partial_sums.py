"""All partial sums at once: the bits of one addition at a time, in every format."""

import numpy as np
import pytest

from certify.arithmetic import BINARY16, BINARY32, BINARY64, Ieee, format_named
from certify.arithmetic.chains import chains, partial_sums

FORMATS = (
    *("float16", "float32", "float64", "bfloat16", "tf32", "e5m2", "e4m3"),
    *("float16,saturate", "e4m3,saturate", "p=3,emin=-4,emax=5", "p=24,emin=-300,emax=300"),
)


def _terms(rng, format, shape, regime):
    """Numbers of the format: of any size, of one sign, subnormal, near overflow, cancelling, ties."""
    sizes = {
        "plain": lambda: rng.standard_normal(shape),
        "one sign": lambda: 1.0 + format.u * rng.integers(0, 4, shape),
        "tiny": lambda: format.min_subnormal * rng.integers(-5, 6, shape),
        "huge": lambda: format.largest * rng.choice([-0.75, -0.5, 0.5, 0.75, 1.0], shape),
        "mixed": lambda: rng.standard_normal(shape) * np.ldexp(1.0, rng.integers(-12, 12, shape)),
        "ties": lambda: rng.choice([1.0, format.u, -format.u, 3 * format.u, 2.0, -2.0, 0.0, -0.0], shape),
    }
    return format.unbounded.round(sizes[regime]())


def _same(a, b):
    """The same bits, signs of zeros included; a NaN is a NaN."""
    return bool(((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("regime", ["plain", "one sign", "tiny", "huge", "mixed", "ties"])
@pytest.mark.parametrize("name", FORMATS)
def test_partial_sums_are_one_addition_at_a_time(name, regime):
    """Every partial sum of several lanes and rows, with infinities and NaN among the terms of the last lane."""
    format = format_named(name)
    rng = np.random.default_rng(5)
    ieee = Ieee(format)
    terms = _terms(rng, format, (2, 300, 5), regime)
    terms[:, 200, 3], terms[0, 250, 3], terms[1, 100, 4] = np.inf, -np.inf, np.nan
    terms = terms.astype(ieee.empty(0).dtype)
    start = terms[:, 0]
    sums = partial_sums(format, start, terms)
    assert sums.dtype == terms.dtype and sums.shape == (2, 301, 5)
    total = start
    assert _same(sums[:, 0], start)
    with np.errstate(all="ignore"):
        for k in range(300):
            total = ieee.add(total, terms[:, k])
            assert _same(sums[:, k + 1], total)


def test_partial_sums_round_ties_to_even_and_overflow():
    """By hand, in binary16: 2048 + 1 = 2048, 2050 + 1 = 2052 (a tie), 65504 + 16 = infinity."""
    terms = np.array([[1.0, 1.0, 16.0], [1.0, 1.0, 0.0]])
    sums = partial_sums(BINARY16, np.array([2048.0, 2050.0, 65504.0]), terms)
    assert sums.tolist() == [[2048, 2050, 65504], [2048, 2052, np.inf], [2048, 2052, np.inf]]


@pytest.mark.parametrize("format", [BINARY16, BINARY32], ids=lambda f: f.name)
def test_terms_of_a_wider_format_are_added_as_they_are(format):
    """1 + (1 + 2**-30) u rounds up, where the term rounded first would make a tie that rounds down."""
    term = format.u * (1 + 2.0**-20)
    assert partial_sums(format, np.ones(1), np.array([[term]]))[-1, 0] == 1 + 2 * format.u


def test_a_repeated_row_is_not_a_repeated_zero():
    """Rows that differ only in the sign of a zero keep it, in a format that is added by hand."""
    format = format_named("e4m3")
    rows = np.array([[-0.0], [0.0]])
    sums = partial_sums(format, rows, np.stack([np.full((20, 1), -0.0)] * 2))
    assert np.signbit(sums[0]).all() and not np.signbit(sums[1]).any()


def test_flushing_formats_have_no_chain():
    """Flushing moves the ends of enclosures by a rule of its own; wide sums are faster by arrays."""
    assert not chains(format_named("float16,ftz"), 1)
    assert chains(BINARY64, 1) and not chains(BINARY64, 10_000)
    assert chains(format_named("bfloat16"), 1) and not chains(format_named("bfloat16"), 200)
