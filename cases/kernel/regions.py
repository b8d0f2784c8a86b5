"""The region a user means: the inputs themselves, a box of them, or a ball around one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from certify.errors import InputRejected
from certify.rounding import Region

from .arrays import binary64
from .kernel import TracedKernel


def region_of(
    traced: TracedKernel,
    lower: Mapping[str, Any] | None,
    upper: Mapping[str, Any] | None,
    center: str | None,
    radius: float,
    representable: bool,
) -> Region:
    """The box between `lower` and `upper`, or the ball, or the inputs; as `certify.tolerance` describes them.

    Raises
    ------
    InputRejected : both a box and a ball, a name that is no variable, or ends that are no box of its shape.
    """
    lower, upper = lower or {}, upper or {}
    if not (lower or upper):
        return replace(traced.region(center, radius)[1], representable=representable)
    if radius or center is not None:
        raise InputRejected("both a box and a ball of inputs are given", "leave one of them away")
    ends: list[dict[str, Any]] = [dict(traced.inputs), dict(traced.inputs)]
    for name in {**lower, **upper}:
        if name not in traced.inputs:
            raise InputRejected(f"the box names {name!r}, which is no variable", f"use {', '.join(traced.inputs)}")
        if name not in lower or name not in upper:
            raise InputRejected(f"the box has one end of {name}", "give lower and upper")
        shape = traced.inputs[name].shape
        for side, given in zip(ends, (lower, upper), strict=True):
            array = binary64(given[name], f"the box of {name}")
            try:
                side[name] = np.array(np.broadcast_to(array, shape))
            except ValueError as error:
                raise InputRejected(f"the box of {name} has shape {array.shape}", f"give shape {shape}") from error
        low, high = ends[0][name], ends[1][name]
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise InputRejected(f"the box of {name} is empty or not finite", "give lower <= upper")
    return Region(ends[0], ends[1], representable=representable)
