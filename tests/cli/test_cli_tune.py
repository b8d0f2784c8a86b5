"""`certify tune`: a table, a report that the checker proves, and what is refused."""

from __future__ import annotations

import json
import math
import re
import sys
from fractions import Fraction

import pytest
from command_lines import complaint
from kernel_files import write_kernels

from certify.certificate import read


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    """The module in the current directory; imports of a test are forgotten after it."""
    write_kernels(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("model", "helping"):
        sys.modules.pop(name, None)


LAST = re.compile(r"saves (\d+) % of the (bits|cost) of uniform (\w+) at the same certified tolerance")


def last(result):
    """The percentage, what it is of, and the finest format."""
    match = LAST.fullmatch(result.stdout.splitlines()[-1])
    return int(match[1]), match[2], match[3]


def test_a_state(certify, state_file, tmp_path):
    """A table of registers, a last line, a report about the tuned program; the checker proves all of its claims."""
    state = state_file()
    result = certify("tune", state, "--tol", "1e-3", "--radius", "0.01", "-o", "tuned.json")
    assert result.exit_code == 0, result.stderr
    saved, what, finest = last(result)
    assert (what, finest) == ("bits", "float32")
    assert saved >= 30
    most = re.search(
        r"costs less than (\d+), or saves more than (\d+\.\d) % \(proved\)", " ".join(result.stdout.split())
    )
    assert most
    assert saved <= float(most[2]) <= 50
    report = read(tmp_path / "tuned.json")
    assert report.subject["case"] == "kernel"
    rounding = next(c for c in report.claims if c.id == "rounding/float32/serial/ball")
    assert float.fromhex(rounding.bounds["eps_W"]) <= 1e-3
    listed = {name: (format, lanes) for name, format, lanes in rounding.observed["tuned"]}
    assert listed["input Sigma"][1] == 9
    assert "float16" in {format for format, _ in listed.values()}
    assert any("operations marked as such are in float16" in text for text in rounding.assumptions)
    for name, (format, _) in listed.items():
        assert re.search(rf"^ *{re.escape(name)} +{format} ", result.stdout, re.MULTILINE)
    checked = certify("check", "tuned.json")
    assert checked.exit_code == 0, checked.stdout
    assert f"Of {len(report.claims)} claims {len(report.claims)} are certified" in checked.stdout


def test_show_of_a_tuned_report(certify, state_file, tmp_path):
    """What was tuned, its cost, what is saved and can be, and the bound beside the tolerance and what is attained."""
    found = certify("tune", state_file(), "--tol", "1e-3", "-o", "tuned.json")
    saved, _, _ = last(found)
    [claim] = [c for c in read(tmp_path / "tuned.json").claims if "tuned" in c.observed]
    shown = certify("show", "tuned.json", env={"COLUMNS": "200"}).stdout
    assert "certified in tuned formats" in shown and "Use the tuned formats: " in shown
    assert "Use float" not in shown
    told = claim.observed["tuning"]
    assert told["tolerance"] == {"W": (1e-3).hex()}
    stored = sum(lanes * {"float16": 16, "float32": 32}[format] for _, format, lanes in claim.observed["tuned"])
    assert int(told["cost"]) == stored and int(told["least"]) <= stored
    assert f"stored: {stored} bits; uniform float32: {told['uniform']}; saves {saved} %" in shown
    most = (
        math.ceil(1000 - 1000 * Fraction(told["least"]) / Fraction(told["uniform"])) / 10
    )  # never below what is proved
    bits = f"saves more than {most:.1f} % ({told['least']} bits;"
    assert bits in shown
    narrow = [name for name, format, _ in claim.observed["tuned"] if format == "float16"]
    assert f"float16: {len(narrow)} registers" in shown and narrow[0] in shown
    bound, reached = (float.fromhex(x) for x in (claim.bounds["eps_W"], claim.observed["attained_W"]))
    assert 0 < reached <= bound <= 1e-3
    [line] = [line for line in shown.splitlines() if line.startswith("  W: ")]
    assert re.search(r"certified within \S+ at the inputs, within the tolerance 0.001; attained \S+, ratio \d", line)


def test_a_tuned_report_is_not_believed(certify, state_file, tmp_path):
    """A bound above the tolerance is said to be; entries that are none are left out, as is what is missing."""
    certify("tune", state_file(), "--tol", "1e-3", "-o", "tuned.json")
    report = json.loads((tmp_path / "tuned.json").read_text())
    [claim] = [c for c in report["claims"] if "tuned" in c["observed"]]
    claim["observed"]["tuning"]["tolerance"]["W"] = "0x1p-40"
    (tmp_path / "other.json").write_text(json.dumps(report))
    assert "which is NOT within the tolerance" in certify("show", "other.json", env={"COLUMNS": "200"}).stdout
    for wrong in ({"tuned": 3, "tuning": 4}, {"tuned": [["a"], [1, 2, 3]], "tuning": {"cost": "x", "tolerance": []}}):
        claim["observed"] = wrong
        (tmp_path / "other.json").write_text(json.dumps(report))
        shown = certify("show", "other.json")
        assert shown.exit_code == 0 and "Tuned:" in shown.stdout and "stored" not in shown.stdout


def test_one_state_of_several(certify, trajectory_file):
    """--state K; a number that is too large is a usage error."""
    states = trajectory_file(2)
    first, second = (certify("tune", states, "--tol", "1e-3", "--state", k) for k in range(2))
    assert first.exit_code == second.exit_code == 0
    assert first.stdout != second.stdout
    wrong = certify("tune", states, "--tol", "1e-3", "--state", 2)
    assert wrong.exit_code == 2
    assert "the file has states 0 to 1" in wrong.stderr


def test_the_same_output_every_time(certify, state_file, tmp_path):
    """Two runs print the same and write the same bytes."""
    state = state_file()
    once = certify("tune", state, "--tol", "1e-3", "-o", "a.json")
    again = certify("tune", state, "--tol", "1e-3", "-o", "b.json")
    assert once.stdout == again.stdout
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_kernel_with_a_table_of_costs(certify, tmp_path):
    """Every output within the tolerance; the cost is that of the table."""
    (tmp_path / "cost.json").write_text(json.dumps({"float16": 1, "float32": 4.5}))
    result = certify(
        "tune", "inputs.npz", "--kernel", "model.py:two", "--tol", "0.5", "--formats", "float16,float32",
        "--cost", "cost.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    saved, what, _ = last(result)
    assert what == "cost"
    assert saved == round(100 * (1 - 1 / 4.5))
    assert "certified: h within" in result.stdout
    assert "certified: s within" in result.stdout


def test_tolerances_of_some_outputs(certify):
    """The others are free; one that is not there is refused."""
    both = certify("tune", "inputs.npz", "--kernel", "model:two", "--tol", "h=1e-3,s=1e-4")
    one = certify("tune", "inputs.npz", "--kernel", "model:two", "--tol", "h=1e-3")
    assert both.exit_code == one.exit_code == 0
    assert last(one) >= last(both)
    assert "certified: s" not in one.stdout
    wrong = certify("tune", "inputs.npz", "--kernel", "model:two", "--tol", "q=1")
    assert complaint(wrong, 3) == "there is no output 'q'; name some of h, s"


def test_nothing_certifies(certify, state_file):
    """Exit code 1, and what to do."""
    result = certify("tune", state_file(), "--tol", "1e-3", "--formats", "e5m2")
    assert result.exit_code == 1
    assert "none of e5m2 certifies 0.001 in W; add a finer format" in result.stderr


@pytest.mark.parametrize("tol", ["0", "-1", "nan", "W=", "=1", "W=1,W=2", "1,2", "x"])
def test_tolerances_that_are_none(certify, state_file, tol):
    """A usage error before any work."""
    assert certify("tune", state_file(), f"--tol={tol}").exit_code == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "holds no object"),
        ('{"float16": 1}', "the table of costs lacks"),
        ('{"float16": "1", "bfloat16": 1, "float32": 1}', "the cost of float16 is '1'"),
        ('{"float99": 1}', "float99"),
        ("{", "cost.json"),
    ],
)
def test_tables_that_are_none(certify, state_file, tmp_path, text, problem):
    """Rejected, with the file or the format named."""
    (tmp_path / "cost.json").write_text(text)
    result = certify("tune", state_file(), "--tol", "1e-3", "--cost", "cost.json")
    assert result.exit_code == 3
    assert problem in result.stderr


def test_places_that_are_none(certify, state_file):
    """Standard output has no room for files beside it; a table that is not there."""
    assert certify("tune", state_file(), "--tol", "1e-3", "-o", "-").exit_code == 2
    assert certify("tune", state_file(), "--tol", "1e-3", "-o", "absent/r.json").exit_code == 3
    assert certify("tune", state_file(), "--tol", "1e-3", "--cost", "absent.json").exit_code == 3
