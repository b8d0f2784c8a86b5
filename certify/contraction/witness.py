"""Verified eigenvalue bounds of symmetric interval matrices, from a factor that anybody can check.

The matrix is known as a midpoint and a radius, both (n, n) binary64 and symmetric: every symmetric A with
|A - mid| <= rad entrywise is meant, and every bound holds for each of them.

Trusted here: `verify` and `verify_upper`, exact integers throughout and one directed rounding at the end. The search
for a witness (floating-point eigenvectors, fixed-point Cholesky) may return anything; it can only lose tightness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from certify.arithmetic.directed import round_down
from certify.arithmetic.formats import Floats
from certify.contraction.cholesky import Integers, cholesky, fixed_point, inverse_iterated, quotient
from certify.contraction.inertia import MAX_ORDER, positive_below
from certify.contraction.rows import approximate_eigenbasis
from certify.contraction.scaled import Scaled, identity, interval_matrix, row_sum_norm, scaled
from certify.errors import InputRejected

# How close a bound is driven to the eigenvalue: relative to the eigenvalue, to the radius (closer is not worth the
# digits) and, for eigenvalues at or near zero, to the largest entry. A finer grid makes a longer witness.
_RELATIVE = Fraction(1, 1 << 40)
_OF_RADIUS = Fraction(1, 1 << 16)
_OF_ENTRY = Fraction(1, 1 << 150)
_BACK_OFF = 1 << 20  # the gap grows by this much until the shifted matrix is positive definite
_ATTEMPTS = 16  # at a factor; well-scaled matrices need one, graded ones three to eight


@dataclass(frozen=True)
class Witness:
    """Why an eigenvalue bound holds: a lower triangular factor and a shift.

    factor : row i holds the i + 1 integers of row i of L, in units of 2**-grid.
    grid : any integer.
    sigma : the shift, any rational; the search returns dyadic ones.
    Any values are a witness of something: a bad one proves a bad bound, never a false one.
    """

    factor: tuple[tuple[int, ...], ...]
    grid: int
    sigma: Fraction


class Bound(NamedTuple):
    """A verified bound of an eigenvalue, and the witness it is recomputed from; None if eigenvalues were counted."""

    value: float
    witness: Witness | None


def verify(mid: Floats, rad: Floats, witness: Witness) -> float:
    """A lower bound of the smallest eigenvalue of every A in the interval matrix, recomputed from the witness alone.

    Theorem (after Rump, "Verification of positive definiteness", BIT 46, 2006). For every real L and sigma,

        lambda_min(A) >= sigma - ||mid - sigma I - L L^T||_inf - ||rad||_inf.

    Proof. A = sigma I + L L^T + E + D with E = mid - sigma I - L L^T and D = A - mid, both symmetric. L L^T is positive
    semidefinite, and a symmetric matrix has no eigenvalue above its infinity norm in magnitude, so for a unit vector x,
    x^T A x >= sigma + 0 - ||E||_inf - ||D||_inf, and ||D||_inf <= ||rad||_inf. The smallest such value is
    lambda_min(A).

    The right side is computed in exact integers and rounded down to binary64 (minus infinity below its range). The
    empty matrix has no eigenvalue, so every number bounds them: the result is infinity.

    Raises
    ------
    InputRejected : the matrices are not finite, symmetric, binary64 and (n, n), or the factor is not lower triangular
        with n rows.
    """
    mid, rad = interval_matrix(mid, rad)
    factor = _dense(witness, len(mid))
    if len(mid) == 0:
        return math.inf
    shift = Scaled(identity(len(mid)).matrix * witness.sigma.numerator, 0)
    # In units of 1 / denominator all of E is an integer matrix on a power-of-two scale, whatever the denominator.
    sigma_times = witness.sigma.denominator
    rest = scaled(mid).minus(factor.times(factor.transpose()))
    residual = row_sum_norm(Scaled(rest.matrix * sigma_times, rest.exponent).minus(shift)) / sigma_times
    return round_down(witness.sigma - residual - row_sum_norm(scaled(rad)))


def verify_upper(mid: Floats, rad: Floats, witness: Witness) -> float:
    """An upper bound of the largest eigenvalue of every A in the interval matrix, recomputed from the witness alone.

    Theorem. For every real L and sigma, lambda_max(A) <= sigma + ||sigma I - mid - L L^T||_inf + ||rad||_inf.
    Proof. lambda_max(A) = -lambda_min(-A): the theorem of `verify` for -mid and -sigma.

    Rounded up; minus infinity for the empty matrix. Raises InputRejected as `verify` does.
    """
    mid, rad = interval_matrix(mid, rad)
    return -verify(-mid, rad, replace(witness, sigma=-witness.sigma))


def lower_bound(mid: Floats, rad: Floats) -> Bound:
    """A tight lower bound of the smallest eigenvalue of every A in the interval matrix, with its witness.

    With a zero radius it is within 2**-40 |lambda_min| of the smallest eigenvalue of mid, or within 2**-150 of the
    largest entry where that is more, unless the search gives up on a badly graded matrix. A radius costs its infinity
    norm in full. No factor shows that a singular matrix has no negative eigenvalue, nor is one found for every badly graded
    matrix: where it proves no positive bound of a single matrix, the eigenvalues are counted (`positive_below`).
    Raises InputRejected as `verify` does.
    """
    mid, rad = interval_matrix(mid, rad)
    witness = _search(mid, rad)
    value = verify(mid, rad, witness)
    if value <= 0 and not rad.any() and len(mid) <= MAX_ORDER:
        counted = positive_below(mid)
        if counted is not None:
            return Bound(counted, None)
    return Bound(value, witness)


def upper_bound(mid: Floats, rad: Floats) -> Bound:
    """A tight upper bound of the largest eigenvalue of every A in the interval matrix, for `verify_upper`.

    As close as `lower_bound` is. Raises InputRejected as `verify` does.
    """
    mid, rad = interval_matrix(mid, rad)
    mirrored = _search(-mid, rad)
    witness = replace(mirrored, sigma=-mirrored.sigma)
    return Bound(verify_upper(mid, rad, witness), witness)


def _dense(witness: Witness, n: int) -> Scaled:
    from flint import fmpz_mat

    if [len(row) for row in witness.factor] != list(range(1, n + 1)):
        raise InputRejected(
            f"the witness is not a lower triangular factor of order {n}", "give rows of 1, 2, ..., n integers"
        )
    entries = [row[j] if j < len(row) else 0 for row in witness.factor for j in range(n)]
    return Scaled(fmpz_mat(n, n, entries), -witness.grid)


def _search(mid: Floats, rad: Floats) -> Witness:
    """A good witness for `verify`, found on the matrix scaled by a power of four to entries of at most 4."""
    n = len(mid)
    top = float(np.abs(mid).max(initial=0.0))
    if top == 0.0:
        return _witness(np.zeros((n, n), dtype=object), 0, Fraction(0))
    half = (math.frexp(top)[1] - 1) // 2
    a = scaled(mid)
    a = Scaled(a.matrix, a.exponent - 2 * half)
    floor = max(_OF_ENTRY, row_sum_norm(scaled(rad)) * _OF_RADIUS / Fraction(4) ** half)
    lower, grid, sigma = _factored(a, fixed_point(approximate_eigenbasis(mid)[0][:, 0]), floor)
    return _witness(lower, grid - half, sigma * Fraction(4) ** half)


def _factored(a: Scaled, v: Integers, floor: Fraction) -> tuple[Integers, int, Fraction]:
    """A factor of a - sigma I, its grid, and a sigma close to the smallest eigenvalue of a.

    The Rayleigh quotient rho of an approximate eigenvector v is just above the eigenvalue: its error is quadratic in
    the vector's. Try sigma = rho - gap / 2 with the gap that is wanted. Failing that, try sigma = 0, then wider and
    wider gaps; some gap works, for once it is 4 n times the largest entry the shifted matrix is diagonally dominant.
    Having a factor, improve the vector by inverse iteration, the faster the closer sigma is, and search between the gap
    that failed and the one that worked.
    """
    rho = quotient(a, v)
    gap = max(abs(rho) * _RELATIVE, floor)
    best: tuple[Integers, int, Fraction] | None = None
    attempts = 0
    while best is None or attempts < _ATTEMPTS:
        sigma = Fraction(round_down(rho - gap / 2))
        # A wide gap must not drown an eigenvalue far below it: its factor gets digits to spare.
        narrow = gap <= max(abs(rho) * _RELATIVE, floor)
        grid = _grid(a, sigma, gap if narrow else max(gap * _RELATIVE, floor))
        lower = cholesky(a, sigma, grid)
        attempts += 1
        if lower is None and best is None:
            gap = 2 * rho if attempts == 1 and rho > gap else gap * _BACK_OFF
            continue
        if lower is not None:
            best = lower, grid, sigma
            if narrow:
                break
        assert best is not None
        failed = gap if lower is None else Fraction(0)
        rho, v = _improved(a, best[0], best[1], rho, v)
        wide = 2 * (rho - best[2])  # the gap that gives the sigma we have
        gap = max(abs(rho) * _RELATIVE, floor)
        if failed >= gap:
            gap = _geometric_mean(failed, wide)
        if 2 * gap >= wide:
            break
    assert best is not None
    return best


def _geometric_mean(x: Fraction, y: Fraction) -> Fraction:
    """Within a factor of 2 of sqrt(x y), x and y positive."""
    return Fraction(2) ** ((_exponent(x) + _exponent(y)) // 2 - 1)


def _grid(a: Scaled, sigma: Fraction, gap: Fraction) -> int:
    """A grid on which rounding a factor of a - sigma I costs at most gap / 4.

    The residual's row sums are at most (n / 2 + 2) max L_jj 2**-grid, and L_jj**2 <= a_jj - sigma.
    """
    n: int = a.matrix.nrows()
    diagonal = a.fraction(max(int(a.matrix[i, i]) for i in range(n))) - sigma
    if diagonal <= 0:
        return 0  # no factor exists
    largest_factor = -(-_exponent(diagonal) // 2)
    return max(0, largest_factor + (2 * n + 8).bit_length() - (_exponent(gap) - 2))


def _exponent(x: Fraction) -> int:
    """An e with 2**(e - 2) < x < 2**e; x > 0."""
    return x.numerator.bit_length() - x.denominator.bit_length() + 1


def _improved(a: Scaled, lower: Integers, grid: int, rho: Fraction, v: Integers) -> tuple[Fraction, Integers]:
    """The Rayleigh quotient after a few steps of inverse iteration, and its vector; it never rises."""
    for _ in range(8):
        v = inverse_iterated(lower, grid, v)
        previous, rho = rho, min(rho, quotient(a, v))
        if previous - rho <= abs(rho) * _RELATIVE / 8:
            break
    return rho, v


def _witness(lower: Integers, grid: int, sigma: Fraction) -> Witness:
    rows = tuple(tuple(int(x) for x in lower[i, : i + 1]) for i in range(len(lower)))
    return Witness(rows, grid, sigma)
