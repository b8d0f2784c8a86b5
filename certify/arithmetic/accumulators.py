"""Formats in which sums are accumulated: `serial:float32` adds in binary32 what a narrower format multiplies."""

from __future__ import annotations

from certify.arithmetic.formats import FORMATS, Format
from certify.errors import InputRejected


def accumulator(name: str, format: Format) -> Format:
    """The format of that name, as the accumulator of `format`.

    Raises
    ------
    InputRejected : the accumulator cannot hold every number of `format`.
    """
    wide = FORMATS[name]
    if not wide.contains(format):
        raise InputRejected(
            f"the accumulator {name} cannot hold every number of {format.name}", "accumulate in a wider format"
        )
    return wide


def products_are_exact(format: Format, wide: Format) -> bool:
    """Whether the product of any two numbers of `format` is a number of `wide`, unless it is beyond its largest.

    A product has at most 2 p bits, the last of which is not below the square of the smallest subnormal.
    """
    last = 2 * (format.emin - format.precision + 1)
    return 2 * format.precision <= wide.precision and last >= wide.emin - wide.precision + 1
