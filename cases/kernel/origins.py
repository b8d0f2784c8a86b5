"""Where the bound of an output's error arises: for each line of the kernel, its share.

A running bound adds up: what an operation rounds itself, and what its operands carry, times how much the result changes
with them. So the bound of one element is a sum of one part for every operation before it, to first order: the parts are
followed back through the graph, with magnitudes in place of values, as the bounds are. A hint, no bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from certify.graph import Instruction, Op
from certify.rounding import Bounds

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Origin:
    """A line of the kernel, or an input whose conversion rounds, and its share of the bound, between 0 and 1."""

    place: str
    share: float


def origins(bounds: Bounds, output: str, index: tuple[int, ...]) -> list[Origin]:
    """Where the bound of the error of element `index` of `output` arises, the largest share first; in every order of sums.

    Empty if nothing rounds, or a bound is not finite.
    """
    graph = bounds.graph
    node = int(graph.outputs[output].ids[index])
    if node < 0:
        return []
    weight = np.zeros(graph.n_nodes + 1)
    weight[node] = 1.0
    totals: dict[str, float] = {}
    with np.errstate(all="ignore"):
        for i in graph.instructions(backward=True):
            here = weight[i.start : i.stop]
            if not here.any():
                continue
            own = bounds.error[i.start : i.stop]
            for ids, into, carried in _operands(i, here, bounds):
                np.add.at(weight, ids, into)
                own = own - carried
            place = str(graph.places[int(graph.place[i.index])])
            totals[place] = totals.get(place, 0.0) + float((here * np.maximum(own, 0.0)).sum())
        for block in graph.inputs:
            lanes = slice(block.start, block.stop)
            totals[f"the conversion of input {block.name}"] = float((weight[lanes] * bounds.error[lanes]).sum())
    total = sum(totals.values())
    if not (np.isfinite(total) and total > 0):
        return []
    found = [Origin(place, part / total) for place, part in totals.items() if part > 0]
    return sorted(found, key=lambda origin: -origin.share)


def _operands(i: Instruction, here: Floats, bounds: Bounds) -> Iterator[tuple[npt.NDArray[np.int32], Floats, Floats]]:
    """Of each operand: its nodes, the weight they get from lanes of weight `here`, and the error that the lanes get."""
    size, error = np.maximum(-bounds.low, bounds.high), bounds.error
    if i.op is Op.CONST:
        return
    if i.op is Op.SUM:
        yield i.left, np.broadcast_to(here, i.left.shape), error[i.left].sum(axis=0)
    elif i.op is Op.DOT:
        over = here.reshape(i.left.shape[1], i.right.shape[1])
        a, b = size[i.left], size[i.right]
        yield i.left, b @ over.T, (error[i.left].T @ b).ravel()
        yield i.right, a @ over, (a.T @ error[i.right]).ravel()
    else:
        own = error[i.start : i.stop]
        for ids, slope in _slopes(i, bounds, size):
            # no more than the whole bound comes from one operand: rules that take a minimum say less
            slope = np.where(slope * error[ids] > own, own / error[ids], slope)
            yield ids, here * slope, slope * error[ids]


def _slopes(i: Instruction, bounds: Bounds, size: Floats) -> Iterator[tuple[npt.NDArray[np.int32], Floats]]:
    """How much each lane changes at most with each of its operands, to first order."""
    a, b = i.left, i.right
    one = np.ones(a.shape)
    least = np.maximum(np.maximum(bounds.low, -bounds.high), 0.0)
    result = slice(i.start, i.stop)
    if i.op in (Op.ADD, Op.SUB):
        yield a, one
        yield b, one
    elif i.op is Op.MUL:
        yield a, size[b]
        yield b, size[a]
    elif i.op is Op.DIV:
        yield a, 1.0 / least[b]
        yield b, size[a] / least[b] ** 2
    elif i.op is Op.OVERWRITE:  # x + (y - x): x drops out
        yield b[0], one
    elif i.op in (Op.MAX, Op.SELECT):  # the worse of the two counts
        x, y = (a, b) if i.op is Op.MAX else (b[1], b[2])
        left = bounds.error[x] >= bounds.error[y]
        yield x, np.where(left, 1.0, 0.0)
        yield y, np.where(left, 0.0, 1.0)
    elif i.op is Op.SCALE:
        yield a, np.ldexp(one, i.exponent)
    elif i.op is Op.SQRT:
        yield a, 0.5 / least[result]
    elif i.op is Op.EXP:
        yield a, size[result]
    elif i.op is Op.LOG:
        yield a, 1.0 / least[a]
    elif i.op is Op.TANH:
        yield a, 1.0 - least[result] ** 2
    elif i.op is Op.SIGMOID:
        yield a, size[result] * (1.0 - least[result])
    else:
        yield a, one
