"""`certify show`, `schema`, `env` and `demo`: what a person sees."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest
from certify.cli.summary import number
from command_lines import complaint, process

from certify.certificate import Claim, Report, encode, parse, read, schema
from certify.states import load

PRODUCER = {"name": "certify", "version": "0.1.0", "arithmetic": {}}


@pytest.fixture
def report_file(certify, trajectory_file):
    """A report about six states, at one of which float16 overflows."""

    def make():
        path = trajectory_file(6)
        certify("run", path, "--samples", "1", "--methods", "none", "-o", "report.json")
        return "report.json"

    return make


def test_show_prints_what_run_printed(certify, state_file):
    """The same lines, but for the size and the time after the file's name."""
    ran = certify("run", state_file(), "-o", "report.json", "--update-tol", "1e-3")
    shown = certify("show", "report.json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout == re.sub(r" \([0-9]+ kB, in [0-9.]+ s\)", "", ran.stderr)


def test_show_reads_standard_input(certify, state_file):
    """- is standard input, so that a run can be piped into it."""
    report = certify("run", state_file()).stdout_bytes
    shown = certify("show", "-", input=report)
    assert shown.exit_code == 0
    assert "certified in" in shown.stdout


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 300])
def test_every_width_is_readable(certify, state_file, width):
    """No line is wider than asked for, but those to copy; every number is there; no cell is cut."""
    certify("run", state_file(rho=1e9), "--methods", "none", "-o", "report.json")
    shown = certify("show", "report.json", env={"COLUMNS": str(width)})
    assert shown.exit_code == 0
    lines = [line for line in shown.stdout.splitlines() if not line.startswith(("  certify", "  jq", "Report:"))]
    assert max(map(len, lines)) <= width
    report = read("report.json")
    text = " ".join(shown.stdout.split())
    for region in ("point", "ball"):
        (eps,) = [c.bounds["eps_W"] for c in report.claims if c.id == f"rounding/float32/serial/{region}"]
        assert number(parse(eps)) in text
    assert "input rho overflows" in text
    assert "…" not in text and "..." not in text


def test_the_state_asked_for(certify, report_file):
    """--state K shows its table alone; a state that is not there is refused with those that are."""
    report = report_file()
    shown = certify("show", report, "--state", "5").stdout
    assert "State 5" in shown and "Worst of" not in shown
    assert "refuted" in shown
    assert "states 0 to 5" in complaint(certify("show", report, "--state", "6"), 2)


def test_advice_for_another_tolerance(certify, state_file):
    """--tol changes the advice alone: a finer format, then none."""
    certify("run", state_file(), "-o", "report.json")
    assert "Use float64" in certify("show", "report.json", "--update-tol", "1e-12").stdout
    assert (
        "No format tried is proved enough for 1e-30" in certify("show", "report.json", "--update-tol", "1e-30").stdout
    )


def test_every_claim_is_listed(certify, state_file):
    """--claims prints each id, verdict, statement, reason and assumption of the report."""
    certify("run", state_file(rho=1e9), "--methods", "none", "-o", "report.json")
    text = " ".join(certify("show", "report.json", "--claims").stdout.split())
    for claim in read("report.json").claims:
        assert f"{claim.id} {claim.verdict}" in text
        assert claim.statement in text
        assert claim.reason in text
        assert all(assumption in text for assumption in claim.assumptions)


def test_claims_about_the_stage_are_listed(certify, state_file):
    """A count is an integer, and q does not look like 1."""
    certify("run", state_file(), "--methods", "face", "--format", "float64", "-o", "report.json")
    text = " ".join(certify("show", "report.json", "--claims").stdout.split())
    assert "count = 98, " in text
    assert "q = 0.88, " in text


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (b"", ["'bad.json'"]),
        (b"{", ["'bad.json'"]),
        (b"[]", ["'bad.json'", "certify-report/1"]),
        (b'{"schema": "certify-report/1", "claims": []}', ["no claim"]),
        (b"\x00\xff", ["'bad.json'", "UTF-8"]),
    ],
)
def test_files_that_are_no_report(certify, tmp_path, contents, words):
    """Exit code 3, also for a report without claims, and one sentence."""
    (tmp_path / "bad.json").write_bytes(contents)
    sentence = complaint(certify("show", "bad.json"), 3)
    assert all(word in sentence for word in words), sentence


def test_a_missing_report(certify):
    """A name that is no file is refused."""
    assert "no file 'absent.json'" in complaint(certify("show", "absent.json"), 3)


HOSTILE = "\x1b]0;owned\x07 [bold red]x[/] \r\n"


@pytest.mark.parametrize("option", [[], ["--claims"]])
def test_a_report_cannot_reach_the_terminal(certify, tmp_path, option):
    """Texts of a file are shown as they are: no escape sequence gets through, and no markup is obeyed."""
    claims = [
        Claim(
            id=f"{kind}/x/point",
            kind=kind,
            statement=f"All is well{HOSTILE}",
            semantics="program",
            parameters={"format": f"f{HOSTILE}", "order": HOSTILE, "region": {"kind": "point"}, "tol": HOSTILE},
            verdict="undecided",
            reason=f"no{HOSTILE}",
            bounds={"eps_W": "0x1p+999999"},
            observed={"error_W": HOSTILE, "samples": HOSTILE, HOSTILE: [HOSTILE]},
            assumptions=[HOSTILE],
            theorem=HOSTILE,
            display={"digits_norm": HOSTILE, "digits_worst": HOSTILE, "eps_W": HOSTILE},
        )
        for kind in ("rounding", "range", "contraction", "updates", "precision", "other")
    ]
    subject = {"case": HOSTILE, "states": 2, "note": HOSTILE}
    (tmp_path / "bad.json").write_bytes(encode(Report(PRODUCER, subject, claims)))
    shown = certify("show", "bad.json", *option)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert not set(shown.stdout) & {"\x1b", "\x07", "\r"}
    assert "[bold" in shown.stdout


def test_odd_reports_are_shown(certify, tmp_path):
    """Claims of kinds and shapes that this version does not know: dashes, never an error."""
    odd = [
        {"region": "everywhere", "format": 16},
        {"region": {"kind": ["ball"]}, "format": None},
        {"region": {"kind": "ball", "radius": 3}},
        {},
    ]
    claims = [
        Claim(f"rounding/{i}", "rounding", "s", "real", p, "undecided", "r", observed={"error_W": 7, "samples": True})
        for i, p in enumerate(odd)
    ]
    odd_stage = [{}, {"method": 3, "step": ["new"], "tol": 7}, {"method": "face", "format": {}, "replayed": "x"}]
    for kind in ("contraction", "updates", "precision"):
        claims += [
            Claim(
                f"{kind}/{i}",
                kind,
                "s",
                "real",
                p,
                "certified",
                bounds={"q": "3", "count": "-1/2"},
                observed={"face": True},
            )
            for i, p in enumerate(odd_stage)
        ]
    claims.append(Claim("new/1", "new", "s", "real", verdict="refuted", reason="r"))
    (tmp_path / "odd.json").write_bytes(encode(Report(PRODUCER, {"case": "?"}, claims)))
    shown = certify("show", "odd.json")
    assert shown.exit_code == 0, shown.stderr
    assert "new: refuted (1 claim)" in shown.stdout
    assert certify("show", "odd.json", "--claims").exit_code == 0


def test_no_escape_sequences_in_a_pipe(state_file):
    """Neither colours nor a progress bar where nobody is watching, whatever the environment asks for."""
    done = process(
        "run",
        state_file(),
        "--methods",
        "none",
        env={"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color"},
    )
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"\r" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)]
)
def test_colours_on_a_terminal(certify, state_file, environment, coloured):
    """A terminal gets colours unless NO_COLOR is set and not empty."""
    certify("run", state_file(), "--methods", "none", "-o", "report.json")
    output = on_terminal(["show", "report.json"], {"TERM": "xterm-256color", **environment})
    assert (b"\x1b[" in output) == coloured
    assert b"certified" in output


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_on_a_terminal(state_file):
    """A terminal sees what is being done; a dumb one sees no bar, and the summary all the same."""
    path = state_file()
    lively = on_terminal(
        ["run", str(path), "--methods", "face", "--format", "float64", "-o", "/dev/null"], {"TERM": "xterm-256color"}
    )
    dumb = on_terminal(["run", str(path), "--methods", "none", "-o", "/dev/null"], {"TERM": "dumb"})
    assert b"the state: float" in lively
    assert b"the state: polishing" in lively
    assert b"the state: float" not in dumb
    assert b"certified in" in dumb


def on_terminal(args, environment):
    """What a command writes to a terminal of its own."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.update(environment)
        os.execv(sys.executable, [sys.executable, "-m", "certify.cli.main", *args])
    output = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # Linux says so when the other side has closed
            break
        if not chunk:
            break
        output += chunk
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, output
    return output


def test_ascii_terminals(state_file, tmp_path):
    """An output that can hold only ASCII gets all of it."""
    path = state_file()
    assert process("run", path, "--methods", "none", "-o", tmp_path / "r.json").returncode == 0
    done = process("show", tmp_path / "r.json", env={"PYTHONIOENCODING": "ascii:strict"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


def test_schema(certify):
    """The schema that reports are read by, as JSON."""
    result = certify("schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == schema()


def test_env(certify):
    """Versions and the self-test, and no failure on a machine that runs these tests."""
    result = certify("env")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["subnormals"] == lines["nearest_even"] == "passed"
    assert lines["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    assert {"certify", "numpy", "crival", "python-flint", "enclosures"} <= lines.keys()


def test_env_of_a_machine_that_fails(certify, monkeypatch):
    """A failed self-test is named, and the exit code is not 0."""
    broken = {"nearest_even": True, "subnormals": False, "enclosures": "numpy"}
    monkeypatch.setattr("certify.arithmetic.selftest.selftest", lambda: broken)
    result = certify("env")
    assert result.exit_code == 1
    assert "subnormals            FAILED" in result.stdout
    assert "fails subnormals;" in result.stderr


def test_demo(certify):
    """Real states, saved and certified, and the fixed stage of each: one is certified, one refuted."""
    result = certify("demo")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    report = read("demo/report.json")
    states = load("demo/states.safetensors")
    assert states.tensors["W"].shape == (report.subject["states"], 11, 11)
    assert "Sachs cytometry data" in result.stderr
    assert "Use float32" in result.stderr
    face = {c.id[-1]: c.verdict for c in report.claims if c.id.startswith("contraction/face")}
    assert face == {"0": "certified", "1": "refuted", "2": "certified"}
    text = " ".join(result.stderr.split())
    assert "at most 44 updates in float64" in text
    assert "the fixed point repels; a step below 0.0274 would contract, try --step new" in text
    # in the order of the questions: which update, which stage, which format, where
    marks = ["One update", "Fixed stage", "Use float32", "Report:"]
    assert [text.index(mark) for mark in marks] == sorted(text.index(mark) for mark in marks)
    assert max(map(len, result.stderr.splitlines())) <= 80
    assert result.stderr.splitlines()[-1] == "  certify updates demo/states.safetensors --state 0"


def test_demo_is_a_run(certify, monkeypatch, state_file):
    """The report is that of `certify run` on the saved states, with the options of the demo."""
    saved = load(state_file())
    monkeypatch.setattr("certify.cases.polyprox.case.PolyProx.demo", lambda *args: (saved, "Small states"))
    assert certify("demo").exit_code == 0
    asked = ["--update-tol", "0.001", "--replay", "2000", "--further", "200", "--methods", "face"]
    certify("run", "demo/states.safetensors", *asked, "-o", "again.json")
    # the demo's verdict does not rest on the claims about the stage; the claims are the same
    assert read("again.json").claims == read("demo/report.json").claims


def test_demo_does_not_overwrite_someone_s_states(certify, monkeypatch, state_file):
    """A states.safetensors beside a report named with -o is kept, unless it is the demo's own."""
    path = state_file("states.safetensors")
    saved = load(path)
    monkeypatch.setattr("certify.cases.polyprox.case.PolyProx.demo", lambda *args: (saved, "Small states"))
    assert certify("demo", "-o", "report.json").exit_code == 0
    mine = state_file("states.safetensors", rho=3.0).read_bytes()
    assert "'states.safetensors' exists" in complaint_of_last_line(certify("demo", "-o", "report.json"))
    assert path.read_bytes() == mine


def complaint_of_last_line(result):
    """The refusal that follows what a command had said before."""
    assert result.exit_code == 3
    return result.stderr.splitlines()[-1]


def test_demo_to_standard_output(certify, monkeypatch, state_file, tmp_path):
    """-o - leaves no file behind."""
    saved = load(state_file())
    monkeypatch.setattr("certify.cases.polyprox.case.PolyProx.demo", lambda *args: (saved, "Small states"))
    result = certify("demo", "-o", "-")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdict"] == "certified"
    assert {p.name for p in tmp_path.iterdir()} == {"state.npz"}


def test_demo_makes_its_directory(certify, monkeypatch, state_file, tmp_path):
    """Missing parents are made; where that is impossible the reason is given."""
    saved = load(state_file())
    monkeypatch.setattr("certify.cases.polyprox.case.PolyProx.demo", lambda *args: (saved, "Small states"))
    assert certify("demo", "-o", "a/b/report.json").exit_code == 0
    assert {p.name for p in (tmp_path / "a" / "b").iterdir()} == {"report.html", "report.json", "states.safetensors"}
    assert "cannot make the directory" in complaint(certify("demo", "-o", "state.npz/report.json"), 3)
