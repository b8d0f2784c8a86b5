"""Which nodes cannot be negative, by their operations alone.

**Theorem.** If `nonnegative(graph)[k]`, node k is not negative, neither its exact value nor its computed one, in every format
and order and with every library (`certify.arithmetic.libm`), as long as nothing overflows. *Proof.* By induction over the
instructions: a product of a number with itself, a magnitude, a square root, exp, sigmoid, max(x, 0), and a maximum with a
number that is not negative are not; sums, products, quotients and selections of such numbers are not; and rounding is
monotone with fl(0) = 0. QED
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from certify.graph.graph import ZERO, Instruction, Op

if TYPE_CHECKING:
    from certify.graph.graph import Graph

Mask = npt.NDArray[np.bool_]
_ALWAYS = (Op.RELU, Op.SQRT, Op.EXP, Op.ABS, Op.SIGMOID)


def nonnegative(graph: Graph) -> Mask:
    """For every node, and the structural zero in the last place, whether it cannot be negative."""
    known = np.zeros(graph.n_nodes + 1, dtype=np.bool_)
    known[ZERO] = True
    for i in graph.instructions():
        known[i.start : i.stop] = _lanes(graph, i, known)
    return known


def _lanes(graph: Graph, i: Instruction, known: Mask) -> Mask:
    never = np.zeros(i.stop - i.start, dtype=np.bool_)
    if i.op in _ALWAYS:
        return ~never
    if i.op is Op.CONST:
        return np.asarray(graph.constants[i.left] >= 0)
    if i.op in (Op.SCALE, Op.CAST):
        return known[i.left]
    if i.op is Op.SUM:
        return np.asarray(known[i.left].all(axis=0))
    if i.op in (Op.ADD, Op.DIV):
        return known[i.left] & known[i.right]
    if i.op is Op.MUL:
        return np.asarray((known[i.left] & known[i.right]) | (i.left == i.right))
    if i.op is Op.MAX:
        return known[i.left] | known[i.right]
    if i.op is Op.SELECT:
        return np.asarray(known[i.right[1]] & known[i.right[2]])
    if i.op is Op.DOT:
        return _products(i, known)
    return never


def _products(i: Instruction, known: Mask) -> Mask:
    """A matrix product of numbers that are not negative, or entries that are a vector's product with itself."""
    left, right = known[i.left].all(axis=0), known[i.right].all(axis=0)
    same = [(i.right == column[:, None]).all(axis=0) for column in i.left.T]
    return np.asarray(np.outer(left, right) | np.array(same)).ravel()
