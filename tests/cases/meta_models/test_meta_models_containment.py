"""Every rounding claim about a kernel of the case contains what NumPy and torch return, and short formats by emulation."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from certify.cases.case import Options
from certify.cases.kernels import CaseKernel, kernel_claims
from certify.cases.meta_models.case import kernels_of
from certify.cases.meta_models.kernels import KERNELS
from real_meta_models import EMULATED, LIBM, NUMPY, SYSTEMS, TORCH, by_numpy, by_torch, instance, torch

from certify import format_named
from certify.certificate import parse
from certify.rounding.posterior import computed, error, exact

STATES = [pytest.param(range(2), id="2"), pytest.param(range(200), id="200", marks=pytest.mark.slow)]


def bounds(kernel: CaseKernel, format: str) -> dict[str, Fraction]:
    """The eps of every output that the claim at the state proves; empty if it proves none."""
    claims = kernel_claims(kernel, format_named(format), Options(samples=0))
    running = next(c for c in claims if c.kind == "rounding" and c.parameters["method"] == "running")
    return {name.removeprefix("eps_"): parse(text) for name, text in running.bounds.items()}


def norm_squared(off: Any) -> Fraction:
    """The squared Euclidean norm of exact entries."""
    return sum((Fraction(x) ** 2 for x in np.ravel(off)), Fraction(0))


def contained(found: dict[str, Any], kernel: CaseKernel, eps: dict[str, Fraction]) -> bool:
    """Whether every output is within its bound of the exact one."""
    assert set(found) == set(eps)
    return all(
        np.isfinite(values).all()
        and norm_squared(error(values, exact(kernel.traced.graph, kernel.traced.inputs, name))) <= eps[name] ** 2
        for name, values in found.items()
    )


def functions(system: str) -> list[tuple[Any, dict[str, Any]]]:
    """The kernels of a system as array code, with their constants."""
    fixed = {"weight": 0.5, "beta": 0.25} if system == "anchor" else {}
    return [(function, fixed) for _, function, _ in KERNELS[system]]


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_no_real_kernel_leaves_its_bound(system: str, states: range) -> None:
    """Random states and sizes, NumPy and torch in every format that they have."""
    tested = 0
    for seed in states:
        for format in dict.fromkeys((*NUMPY, *TORCH)):
            state = instance(system, seed, format)
            for number, (function, fixed) in enumerate(functions(system)):
                kernel = kernels_of(state, "any-order")[number]
                inputs = dict(kernel.traced.inputs)
                if format in NUMPY:
                    eps = bounds(kernel, format)
                    assert not eps or contained(by_numpy(partial(function, **fixed), inputs, format), kernel, eps), seed
                    tested += bool(eps)
                if torch() is not None:
                    # in 16 bits sums are made in float32 and rounded, or step by step: one of two programs
                    orders = ("any-order", "any-order:float32") if format in ("float16", "bfloat16") else ("any-order",)
                    several = [
                        bounds(replace(kernels_of(state, order)[number], libm=LIBM[format]), format) for order in orders
                    ]
                    if all(several):
                        eps = {name: max(each[name] for each in several) for name in several[0]}
                        assert contained(by_torch(function.__name__, inputs, fixed, format), kernel, eps), (
                            seed,
                            format,
                        )
                        tested += 1
    assert tested >= len(states) * (2 if torch() is None else 4)


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("format", EMULATED)
def test_no_emulated_kernel_leaves_its_bound(format: str, states: range) -> None:
    """tf32 and two formats of 8 bits, every operation rounded by itself and summed from left to right."""
    tested = 0
    for system in SYSTEMS:
        for seed in states:
            for kernel in kernels_of(instance(system, seed, format), "serial"):
                kernel = replace(kernel, libm="correct")
                if eps := bounds(kernel, format):
                    graph, inputs = kernel.traced.graph, kernel.traced.inputs
                    found = {name: computed(graph, format_named(format), inputs, name) for name in eps}
                    assert contained(found, kernel, eps), (system, seed)
                    tested += 1
    assert tested > 0


def test_an_error_beyond_a_bound_is_seen() -> None:
    """A result that is moved by more than its bound is not contained; by less, it is."""
    kernel = kernels_of(instance("linear", 0, "float32"), "any-order")[0]
    eps = bounds(kernel, "float32")
    reference = exact(kernel.traced.graph, kernel.traced.inputs, "y").astype(np.float64)
    for factor, inside in ((0.9, True), (1.1, False), (np.inf, False)):
        moved = reference.copy()
        moved.flat[0] += factor * float(eps["y"])
        assert contained({"y": moved}, kernel, eps) == inside
