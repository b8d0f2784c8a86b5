"""How many updates reach a tolerance: the norm bound of the fixed-stage theorem, and the distance left after the fact.

**Theorem** (Banach, with rounding; `certify.contraction.fixed_stage`). Let P be q-Lipschitz, q < 1, on the ball C of radius r
around U in a subspace, ||P(U) - U|| <= d, and W_{k+1} = P(W_k) + r_k with ||r_k|| <= eps, d + eps <= (1 - q) r, W_0 in C.
Then all W_k lie in C, P has one fixed point W_* in C, ||U - W_*|| <= d / (1 - q), and with f = eps / (1 - q)

    ||W_k - W_*|| <= b_k = q^k B_0 + eps (1 - q^k) / (1 - q) = f + q^k (B_0 - f),     B_0 >= ||W_0 - W_*||,
    ||W_k - W_*|| <= (||W_k - P(W_k)|| + eps) / (1 - q)      (a posteriori; eps covers a computed P(W_k)).

Hence for f < tol: ||W_L - W_*|| <= tol, and so it stays (q tol + eps <= tol), for every L with b_L <= tol, that is B_0 <= tol
or q^L <= (tol - f) / (B_0 - f). *Proof.* Banach, and ||W - W_*|| <= ||W - P(W)|| + q ||W - W_*||. QED

Every number is taken as the exact rational it is. Powers of q are enclosed in integers a^k, b^k (q = a / b) of bounded
length, truncated outward; they are exact if they fit, so that an equality q^L = (tol - f) / (B_0 - f), whose sides are equal
in lowest terms, is decided too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from certify.arithmetic.directed import round_up
from certify.errors import InputRejected

Real = Fraction | float

_BITS = 256  # of a truncated power: relative error below 2k / 2**256 after k factors
_LEAST = 20_000  # powers below 2**-20000 are enclosed by 0 and 2**-20000
_MOST = 1 << 62  # updates; a larger count is no answer


@dataclass(frozen=True)
class Ball:
    """The hypotheses of the theorem: a ball that the iteration does not leave.

    Attributes
    ----------
    q : Lipschitz constant of P on the ball, below 1.
    d : bound of ||P(U) - U||.
    eps : bound of the rounding error of one update on the ball; 0 for the exact map.
    radius : r.

    Raises
    ------
    InputRejected : a number is not finite or is negative, q >= 1, or d + eps > (1 - q) r.
    """

    q: Real
    d: Real
    eps: Real
    radius: Real

    def __post_init__(self) -> None:
        gap = 1 - lipschitz(self.q)
        if exact(self.d, "d") + exact(self.eps, "eps") > gap * exact(self.radius, "the radius"):
            raise InputRejected("the ball is not certified: d + eps > (1 - q) r", "certify it with fixed_stage first")

    @property
    def centre(self) -> Fraction:
        """d / (1 - q), which bounds ||U - W_*||."""
        return exact(self.d, "d") / (1 - lipschitz(self.q))

    @property
    def floor(self) -> Fraction:
        """eps / (1 - q), which no bound of this module goes below."""
        return exact(self.eps, "eps") / (1 - lipschitz(self.q))


def start_bound(distance: Real, ball: Ball) -> float:
    """B_0 = ||W_0 - U|| + d / (1 - q), rounded up, for a start at most `distance` from the centre."""
    return round_up(exact(distance, "the distance") + ball.centre)


def norm_bound(start: Real, q: Real, eps: Real, k: int) -> float:
    """b_k, rounded up, for B_0 = `start`.

    Raises
    ------
    InputRejected : q >= 1, k < 0, or a number is negative or not finite.
    """
    if k < 0:
        raise InputRejected(f"update {k} does not exist", "count updates from 0")
    rate = lipschitz(q)
    floor = exact(eps, "eps") / (1 - rate)
    above = exact(start, "the start") - floor
    return round_up(floor + power_bound(rate, k, _BITS, up=above >= 0) * above)


def norm_count(start: Real, q: Real, eps: Real, tol: Real) -> int | None:
    """The smallest L with b_L <= tol, for B_0 = `start`; None if eps / (1 - q) >= tol.

    It is verified by an outward power of q, and L - 1 is not verified. None also stands for counts of 2**62 and more.

    Raises
    ------
    InputRejected : q >= 1, tol <= 0, or a number is negative or not finite.
    """
    rate, target, first = lipschitz(q), tolerance(tol), exact(start, "the start")
    floor = exact(eps, "eps") / (1 - rate)
    if floor >= target:
        return None
    if first <= target:
        return 0
    ratio = (target - floor) / (first - floor)
    bits = max(_BITS, ratio.numerator.bit_length(), ratio.denominator.bit_length()) + 64
    over = 1
    while power_bound(rate, over, bits, up=True) > ratio:
        over *= 2
        if over > _MOST:
            return None
    under = over // 2  # not verified: the previous doubling, or 0, where b_0 > tol
    while over - under > 1:
        middle = (under + over) // 2
        if power_bound(rate, middle, bits, up=True) <= ratio:
            over = middle
        else:
            under = middle
    return over


def posterior_bound(step: Real, q: Real, eps: Real) -> float:
    """(||W - P(W)|| + eps) / (1 - q), rounded up: the distance of W to the fixed point, for `step` >= ||W - P(W)||.

    `step` may be measured to a computed P(W) that is off by at most `eps`; with an exact P(W), pass eps = 0.

    Raises
    ------
    InputRejected : q >= 1, or a number is negative or not finite.
    """
    return round_up((exact(step, "the step") + exact(eps, "eps")) / (1 - lipschitz(q)))


def power_bound(rate: Fraction, k: int, bits: int, *, up: bool) -> Fraction:
    """A bound of rate**k, 0 <= rate < 1, from above or below, off by less than about 2k / 2**bits, relative.

    It is exact if the numerator and the denominator of the power have at most `bits` bits; below 2**-20000 it is 0 or
    2**-20000.
    """
    if k == 0 or rate == 0:
        return Fraction(int(k == 0))
    over, shift_over = _integer_power(rate.numerator, k, bits, up=up)
    under, shift_under = _integer_power(rate.denominator, k, bits, up=not up)
    shift = shift_over - shift_under
    # both mantissas have at most `bits` bits
    if shift < -_LEAST - bits:
        return Fraction(int(up), 1 << _LEAST)
    return min(Fraction(over << max(shift, 0), under << max(-shift, 0)), Fraction(1))


def exact(value: Real, name: str) -> Fraction:
    """The exact rational value of a nonnegative number; InputRejected names it otherwise."""
    if not 0 <= value < math.inf:  # NaN fails too
        raise InputRejected(f"{name} is {value}", "pass a finite number that is not negative")
    return Fraction(value)


def lipschitz(q: Real) -> Fraction:
    """The exact value of a Lipschitz constant in [0, 1)."""
    rate = exact(q, "q")
    if rate >= 1:
        raise InputRejected(f"q = {float(rate):.6g} is not below 1", "pass the constant of a certified contraction")
    return rate


def tolerance(tol: Real) -> Fraction:
    """The exact value of a positive tolerance."""
    target = exact(tol, "the tolerance")
    if target == 0:
        raise InputRejected("the tolerance is 0", "pass a positive distance")
    return target


def _integer_power(base: int, k: int, bits: int, *, up: bool) -> tuple[int, int]:
    """(m, e) with m 2**e a bound of base**k from above or below, m of at most `bits` bits (plus a carry)."""
    result, square = (1, 0), _truncate(base, 0, bits, up)
    while True:
        if k & 1:
            result = _truncate(result[0] * square[0], result[1] + square[1], bits, up)
        k >>= 1
        if not k:
            return result
        square = _truncate(square[0] * square[0], 2 * square[1], bits, up)


def _truncate(m: int, e: int, bits: int, up: bool) -> tuple[int, int]:
    excess = m.bit_length() - bits
    if excess <= 0:
        return m, e
    return (-(-m >> excess) if up else m >> excess), e + excess
