"""`certify run`: reports and exit codes."""

from __future__ import annotations

import json
import os
import re

import pytest
from certify.cases.case import MOST_UNASKED
from certify.cli.options import METHODS
from command_lines import process

from certify.arithmetic import FORMATS
from certify.certificate import Verdict, decode, encode, read
from certify.graph.orders import ORDERS


def test_a_certified_state(certify, state_file):
    """Exit code 0, a valid report in the file, nothing on standard output, the verdict first on standard error."""
    result = certify("run", state_file(), "-o", "report.json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    report = read("report.json")
    assert report.verdict is Verdict.CERTIFIED
    first = result.stderr.splitlines()[0]
    assert "polyprox" in first and "p = 3" in first and "certified" in first
    assert first.split("W ")[1][:8] == report.subject["tensors"]["W"]["sha256"][:8]


def test_the_report_goes_to_standard_output(certify, state_file):
    """Without -o, and with -o -, standard output is the report, byte for byte, and nothing else."""
    path = state_file()
    certify("run", path, "-o", "report.json")
    with open("report.json", "rb") as stream:
        data = stream.read()
    for output in ([], ["-o", "-"]):
        result = certify("run", path, *output)
        assert result.exit_code == 0
        assert result.stdout_bytes == data
        assert "on standard output" in result.stderr


@pytest.mark.parametrize("name", ["state.npz", "state.safetensors"])
def test_the_state_comes_from_standard_input(certify, state_file, name):
    """- reads either format, and the report is that of the file."""
    path = state_file(name)
    piped = certify("run", "-", input=path.read_bytes())
    assert piped.exit_code == 0, piped.stderr
    assert piped.stdout_bytes == certify("run", path).stdout_bytes


def test_an_undecided_state(certify, state_file):
    """A ball so large that float16 may overflow somewhere in it: exit code 1, the report written all the same."""
    result = certify(
        "run", state_file(), "--format", "float16", "--radius", "17", "--methods", "none", "-o", "report.json"
    )
    assert result.exit_code == 1, result.stderr
    assert read("report.json").verdict is Verdict.UNDECIDED
    assert "may overflow" in result.stderr


def test_a_refuted_state(certify, state_file):
    """rho beyond float16: exit code 4, the report written all the same, and the culprit named."""
    result = certify("run", state_file(rho=1e9), "--format", "float16", "--methods", "none", "-o", "report.json")
    assert result.exit_code == 4, result.stderr
    assert read("report.json").verdict is Verdict.REFUTED
    assert "input rho overflows" in " ".join(result.stderr.split())


def test_a_trajectory(certify, trajectory_file):
    """The claims of state K end in /state=K, and each state has its table."""
    result = certify("run", trajectory_file(3), "--methods", "face", "-o", "report.json")
    ends = {claim.id.split("/state=")[1] for claim in read("report.json").claims if "/state=" in claim.id}
    assert ends == {"0", "1", "2"}
    lines = result.stderr.splitlines()
    assert [line for line in lines if re.fullmatch("State .", line)] == ["State 0", "State 1", "State 2"]
    centres = [line for line in lines if re.fullmatch("State .: the centre is .* from the state", line)]
    assert len(centres) == 3


def test_a_long_trajectory_has_one_table(certify, trajectory_file):
    """Beyond four states the worst of all is shown, here the overflow of rho = 1e5 in float16 at state 5."""
    result = certify("run", trajectory_file(6), "--radius", "0", "--methods", "none", "-o", "report.json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("verdict") == 1 + result.stderr.count(".verdict")
    assert "Worst of 6 states" in result.stderr
    assert "input rho overflows at state 5" in " ".join(result.stderr.split())


def test_the_face_test_is_made_unasked_and_does_not_count(certify, state_file):
    """Without --methods the face test of a small state, whose refutation leaves the verdict; none with --methods none."""
    for options, made in (([], ["contraction/face"]), (["--methods", "none"], [])):
        assert certify("run", state_file(gamma=3.0), *options, "-o", "report.json").exit_code == 0
        report = read("report.json")
        found = [c for c in report.claims if c.kind == "contraction"]
        assert [c.id for c in found] == made
        assert all(c.verdict is Verdict.REFUTED and c.id not in report.required for c in found)


def test_a_state_of_many_variables_is_not_tested_unasked(certify, monkeypatch, state_file):
    """Above the number of variables that the help page names."""
    monkeypatch.setattr("certify.cases.polyprox.case.MOST_UNASKED", 2)
    assert certify("run", state_file(), "-o", "report.json").exit_code == 0
    assert not [c for c in read("report.json").claims if c.kind == "contraction"]
    assert certify("run", state_file(), "--methods", "face", "--format", "float64", "-o", "report.json").exit_code == 0
    assert [c for c in read("report.json").claims if c.kind == "contraction"]


def test_all_methods_can_be_asked_for(certify, state_file):
    """With all four, one that is undecided makes the run so."""
    result = certify("run", state_file(), "--methods", ",".join(METHODS), "-o", "report.json")
    assert result.exit_code == 1, result.stderr
    verdicts = {c.id: c.verdict for c in read("report.json").claims if c.kind == "contraction"}
    assert list(verdicts) == [f"contraction/{method}" for method in METHODS]
    assert verdicts["contraction/global"] is Verdict.UNDECIDED
    assert verdicts["contraction/face"] is Verdict.CERTIFIED


@pytest.mark.parametrize(
    ("changes", "methods", "code"),
    [({}, "global", 1), ({}, "local,face", 1), ({"gamma": 3.0}, "face", 4), ({"gamma": 3.0}, "none", 0)],
)
def test_methods_that_are_named_count(certify, state_file, changes, methods, code):
    """The verdict rests on the stage if --methods says so: here undecided, undecided in float16, refuted, left out."""
    result = certify("run", state_file(**changes), "--methods", methods, "-o", "report.json")
    assert result.exit_code == code, result.stderr
    named = [c.parameters["method"] for c in read("report.json").claims if c.kind == "contraction"]
    assert named == ([] if methods == "none" else methods.split(","))


def test_options_of_the_stage_reach_the_report(certify, state_file):
    """--tol exactly, the step by name; methods once each and in their order; the summary says so."""
    options = ["--methods", "face, local,face", "--tol", "0.0625", "--step", "new", "--format", "float64"]
    result = certify("run", state_file(), *options, "-o", "report.json")
    assert result.exit_code == 0, result.stderr
    claims = [c for c in read("report.json").claims if c.kind == "contraction"]
    assert [c.id for c in claims] == ["contraction/local", "contraction/face"]
    assert {(c.parameters["tol"], c.parameters["step"]) for c in claims} == {("0x1p-4", "new")}
    assert "Fixed stage, new step: contraction, and updates to within 0.0625" in result.stderr


def test_the_methods_are_those_of_the_case():
    """The names in the help page, which imports no case, are those that exist."""
    from certify.cases.polyprox.stage.methods import METHODS as OF_THE_CASE

    assert tuple(OF_THE_CASE) == METHODS


def test_formats_that_overflow_leave_the_rest(certify, state_file):
    """rho beyond float16: the stage is certified in float64 all the same."""
    result = certify("run", state_file(rho=1e9), "--methods", "face", "-o", "report.json")
    assert result.exit_code == 1, result.stderr
    verdicts = {c.id: c.verdict for c in read("report.json").claims if c.kind == "updates"}
    assert verdicts["updates/float16"] is Verdict.UNDECIDED
    assert verdicts["updates/float64"] is Verdict.CERTIFIED


def test_options_reach_the_report(certify, state_file):
    """Formats once each under their own names and from coarse to fine, the radius exactly, the samples counted."""
    formats = ["--format", "float64", "--format", "binary32", "--format", "float32"]
    result = certify(
        "run", state_file(), *formats, "--radius", "0.5", "--samples", "2", "--update-tol", "0.125", "--methods", "none"
    )
    assert result.exit_code == 0, result.stderr
    claims = [c for c in json.loads(result.stdout)["claims"] if c["kind"] == "rounding"]
    assert list(dict.fromkeys(c["parameters"]["format"] for c in claims)) == ["float32", "float64"]
    balls = [c for c in claims if c["parameters"]["region"]["kind"] == "ball"]
    assert {c["parameters"]["region"]["radius"] for c in balls} == {"0x1p-1"}
    assert {c["observed"]["samples"] for c in balls if "samples" in c["observed"]} == {2}
    assert "proved enough for 0.125" in " ".join(result.stderr.split())


def test_a_confidence_reaches_the_report(certify, state_file):
    """Probable bounds at the state and on the ball, in a section of their own; the verdict and its format stay."""
    arguments = ("run", state_file(), "--format", "float32", "--methods", "none", "--samples", 0)
    plain, likely = certify(*arguments), certify(*arguments, "--confidence", "0.999999")
    assert likely.exit_code == plain.exit_code == 0, likely.stderr
    assert "With probability at least 0.999999, under stochastic rounding" in likely.stderr
    before, after = (decode(result.stdout_bytes, "report") for result in (plain, likely))
    assert after.required == before.required and after.verdict is before.verdict
    added = [claim.id for claim in after.claims if claim not in before.claims]
    assert added == ["rounding-probable/float32/serial/point", "rounding-probable/float32/serial/ball"]


def test_no_ball_and_no_samples(certify, state_file):
    """Radius 0 leaves the ball out of the report and of the table; -0 is 0."""
    result = certify("run", state_file(), "--radius=-0", "--samples", "0", "--methods", "none", "-o", "report.json")
    assert result.exit_code == 0, result.stderr
    assert "ball" not in result.stderr.lower()
    assert not any("ball" in claim.id for claim in read("report.json").claims)


def test_help_names_every_format_and_order(certify):
    """The names in the help page, which imports no arithmetic, are those that exist."""
    text = certify("run", "--help").stdout
    assert all(name in text for name in (*FORMATS, *ORDERS))
    assert f"at most {MOST_UNASKED} variables" in " ".join(text.split())


def test_an_interrupted_write_leaves_the_old_report(certify, state_file, monkeypatch, tmp_path):
    """Ctrl-C just before the new file takes its place: exit code 130, the old bytes, no leavings."""
    path = state_file()
    report = tmp_path / "report.json"
    report.write_bytes(b"old")

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    result = certify("run", path, "-o", report)
    assert result.exit_code == 130
    assert report.read_bytes() == b"old"
    assert {p.name for p in tmp_path.iterdir()} == {"state.npz", "report.json"}


def test_reports_do_not_depend_on_the_surroundings(certify, state_file, tmp_path):
    """Hash seed, locale, time zone, width, directory and file name leave no trace in the bytes."""
    first, second = state_file("a.npz"), state_file("b.npz")
    (tmp_path / "elsewhere").mkdir()
    here = {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "COLUMNS": "40"}
    there = {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "COLUMNS": "160"}
    one = process("run", first, env=here, cwd=tmp_path)
    two = process("run", second, "-o", "report.json", env=there, cwd=tmp_path / "elsewhere")
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    assert two.stdout == b""
    assert one.stdout == (tmp_path / "elsewhere" / "report.json").read_bytes()
    assert one.stdout == certify("run", first).stdout_bytes
    assert encode(read(tmp_path / "elsewhere" / "report.json")) == one.stdout
