"""The plugin in runs of pytest: its fixtures, its reports, and what it costs those who do not use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from certify.certificate import read
from certify.testing.naming import report_path

pytest_plugins = ["pytester"]

TESTS = """
import numpy as np
import pytest

def square(x):
    s = 0.1 * x
    return {"s": s}

X = {"x": np.array([0.25, 0.75])}

def test_passes(assert_certified):
    assert assert_certified(square, X, 1e-3, format="float16").norm["s"] < 1e-3

def test_fails(assert_certified):
    assert_certified(square, X, 1e-9, format="float16")

def test_within(assert_within):
    assert assert_within(np.float32(0.1) * np.float32(0.25), lambda x: 0.1 * x, {"x": 0.25}, format="float32").passed

def test_not_within(assert_within):
    assert_within(np.float32(0.0250001), lambda x: 0.1 * x, {"x": 0.25}, format="float32")

def test_cannot_be_traced(assert_certified):
    assert_certified(lambda x: np.sort(x), X, 1.0)
"""

REPORTS = """
import numpy as np
import pytest

X = {"x": np.array([0.3, 0.7])}

class TestSquare:
    @pytest.mark.parametrize("format", ["float16", "float32"])
    def test_format(self, certify_report, format):
        assert certify_report(lambda x: x * x, X, formats=format).verdict == "certified"

def test_two(certify_report):
    for k in (1, 2):
        certify_report(lambda x: x * x * k, X, formats="float16", name=f"square {k}")
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty project; warnings of its runs are errors, as in this one."""
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    return pytester


def reports(folder: Path) -> dict[str, str]:
    """The reports below a folder, and the kernel of each."""
    found = sorted(folder.rglob("*.json"))
    return {path.relative_to(folder).as_posix(): read(path).subject["kernel"] for path in found}


def test_assert_certified(run: pytest.Pytester) -> None:
    """A failure ends in the user's own line and names the place; a kernel that cannot be traced fails with its line."""
    run.makepyfile(test_user=TESTS)
    result = run.runpytest()
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        [
            '>       assert_certified(square, X, 1e-9, format="float16")',
            "E       AssertionError: square in float16 is not certified at the inputs: output s is proved to be within *"
            "arises at register s (test_user.py:*)",
            ">       assert_within(np.float32(0.0250001), *",
            "E       AssertionError: <lambda> in float32 with sums in any order is not within its bound: output 0, *",
            "*TraceRefused: the kernel uses numpy.sort at test_user.py:*",
        ]
    )
    result.stdout.no_fnmatch_line("*certified.py:*AssertionError")
    result.stdout.no_fnmatch_line("*within.py:*AssertionError")


EXPECTED = {
    "test_user.py/TestSquare.test_format[float16]/report.json": "<lambda>",
    "test_user.py/TestSquare.test_format[float32]/report.json": "<lambda>",
    "test_user.py/test_two/report-2.json": "square 2",
    "test_user.py/test_two/report.json": "square 1",
}


def test_reports_of_a_run(run: pytest.Pytester) -> None:
    """A folder a test, named by the test, with the files that a report needs; a second run writes the same bytes."""
    run.makepyfile(test_user=REPORTS)
    run.runpytest("--certify-report", "out").assert_outcomes(passed=3)
    folder = run.path / "out"
    assert reports(folder) == EXPECTED
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    run.runpytest("--certify-report", "out").assert_outcomes(passed=3)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    for path in folder.rglob("*.json"):
        assert (path.parent / read(path).subject["graph"]["file"]).is_file()
        assert len(list(path.parent.glob("inputs-*.safetensors"))) == 1


def test_directory_of_the_configuration(run: pytest.Pytester) -> None:
    """Relative to the root, and the option has the last word."""
    run.makeini("[pytest]\ncertify_report_dir = kept\n")
    run.makepyfile(test_user=REPORTS)
    run.runpytest().assert_outcomes(passed=3)
    assert reports(run.path / "kept") == EXPECTED
    run.runpytest("--certify-report=other", "-k", "two").assert_outcomes(passed=1, deselected=2)
    assert len(reports(run.path / "other")) == 2


def test_no_directory_no_files(run: pytest.Pytester) -> None:
    """Without a directory the report is returned all the same, and nothing is written."""
    run.makepyfile(test_user=REPORTS)
    before = set(run.path.iterdir())
    run.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=3)
    assert {path.name for path in set(run.path.iterdir()) - before} <= {"__pycache__"}


def test_the_example_of_the_page(run: pytest.Pytester) -> None:
    """It passes as it stands, and fails with the message shown for a smaller eps."""
    page = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text("utf-8")
    _, code, rest = page.split("```", 2)
    code = code.removeprefix("python\n")
    message = rest.split("```text\n")[1].split("```")[0]
    (run.path / "test_mlp.py").write_text(code, "utf-8")
    run.runpytest().assert_outcomes(passed=1)
    (run.path / "test_mlp.py").write_text(code.replace("eps=0.06", "eps=0.05"), "utf-8")
    result = run.runpytest()
    result.assert_outcomes(failed=1)
    assert "E       " + " ".join(message.split()) in result.stdout.lines


def test_the_fixtures_are_listed(run: pytest.Pytester) -> None:
    """With their first lines."""
    result = run.runpytest("--fixtures")
    result.stdout.fnmatch_lines_random(["*assert_certified*", "*assert_within*", "*certify_report*"])
    run.runpytest("--help").stdout.fnmatch_lines(["*--certify-report=DIR*"])


def test_a_run_that_does_not_use_it_does_not_load_numpy(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start-up and collection import the plugin and nothing that it would need."""
    run.makepyfile(
        """
        import sys

        def test_light(request):
            assert request.config.pluginmanager.has_plugin("certify.testing.plugin")
            heavy = ("numpy", "scipy", "flint", "certify.graph", "certify.cases", "jsonschema")
            assert not [name for name in heavy if name in sys.modules]
        """
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "certify.testing.plugin"]
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    done = subprocess.run(command, cwd=run.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("nodeid", "path"),
    [
        ("tests/test_a.py::test_b", "tests/test_a.py/test_b"),
        ("test_a.py::TestB::TestC::test_d[x-1]", "test_a.py/TestB.TestC.test_d[x-1]"),
        ("test_a.py::test_b[a/b::c|d]", "test_a.py/test_b[a%2Fb%3A%3Ac%7Cd]"),
        ("../test_a.py::test_b[..]", "%2E%2E/test_a.py/test_b[..]"),
        ("test_a.py::test_b[\u00fc~2]", "test_a.py/test_b[%C3%BC~2]"),
    ],
)
def test_names_of_reports(nodeid: str, path: str) -> None:
    """Readable where the id is plain, encoded where a file system may object, never outside the directory."""
    assert str(report_path(nodeid)) == f"{path}/report.json"
    assert str(report_path(nodeid, 2)) == f"{path}/report-2.json"


def test_long_names_are_cut_and_stay_apart() -> None:
    """Two parameters that differ at the end only."""
    first, second = (report_path(f"test_a.py::test_b[{'x' * 300}{k}]") for k in (1, 2))
    assert first != second
    assert len(first.parent.name) < 200
