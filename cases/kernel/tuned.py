"""A kernel with the cheapest formats found for its registers, and the report that proves it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from certify.arithmetic import Format
from certify.arithmetic.libm import Libm
from certify.certificate import to_hex, to_text
from certify.rounding import Tuned, tune

from .kernel import TracedKernel
from .report import KernelReport, report_on


@dataclass(frozen=True)
class TunedKernel:
    """What was found, and its report: that of any kernel, whose graph file carries the format of every operation."""

    found: Tuned
    report: KernelReport


def tuned(
    traced: TracedKernel,
    tol: float | Mapping[str, float],
    *,
    formats: Sequence[str | Format] | None = None,
    cost: Mapping[str, float] | None = None,
    center: str | None = None,
    radius: float = 0.0,
    by_layer: bool = True,
    libm: str | Libm | None = None,
    samples: int = 4,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> TunedKernel:
    """Tune a kernel to `tol`, at its inputs or on a ball around the one named `center`, and certify what is found.

    The claims hold at the inputs and on the ball. `observed.tuned` of a running claim lists the registers with their format and
    how many numbers they store, `observed.tuning` what they cost; the claims rest on the graph file alone. Parameters are those
    of `certify.tune` and `kernel_report`.

    Raises
    ------
    Undecided, InputRejected : as `certify.tune` and `TracedKernel.region`.
    """
    moving, region = traced.region(center, radius)
    found = tune(traced.graph, region, tol, formats=formats, cost=cost, by_layer=by_layer, libm=libm, progress=progress)
    program = replace(traced, graph=found.graph)
    noted: dict[str, Any] = {
        "tuned": [[name, format, found.lanes[name]] for name, format in found.formats.items()],
        "tuning": {
            "tolerance": {name: to_hex(float(tol[name] if isinstance(tol, Mapping) else tol)) for name in found.eps},
            "cost": to_text(found.cost),
            "uniform": to_text(found.uniform),
            "least": to_text(math.ceil(found.least) if cost is None else found.least),
            "finest": found.finest,
            "unit": "bits" if cost is None else "cost",
        },
    }
    report = report_on(program, [found.format], center=moving, radius=radius, libm=libm, samples=samples, noted=noted)
    return TunedKernel(found, report)
