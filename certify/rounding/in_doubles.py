"""The adversary of `certify.rounding.attained` at the cost of a few evaluations: replayed in enclosures of binary64.

What is returned is still a lower bound of what is reached: the moved and the exact program are enclosed by the running bounds
of binary64, which hold for exact values (`certify.rounding.running`), and of their difference the least magnitude counts. That
needs a format of far fewer than 53 bits; in a wider one the enclosures hide the error, and nothing is known to be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import BINARY64, Format, Ieee
from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.libm import ONE_ULP, Libm, library
from certify.graph import ZERO, Graph, Values, evaluate, lower, order_named, with_order
from certify.graph.evaluation import OTHERS
from certify.graph.graph import Ids
from certify.rounding.adversary import FAR, Adversary
from certify.rounding.attained import gradient, norm_down
from certify.rounding.functions import RANGES
from certify.rounding.local import ERROR, HIGH, LOW
from certify.rounding.region import Floats
from certify.rounding.running import Running

#: Formats with more bits leave the enclosures too little room.
MOST_PRECISION = 32
_LESS = 0.98  # of the way to a bound that would be passed
#: Those of every arithmetic, and of the others all but casts, which are exact here.
_OPERATIONS = {"empty", "constant", "add", "sub", "mul", "neg", "relu", "scale"} | {*OTHERS.values()} - {"cast"}


class Doubles:
    """Exact arithmetic, enclosed by the running bounds of a binary64 program: the exact value is in [lo - E, hi + E].

    Values have the shape (3, lanes). A library's functions are those of a correctly rounded one, so nothing is assumed here.
    """

    exact = True

    def __init__(self) -> None:
        self._rules = Running(BINARY64, library("correct", []))

    def __getattr__(self, name: str) -> Any:
        if name not in _OPERATIONS:  # formats and orders do not matter to exact values
            raise AttributeError(name)
        return getattr(self._rules, name)


class _Moved(Adversary):
    """The adversary whose exact arithmetic is `Doubles`: it knows a least |y| of y, and moves no further than that allows."""

    def __init__(self, program: Graph, format: Format, libm: Libm, signs: Floats) -> None:
        super().__init__(Doubles(), False, program, format, libm, signs)

    def _moved(self, values: Values, distance: Floats) -> Values:
        moves = self._signs_here(values) * distance
        return self._passed(np.asarray(self._base.add(values, np.stack([moves, moves, np.zeros_like(moves)]))))

    def _exponents(self, values: Values) -> tuple[Ids, Ids]:
        least = _least(values)
        half, exponent = np.frexp(least)  # |y| = half 2**exponent, half in [1/2, 1)
        exponent = np.where(least > 0, exponent - 1, -FAR).astype(np.int32)
        return exponent, ((half == 0.5) & (least > 0)).astype(np.int32)

    def _room(self, name: str, exact: Values) -> Floats:
        (low, high), up = RANGES[name], self._signs_here(exact) > 0
        room = np.where(up, step_down(high - _high(exact)), step_down(_low(exact) - low))
        return np.asarray(np.maximum(np.nan_to_num(room, nan=0.0, posinf=np.inf), 0.0))

    def _size(self, values: Values) -> Floats:
        return _least(values)


def attained_quickly(
    graph: Graph,
    format: Format,
    inputs: Mapping[str, npt.ArrayLike],
    output: str,
    *,
    libm: Libm = ONE_ULP,
    rounds: int = 3,
    most: float = np.inf,
) -> Fraction:
    """A lower bound of the error in the norm of `output` that chosen roundings, or the program, reach at exact `inputs`.

    The program is that of the graph's order, for `any-order` the serial one. Where its operations are none of a graph's (fused,
    or in an accumulator) or it flushes, only what it returns in its own arithmetic counts. 0 where binary64 cannot tell.

    Parameters
    ----------
    libm : what the adversary may make of a library.
    rounds : how often the error of several elements is turned into one direction.
    most : an adversary who would pass this bound has left the numbers that are computed at `inputs`, which the bound knows;
        he moves less, by about as much, and if he still passes it counts for nothing.
    """
    graph = with_order(graph, order_named(graph.order or "serial").program.name)
    model = order_named(graph.order or "serial")
    ids = graph.outputs[output].ids
    if format.precision > MOST_PRECISION or (ids == ZERO).all():
        return Fraction(0)
    exact = {name: np.asarray(x, dtype=np.float64) for name, x in inputs.items()}
    best = _of_the_program(graph, format, exact, ids[ids != ZERO].ravel())
    if model.kind == "fma" or model.accumulator or format.flush:
        return best
    program = lower(graph)
    ids = program.outputs[output].ids
    nodes = ids[ids != ZERO].ravel()
    fixed = _enclosed(program, Doubles(), exact)[..., nodes]
    start = {name: format.unbounded.round(x) for name, x in exact.items()}
    weights = np.ones(len(nodes))

    def errors(directions: Floats) -> tuple[Floats, Floats]:
        moved = _enclosed(program, _Moved(program, format, libm, directions), start)
        return _apart(moved[..., nodes], fixed)

    for _ in range(rounds if len(nodes) > 1 else 2):
        signs = np.nan_to_num(np.sign(gradient(program, exact, nodes, weights)))
        low, high = errors(signs)
        reached = _norm(low, high)
        if reached > most:
            reached = _norm(*errors(signs * (_LESS * most / float(reached))))
        if reached <= most:
            best = max(best, reached)
        if len(nodes) == 1:
            weights = -weights  # the other direction
            continue
        weights = np.nan_to_num(np.where(low > -high, low, high))  # the end that is farther from 0
        weights = weights / max(float(np.abs(weights).max()), 1e-300)
    return best


def _of_the_program(graph: Graph, format: Format, inputs: Mapping[str, Floats], nodes: Ids) -> Fraction:
    """What the program itself is off by at these nodes, at least; 0 if it overflows."""
    ieee = Ieee(format)
    floats = evaluate(graph, ieee, {name: ieee.constant(x) for name, x in inputs.items()})[nodes].astype(np.float64)
    returned = np.stack([floats, floats, np.zeros_like(floats)])
    return _norm(*_apart(returned, _enclosed(graph, Doubles(), inputs)[..., nodes]))


def _enclosed(graph: Graph, arithmetic: Any, inputs: Mapping[str, Floats]) -> Values:
    return evaluate(graph, arithmetic, {name: Doubles().constant(x) for name, x in inputs.items()})


def _apart(a: Values, b: Values) -> tuple[Floats, Floats]:
    """Between what a - b lies; infinite where it is not known."""
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = step_down(_low(a) - _high(b)), step_up(_high(a) - _low(b))
    known = np.isfinite(low) & np.isfinite(high)
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def _norm(low: Floats, high: Floats) -> Fraction:
    """The norm of numbers between these, at least."""
    least = np.maximum(np.maximum(low, -high), 0.0)
    return norm_down([Fraction(x) for x in least[least > 0].tolist()])


def _low(values: Values) -> Floats:
    return step_down(values[LOW] - values[ERROR])


def _high(values: Values) -> Floats:
    return step_up(values[HIGH] + values[ERROR])


def _least(values: Values) -> Floats:
    """The least magnitude of what these enclose, 0 where that is not known; the factor covers a rounding of the difference."""
    with np.errstate(invalid="ignore", over="ignore"):
        least = (np.maximum(values[LOW], -values[HIGH]) - values[ERROR]) * (1 - 2.0**-51)
    return np.where((least > 0) & np.isfinite(least), least, 0.0)
