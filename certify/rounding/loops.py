"""Matrix products in compiled loops: the numbers of `Running` and `EveryOrder`, in one pass over memory instead of fifty.

This is the extra `compiled`; without it NumPy computes the same numbers. Each expression below is that of the rule it is named
after, operation by operation in binary64: numba contracts and reorders none unless it is told to. The loops know neither NaN
nor infinity: where one goes in or comes out, callers take NumPy's word.

Only the signs of zeros may differ: of two zeros of different sign either is the smaller one.

Each loop has a matrix product of `a`, shape (3, states, terms, I), and `b`, (3, states, terms, J), to write to `result`, shape
(..., states, I, J), of which it computes the rows from `start` to `stop`. Lanes go by in tiles, whose totals stay at hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import config, njit

from certify.rounding.region import Floats

if config.DISABLE_JIT:  # type: ignore[attr-defined]
    raise ImportError("numba has been told to compile nothing")

# what is compiled is kept for as long as this file stays as it is, so nothing of another file may be part of it
LOW, HIGH, ERROR, PEAK = 0, 1, 2, 3
UP = 1.0 + 2.0**-50
TINY = 2.0**-1073
EXPONENT = np.int64(0x7FF0000000000000)
MANTISSA = np.int64(0x000FFFFFFFFFFFFF)
_TILE = 512
_SPLIT = 2.0**27 + 1.0


@njit(cache=True, nogil=True)
def ordered_dot(
    a: Floats,
    b: Floats,
    start: int,
    stop: int,
    result: Floats,
    additions: npt.NDArray[np.int64],
    depth: int,
    stretch: int,
    exact_sums: float,
    min_normal: float,
    u: float,
    omega: float,
    rounds: float,
    double: bool,
) -> None:
    """By the rules of a b and a + b: lo, hi, E, and the largest magnitude before a rounding.

    Sums are computed on a stack of `depth` numbers: after the k-th product, additions[k] times the topmost two are added.
    Errors are rounded up after every addition, or for serial sums with `stretch` > 0 after that many, as `Running.chain` does.
    `rounds` is 0 for products that are exact or subnormal, `omega` 0 for exact ones.
    """
    _, states, terms, columns = b.shape
    stack = np.empty((depth, 3, _TILE))
    added, largest = np.empty(_TILE), np.empty(_TILE)
    for s in range(states):
        for i in range(start, stop):
            for first in range(0, columns, _TILE):
                n = min(_TILE, columns - first)
                for j in range(n):
                    added[j], largest[j] = 0.0, 0.0
                top = waiting = 0
                for k in range(terms):
                    factor = a[LOW, s, k, i], a[HIGH, s, k, i], a[ERROR, s, k, i]
                    row = b[LOW, s, k][first:], b[HIGH, s, k][first:], b[ERROR, s, k][first:]
                    _products(factor, row, stack, top, largest, n, min_normal, u, omega, rounds, double)
                    top += 1
                    for _ in range(additions[k]):
                        top -= 1
                        _sums(stack, top, added, stretch == 0, largest, n, exact_sums, min_normal, u, double)
                        if stretch == 0:
                            continue
                        waiting += 1
                        if waiting == stretch or k == terms - 1:
                            up = 1.0 + (2 * waiting + 8) * 2.0**-53
                            for j in range(n):  # Running.chain
                                stack[top - 1, ERROR, j] = (stack[top - 1, ERROR, j] + added[j]) * up
                                added[j] = 0.0
                            waiting = 0
                for j in range(n):
                    for value in (LOW, HIGH, ERROR):
                        result[value, s, i, first + j] = stack[0, value, j]
                    result[PEAK, s, i, first + j] = largest[j]


@njit(cache=True, nogil=True)
def fused_dot(
    a: Floats,
    b: Floats,
    start: int,
    stop: int,
    result: Floats,
    stretch: int,
    least: float,
    min_normal: float,
    u: float,
    omega: float,
    rounds: float,
    double: bool,
) -> None:
    """As `ordered_dot` by the rules of a b and, after the first product, a b + c; `least` is the format's omega."""
    _, states, terms, columns = b.shape
    total = np.empty((1, 3, _TILE))
    added, largest = np.empty(_TILE), np.empty(_TILE)
    for s in range(states):
        for i in range(start, stop):
            for first in range(0, columns, _TILE):
                n = min(_TILE, columns - first)
                for j in range(n):
                    added[j], largest[j] = 0.0, 0.0
                waiting = 0
                for k in range(terms):
                    factor = a[LOW, s, k, i], a[HIGH, s, k, i], a[ERROR, s, k, i]
                    row = b[LOW, s, k][first:], b[HIGH, s, k][first:], b[ERROR, s, k][first:]
                    if k == 0:
                        _products(factor, row, total, 0, largest, n, min_normal, u, omega, rounds, double)
                        continue
                    _fused(factor, row, total, added, stretch == 0, largest, n, least, min_normal, u, double)
                    waiting += 1
                    if stretch > 0 and (waiting == stretch or k == terms - 1):
                        up = 1.0 + (2 * waiting + 8) * 2.0**-53
                        for j in range(n):  # Fused.fused_chain
                            total[0, ERROR, j] = (total[0, ERROR, j] + added[j]) * up + waiting * TINY
                            added[j] = 0.0
                        waiting = 0
                for j in range(n):
                    for value in (LOW, HIGH, ERROR):
                        result[value, s, i, first + j] = total[0, value, j]
                    result[PEAK, s, i, first + j] = largest[j]


@njit(cache=True, nogil=True)
def sums_of_products(
    a: Floats, b: Floats, start: int, stop: int, result: Floats, u: float, omega: float, rounds: float, double: bool
) -> None:
    """`EveryOrder._products`, five results a lane.

    Sums over terms of the ends of the unrounded products, of their parts below and above 0, and of their roundings.
    """
    _, states, terms, columns = b.shape
    sums = np.empty((5, _TILE))
    for s in range(states):
        for i in range(start, stop):
            for first in range(0, columns, _TILE):
                n = min(_TILE, columns - first)
                for j in range(n):
                    for value in range(5):
                        sums[value, j] = 0.0
                for k in range(terms):
                    low_a, high_a = a[LOW, s, k, i], a[HIGH, s, k, i]
                    size_a = _larger(-low_a, high_a)
                    lows, highs = b[LOW, s, k][first:], b[HIGH, s, k][first:]
                    for j in range(n):
                        low, high = _corners(low_a, high_a, lows[j], highs[j])
                        sums[0, j] += low
                        sums[1, j] += high
                        sums[2, j] -= _lesser(low, 0.0)
                        sums[3, j] += _larger(high, 0.0)
                        sums[4, j] += _product(size_a, _larger(-lows[j], highs[j]), u, omega, rounds, double)[1]
                for j in range(n):
                    for value in range(5):
                        result[value, s, i, first + j] = sums[value, j]


@njit(forceinline=True)
def _products(
    factor: tuple[float, float, float],
    row: tuple[Floats, Floats, Floats],
    stack: Floats,
    top: int,
    largest: Floats,
    n: int,
    min_normal: float,
    u: float,
    omega: float,
    rounds: float,
    double: bool,
) -> None:
    """`Running.mul` of one number and n, onto the stack."""
    low_a, high_a, error_a = factor
    lows, highs, errors = row
    size_a, magic = _larger(-low_a, high_a), _magic(u)
    reach_a = size_a + error_a
    for j in range(n):
        low_b, high_b, error_b = lows[j], highs[j], errors[j]
        low, high = _corners(low_a, high_a, low_b, high_b)
        size_b = _larger(-low_b, high_b)
        m, local = _product(size_a, size_b, u, omega, rounds, double)
        if not double:
            low, high = _nearest(low, min_normal, magic), _nearest(high, min_normal, magic)
        largest[j] = _larger(m, largest[j])
        stack[top, LOW, j], stack[top, HIGH, j] = low, high
        stack[top, ERROR, j] = (reach_a * error_b + size_b * error_a + local) * UP + TINY


@njit(forceinline=True)
def _sums(
    stack: Floats,
    top: int,
    added: Floats,
    closing: bool,
    largest: Floats,
    n: int,
    exact_sums: float,
    min_normal: float,
    u: float,
    double: bool,
) -> None:
    """`Running.add` of n totals and the n terms on top of them, into the totals' place.

    What `Running.chain` adds to their errors later goes to `added` instead, unless `closing`.
    """
    magic = _magic(u)
    for j in range(n):
        low_a, high_a, low_b, high_b = (
            stack[top - 1, LOW, j],
            stack[top - 1, HIGH, j],
            stack[top, LOW, j],
            stack[top, HIGH, j],
        )
        low, high = low_a + low_b, high_a + high_b
        m = _larger(-low, high)
        half = _half_ulp(m, u)
        if double:
            exceeds = (_sum_error(low_a, low_b, low) < 0) | (_sum_error(high_a, high_b, high) > 0)
            half *= 2.0 if _is_power(m) & exceeds else 1.0
        else:
            half *= 1.0 if m > exact_sums else 0.0
            low, high = _nearest(low, min_normal, magic), _nearest(high, min_normal, magic)
        local = _lesser(_lesser(half, _larger(-low_a, high_a)), _larger(-low_b, high_b))
        largest[j] = _larger(m, largest[j])
        stack[top - 1, LOW, j], stack[top - 1, HIGH, j] = low, high
        if closing:
            stack[top - 1, ERROR, j] = (stack[top - 1, ERROR, j] + stack[top, ERROR, j] + local) * UP
        else:
            added[j] += stack[top, ERROR, j] + local


@njit(forceinline=True)
def _fused(
    factor: tuple[float, float, float],
    row: tuple[Floats, Floats, Floats],
    total: Floats,
    added: Floats,
    closing: bool,
    largest: Floats,
    n: int,
    least: float,
    min_normal: float,
    u: float,
    double: bool,
) -> None:
    """`Fused.fma` of one number, n and n totals, with `added` as in `_sums`."""
    low_a, high_a, error_a = factor
    lows, highs, errors = row
    size_a, magic = _larger(-low_a, high_a), _magic(u)
    reach_a = size_a + error_a
    for j in range(n):
        low_b, high_b, error_b = lows[j], highs[j], errors[j]
        low, high = _corners(low_a, high_a, low_b, high_b)
        if double:
            low, high = -_next_above(-low), _next_above(high)
        low_c, high_c = total[0, LOW, j], total[0, HIGH, j]
        end_low, end_high = low + low_c, high + high_c
        m = _larger(-end_low, end_high)
        half = _half_ulp(m, u)
        if double:
            half *= 2.0 if _is_power(m) else 1.0
        else:
            end_low = _nearest(_odd(end_low, _sum_error(low, low_c, end_low)), min_normal, magic)
            end_high = _nearest(_odd(end_high, _sum_error(high, high_c, end_high)), min_normal, magic)
        size_b = _larger(-low_b, high_b)
        local = _lesser(_larger(half, least), (size_a * size_b) * UP + TINY)
        local *= 1.0 if (size_a > 0) & (size_b > 0) else 0.0
        carried = reach_a * error_b + size_b * error_a
        largest[j] = _larger(m, largest[j])
        total[0, LOW, j], total[0, HIGH, j] = end_low, end_high
        if closing:
            total[0, ERROR, j] = (carried + total[0, ERROR, j] + local) * UP + TINY
        else:
            added[j] += carried + local


@njit(forceinline=True)
def _next_above(x: float) -> Any:
    """The next number above x."""
    bits = _bits(x + 0.0)  # -0 becomes 0
    return _number(bits + (np.int64(1) if bits >= 0 else np.int64(-1)))


@njit(forceinline=True)
def _odd(x: float, error: float) -> Any:
    """`certify.arithmetic.errorfree.sum_to_odd`: of an even x, its neighbour on the side of the error, if there is one."""
    bits = _bits(x)
    step = np.int64(1) if (error > 0) == (x > 0) else np.int64(-1)
    return _number(bits + (step if ((bits & 1) == 0) & (error != 0) else np.int64(0)))


@njit(forceinline=True)
def _corners(low_a: float, high_a: float, low_b: float, high_b: float) -> tuple[float, float]:
    """`corners`."""
    w, x, y, z = low_a * low_b, low_a * high_b, high_a * low_b, high_a * high_b
    return _lesser(_lesser(w, x), _lesser(y, z)), _larger(_larger(w, x), _larger(y, z))


@njit(forceinline=True)
def _product(size_a: float, size_b: float, u: float, omega: float, rounds: float, double: bool) -> tuple[float, float]:
    """`Local._product`, without flushing."""
    m = size_a * size_b
    local = _larger(_half_ulp(m, u) * rounds, omega)
    if double:
        local *= 2.0 if _is_power(m) & _product_exceeds(size_a, size_b, m) else 1.0
        return m, local * (1.0 if (size_a > 0) & (size_b > 0) else 0.0)
    return m, _lesser(local, m)


@njit(forceinline=True)
def _lesser(x: float, y: float) -> float:
    return x if x < y else y


@njit(forceinline=True)
def _larger(x: float, y: float) -> float:
    return x if x > y else y


@njit(forceinline=True)
def _bits(x: float) -> Any:
    return np.float64(x).view(np.int64)


@njit(forceinline=True)
def _number(bits: Any) -> Any:
    return np.int64(bits).view(np.float64)


@njit(forceinline=True)
def _is_power(m: float) -> bool:
    return bool((_bits(m) & MANTISSA) == 0)


@njit(forceinline=True)
def _half_ulp(m: float, u: float) -> Any:
    """`Local._half_ulp`."""
    bits = _bits(m)
    bits = bits if bits > 1 else np.int64(1)
    return _number((bits - 1) & EXPONENT) * u


@njit(forceinline=True)
def _magic(u: float) -> float:
    """Adding and subtracting this many times a power of two leaves a multiple of the format's spacing there."""
    return 1.5 * (2.0**53 * u)


@njit(forceinline=True)
def _nearest(x: float, min_normal: float, magic: float) -> float:
    """`Format.round` of what does not overflow."""
    shift = _larger(_number(_bits(x) & EXPONENT), min_normal) * magic
    return (x + shift) - shift


@njit(forceinline=True)
def _sum_error(a: float, b: float, s: float) -> float:
    """`certify.arithmetic.errorfree.sum_error`."""
    part = s - a
    return (a - (s - part)) + (b - part)


@njit(forceinline=True)
def _product_exceeds(a: float, b: float, p: float) -> bool:
    """`certify.arithmetic.errorfree.product_exceeds`."""
    scaled_a, scaled_b = _SPLIT * a, _SPLIT * b
    high_a, high_b = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    low_a, low_b = a - high_a, b - high_b
    error = low_a * low_b - (((p - high_a * high_b) - low_a * high_b) - high_a * low_b)
    safe = (a < 2.0**990) & (b < 2.0**990) & (p > 2.0**-960) & (p < 2.0**1020)
    return (not safe) | (error > 0)


def load() -> None:
    """Compile the loops, or load what was compiled before."""
    point, result, kind = np.zeros((3, 1, 1, 1)), np.zeros((5, 1, 1, 1)), (1.0, 0.5, 0.0, 1.0, True)
    ordered_dot(point, point, 0, 1, result, np.zeros(1, dtype=np.int64), 1, 0, 1.0, *kind)
    fused_dot(point, point, 0, 1, result, 0, 0.0, *kind)
    sums_of_products(point, point, 0, 1, result, *kind[1:])
