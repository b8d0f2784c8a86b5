"""`assert_certified`: what passes, what fails, and what the message says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import certify
from certify import InputRejected, TraceRefused, kernel_report
from certify.rounding.posterior import computed, error, exact
from certify.testing import Certified, assert_certified
from certify.testing.certified import _in_units


def mlp(x: Any, A: Any, B: Any) -> Any:
    """A residual step with ReLU."""
    with certify.layer("hidden"):
        h = np.maximum(x @ A, 0)
    with certify.layer("residual"):
        y = x + h @ B
    return {"y": y, "h": h}


def powers(x: Any) -> Any:
    """x to the fourth, in a named layer."""
    with certify.layer("square"):
        s = x * x
    q = s * s
    return q


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of `function` that contains a text."""
    lines, first = inspect.getsourcelines(function)
    return next(first + k for k, line in enumerate(lines) if text in line)


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs of the residual step."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape) for name, shape in (("x", (3, 4)), ("A", (4, 6)), ("B", (6, 4)))}


def test_a_kernel_that_is_accurate_enough_passes() -> None:
    """The bounds come back: of norms, of elements, of magnitudes; the norms are those of a report."""
    bounds = assert_certified(mlp, inputs(), 0.1, format="float16")
    assert isinstance(bounds, Certified)
    assert set(bounds.norm) == {"y", "h"} and bounds.error["y"].shape == (3, 4)
    claim = kernel_report(mlp, inputs(), formats="float16").claims[0]
    assert {f"eps_{name}": float.hex(norm) for name, norm in bounds.norm.items()} == {
        name: float.hex(float.fromhex(text)) for name, text in claim.bounds.items()
    }
    assert 1 < bounds.max_magnitude < 100


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(["float16", "bfloat16", "float32", "float64"]))
def test_bounds_contain_the_error(seed: int, name: str) -> None:
    """Element by element, at random inputs."""
    given = inputs(seed)
    bounds = assert_certified(mlp, given, format=name)
    graph = certify.trace(mlp, given, order="serial")
    for output, limit in bounds.error.items():
        off = error(computed(graph, certify.format_named(name), given, output), exact(graph, given, output))
        assert all(x <= Fraction(bound) for x, bound in zip(off.ravel(), limit.ravel().tolist(), strict=True))


def test_eps_decides() -> None:
    """The proved bound passes, a number below it does not."""
    norm = assert_certified(mlp, inputs()).norm["y"]
    assert_certified(mlp, inputs(), norm, output="y")
    with pytest.raises(AssertionError, match="output y is proved to be within"):
        assert_certified(mlp, inputs(), np.nextafter(norm, 0), output="y")


def test_the_message_of_an_error_that_is_too_large() -> None:
    """Output, bound, eps, and the register, layer and line at which most of the error arises."""
    line = line_of(mlp, "h = np.maximum(x @ A, 0)")
    with pytest.raises(AssertionError) as failure:
        assert_certified(mlp, inputs(), {"y": 1e-3}, format="float16")
    assert re.fullmatch(
        r"mlp in float16 is not certified at the inputs: output y is proved to be within 3\.\d\de-02 \(Euclidean norm\), "
        rf"eps asks for 0\.001; \d\d% of the error of element \[\d, \d\] arises at register h, layer hidden "
        rf"\(test_assert_certified\.py:{line}\)",
        str(failure.value),
    )


def test_the_origin_is_where_the_error_arises() -> None:
    """One line of a kernel rounds much more than all others: it is named, wherever it stands."""

    def early(x: Any) -> Any:
        big = x + 1000.1
        return (big - 1000.0) * x

    def late(x: Any) -> Any:
        small = x * x
        big = small + 1000.1
        return big

    for kernel in (early, late):
        with pytest.raises(
            AssertionError, match=rf"arises at register big \(test_assert_certified.py:{line_of(kernel, '1000.1')}\)"
        ):
            assert_certified(kernel, {"x": np.array([0.3, 0.7])}, 1e-6, format="float32")


def test_the_origin_may_be_an_input() -> None:
    """Converting the input is all that rounds."""
    with pytest.raises(AssertionError, match="100% of its error arises at the conversion of input x"):
        assert_certified(lambda x: 2.0 * x, {"x": 0.1}, 0.0)


def test_every_shortfall_is_listed() -> None:
    """Two outputs that are too far off, two sentences."""
    with pytest.raises(AssertionError) as failure:
        assert_certified(mlp, inputs(), 1e-4)
    assert [line.split(" is proved")[0][-8:] for line in str(failure.value).splitlines()] == ["output y", "output h"]


def test_eps_by_output() -> None:
    """Outputs without an eps are asked for nothing but a bound."""
    assert_certified(mlp, inputs(), {"h": 0.02})
    with pytest.raises(AssertionError, match="output h"):
        assert_certified(mlp, inputs(), {"h": 1e-5, "y": 1.0})


def test_units_in_the_last_place() -> None:
    """One rounding is half of one, and a little for proving it; a sum that cancels loses more."""
    assert_certified(lambda x, y: x * y, {"x": np.float32(0.3), "y": np.float32(0.7)}, ulps=0.501, format="float32")
    with pytest.raises(
        AssertionError, match=r"each element of output 0 is proved to be within .* ulps, 1.0 are asked for"
    ):
        assert_certified(lambda x: (x + 1.0) - 0.99, {"x": np.float32(1e-3)}, ulps=1, format="float32")


@pytest.mark.parametrize("format", ["float16", "float16,ftz"])
def test_the_last_place_of_what_can_be_0(format: str) -> None:
    """Inputs that differ convert to one number: the result is 0 where 2e-5 is exact, 335 units of subnormal numbers."""
    close = {"x": np.array([0.1]), "y": np.array([0.09998])}
    off = Fraction(0.1) - Fraction(0.09998)
    assert 335 < off / Fraction(1, 2**24) < 336
    with pytest.raises(AssertionError, match=r"within 4\.84e\+02 ulps, 335\.0 are asked for"):
        assert_certified(lambda x, y: x - y, close, ulps=335.0, format=format)
    mask = np.array([True, False])
    assert_certified(lambda x: np.where(mask, x, 0.0), {"x": np.ones(2)}, ulps=0.0, format=format)


@pytest.mark.parametrize("format", ["float16", "bfloat16", "e4m3", "float64"])
def test_units_are_never_larger_than_those_of_the_exact_result(format: str) -> None:
    """At random differences, exactly: what is asserted holds in units of both the exact and the computed result."""
    chosen, passed = certify.format_named(format), 0
    for seed in range(40):
        x, y = np.random.default_rng(seed).uniform(0.9, 1.1, 2)
        kernel = certify.trace(lambda x, y: x * x - y * y, {"x": x, "y": y}, order="serial")
        found, values = computed(kernel, chosen, {"x": x, "y": y}, "0"), exact(kernel, {"x": x, "y": y}, "0")
        size = min(abs(Fraction(float(found))), abs(Fraction(values.item())))
        ulp = Fraction(2) ** (chosen.emin - chosen.precision + 1)
        while ulp * 2**chosen.precision <= size:
            ulp *= 2
        units = abs(Fraction(float(found)) - Fraction(values.item())) / ulp
        if not units:
            continue
        with pytest.raises(AssertionError, match="ulps"):
            assert_certified(lambda x, y: x * x - y * y, {"x": x, "y": y}, ulps=float(units) * 0.999, format=format)
        passed += 1
    assert passed > 10


def test_a_share_that_underflows_is_not_nothing() -> None:
    """A subnormal error in units of 2**100 is more than 0 of them; others are exact."""
    shares = _in_units(np.array([2.0**-1074, 3.0, 0.0]), np.array([2.0**100, 0.25, 1.0]))
    assert shares.tolist() == [2.0**-1074, 12.0, 0.0]


def test_on_a_ball() -> None:
    """The bound grows with the radius, and the message says where it shall hold."""
    at, around = (assert_certified(mlp, inputs(), **where).norm["y"] for where in ({}, {"center": "x", "radius": 0.5}))
    assert at < around
    with pytest.raises(AssertionError, match=r"not certified for every x within 0\.5 of the inputs: output y"):
        assert_certified(mlp, inputs(), at, output="y", center="x", radius=0.5)


def test_an_overflow_is_named() -> None:
    """Register, layer and line of the first operation that overflows; float32 holds it."""
    x = np.array([1.0, 300.0])
    line = line_of(powers, "s = x * x")
    with pytest.raises(AssertionError) as failure:
        assert_certified(powers, {"x": x}, 1e9, format="float16")
    assert str(failure.value) == (
        "powers in float16 is not certified at the inputs: "
        f"register s, layer square (test_assert_certified.py:{line}) overflows: it passes 65504"
    )
    assert_certified(powers, {"x": x}, 2000, format="float32")


def test_a_risk_on_a_ball_is_named() -> None:
    """At the inputs nothing overflows; on the ball something may."""
    assert_certified(powers, {"x": 15.0})
    with pytest.raises(
        AssertionError, match=r"for every x within 2\.0 .*: an enclosure that passes 65504 at register q"
    ):
        assert_certified(powers, {"x": 15.0}, radius=2)


def test_a_kernel_that_cannot_be_traced() -> None:
    """The error names the operation and the line; it is no failed assertion, since nothing was decided."""

    def kernel(x: Any) -> Any:
        y = np.sort(x * x)
        return y

    with pytest.raises(
        TraceRefused, match=rf"numpy.sort at .*test_assert_certified.py:{line_of(kernel, 'y = np.sort')}"
    ):
        assert_certified(kernel, {"x": np.ones(3)}, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eps": -1.0}, "eps is -1.0, which is no error"),
        ({"eps": float("nan")}, "eps is nan, which is no error"),
        ({"eps": {"z": 1.0}}, "the kernel has no output 'z'; use one of y, h"),
        ({"eps": 1.0, "output": "z"}, "the kernel has no output 'z'"),
        ({"eps": {"y": 1.0}, "output": "y"}, "both output and eps by output are given"),
        ({"ulps": -2.0}, "ulps is -2.0, which is no error"),
        ({"format": "fp16"}, "there is no format 'fp16'"),
        ({"order": "any"}, "there is no order model 'any'"),
        ({"radius": 1.0}, "not which input moves"),
    ],
)
def test_unusable_arguments(options: dict[str, Any], message: str) -> None:
    """Refused with one sentence, and not as a failed assertion."""
    with pytest.raises(InputRejected, match=message):
        assert_certified(mlp, inputs(), **options)
