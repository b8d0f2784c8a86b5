"""`--bound adjoint`: claims beside those by running bounds, and the strip that says where the error comes from."""

from __future__ import annotations

import sys

import pytest
from certify.cli.origins import origins_of
from kernel_files import write_kernels

from certify.certificate import Claim, Report, Verdict, decode, encode, read

PRODUCER = {"name": "certify", "version": "0.1.0", "arithmetic": {}}


def adjoint_claim(**observed):
    """A certified adjoint claim."""
    return Claim(
        id="rounding/float32/serial/point/adjoint",
        kind="rounding",
        statement="At the inputs, eps holds.",
        semantics="program",
        parameters={"format": "float32", "order": "serial", "region": {"kind": "point"}, "method": "adjoint"},
        verdict=Verdict.CERTIFIED,
        bounds={"eps_0": (2.0**-20).hex()},
        observed=observed,
        theorem="docs/theory/adjoint.md#adjoint",
    )


def test_run_adds_adjoint_claims_that_no_verdict_rests_on(certify, state_file):
    """At the state and on the ball, never larger than the running ones; show prints the strip; the checker rejects none."""
    state = state_file()
    ran = certify("run", state, "--methods", "none", "--format", "float32", "--bound", "adjoint", "-o", "report.json")
    assert ran.exit_code == 0, ran.stderr
    report = read("report.json")
    claims = {claim.id: claim for claim in report.claims}
    for region in ("point", "ball"):
        sharp = claims[f"rounding/float32/serial/{region}/adjoint"]
        assert sharp.verdict is Verdict.CERTIFIED
        assert sharp.theorem == "docs/theory/adjoint.md#adjoint"
        eps, plain = (
            float.fromhex(claims[f"rounding/float32/serial/{region}{m}"].bounds["eps_W"]) for m in ("/adjoint", "")
        )
        assert 0 < eps <= plain
        assert sum(float(share) for _, share in sharp.observed["shares"]) == pytest.approx(1, abs=0.2)
        assert 0.4 * eps <= float.fromhex(sharp.observed["attained"]) <= 1.25 * eps
        assert sharp.id not in report.required
    shown = certify("show", "report.json")
    for stream in (ran.stderr, shown.stdout):
        assert "Where the error comes from" in stream
        assert "raise first:" in stream
        assert ", attained " in stream
    checked = certify("check", "report.json")
    assert "0 rejected" in checked.stdout + checked.stderr


def test_trace_splits_the_ball(certify, tmp_path, monkeypatch):
    """--splits makes the bound on a ball no larger."""
    write_kernels(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    options = ["--format", "float16", "--center", "A", "--radius", 0.5, "--bound", "adjoint"]
    found = []
    for splits in (0, 6):
        result = certify("trace", "model:matmul", "inputs.npz", *options, "--splits", splits)
        assert result.exit_code == 0, result.stderr
        [claim] = [c for c in decode(result.stdout_bytes, "report").claims if c.id.endswith("ball/adjoint")]
        found.append(float.fromhex(next(iter(claim.bounds.values()))))
    sys.modules.pop("model", None)
    assert 0 < found[1] <= found[0]


def test_entries_of_a_report_that_are_none_are_left_out():
    """A report is not believed: only names with numbers between 0 and 2 are shown."""
    shares = [["1", "0.25"], ["2", "x"], ["3", "1e999"], ["4"], 7, ["5", 5], ["6\n7", "0.75"]]
    [origin] = origins_of(Report(PRODUCER, {"case": "kernel"}, [adjoint_claim(shares=shares, raise_first="no")]))
    assert [share for _, share in origin.layers] == [0.25, 0.75]
    assert all("\n" not in name for name, _ in origin.layers)
    assert origin.first == []
    for wrong in ({}, {"shares": []}, {"shares": 3}, {"shares": {"a": 1}}):
        assert list(origins_of(Report(PRODUCER, {"case": "kernel"}, [adjoint_claim(**wrong)]))) == []


def test_plain_text_has_the_tenths(certify, tmp_path):
    """Without colours the strip is a row of digits; a register that cannot be raised has no second number."""
    first = [["V", "0.9", "1.0e-08", "9.5e-07"], ["W", "0.1", "8.0e-07", "1.0e-07"]]
    claim = adjoint_claim(shares=[["1", "0.05"], ["2", "0.95"]], raise_first=first)
    (tmp_path / "r.json").write_bytes(encode(Report(PRODUCER, {"case": "kernel"}, [claim])))
    shown = certify("show", "r.json", env={"COLUMNS": "100"}).stdout
    assert "float32 at the state: <= 9.6e-07  09" in shown
    assert "most in 2 (95%); raise first: V (90%), W (10%, then 1.0e-07)" in shown
