"""Binary floating-point formats as data, and rounding into them.

A format has precision p (significant bits) and exponents emin..emax; its finite numbers are the multiples
n 2**(e - p + 1), |n| < 2**p, emin <= e <= emax, subnormals included, up to `largest`. Everything else follows: unit
roundoff u = 2**-p, half the smallest subnormal omega = 2**(emin - p). What happens above `largest` and below 2**emin is
part of the format. Sources: IEEE 754-2019; OCP 8-bit floating point specification (OFP8) revision 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected

Floats = npt.NDArray[np.float64]
_EXPONENT = np.int64(0x7FF0000000000000)  # the exponent bits: with the others cleared, 2**floor(log2 |x|)
_AS_IEEE = 1 << 20  # stands for emin = 1 - emax
_REACH = 400  # exponents of formats of at most 24 bits: products and their errors stay inside binary64


class Overflow(Enum):
    """What a result that rounds to more than the largest number becomes."""

    INFINITY = "infinity"
    NAN = "nan"  # the format has no infinities
    SATURATE = "saturate"  # the largest number, infinities included


@dataclass(frozen=True)
class Format:
    """A binary format, rounding to nearest, ties to even.

    `cut` numbers are missing at the top of the last binade (e4m3 uses them for NaN). With `flush`, every result that is
    subnormal *after* rounding, conversions included, becomes a zero of its sign: no subnormal number is ever seen.

    Invariant, used by the emulation and by the bounds: 2 <= p <= 24 and emin < emax within +-400, or p = 53 with the exponents
    of binary64 and all its numbers; and 1 is a number of the format. For p <= 24 a product of two numbers is exact in
    binary64 and a sum, rounded to binary64 and then to the format, is correctly rounded (`certify.arithmetic.ieee`).

    Raises
    ------
    InputRejected : the invariant does not hold.
    """

    name: str
    precision: int
    emax: int
    emin: int = _AS_IEEE
    cut: int = 0
    overflow: Overflow = Overflow.INFINITY
    flush: bool = False

    def __post_init__(self) -> None:
        if self.emin == _AS_IEEE:
            object.__setattr__(self, "emin", 1 - self.emax)
        what = f"the format {self.name!r}"
        if not 2 <= self.precision <= 24 and self.precision != 53:
            raise InputRejected(f"{what} has a precision of {self.precision} bits", "use 2 to 24 bits, or float64")
        if self.precision == 53 and (self.emin, self.emax, self.cut) != (-1022, 1023, 0):
            raise InputRejected(f"{what} has 53 bits and not the exponents of float64", "use emin=-1022,emax=1023")
        if self.precision < 53 and not -_REACH <= self.emin < self.emax <= _REACH:
            raise InputRejected(
                f"{what} has exponents {self.emin} to {self.emax}",
                f"use emin < emax, both between -{_REACH} and {_REACH}",
            )
        if not self.emin <= 0 <= self.emax:
            raise InputRejected(f"{what} does not hold the number 1", "use emin <= 0 <= emax")
        if not 0 <= self.cut < 2 ** (self.precision - 1):
            raise InputRejected(
                f"{what} lacks {self.cut} numbers at the top", f"use a cut of 0 to {2 ** (self.precision - 1) - 1}"
            )

    @property
    def u(self) -> float:
        """Unit roundoff 2**-p, a relative error."""
        return 2.0**-self.precision

    @property
    def min_subnormal(self) -> float:
        """Smallest positive number with subnormals, 2**(emin - p + 1); with `flush` no result."""
        return float(np.ldexp(1.0, self.emin - self.precision + 1))

    @property
    def min_normal(self) -> float:
        """Smallest positive normal number, 2**emin."""
        return float(np.ldexp(1.0, self.emin))

    @property
    def omega(self) -> float:
        """Half the smallest subnormal, an absolute error; for binary64 rounded up to the smallest subnormal."""
        return max(self.min_subnormal / 2, 2.0**-1074)

    @property
    def underflow(self) -> float:
        """The largest error of an operation whose result is below 2**emin: omega, or 2**emin with `flush`."""
        return self.min_normal if self.flush else self.omega

    @cached_property
    def largest(self) -> float:
        """Largest finite number, (2 - 2 u (1 + cut)) 2**emax."""
        return float(np.ldexp(2.0 - 2.0 * self.u * (1 + self.cut), self.emax))

    @property
    def digits(self) -> float:
        """Decimal digits of the significand, p log10(2)."""
        return self.precision * float(np.log10(2.0))

    @cached_property
    def unbounded(self) -> Format:
        """The same format with infinities: what a proof or a search for overflow computes in.

        Up to the first overflow both compute the same numbers.
        """
        return replace(self, overflow=Overflow.INFINITY)

    def round(self, x: Floats) -> Floats:
        """`x` rounded to the nearest number of the format, ties to even, as binary64.

        One rounding: x is the exact number to round, not a rounded one. Shape is kept.
        """
        if self._binary64:
            return x
        x = np.asarray(x)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self._binary32:
                return x.astype(np.float32).astype(np.float64)  # NumPy's cast rounds once
            rounded = self._within(x if self.precision == 53 else self._nearest(x), x)
            if self.flush:
                rounded = np.where(np.abs(rounded) < self.min_normal, np.copysign(0.0, rounded), rounded)
            return rounded

    def holds(self, x: Floats) -> npt.NDArray[np.bool_]:
        """Whether each number is one of the format's finite numbers."""
        result: npt.NDArray[np.bool_] = np.isfinite(x) & (self.round(x) == x)
        return result

    def contains(self, other: Format) -> bool:
        """Whether every finite number of `other` is one of this format."""
        least = self.emin if self.flush else self.emin - self.precision + 1
        least_other = other.emin if other.flush else other.emin - other.precision + 1
        # the last bit of the other's smallest numbers must not be lost
        fits = other.emin - other.precision + 1 >= self.emin - self.precision + 1 and least_other >= least
        return fits and self.precision >= other.precision and self.largest >= other.largest

    @property
    def bits(self) -> int:
        """The bits that a number of the format is stored in: sign, exponent and significand, without padding."""
        return self.precision + (self.emax - self.emin + 1).bit_length()

    def holds_scale(self, exponent: int) -> bool:
        """Whether 2**exponent and its reciprocal are numbers of the format."""
        least = self.emin if self.flush else self.emin - self.precision + 1
        return abs(exponent) <= self.emax and -abs(exponent) >= least

    def check_scale(self, exponent: int) -> None:
        """Raise InputRejected unless 2**exponent and its reciprocal are numbers of the format."""
        if not self.holds_scale(exponent):
            raise InputRejected(
                f"the kernel scales by 2**{exponent}, which {self.name} cannot hold",
                "use a format with a wider exponent range",
            )

    @cached_property
    def _binary64(self) -> bool:
        return self.precision == 53 and not self.flush and self.overflow is Overflow.INFINITY

    @cached_property
    def _binary32(self) -> bool:
        plain = not self.flush and self.overflow is Overflow.INFINITY
        return plain and (self.precision, self.emin, self.emax, self.cut) == (24, -126, 127, 0)

    def _nearest(self, x: Floats) -> Floats:
        # Adding 3/2 2**52 spacings puts the last bit of the sum at the spacing of the format at x: the addition rounds x to
        # a multiple of it, ties to the even one, and the subtraction is exact.
        shift = np.asarray(x.view(np.int64) & _EXPONENT).view(np.float64)
        np.maximum(shift, self.min_normal, out=shift)
        shift *= 1.5 * 2.0 ** (53 - self.precision)
        rounded = np.asarray(x + shift)
        rounded -= shift
        return np.copysign(rounded, x, out=rounded)

    def _within(self, rounded: Floats, x: Floats) -> Floats:
        beyond = ~(np.abs(rounded) <= self.largest)
        if beyond.any():
            rounded = np.where(beyond, np.where(np.isnan(x), x, np.copysign(self._above, x)), rounded)
        return rounded

    @property
    def _above(self) -> float:
        return {Overflow.INFINITY: np.inf, Overflow.NAN: np.nan, Overflow.SATURATE: self.largest}[self.overflow]


BINARY16 = Format("float16", 11, 15)
BFLOAT16 = Format("bfloat16", 8, 127)
TF32 = Format("tf32", 11, 127)
BINARY32 = Format("float32", 24, 127)
BINARY64 = Format("float64", 53, 1023)
E5M2 = Format("e5m2", 3, 15)
E4M3 = Format("e4m3", 4, 8, -6, cut=1, overflow=Overflow.NAN)
#: The formats with a name, coarse to fine.
FORMATS = {f.name: f for f in (E5M2, E4M3, BINARY16, BFLOAT16, TF32, BINARY32, BINARY64)}
