"""Exact eigenvalue counts of binary64 matrices, from the signs of integers; singular matrices included."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from certify.arithmetic.formats import Floats
from certify.contraction.scaled import Scaled, identity, scaled, symmetric_matrix
from certify.errors import InputRejected

# A quarter of a second for 53-bit entries at n = 100; the time grows like n**4 and with the span of the entries.
MAX_ORDER = 100


class Inertia(NamedTuple):
    """Numbers of negative, zero and positive eigenvalues, with multiplicity."""

    negative: int
    zero: int
    positive: int


def inertia(mid: Floats) -> Inertia:
    """The inertia of a symmetric binary64 matrix (n, n), exactly.

    Theorem (Descartes' rule of signs for real-rooted polynomials). Let p(x) = c_0 + c_1 x + ... + c_n x^n have only
    real roots. Then it has as many positive roots, with multiplicity, as the sequence of its nonzero coefficients has
    sign changes.
    Proof. Cancel powers of x, so that c_0 != 0. Let P and N count the positive and negative roots, V and V' the sign
    changes of p(x) and p(-x); Descartes: P <= V and N <= V'. Neighbouring nonzero coefficients of degrees j < k change
    sign in exactly one of p(x), p(-x) if k - j is odd, in both or neither if it is even: at most k - j changes either
    way. So V + V' <= n = P + N, and both inequalities are equalities.

    The characteristic polynomial of a symmetric matrix has only real roots; it is computed in integers. It has
    a factor x for each zero eigenvalue. This decides semidefiniteness of singular matrices, where no factor L can.

    Raises
    ------
    InputRejected : not a finite symmetric binary64 matrix, or larger than MAX_ORDER.
    """
    return _inertia(scaled(_of_moderate_order(mid)))


def count_below(mid: Floats, x: float | Fraction) -> int:
    """The number of eigenvalues of `mid` that are < x, with multiplicity, exactly.

    These are the negative eigenvalues of mid - x I, so of q (mid - x I) for x = p / q, q > 0: an integer matrix on a
    power-of-two scale. Raises InputRejected as `inertia` does, and for an x that is not finite.
    """
    mid = _of_moderate_order(mid)
    try:
        x = Fraction(x)
    except (ValueError, OverflowError):
        raise InputRejected(f"eigenvalues cannot be counted below {x}", "give a finite number") from None
    a = scaled(mid)
    shift = Scaled(identity(len(mid)).matrix * x.numerator, 0)
    return _inertia(Scaled(a.matrix * x.denominator, a.exponent).minus(shift)).negative


def positive_below(mid: Floats) -> float | None:
    """A lower bound of the smallest eigenvalue of `mid` if that is not negative, else None.

    0 if it is 0; if it is positive, a number that is less than 2**-8 of itself below it, or the least binary64 number. By
    `count_below`: no eigenvalue is below the bound. Raises InputRejected as `inertia` does.
    """
    counted = inertia(mid)
    if counted.negative:
        return None
    if counted.zero or not len(mid):
        return 0.0
    top = math.frexp(float(mid.diagonal().min()))[1]  # the smallest eigenvalue is no larger than a diagonal entry
    low, high = math.ldexp(1.0, -1074), math.ldexp(1.0, min(top, 1023))
    if count_below(mid, low):
        return 0.0
    while high > low * (1 + 2.0**-8):
        # by exponents as long as they differ
        middle = math.sqrt(low) * math.sqrt(high) if high > 4 * low else (low + high) / 2
        if not low < middle < high:
            break
        if count_below(mid, middle):
            high = middle
        else:
            low = middle
    return low


def _inertia(a: Scaled) -> Inertia:
    n = a.matrix.nrows()
    coefficients = [int(c) for c in a.matrix.charpoly().coeffs()]  # constant first
    zero = next(k for k, c in enumerate(coefficients) if c)  # the leading coefficient is 1
    signs = [c > 0 for c in coefficients if c]
    positive = sum(one != other for one, other in pairwise(signs))
    return Inertia(n - zero - positive, zero, positive)


def _of_moderate_order(mid: Floats) -> Floats:
    symmetric_matrix(mid)
    if len(mid) > MAX_ORDER:
        raise InputRejected(
            f"an exact eigenvalue count of order {len(mid)} takes too long", f"use factors beyond {MAX_ORDER}"
        )
    return mid
