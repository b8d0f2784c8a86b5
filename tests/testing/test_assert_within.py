"""`assert_within`: what passes, what fails, what it says, and which arrays it takes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import certify
from certify import BINARY16, BINARY64, InputRejected, TraceRefused
from certify.rounding.posterior import computed, exact
from certify.testing import Within, assert_within, compare_within


def step(x: Any, A: Any) -> Any:
    """A product and a residual."""
    with certify.layer("hidden"):
        h = np.maximum(x @ A, 0)
    with certify.layer("residual"):
        y = x + h
    return {"y": y, "h": h}


def softmax(x: Any) -> Any:
    """No polynomial: its exact values are enclosed, not computed."""
    p = np.exp(x - np.max(x))
    return p / np.sum(p)


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs of the step."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((3, 4)), "A": rng.standard_normal((4, 4))}


def serial(format: certify.Format, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the serial program in the format returns."""
    graph = certify.trace(step, given, order="serial")
    return {name: computed(graph, format, given, name) for name in graph.outputs}


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_programs_of_the_format_pass(name: str) -> None:
    """The serial program is one of any order; errors are exact."""
    for seed in range(20):
        given = inputs(seed)
        actual = serial(certify.format_named(name), given)
        found = assert_within(actual, step, given, format=name)
        assert isinstance(found, Within) and found.passed and 0 < found.share("y").max() <= 1
        assert_within(actual, step, given, format=name, semantics="program")


def test_the_limit_is_the_bound() -> None:
    """A number at exactly the bound passes, its neighbour beyond does not: compared as rationals."""
    given = {"x": np.array([0.1, 3.0])}
    bound = certify.tolerance(lambda x: x * x, given, format="float64").error["0"]
    value = exact(certify.trace(lambda x: x * x, given, order="serial"), given, "0")
    for k in (0, 1):
        limit = value[k] + Fraction(float(bound[k]))
        inside = float(limit)
        while Fraction(inside) > limit:
            inside = float(np.nextafter(inside, -np.inf))
        actual = np.asarray([float(v) for v in value])
        actual[k] = inside
        assert_within(actual, lambda x: x * x, given, format=BINARY64)
        actual[k] = np.nextafter(inside, np.inf)
        with pytest.raises(AssertionError, match=rf"element \[{k}\]"):
            assert_within(actual, lambda x: x * x, given, format=BINARY64)


def test_the_message() -> None:
    """Output, element, error, bound, how many, and register, layer and line of what contributes most."""
    given = inputs()
    actual = serial(BINARY16, given)
    i, j = np.unravel_index(np.argmax(actual["h"]), (3, 4))  # where the product is not cut off
    actual["y"][i, j] += 0.25
    with pytest.raises(
        AssertionError,
        match=rf"^step in float16 with sums in any order is not within its bound: output y, element \[{i}, {j}\] is "
        r"2\.\d\de-01 from the exact \S+, and proved to be within \d\.\d\de-0\d; 1 of 12 elements are outside; "
        r"\d\d% of its bound arises at register h, layer hidden \(test_assert_within\.py:21\)$",
    ):
        assert_within(actual, step, given, format="float16")


def test_every_output_that_is_outside_is_listed() -> None:
    """Two outputs, two lines."""
    given = inputs()
    actual = {name: value + 1 for name, value in serial(BINARY16, given).items()}
    with pytest.raises(AssertionError) as failure:
        assert_within(actual, step, given, format="float16")
    lines = str(failure.value).splitlines()
    assert "output y, element" in lines[0] and lines[1].startswith("output h, element")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails(wrong: float) -> None:
    """Infinitely far off."""
    given = inputs()
    actual = serial(BINARY16, given)
    actual["h"][0, 0] = wrong
    with pytest.raises(AssertionError, match=r"output h, element \[0, 0\] is inf from"):
        assert_within(actual, step, given, format="float16")


def test_functions_of_a_library() -> None:
    """The exact values are enclosed in binary64: real float32 results pass, a wrong one does not."""
    x = np.random.default_rng(1).standard_normal(12).astype(np.float32)
    actual = softmax(x)
    assert actual.dtype == np.float32
    assert assert_within(actual, softmax, {"x": x}, format="float32").passed
    actual[3] *= np.float32(1.001)
    with pytest.raises(AssertionError, match=r"element \[3\]"):
        assert_within(actual, softmax, {"x": x}, format="float32")


@pytest.mark.parametrize("name", ["exp", "log", "tanh"])
def test_the_library_of_numpy_is_the_default(name: str) -> None:
    """Float32 functions of NumPy pass as they are, also where they are off by more than an ulp, which libm="1ulp" refuses."""
    function = getattr(np, name)
    x = np.random.default_rng(3).uniform(0.25, 8, 200_000).astype(np.float32)
    exact = function(x.astype(np.float64))
    far = np.abs(function(x) - exact) / np.spacing(exact.astype(np.float32))
    worst = x[np.argsort(far)[-100:]].copy()
    actual = function(x)[np.argsort(far)[-100:]]
    assert_within(actual, lambda x: function(x), {"x": worst}, format="float32")
    assert_within(actual, lambda x: function(x), {"x": worst}, format="float32", libm=certify.Libm("mine", {name: 4.0}))
    if far.max() > 1.01:  # as with vector instructions
        with pytest.raises(AssertionError, match="is not within its bound"):
            assert_within(actual, lambda x: function(x), {"x": worst}, format="float32", libm="1ulp")


def test_one_output_of_several() -> None:
    """By name as an array, by name from a dict; all of a tuple in order."""
    given = inputs()
    actual = serial(BINARY16, given)
    assert set(assert_within(actual["h"], step, given, format="float16", output="h").bound) == {"h"}
    assert set(assert_within(actual, step, given, format="float16", output="h").bound) == {"h"}
    pair = np.float16(0.5), np.float16(0.25)
    assert_within(pair, lambda x: (x, x * x), {"x": np.float16(0.5)}, format="float16")


class Tensor:
    """What torch offers of a tensor, as far as it is used."""

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def detach(self) -> Tensor:
        """Itself."""
        return self

    cpu = detach

    def double(self) -> Tensor:
        """In float64."""
        return Tensor(self._values.astype(np.float64))

    def is_floating_point(self) -> bool:
        """Whether it is."""
        return self._values.dtype.kind == "f"

    def numpy(self) -> np.ndarray:
        """As torch: not of bfloat16."""
        return self._values


class OnlyArray:
    """An array of another library with `__array__`, as JAX has."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """The values."""
        return self._values


class OnlyDlpack:
    """An array of another library with the protocol of DLPack."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __dlpack__(self, **options: Any) -> Any:
        """The values."""
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """The host."""
        return self._values.__dlpack_device__()


@pytest.mark.parametrize("wrapped", [Tensor, OnlyArray, OnlyDlpack, lambda x: x.astype(ml_dtypes.bfloat16)])
def test_arrays_of_other_libraries(wrapped: Any) -> None:
    """Inputs and results; of bfloat16 numbers nothing is lost."""
    given = {name: certify.BFLOAT16.round(x) for name, x in inputs().items()}
    actual = serial(certify.BFLOAT16, given)
    plain = assert_within(actual, step, given, format="bfloat16")
    foreign = assert_within(
        {name: wrapped(x) for name, x in actual.items()},
        step,
        {name: wrapped(x) for name, x in given.items()},
        format="bfloat16",
    )
    for name in plain.bound:
        assert np.array_equal(plain.error[name], foreign.error[name])
        assert np.array_equal(plain.bound[name], foreign.bound[name])


def test_an_array_on_a_device() -> None:
    """What its library cannot hand over is refused."""

    class Elsewhere(OnlyDlpack):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("on a device")

    with pytest.raises(InputRejected, match="cannot be read: on a device; copy it to the memory of the host"):
        assert_within(Elsewhere(np.ones(2)), lambda x: x * x, {"x": np.ones(2)}, format="float16")


def test_an_overflow_means_no_bound() -> None:
    """A failure that names the operation, whatever the values are."""
    with pytest.raises(
        AssertionError, match=r"there is no bound for .* in float16: .*test_assert_within.py.* overflows"
    ):
        compare_within(np.ones(1), lambda x: x * x, {"x": np.array([300.0])}, format="float16")


@pytest.mark.parametrize(
    ("actual", "options", "message"),
    [
        (np.ones((3, 4)), {}, "the values are of the outputs 0, the kernel has y, h"),
        ({"y": np.ones((3, 4))}, {}, "the values are of the outputs y, the kernel has y, h"),
        (np.ones((3, 3)), {"output": "y"}, r"has shape \(3, 3\), the kernel returns \(3, 4\)"),
        (np.ones((3, 4)), {"output": "z"}, "the kernel has no output 'z'; use one of y, h"),
        (np.ones((3, 4)) * 1j, {"output": "y"}, "the value of output y has dtype complex128"),
        (np.ones((3, 4)), {"output": "y", "semantics": "all"}, "there is no semantics 'all'"),
        (np.ones((3, 4)), {"output": "y", "semantics": "program", "order": "any-order"}, "is not one program"),
        (np.ones((3, 4)), {"output": "y", "format": "fp16"}, "there is no format 'fp16'"),
    ],
)
def test_unusable_arguments(actual: Any, options: dict[str, Any], message: str) -> None:
    """One sentence, and no failed assertion."""
    with pytest.raises(InputRejected, match=message):
        assert_within(actual, step, inputs(), **{"format": "float16", **options})


def test_a_kernel_that_cannot_be_traced() -> None:
    """Names the line."""
    with pytest.raises(TraceRefused, match=r"test_assert_within\.py:\d+"):
        assert_within(np.ones(2), lambda x: np.sort(x), {"x": np.ones(2)}, format="float16")
