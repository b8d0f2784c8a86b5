"""Exact numbers: one value for every text, and roundings that never cross the value they bound."""

import math
import re
import struct
import time
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from certify.arithmetic.directed import round_down, round_up
from certify.certificate import decimal_up, numbers, parse, schema, to_hex, to_text
from certify.errors import InputRejected

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LARGEST = (2**53 - 1) * 2**971
# Ratios over the whole range of binary64 and beyond it on both sides.
RATIOS = st.builds(
    lambda over, under, shift: Fraction(over, under) * Fraction(2) ** shift,
    st.integers(-(2**70), 2**70),
    st.integers(1, 2**70),
    st.integers(-1200, 1100),
)
NEAR_FLOATS = st.builds(
    lambda x, over, under: Fraction(x) * (1 + Fraction(over, under * 2**60)),
    FINITE,
    st.integers(-9, 9),
    st.integers(1, 9),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x1.8p+1", Fraction(3)),  # 1.5 * 2
        ("-0x1.8p+1", Fraction(-3)),
        ("0x1.8000000000000p+1", Fraction(3)),  # as float.hex writes it
        ("0x1f3p-40", Fraction(499, 2**40)),  # 0x1f3 = 256 + 15 * 16 + 3
        ("0xap0", Fraction(10)),
        ("0x0p+0", Fraction(0)),
        ("-0x0.0p+0", Fraction(0)),
        ("3/7", Fraction(3, 7)),
        ("-3/7", Fraction(-3, 7)),
        ("12", Fraction(12)),
        ("0", Fraction(0)),
        ("5/1", Fraction(5)),
        ("0x1p-1000000", Fraction(1, 2**1_000_000)),
    ],
)
def test_values_of_the_grammar(text, value):
    """Each form, worked out by hand."""
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "1 ", " 1", "1\n", "\t1", "+1", "--1", "-", "0x", "0x1", "0x1p", "0x1p+", "0x.8p+1", "0x1.p+1",
        "0x1.8P+1", "0X1.8p+1", "0xA1p+1", "0x01p+1", "0x1p+01", "0x1p1.5", "01", "00", "1.5", "1e3", "1_000", ".5",
        "1/", "/2", "1/0", "1/-2", "1/02", "2/4", "0/2", "1/2/3", "nan", "inf", "-inf", "NaN", "Infinity", "None",
        "\u0661", "\uff11", "0x\u0661p+1", "0x1p+\u0661", "1/\u0662", "\u00b2", "0x1.8p+1\x00", "0x1,8p+1",
        "1" * 4001, "1/" + "3" * 4001,
        "0x1p+1000001", "0x1p-1000001", "0x1p+" + "9" * 5000, "0x" + "1" * 20000 + "p+0", "9" * 100_000,
    ],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
def test_texts_outside_the_grammar_are_refused(text):
    """Spaces, other digits, other cases, special values, leading zeros, unreduced ratios, and sizes that bite."""
    start = time.perf_counter()
    with pytest.raises(InputRejected) as caught:
        parse(text)
    assert time.perf_counter() - start < 1
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@given(st.text("0123456789abcdefx./p+- _\n\u0663", max_size=12))
def test_what_is_accepted_is_what_python_reads(text):
    """A text of similar characters is refused, or means what `float.fromhex` or `Fraction` make of it."""
    try:
        value = parse(text)
    except InputRejected:
        return
    assert text.isascii() and text == text.strip()
    if "x" not in text:
        assert value == Fraction(text)
    elif abs(value) < LARGEST and 0 < abs(value) > Fraction(1, 2**1000) and value.numerator.bit_length() <= 53:
        assert value == Fraction(float.fromhex(text))


@given(FINITE)
@example(0.0)
@example(-0.0)
@example(5e-324)
@example(1.7976931348623157e308)
def test_to_hex_keeps_every_float(value):
    """Text to number and back: equal, with the sign of zero when Python reads it."""
    text = to_hex(value)
    assert parse(text) == Fraction(value)
    assert struct.pack("<d", float.fromhex(text)) == struct.pack("<d", value)
    assert not re.search(r"0p|\.p", text.removeprefix("-").removeprefix("0x0"))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2**53 + 1])
def test_to_hex_refuses_what_is_no_binary64_number(value):
    """No text for NaN and infinities, and no silent rounding of integers."""
    with pytest.raises(ValueError, match="no exact text"):
        to_hex(value)


@given(RATIOS)
@example(Fraction(2**200))
@example(Fraction(-(2**200)))
def test_to_text_round_trip(value):
    """Any ratio within the limits comes back."""
    assert parse(to_text(value)) == value


def test_to_text_forms():
    """Integers in decimal, dyadics in hex, other ratios as such."""
    assert [to_text(x) for x in (12, Fraction(-3, 8), Fraction(1, 3))] == ["12", "-0x3p-3", "1/3"]
    for value in (Fraction(1, 3**10_000), Fraction(2**100_000 + 1, 3), Fraction(1, 2**1_000_001)):
        with pytest.raises(ValueError, match=r"digits|exponent|not an exact number|limit"):
            to_text(value)


@given(RATIOS | NEAR_FLOATS | FINITE.map(Fraction))
@example(Fraction(0))
@example(Fraction(1, 10))
@example(Fraction(2**53 + 1))
@example(Fraction(2**54 - 1))
@example(Fraction(1, 3 * 2**1074))
@example(Fraction(-1, 3 * 2**1074))
@example(Fraction(LARGEST) + 1)
@example(Fraction(LARGEST))
def test_round_up_is_the_smallest_float_above(value):
    """Not below the value, and the next smaller float is: so it is the smallest. Infinity counts as above all."""
    up = round_up(value)
    assert up == math.inf or Fraction(up) >= value
    below = math.nextafter(up, -math.inf)
    assert below == -math.inf or Fraction(below) < value
    assert math.copysign(1, up) == 1 or up < 0
    down = round_down(value)
    assert down == -round_up(-value)
    assert math.copysign(1, down) == 1 or down < 0
    assert (up == down) == (math.isfinite(up) and Fraction(up) == value)


@given(st.integers(-(2**1030), 2**1030) | st.integers(-(2**60), 2**60))
def test_round_up_of_integers(value):
    """Integers are rounded as the ratios they are."""
    assert round_up(value) == round_up(Fraction(value))


@given(RATIOS | FINITE.map(Fraction), st.integers(1, 8))
def test_decimal_up_is_not_below_and_tight(value, digits):
    """The decimal shown is at least the value, by less than one unit of its last digit."""
    text = decimal_up(value, digits)
    shown = Fraction(text)
    assert shown >= value
    if value == 0:
        assert text == "0"
        return
    mantissa, exponent = text.split("e")
    assert len(mantissa.lstrip("-").replace(".", "")) == digits
    assert mantissa.lstrip("-")[0] != "0"
    assert shown - value < Fraction(10) ** (int(exponent) - digits + 1)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (Fraction(1067, 10**9), 3, "1.07e-06"),
        (Fraction(106, 10**8), 3, "1.06e-06"),
        (Fraction(106, 10**8) + Fraction(1, 10**40), 3, "1.07e-06"),
        (Fraction(-1067, 10**9), 3, "-1.06e-06"),
        (Fraction(9991, 1000), 3, "1.00e+01"),
        (0.1, 3, "1.01e-01"),  # the float 0.1 is a little above one tenth
        (1, 1, "1e+00"),
        (math.inf, 3, "inf"),
        (-math.inf, 3, "-inf"),
    ],
)
def test_decimal_up_examples(value, digits, text):
    """Rounded toward plus infinity, by hand."""
    assert decimal_up(value, digits) == text


@pytest.mark.parametrize(("value", "digits"), [(math.nan, 3), (1.0, 0)])
def test_decimal_up_misuse(value, digits):
    """NaN has no decimal, and a number has at least one digit."""
    with pytest.raises(ValueError):
        decimal_up(value, digits)


def test_extreme_numbers_are_shown_quickly():
    """A number of a million bits, which a report may hold, is shown in bounded time."""
    start = time.perf_counter()
    # log10(2) * 10**6 = 301029.9957, and 10**0.0043 = 1.00994, 10**0.9957 = 9.9007.
    assert decimal_up(parse("0x1p+1000000")) == "9.91e+301029"
    assert decimal_up(parse("0x1p-1000000")) == "1.02e-301030"
    assert time.perf_counter() - start < 5


PATTERN = schema()["$defs"]["number"]["pattern"]


@given(st.from_regex(PATTERN) | st.text("01a9x./p+-", max_size=8))
def test_the_schema_has_the_same_grammar(text):
    """The expression of schema.json accepts what the parser does, less what no expression can express."""
    # Python's `$` also matches before a final newline, that of JSON Schema does not.
    accepted = re.search(PATTERN.removesuffix("$") + r"\Z", text) is not None
    assert accepted == (numbers._NUMBER.fullmatch(text) is not None)


def test_the_schema_has_the_same_limit():
    """Texts too long for the parser are outside the schema."""
    assert schema()["$defs"]["number"]["maxLength"] == numbers.MAX_LENGTH
