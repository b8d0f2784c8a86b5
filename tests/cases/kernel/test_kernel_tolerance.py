"""Proved tolerances: of one kernel, of two, against a finer format, at inputs and in boxes; and their scalar pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from certify.cases.kernel import Pair
from certify.cases.kernel.pairs import pair_for, smallest_pair
from hypothesis import given, settings
from hypothesis import strategies as st

import certify
from certify import InputRejected, format_named, kernel_report, tolerance, tolerance_between
from certify.certificate import Verdict
from certify.rounding.posterior import computed


def norm(x: Any, A: Any) -> Any:
    """Rows of a product, squared and added."""
    y = x @ A
    s = np.sum(y * y, axis=1)
    return {"y": y, "s": s}


def norm_otherwise(x: Any, A: Any) -> Any:
    """The same function, written another way."""
    y = (A.T @ x.T).T
    s = np.sum(y**2, axis=1)
    return {"y": y, "s": s}


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((3, 5)), "A": rng.standard_normal((5, 4))}


def run(given: dict[str, np.ndarray], format: str, order: str, kernel: Any = norm) -> dict[str, np.ndarray]:
    """What a program in the format and order returns."""
    graph = certify.trace(kernel, given, order=order)
    return {name: computed(graph, certify.format_named(format), given, name) for name in graph.outputs}


def test_the_bound_is_that_of_the_analysis() -> None:
    """Element by element, in every order unless one is named."""
    found = tolerance(norm, inputs(), format="float16")
    for order, other in (("any-order", found), ("serial", tolerance(norm, inputs(), format="float16", order="serial"))):
        graph = certify.trace(norm, inputs(), order=order)
        bounds = certify.running(graph, certify.BINARY16, certify.point(inputs()))
        assert all(np.array_equal(other.error[name], bounds.error_of(name)) for name in ("y", "s"))
    assert tolerance(norm, inputs(), format="float16", semantics="program").error["s"] == pytest.approx(
        other.error["s"]
    )
    assert "sums are evaluated in any order, with or without fused multiply-add" in found.assumptions
    assert found.subject == "norm in float16 with sums in any order against its exact result"
    assert list(tolerance(norm, inputs(), format="float16", output="s").error) == ["s"]


@pytest.mark.parametrize(("format", "golden"), [("float16", "float32"), ("bfloat16", "float64"), ("e4m3", "float16")])
def test_against_a_finer_format(format: str, golden: str) -> None:
    """Two programs of one kernel are within the sum of their bounds, and the finer one is not below `least`."""
    for seed in range(10):
        data = inputs(seed)
        found = tolerance(norm, data, format=format, golden=golden)
        for order in ("serial", "pairwise"):
            low, high = run(data, format, order), run(data, golden, "pairwise")
            for name in ("y", "s"):
                assert (np.abs(low[name] - high[name]) <= found.error[name]).all()
                assert (np.abs(high[name]) >= found.least[name]).all()


@pytest.mark.parametrize(
    ("second", "kept"), [("float16", False), ("bfloat16", False), ("tf32", False), ("float64", True)]
)
def test_representable_holds_of_the_first_format(second: str, kept: bool) -> None:
    """float32 numbers are converted to a second format, which moves them unless it has them all."""
    box = {"lower": {"x": np.full(200, 0.5)}, "upper": {"x": np.full(200, 1.0)}, "representable": True}
    x = np.random.default_rng(8).uniform(0.5, 1.0, 200).astype(np.float32).astype(np.float64)
    moved = np.abs(x - format_named(second).round(x))

    def same(x: Any) -> Any:
        return x * 1

    alone = tolerance(same, {"x": x}, format="float32", golden=second, **box).error["0"]
    both = tolerance_between(same, same, {"x": x}, format="float32", format_b=second, **box)
    for error in (alone, both.error["0"]):
        assert (moved <= error).all() and moved.any() != kept
        assert (error < 1e-300).all() == kept


def test_two_implementations() -> None:
    """The sum of both bounds and next to nothing, since they are the same function."""
    data = inputs()
    found = tolerance_between(norm, norm_otherwise, data, format="float16", format_b="float32")
    a, b = tolerance(norm, data, format="float16"), tolerance(norm_otherwise, data, format="float32")
    assumed = tolerance_between(norm, norm_otherwise, data, format="float16", format_b="float32", same_function=True)
    for name in ("y", "s"):
        both = a.error[name] + b.error[name]
        assert (found.error[name] >= both).all() and (found.error[name] <= both + 1e-12).all()
        assert (assumed.error[name] <= found.error[name]).all()
        off = np.abs(run(data, "float16", "serial")[name] - run(data, "float32", "pairwise", norm_otherwise)[name])
        assert (off <= found.error[name]).all()
    given = "norm and norm_otherwise are the same function in exact arithmetic"
    assert given in assumed.assumptions and given not in found.assumptions


def test_two_kernels_that_differ() -> None:
    """What they differ by in exact arithmetic is in the bound."""
    x = np.array([0.5, 2.0])
    found = tolerance_between(lambda x: x * x, lambda x: x * x + 0.25, {"x": x}, format="float32")
    assert ((found.error["0"] >= 0.25) & (found.error["0"] < 0.2500011)).all()


def test_a_box_covers_its_points() -> None:
    """Bounds of a box are no less than those of its points, and hold there; `representable` leaves conversions out."""
    data, reach = inputs(), 0.5
    lower, upper = ({"x": data["x"] + side * reach} for side in (-1, 1))
    box = tolerance(norm, data, format="float16", lower=lower, upper=upper)
    exact = tolerance(norm, data, format="float16", lower=lower, upper=upper, representable=True)
    rng = np.random.default_rng(1)
    for _ in range(20):
        inside = {**data, "x": data["x"] + rng.uniform(-reach, reach, (3, 5))}
        at = tolerance(norm, inside, format="float16")
        result, reference = run(inside, "float16", "pairwise"), run(inside, "float64", "serial")
        for name in ("y", "s"):
            assert (at.error[name] <= box.error[name]).all()
            assert (np.abs(result[name] - reference[name]) <= box.error[name] + 1e-12).all()
            assert (np.abs(reference[name]) >= box.least[name] - 1e-12).all()
    assert (exact.error["y"] < box.error["y"]).all()


def test_a_ball_is_covered_by_its_box() -> None:
    """`center` and `radius` are the box around the ball."""
    data = inputs()
    ball = tolerance(norm, data, format="float16", center="x", radius=0.5)
    box = tolerance(norm, data, format="float16", lower={"x": data["x"] - 0.5}, upper={"x": data["x"] + 0.5})
    assert ball.error["s"] == pytest.approx(box.error["s"])


def test_an_overflow_leaves_no_tolerance() -> None:
    """Named by its line, whichever of the two it is."""
    with pytest.raises(
        InputRejected, match=r"no tolerance for norm in float16: register s .* overflows: it passes 65504"
    ):
        tolerance(norm, {"x": np.full((1, 1), 300.0), "A": np.ones((1, 1))}, format="float16")
    with pytest.raises(InputRejected, match=r"no tolerance for norm in e4m3"):
        tolerance(norm, {"x": np.full((1, 1), 30.0), "A": np.ones((1, 1))}, format="float32", golden="e4m3")


def test_what_is_not_defined_is_no_overflow() -> None:
    """The operation is named, and what it is given."""
    for kernel, x, why in (
        (np.sqrt, -10.0, "square root of an enclosure that contains negative numbers at"),
        (np.log, 0.0, "logarithm of an enclosure that contains 0 or negative numbers at"),
        (lambda x: 1 / (x - x[0] / 3), 0.0, "division by an enclosure that contains 0 at"),
    ):
        with pytest.raises(InputRejected, match=f"no tolerance for .* in float16: {why} .*; give inputs"):
            tolerance(lambda x, kernel=kernel: kernel(x), {"x": np.array([x])}, format="float16")


def test_a_bound_beyond_binary64_is_none() -> None:
    """Values stay finite while the bound of their error does not."""

    def far(x: np.ndarray) -> np.ndarray:
        c = x * x
        d = (c - 1 / 9.0) * 1e200
        y = d * 1e200
        return y

    with pytest.raises(
        InputRejected, match=r"its error bound passes the largest binary64 number at register y .*scale"
    ):
        tolerance(far, {"x": np.array([1 / 3])}, format="float64", order="serial")
    report = kernel_report(far, {"x": np.array([1 / 3])}, formats="float64", order="serial")
    assert [claim.verdict for claim in report.claims if claim.kind == "rounding"] == [Verdict.UNDECIDED] * 2
    assert report.claims[0].reason == "the bound is larger than any binary64 number"


GUARDED = {
    "sqrt(maximum": (lambda x: np.sqrt(np.maximum(x, 0)), True),
    "sqrt(where": (lambda x: np.sqrt(np.where(x > 0, x, 1)), False),
    "log(where": (lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1)), 0), False),
    "/ where": (lambda x: 1 / np.where(x > 0, x, 1), False),
    "/ maximum": (lambda x: 1 / np.maximum(x, 0.25), True),
}


@pytest.mark.parametrize("name", GUARDED)
def test_the_remedies_for_undefined_operations_work(name) -> None:
    """A maximum everywhere, an inner selection where its condition is decided; an outer one nowhere, as the message says."""
    kernel, anywhere = GUARDED[name]
    inputs = {"x": np.array([-1.0, 0.0, 4.0])}
    assert np.isfinite(tolerance(kernel, inputs, format="float32").error["0"]).all()
    around = {"center": "x", "radius": 0.5}
    if anywhere:
        assert np.isfinite(tolerance(kernel, inputs, format="float32", **around).error["0"]).all()
    else:
        with pytest.raises(InputRejected, match="enclosure that contains"):
            tolerance(kernel, inputs, format="float32", **around)
    for outer in (lambda x: np.where(x > 0, np.sqrt(x), 0), lambda x: np.where(x > 0, np.log(x), 0)):
        with pytest.raises(InputRejected, match=r"keep its operand in the domain, as in sqrt\(maximum\(x, 0\)\)"):
            tolerance(outer, inputs, format="float32")


@pytest.mark.parametrize("inputs", [{}, {"y": 1.0}, {"x": 1.0, "y": 1.0}])
def test_inputs_are_the_parameters(inputs) -> None:
    """A missing or unknown one is named."""
    with pytest.raises(
        InputRejected,
        match=r"^the kernel has no parameter y: its parameters are \(x\); leave the input y out|^the input x of",
    ):
        tolerance(lambda x: x * x, inputs, format="float32")


numbers = st.floats(0, 1e3) | st.floats(1e-12, 1e-3)


@settings(deadline=None)
@given(points=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30), rtol=st.floats(0, 10))
def test_pairs_hold_as_tests_compute_them(points: list[tuple[float, float]], rtol: float) -> None:
    """bound <= atol + rtol |e| in binary64 arithmetic, and no pair of a grid is better on average than the best one."""
    bounds, sizes = np.array(points).T.copy()
    best = smallest_pair(bounds, sizes)
    for pair in (pair_for(bounds, sizes, rtol), pair_for(bounds, sizes, 0.0), best):
        assert (bounds <= pair.atol + pair.rtol * sizes).all()
    mean = sizes.mean()
    for slope in np.linspace(0, 1, 21):
        other = pair_for(bounds, sizes, float(slope))
        assert best.atol + best.rtol * mean <= (other.atol + other.rtol * mean) * (1 + 1e-9) + 1e-15


def test_pairs_of_a_tolerance() -> None:
    """At a reference, for a given rtol, and for an output by name."""
    found = tolerance(norm, inputs(), format="float16")
    values = run(inputs(), "float64", "serial")
    largest = found.atol_rtol(rtol=0, output="y")
    assert largest == Pair(pytest.approx(found.error["y"].max(), rel=1e-12), 0.0)
    near = found.atol_rtol(values, rtol=1e-2, output="y")
    assert near.atol < largest.atol and near == found.atol_rtol(values["y"], rtol=1e-2, output="y")
    for pair in (found.atol_rtol(values, output="y"), near, largest):
        np.testing.assert_allclose(
            run(inputs(), "float16", "pairwise")["y"], values["y"], atol=pair.atol, rtol=pair.rtol
        )
        assert (found.error["y"] <= pair.atol + pair.rtol * np.abs(values["y"])).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"semantics": "any"}, "there is no semantics 'any'; use one of any-order, program"),
        ({"output": "z"}, "the kernel has no output 'z'"),
        ({"lower": {"x": 0}}, "the box has one end of x"),
        ({"lower": {"z": 0}, "upper": {"z": 1}}, "the box names 'z', which is no variable"),
        ({"lower": {"x": 1}, "upper": {"x": 0}}, "the box of x is empty or not finite"),
        ({"lower": {"x": np.zeros(4)}, "upper": {"x": 1}}, r"the box of x has shape \(4,\); give shape \(3, 5\)"),
        ({"lower": {"x": 0}, "upper": {"x": 1}, "radius": 1.0}, "both a box and a ball"),
        ({"format": "fp16"}, "there is no format 'fp16'"),
    ],
)
def test_unusable_arguments(options: dict[str, Any], message: str) -> None:
    """One sentence."""
    with pytest.raises(InputRejected, match=message):
        tolerance(norm, inputs(), **{"format": "float16", **options})


def test_unusable_arguments_of_pairs() -> None:
    """No such output, none named of two, another shape, and an rtol that is none."""
    found = tolerance(norm, inputs(), format="float16")
    for options, message in (
        ({}, "several outputs; use one of y, s"),
        ({"output": "z"}, "no output 'z'"),
        ({"output": "y", "reference": np.ones(2)}, "not of shape"),
        ({"output": "y", "rtol": -1.0}, "rtol is -1.0, which is no tolerance"),
    ):
        with pytest.raises(InputRejected, match=message):
            found.atol_rtol(**options)


def test_kernels_without_the_same_outputs() -> None:
    """Named, with the shape that is missing."""
    with pytest.raises(InputRejected, match=r"output s of norm has no counterpart of shape \(3,\)"):
        tolerance_between(norm, lambda x, A: {"y": x @ A}, inputs(), format="float32")


@pytest.mark.parametrize("x", [0.5, np.array(0.5)])
def test_a_number_may_move_in_a_box(x):
    """An input without axes, between two numbers: the bound is that of an array with one element."""
    box = {"lower": {"x": 0.0}, "upper": {"x": 1.0}}
    alone = tolerance(lambda x: x * x, {"x": x}, format="float16", **box).error["0"]
    row = tolerance(lambda x: x * x, {"x": np.array([0.5])}, format="float16", **box).error["0"]
    assert alone.shape == () and alone == row[0] > 0
