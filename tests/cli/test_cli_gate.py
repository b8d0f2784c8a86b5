"""`certify gate`: exit codes, every kind of regression, every format, and what it refuses, through the real command."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema
from certify.cli.gate import FORMATS
from command_lines import complaint, process
from gate_files import CONTRACTION, RANGE, ROUNDING, UPDATES, bound, document, drop, put, weaken, write

DATA = Path(__file__).parents[1] / "data"
BALL = {"format": "float32", "region": {"kind": "ball", "radius": "0x1p-7"}}

#: What changed, the rules, and words of the failure, after the id of the claim; no words where the gate passes.
CASES = {
    "same": (None, [], ""),
    "same, strictest": (None, ["*:0"], ""),
    "lost claim": (drop(UPDATES), [], f"{UPDATES} is gone"),
    "lost refutation": (drop(RANGE), [], f"{RANGE} is gone; it was refuted"),
    "certified to undecided": (weaken(CONTRACTION), [], f"{CONTRACTION} was certified and is undecided: q >= 1"),
    "certified to refuted": (weaken(CONTRACTION, "refuted"), [], f"{CONTRACTION} was certified and is refuted"),
    "refuted to undecided": (weaken(RANGE), [], f"{RANGE} was refuted and is undecided"),
    "refuted to certified": (put(RANGE, verdict="certified"), [], f"{RANGE} was refuted and is certified"),
    "other region": (put(ROUNDING, parameters=BALL), [], f"{ROUNDING} its region was absent and is kind ball"),
    "other semantics": (put(ROUNDING, semantics="real"), [], f"{ROUNDING} its semantics was program and is real"),
    "new assumption": (put(ROUNDING, assumptions=["luck"]), [], f"{ROUNDING} assumes more: 'luck'"),
    "lost bound": (bound(CONTRACTION, "radius", None), [], f"{CONTRACTION} radius is no longer proved"),
    "worse relatively": (bound(ROUNDING, "eps_W", "0x1.2p-20"), ["eps_W:10%"], f"{ROUNDING} eps_W is worse by 12.5 %"),
    "worse by an ulp": (bound(CONTRACTION, "q", "0x1.e000000000001p-1"), ["q:0"], f"{CONTRACTION} q is worse by"),
    "worse absolutely": (bound(UPDATES, "count", "43"), ["count:2"], f"{UPDATES} count is worse by 7.5 %: 40 -> 43"),
    "smaller radius": (bound(CONTRACTION, "radius", "0x1p-8"), ["radius:1%"], f"{CONTRACTION} radius is worse by 50 %"),
    "worse in one kind": (bound(UPDATES, "count", "43"), ["updates/*:*:1%"], f"{UPDATES} count is worse by"),
    "worse, allowed": (bound(ROUNDING, "eps_W", "0x1.1p-20"), ["eps_W:10%"], ""),
    "worse, no rule": (bound(ROUNDING, "eps_W", "0x1p-2"), [], ""),
    "worse elsewhere": (bound(UPDATES, "count", "43"), ["contraction/*:*:0"], ""),
    "better": (bound(ROUNDING, "eps_W", "0x1p-30"), ["*:0"], ""),
    "larger radius": (bound(CONTRACTION, "radius", "0x1p-3"), ["*:0"], ""),
    "new bound": (bound(UPDATES, "floor", "1"), ["*:0"], ""),
    "new claim": (lambda r, c: r["claims"].append({**c[UPDATES], "id": "new"}), [], ""),
}


@pytest.fixture
def pair(tmp_path):
    """Write a baseline, and a current report with a change; their names."""

    def make(change=None, before=None):
        write(tmp_path / "baseline.json", before)
        write(tmp_path / "report.json", change)
        for name in ("baseline.json", "report.json"):  # the overall verdict, as the claims give it
            report = json.loads((tmp_path / name).read_text())
            verdicts = {claim["verdict"] for claim in report["claims"]}
            found = next((v for v in ("refuted", "undecided") if v in verdicts), "certified")
            (tmp_path / name).write_text(json.dumps({**report, "verdict": found}, indent=1))
        return "baseline.json", "report.json"

    return make


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_change(certify, pair, name):
    """Exit code 1 where less is proved, with the claim and what is worse on one line of the annotations; 0 elsewhere."""
    change, rules, words = CASES[name]
    result = certify("gate", *pair(change), *(f"--fail-on={rule}" for rule in rules), "--format", "github")
    assert result.exit_code == (1 if words else 0), result.output
    errors = [line for line in result.stdout.splitlines() if line.startswith("::error ")]
    assert len(errors) == bool(words)
    assert all(words.replace("%", "%25") in line for line in errors)
    assert f"certify gate {'regressed: 1 of 4' if words else 'passed: 4'}" in result.stderr


@pytest.mark.parametrize("name", ["same", "worse relatively", "lost claim"])
@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize("to_file", [False, True])
def test_every_format(certify, pair, tmp_path, name, style, to_file):
    """Valid, on standard output or in a file, written before the exit code says that it failed."""
    change, rules, words = CASES[name]
    options = [*(f"--fail-on={rule}" for rule in rules), "--format", style, *(["-o", "out"] if to_file else [])]
    result = certify("gate", *pair(change), *options)
    assert result.exit_code == (1 if words else 0), result.output
    written = (tmp_path / "out").read_text() if to_file else result.stdout
    assert written.endswith("\n") and not (to_file and result.stdout)
    verdict = "regressed: 1 of 4 claims of the baseline" if words else "passed: 4 claims of the baseline"
    assert (f"certify gate {verdict}" in result.stderr) == (to_file or style != "text")
    if style == "json":
        assert json.loads(written)["passed"] is not bool(words)
    elif style == "junit":
        xmlschema.XMLSchema(DATA / "junit-10.xsd").validate(written)
        assert ElementTree.fromstring(written.encode()).get("failures") == str(int(bool(words)))
    elif style == "sarif":
        log = json.loads(written)
        jsonschema.Draft4Validator(json.loads((DATA / "sarif-schema-2.1.0.json").read_text())).validate(log)
        assert len(log["runs"][0]["results"]) == bool(words)
        assert all(r["locations"][0]["physicalLocation"]["region"]["startLine"] > 1 for r in log["runs"][0]["results"])
    else:
        assert verdict in written


def test_the_job_summary_is_appended(certify, pair, tmp_path):
    """To the file that GitHub names, with the format for GitHub only; a place that cannot be written is refused."""
    names = pair(drop(UPDATES))
    (tmp_path / "summary.md").write_text("before\n")
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    assert certify("gate", *names, env=env).exit_code == 1
    assert (tmp_path / "summary.md").read_text() == "before\n"
    assert certify("gate", *names, "--format", "github", env=env).exit_code == 1
    assert (tmp_path / "summary.md").read_text("utf-8").startswith("before\n## ❌ certify gate regressed: 1 of 4")
    refused = certify("gate", *names, "--format", "github", env={"GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert "cannot write the job summary" in complaint(refused, 3)


def test_exit_codes_of_the_process(pair, tmp_path):
    """The same numbers from a process of its own, and an undecided overall verdict is none of them."""
    pair(bound(ROUNDING, "eps_W", "0x1.2p-20"))
    expected = {
        ("baseline.json", "report.json"): 0,
        ("baseline.json", "report.json", "--fail-on", "eps_W:10%"): 1,
        ("baseline.json", "report.json", "--fail-on", "eps_W"): 2,
        ("baseline.json",): 2,
        ("absent.json", "report.json"): 3,
        ("baseline.json", "absent.json"): 3,
    }
    assert {args: process("gate", *args, cwd=tmp_path).returncode for args in expected} == expected


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--fail-on", "eps_W:x"], "the rule 'eps_W:x' has the amount 'x'"),
        (
            ["--fail-on", "eps_w:1%"],
            "the rule 'eps_w:1%' fits no bound of these reports, which have count, eps_W, q, radius",
        ),
        (["--format", "xml"], "'xml' is not one of"),
        (["--fail-on"], "--fail-on"),
    ],
)
def test_usage(certify, pair, args, words):
    """Exit code 2 and one sentence, for a rule that could never fail too."""
    assert words in complaint(certify("gate", *pair(), *args), 2)


def test_a_report_from_standard_input(certify, pair):
    """- is the current report; the baseline must be a file."""
    baseline, current = pair(drop(UPDATES))
    with open(current, "rb") as stream:
        data = stream.read()
    result = certify("gate", baseline, "-", input=data)
    assert result.exit_code == 1
    assert "current 'standard input'" in result.stdout
    assert "the baseline must be a file" in complaint(certify("gate", "-", current, input=data), 2)


HOSTILE = {
    "empty file": b"",
    "no JSON": b"{",
    "no report": b"[]",
    "no claim": json.dumps({**document(), "claims": []}).encode(),
    "not UTF-8": b"\x80\x04N.",
    "NaN": json.dumps(document()).replace('"0x1p-20"', "NaN").encode(),
    "a float": json.dumps(document()).replace('"0x1p-20"', "1e400").encode(),
    "no exact number": json.dumps(document()).replace("0x1p-20", "0.1").encode(),
    "an endless number": json.dumps(document()).replace("0x1p-20", "0x1p+999999999").encode(),
    "a number too long to compare": json.dumps(document()).replace("0x1p-20", "0x1p-900000").encode(),
    "duplicate keys": json.dumps(document()).replace('"p": 3', '"p": 3, "p": 3').encode(),
    "two claims of one id": json.dumps(document()).replace(UPDATES, ROUNDING).encode(),
    "a unicode id": json.dumps(document()).replace(UPDATES, "updates/\u0661").encode(),
    "a wrong verdict": json.dumps({**document(), "verdict": "certified"}).encode(),
    "deep nesting": b"[" * 100_000,
    "truncated": json.dumps(document()).encode()[:-100],
    "another case": json.dumps({**document(), "subject": {"case": "kernel"}}).encode(),
    "another size": json.dumps({**document(), "subject": {"case": "polyprox", "p": 4}}).encode(),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["baseline.json", "report.json"])
def test_hostile_reports(certify, pair, tmp_path, name, place):
    """Exit code 3 and one sentence in either place, never a pass, and --update changes nothing."""
    names = pair()
    (tmp_path / place).write_bytes(HOSTILE[name])
    before = (tmp_path / "baseline.json").read_bytes()
    sentence = complaint(certify("gate", *names, "--format", "junit", "-o", "out"), 3)
    assert not os.path.exists("out"), sentence
    complaint(certify("gate", *names, "--update"), 3)
    assert (tmp_path / "baseline.json").read_bytes() == before


def test_files_that_cannot_be_read_or_written(certify, pair, tmp_path):
    """A missing baseline is no pass; an output must not replace a report."""
    baseline, current = pair()
    assert "no file 'absent.json'" in complaint(certify("gate", "absent.json", current), 3)
    assert "no file 'absent.json'" in complaint(certify("gate", baseline, "absent.json"), 3)
    assert "is not a regular file" in complaint(certify("gate", str(tmp_path), current), 3)
    assert "would be lost" in complaint(certify("gate", baseline, current, "-o", baseline), 3)
    assert "no directory" in complaint(certify("gate", baseline, current, "-o", "nowhere/out"), 3)


def test_update(certify, pair, tmp_path):
    """The bytes of the report, exit code 0, and what changed is shown; then the gate passes."""
    baseline, current = pair(drop(UPDATES))
    result = certify("gate", baseline, current, "--update")
    assert result.exit_code == 0
    assert f"{UPDATES}\n    is gone; it was certified" in result.stdout
    assert result.stderr == "Updated baseline: baseline.json\n"
    assert (tmp_path / baseline).read_bytes() == (tmp_path / current).read_bytes()
    assert certify("gate", baseline, current).exit_code == 0


def test_update_makes_a_first_baseline(certify, pair, tmp_path):
    """Where there is none, of a good report only."""
    _, current = pair()
    result = certify("gate", "first.json", current, "--update")
    assert (result.exit_code, result.stderr) == (0, "New baseline: first.json (4 claims)\n")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / current).read_bytes()
    (tmp_path / "bad.json").write_bytes(b"{}")
    complaint(certify("gate", "second.json", "bad.json", "--update"), 3)
    assert not os.path.exists("second.json")


def test_update_keeps_what_is_no_report(certify, pair, tmp_path):
    """A wrong file name must not cost a file."""
    _, current = pair()
    (tmp_path / "notes.txt").write_text("mine")
    complaint(certify("gate", "notes.txt", current, "--update"), 3)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_while_it_updates(tmp_path):
    """At whatever moment: the old file or the new one, never a mixture, and no other file but a temporary one."""
    old, new = (json.dumps(document(count), indent=1).encode() for count in (200, 400))
    baseline, current = tmp_path / "baseline.json", tmp_path / "report.json"
    current.write_bytes(new)
    command = [
        sys.executable,
        "-m",
        "certify.cli.main",
        "gate",
        str(baseline),
        str(current),
        "--update",
        "-o",
        os.devnull,
    ]

    def run(seconds):
        baseline.write_bytes(old)
        started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if seconds is not None:
            time.sleep(seconds)
            started.send_signal(signal.SIGKILL)
        started.wait()

    began = time.perf_counter()
    run(None)
    whole = time.perf_counter() - began
    assert baseline.read_bytes() == new
    moments = random.Random(4)
    for _ in range(10):
        run(whole * moments.uniform(0.5, 1.1))
        assert baseline.read_bytes() in (old, new)
    others = {path.name for path in tmp_path.iterdir()} - {"baseline.json", "report.json"}
    assert all(name.startswith(".certify-") and name.endswith(".tmp") for name in others)


def test_ascii_terminals(pair, tmp_path):
    """A standard output that can hold only ASCII gets all of the text."""
    pair(put(ROUNDING, assumptions=["naïve 😀"]))
    done = process("gate", "baseline.json", "report.json", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii:strict"})
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"na\\xefve \\U0001f600" in done.stdout
