"""Arithmetics over a graph: IEEE formats (emulated bit for bit), outward enclosures, exact dyadics.

Importing this loads NumPy only; the exact arithmetic (`certify.arithmetic.dyadic`) needs python-flint and is imported
where it is used.
"""

from certify.arithmetic.enclosure import CrivalEnclosure, Enclosure, NumpyEnclosure, enclosure
from certify.arithmetic.formats import (
    BFLOAT16,
    BINARY16,
    BINARY32,
    BINARY64,
    E4M3,
    E5M2,
    FORMATS,
    TF32,
    Format,
    Overflow,
)
from certify.arithmetic.ieee import Ieee
from certify.arithmetic.libm import Libm
from certify.arithmetic.naming import format_named
from certify.arithmetic.own_formats import cast, precision, with_formats
from certify.arithmetic.stochastic import Stochastic

__all__ = [
    "BFLOAT16",
    "BINARY16",
    "BINARY32",
    "BINARY64",
    "E4M3",
    "E5M2",
    "FORMATS",
    "TF32",
    "CrivalEnclosure",
    "Enclosure",
    "Format",
    "Ieee",
    "Libm",
    "NumpyEnclosure",
    "Overflow",
    "Stochastic",
    "cast",
    "enclosure",
    "format_named",
    "precision",
    "with_formats",
]
