"""Exact linear algebra and certified iteration counts that several systems share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import ctx, fmpq, fmpq_mat

from certify.errors import InputRejected

from .inputs import Instance
from .wording import ball

Matrix = Sequence[Sequence[Fraction]]
Vector = list[Fraction]
#: Counts of iterations beyond this are left undecided.
MOST_UPDATES = 5000


def solve(A: Any, b: Any) -> Vector:
    """A^-1 b in rationals. Raises ZeroDivisionError if A is singular."""
    found = _flint(A).solve(_flint([[x] for x in b]))
    return [Fraction(int(x.p), int(x.q)) for x in found.entries()]


def inverse(A: Any) -> list[Vector]:
    """A^-1 in rationals. Raises ZeroDivisionError if A is singular."""
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in _flint(A).inv().tolist()]


def definite(A: Any) -> bool:
    """Whether a symmetric rational matrix is positive definite: every pivot of LDL^T is positive."""
    left = [list(row) for row in A]
    for k in range(len(left)):
        if left[k][k] <= 0:
            return False
        for i in range(k + 1, len(left)):
            factor = left[i][k] / left[k][k]
            left[i] = [x - factor * y for x, y in zip(left[i], left[k], strict=True)]
    return True


def require_symmetric(instance: Instance, part: str, A: Any) -> None:
    """Refuse a matrix that is not symmetric."""
    if any(A[i][j] != A[j][i] for i in range(len(A)) for j in range(i)):
        raise InputRejected(f"tensor {instance.name}_{part} is not symmetric", "give a symmetric matrix")


def weights(M: Any) -> Vector:
    """A rational v > 0 with largest entry 1 for which max_i (M v)_i / v_i is nearly the spectral radius of M >= 0.

    Any v > 0 gives an upper bound (Collatz and Wielandt), so that this one comes from a power iteration in floats, of
    M + I as M itself may be periodic.
    """
    A = np.array(M, dtype=np.float64) + np.eye(len(M))
    v = np.ones(len(M))
    for _ in range(2000):
        v = A @ v
        v /= v.max()
    steps = np.maximum(np.rint(v * 2**20), 1)
    return [Fraction(int(x), 1 << 20) for x in steps]


def rate(M: Any, v: Vector) -> Fraction:
    """max_i (M v)_i / v_i: a factor by which M contracts in the norm max |z_i| / v_i."""
    return max(sum((a * x for a, x in zip(row, v, strict=True)), Fraction(0)) / v[i] for i, row in enumerate(M))


def count(q: Fraction, first: Fraction, tol: Fraction) -> int | None:
    """The least t with q^t first / (1 - q) <= tol; None if it is over MOST_UPDATES or q is not below 1."""
    if q >= 1:
        return None
    bound = first / (1 - q)
    for t in range(MOST_UPDATES + 1):
        if bound <= tol:
            return t
        # rounded up to 200 bits, lest the numbers grow with t
        bound = Fraction(-((-(bound * q).numerator << 400) // (bound * q).denominator), 1 << 400)
    return None


def first_within(A: Any, b: Vector, limit: Vector, z: Vector, digits: int) -> int | None:
    """The t at which the iterates of z <- A z + b are first within 10^-digits of the limit: a measurement, in long floats."""
    with ctx.workprec(200 + 4 * digits):
        rows, offset, tol = [[ball(x) for x in row] for row in A], [ball(x) for x in b], ball(Fraction(1, 10**digits))
        goal, at = [ball(x) for x in limit], [ball(x) for x in z]
        for t in range(MOST_UPDATES):
            if all(abs(x - y) <= tol for x, y in zip(at, goal, strict=True)):
                return t
            at = [
                sum((a * x for a, x in zip(row, at, strict=True)), c).mid() for row, c in zip(rows, offset, strict=True)
            ]
    return None


def _flint(A: Any) -> Any:
    return fmpq_mat([[fmpq(x.numerator, x.denominator) for x in row] for row in A])
