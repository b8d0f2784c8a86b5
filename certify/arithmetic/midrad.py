"""Midpoint-radius arrays: matrix products of enclosures at the speed of BLAS.

`MidRad(mid, rad)` stands for every real array A with |A - mid| <= rad entrywise. Operations return an enclosure of all
results. Source: Rump, Fast and parallel interval arithmetic, BIT 39 (1999); without changing the rounding mode.

**Theorem.** Let a^ and A be the midpoint and any member, likewise b^, B. Then for the entrywise operations, with m the
midpoint computed to nearest,

    |A + B - m| <= r_a + r_b + u |m|         |A B - m| <= |a^| r_b + r_a (|b^| + r_b) + u |m| + 2**-1074

and for a matrix product with inner length k, in whatever order (and with or without FMA) BLAS adds it,

    |A B - m| <= |a^| r_b + r_a (|b^| + r_b) + gamma_k |a^| |b^| + k 2**-1073,      gamma_k = k u / (1 - k u).

*Proof.* The first two terms are |A B - a^ b^|, by the triangle inequality; the rest is the rounding of the midpoint
(Higham, Accuracy and Stability, 3.5: any order; an underflow loses at most half the smallest subnormal). QED

The radii themselves are computed to nearest. Every one is a sum of at most 2 k + 8 rounded nonnegative terms per
entry, so multiplying by 1 + (2 k + 16) 2**-52 and adding the underflows bounds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from certify.arithmetic.formats import Floats

_U = 2.0**-53
_TINY = 2.0**-1074


@dataclass(frozen=True)
class MidRad:
    """An enclosure of an array. Invariant: `rad` >= 0 has the shape of `mid`; a non-finite entry encloses nothing."""

    mid: Floats
    rad: Floats

    @classmethod
    def exact(cls, values: Floats) -> MidRad:
        """The enclosure that is one array."""
        mid = np.asarray(values, dtype=np.float64)
        return cls(mid, np.zeros_like(mid))

    @property
    def T(self) -> MidRad:
        """Transpose."""
        return MidRad(self.mid.T, self.rad.T)

    @property
    def size(self) -> Floats:
        """Upper bounds of |A|."""
        return np.asarray((np.abs(self.mid) + self.rad) * _up(1))

    def __getitem__(self, key: Any) -> MidRad:
        return MidRad(np.asarray(self.mid[key]), np.asarray(self.rad[key]))

    def __neg__(self) -> MidRad:
        return MidRad(-self.mid, self.rad)

    def __add__(self, other: MidRad) -> MidRad:
        with np.errstate(over="ignore", invalid="ignore"):
            mid = self.mid + other.mid
            return MidRad(mid, (self.rad + other.rad + _U * np.abs(mid)) * _up(1) + _TINY)

    def __sub__(self, other: MidRad) -> MidRad:
        return self + (-other)

    def __mul__(self, other: MidRad) -> MidRad:
        with np.errstate(over="ignore", invalid="ignore"):
            mid = self.mid * other.mid
            spread = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
            return MidRad(mid, (spread + _U * np.abs(mid)) * _up(1) + 8 * _TINY)

    def __matmul__(self, other: MidRad) -> MidRad:
        with np.errstate(over="ignore", invalid="ignore"):
            k = self.mid.shape[-1]
            mid = self.mid @ other.mid
            gamma = k * _U / (1 - k * _U) * _up(1)
            a, b = np.abs(self.mid), np.abs(other.mid)
            # gamma multiplies last: gamma b alone could underflow, and a be huge
            spread = a @ other.rad + self.rad @ (b + other.rad) + gamma * (a @ b)
            return MidRad(mid, spread * _up(k) + 8 * (k + 1) * _TINY)

    def scaled(self, exponent: int) -> MidRad:
        """A 2**exponent."""
        with np.errstate(over="ignore"):
            mid = np.ldexp(self.mid, exponent)
            return MidRad(mid, np.ldexp(self.rad, exponent) + (2 * _TINY if exponent < 0 else 0.0))

    def total(self) -> MidRad:
        """The sum of all entries, shape ()."""
        ones = MidRad.exact(np.ones(self.mid.size))
        return ones @ MidRad(self.mid.ravel(), self.rad.ravel())


def _up(k: int) -> float:
    return 1.0 + (2 * k + 16) * 2.0**-52


def box(center: Floats, radius: Floats | float) -> MidRad:
    """The enclosure of every array within `radius` of `center`, entrywise; both are exact."""
    center = np.asarray(center, dtype=np.float64)
    return MidRad(center, np.broadcast_to(np.asarray(radius, dtype=np.float64), center.shape).copy())
