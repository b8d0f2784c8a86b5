"""Where a kernel is certified: at its inputs, and on a ball around one of them; and the claims there in one format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from certify.cases.claims import (
    Analysis,
    Subject,
    analyse,
    ball_region,
    hex_values,
    point_region,
    program_claims,
)
from certify.cases.digits import digits_left, digits_shown

from certify.arithmetic import Format
from certify.arithmetic.libm import Libm
from certify.certificate import Claim, to_hex
from certify.graph import ZERO
from certify.rounding import Region, point, relu_branches

from .kernel import TracedKernel
from .observed import Trials, in_ball


@dataclass(frozen=True)
class KernelPlace:
    """A region of inputs.

    Attributes
    ----------
    where : the region's parameters in a claim.
    region : the inputs in it.
    trials : some of them, with the exact outputs there.
    values : what a witness of an overflow says beside the operation: the inputs that it starts from.
    """

    where: Mapping[str, str]
    region: Region
    trials: Trials
    values: Mapping[str, Any]

    def claims(
        self,
        subject: Subject,
        format: Format,
        libm: str | Libm | None,
        *,
        bound: str = "running",
        splits: int = 0,
        noted: Mapping[str, Any] | None = None,
    ) -> list[Claim]:
        """The rounding and range claims here; `noted` is what the running claim carries beside what is observed.

        Raises
        ------
        InputRejected : as `certify.cases.claims.analyse`.
        """
        # what the program is really off by stands beside the bound already, where that is cheap
        attain = not len(self.trials) or noted is not None
        analysis = analyse(subject, format, self.where, self.region, libm, bound=bound, splits=splits, attain=attain)
        seen = {**_observed(analysis, self.trials), **(noted or {})}
        return program_claims(subject, analysis, values=self.values, observed=seen, display=_digits(analysis))


def places_of(
    traced: TracedKernel, center: str | None, radius: float, samples: int
) -> tuple[str | None, list[KernelPlace]]:
    """The inputs themselves, and with a radius the ball around the one that moves; its name first, None without one.

    Raises
    ------
    InputRejected : as `TracedKernel.region`.
    """
    moving, ball = traced.region(center, radius)
    places = [KernelPlace(point_region(), point(traced.inputs), Trials(traced.graph, [traced.inputs]), {"inputs": {}})]
    if moving is not None:
        trials = Trials(traced.graph, in_ball(traced.inputs, moving, float(radius), samples))
        values = {"inputs": {moving: hex_values(traced.inputs[moving])}}
        places.append(KernelPlace(ball_region(float(radius), moving), ball, trials, values))
    return moving, places


def _observed(analysis: Analysis, trials: Trials) -> dict[str, Any]:
    errors = trials.errors(analysis.format).items()
    # an error beyond the largest binary64 number has no number string
    observed: dict[str, Any] = {name: to_hex(value) for name, value in errors if np.isfinite(value)}
    if observed and analysis.where["kind"] == "ball":
        observed["samples"] = len(trials)
    if analysis.in_range:
        branches = relu_branches(analysis.running)
        observed |= {f"relu_{side}": getattr(branches, side) for side in ("active", "inactive", "undecided")}
    return observed


def _digits(analysis: Analysis) -> dict[str, str]:
    """At a point, the decimal digits that the bounds leave: of the norms of the outputs, and of their entries; the fewest.

    Of an entry that may be 0 and may not, none.
    """
    if not analysis.in_range or analysis.where["kind"] != "point":
        return {}
    bounds = analysis.running
    found = []
    for name, out in bounds.graph.outputs.items():
        low, high = (np.where(out.ids == ZERO, out.known, ends[out.ids]) for ends in (bounds.low, bounds.high))
        size = np.maximum(np.maximum(low, -high), 0.0)
        nonzero = np.maximum(-low, high) > 0
        if nonzero.any():
            found.append(digits_left(size, nonzero, bounds.norm_of(name), bounds.error_of(name)))
    return digits_shown(found)
