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


def products_are_exact(left: Format, right: Format, wide: Format) -> bool:
    """Whether the product of any numbers of `left` and `right` is a number of `wide`, unless it is beyond its largest.

    A product has at most as many bits as both together, the last of which is not below the product of the smallest subnormals.
    """
    last = left.emin - left.precision + 1 + right.emin - right.precision + 1
    return left.precision + right.precision <= wide.precision and last >= wide.emin - wide.precision + 1
