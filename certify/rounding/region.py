"""Where a bound shall hold: at one state, or uniformly on a ball around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected
from certify.graph import Graph

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Region:
    """A box of exact real inputs: `lower[name] <= x <= upper[name]` entrywise, both finite binary64.

    A ball becomes the box around it, which contains it: bounds for the box hold on the ball. With `representable` the
    region is only those inputs of the box that are numbers of the format, so that converting them makes no error;
    otherwise it is all real inputs, and the program's conversion is part of the error. `filled` says that every input of
    the box belongs to the region meant; of a ball, only the middle certainly does.
    """

    lower: Mapping[str, Floats]
    upper: Mapping[str, Floats]
    representable: bool = False
    filled: bool = True

    @property
    def is_point(self) -> bool:
        """Whether the region is a single state."""
        return all(np.array_equal(self.lower[name], self.upper[name]) for name in self.lower)


def point(inputs: Mapping[str, npt.ArrayLike]) -> Region:
    """The single state `inputs`. Raises InputRejected for a non-finite input."""
    arrays = {name: _finite(name, value) for name, value in inputs.items()}
    return Region(arrays, arrays)


def ball(inputs: Mapping[str, npt.ArrayLike], center: str, radius: float) -> Region:
    """All states within Frobenius distance `radius` of the state in the input `center`, the other inputs fixed.

    Only the entries of `center` that the graph keeps as variables move. Raises InputRejected.
    """
    if not (np.isfinite(radius) and radius >= 0):
        raise InputRejected(f"the radius {radius} is no distance", "give a finite number that is not negative")
    arrays = {name: _finite(name, value) for name, value in inputs.items()}
    if radius == 0:
        return Region(arrays, arrays)
    middle = arrays[center]
    # one step outward encloses the exact ends, which round to nearest by at most half a step
    with np.errstate(over="ignore"):
        lower = {**arrays, center: np.nextafter(middle - radius, -np.inf)}
        upper = {**arrays, center: np.nextafter(middle + radius, np.inf)}
    if not (np.isfinite(lower[center]).all() and np.isfinite(upper[center]).all()):
        raise InputRejected(f"the ball of radius {radius} reaches beyond binary64", "give a smaller radius")
    return Region(lower, upper, filled=False)


def variables(graph: Graph, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, npt.ArrayLike]:
    """Those of `inputs` that are variables of the graph. Raises InputRejected if one is missing."""
    missing = [block.name for block in graph.inputs if block.name not in inputs]
    if missing:
        raise InputRejected(f"input {missing[0]} is missing", "give a value for every input of the kernel")
    return {block.name: inputs[block.name] for block in graph.inputs}


def _finite(name: str, value: npt.ArrayLike) -> Floats:
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise InputRejected(f"input {name} has an entry that is not finite", "give finite numbers")
    return array
