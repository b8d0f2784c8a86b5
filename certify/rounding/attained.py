"""How much of a rounding bound can be reached: an adversary who chooses the direction of every rounding.

The adversary obeys the same model as the bounds, |fl(y) - y| <= half an ulp of y, and knows the adjoints: it moves each
operation's result half an ulp in the direction that moves the output up. The error it reaches, in exact arithmetic, is
a lower bound of the worst case in that model (IEEE rounding itself cannot choose). It measures tightness; no
certificate uses it. At a point it may exceed the running bound: that bound knows which floats are computed there, and the
adversary computes others; by a second-order share usually, by more where subnormals or exact cancellation matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic import BINARY64, Format, Ieee, format_named
from certify.arithmetic.dyadic import Dyadic, fractions
from certify.graph import Graph, Instruction, Op, Values, evaluate, lower
from certify.graph.evaluation import OTHERS
from certify.graph.graph import Ids


def attained(
    graph: Graph, format: Format, inputs: Mapping[str, npt.ArrayLike], output: str, index: tuple[int, ...]
) -> Fraction:
    """The error in element `index` of `output` that the adversary reaches at `inputs`, absolute, exact.

    The inputs are taken as numbers of the format. The graph needs an order; it is lowered to single operations.
    """
    program = lower(graph)
    ids = program.outputs[output].ids
    node = int(ids[index])
    signs = np.sign(adjoint(program, inputs, node))
    dyadic, adversary = Dyadic(), _Adversary(program, format, signs)
    given = {name: dyadic.constant(value) for name, value in inputs.items()}
    moved, exact = (evaluate(program, arithmetic, given)[:, node] for arithmetic in (adversary, dyadic))
    difference = fractions(dyadic.sub(moved[:, None], exact[:, None]))[0]
    return abs(Fraction(difference))


def adjoint(program: Graph, inputs: Mapping[str, npt.ArrayLike], node: int) -> npt.NDArray[np.float64]:
    """d node / d (each node), by a reverse sweep in binary64 over a lowered graph; shape (n_nodes + 1,)."""
    ieee = Ieee(BINARY64)
    values = evaluate(program, ieee, {name: ieee.constant(np.asarray(value)) for name, value in inputs.items()})
    slope = np.zeros(program.n_nodes + 1)
    slope[node] = 1.0
    for i in program.instructions(backward=True):
        here = slope[i.start : i.stop]
        if i.op in (Op.ADD, Op.SUB):
            np.add.at(slope, i.left, here)
            np.add.at(slope, i.right, here if i.op is Op.ADD else -here)
        elif i.op is Op.MUL:
            np.add.at(slope, i.left, here * values[i.right])
            np.add.at(slope, i.right, here * values[i.left])
        elif i.op is Op.NEG:
            np.add.at(slope, i.left, -here)
        elif i.op is Op.CAST:
            np.add.at(slope, i.left, here)
        elif i.op is Op.RELU:
            np.add.at(slope, i.left, here * (values[i.left] > 0))
        elif i.op is Op.SCALE:
            np.add.at(slope, i.left, np.ldexp(here, i.exponent))
        elif i.op in OTHERS:
            for ids, partial in _partials(i, values):
                np.add.at(slope, ids, here * partial)
    return slope


def _partials(i: Instruction, values: Values) -> list[tuple[Ids, npt.NDArray[Any]]]:
    """The operands that the result of an operation of `OTHERS` varies with, and its partial derivatives."""
    a, result = values[i.left], values[i.start : i.stop]
    with np.errstate(all="ignore"):
        if i.op is Op.DIV:
            b = values[i.right]
            return [(i.left, 1 / b), (i.right, -result / b)]
        if i.op is Op.MAX:
            first = a >= values[i.right]
            return [(i.left, first * 1.0), (i.right, ~first * 1.0)]
        if i.op is Op.SELECT:
            q, x, y = i.right
            holds = a < values[q] if i.exponent else a <= values[q]
            return [(x, holds * 1.0), (y, ~holds * 1.0)]
        slopes: dict[Op, Callable[[], npt.NDArray[Any]]] = {
            Op.SQRT: lambda: 0.5 / result,
            Op.EXP: lambda: result,
            Op.LOG: lambda: 1 / a,
            Op.ABS: lambda: np.sign(a),
            Op.TANH: lambda: 1 - result * result,
            Op.SIGMOID: lambda: result * (1 - result),
        }
        return [(i.left, slopes[i.op]())]


class _Adversary(Dyadic):
    """Exact arithmetic in which each sum and product is moved half an ulp, in the direction of `signs`."""

    def __init__(self, program: Graph, format: Format, signs: npt.NDArray[np.float64]) -> None:
        self._program, self._format = program, format
        self._signs = signs
        # operations are called in execution order, once an instruction
        self._instructions = (i for i in program.instructions() if i.op is not Op.CONST)
        self._now = next(self._instructions, None)

    def _named(self, name: str) -> Format:
        return format_named(name) if name else self._format

    def _here(self) -> Format:
        """The format of the instruction at hand."""
        return self._named(self._now.format if self._now else "")

    def cast(self, a: Values) -> Values:
        i = self._now
        exact = i is None or all(self._here().contains(self._named(f)) for f in self._program.formats_of(i.left))
        return self._passed(a) if exact else self._moved(a, np.minimum(self._half_ulp(a), _size(a)))

    def add(self, a: Values, b: Values) -> Values:
        exact = super().add(a, b)
        return self._moved(exact, np.minimum(self._sums(exact), np.minimum(_size(a), _size(b))))

    def sub(self, a: Values, b: Values) -> Values:
        return self.add(a, super().neg(b))

    def mul(self, a: Values, b: Values) -> Values:
        exact = super().mul(a, b)
        return self._moved(exact, np.minimum(self._half_ulp(exact), _size(exact)))

    def neg(self, a: Values) -> Values:
        return self._passed(super().neg(a))

    def relu(self, a: Values) -> Values:
        return self._passed(super().relu(a))

    def scale(self, a: Values, exponent: int) -> Values:
        return self._passed(super().scale(a, exponent))

    def _passed(self, values: Values) -> Values:
        self._now = next(self._instructions, None)
        return values

    def _moved(self, values: Values, distance: npt.NDArray[np.float64]) -> Values:
        start = self._now.start if self._now else 0
        signs = self._signs[start : start + values.shape[-1]]
        return self._passed(super().add(values, super().constant(signs * distance)))

    def _half_ulp(self, exact: Values) -> npt.NDArray[np.float64]:
        _, exponent = np.frexp(_size(exact))  # half an ulp at 2**(e - 1) <= size < 2**e is 2**(e - 1 - p)
        format = self._here()
        last = np.maximum(exponent - 1, format.emin) - format.precision
        return np.asarray(np.ldexp(1.0, last))

    def _sums(self, exact: Values) -> npt.NDArray[np.float64]:
        """Sums that are subnormal or in the first normal binade are exact."""
        return np.where(_size(exact) >= 2 * self._here().min_normal, self._half_ulp(exact), 0.0)


def _size(values: Values) -> npt.NDArray[np.float64]:
    return np.asarray(np.abs(fractions(values).astype(np.float64)))
