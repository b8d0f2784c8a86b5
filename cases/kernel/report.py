"""Reports on a user's own kernel: rounding and range in several formats, at given inputs and on a ball around one of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.claims import (
    FOR_COMPARISON,
    Subject,
    Wording,
    require_ball_to_split,
)
from certify.cases.probable import probable_claim
from numpy.typing import NDArray

from certify.arithmetic import Format, format_named
from certify.arithmetic.libm import Libm
from certify.certificate import Report, producer, write
from certify.errors import InputRejected
from certify.graph import Graph
from certify.graph.graph_file import graph_tensors
from certify.rounding.probable import confidence_of
from certify.states import Saved, digest
from certify.states.safetensors_file import encode_safetensors

from .arrays import family_of
from .kernel import Kernel, TracedKernel, trace_kernel
from .places import places_of

SOURCE_ASSUMPTION = "the graph file is the user's kernel: the checker does not see its source"


@dataclass(frozen=True, kw_only=True)
class KernelReport(Report):
    """A report on a traced kernel, with what the files beside it hold.

    Attributes
    ----------
    graph : the kernel.
    inputs : its variables, binary64.
    """

    graph: Graph
    inputs: Mapping[str, NDArray[np.float64]]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report to `path`, and its graph and inputs beside it, as `write_kernel_report` does."""
        write_kernel_report(self, path)


def kernel_report(
    kernel: Kernel,
    inputs: Mapping[str, Any],
    *,
    formats: str | Format | Iterable[str | Format],
    order: str = "serial",
    center: str | None = None,
    radius: float = 0.0,
    libm: str | Libm | None = None,
    variables: Iterable[str] | None = None,
    name: str | None = None,
    samples: int = 4,
    bound: str = "running",
    splits: int = 0,
    confidence: float | str | Fraction | None = None,
) -> KernelReport:
    """Certify `kernel(**inputs)`: how far each output is from the exact one, and that nothing overflows.

    The claims hold at the inputs and, with a radius, for every value of the input `center` within that Frobenius distance.
    The verdict of the report is that of the running and range claims; majorant, adjoint and probable claims stand beside.

    Parameters
    ----------
    kernel, inputs, order, variables, name : as for `trace_kernel`.
    formats : names, or `Format`s; sorted from coarse to fine in the report.
    center : the input that moves, where there is a radius; may be left out if there is one variable.
    radius : of the ball, in the units of `center`; 0 for claims at the inputs alone.
    libm : how accurate exp, log, tanh and sigmoid are assumed to be: the name of a library (`certify.arithmetic.libm.library`)
        or a `certify.Libm`. None: what is published of NumPy, or of torch if an input is a tensor of torch.
    samples : how many inputs of the ball to run beside the proof, where exact evaluation is cheap; a measurement.
    bound : "running", or "adjoint" for claims by adjoint bounds as well.
    splits : how often these cut the ball in two.
    confidence : makes claims of the kind rounding-probable as well: bounds that a run with stochastic rounding keeps with this
        probability (`certify.probable`).

    Raises
    ------
    TraceRefused : the kernel uses what has no node; the message names the source line.
    InputRejected : inputs, formats, center or radius are unusable, or a format cannot hold a power of two that the kernel
        scales by; or the confidence is none, or stochastic rounding has no model of the program.
    """
    likely = None if confidence is None else confidence_of(confidence)
    library = family_of(inputs) if libm is None else libm
    traced = trace_kernel(kernel, inputs, order=order, variables=variables, name=name)
    return report_on(
        traced,
        _formats(formats),
        center=center,
        radius=radius,
        libm=library,
        samples=samples,
        bound=bound,
        splits=splits,
        likely=likely,
    )


def report_on(
    traced: TracedKernel,
    formats: Iterable[Format],
    *,
    center: str | None = None,
    radius: float = 0.0,
    libm: str | Libm | None = None,
    samples: int = 4,
    bound: str = "running",
    splits: int = 0,
    likely: Fraction | None = None,
    noted: Mapping[str, Any] | None = None,
) -> KernelReport:
    """The report of a kernel that is traced already, in these formats in this order.

    The other parameters are those of `kernel_report`, `likely` its confidence; `noted` is what
    each running claim carries beside what is observed.

    Raises
    ------
    InputRejected : as `kernel_report`.
    """
    require_ball_to_split(splits, radius)
    moving, places = places_of(traced, center, radius, samples)
    subject = Subject(traced.graph, traced.inputs, _wording(moving), further=(SOURCE_ASSUMPTION,))
    chosen = list(formats)
    claims = [
        claim
        for format in chosen
        for place in places
        for claim in place.claims(subject, format, libm, bound=bound, splits=splits, noted=noted)
    ]
    required = [claim.id for claim in claims if claim.parameters.get("method") not in FOR_COMPARISON]
    if likely is not None:
        claims += [
            probable_claim(subject, format, place.where, place.region, likely, libm)
            for format in chosen
            for place in places
        ]
    graph, inputs = graph_file(traced.graph), _file("inputs", Saved(traced.inputs))
    beside = {reference["file"]: data for reference, data in (graph, inputs)}
    about = _about(traced, graph[0])
    return KernelReport(producer(), about, claims, required, beside, graph=traced.graph, inputs=dict(traced.inputs))


def write_kernel_report(report: KernelReport, path: str | os.PathLike[str]) -> None:
    """Write a report to `path`, after its graph and its inputs, which go beside it.

    Their names, `graph-DIGEST.safetensors` and `inputs-DIGEST.safetensors`, tell them from those of other reports: whenever
    this is interrupted, a report that is there has its own files. The checker finds the inputs by the digests of their
    tensors.

    Raises
    ------
    InputRejected : a file cannot be written.
    """
    write(report, path)


def graph_file(graph: Graph) -> tuple[dict[str, str], bytes]:
    """The file of a program: how a report names it, `file` and `sha256`, and its bytes."""
    return _file("graph", graph_tensors(graph))


def _formats(formats: str | Format | Iterable[str | Format]) -> list[Format]:
    several = [formats] if isinstance(formats, str | Format) else list(formats)
    if not several:
        raise InputRejected("no format is given", "name at least one, such as float16")
    found = {f if isinstance(f, Format) else format_named(f) for f in several}
    return sorted(found, key=lambda format: (format.precision, format.name))


def _wording(center: str | None) -> Wording:
    return Wording(
        point="At the inputs",
        ball=f"For every {center} within Frobenius distance {{radius}} of that of the inputs",
        rounding="the kernel in {format}, inputs converted first, returns each output X within eps_X (Frobenius norm) of "
        "the exact kernel of those inputs.",
        range="no operation of the kernel in {format} overflows, partial sums included.",
    )


def _about(traced: TracedKernel, graph: Mapping[str, str]) -> dict[str, Any]:
    return {
        "case": "kernel",
        "kernel": traced.name,
        "graph": dict(graph),
        "tensors": {name: digest(array) for name, array in sorted(traced.inputs.items())},
    }


def _file(what: str, saved: Saved) -> tuple[dict[str, str], bytes]:
    data = encode_safetensors(saved.tensors, saved.metadata)
    sha256 = hashlib.sha256(data).hexdigest()
    return {"file": f"{what}-{sha256[:16]}.safetensors", "sha256": sha256}, data
