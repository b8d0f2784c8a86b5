"""Exact values in balls: midpoints with a proved radius, at a chosen precision (python-flint's `arb`).

Values of n nodes are an object array of shape (n,). A ball contains the exact value. Where a comparison is not decided by the
balls, `Undecided` is raised: the caller raises the precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from certify.errors import Undecided
from certify.graph import Graph, Values, evaluate


def balls(
    graph: Graph, inputs: Mapping[str, npt.ArrayLike], precision: int, outputs: Iterable[str] | None = None
) -> Values:
    """The exact values of all nodes at binary64 inputs, or of those that `outputs` need, as balls of `precision` bits.

    Raises
    ------
    Undecided : a comparison or the sign under a root is not decided at this precision.
    """
    with ctx.workprec(precision):
        arithmetic = Balls()
        given = {name: arithmetic.constant(np.asarray(value, dtype=np.float64)) for name, value in inputs.items()}
        return evaluate(graph, arithmetic, given, outputs=outputs)


def _lanes(function: Callable[..., Any]) -> Callable[..., Values]:
    """A function of balls, entry by entry; operands broadcast."""
    lift = np.frompyfunc(function, function.__code__.co_argcount, 1)

    def lanes(self: Balls, *operands: Any) -> Values:
        return np.asarray(lift(*operands), dtype=object)

    return lanes


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) of a ball, without exp of a large number."""
    small = (-abs(x)).exp()
    return small / (1 + small) if x < 0 else 1 / (1 + (-x).exp())


def _positive(x: Any) -> Any:
    return x.max(arb(0))


def _root(x: Any) -> Any:
    if not (x >= 0 or x < 0):
        raise Undecided("the sign of a number under a square root is not decided at this precision", "use more bits")
    return x.sqrt()


def _chosen(strict: bool, p: Any, q: Any, x: Any, y: Any) -> Any:
    holds, fails = (p < q, p >= q) if strict else (p <= q, p > q)
    if not (holds or fails):
        raise Undecided("a comparison of the kernel is not decided at this precision", "use more bits")
    return x if holds else y


class Balls:
    """The arithmetic; the working precision is that of the context."""

    exact = True
    add = _lanes(lambda a, b: a + b)
    sub = _lanes(lambda a, b: a - b)
    mul = _lanes(lambda a, b: a * b)
    div = _lanes(lambda a, b: a / b)
    max = _lanes(lambda a, b: a.max(b))
    neg = _lanes(lambda a: -a)
    abs = _lanes(lambda a: abs(a))
    relu = _lanes(_positive)
    exp = _lanes(lambda a: a.exp())
    log = _lanes(lambda a: a.log())
    tanh = _lanes(lambda a: a.tanh())
    sigmoid = _lanes(sigmoid)

    def empty(self, n: int) -> Values:
        """Room for n values."""
        return np.empty(n, dtype=object)

    def constant(self, values: npt.ArrayLike) -> Values:
        """Finite binary64 numbers, exactly."""
        return np.asarray(np.frompyfunc(lambda x: arb(float(x)), 1, 1)(np.asarray(values)), dtype=object)

    def scale(self, a: Values, exponent: int) -> Values:
        """a 2**exponent, exact."""
        factor = arb(2) ** exponent
        return np.asarray(np.frompyfunc(lambda x: x * factor, 1, 1)(a), dtype=object)

    def sqrt(self, a: Values, nonnegative: Any) -> Values:
        """The square root."""
        return np.asarray(np.frompyfunc(_root, 1, 1)(a), dtype=object)

    def select(self, p: Values, q: Values, x: Values, y: Values, strict: bool) -> Values:
        """x where p <= q (or p < q), else y. Raises Undecided."""
        return np.asarray(np.frompyfunc(partial(_chosen, strict), 4, 1)(p, q, x, y), dtype=object)


def middle(ball: Any) -> Fraction:
    """The midpoint of a ball, exactly."""
    return _dyadic(ball.mid())


def radius(ball: Any) -> Fraction:
    """The radius of a ball, exactly."""
    return _dyadic(ball.rad())


def _dyadic(point: Any) -> Fraction:
    significand, exponent = (int(k) for k in point.man_exp())
    return Fraction(significand << exponent) if exponent >= 0 else Fraction(significand, 1 << -exponent)
