"""The error itself, at one state: computed floats minus exact value, with no bound in between."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import Format, Ieee
from certify.errors import InputRejected
from certify.graph import Graph, evaluate, output


def computed(graph: Graph, format: Format, inputs: Mapping[str, npt.ArrayLike], name: str) -> npt.NDArray[Any]:
    """The floats that the program returns for output `name`, as binary64; the inputs are converted first."""
    ieee = Ieee(format)
    given = {key: ieee.constant(np.asarray(value)) for key, value in inputs.items()}
    values = evaluate(graph, ieee, given, outputs=[name])
    return output(graph, ieee, values, name).astype(np.float64)


def exact(graph: Graph, inputs: Mapping[str, npt.ArrayLike], name: str) -> npt.NDArray[Any]:
    """The exact value of output `name` at the stored binary64 inputs, an object array of Fractions.

    Takes time and space that grow with the degree of the kernel; a case may know a faster way.
    """
    from certify.arithmetic.dyadic import Dyadic, fractions

    dyadic = Dyadic()
    given = {key: dyadic.constant(value) for key, value in inputs.items()}
    values = evaluate(graph, dyadic, given, outputs=[name])
    return fractions(output(graph, dyadic, values, name))


def error(floats: npt.NDArray[Any], reference: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """|floats - reference| exactly, an object array of Fractions in their shape.

    Raises
    ------
    InputRejected : a float is infinite or NaN, so the program overflowed and has no error in this sense.
    """
    floats = np.asarray(floats, dtype=np.float64)
    if not np.isfinite(floats).all():
        raise InputRejected("the program overflows at this state", "read its range claim, or use a wider format")
    exactly = np.frompyfunc(lambda x, y: abs(Fraction(x) - y), 2, 1)
    return np.asarray(exactly(floats, reference), dtype=object)
