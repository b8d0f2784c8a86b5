"""A case is a folder and a registration: everything treats one from elsewhere like the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def installed(tmp_path):
    """A directory in which the case is registered, and a function that runs a module there."""
    site = tmp_path / "site"
    info = site / "toy_case-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-case\nVersion: 1\n")
    lines = ["[certify.cases]", "toy = toy_case.case:CASE", "[certify.checkers]", "toy = toy_case.checker", ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(HERE)]), "NO_COLOR": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return tmp_path, run


def test_a_case_from_elsewhere_is_run_checked_and_shown(installed):
    """Demo, run, check, show and the page, each by its usual command."""
    folder, run = installed
    made = run("certify.cli.main", "demo", "toy")
    assert made.returncode == 0, made.stderr
    assert "Kernel mean: rounding and range" in made.stderr and "margin 57/32" in made.stderr
    assert "the mean is one of the entries (nowhere)" in made.stderr
    again = run("certify.cli.main", "run", "--case", "toy", "demo/toy/states.safetensors", "-o", "report.json")
    assert again.returncode == 0, again.stderr
    assert (folder / "report.json").read_bytes() == (folder / "demo/toy/report.json").read_bytes()
    checked = run("certify.checker", "demo/toy/report.json", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    findings = {x["id"]: x["verdict"] for x in json.loads(checked.stdout)}
    assert findings["margin/below-largest"] == "certified"
    assert findings["counterexample/mean-is-median"] == "refuted"
    assert findings["rounding/float16/serial/point/kernel=mean"] == "certified"
    page = run("certify.cli.main", "html", "demo/toy/report.json", "--state", "demo/toy/states.safetensors")
    assert page.returncode == 0, page.stderr
    gate = run("certify.cli.main", "gate", "report.json", "demo/toy/report.json", "--fail-on", "margin:0%")
    assert gate.returncode == 0, gate.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["claims"][-2]["bounds"].update(margin="29/16"),
        lambda r: r["claims"][-2].update(statement="The mean of x is small."),
        lambda r: r["claims"][0]["bounds"].update(eps_0="0x1.0p-40"),
        lambda r: r["claims"][0]["parameters"].update(kernel="other"),
        lambda r: r["claims"][0].update(id="rounding/float16/serial/point"),
        lambda r: r["subject"]["controls"].update(share="2/3"),
        lambda r: r["subject"]["kernels"]["mean"]["inputs"].update(x="y"),
        lambda r: r["subject"]["kernels"]["mean"]["graph"].update(sha256="0" * 64),
        lambda r: r["subject"]["kernels"].update({"": r["subject"]["kernels"]["mean"]}),
        lambda r: r["subject"].update(case="polyprox"),
        lambda r: r["subject"].update(case="kernel"),
        lambda r: r["claims"][-1].update(verdict="certified", reason=""),
    ],
)
def test_what_is_altered_is_rejected(installed, change):
    """A number, words, a kernel, a control, a digest or the case of a report, changed after the run."""
    folder, run = installed
    assert run("certify.cli.main", "demo", "toy").returncode == 0
    path = folder / "demo/toy/report.json"
    report = json.loads(path.read_text())
    change(report)
    path.write_text(json.dumps(report))
    checked = run("certify.checker", "demo/toy/report.json", "--state", "demo/toy/states.safetensors")
    assert checked.returncode == 3, checked.stdout + checked.stderr
    assert "rejected" in checked.stdout or "certify.checker:" in checked.stderr


def test_an_unknown_case_is_beyond_the_checker(installed):
    """A report on a case that is not installed is no error, and proves nothing."""
    folder, run = installed
    assert run("certify.cli.main", "demo", "toy").returncode == 0
    path = folder / "demo/toy/report.json"
    path.write_text(path.read_text().replace('"case": "toy"', '"case": "another"'))
    checked = run("certify.checker", "demo/toy/report.json", "--state", "demo/toy/states.safetensors")
    assert checked.returncode == 1
    assert "unknown to this checker" in checked.stderr


def test_what_the_case_has_not_is_refused(installed):
    """Commands about repeated updates or tuning name the case and what it has not."""
    _, run = installed
    assert run("certify.cli.main", "demo", "toy").returncode == 0
    for command in (["updates"], ["tune", "--tol", "1e-3"]):
        refused = run("certify.cli.main", command[0], "demo/toy/states.safetensors", "--case", "toy", *command[1:])
        assert refused.returncode == 3
        assert "the case toy has not" in refused.stderr
    refused = run("certify.cli.main", "demo", "tyo")
    assert refused.returncode == 2
    assert "use one of polyprox" in refused.stderr
