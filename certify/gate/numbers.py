"""Numbers of a comparison for people: two that differ are shown so that they look different."""

from __future__ import annotations

from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction

from certify.certificate import decimal_up

ABSENT = "-"
_DIGITS = range(3, 18)


def shown(baseline: Fraction | None, current: Fraction | None) -> tuple[str, str]:
    """Both values in decimal, rounded up, with three digits or as many more as tell them apart."""
    if baseline is None or current is None:
        return _decimal(baseline, 3), _decimal(current, 3)
    for digits in _DIGITS:
        pair = _decimal(baseline, digits), _decimal(current, digits)
        if pair[0] != pair[1] or baseline == current:
            return pair
    return pair


def percent(part: Fraction | None) -> str:
    """A part of the baseline in percent with its sign, rounded away from zero; `from 0` if there is no such part."""
    if part is None:
        return "from 0"
    if part == 0:
        return "0 %"
    context = Context(prec=3, rounding=ROUND_UP)
    value = context.divide(Decimal(100 * part.numerator), Decimal(part.denominator))
    exponent = value.adjusted()
    if -5 < exponent < 6:
        return f"{value:+f} %"
    return f"{value.scaleb(-exponent, context):+.2f}e{exponent:+03d} %"


def _decimal(value: Fraction | None, digits: int) -> str:
    if value is None:
        return ABSENT
    # counts are integers, and 44 is easier to read than 4.40e+01
    return str(value) if value.denominator == 1 and abs(value) < 10**6 else decimal_up(value, digits)
