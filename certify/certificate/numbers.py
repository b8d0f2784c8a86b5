r"""Exact numbers as text: what a claim says is what was proved, to the last bit.

The grammar, in ASCII and lower case, without spaces, signs other than a leading minus, or leading zeros:

    number   = ["-"] ( hex "p" exponent | decimal [ "/" decimal ] )
    hex      = "0x" digits [ "." digits ]          0x1.8p+1 is 3; a dyadic 0x1f3p-40 is 499 / 2**40
    exponent = ["+" | "-"] digits                  a power of two
    decimal  = digits                              a ratio is in lowest terms, its denominator positive

There are no decimal points: 0.1 is not a binary64 number, and a bound written that way would be another bound.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from certify.errors import InputRejected
from certify.states.quoting import quoted

# Bounds are rounded to 53 bits and need 25 characters; the limits leave room for exact values of 65 000 bits, and
# keep one number within 200 kB of memory whatever its text says.
MAX_LENGTH = 1 << 14
MAX_EXPONENT = 1_000_000
# Python converts at most 4300 decimal digits by default, and quadratically.
MAX_DECIMAL_DIGITS = 4000

# schema.json carries the same expression, and a test compares them.
_NUMBER = re.compile(
    r"(?P<sign>-?)(?:0x(?P<whole>0|[1-9a-f][0-9a-f]*)(?:\.(?P<part>[0-9a-f]+))?p(?P<exponent>[+-]?(?:0|[1-9][0-9]*))"
    r"|(?P<over>0|[1-9][0-9]*)(?:/(?P<under>[1-9][0-9]*))?)",
    re.ASCII,
)
_REMEDY = "write it as 0x1.8p+1, 0x1f3p-40 or p/q"


def parse(text: str) -> Fraction:
    """Return the exact value of a number string.

    Raises
    ------
    InputRejected : as for `require_number`.
    """
    match = _match(text)
    over = match["over"]
    value = _dyadic(match) if over is None else Fraction(int(over), int(match["under"] or 1))
    return -value if match["sign"] else value


def require_number(text: str) -> None:
    """Check a number string without computing its value, in time linear in its length.

    Raises
    ------
    InputRejected : the text is outside the grammar, a ratio is not in lowest terms, or the number is too large
        to handle (16384 characters, 4000 decimal digits, a binary exponent of a million).
    """
    _match(text)


def to_hex(value: float) -> str:
    """Return a binary64 number as text, exactly, without trailing zeros: 3.0 is `0x1.8p+1`.

    Raises
    ------
    ValueError : NaN or an infinity, which is no number to claim, or an integer that binary64 would round.
    """
    if not math.isfinite(value) or float(value) != value:
        raise ValueError(f"{value} has no exact text as a finite binary64 number")
    digits, exponent = float(value).hex().split("p")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{exponent}"


def to_text(value: Fraction | int) -> str:
    """Return an exact number as text: an integer in decimal, another dyadic in hex, any other ratio as `p/q`.

    Raises
    ------
    ValueError : the number is beyond the limits of `require_number`; round it outward first.
    """
    value = Fraction(value)
    over, under = value.numerator, value.denominator
    if under == 1:
        text = str(over) if over.bit_length() <= 64 else f"{over:#x}p+0"
    elif under & (under - 1) == 0:
        text = f"{over:#x}p-{under.bit_length() - 1}"
    else:
        text = f"{over}/{under}"
    try:
        require_number(text)
    except InputRejected as error:
        raise ValueError(error.problem) from error
    return text


def decimal_up(value: Fraction | int | float, digits: int = 3) -> str:
    """Return `value` in decimal for people, rounded toward plus infinity to `digits` significant digits.

    For display only, as in `1.07e-06`: the shown number is never below the true one. Infinity is shown as `inf`.

    Raises
    ------
    ValueError : NaN, or `digits` less than 1.
    """
    if digits < 1:
        raise ValueError("at least one digit must be shown")
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    exact = Fraction(value)
    if exact == 0:
        return "0"
    size = abs(exact)
    exponent = _decimal_exponent(size)
    over, under = _times_ten(size, digits - 1 - exponent)
    shown = -(-over // under) if exact > 0 else over // under
    if shown == 10**digits:
        shown //= 10
        exponent += 1
    text = str(shown)
    point = f".{text[1:]}" if digits > 1 else ""
    return f"{'-' if exact < 0 else ''}{text[0]}{point}e{exponent:+03d}"


def probability_text(value: Fraction) -> str:
    """A number between 0 and 1 as a decimal, in full where it has at most 17 places, else rounded down to these.

    For display only: the shown probability is never above the true one. Below 1e-17 the exact number is shown.
    """
    places = 17
    scaled = value * 10**places
    return f"0.{scaled.numerator // scaled.denominator:0{places}d}".rstrip("0") if scaled >= 1 else to_text(value)


def _match(text: str) -> re.Match[str]:
    match = _NUMBER.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise InputRejected(f"{quoted(text)} is not an exact number", _REMEDY)
    over, under, exponent = match["over"], match["under"] or "1", match["exponent"] or "0"
    if len(exponent) > len(str(MAX_EXPONENT)) + 1 or abs(int(exponent)) > MAX_EXPONENT:
        raise InputRejected(f"the exponent of {quoted(text)} is beyond {MAX_EXPONENT}", _REMEDY)
    if over is None:
        return match
    if max(len(over), len(under)) > MAX_DECIMAL_DIGITS:
        raise InputRejected(
            f"{quoted(text)} has more than {MAX_DECIMAL_DIGITS} decimal digits", "write it in hexadecimal"
        )
    if math.gcd(int(over), int(under)) != 1:
        raise InputRejected(f"{quoted(text)} is not in lowest terms", "cancel the common factor")
    return match


def _dyadic(match: re.Match[str]) -> Fraction:
    part = match["part"] or ""
    exponent = int(match["exponent"]) - 4 * len(part)
    significand = int(match["whole"] + part, 16)
    return Fraction(significand << exponent) if exponent >= 0 else Fraction(significand, 1 << -exponent)


def _decimal_exponent(value: Fraction) -> int:
    """Return floor(log10(value)) for a positive value: an estimate from the bit lengths, then corrected."""
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    exponent = math.floor(bits * math.log10(2))
    while True:
        over, under = _times_ten(value, -exponent)
        if over < under:
            exponent -= 1
        elif over >= 10 * under:
            exponent += 1
        else:
            return exponent


def _times_ten(value: Fraction, power: int) -> tuple[int, int]:
    """Return value * 10**power as a numerator and a denominator, not reduced: that is what would take long."""
    if power >= 0:
        return value.numerator * 10**power, value.denominator
    return value.numerator, value.denominator * 10**-power
