"""The assertion that a kernel's rounding error is proved to be small."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic import Format, format_named
from certify.arithmetic.enclosure import step_up
from certify.arithmetic.libm import Libm
from certify.cases.claims import published_eps
from certify.cases.kernel import (
    Kernel,
    TracedKernel,
    exact_range,
    family_of,
    origins,
    trace_kernel,
    without_bound,
)
from certify.certificate import decimal_up
from certify.errors import InputRejected
from certify.graph import ZERO
from certify.rounding import Bounds, range_test, running


@dataclass(frozen=True)
class Certified:
    """What was proved about a kernel at its inputs, or everywhere on a ball around them.

    Attributes
    ----------
    norm : for each output, a bound of the Euclidean (Frobenius) norm of computed minus exact.
    error : for each output, a bound of |computed - exact| of every element, in its shape.
    max_magnitude : no operation returns more than this.
    """

    norm: Mapping[str, float]
    error: Mapping[str, NDArray[np.float64]]
    max_magnitude: float


def assert_certified(
    kernel: Kernel,
    inputs: Mapping[str, Any],
    eps: float | Mapping[str, float] | None = None,
    *,
    format: str | Format = "float16",
    order: str = "serial",
    output: str | None = None,
    ulps: float | None = None,
    center: str | None = None,
    radius: float = 0.0,
    libm: str | Libm | None = None,
    variables: Iterable[str] | None = None,
) -> Certified:
    """Fail unless the error of `kernel(**inputs)` in `format` is proved to be small; return the bounds.

    Nothing is sampled: the kernel is traced once, and the bounds hold for the program that rounds every operation of it
    to the format and adds in the given order, at the inputs or, with a radius, for every value of `center` within that
    distance. Without eps and ulps it is asserted that nothing overflows, so that there is a bound.

    Parameters
    ----------
    kernel, inputs, order, variables : as for `certify.cases.kernel.trace_kernel`.
    eps : the largest Euclidean (Frobenius) norm of the error of an output that will do, one number or one per output name.
    format : the name of a format, such as float16, bfloat16, float32 or float64.
    output : the one output that eps and ulps are about, if not about all.
    ulps : the largest error of an element that will do, in units in its last place: the spacing of the format at the
        smallest magnitude that the element, exact or computed, can have in the region. Where it can be 0, that is the spacing
        of the subnormal numbers, also in a format that flushes them.
    center, radius, libm : as for `certify.kernel_report`.

    Raises
    ------
    AssertionError : not proved; names the output, its bound, and where most of the error or the first overflow arises.
    TraceRefused : the kernel uses what has no node; names the source line.
    InputRejected : eps, ulps, output, format, center, radius or an input is unusable.
    """
    __tracebackhide__ = True
    chosen = format if isinstance(format, Format) else format_named(format)
    traced = trace_kernel(kernel, inputs, order=order, variables=variables)
    limits, units = _limits(eps, output, traced), _units(ulps, output, traced)
    moving, region = traced.region(center, radius)
    library = family_of(inputs) if libm is None else libm
    bounds = running(traced.graph, chosen, region, libm=library)
    where = "at the inputs" if moving is None else f"for every {moving} within {float(radius)!r} of the inputs"
    problem = without_bound(traced, bounds, ())
    if problem is not None:
        raise AssertionError(f"{traced.name} in {chosen.name} is not certified {where}: {problem[0]}")
    certified = Certified(
        norm={name: published_eps(bounds)[f"eps_{name}"] for name in traced.graph.outputs},
        error={name: bounds.error_of(name) for name in traced.graph.outputs},
        max_magnitude=range_test(bounds, region).max_magnitude,
    )
    shortfalls = [
        f"output {name} is proved to be within {decimal_up(norm)} (Euclidean norm), eps asks for {limits[name]!r}"
        + _origin(bounds, name, certified.error[name])
        for name, norm in certified.norm.items()
        if not (np.isfinite(norm) and norm <= limits[name])
    ]
    for name, limit in units.items():
        share = _in_units(certified.error[name], _spacing(bounds, name))
        if not (share <= limit).all():
            largest = float(share.max())
            shortfalls.append(
                f"each element of output {name} is proved to be within {decimal_up(largest)} ulps, {limit!r} are asked for"
                + _origin(bounds, name, share)
            )
    if shortfalls:
        raise AssertionError(f"{traced.name} in {chosen.name} is not certified {where}: " + "\n".join(shortfalls))
    return certified


def _limits(eps: float | Mapping[str, float] | None, output: str | None, traced: TracedKernel) -> dict[str, float]:
    """The limit of every output's error; infinity where there is none."""
    limits = dict.fromkeys(traced.graph.outputs, math.inf)
    if eps is None:
        return limits
    if not isinstance(eps, Mapping):
        eps = dict.fromkeys(_about(output, traced), eps)
    elif output is not None:
        raise InputRejected("both output and eps by output are given", "leave output away")
    for name, limit in eps.items():
        _require_output(name, traced)
        limits[name] = _tolerance("eps", limit)
    return limits


def _units(ulps: float | None, output: str | None, traced: TracedKernel) -> dict[str, float]:
    return {} if ulps is None else dict.fromkeys(_about(output, traced), _tolerance("ulps", ulps))


def _about(output: str | None, traced: TracedKernel) -> list[str]:
    """The outputs that a limit is about."""
    if output is None:
        return list(traced.graph.outputs)
    _require_output(output, traced)
    return [output]


def _require_output(name: str, traced: TracedKernel) -> None:
    if name not in traced.graph.outputs:
        raise InputRejected(f"the kernel has no output {name!r}", f"use one of {', '.join(traced.graph.outputs)}")


def _tolerance(what: str, value: float) -> float:
    if not float(value) >= 0:  # NaN included
        raise InputRejected(f"{what} is {value!r}, which is no error", "give a number that is not negative")
    return float(value)


def _spacing(bounds: Bounds, name: str) -> NDArray[np.float64]:
    """The spacing of the format at the smallest magnitude that each element of an output, exact or computed, can have.

    That of the subnormal numbers where it can be 0, also with flushing: the ulp of `certify.arithmetic.libm`, and the smallest
    unit there is, so that no larger error passes.
    """
    out, format = bounds.graph.outputs[name], bounds.format
    exact = exact_range(bounds, name)
    converted = format.unbounded.round(out.known)
    computed = (np.where(out.ids == ZERO, converted, ends[out.ids]) for ends in (bounds.low, bounds.high))
    ranges = zip(exact, computed, strict=True)
    low, high = (choose(*ends) for choose, ends in zip((np.minimum, np.maximum), ranges, strict=True))
    least = np.maximum(np.maximum(low, -high), format.min_normal)
    return np.asarray(np.ldexp(1.0, np.frexp(least)[1] - format.precision))


def _in_units(error: NDArray[np.float64], spacing: NDArray[np.float64]) -> NDArray[np.float64]:
    """error / spacing, rounded up: exact but for what underflows, as a spacing is a power of two."""
    share = error / spacing
    return np.where(share * spacing < error, step_up(share), share)


def _origin(bounds: Bounds, name: str, sizes: NDArray[np.float64]) -> str:
    """A clause that says where most of the bound of the worst element arises; empty if there is no telling."""
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(sizes)), sizes.shape))
    found = origins(bounds, name, index)
    if not found:
        return ""
    element = f"the error of element {list(index)}" if index else "its error"
    return f"; {found[0].share:.0%} of {element} arises at {found[0].place}"
