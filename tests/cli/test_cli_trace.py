"""`certify trace`: a kernel of one's own from the command line, and everything that may be wrong with it."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from command_lines import complaint
from kernel_files import MODEL, write_kernels

from certify.certificate import Verdict, decode, read


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    """The module in the current directory; imports of a test are forgotten after it."""
    write_kernels(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("model", "other", "helping", "failing", "leaving", "needing"):
        sys.modules.pop(name, None)


def line_of(text):
    """The line of the module that holds a text."""
    return next(k for k, line in enumerate(MODEL.splitlines(), 1) if text in line)


def test_a_report_with_its_files(certify, tmp_path):
    """Exit code 0; report, graph and inputs; the summary on standard error; the claims are those of `kernel_report`."""
    (tmp_path / "out").mkdir()
    result = certify("trace", "model:two", "inputs.npz", "-o", "out/report.json", "--format", "float32")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert "kernel two: certified in float32" in result.stderr
    report = read(tmp_path / "out" / "report.json")
    assert report.subject["kernel"] == "two"
    assert sorted(report.subject["tensors"]) == ["A", "B"]  # n is a constant
    assert {claim.id for claim in report.claims} >= {"rounding/float32/serial/point", "range/float32/serial/point"}
    assert set(report.claims[0].bounds) == {"eps_h", "eps_s"}
    assert (tmp_path / "out" / report.subject["graph"]["file"]).is_file()
    assert len(list((tmp_path / "out").glob("inputs-*.safetensors"))) == 1


def test_a_report_on_standard_output(certify):
    """The same report, with a word about the files that it lacks."""
    result = certify("trace", "model:matmul", "inputs.npz", "--format", "float16", "--order", "any-order")
    assert result.exit_code == 0, result.stderr
    report = decode(result.stdout_bytes, "report")
    assert report.claims[0].id == "rounding/float16/any-order/point"
    assert "name one with -o to check it" in result.stderr


@pytest.mark.parametrize("command", ["trace", "tolerance", "tune"])
def test_a_center_without_a_radius_is_refused(certify, command):
    """It would change nothing, and look as if it did."""
    given = {
        "trace": ["model:matmul", "inputs.npz", "--format", "float16"],
        "tolerance": ["model:matmul", "inputs.npz", "--format", "float16"],
        "tune": ["inputs.npz", "--kernel", "model:matmul", "--tol", "0.1"],
    }[command]
    refused = certify(command, *given, "--center", "A")
    assert refused.exit_code == 3
    assert "the center 'A' is given, but no radius of the ball around it" in refused.stderr
    assert certify(command, *given, "--center", "A", "--radius", "0.01").exit_code == 0


def test_on_a_ball(certify):
    """--center and --radius add claims on the ball; without a name, where there are several, it is refused."""
    result = certify("trace", "model:matmul", "inputs.npz", "--format", "float16", "--center", "A", "--radius", 0.01)
    assert result.exit_code == 0, result.stderr
    ids = [claim.id for claim in decode(result.stdout_bytes, "report").claims]
    assert "rounding/float16/serial/ball" in ids
    message = complaint(certify("trace", "model:matmul", "inputs.npz", "--radius", 0.01), 3)
    assert "not which input moves" in message


def test_with_a_confidence(certify):
    """--confidence adds claims of their own and a section; the exit code is that of the proofs, and what is none is refused."""
    arguments = ("trace", "model:two", "inputs.npz", "--format", "float32")
    result = certify(*arguments, "--confidence", "0.9999")
    assert result.exit_code == 0, result.stderr
    assert "With probability at least 0.9999, under stochastic rounding" in result.stderr
    assert "no verdict rests on it" in result.stderr
    ids = [claim.id for claim in decode(result.stdout_bytes, "report").claims]
    assert "rounding-probable/float32/serial/point" in ids
    assert "stochastic" not in certify(*arguments).stderr
    assert "'2' is no confidence" in complaint(certify(*arguments, "--confidence", "2"), 3)
    message = complaint(certify(*arguments, "--confidence", "0.9", "--order", "fma"), 3)
    assert "stochastic rounding has no model of the order fma" in message


def test_a_path_to_a_file(certify, tmp_path):
    """A module that is not on the path, which imports its neighbour."""
    (tmp_path / "sub").mkdir()
    write_kernels(tmp_path / "sub", "other.py")
    result = certify("trace", "sub/other.py:matmul", "inputs.npz", "--format", "float32")
    assert result.exit_code == 0, result.stderr


def test_an_overflow_is_refuted(certify):
    """Exit code 4, with the line."""
    result = certify("trace", "model:squares", "inputs.npz", "--format", "float16")
    assert result.exit_code == 4, result.stderr
    report = decode(result.stdout_bytes, "report")
    assert report.verdict is Verdict.REFUTED
    (claim,) = [c for c in report.claims if c.kind == "range"]
    assert f"model.py:{line_of('return s * s')}" in claim.reason


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("model:branching", ["branches on", f"model.py:{line_of('if A[0, 0]')}", "; "]),
        ("model:sorting", ["numpy.sort", f"model.py:{line_of('np.sort')}"]),
        ("model:broken", ["broken fails at", f"model.py:{line_of('reshape(7')}", "ValueError"]),
        ("model:nothing", ["'model' has no 'nothing'"]),
        ("model:number", ["'model:number' is a int"]),
        ("model", ["'model' names no function; write MODULE:FUNCTION"]),
        (":matmul", ["names no function"]),
        ("modell:matmul", ["there is no module 'modell'"]),
        ("no.such:matmul", ["there is no module 'no.such'"]),
        ("no/such.py:matmul", ["there is no file 'no/such.py'"]),
        ("failing:f", ["importing 'failing' fails at failing.py:2: RuntimeError: not today"]),
        ("leaving:f", ["importing 'leaving' fails at leaving.py:1: SystemExit"]),
        ("needing:f", ["'needing' imports 'no_such_package', which is not installed"]),
    ],
)
def test_kernels_that_are_refused(certify, kernel, words):
    """Exit code 3 and one sentence that names the culprit, with its line where there is one."""
    message = complaint(certify("trace", kernel, "inputs.npz"), 3)
    assert all(word in message for word in words), message


def test_a_missing_tensor(certify, tmp_path):
    """The parameter is named, and what there is instead."""
    np.savez(tmp_path / "few.npz", A=np.ones((2, 8)))
    message = complaint(certify("trace", "model:matmul", "few.npz"), 3)
    assert "'few.npz' has no tensor for the parameter 'B', only 'A'" in message


def test_usage(certify):
    """Formats, orders and arguments that there are not: exit code 2."""
    assert "no format" in complaint(certify("trace", "model:matmul", "inputs.npz", "--format", "fp16"), 2)
    assert "no order model" in complaint(certify("trace", "model:matmul", "inputs.npz", "--order", "any"), 2)
    assert "missing argument 'STATE'" in complaint(certify("trace", "model:matmul"), 2)
    assert "is the input" in complaint(certify("trace", "model:matmul", "inputs.npz", "-o", "inputs.npz"), 3)


def test_the_math_library(certify):
    """--libm says what is assumed of exp; the claims state it; a name that there is not is a mistake of usage."""
    result = certify("trace", "model:exponential", "inputs.npz", "--format", "float32", "--libm", "cuda/float32")
    assert result.exit_code == 0, result.stderr
    (text,) = (text for text in decode(result.stdout_bytes, "report").claims[0].assumptions if "exp of" in text)
    assert text.startswith("exp of CUDA in float32 returns a number within 2.5 ulp of the exact result")
    message = complaint(certify("trace", "model:exponential", "inputs.npz", "--libm", "mkl"), 2)
    assert "there is no math library 'mkl'; use one of numpy, torch" in message


@pytest.mark.parametrize(
    ("kernel", "register", "line", "options"),
    [
        ("model:masked", "s", "s = np.where", []),
        ("model:lowest", "s", "s = np.finfo", []),
        ("model:accumulated", "y", "y = A @ B  # in float32", ["--order", "any-order:float32"]),
        ("model:accumulated", "y", "y = A @ B  # in float32", ["--order", "serial:float32"]),
    ],
)
def test_masks_and_big_constants(certify, tmp_path, kernel, register, line, options):
    """-1e9 in float16, finfo.min + (-16), a float32 sum rounded to float16 past 65504: node, register and source line."""
    A = np.full((1, 8), 128.0)  # the sum of squares is 131072
    np.savez(tmp_path / "big.npz", A=A, B=A.T.copy(), bias=np.full(2, -16.0), mask=np.arange(8))
    result = certify("trace", kernel, "big.npz", "--format", "float16", "-o", "report.json", *options)
    assert result.exit_code == 4, result.stderr
    (claim,) = [c for c in read(tmp_path / "report.json").claims if c.kind == "range"]
    place = f"register {register} (model.py:{line_of(line)})"
    assert claim.verdict is Verdict.REFUTED and re.fullmatch(
        re.escape(f"{place} overflows (node ") + r"[0-9]+, [A-Z]+(, element [0-9]+ of [0-9]+)?[)]", claim.reason
    )
    assert claim.observed["first_risk"] == place
    assert (claim.witness["layer"], claim.witness["register"]) == ("", register)
    assert f"{register} overflows" in " ".join(result.stderr.split())
    wide = certify("trace", kernel, "big.npz", "--format", "float32", "-o", "wide.json", *options)
    assert wide.exit_code == 0, wide.stderr
