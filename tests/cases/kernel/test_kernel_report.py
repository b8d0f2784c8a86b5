"""Reports on a user's kernel: what the claims say, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from user_kernels import cases, chain, dot, growing, masked_attention, polynomial, residual_mlp

from certify import BINARY16, InputRejected, KernelReport, Libm, TraceRefused, Verdict, kernel_report, sigmoid
from certify.certificate import Claim, decode, encode

MLP = cases(0)["residual_mlp"][1]


def by_id(report: KernelReport) -> dict[str, Claim]:
    """The claims of a report."""
    return {claim.id: claim for claim in report.claims}


def test_claims_of_a_format_and_both_regions() -> None:
    """Rounding by two methods and range, at the inputs and on the ball, formats from coarse to fine."""
    report = kernel_report(residual_mlp, MLP, formats=["float32", "float16"], center="x", radius=0.25)
    expected = [
        f"{kind}/{format}/serial/{region}{method}"
        for format in ("float16", "float32")
        for region in ("point", "ball")
        for kind, method in (("rounding", ""), ("rounding", "/majorant"), ("range", ""))
    ]
    assert [claim.id for claim in report.claims] == expected
    assert report.required == tuple(name for name in expected if not name.endswith("majorant"))
    assert report.verdict is Verdict.CERTIFIED


def test_words_of_the_claims() -> None:
    """Statement, parameters, assumptions and theorem are functions of the claim, word for word."""
    claims = by_id(kernel_report(residual_mlp, MLP, formats="float16", center="x", radius=0.25))
    rounding, coarse = claims["rounding/float16/serial/ball"], claims["rounding/float16/serial/point/majorant"]
    reach = claims["range/float16/serial/ball"]
    assert rounding.statement == (
        "For every x within Frobenius distance 0.25 of that of the inputs, the kernel in float16, inputs converted first, "
        "returns each output X within eps_X (Frobenius norm) of the exact kernel of those inputs."
    )
    assert coarse.statement == (
        "At the inputs, the kernel in float16, inputs converted first, returns each output X within eps_X (Frobenius norm) "
        "of the exact kernel of those inputs."
    )
    assert reach.statement == (
        "For every x within Frobenius distance 0.25 of that of the inputs, no operation of the kernel in float16 overflows, "
        "partial sums included."
    )
    ball = {"kind": "ball", "center": "x", "radius": "0x1p-2"}
    common = {"format": "float16", "order": "serial"}
    assert rounding.parameters == {**common, "region": ball, "method": "running"}
    assert coarse.parameters == {**common, "region": {"kind": "point"}, "method": "majorant"}
    assert reach.parameters == {**common, "region": ball, "limit": "0x1.ffcp+15"}
    assert [c.theorem for c in (rounding, coarse, reach)] == [
        f"docs/theory/rounding.md#{name}" for name in ("running", "majorant", "range")
    ]
    for claim in claims.values():
        assert claim.semantics == "program"
        assert list(claim.assumptions) == [
            "float16: precision 11, exponents -14 to 15, with subnormals",
            "every operation rounds to nearest, ties to even",
            "sums are evaluated in the order serial, without fused multiply-add",
            "the stored binary64 inputs are converted to the format by one rounding to nearest",
            "the graph file is the user's kernel: the checker does not see its source",
        ]


def test_every_output_has_its_bound() -> None:
    """One eps an output, of 24 significant bits at most, with a decimal that is not below it."""
    claim = kernel_report(chain, cases(0)["chain"][1], formats="bfloat16").claims[0]
    assert list(claim.bounds) == ["eps_y", "eps_rest"]
    for name, text in claim.bounds.items():
        bound = float.fromhex(text)
        assert np.float32(bound) == bound
        assert float(claim.display[name]) >= bound


def test_outputs_of_a_tuple_are_numbered() -> None:
    """Nameless outputs are called 0, 1, ..."""
    claim = kernel_report(lambda x: (x + x * x, x * x), {"x": 0.3}, formats="float16").claims[0]
    assert list(claim.bounds) == ["eps_0", "eps_1"]


def test_exact_kernels_have_no_error() -> None:
    """ReLU, sign and scaling of numbers of the format: the bound is 0, and 0 errors were seen."""
    report = kernel_report(lambda x: 4.0 * np.maximum(-x, 0), {"x": np.array([-0.5, 1.0])}, formats=[BINARY16])
    claim = report.claims[0]
    assert claim.verdict is Verdict.CERTIFIED
    assert (claim.bounds["eps_0"], claim.observed["error_0"]) == ("0x0p+0", "0x0p+0")
    assert claim.display["digits_worst"] == "exact"


def test_error_growth_by_layer() -> None:
    """One entry a layer, in execution order, with the register of its largest error."""
    claim = kernel_report(residual_mlp, MLP, formats="float16").claims[0]
    growth = claim.observed["growth"]
    assert [entry[:2] for entry in growth] == [["hidden", "h"], ["residual", "y"]]
    assert all(float(error) > 0 and float(size) > 0 for _, _, error, size in growth)


def test_error_growth_by_line() -> None:
    """Without layers, one entry a line: otherwise a page would have nothing to draw."""
    growth = kernel_report(growing, {"x": np.ones(2) / 3}, formats="float16").claims[0].observed["growth"]
    assert [entry[:2] for entry in growth] == [["", "s"], ["", "q"], ["", ""]]


def test_overflow_is_refuted_at_the_inputs() -> None:
    """The witness names the first operation that is not finite; float32 is certified beside it."""
    report = kernel_report(growing, {"x": np.array([1.0, 20.0])}, formats=("float16", "float32"))
    claims = by_id(report)
    refuted = claims["range/float16/serial/point"]
    assert refuted.verdict is Verdict.REFUTED and not refuted.bounds
    assert refuted.witness == {"layer": "", "register": "q", "inputs": {}}
    assert refuted.reason.startswith("register q (user_kernels.py:") and refuted.reason.endswith(
        "overflows (node 5, MUL, element 2 of 2)"
    )
    assert claims["rounding/float16/serial/point"].verdict is Verdict.UNDECIDED
    assert [entry[1] for entry in claims["rounding/float16/serial/point"].observed["growth"]] == ["s"]
    assert claims["range/float32/serial/point"].verdict is Verdict.CERTIFIED
    assert report.verdict is Verdict.REFUTED


def test_overflow_on_a_ball_carries_the_center() -> None:
    """The refuting input is the stored one, which is in the ball exactly."""
    x = np.array([[1.0, 20.0]])
    claim = by_id(kernel_report(growing, {"x": x}, formats="float16", radius=2.0**-40))["range/float16/serial/ball"]
    assert claim.witness == {"layer": "", "register": "q", "inputs": {"x": ["0x1p+0", "0x1.4p+4"]}}


def test_overflow_of_an_input() -> None:
    """An input that the format cannot hold: no layer, and its name."""
    claim = by_id(kernel_report(dot, {"x": np.ones(2), "y": np.array([1.0, 1e6])}, formats="float16"))[
        "range/float16/serial/point"
    ]
    assert claim.witness == {"layer": "", "register": "y", "inputs": {}}
    assert claim.observed["first_risk"] == "input y[1]"


def test_risk_on_a_ball_alone_is_undecided() -> None:
    """The inputs are fine, an end of the ball may not be: no verdict, and the place."""
    claims = by_id(kernel_report(growing, {"x": np.array([3.5])}, formats="float16", radius=1.0))
    assert claims["range/float16/serial/point"].verdict is Verdict.CERTIFIED
    risky = claims["range/float16/serial/ball"]
    assert risky.verdict is Verdict.UNDECIDED and risky.witness is None
    assert "may overflow" in risky.reason


def test_static_inputs_are_constants() -> None:
    """A loop count and a mask are no variables; neither is a float input that is not named as one."""
    report = kernel_report(polynomial, {"x": np.ones(3) / 3, "degree": 4}, formats="float16")
    assert list(report.inputs) == ["x"]
    report = kernel_report(masked_attention, cases(0)["masked_attention"][1], formats="float32", variables="x")
    assert list(report.inputs) == ["x"] and list(report.subject["tensors"]) == ["x"]
    exactly = kernel_report(dot, {"x": np.ones(2), "y": np.array([2.0, 4.0])}, formats="float32", variables=["x"])
    assert exactly.graph.n_operations == 3


def test_integer_data() -> None:
    """An integer array that is named as a variable is data, converted to the format."""
    report = kernel_report(dot, {"x": np.arange(3), "y": np.ones(3)}, formats="float16", variables=("x", "y"))
    assert list(report.inputs) == ["x", "y"]
    assert report.inputs["x"].dtype == np.float64


def test_low_precision_inputs_are_themselves() -> None:
    """A float16 input is the number it is: converting it makes no error."""
    x = np.array([0.1, 0.2, 0.3], dtype=np.float16)
    report = kernel_report(lambda x: -x, {"x": x}, formats="float16")
    assert report.claims[0].bounds["eps_0"] == "0x0p+0"


def test_samples_of_the_ball() -> None:
    """As many as asked for are run beside the proof, and their error is below the bound."""
    claims = by_id(kernel_report(dot, cases(0)["dot"][1], formats="float16", center="y", radius=0.1, samples=3))
    claim = claims["rounding/float16/serial/ball"]
    assert claim.observed["samples"] == 3
    assert 0 < float.fromhex(claim.observed["error_0"]) <= float.fromhex(claim.bounds["eps_0"])


def test_exact_evaluation_is_left_out_where_it_is_dear() -> None:
    """Repeated squaring: exact values double in length, so that errors are bounded but not observed."""

    def squares(x: Any) -> Any:
        for _ in range(24):
            x = x * x
        return x

    claim = kernel_report(squares, {"x": np.ones(4)}, formats="float32").claims[0]
    assert claim.verdict is Verdict.CERTIFIED
    assert "error_0" not in claim.observed


def test_sums_too_long_for_the_majorant_rules() -> None:
    """n u >= 1: those rules give no bound, which is an undecided claim with its reason; the running bounds stand."""
    x = np.full(3000, 2.0**-6)
    claims = by_id(kernel_report(lambda x: np.sum(x * x), {"x": x}, formats="float16"))
    assert claims["rounding/float16/serial/point"].verdict is Verdict.CERTIFIED
    coarse = claims["rounding/float16/serial/point/majorant"]
    assert coarse.verdict is Verdict.UNDECIDED
    assert "a sum of 3000 terms is too long for majorant bounds in float16" in coarse.reason


def test_bytes_of_a_report_are_those_of_the_next_run() -> None:
    """And it is a report as any other: it decodes to what it was."""
    first, second = (encode(kernel_report(chain, cases(3)["chain"][1], formats="float16")) for _ in range(2))
    assert first == second
    assert decode(first, "report").subject["case"] == "kernel"


def test_the_kernel_has_a_name() -> None:
    """Its Python name, or the one given."""
    inputs = {"x": np.ones(2), "y": np.ones(2)}
    assert kernel_report(dot, inputs, formats="float16").subject["kernel"] == "dot"
    assert kernel_report(dot, inputs, formats="float16", name="my dot").subject["kernel"] == "my dot"


def not_traceable(x: Any) -> Any:
    """A kernel with a sine."""
    return x + np.sin(x)


def branching(x: Any) -> Any:
    """A kernel that looks at its data."""
    return x if x[0] > 0 else -x


@pytest.mark.parametrize(("kernel", "what"), [(not_traceable, "uses numpy.sin"), (branching, "branches on")])
def test_untraceable_kernels_are_refused_with_their_line(kernel: Any, what: str) -> None:
    """The message names the operation and the source line."""
    line = kernel.__code__.co_firstlineno + 2
    with pytest.raises(TraceRefused, match=rf"{what}.* at test_kernel_report.py:{line}"):
        kernel_report(kernel, {"x": np.ones(2)}, formats="float16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formats": []}, "no format is given"),
        ({"formats": "float8"}, "there is no format 'float8'"),
        ({"order": "sideways"}, "there is no order model 'sideways'"),
        ({"radius": 0.1}, "which input moves; give center, one of x, y"),
        ({"radius": 0.1, "center": "z"}, "the center 'z' is no variable"),
        (
            {"center": "x"},
            "the center 'x' is given, but no radius of the ball around it; give a radius, or leave the center",
        ),
        ({"center": "z"}, "the center 'z' is given, but no radius"),
        ({"radius": -1.0, "center": "x"}, "the radius -1.0 is no distance"),
        ({"radius": float("nan"), "center": "x"}, "the radius nan is no distance"),
        ({"variables": ["z"]}, "the variable 'z' is no input"),
        ({"variables": []}, "the kernel has no variable"),
        ({"name": ""}, "cannot name a kernel"),
        ({"inputs": {"x": np.ones(2), "y": np.array([1.0, np.inf])}}, "input y has an entry that is not finite"),
        ({"inputs": {"x": np.ones(2), "y": np.array([1j, 2j])}}, "an operand of type ndarray"),
        (
            {"inputs": {"x": np.ones(2, dtype=int), "y": np.array([2, 2**60 + 1])}, "variables": "y"},
            "binary64 cannot hold",
        ),
        ({"inputs": [1.0]}, "the inputs of the kernel are no mapping"),
        ({"inputs": {"x": 3, "y": 4}}, "the kernel has no variable"),
    ],
)
def test_unusable_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    """One sentence that names the culprit."""
    given = {"inputs": {"x": np.ones(2), "y": np.ones(2)}, "formats": "float16", **options}
    with pytest.raises(InputRejected, match=message.replace("(", "[(]")):
        kernel_report(dot, given.pop("inputs"), **given)


def test_outputs_without_a_usable_name_are_refused() -> None:
    """Names go into ids of tensors and into bounds."""
    with pytest.raises(InputRejected, match="an output named 'a\\\\n'"):
        kernel_report(lambda x: {"a\n": x}, {"x": 1.0}, formats="float16")
    with pytest.raises(InputRejected, match="the kernel returns nothing"):
        kernel_report(lambda x: {}, {"x": 1.0}, formats="float16")


def test_values_near_the_end_of_binary64() -> None:
    """Norms whose squares overflow are bounded and shown all the same."""
    x = np.array([1.0e308, -1.0e308])
    claim = kernel_report(lambda x: x * 1.1 - x, {"x": x}, formats="float64").claims[0]
    assert claim.verdict is Verdict.CERTIFIED
    assert 1e290 < float.fromhex(claim.bounds["eps_0"]) < 1e293
    assert 14.0 < float(claim.display["digits_norm"]) < 16.0


def test_claims_state_what_they_assume_of_the_library() -> None:
    """A kernel that calls exp has one sentence more among the assumptions of its claims; others have not."""
    kernels = (lambda x: np.exp(x), lambda x: -x)
    called, uncalled = (kernel_report(kernel, {"x": np.ones(2)}, formats="float32").claims for kernel in kernels)
    within = (
        "exp of numpy in float32 returns a number within 2.52 ulp of the exact result, in the range of the function"
    )
    assert all(within in claim.assumptions for claim in called)
    assert not any("ulp" in text for claim in uncalled for text in claim.assumptions)


def test_the_library_is_chosen_by_name_or_given() -> None:
    """A smaller error makes a smaller bound, in every claim that calls; what is unknown of a library is refused."""

    def eps(libm: Any, format: str = "float32") -> float:
        claim = kernel_report(lambda x: np.exp(x), {"x": np.ones(2)}, formats=format, libm=libm).claims[0]
        return float.fromhex(claim.bounds["eps_0"])

    assert eps("correct") < eps("1ulp") < eps("torch") < eps(None) == eps("numpy") == eps("numpy/float32")
    assert eps(None, "float64") == eps("numpy/float64", "float64") < eps(Libm("mine", {"exp": 9.0}), "float64")
    with pytest.raises(InputRejected, match="there is no math library 'mkl'; use one of numpy, torch, correct"):
        eps("mkl")
    with pytest.raises(InputRejected, match="no error of sigmoid is known for torch in float32"):
        kernel_report(lambda x: sigmoid(x), {"x": np.ones(2)}, formats="float32", libm="torch")


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (lambda x: 1.0 / (x - 1.0), "division by an enclosure that contains 0"),
        (lambda x: np.sqrt(x - 2.0), "root of an enclosure"),
        (lambda x: np.log(x - 1.0), "logarithm of an enclosure"),
    ],
)
def test_what_is_not_defined_is_no_overflow(kernel: Any, reason: str) -> None:
    """The program returns an infinity or a NaN, but nothing overflows: undecided, and the reason names the operation."""
    claims = by_id(kernel_report(kernel, {"x": np.ones(2)}, formats="float16"))
    assert claims["range/float16/serial/point"].verdict is Verdict.UNDECIDED
    assert reason in claims["range/float16/serial/point"].reason
    assert claims["rounding/float16/serial/point"].verdict is Verdict.UNDECIDED
