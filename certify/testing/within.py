"""The assertion that what a real kernel returned lies within its proved bound."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic import Format, format_named
from certify.arithmetic.enclosure import step_down, step_up
from certify.arithmetic.libm import Libm
from certify.cases.kernel import (
    Kernel,
    TracedKernel,
    binary64,
    chosen_order,
    enclosed,
    family_of,
    origins,
    program,
    sharply,
    trace_kernel,
    without_bound,
)
from certify.certificate import decimal_up
from certify.errors import InputRejected
from certify.rounding import Bounds, point, running

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Within:
    """How far values are from the exact results of a kernel, and how far they may be; arrays by output, in its shape.

    Attributes
    ----------
    error : |actual - exact|, or a lower bound of it where the exact result is only enclosed; infinite for NaN.
    bound : what is proved of every evaluation.
    inside : whether the element is within its bound. An element that is not is wrong; one that is only enclosed counts as
        inside unless it is proved to be outside.
    """

    error: Mapping[str, Floats]
    bound: Mapping[str, Floats]
    inside: Mapping[str, NDArray[np.bool_]]

    @property
    def passed(self) -> bool:
        """Whether every element is inside."""
        return all(bool(inside.all()) for inside in self.inside.values())

    def share(self, output: str) -> Floats:
        """error / bound, element by element; 0 where both are 0."""
        error, bound = self.error[output], self.bound[output]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(error == 0, 0.0, error / bound))


def compare_within(
    actual: Any,
    kernel: Kernel,
    inputs: Mapping[str, Any],
    *,
    format: str | Format,
    semantics: str = "any-order",
    order: str | None = None,
    output: str | None = None,
    libm: str | Libm | None = None,
    variables: Iterable[str] | None = None,
) -> Within:
    """As `assert_within`, but returns where the elements are whether they are inside or not.

    Raises
    ------
    AssertionError : an overflow is not excluded, so that there is no bound.
    TraceRefused, InputRejected : as for `assert_within`.
    """
    __tracebackhide__ = True
    return _compared(actual, kernel, inputs, format, chosen_order(semantics, order), output, libm, variables)[0]


def assert_within(
    actual: Any,
    kernel: Kernel,
    inputs: Mapping[str, Any],
    *,
    format: str | Format,
    semantics: str = "any-order",
    order: str | None = None,
    output: str | None = None,
    libm: str | Libm | None = None,
    variables: Iterable[str] | None = None,
) -> Within:
    """Fail unless `actual` is, in every element, within the proved bound of the exact result of `kernel(**inputs)`.

    A correct evaluation in the format and order of the semantics never fails: the bound is a theorem. What fails is wrong,
    or is no such evaluation. The exact result is computed exactly where that is cheap; elsewhere it is enclosed in binary64,
    and the width of the enclosure is given to the element.

    Parameters
    ----------
    actual : what the real kernel returned: an array of NumPy, torch, JAX or anything with `__array__` or `__dlpack__`; of
        several outputs a tuple or a dict, or one array and `output`.
    kernel, inputs, variables : the kernel in NumPy, and what the real one was given; as for `certify.tolerance`.
    format, semantics, order : what the real kernel computes in, as for `certify.tolerance`.
    output : the output that `actual` is.
    libm : how accurate the real exp, log, tanh and sigmoid are assumed to be: the name of a library
        (`certify.arithmetic.libm.library`) or a `certify.Libm`. None: what is published of torch if `actual` is a tensor of
        torch, else of NumPy.

    Raises
    ------
    AssertionError : names the worst element, its error, its bound and where most of that bound arises; or the operation
        that may overflow.
    TraceRefused : the kernel uses what has no node; names the source line.
    InputRejected : unusable arguments, or `actual` has another shape or other outputs than the kernel.
    """
    __tracebackhide__ = True
    found, traced, bounds, exact = _compared(
        actual, kernel, inputs, format, chosen_order(semantics, order), output, libm, variables
    )
    if not found.passed:
        raise AssertionError(
            f"{traced.name} {program(bounds)} is not within its bound: "
            + "\n".join(_shortfall(found, bounds, exact, name) for name in found.inside if not found.inside[name].all())
        )
    return found


def _compared(
    actual: Any,
    kernel: Kernel,
    inputs: Mapping[str, Any],
    format: str | Format,
    order: str,
    output: str | None,
    libm: str | Libm | None,
    variables: Iterable[str] | None,
) -> tuple[Within, TracedKernel, Bounds, Mapping[str, tuple[Floats, Floats]]]:
    __tracebackhide__ = True
    chosen = format if isinstance(format, Format) else format_named(format)
    traced = trace_kernel(kernel, inputs, order=order, variables=variables)
    given = _by_output(actual, traced, output)
    region = point(traced.inputs)
    bounds = running(traced.graph, chosen, region, libm=family_of(actual) if libm is None else libm)
    problem = without_bound(traced, bounds, given)
    if problem is not None:
        raise AssertionError(f"there is no bound for {traced.name} in {chosen.name}: {problem[0]}")
    ranges = enclosed(traced.graph, region)
    limits = {name: bounds.error_of(name) for name in given}
    errors, inside = {}, {}
    for name, values in given.items():
        nearest, farthest = _distances(values, *ranges[name])
        within, outside = farthest <= limits[name], nearest > limits[name]
        if not (within | outside).all():
            sharp = sharply(traced.graph, traced.inputs, name)
            if sharp is not None:
                nearest, outside = _exact_errors(values, *sharp, limits[name])
        errors[name], inside[name] = nearest, ~outside
    return Within(errors, limits, inside), traced, bounds, ranges


def _by_output(actual: Any, traced: TracedKernel, output: str | None) -> dict[str, Floats]:
    names = list(traced.graph.outputs)
    if output is not None and output not in names:
        raise InputRejected(f"the kernel has no output {output!r}", f"use one of {', '.join(names)}")
    if isinstance(actual, Mapping):
        given = dict(actual) if output is None else {output: actual.get(output)}
    elif output is None and (isinstance(actual, tuple) or len(names) > 1):
        parts = actual if isinstance(actual, tuple) else (actual,)
        given = {str(k): part for k, part in enumerate(parts)}
    else:
        given = {names[0] if output is None else output: actual}
    if output is None and sorted(given) != sorted(names):
        raise InputRejected(
            f"the values are of the outputs {', '.join(map(str, given))}, the kernel has {', '.join(names)}",
            "give a value for each output of the kernel, or name one with output",
        )
    found = {}
    for name, value in given.items():
        shape = traced.graph.outputs[name].ids.shape
        found[name] = binary64(value, f"the value of output {name}")
        if found[name].shape != shape:
            raise InputRejected(
                f"the value of output {name} has shape {found[name].shape}, the kernel returns {shape}",
                "compare arrays of the same shape",
            )
    return found


def _distances(values: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """At least and at most how far values are from numbers between low and high; infinitely if they are not finite."""
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        nearest = np.maximum(step_down(np.maximum(low - values, values - high)), 0.0)
        farthest = step_up(np.maximum(high - values, values - low))
    return np.where(finite, nearest, np.inf), np.where(finite, farthest, np.inf)


def _exact_errors(
    values: Floats, exact: NDArray[Any], radius: NDArray[Any], limits: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """|values - exact| as binary64, and whether it is more than the limit whatever is within the radius; in rationals."""
    errors, outside = np.full(values.shape, np.inf), np.ones(values.shape, dtype=np.bool_)
    for index in np.argwhere(np.isfinite(values)):
        at = tuple(index)
        error = abs(Fraction(float(values[at])) - exact[at])
        errors[at], outside[at] = _binary64_or_infinity(error), error - radius[at] > Fraction(float(limits[at]))
    return errors, outside


def _binary64_or_infinity(error: Fraction) -> float:
    """A number that is not negative, rounded; infinity beyond the largest binary64 number."""
    return float(error) if error <= sys.float_info.max else float("inf")


def _shortfall(found: Within, bounds: Bounds, exact: Mapping[str, tuple[Floats, Floats]], name: str) -> str:
    inside, share = found.inside[name], found.share(name)
    index = np.unravel_index(int(np.argmax(np.where(inside, -1.0, share))), share.shape)
    at = tuple(int(i) for i in index)
    low, high = (float(end[at]) for end in exact[name])
    error, bound = float(found.error[name][at]), float(found.bound[name][at])
    element = f"element {list(at)}" if at else "the value"
    most = origins(bounds, name, at)
    return (
        f"output {name}, {element} is {decimal_up(error)} from the exact {low / 2 + high / 2:.9g}, and proved to be within "
        f"{decimal_up(bound)}; {np.count_nonzero(~inside)} of {inside.size} elements are outside"
        + (f"; {most[0].share:.0%} of its bound arises at {most[0].place}" if most else "")
    )
