"""Binary floating-point formats as data, and rounding into them.

A format has precision p (significant bits) and exponents emin..emax with emin = 1 - emax; its finite numbers are the
multiples n 2**(e - p + 1), |n| < 2**p, emin <= e <= emax, subnormals included. Everything else follows:
unit roundoff u = 2**-p, half the smallest subnormal omega = 2**(emin - p).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected

Floats = npt.NDArray[np.float64]
_EXPONENT = np.int64(0x7FF0000000000000)  # the exponent bits: with the others cleared, 2**floor(log2 |x|)


@dataclass(frozen=True)
class Format:
    """An IEEE 754 style binary format with subnormals, rounding to nearest, ties to even.

    Invariant, used by the emulation and by the bounds: p <= 24 or the format is binary64. For p <= 24 a product of two
    numbers is exact in binary64 and a sum, rounded to binary64 and then to the format, is correctly rounded
    (`certify.arithmetic.ieee`).
    """

    name: str
    precision: int
    emax: int

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number, 2**emin."""
        return 1 - self.emax

    @property
    def u(self) -> float:
        """Unit roundoff 2**-p, a relative error."""
        return 2.0**-self.precision

    @property
    def min_subnormal(self) -> float:
        """Smallest positive number, 2**(emin - p + 1)."""
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
    def largest(self) -> float:
        """Largest finite number, (2 - 2 u) 2**emax."""
        return float(np.ldexp(2.0 - 2.0 * self.u, self.emax))

    @property
    def digits(self) -> float:
        """Decimal digits of the significand, p log10(2)."""
        return self.precision * float(np.log10(2.0))

    def round(self, x: Floats) -> Floats:
        """`x` rounded to the nearest number of the format, ties to even, as binary64; overflow gives an infinity.

        One rounding: x is the exact number to round, not a rounded one. Shape is kept.
        """
        if self.precision == 53:
            return x
        x = np.asarray(x)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self.precision == 24:
                return x.astype(np.float32).astype(np.float64)  # NumPy's cast rounds once
            # Adding 3/2 2**52 spacings puts the last bit of the sum at the spacing of the format at x: the addition rounds
            # x to a multiple of it, ties to the even one, and the subtraction is exact.
            power = np.maximum((x.view(np.int64) & _EXPONENT).view(np.float64), self.min_normal)
            shift = power * (1.5 * 2.0 ** (53 - self.precision))
            rounded = np.copysign((x + shift) - shift, x)
            beyond = ~(np.abs(rounded) <= self.largest)
            if beyond.any():
                rounded = np.where(beyond, np.where(np.isnan(x), x, np.copysign(np.inf, x)), rounded)
            return rounded

    def holds(self, x: Floats) -> npt.NDArray[np.bool_]:
        """Whether each number is one of the format's finite numbers."""
        result: npt.NDArray[np.bool_] = np.isfinite(x) & (self.round(x) == x)
        return result

    def check_scale(self, exponent: int) -> None:
        """Raise InputRejected unless 2**exponent and its reciprocal are numbers of the format."""
        if abs(exponent) > self.emax:
            raise InputRejected(
                f"the kernel scales by 2**{exponent}, which {self.name} cannot hold",
                "use a format with a wider exponent range",
            )


BINARY16 = Format("float16", 11, 15)
BFLOAT16 = Format("bfloat16", 8, 127)
BINARY32 = Format("float32", 24, 127)
BINARY64 = Format("float64", 53, 1023)
FORMATS = {f.name: f for f in (BINARY16, BFLOAT16, BINARY32, BINARY64)}


def format_named(name: str) -> Format:
    """The format of that name; IEEE's names (binary16 ...) are accepted too. Raises InputRejected."""
    key = name.replace("binary", "float")
    if key not in FORMATS:
        raise InputRejected(f"there is no format {name!r}", f"use one of {', '.join(FORMATS)}")
    return FORMATS[key]
