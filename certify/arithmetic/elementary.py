"""Enclosures of exp, log, tanh and sigmoid in binary64, and their correctly rounded values in any format.

An enclosure is crival's where that library is installed (each end the nearest binary64 number outward), else it comes from
python-flint's balls. All four functions increase, so that the enclosure over [low, high] is that of its two ends.

**Correct rounding.** fl is monotone: if both ends of an enclosure of f(x) round to one number, that is fl(f(x)). Otherwise
the precision is doubled until they do. That ends: at a number x of a format, f(x) is a rational number only for exp(0) = 1,
log(1) = 0, tanh(0) = 0 and sigmoid(0) = 1/2 (Lindemann: exp of an algebraic number other than 0 is transcendental, and each of
the others would make one algebraic), and these four are known; so f(x) is never between two numbers of a format exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from certify.arithmetic.directed import round_down, round_up
from certify.arithmetic.formats import Floats, Format

#: Arguments beyond which every format rounds to what the nearest argument inside does: exp(+-800) is 2**+-1154.
_BEYOND = {"exp": 800.0, "tanh": 60.0, "sigmoid": 800.0}
_AT = {"exp": (0.0, 1.0), "log": (1.0, 0.0), "tanh": (0.0, 0.0), "sigmoid": (0.0, 0.5)}
_LEAST = 2.0**-1074


def between(name: str, low: Floats, high: Floats) -> Floats:
    """An enclosure, shape (2, ...), of `name` over [low, high]: finite numbers, positive ones for log."""
    return _by_crival(name, low, high) if _interval() else _by_balls(name, low, high)


def grown(x: Floats) -> Floats:
    """An upper bound of exp(x) - 1 for finite x >= 0; 0 for x = 0."""
    if _interval():
        return np.asarray(_ival().expm1(_ival().Interval(x, x)).hi)
    upper = [
        round_up(_ends("expm1", t, 80)[1]) if 0 < t < 800 else t * np.inf if t else 0.0 for t in x.ravel().tolist()
    ]
    return np.array(upper).reshape(x.shape)


def correctly_rounded(name: str, x: Floats, format: Format) -> Floats:
    """fl(f(x)) for every number of the format, infinities and NaNs included, as binary64."""
    x = np.asarray(x, dtype=np.float64)
    limits = {"exp": (0.0, np.inf), "log": (np.nan, np.inf), "tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0)}[name]
    result = np.where(np.isnan(x), np.nan, np.where(x > 0, limits[1], limits[0]))
    inside = np.isfinite(x)
    if name == "log":
        result = np.where(x == 0, -np.inf, result)
        inside &= x > 0
    known, value = _AT[name]
    result = format.round(np.where(x == known, value, result))
    if name == "tanh":
        result = np.where(x == 0, x, result)  # the sign of a zero
    inside &= x != known
    if inside.any():
        result[inside] = _inside(name, x[inside], format)
    return result


def _inside(name: str, x: Floats, format: Format) -> Floats:
    low, high = (format.round(end) for end in between(name, x, x))
    result = low.copy()
    open_lanes = ~(low == high)
    result[open_lanes] = [_precisely(name, t, format) for t in x[open_lanes].tolist()]
    return result


def _precisely(name: str, x: float, format: Format) -> float:
    x = _within(name, x)
    precision = 96
    while True:
        low, high = (nearest(end, format) for end in _ends(name, x, precision))
        if low == high or (np.isnan(low) and np.isnan(high)):
            return low
        precision *= 2


def nearest(x: Fraction, format: Format) -> float:
    """The number of the format nearest to x, ties to even, as a float."""
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    last = max(exponent, format.emin) - format.precision + 1
    scaled = round(size / Fraction(2) ** last)  # of an integer and a half the even one
    sign = 1.0 if x > 0 else -1.0
    if scaled * Fraction(2) ** last > Fraction(format.largest):
        return float(format.round(np.array(sign * np.inf)))
    value = np.ldexp(float(scaled), last)
    return sign * (0.0 if format.flush and value < format.min_normal else float(value))


def _within(name: str, x: float) -> float:
    limit = _BEYOND.get(name, np.inf)
    return min(max(x, -limit), limit)


def _by_balls(name: str, low: Floats, high: Floats) -> Floats:
    ends = np.empty((2, *low.shape))
    for row, given, take, around in ((0, low, 0, round_down), (1, high, 1, round_up)):
        values = [around(_ends(name, _within(name, t), 80)[take]) for t in given.ravel().tolist()]
        ends[row] = np.array(values).reshape(low.shape)
    return _clipped(name, ends, low, high)


def _by_crival(name: str, low: Floats, high: Floats) -> Floats:
    ival = _ival()
    x = ival.Interval(low, high)
    if name == "sigmoid":  # exp(-x) would overflow for small x, and lose nothing for others
        small = ival.exp(ival.Interval(np.minimum(low, 0.0), np.minimum(high, 0.0)))
        other = ival.exp(ival.Interval(-np.maximum(high, 0.0), -np.maximum(low, 0.0)))
        left, right = small / (small + 1), 1 / (other + 1)
        ends = np.stack([np.where(low < 0, left.lo, right.lo), np.where(high < 0, left.hi, right.hi)])
    else:
        result = getattr(ival, name)(x)
        ends = np.stack([result.lo, result.hi])
    return _clipped(name, ends, low, high)


def _clipped(name: str, ends: Floats, low: Floats, high: Floats) -> Floats:
    if name in ("exp", "sigmoid"):
        ends = np.stack([np.maximum(ends[0], 0.0), np.maximum(ends[1], _LEAST)])
    if name in ("tanh", "sigmoid"):
        ends = np.clip(ends, -1.0, 1.0)
    known, value = _AT[name]
    exact = (low == known) & (high == known)
    return np.where(exact, value, ends)


def _ends(name: str, x: float, precision: int) -> tuple[Fraction, Fraction]:
    from flint import arb, ctx

    with ctx.workprec(precision):
        ball = _BALLS[name](arb(x))
        middle, radius = _fraction(ball.mid()), _fraction(ball.rad())
    return middle - radius, middle + radius


def _fraction(point: Any) -> Fraction:
    significand, exponent = (int(k) for k in point.man_exp())
    return Fraction(significand << exponent) if exponent >= 0 else Fraction(significand, 1 << -exponent)


_BALLS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "expm1": lambda x: x.expm1(),
    "log": lambda x: x.log(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
}


def _interval() -> bool:
    return find_spec("ival") is not None


@cache
def _ival() -> Any:
    import ival

    return ival
