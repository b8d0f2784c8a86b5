"""The files of a report on a kernel: the report, its graph and its inputs, each of its own digest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certify.cli.main import main
from click.testing import CliRunner
from user_kernels import Case, cases, growing

from certify import InputRejected, KernelReport, kernel_report, load, write_kernel_report
from certify.certificate import encode, read
from certify.graph.graph_file import graph_tensors
from certify.states import digest


def report_of(case: Case, **options: Any) -> KernelReport:
    """A report on a kernel in two formats, on a ball too."""
    kernel, inputs, center = case
    return kernel_report(
        kernel, inputs, **{"formats": ["float16", "float32"], "center": center, "radius": 0.01, **options}
    )


@pytest.mark.parametrize("name", list(cases(0)))
def test_a_report_names_the_files_beside_it(tmp_path: Path, name: str) -> None:
    """By their digests; the tensors of the inputs are those of the subject, and the graph is the one that was certified."""
    report = report_of(cases(5)[name])
    write_kernel_report(report, tmp_path / "report.json")
    assert (tmp_path / "report.json").read_bytes() == encode(report)
    subject = read(tmp_path / "report.json").subject
    assert set(subject) == {"case", "kernel", "graph", "tensors"}
    (inputs,) = tmp_path.glob("inputs-*.safetensors")
    files = {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (inputs, tmp_path / subject["graph"]["file"])
    }
    for path, sha256 in files.items():
        assert path.name == f"{path.name.split('-')[0]}-{sha256[:16]}.safetensors"
    assert subject["graph"]["sha256"] == files[tmp_path / subject["graph"]["file"]]
    tensors = load(inputs).tensors
    assert {key: digest(array) for key, array in tensors.items()} == subject["tensors"]
    graph, wanted = load(tmp_path / subject["graph"]["file"]), graph_tensors(report.graph)
    names = json.loads(graph.metadata["inputs"])
    assert names == [key for key in cases(5)[name][1] if key in tensors]
    assert graph.metadata == wanted.metadata
    for key, array in wanted.tensors.items():
        np.testing.assert_array_equal(graph.tensors[key], array)


def test_reports_of_several_kernels_share_a_folder(tmp_path: Path) -> None:
    """Files of one report are never those of another, and a second writing changes nothing."""
    for name, case in cases(1).items():
        report_of(case).write(tmp_path / f"{name}.json")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 3 * len(cases(1))
    for name, case in cases(1).items():
        report_of(case).write(tmp_path / f"{name}.json")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Is refused, in one sentence."""
    with pytest.raises(InputRejected, match="cannot write"):
        report_of(cases(1)["dot"]).write(tmp_path / "missing" / "report.json")


@pytest.mark.parametrize("name", list(cases(0)))
def test_the_checker_proves_a_report_again(tmp_path: Path, name: str) -> None:
    """Every claim, from the graph and the inputs beside the report alone, which it finds by their digests."""
    formats = ["float16", "bfloat16", "float32", "float64"]
    report_of(cases(4)[name], formats=formats).write(tmp_path / "report.json")
    report_of(cases(3)[name]).write(tmp_path / "another.json")
    checked = CliRunner().invoke(main, ["check", str(tmp_path / "report.json")])
    assert checked.exit_code == 0, checked.output
    assert "Of 24 claims 24 are certified and 0 refuted, proved again here" in checked.stdout


@pytest.mark.parametrize("radius", [0.0, 2.0**-30])
def test_the_checker_proves_an_overflow_again(tmp_path: Path, radius: float) -> None:
    """It replays the program from the witness."""
    kernel_report(growing, {"x": np.array([[1.0, 20.0]])}, formats="float16", radius=radius).write(
        tmp_path / "report.json"
    )
    checked = CliRunner().invoke(main, ["check", str(tmp_path / "report.json")])
    assert checked.exit_code == 0, checked.output
    assert f"{2 if radius else 1} refuted, proved again here" in checked.stdout


def test_show_a_report_on_a_kernel(tmp_path: Path) -> None:
    """The summary speaks of the kernel, of its center and of its outputs."""
    report_of(cases(2)["residual_mlp"]).write(tmp_path / "report.json")
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "report.json")])
    text = " ".join(shown.stdout.split())
    assert shown.exit_code == 0
    assert text.startswith("kernel residual_mlp: certified in float16, float32")
    assert "Ball: every x within 0.01 of the state; the largest error of 4 states in it is a sample" in text
    assert "Use float16, the coarsest format certified: the kernel is off by at most" in text
    assert "in each output (Frobenius norm)." in text
    assert "W" not in text.split("Report:")[0]


def test_show_the_largest_error_of_several_outputs(tmp_path: Path) -> None:
    """One row a format, and the bound of its worst output."""
    report = report_of(cases(2)["masked_attention"], formats="float16", center=None, radius=0.0)
    report.write(tmp_path / "report.json")
    text = CliRunner().invoke(main, ["show", str(tmp_path / "report.json")]).stdout
    largest = max(float.fromhex(bound) for bound in report.claims[0].bounds.values())
    row = next(line for line in text.splitlines() if line.startswith("float16")).split()
    assert largest <= float(row[3]) < 1.1 * largest


def test_show_an_overflow(tmp_path: Path) -> None:
    """The register that overflows is named beside the verdict, and the advice is the format that holds."""
    kernel_report(growing, {"x": np.array([20.0])}, formats=["float16", "float32"]).write(tmp_path / "report.json")
    text = CliRunner().invoke(main, ["show", str(tmp_path / "report.json")]).stdout
    assert "refuted, q overflows" in text
    assert "Use float32, the coarsest format certified" in " ".join(text.split())


def test_show_the_claims_of_a_kernel(tmp_path: Path) -> None:
    """Statements and measurements in words; series, which a page draws, are left out."""
    report_of(cases(2)["chain"]).write(tmp_path / "report.json")
    text = CliRunner().invoke(main, ["show", "--claims", str(tmp_path / "report.json")]).stdout
    assert "growth" not in text
    assert "Observed: ." not in text
    assert "the graph file is the user's kernel: the checker does not see its source" in " ".join(text.split())
