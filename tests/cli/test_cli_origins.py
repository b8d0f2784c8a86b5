"""`--bound adjoint`: claims beside those by running bounds, and the strip that says where the error comes from."""

from __future__ import annotations

import sys
from fractions import Fraction

import pytest
from certify.cli.measured import number, number_down, ratio_text
from certify.cli.origins import origins_of
from certify.cli.overview import overview_of
from kernel_files import write_kernels

from certify.certificate import Claim, Report, Verdict, decode, encode, parse, read

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
        assert 0.4 * eps <= float.fromhex(sharp.observed["attained_W"]) <= eps
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


def test_the_table_has_the_bound_that_was_asked_for_and_what_is_attained(certify, state_file):
    """Adjoint bounds and no running ones, an attained error no larger, and their ratio; on the page as well."""
    state = state_file()
    run = certify("run", state, "--methods", "none", "--format", "float32", "--bound", "adjoint", "-o", "report.json")
    claims = {claim.id: claim for claim in read("report.json").claims}
    sharp = [claims[f"rounding/float32/serial/{region}/adjoint"] for region in ("point", "ball")]
    cells = []
    for claim in sharp:
        bound = parse(claim.bounds["eps_W"])
        reached = max(parse(claim.observed[f"{key}_W"]) for key in ("error", "attained"))
        assert reached <= bound
        cells += [number(bound), number_down(reached), ratio_text(bound / reached)]
    for text in (run.stderr, certify("show", "report.json").stdout):
        [row] = [line.split() for line in text.splitlines() if line.startswith("float32   ")]
        assert row == ["float32", *cells, "certified"]
        assert "Bounds are adjoint ones" in text
    narrow = certify("show", "report.json", env={"COLUMNS": "60"}).stdout
    assert f"at state <= {cells[0]}, attained {cells[1]}, ratio {cells[2]}" in narrow
    wide = certify("show", "report.json", env={"COLUMNS": "120"}).stdout
    assert "digits" in wide and "digits" not in run.stderr
    [view] = overview_of(read("report.json")).states
    [line] = view.rows
    assert [
        line.point_bound,
        line.point_seen,
        line.point_ratio,
        line.ball_bound,
        line.ball_seen,
        line.ball_ratio,
    ] == cells


def test_running_bounds_of_functions_have_something_beside_them(certify, tmp_path, monkeypatch):
    """What is not exact, as with exp, is attained all the same, in every order; the advice is that of the verdict's bounds."""
    write_kernels(tmp_path)
    (tmp_path / "soft.py").write_text(
        "import numpy as np\n\n\ndef soft(A, B):\n    e = np.exp(A @ B)\n    y = e / np.sum(e)\n    return y\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    for order in ("serial", "any-order", "any-order:float32"):
        result = certify("trace", "soft.py:soft", "inputs.npz", "--format", "float16", "--order", order, "-o", "r.json")
        assert result.exit_code == 0, result.stderr
        [claim] = [c for c in read("r.json").claims if c.kind == "rounding" and c.parameters["method"] == "running"]
        bound, reached = parse(claim.bounds["eps_0"]), parse(claim.observed["attained_0"])
        assert 0 < reached <= bound
        assert f"{number(bound)}   {number_down(reached)}" in result.stderr
        assert "digits" in result.stderr
    sys.modules.pop("soft", None)


def test_ratios_are_rounded_up():
    """Never smaller than they are; nothing where nothing is known."""
    assert [ratio_text(Fraction(*x)) for x in ((1001, 1000), (201, 20), (9999, 10), (99999, 7))] == [
        "1.01",
        "11",
        "1000",
        "1.5e+04",
    ]
    assert ratio_text(None) == number_down(None) == "-"


@pytest.mark.parametrize("options", [[], ["--radius", 0.0]])
def test_splits_without_a_ball_are_refused(certify, tmp_path, monkeypatch, state_file, options):
    """Nothing would be cut: the remedy is a radius."""
    write_kernels(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    asked = [*options, "--format", "float32", "--bound", "adjoint", "--splits", 3]
    results = [certify("trace", "model:matmul", "inputs.npz", *asked)]
    if options:
        results.append(certify("run", state_file(), *asked))
    for result in results:
        assert result.exit_code == 3 and "there is no ball to cut" in result.stderr and "--radius" in result.stderr
    sys.modules.pop("model", None)
