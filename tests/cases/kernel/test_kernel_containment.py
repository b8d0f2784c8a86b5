"""Every bound of a report contains the error of the program run for real, in NumPy's own arithmetic where it has it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serial_numpy import run
from user_kernels import cases

from certify import format_named, kernel_report
from certify.arithmetic import Ieee
from certify.graph import evaluate
from certify.rounding.posterior import computed, error, exact

NAMES = tuple(cases(0))
DTYPES = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
FORMATS = (*DTYPES, "bfloat16")


def trials(inputs: dict[str, Any], center: str, radius: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Inputs of the ball, to break a bound with: the middle, ends of the axes, random directions, few bits."""
    middle = np.asarray(inputs[center])
    steps = [np.zeros(middle.shape)]
    for _ in range(3):
        axis = np.zeros(middle.size)
        axis[rng.integers(middle.size)] = rng.choice([-1.0, 1.0])
        direction = rng.standard_normal(middle.shape)
        steps += [axis.reshape(middle.shape) * radius, direction * (radius / np.linalg.norm(direction))]
    found = [middle + step for step in steps]
    found += [np.round(x * 512) / 512 + 2.0**-12 for x in found]
    inside = [x for x in found if norm_squared(x, middle) <= Fraction(radius) ** 2]
    return [{**inputs, center: x} for x in inside]


def norm_squared(x: np.ndarray, y: np.ndarray) -> Fraction:
    """The squared Euclidean distance, exactly."""
    pairs = zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True)
    return sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in pairs), Fraction(0))


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from(NAMES),
    name=st.sampled_from(FORMATS),
    scale=st.sampled_from([2.0**-16, 2.0**-9, 1.0, 3.0, 40.0]),
    radius=st.sampled_from([2.0**-30, 0.01, 0.3]),
)
def test_the_error_of_the_program_is_within_every_bound(
    seed: int, kernel: str, name: str, scale: float, radius: float
) -> None:
    """At the inputs and at inputs of the ball, subnormal and overflowing ones included."""
    function, inputs, center = cases(seed)[kernel]
    inputs = {key: x * scale if key == center else x for key, x in inputs.items()}
    radius *= scale
    report = kernel_report(function, inputs, formats=name, center=center, radius=radius, samples=0)
    format = format_named(name)
    claims = {claim.id: claim for claim in report.claims}
    for k, trial in enumerate(trials(inputs, center, radius, np.random.default_rng(seed))):
        variables = {key: x for key, x in trial.items() if key in report.inputs}
        floats = {out: computed(report.graph, format, variables, out) for out in report.graph.outputs}
        if name in DTYPES:
            real = run(function, trial, DTYPES[name])
            for out, values in floats.items():
                np.testing.assert_array_equal(real[out], values)
        for region in ("point", "ball")[k > 0 :]:
            in_range = claims[f"range/{name}/serial/{region}"]
            if in_range.verdict != "certified":
                continue
            ieee = Ieee(format)
            nodes = evaluate(report.graph, ieee, {key: ieee.constant(x) for key, x in variables.items()})
            assert np.abs(nodes.astype(np.float64)).max() <= float.fromhex(in_range.bounds["max_magnitude"])
            for suffix in ("", "/majorant"):
                claim = claims[f"rounding/{name}/serial/{region}{suffix}"]
                for out, values in floats.items():
                    off = error(values, exact(report.graph, variables, out))
                    bound = Fraction(float.fromhex(claim.bounds[f"eps_{out}"]))
                    assert sum((x * x for x in np.ravel(off)), Fraction(0)) <= bound**2, (claim.id, out)


@pytest.mark.parametrize("kernel", NAMES)
@pytest.mark.parametrize("name", FORMATS)
def test_the_bounds_say_something(kernel: str, name: str) -> None:
    """At ordinary inputs a bound is within two orders of magnitude of the error that was seen there."""
    function, inputs, _ = cases(7)[kernel]
    report = kernel_report(function, inputs, formats=name)
    claim = report.claims[0]
    for out in report.graph.outputs:
        seen, bound = (float.fromhex(claim.observed[f"error_{out}"]), float.fromhex(claim.bounds[f"eps_{out}"]))
        assert 0 < seen <= bound < 100 * seen
