"""Rounding exact rationals to binary64 in a given direction, by integer arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from certify.arithmetic.formats import Floats

_SIGNIFICAND_BITS = 53
#: What a published bound gives away, relatively, so that an evaluation in other arithmetic can prove it again.
_SLACK = Fraction(1, 1 << 20)
_PUBLISHED_BITS = 24
_LEAST_EXPONENT = -1074  # of the smallest subnormal


def round_up(value: Fraction | int) -> float:
    """Return the smallest binary64 number >= `value`; infinity above the largest finite one.

    All arithmetic is on integers, so nothing is rounded before the one rounding asked for.
    """
    value = Fraction(value)
    # Adding zero turns -0.0 into 0.0.
    return (_away(value) if value > 0 else -_toward(-value)) + 0.0


def round_down(value: Fraction | int) -> float:
    """Return the largest binary64 number <= `value`; minus infinity below the least finite one."""
    return -round_up(-Fraction(value)) + 0.0


def relaxed_up(x: float) -> float:
    """The smallest number of 24 significant bits that is >= x (1 + 2**-20), for x >= 0: a bound to publish.

    An independent evaluation of the same theorem rounds differently, in the last bits of binary64; the slack covers that.
    0 and infinity stay as they are.
    """
    if x == 0 or math.isinf(x):
        return x
    value = Fraction(x) * (1 + _SLACK)
    quantum = _quantum(value, _PUBLISHED_BITS)
    over, under = _scaled(value, quantum)
    try:
        return math.ldexp(-(-over // under), quantum)
    except OverflowError:
        return math.inf


def relaxed_down(x: float) -> float:
    """A lower bound to publish: a number of 24 significant bits that is <= x - 2**-20 |x|. 0 and infinities stay."""
    if x < 0:
        return -relaxed_up(-x)
    if x == 0 or math.isinf(x):
        return x
    value = Fraction(x) * (1 - _SLACK)
    quantum = _quantum(value, _PUBLISHED_BITS)
    over, under = _scaled(value, quantum)
    return math.ldexp(over // under, quantum)


def norm_up(entries: Floats) -> float:
    """A binary64 upper bound of the Euclidean norm of finite entries, within one unit in the last place.

    The sum of squares is exact; the root is an integer square root rounded up.
    """
    total = sum((Fraction(x) ** 2 for x in np.abs(entries).ravel().tolist()), Fraction(0))
    return sqrt_up(total)


def sqrt_up(x: Fraction) -> float:
    """A binary64 upper bound of the square root of x >= 0, within one unit in the last place."""
    if x == 0:
        return 0.0
    shift = 2 * max(0, 64 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    scaled = -((-x.numerator << shift) // x.denominator)  # ceil(x 2**shift)
    root = math.isqrt(scaled - 1) + 1  # ceil of the square root
    return round_up(Fraction(root, 1 << (shift // 2)))


def _quantum(value: Fraction, bits: int = _SIGNIFICAND_BITS) -> int:
    """Return the exponent of the unit in the last place of `bits` significant ones, just below a positive `value`."""
    over, under = value.numerator, value.denominator
    exponent = over.bit_length() - under.bit_length()
    # 2**(exponent - 1) < value < 2**(exponent + 1), so one comparison gives floor(log2(value)).
    if (over < under << exponent) if exponent >= 0 else (over << -exponent < under):
        exponent -= 1
    return max(exponent - (bits - 1), _LEAST_EXPONENT)


def _away(value: Fraction) -> float:
    quantum = _quantum(value)
    over, under = _scaled(value, quantum)
    try:
        # At most 2**53 units of the quantum: ldexp is exact or overflows.
        return math.ldexp(-(-over // under), quantum)
    except OverflowError:
        return math.inf


def _toward(value: Fraction) -> float:
    if value == 0:
        return 0.0
    quantum = _quantum(value)
    over, under = _scaled(value, quantum)
    try:
        return math.ldexp(over // under, quantum)
    except OverflowError:
        return math.nextafter(math.inf, 0.0)


def _scaled(value: Fraction, quantum: int) -> tuple[int, int]:
    """Return value / 2**quantum as a numerator and a denominator."""
    if quantum >= 0:
        return value.numerator, value.denominator << quantum
    return value.numerator << -quantum, value.denominator
