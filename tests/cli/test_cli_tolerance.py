"""`certify tolerance`: lines that can be pasted into a test, and hold."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from command_lines import complaint
from kernel_files import write_kernels


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    """The module in the current directory; imports of a test are forgotten after it."""
    write_kernels(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("model", "helping"):
        sys.modules.pop(name, None)


@pytest.fixture
def inputs(tmp_path):
    """A and B."""
    with np.load(tmp_path / "inputs.npz") as saved:
        return saved["A"], saved["B"]


LINE = re.compile(r"np\.testing\.assert_allclose\(.*, atol=(\S+), rtol=(\S+)\)  # largest bound (\S+)")


def pair(line):
    """atol, rtol and the largest bound that a line names."""
    return tuple(map(float, LINE.fullmatch(line).groups()))


def test_the_line_holds_when_it_is_run(certify, inputs):
    """It is executed as printed, on what NumPy's float32 returns; and it fails for a wrong result."""
    result = certify("tolerance", "model:matmul", "inputs.npz", "--format", "float32")
    assert result.exit_code == 0, result.stderr
    about, line = result.stdout.splitlines()
    assert about == (
        "# proved: matmul in float32 with sums in any order against matmul in float64 with sums in any order"
    )
    A, B = inputs
    found = {"np": np, "actual": A.astype(np.float32) @ B.astype(np.float32), "expected": A @ B}
    exec(line, found)
    found["actual"][1, 2] += np.float32(1e-4)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        exec(line, found)


def test_a_line_for_each_output_in_torch(certify):
    """bfloat16 is compared in torch, in float64."""
    result = certify(
        "tolerance",
        "model:two",
        "inputs.npz",
        "--format",
        "bfloat16",
        "--order",
        "any-order:float32",
        "--against",
        "float32",
    )
    assert result.exit_code == 0, result.stderr
    about, first, second = result.stdout.splitlines()
    assert "in bfloat16 with sums in any order in float32 against two in float32" in about
    assert first.startswith("torch.testing.assert_close(actual['h'].double(), expected['h'].double(), atol=")
    assert second.startswith("torch.testing.assert_close(actual['s'].double(), expected['s'].double(), atol=")


def test_the_pair_for_an_rtol(certify):
    """rtol = 0 gives the largest bound, a larger one a smaller atol; the number is printed as it was given."""

    def printed(*options):
        return pair(
            certify("tolerance", "model:matmul", "inputs.npz", "--format", "float16", *options).stdout.splitlines()[1]
        )

    atol, rtol, largest = printed("--rtol", "0")
    assert rtol == 0 and largest <= atol <= 1.01 * largest
    smaller, given, _ = printed("--rtol", "0.001")
    assert given == 0.001 and smaller < atol
    exact = printed("--rtol", "0", "--against", "exact")[0]
    assert exact < atol or exact == pytest.approx(atol, rel=0.01)


def test_on_a_ball(certify):
    """Larger than at the inputs, and it says where."""
    at = certify("tolerance", "model:matmul", "inputs.npz", "--format", "float16", "--style", "numpy")
    ball = certify("tolerance", "model:matmul", "inputs.npz", "--format", "float16", "--center", "A", "--radius", "0.5")
    assert ball.stdout.splitlines()[0].endswith(", for every A within 0.5 of the inputs")
    assert pair(ball.stdout.splitlines()[1])[2] > pair(at.stdout.splitlines()[1])[2]


def test_no_tolerance(certify):
    """An overflow is named by its line; a kernel that cannot be traced too; an unknown format is a mistake of usage."""
    message = complaint(certify("tolerance", "model:squares", "inputs.npz", "--format", "float16"), 3)
    assert "no tolerance for squares in float16" in message and "model.py:" in message
    assert "numpy.sort" in complaint(certify("tolerance", "model:sorting", "inputs.npz", "--format", "float16"), 3)
    assert "no format" in complaint(certify("tolerance", "model:matmul", "inputs.npz", "--format", "fp16"), 2)
    assert "no format" in complaint(
        certify("tolerance", "model:matmul", "inputs.npz", "--format", "float16", "--against", "best"), 2
    )
    assert "missing option '--format'" in complaint(certify("tolerance", "model:matmul", "inputs.npz"), 2)


def test_the_math_library(certify):
    """A less accurate library has a larger tolerance."""

    def largest(*options):
        result = certify("tolerance", "model:exponential", "inputs.npz", "--format", "float32", *options)
        assert result.exit_code == 0, result.stderr
        return pair(result.stdout.splitlines()[1])[2]

    assert largest("--libm", "correct") < largest("--libm", "torch") < largest() == largest("--libm", "numpy")
    assert "no math library" in complaint(
        certify("tolerance", "model:exponential", "inputs.npz", "--format", "float32", "--libm", "mkl"), 2
    )
