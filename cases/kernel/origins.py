"""Where the error of an output arises: for each line of the kernel, its share, to first order. A hint, no bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from certify.arithmetic import BINARY64, Format, Ieee
from certify.graph import Graph, Op, evaluate, lower
from certify.rounding.attained import adjoint


@dataclass(frozen=True)
class Origin:
    """A line of the kernel, or an input whose conversion rounds, and its share of the error, between 0 and 1."""

    place: str
    share: float


def origins(
    graph: Graph, format: Format, inputs: Mapping[str, npt.NDArray[np.float64]], output: str, index: tuple[int, ...]
) -> list[Origin]:
    """Where the error of element `index` of `output` arises at `inputs`, the largest share first.

    Half an ulp of every operation, times how much the element changes with its result. Empty if nothing rounds, or the
    sizes are beyond binary64.
    """
    program = lower(graph)
    node = int(program.outputs[output].ids[index])
    if node < 0:
        return []
    ieee = Ieee(BINARY64)
    values = evaluate(program, ieee, {name: ieee.constant(x) for name, x in inputs.items()})
    with np.errstate(over="ignore", invalid="ignore"):
        weight = np.abs(adjoint(program, inputs, node))
        parts = weight * _half_ulps(program, format, values)
    totals: dict[str, float] = {}
    for block in program.inputs:
        totals[f"the conversion of input {block.name}"] = float(parts[block.start : block.stop].sum())
    for i in program.instructions():
        place = str(program.places[int(program.place[i.index])])
        totals[place] = totals.get(place, 0.0) + float(parts[i.start : i.stop].sum())
    total = sum(totals.values())
    if not (np.isfinite(total) and total > 0):
        return []
    found = [Origin(place, part / total) for place, part in totals.items()]
    return sorted(found, key=lambda origin: -origin.share)


def _half_ulps(program: Graph, format: Format, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Half an ulp of each node that rounds; of inputs and constants the conversion error; 0 where nothing rounds."""
    result = np.zeros(values.shape)
    _, exponent = np.frexp(values)
    half = np.ldexp(1.0, np.maximum(exponent - 1, format.emin) - format.precision)
    result[: program.n_inputs] = np.abs(format.round(values) - values)[: program.n_inputs]
    for i in program.instructions():
        lanes = slice(i.start, i.stop)
        if i.op is Op.CONST:
            constants = program.constants[i.left]
            result[lanes] = np.abs(format.round(constants) - constants)
        elif i.op is Op.MUL:
            result[lanes] = half[lanes]
        elif i.op in (Op.ADD, Op.SUB):  # exact where subnormal or in the first normal binade
            result[lanes] = np.where(np.abs(values[lanes]) > 2 * format.min_normal, half[lanes], 0.0)
    return result
