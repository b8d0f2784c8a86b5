"""How much of a rounding bound can be reached: an adversary who chooses the direction of every rounding.

The adversary obeys the same model as the bounds, |fl(y) - y| <= half the spacing just below |y| (of a library's result, its
ulps, inside the function's range), and knows the gradient: it moves each operation's result as far as it may in the direction
that moves the output up. The error it reaches is replayed in exact arithmetic (in balls, where the kernel has other operations
than sums and products), and is a lower bound of the worst case in that model. IEEE rounding itself cannot choose;
`certify.rounding.reached` finds errors that it does make. Both measure tightness; no certificate uses them. At a point, and in
a small region, the adversary may exceed the bound: that knows which floats are computed there, and the adversary computes
others; by a second-order share usually, by more where subnormals or exact cancellation matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import ctx

from certify.arithmetic import BINARY64, Format, Ieee
from certify.arithmetic.balls import Balls, middle
from certify.arithmetic.dyadic import Dyadic, fractions
from certify.arithmetic.libm import ONE_ULP, Libm
from certify.graph import ZERO, Graph, Instruction, Op, Values, evaluate, lower
from certify.graph.evaluation import OTHERS
from certify.graph.graph import Ids
from certify.rounding.adversary import Adversary
from certify.rounding.region import Floats, Region, point
from certify.rounding.running import running

Inputs = Mapping[str, npt.ArrayLike]
_BITS = 600
_LEAST = -(1 << 14)
_ROUNDS = 4  # of turning the error of several elements into one direction


@dataclass(frozen=True)
class Attained:
    """An error that an adversary reaches: `value`, absolute and exact (a norm: rounded down), from the exact `inputs`."""

    value: Fraction
    inputs: Mapping[str, Floats]


def attained(
    graph: Graph,
    format: Format,
    inputs: Inputs,
    output: str,
    index: tuple[int, ...] | None = None,
    *,
    libm: Libm = ONE_ULP,
    start: Inputs | None = None,
) -> Fraction:
    """The error in element `index` of `output` that the adversary reaches at `inputs`; by default in its Euclidean norm.

    The program starts from `start`, by default the inputs themselves, taken as numbers of the format. The graph needs an order;
    it is lowered to single operations.
    """
    program = lower(graph)
    ids = program.outputs[output].ids
    nodes = np.atleast_1d(ids[index]) if index is not None else ids[ids != ZERO].ravel()
    if not len(nodes):
        return Fraction(0)
    weights = np.ones(len(nodes))
    best = Fraction(0)
    for _ in range(_ROUNDS if len(nodes) > 1 else 2):
        signs = np.nan_to_num(np.sign(gradient(program, inputs, nodes, weights)))
        moved = _replay(program, format, libm, inputs, inputs if start is None else start, signs, nodes)
        best = max(best, norm_down(moved))
        # of a single element the other direction
        weights = np.array([float(x) for x in moved]) / max(float(best), 1e-300) if len(nodes) > 1 else -weights
    return best


def attained_in(
    graph: Graph, format: Format, region: Region, output: str, *, libm: Libm = ONE_ULP, tries: int = 100, seed: int = 0
) -> Attained:
    """The largest error in the norm of `output` that the adversary reaches from some inputs of `region`.

    Which ones is a search among numbers that inputs are converted to: the middle, corners and random corners of the box, then
    one entry after the other, by the bound that holds there. At a point the conversion of the inputs is what it is; elsewhere
    each input is moved, within the region, to where it is largest.
    """
    if region.is_point:
        exact = {name: np.asarray(x, dtype=np.float64) for name, x in region.lower.items()}
        given = {name: format.unbounded.round(x) for name, x in exact.items()}
        return Attained(attained(graph, format, exact, output, libm=libm, start=given), exact)
    best = _worst_point(graph, format, region, output, libm, tries, seed)
    exact = best
    if not region.representable:
        exact = {name: _unconverted(graph, format, region, best, name, output) for name in best}
    return Attained(attained(graph, format, exact, output, libm=libm, start=best), exact)


def _worst_point(
    graph: Graph, format: Format, region: Region, output: str, libm: Libm, tries: int, seed: int
) -> dict[str, Floats]:
    """Numbers of the format that inputs of the region are converted to, at which the running bound is large."""
    rng = np.random.default_rng(seed)
    names = list(region.lower)
    ends = _numbers_inside if region.representable else _numbers_reached
    inner = {name: ends(format, region.lower[name], region.upper[name]) for name in names}

    def size(at: dict[str, Floats]) -> float:
        value = running(graph, format, point(at), libm=libm).norm_of(output)
        return value if np.isfinite(value) else -1.0

    best = {name: format.unbounded.round((inner[name][0] + inner[name][1]) / 2) for name in names}
    best = {name: np.clip(best[name], *inner[name]) for name in names}
    score = size(best)
    entries = [(name, k) for name in names for k in np.flatnonzero(inner[name][0] < inner[name][1]).tolist()]
    for trial in range(tries):
        if trial < max(4, tries // 3):
            share = {name: rng.random(best[name].shape) < (0, 1, 0.5)[min(trial, 2)] for name in names}
            new = {name: np.where(share[name], inner[name][1], inner[name][0]) for name in names}
        elif entries:
            name, k = entries[(trial * 7919) % len(entries)]
            new = {**best, name: best[name].copy()}
            low, high = inner[name][0].flat[k], inner[name][1].flat[k]
            new[name].flat[k] = low if best[name].flat[k] == high else high
        found = size(new)
        if found > score:
            best, score = new, found
    return best


def _numbers_reached(format: Format, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The least and the largest number that an input of a box is converted to; so are all numbers between them."""
    return format.unbounded.round(np.asarray(lower)), format.unbounded.round(np.asarray(upper))


def _numbers_inside(format: Format, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The ends of a box moved inward to numbers of the format, where there are some."""
    low, high = format.unbounded.round(lower), format.unbounded.round(upper)
    step = np.maximum(np.abs(low), format.min_normal) * 2 * format.u
    low = np.where(low < lower, format.unbounded.round(low + step), low)
    step = np.maximum(np.abs(high), format.min_normal) * 2 * format.u
    high = np.where(high > upper, format.unbounded.round(high - step), high)
    return np.minimum(low, high), np.maximum(low, high)


def _unconverted(
    graph: Graph, format: Format, region: Region, start: Mapping[str, Floats], name: str, output: str
) -> Floats:
    """Exact inputs of the region that convert to `start`, as far from it as they can be, in the direction that counts."""
    program = lower(graph)
    ids = program.outputs[output].ids
    nodes = ids[ids != ZERO].ravel()
    slopes = gradient(program, start, nodes, np.ones(len(nodes)))
    block = next((block for block in program.inputs if block.name == name), None)
    if block is None:
        return start[name]
    moved = np.array(start[name])
    size = np.abs(moved[block.support])
    half = np.ldexp(1.0, np.maximum(np.frexp(size)[1] - 1, format.emin) - format.precision) * (1 - 2.0**-20)
    exact = moved[block.support] - np.nan_to_num(np.sign(slopes[block.start : block.stop])) * half
    exact = np.where(format.unbounded.round(exact) == moved[block.support], exact, moved[block.support])
    moved[block.support] = exact
    inside = np.clip(moved, region.lower[name], region.upper[name])
    # the nearest input of the region is converted to the start, as one of them is
    nearest = np.clip(start[name], region.lower[name], region.upper[name])
    return np.asarray(np.where(format.unbounded.round(inside) == start[name], inside, nearest))


def gradient(program: Graph, inputs: Inputs, nodes: Ids, weights: Floats) -> Floats:
    """d (weights . nodes) / d (each node), by a reverse sweep in binary64 over a lowered graph; shape (n_nodes + 1,)."""
    ieee = Ieee(BINARY64)
    values = evaluate(program, ieee, {name: ieee.constant(np.asarray(value)) for name, value in inputs.items()})
    slope = np.zeros(program.n_nodes + 1)
    np.add.at(slope, nodes, weights)
    with np.errstate(all="ignore"):
        for i in program.instructions(backward=True):
            _back(i, values, slope)
    return slope


def _back(i: Instruction, values: Values, slope: Floats) -> None:
    """Add to the slopes of an instruction's operands what its lanes contribute."""
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


def _replay(
    program: Graph, format: Format, libm: Libm, inputs: Inputs, start: Inputs, signs: Floats, nodes: Ids
) -> list[Fraction]:
    """The adversary's errors at `nodes`: exact, or lower bounds of their magnitudes."""
    in_balls = bool(set(OTHERS) & {Op(int(op)) for op in program.op})
    exactly: Any = Balls() if in_balls else Dyadic()
    with ctx.workprec(_BITS):
        adversary = Adversary(exactly, in_balls, program, format, libm, signs)
        moved = evaluate(program, adversary, {name: exactly.constant(np.asarray(x)) for name, x in start.items()})
        exact = evaluate(program, exactly, {name: exactly.constant(np.asarray(x)) for name, x in inputs.items()})
        difference = exactly.sub(moved[..., nodes], exact[..., nodes])
        if not in_balls:
            return [Fraction(x) for x in fractions(difference).tolist()]
        return [_nearest_zero(ball) for ball in difference.tolist()]


def _nearest_zero(ball: Any) -> Fraction:
    """The number of the ball that is nearest to 0, or 0 if that is far below the numbers of every format."""
    least = ball.abs_lower()
    significand, exponent = (int(k) for k in least.man_exp())
    if not significand or exponent + significand.bit_length() < _LEAST:
        return Fraction(0)
    return middle(least) * (1 if ball > 0 else -1)


def norm_down(errors: list[Fraction]) -> Fraction:
    """The norm of the errors, exact for one of them and else rounded down."""
    if len(errors) == 1:
        return abs(errors[0])
    square = sum((x * x for x in errors), Fraction(0))
    if not square:
        return square
    shift = 128 + max(0, square.denominator.bit_length() - square.numerator.bit_length())
    return Fraction(isqrt((square.numerator << 2 * shift) // square.denominator), 1 << shift)
