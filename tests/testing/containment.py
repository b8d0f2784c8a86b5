"""How far real kernels are from their exact results, in shares of their proved bounds; compared in rationals."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.kernel import sharply, trace_kernel
from certify.cases.kernel.reference import exactly
from real_kernels import FORMATS, OWN, Program, Real, reals, run, threads
from real_kernels import state as random_state

from certify import BINARY32, format_named, point, running, trace, with_order

UP = 1 + 2.0**-50


@dataclass(frozen=True)
class Contained:
    """One run of a real kernel: by how many elements it leaves its bound, and the largest error as a share of its bound."""

    kernel: str
    implementation: str
    format: str
    elements: int
    violations: int
    share: float


def limits(program: Program, inputs: Mapping[str, Any], static: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What is proved of |computed - exact|, by output and element, at inputs that are numbers of the result's format.

    **Theorem (rounded in the end).** If |y^ - y| <= E for a number y^ with |y^| <= m, and r is y^ rounded to a format with unit
    roundoff u, smallest number 2 omega and largest number F >= m, then |r - y| <= E + max(h(m), omega) <= E + max(u m, omega).
    *Proof.* The triangle inequality, and docs/theory/rounding.md, Lemma 1. QED

    A real kernel that is one of several programs is within the largest of their bounds.
    """
    found: dict[str, np.ndarray] = {}
    format = format_named(program.format)
    for kernel in program.kernels:
        given = dict(inputs)
        if "counts" in inspect.signature(kernel).parameters:
            given["counts"] = np.arange(inputs["x"].shape[-1] + 1.0)
        traced = trace_kernel(kernel, {**given, **static}, order=program.order, variables=given)
        bounds = running(traced.graph, format, point(traced.inputs), libm=program.libm)
        assert bounds.first_overflow() is None
        for name, out in bounds.graph.outputs.items():
            error = bounds.error_of(name)
            if program.result:
                last = FORMATS[program.result]
                size = np.maximum(-bounds.low, bounds.high)[out.ids]
                assert (size <= last.largest).all() and (out.ids >= 0).all()
                error = (error + np.maximum(size * last.u * UP, last.omega)) * UP
            found[name] = np.maximum(found.get(name, 0.0), error)
    return found


def exact(kernel: Any, inputs: Mapping[str, Any], static: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The exact results of a kernel by output, in rationals, and how far they may be from that."""
    traced = trace_kernel(kernel, {**inputs, **static}, order="serial", variables=inputs)
    found: dict[str, tuple[Any, Any]] = {}
    for name in traced.graph.outputs:
        sharp = sharply(traced.graph, traced.inputs, name)
        if sharp is None:  # long, but dyadic
            sharp = exactly(traced.graph, traced.inputs)[name], None
        found[name] = sharp
    return found


def contained(kernel: str, seed: int, name: str) -> list[Contained]:
    """All real kernels in a format at one random state, those of torch with one and two threads in turn."""
    state = random_state(kernel, seed)
    inputs = state.rounded(FORMATS[name])
    known: dict[str, tuple[Any, Any]] | None = None
    bounds: dict[Program, dict[str, np.ndarray]] = {}
    found = []
    for real in reals(kernel, name):
        known = known or exact(OWN[kernel], inputs, state.static)
        if real.program not in bounds:
            bounds[real.program] = limits(real.program, inputs, state.static)
        with threads(real.threads or 1 + seed // 4 % 2):
            actual = run(real, inputs, state.static, name)
        found.append(compared(kernel, real, name, actual, known, bounds[real.program]))
    return found


def beyond_serial(dot: Callable[[np.ndarray, np.ndarray], Any]) -> tuple[float, float, float] | None:
    """The error of a real float32 dot product of 16384 terms, the bound of the serial program, and that of any order.

    None if the dot product adds serially.

    Pairs of +1.00008 and -1 or -1.00017 times 1: serially the partial sums are tiny, in vector registers those of either sign
    grow. There the two kinds of numbers are rounded in different directions, each time in the same.
    """
    k = 16384
    minus = np.where(np.arange(k // 2) % 2, 1.0, 1.0 + 1.4 * 2.0**-13)
    x = np.stack([np.full(k // 2, 1.0 + 0.7 * 2.0**-13), -minus], axis=1).ravel().astype(np.float32)
    result = float(dot(x, np.ones_like(x)))
    if result == float(np.add.accumulate(x)[-1]):
        return None
    off = abs(Fraction(result) - sum((Fraction(float(v)) for v in x), Fraction(0)))
    # multiplying by a known 1 is no operation: the graph is a sum
    graph = trace(lambda x: x @ np.ones(k), {"x": np.ones(k)})
    region = point({"x": x.astype(np.float64)})
    serial, every = (
        float(running(with_order(graph, order), BINARY32, region).error_of("0")) for order in ("serial", "any-order")
    )
    return float(off), serial, every


def compared(
    kernel: str,
    real: Real,
    name: str,
    actual: Mapping[str, np.ndarray],
    known: Mapping[str, tuple[Any, Any]],
    bounds: Mapping[str, np.ndarray],
) -> Contained:
    """Values beside the exact ones; an element that is not surely inside counts as outside."""
    elements = violations = 0
    share = 0.0
    for output, values in actual.items():
        reference, radius = known[output]
        assert values.shape == reference.shape == bounds[output].shape
        for index in np.ndindex(values.shape):
            elements += 1
            slack = Fraction(0) if radius is None else radius[index]
            limit = Fraction(float(bounds[output][index]))
            if not np.isfinite(values[index]):
                violations, share = violations + 1, np.inf
                continue
            off = abs(Fraction(float(values[index])) - reference[index])
            violations += off + slack > limit and off > 0
            share = max(share, float(off / limit) if limit else 0.0)
    return Contained(kernel, real.name, name, elements, violations, share)
