"""Secants: what turns the error of an operation's operands into that of its result, in intervals.

docs/theory/adjoint.md#secants proves the rules. With e_k = x^_k - x_k the error of node k and d_k its own rounding,

    e_k = sum_j s_kj e_j + d_k,    s_kj a number in the interval of the rule, |d_k| <= r_k:

    a + b, a - b     1 and +-1                  a / b       1 / b^ and -(a / b) / b^
    a b              (b^ + b) / 2 and (a^ + a) / 2          sqrt a      1 / (sqrt a^ + sqrt a)
    -a, 2**k a       -1, 2**k                   exp a       exp of the hull of a^ and a; likewise log, tanh, sigmoid
    x + (y - x)      1 for y, 0 for x           relu a      1, 0 or [0, 1] by the signs of a^ and a
    sum, dot         as sums of such            |a|         1, -1 or [-1, 1]
    max(a, b)        1 and 0, or [0, 1] each    selection   1 for what both programs choose

The local term r_k is the rule of the running bounds at operands without an error: their theorem for operands whose exact values
are the computed ones. Where a rule does not apply (a selection that is not decided, a root near 0), the node is **cut**:
its whole error, bounded by the running analysis, counts as its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from certify.arithmetic.elementary import between
from certify.arithmetic.enclosure import step_down, step_up
from certify.graph import ZERO, Graph, Instruction, Op, Values
from certify.graph.evaluation import apply
from certify.graph.graph import Ids
from certify.rounding.anyorder import OPEN
from certify.rounding.local import ERROR, HIGH, LOW, TINY, UP
from certify.rounding.region import Floats
from certify.rounding.running import Running

Mask = npt.NDArray[np.bool_]
Ends = tuple[Floats, Floats]
_DOWN = 1.0 - 2.0**-50
#: Operations whose secants the sweep makes from the nodes themselves; all others have an entry in `Secants.partials`.
BILINEAR = frozenset(
    {Op.CONST, Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.SCALE, Op.SUM, Op.DOT, Op.OVERWRITE, Op.CAST},
)


@dataclass(frozen=True)
class Partial:
    """The secants of one operand of an instruction: within `rad` of `mid`, shape (lanes,); `ids` are the operand's nodes."""

    ids: Ids
    mid: Floats
    rad: Floats


@dataclass(frozen=True)
class Secants:
    """A program made linear on a region.

    Attributes
    ----------
    graph : the program.
    local : r_k of every node, shape (n_nodes + 1,); of an input its conversion error.
    mid, rad : (x^ + x) / 2 of every node is within `rad` of `mid`, shape (n_nodes + 1,).
    partials : by instruction, for the operations that are not `BILINEAR`; one entry an operand.
    open : nodes whose uses may each round it or not (`any-order`), shape (n_nodes + 1,); None if there are none.
    cut : nodes whose whole error counts as their own, shape (n_nodes + 1,).
    """

    graph: Graph
    local: Floats
    mid: Floats
    rad: Floats
    partials: Mapping[int, tuple[Partial, ...]]
    open: Mask | None
    cut: Mask

    def scaled_local(self, nodes: Mask, local: Floats) -> Floats:
        """`local` of this program with that of another at some nodes."""
        return np.where(nodes, np.minimum(local, self.local), self.local)


def secants(graph: Graph, arithmetic: Running, values: Values) -> Secants:
    """The secants of the program whose running analysis by `arithmetic` is `values`, shape (3 or 4, n_nodes + 1)."""
    local = local_terms(graph, arithmetic, values)
    # of several formats, a register may be overwritten by a plain sum, whose difference has an error of its own
    cut = np.zeros(local.shape, dtype=np.bool_)
    overwriting = (i for i in graph.instructions() if i.op is Op.OVERWRITE and graph.format_names)
    for i in overwriting:
        local[i.start : i.stop] = values[ERROR, i.start : i.stop]
        cut[i.start : i.stop] = True
    local = np.where(np.isnan(local), np.inf, local)
    error = np.where(np.isnan(values[ERROR]), np.inf, values[ERROR])
    opened = values[OPEN] > 0 if len(values) > OPEN else np.zeros(error.shape, dtype=np.bool_)
    partials: dict[int, tuple[Partial, ...]] = {}
    with np.errstate(all="ignore"):
        for i in graph.instructions():
            if i.op in BILINEAR:
                continue
            good, parts = _partials(i, values)
            lanes = slice(i.start, i.stop)
            if i.op is Op.ABS:  # of a product that is rounded or not, each use may have a secant of its own
                good &= ~(opened[lanes] & (parts[0].rad > 0))
            local[lanes], cut[lanes] = np.where(good, local[lanes], error[lanes]), ~good
            partials[i.index] = tuple(
                Partial(p.ids, np.where(good, p.mid, 0.0), np.where(good, p.rad, 0.0)) for p in parts
            )
        mid = np.where(values[LOW] == values[HIGH], values[LOW], values[LOW] / 2 + values[HIGH] / 2)
        rad = (np.maximum(values[HIGH] - mid, mid - values[LOW]) + error / 2) * UP + TINY * (error > 0)
    return Secants(graph, local, mid, rad, partials, opened if opened.any() else None, cut)


def local_terms(graph: Graph, arithmetic: Running, values: Values) -> Floats:
    """How far the roundings of each node alone move it, whatever numbers of the enclosures its operands are."""
    arithmetic = copy(arithmetic)  # its peak is that of the first pass
    exact = values.copy()
    exact[ERROR] = 0.0
    local = values[ERROR].copy()  # of the inputs: their conversion
    local[ZERO] = 0.0
    with np.errstate(all="ignore"):
        for i in graph.instructions():
            local[i.start : i.stop] = apply(graph, i, arithmetic, exact)[ERROR]
    return np.where(np.isnan(local), np.inf, local)


def _partials(i: Instruction, values: Values) -> tuple[Mask, tuple[Partial, ...]]:
    """Where the rule applies, and the secants of each operand that the result depends on."""
    a = values.take(i.left, axis=-1)
    if i.op is Op.RELU:
        low, high = _hull(a)
        return _everywhere(a), (_partial(i.left, _steps(low >= 0, high <= 0, 0.0)),)
    if i.op is Op.ABS:
        low, high = _hull(a)
        return _everywhere(a), (_partial(i.left, _steps(low >= 0, high <= 0, -1.0)),)
    if i.op is Op.MAX:
        b = values.take(i.right, axis=-1)
        first, second = _beyond(a, b), _beyond(b, a)
        return _everywhere(a), (
            _partial(i.left, _steps(first, second, 0.0)),
            _partial(i.right, _steps(second & ~first, first, 0.0)),
        )
    if i.op is Op.SELECT:
        return _selected(i, a, values)
    if i.op is Op.DIV:
        return _quotient(i, a, values.take(i.right, axis=-1))
    if i.op in _RULES:
        good, ends = _RULES[i.op](a)
        good &= np.isfinite(ends[0]) & np.isfinite(ends[1])
        return good, (_partial(i.left, ends),)
    return ~_everywhere(a), (Partial(i.left, np.zeros(a.shape[-1]), np.zeros(a.shape[-1])),)  # unknown: cut


def _selected(i: Instruction, p: Values, values: Values) -> tuple[Mask, tuple[Partial, ...]]:
    q = values.take(i.right[0], axis=-1)
    if i.exponent:
        holds, fails = _beyond(q, p, strictly=True), _beyond(p, q)
    else:
        holds, fails = _beyond(q, p), _beyond(p, q, strictly=True)
    one, none = np.ones(holds.shape), np.zeros(holds.shape)
    x, y = (Partial(i.right[row], np.where(mask, one, none), none) for row, mask in ((1, holds), (2, fails)))
    return holds | fails, (x, y)


def _quotient(i: Instruction, a: Values, b: Values) -> tuple[Mask, tuple[Partial, ...]]:
    low, high = _hull(b)
    good = (low > 0) | (high < 0)
    low, high = np.where(good, low, 1.0), np.where(good, high, 1.0)
    inverse = _outward(_corners(np.ones_like(low), np.ones_like(low), np.where(good, b[LOW], 1.0), _or_one(good, b)))
    ratio = _outward(_corners(*_hull(a), low, high))
    product = [x * y for x in ratio for y in inverse]
    down, up = _outward((np.minimum.reduce(product), np.maximum.reduce(product)))
    good &= np.isfinite(inverse[0]) & np.isfinite(inverse[1]) & np.isfinite(down) & np.isfinite(up)
    return good, (_partial(i.left, inverse), _partial(i.right, (-up, -down)))


def _root(a: Values) -> tuple[Mask, Ends]:
    good = a[LOW] > 0
    low = np.where(good, a[LOW], 1.0)
    least, most = (np.maximum(end, 0.0) for end in _hull(a))
    below = step_down(step_down(np.sqrt(low)) + step_down(np.sqrt(np.where(good, least, 1.0))))
    above = step_up(step_up(np.sqrt(np.maximum(a[HIGH], 0.0))) + step_up(np.sqrt(most)))
    return good & (below > 0), (step_down(1.0 / above), step_up(1.0 / np.where(below > 0, below, 1.0)))


def _exponential(a: Values) -> tuple[Mask, Ends]:
    good, low, high = _finite_hull(a)
    ends = between("exp", low, high)
    return good, (ends[0], ends[1])


def _logarithm(a: Values) -> tuple[Mask, Ends]:
    good, low, high = _finite_hull(a)
    good &= low > 0
    return good, (step_down(1.0 / np.where(good, high, 1.0)), step_up(1.0 / np.where(good, low, 1.0)))


def _tangent(a: Values) -> tuple[Mask, Ends]:
    good, low, high = _finite_hull(a)
    least, most = between("tanh", low, high)
    near, far = np.maximum(np.maximum(least, -most), 0.0), np.maximum(most, -least)
    lower, upper = (1.0 - far) * (1.0 + far) * _DOWN, (1.0 - near) * (1.0 + near) * UP
    return good, (np.maximum(lower, 0.0), np.minimum(upper, 1.0))


def _logistic(a: Values) -> tuple[Mask, Ends]:
    good, low, high = _finite_hull(a)
    near, far = np.maximum(np.maximum(low, -high), 0.0), np.maximum(high, -low)
    small, large = between("exp", -far, -far)[0], np.minimum(between("exp", -near, -near)[1], 1.0)
    lower, upper = (w / ((1.0 + w) * (1.0 + w)) for w in (np.minimum(small, 1.0), large))
    return good, (np.maximum(lower * _DOWN - TINY, 0.0), np.minimum(upper * UP + TINY, 0.25))


_RULES = {Op.SQRT: _root, Op.EXP: _exponential, Op.LOG: _logarithm, Op.TANH: _tangent, Op.SIGMOID: _logistic}


def _hull(a: Values) -> Ends:
    """Computed and exact values: [lo - E, hi + E]."""
    still = a[ERROR] == 0
    low, high = step_down(a[LOW] - a[ERROR]), step_up(a[HIGH] + a[ERROR])
    return np.where(still, a[LOW], low), np.where(still, a[HIGH], high)


def _finite_hull(a: Values) -> tuple[Mask, Floats, Floats]:
    low, high = _hull(a)
    good = np.isfinite(low) & np.isfinite(high)
    return good, np.where(good, low, 1.0), np.where(good, high, 1.0)


def _beyond(a: Values, b: Values, *, strictly: bool = False) -> Mask:
    """Where a >= b (or a > b) for the computed and for the exact values; NaN decides nothing."""
    gap, reach = a[LOW] - b[HIGH], (a[ERROR] + b[ERROR]) * UP * UP
    known = np.isfinite(reach)  # the sign of a difference of binary64 numbers is exact
    return np.asarray(known & ((gap > reach) if strictly else (gap >= reach)))


def _steps(first: Mask, second: Mask, other: float) -> Ends:
    """1 where `first`, `other` where `second`, and between them elsewhere."""
    low = np.where(first, 1.0, other)
    return low, np.where(second & ~first, other, 1.0)


def _partial(ids: Ids, ends: Ends) -> Partial:
    low, high = ends
    mid = np.where(low == high, low, low / 2 + high / 2)
    return Partial(ids, mid, np.maximum(high - mid, mid - low) * UP)


def _corners(a: Floats, b: Floats, c: Floats, d: Floats) -> Ends:
    """The extremes of quotients of [a, b] by [c, d], which does not contain 0, rounded to nearest."""
    quotients = (a / c, a / d, b / c, b / d)
    return np.minimum.reduce(quotients), np.maximum.reduce(quotients)


def _outward(ends: Ends) -> Ends:
    return step_down(ends[0]), step_up(ends[1])


def _or_one(good: Mask, b: Values) -> Floats:
    return np.where(good, b[HIGH], 1.0)


def _everywhere(a: Any) -> Mask:
    return np.ones(a.shape[-1], dtype=np.bool_)
