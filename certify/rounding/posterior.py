"""The error itself, at one state: computed floats minus exact value, with no bound in between."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import Format, Ieee
from certify.errors import InputRejected, Undecided
from certify.graph import ZERO, Graph, Op, evaluate, output

#: Operations whose values at dyadic numbers are dyadic.
DYADIC = {Op.CONST, Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.RELU, Op.SCALE, Op.SUM, Op.DOT, Op.OVERWRITE, Op.CAST}
#: How far what `exact` returns for other operations may be from the exact value.
_LEAST_BITS = 1300
RELATIVE, ABSOLUTE = Fraction(1, 1 << 160), Fraction(1, 1 << _LEAST_BITS)
_MOST_BITS = 1 << 13


def computed(graph: Graph, format: Format, inputs: Mapping[str, npt.ArrayLike], name: str) -> npt.NDArray[Any]:
    """The floats that the program returns for output `name`, as binary64; the inputs are converted first."""
    ieee = Ieee(format)
    given = {key: ieee.constant(np.asarray(value)) for key, value in inputs.items()}
    values = evaluate(graph, ieee, given, outputs=[name])
    return output(graph, ieee, values, name).astype(np.float64)


def exact(graph: Graph, inputs: Mapping[str, npt.ArrayLike], name: str) -> npt.NDArray[Any]:
    """The exact value of output `name` at the stored binary64 inputs, an object array of Fractions.

    Of a kernel of sums, products and ReLUs this is the value itself. With other operations it is the midpoint of a ball that
    contains it, whose radius is at most `RELATIVE` of it (or `ABSOLUTE`, where it may be 0 or is no larger): then an error that
    is more than 2**-100 of the value is known to 2**-60 of itself. Takes time and space that grow with the degree of the
    kernel; a case may know a faster way.

    Raises
    ------
    Undecided : the value is not defined, as by a division by zero, or hangs on a comparison of two numbers that are equal.
    """
    if not DYADIC.issuperset(graph.op.tolist()):
        return _by_balls(graph, inputs, name)
    from certify.arithmetic.dyadic import Dyadic, fractions

    dyadic = Dyadic()
    given = {key: dyadic.constant(value) for key, value in inputs.items()}
    values = evaluate(graph, dyadic, given, outputs=[name])
    return fractions(output(graph, dyadic, values, name))


def _by_balls(graph: Graph, inputs: Mapping[str, npt.ArrayLike], name: str) -> npt.NDArray[Any]:
    from flint import arb

    from certify.arithmetic.balls import balls, middle, radius

    negligible = arb(2) ** -_LEAST_BITS

    def around(ball: Any) -> tuple[Fraction, Fraction]:
        # the exponents of numbers such as exp(-1e12) are too large to write these out
        return (Fraction(0), ABSOLUTE) if abs(ball) < negligible else (middle(ball), radius(ball))

    ids, known = graph.outputs[name].ids, graph.outputs[name].known
    precision = 256
    while True:
        try:
            found = balls(graph, inputs, precision, [name])[ids.ravel()].tolist()
            if not all(ball.is_finite() for ball in found):
                raise Undecided("the exact value is not finite at this precision", "use more bits")
            pairs = [around(ball) for ball in found]
            if all(r <= abs(x) * RELATIVE or r <= ABSOLUTE for x, r in pairs):
                break
        except Undecided:
            if precision >= _MOST_BITS:
                raise
        if precision >= _MOST_BITS:
            raise Undecided(f"the exact value is not known from {precision} bits", "move the inputs a little")
        precision *= 2
    values = np.empty(ids.size, dtype=object)
    values[:] = [x for x, _ in pairs]
    constants = np.array([Fraction(x) for x in known.ravel().tolist()], dtype=object)
    return np.where(ids.ravel() == ZERO, constants, values).reshape(ids.shape)


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
