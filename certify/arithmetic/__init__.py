"""Arithmetics over a graph: IEEE formats (emulated bit for bit), outward enclosures, exact dyadics.

Importing this loads NumPy only; the exact arithmetic (`certify.arithmetic.dyadic`) needs python-flint and is imported
where it is used.
"""

from certify.arithmetic.enclosure import CrivalEnclosure, Enclosure, NumpyEnclosure, enclosure
from certify.arithmetic.formats import BFLOAT16, BINARY16, BINARY32, BINARY64, FORMATS, Format, format_named
from certify.arithmetic.ieee import Ieee

__all__ = [
    "BFLOAT16",
    "BINARY16",
    "BINARY32",
    "BINARY64",
    "FORMATS",
    "CrivalEnclosure",
    "Enclosure",
    "Format",
    "Ieee",
    "NumpyEnclosure",
    "enclosure",
    "format_named",
]
