"""All partial sums at once: the bits of one operation at a time, in every format."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.arithmetic import BINARY16, BINARY32, BINARY64, Ieee, format_named
from certify.arithmetic.chains import chains, fused_chains, partial_sums, verified_sums
from certify.arithmetic.elementary import nearest

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


FUSED = (*FORMATS, "float16,ftz", "float32,ftz", "float64,ftz", "float64,saturate", "e4m3,ftz,saturate")
FUSED_REGIMES = ("plain", "one sign", "tiny", "huge", "mixed", "ties", "cancelling", "midpoints")


def _factors(rng, format, shape, regime):
    """Factors whose products are like `_terms`, cancel up to an ulp, or meet sums near midpoints that binary64 cannot hold."""
    if regime in ("plain", "one sign", "mixed", "ties", "huge"):
        return _terms(rng, format, shape, regime), _terms(rng, format, shape, "ties" if regime == "huge" else regime)
    if regime == "tiny":
        return _terms(rng, format, shape, "tiny"), _terms(rng, format, shape, "plain")
    a, b = _terms(rng, format, shape, "plain"), _terms(rng, format, shape, "plain")
    if regime == "cancelling":
        a[..., 1::2, :], b[..., 1::2, :] = -a[..., ::2, :], b[..., ::2, :]
        return format.unbounded.round(a * (1 + 2 * format.u * rng.integers(-1, 2, shape))), b
    # half an ulp of sums near 1, and what decides the tie: far below what binary64 sees of the sum
    small = np.maximum(2.0 ** -rng.integers(20, 60, shape), format.min_subnormal)
    a = np.where(rng.random(shape) < 0.5, format.u, small) * rng.choice([-1.0, 1.0], shape)
    return format.unbounded.round(a), format.unbounded.round(rng.choice([1.0, 3.0, small.max()], shape))


@pytest.mark.parametrize("regime", FUSED_REGIMES)
@pytest.mark.parametrize("name", FUSED)
def test_a_fused_chain_is_one_fused_multiply_add_at_a_time(name, regime):
    """Every partial result of several lanes and rows, the last lane with infinities and NaN."""
    format = format_named(name)
    rng = np.random.default_rng(6)
    ieee = Ieee(format)
    a, b = _factors(rng, format, (2, 120, 4), regime)
    a[:, 90, 3], a[0, 110, 3], b[1, 30, 3] = np.inf, -np.inf, np.nan
    with np.errstate(all="ignore"):
        a, b = ieee.constant(a), ieee.constant(b)
        start = total = ieee.constant(rng.choice([1.0, -1.0, 0.0, -0.0], (2, 4)))
        for k in range(120):
            total = ieee.fma(a[:, k], b[:, k], total)
            if k < 20 or k % 20 == 19:
                chained = ieee.fused_chain(start, a[:, : k + 1], b[:, : k + 1])
                assert chained.dtype == total.dtype and _same(chained, total)


_WIDE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(_WIDE, _WIDE), min_size=1, max_size=40), st.sampled_from(["float64", "float32", "e4m3"]))
@settings(max_examples=200, deadline=None)
def test_fused_chains_of_any_numbers_are_correctly_rounded(pairs, name):
    """Numbers of all sizes against rationals, up to the first overflow."""
    format = format_named(name)
    ieee = Ieee(format.unbounded)
    with np.errstate(all="ignore"):
        a, b = (ieee.constant(np.array(x)[:, None]) for x in zip(*pairs, strict=True))
        total = Fraction(0)
        for k, (x, y) in enumerate(zip(a[:, 0].tolist(), b[:, 0].tolist(), strict=True)):
            chained = ieee.fused_chain(ieee.constant(np.zeros(1)), a[: k + 1], b[: k + 1])[0]
            if not np.isfinite([x, y, chained]).all():
                break
            total = Fraction(nearest(Fraction(x) * Fraction(y) + total, format.unbounded))
            assert Fraction(float(chained)) == total


@given(st.lists(st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0, np.nan]), min_size=40, max_size=40), max_size=30))
@settings(max_examples=100, deadline=None)
def test_sums_do_not_depend_on_the_guess(errors):
    """Guesses that are off by 1 or NaN here and there: every sum is that of the step."""
    terms = np.arange(40.0)[:, None] * np.array([1.0, -3.0])
    off = iter(errors)

    def guess(start, part):
        some = np.array(next(off, [0.0] * 40))[: len(terms[part]), None]
        return start + np.cumsum(terms[part], axis=0) + some

    sums = verified_sums(np.zeros(2), 40, guess, lambda before, part: before + terms[part])
    assert (sums == np.concatenate([np.zeros((1, 2)), np.cumsum(terms, axis=0)])).all()


def test_a_guess_of_the_wrong_zero_is_wrong():
    """-0 for 0 is another number: what is made of it could be, too."""
    sums = verified_sums(
        np.array([-0.0]), 3, lambda start, part: -np.zeros((3, 1))[part], lambda before, part: before + 0.0
    )
    assert np.signbit(sums[:, 0]).tolist() == [True, False, False, False]


def test_ties_of_fused_sums_are_decided_by_what_binary64_loses():
    """1 + u + 2**-60 in binary32 rounds up, 1 + u - 2**-60 down, in the first and in later steps."""
    ieee = Ieee(BINARY32)
    a = ieee.constant(np.array([[BINARY32.u, BINARY32.u]] * 2) * (1 + 2.0**-20))
    b = ieee.constant(np.array([[1 - 2.0**-21, 1 - 2.0**-20]] * 2))
    exact = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[0], b[0], strict=True)]
    assert exact[0] > Fraction(1, 2**24) > exact[1]
    assert ieee.fused_chain(ieee.constant(np.ones(2)), a[:1], b[:1]).tolist() == [1 + 2.0**-23, 1.0]


def test_fused_chains_are_for_few_lanes():
    """Many lanes are faster by arrays."""
    assert fused_chains(1) and not fused_chains(10_000)
