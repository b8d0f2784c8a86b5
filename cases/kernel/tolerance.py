"""Proved tolerances: how far a real evaluation of a kernel can be from the exact result, or from another evaluation.

|computed - exact| is at most the running bound, element by element, for every evaluation that the semantics allows. Two
evaluations of one function are so within the sum of their bounds of each other. The exact results of two kernels differ by
what their enclosures in binary64 allow, unless they are said to be the same function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from certify.cases.claims import first_overflow
from certify.cases.programs import program_assumptions

from certify.arithmetic import Format, format_named
from certify.arithmetic.enclosure import step_up
from certify.arithmetic.libm import Libm
from certify.errors import InputRejected
from certify.graph import ZERO, order_named
from certify.rounding import Bounds, Region, running

from .arrays import binary64, family_of
from .kernel import Kernel, TracedKernel, trace_kernel
from .pairs import Pair, pair_for, smallest_pair
from .reference import enclosed, exact_range
from .regions import region_of

Floats = npt.NDArray[np.float64]

SEMANTICS = {"any-order": "any-order", "program": "serial"}
"""What bounds may be about, and the order of sums where none is named."""


_GUARD = (
    "give inputs at which the operation is defined, or keep its operand in the domain, as in sqrt(maximum(x, 0)) or, at given "
    "inputs, log(where(x > 0, x, 1)); where(x > 0, sqrt(x), 0) computes both sides"
)


@dataclass(frozen=True)
class Tolerance:
    """A proved tolerance: |a - e| is at most `error` in every element, whatever evaluation gives a, everywhere in the region.

    Attributes
    ----------
    subject : what a and e are, in words.
    error : for each output, the bound, absolute, in the shape of the output.
    least : for each output, a lower bound of |e|: of the magnitude that a relative tolerance refers to.
    assumptions : what is taken for granted.
    """

    subject: str
    error: Mapping[str, Floats]
    least: Mapping[str, Floats]
    assumptions: tuple[str, ...]

    def atol_rtol(self, reference: Any = None, *, rtol: float | None = None, output: str | None = None) -> Pair:
        """The smallest proved scalars with |a - e| <= atol + rtol |e| in every element of an output.

        For a given rtol the least atol; rtol = 0 gives the largest bound. Without rtol, the pair whose tolerance, averaged
        over the elements, is least. Both numbers hold as they are in a test that computes in binary64, whose own roundings
        are allowed for.

        Parameters
        ----------
        reference : the values e, an array or one by output; if left out, the lower bounds `least`, which hold in the region.
        rtol : the relative tolerance, if it is given.
        output : which output; may be left out if there is one.

        Raises
        ------
        InputRejected : no such output, a reference of another shape or not finite, or a negative rtol.
        """
        name = self._output(output)
        least = self.least[name]
        if reference is not None:
            given = reference[name] if isinstance(reference, Mapping) else reference
            least = np.abs(binary64(given, "the reference"))
            if least.shape != self.error[name].shape or not np.isfinite(least).all():
                raise InputRejected(
                    f"the reference of output {name} is not finite, or not of shape {self.error[name].shape}",
                    "give the values of the kernel at these inputs",
                )
        pair = smallest_pair(self.error[name], least) if rtol is None else pair_for(self.error[name], least, rtol)
        if not np.isfinite([pair.atol, pair.rtol]).all():
            raise InputRejected(
                f"the tolerance of output {name} passes the largest binary64 number", "scale the kernel down"
            )
        return pair

    def _output(self, name: str | None) -> str:
        if name is None and len(self.error) == 1:
            return next(iter(self.error))
        if name is None or name not in self.error:
            what = "several outputs" if name is None else f"no output {name!r}"
            raise InputRejected(f"the tolerance has {what}", f"use one of {', '.join(self.error)}")
        return name


def tolerance(
    kernel: Kernel,
    inputs: Mapping[str, Any],
    *,
    format: str | Format,
    semantics: str = "any-order",
    order: str | None = None,
    golden: str | Format | None = None,
    output: str | None = None,
    lower: Mapping[str, Any] | None = None,
    upper: Mapping[str, Any] | None = None,
    center: str | None = None,
    radius: float = 0.0,
    representable: bool = False,
    libm: str | Libm | None = None,
    variables: Iterable[str] | None = None,
) -> Tolerance:
    """How far any evaluation of `kernel(**inputs)` in `format` can be from the exact result, in every element: proved.

    Parameters
    ----------
    kernel, inputs, variables : as for `trace_kernel`; the inputs may be arrays of NumPy, torch or JAX.
    format : the name of a format, or a `Format`; the inputs are converted to it first.
    semantics : `any-order`, for every order of every sum, with or without fused multiply-add; or `program`, for one order.
    order : an order model, such as any-order:float32 for products that are added in float32. None: what semantics says.
    golden : a format. If given, e is not the exact result but that of any evaluation of the kernel in this format, in any
        order: the sum of both bounds.
    output : the one output to bound; all, if None.
    lower, upper : a box of inputs, by name: the bound holds for all between; inputs that are not named stay as they are.
    center, radius : a Frobenius ball of inputs, as for `kernel_report`.
    representable : of a box or ball, only the inputs that are numbers of the format, which conversion does not change. To a
        second format they are converted at a cost, unless it has all numbers of the first.
    libm : how accurate exp, log, tanh and sigmoid are assumed to be: the name of a library (`certify.arithmetic.libm.library`)
        or a `certify.Libm`. None: what is published of NumPy, or of torch if an input is a tensor of torch.

    Raises
    ------
    TraceRefused : the kernel uses what has no node; names the source line.
    InputRejected : an overflow is not excluded, so that there is no bound (names the operation), or unusable arguments.
    """
    traced = trace_kernel(kernel, inputs, order=chosen_order(semantics, order), variables=variables)
    region = region_of(traced, lower, upper, center, radius, representable)
    library = family_of(inputs) if libm is None else libm
    names = _outputs(traced, output)
    bounds = proved(traced, format, region, library, names)
    if golden is None:
        ranges = {name: exact_range(bounds, name) for name in names}
        return Tolerance(
            f"{traced.name} {program(bounds)} against its exact result",
            {name: bounds.error_of(name) for name in names},
            {name: _least(*ends) for name, ends in ranges.items()},
            _assumptions(bounds),
        )
    reference = trace_kernel(kernel, inputs, order="any-order", variables=variables)
    second = proved(reference, golden, _converted(region, bounds.format, golden), library, names)
    return _between(traced, bounds, reference, second, names, {name: np.zeros(()) for name in names}, ())


def tolerance_between(
    kernel_a: Kernel,
    kernel_b: Kernel,
    inputs: Mapping[str, Any],
    *,
    format: str | Format,
    format_b: str | Format | None = None,
    semantics: str = "any-order",
    order: str | None = None,
    order_b: str | None = None,
    same_function: bool = False,
    output: str | None = None,
    lower: Mapping[str, Any] | None = None,
    upper: Mapping[str, Any] | None = None,
    center: str | None = None,
    radius: float = 0.0,
    representable: bool = False,
    libm: str | Libm | None = None,
    variables: Iterable[str] | None = None,
) -> Tolerance:
    """How far any evaluation of kernel_a can be from any evaluation of kernel_b at the same inputs, in every element: proved.

    It is the sum of both rounding bounds and of a bound of the difference of the exact results. The last is from their
    enclosures in binary64: at given inputs nearly nothing if both are the same function, in a box wide. With
    `same_function` it is 0, and the tolerance rests on that assumption.

    Parameters
    ----------
    kernel_a, kernel_b : with the same parameters and outputs.
    format, order : of kernel_a, and of kernel_b unless `format_b`, `order_b` are given.
    same_function : take for granted that both return the same in exact arithmetic.
    others : as for `tolerance`; kernel_b is what a relative tolerance refers to.

    Raises
    ------
    TraceRefused, InputRejected : as for `tolerance`; or the outputs of the two do not match.
    """
    orders = chosen_order(semantics, order), chosen_order(semantics, order if order_b is None else order_b)
    first, second = (
        trace_kernel(kernel, inputs, order=chosen, variables=variables)
        for kernel, chosen in zip((kernel_a, kernel_b), orders, strict=True)
    )
    region = region_of(first, lower, upper, center, radius, representable)
    names = _outputs(first, output)
    for name in names:
        shapes = [getattr(traced.graph.outputs.get(name), "ids", np.zeros(0)).shape for traced in (first, second)]
        if name not in second.graph.outputs or shapes[0] != shapes[1]:
            raise InputRejected(
                f"output {name} of {first.name} has no counterpart of shape {shapes[0]} in {second.name}",
                "return the same outputs from both kernels, or name one with output",
            )
    library = family_of(inputs) if libm is None else libm
    a = proved(first, format, region, library, names)
    other = format if format_b is None else format_b
    b = proved(second, other, _converted(region, a.format, other), library, names)
    if same_function or kernel_a is kernel_b:
        apart = {name: np.zeros(()) for name in names}
        given = (f"{first.name} and {second.name} are the same function in exact arithmetic",) * (
            kernel_a is not kernel_b
        )
        return _between(first, a, second, b, names, apart, given)
    exact_a, exact_b = enclosed(first.graph, region), enclosed(second.graph, region)
    return _between(first, a, second, b, names, {name: _apart(exact_a[name], exact_b[name]) for name in names}, ())


def chosen_order(semantics: str, order: str | None) -> str:
    """The order model that is meant. Raises InputRejected if there is none, or it is not of that semantics."""
    if semantics not in SEMANTICS:
        raise InputRejected(f"there is no semantics {semantics!r}", f"use one of {', '.join(SEMANTICS)}")
    if order is None:
        return SEMANTICS[semantics]
    model = order_named(order)
    if model.is_any and semantics == "program":
        raise InputRejected(f"the order {model.name} is not one program", "leave semantics away, or name another order")
    return model.name


def proved(
    traced: TracedKernel, format: str | Format, region: Region, libm: str | Libm | None, names: Iterable[str]
) -> Bounds:
    """The running bounds of a kernel. Raises InputRejected if these outputs have none, as where an overflow is not excluded."""
    chosen = format if isinstance(format, Format) else format_named(format)
    bounds = running(traced.graph, chosen, region, libm=libm)
    problem = without_bound(traced, bounds, names)
    if problem is not None:
        what, remedy = problem
        raise InputRejected(f"there is no tolerance for {traced.name} in {chosen.name}: {what}", remedy)
    return bounds


def _converted(region: Region, format: Format, other: str | Format) -> Region:
    """The region for a second program: numbers of the first one's format are numbers of its own only if that has them all."""
    own = other if isinstance(other, Format) else format_named(other)
    return replace(region, representable=region.representable and own.contains(format))


def without_bound(traced: TracedKernel, bounds: Bounds, names: Iterable[str]) -> tuple[str, str] | None:
    """Why these outputs have no bound, and what to do about it; None if they have one.

    An operation overflows at the inputs, or is not proved to stay finite or to be defined; or the bounds leave binary64.
    """
    risk, wider = bounds.first_overflow(), "use a wider format, or smaller inputs"
    if risk is not None:
        node = first_overflow(traced.graph, bounds.format, traced.inputs)
        named = risk if node is None else node
        if bounds.refusal(named):
            return bounds.why(named), _GUARD
        if node is None:
            return bounds.why(risk), wider
        remedy = wider if node != ZERO else "use a wider format"
        return f"{bounds.describe(node)} overflows: it passes {bounds.limit_of(node):g}", remedy
    for name in names:
        place = bounds.unbounded(name)
        if place:
            return f"its error bound passes the largest binary64 number at {place}", "scale the kernel down"
    return None


def program(bounds: Bounds) -> str:
    """In which format and order the kernel is evaluated, in words."""
    model = order_named(bounds.graph.order or "serial")
    sums = "with sums in any order" if model.is_any else f"in the order {model.kind}"
    wider = f" in {model.accumulator}" if model.accumulator else ""
    return f"in {bounds.format.name} {sums}{wider}"


def _between(
    first: TracedKernel,
    a: Bounds,
    second: TracedKernel,
    b: Bounds,
    names: Iterable[str],
    apart: Mapping[str, Floats],
    given: tuple[str, ...],
) -> Tolerance:
    error, least = {}, {}
    for name in names:
        error[name] = step_up(step_up(a.error_of(name) + b.error_of(name)) + apart[name])
        out = b.graph.outputs[name]
        computed = b.format.unbounded.round(out.known)
        low, high = (np.where(out.ids == ZERO, computed, ends[out.ids]) for ends in (b.low, b.high))
        least[name] = _least(low, high)
    subject = f"{first.name} {program(a)} against {second.name} {program(b)}"
    return Tolerance(subject, error, least, tuple(dict.fromkeys((*_assumptions(a), *_assumptions(b), *given))))


def _assumptions(bounds: Bounds) -> tuple[str, ...]:
    own = bounds.graph.format_names
    return (*program_assumptions(bounds.format, bounds.graph.order, own), *bounds.assumptions())


def _apart(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> Floats:
    """How far two numbers in these ranges can be apart."""
    return np.maximum(step_up(np.maximum(a[1] - b[0], b[1] - a[0])), 0.0)


def _least(low: Floats, high: Floats) -> Floats:
    """The least magnitude between these ends."""
    return np.asarray(np.maximum(np.maximum(low, -high), 0.0))


def _outputs(traced: TracedKernel, output: str | None) -> list[str]:
    names = list(traced.graph.outputs)
    if output is None:
        return names
    if output not in names:
        raise InputRejected(f"the kernel has no output {output!r}", f"use one of {', '.join(names)}")
    return [output]
