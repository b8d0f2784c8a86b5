"""`certify html`: where the page goes, what the checker says in it, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from certify.cli.html import write_page
from command_lines import complaint

from certify.certificate import read
from certify.checker import Beyond, Finding, Rejected


@pytest.fixture
def report_file(certify, state_file):
    """A small report in the current directory; its name."""
    certify("run", state_file(), "--format", "float32", "--samples", "1", "-o", "report.json")
    return "report.json"


@pytest.fixture
def found(monkeypatch):
    """Let the checker say something else: a list of findings, or an error to raise."""

    def let(answer):
        def check(report, state, files):
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr("certify.checker.check", check)

    return let


def finding(claim, verdict, sentence="because"):
    """What the checker says about a claim."""
    return Finding(claim.id, claim.kind, claim.verdict.value, verdict, sentence)


def test_the_page_is_beside_the_report(certify, report_file):
    """The name of the report with another suffix; nothing on standard output."""
    result = certify("html", report_file)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Page: report.html\n")
    page = Path("report.html").read_text("utf-8")
    assert page.lstrip().startswith("<!doctype html>")
    assert "report.json" in page
    assert all(claim.id in page for claim in read(report_file).claims)


def test_the_page_on_standard_output(certify, report_file):
    """-o - is the same page, and so is one of a report from standard input."""
    certify("html", report_file)
    page = Path("report.html").read_bytes()
    assert certify("html", report_file, "-o", "-").stdout_bytes == page
    assert certify("html", "-", input=Path(report_file).read_bytes()).stdout_bytes == page


def test_a_written_page_is_that_of_the_report(certify, report_file):
    """`write_page`, for a report that was just made, gives what the command gives."""
    certify("html", report_file, "-o", "a.html")
    write_page(read(report_file), f"x/{report_file}", "report.html")
    assert Path("report.html").read_bytes() == Path("a.html").read_bytes()


def test_the_checker_is_asked(certify, report_file, found):
    """With a state each claim has the checker's word; all is well unless one is rejected."""
    claims = read(report_file).claims
    found([finding(claims[0], "certified"), finding(claims[1], "undecided", "too large")])
    result = certify("html", report_file, "--state", "state.npz")
    assert (result.exit_code, result.stderr) == (0, "Page: report.html\n")
    page = Path("report.html").read_text("utf-8")
    assert page.count("✓</span> proved again") == 3  # in the count, in the row, in the details
    assert "too large" in page


def test_a_rejected_claim(certify, report_file, found):
    """The page is written, the claim is named with the reason, and the exit code is 3."""
    claims = read(report_file).claims
    found([finding(claims[0], "certified"), finding(claims[1], "rejected", "eps_W is too small")])
    result = certify("html", report_file, "--state", "state.npz")
    assert result.exit_code == 3
    assert result.stderr.splitlines() == ["Page: report.html", f"certify: rejected: {claims[1].id}: eps_W is too small"]
    assert "eps_W is too small" in Path("report.html").read_text("utf-8")


def test_a_state_of_another_report(certify, report_file, found):
    """What the checker refuses as a whole is refused here, and no page is written."""
    found(Rejected("W of the state file has another digest"))
    assert "W of the state file has another digest" in complaint(
        certify("html", report_file, "--state", "state.npz"), 3
    )
    assert not Path("report.html").exists()


def test_beyond_the_checker(certify, report_file, found):
    """What the checker does not do is not checked, with its sentence."""
    found(Beyond("the report has more claims than a checker reads"))
    result = certify("html", report_file, "--state", "state.npz")
    assert result.exit_code == 0
    page = Path("report.html").read_text("utf-8")
    assert page.count("the report has more claims than a checker reads") == len(read(report_file).claims)


def test_the_real_checker(certify, state_file, report_file):
    """It reads the state, and refuses another one."""
    assert certify("html", report_file, "--state", "state.npz").exit_code == 0
    assert "✓</span> proved again" in Path("report.html").read_text("utf-8")
    complaint(certify("html", report_file, "--state", state_file("other.npz", rho=3.0)), 3)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["absent.json"], "no file 'absent.json'"),
        (["report.json", "-o", "."], "'.' is a directory"),
        (["report.json", "-o", "no/page.html"], "no directory 'no'"),
        (["report.json", "-o", "report.json"], "is the input"),
        (["report.json", "--state", "absent.npz"], "no file 'absent.npz'"),
        (["report.json", "--state", "state.npz", "-o", "state.npz"], "is the input"),
        (["."], "'.' is not a regular file"),
        (["state.npz"], "'state.npz'"),
        (["a\0b"], "is not a possible file name"),
    ],
)
def test_refusals(certify, report_file, args, words):
    """One sentence, exit code 3, and no page."""
    assert words in complaint(certify("html", *args), 3)
    assert not list(Path().glob("*.html"))


def test_without_the_extra(certify, report_file, monkeypatch):
    """The refusal names what to install, before any work."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "pip install 'certify[html]'" in complaint(certify("html", report_file, "--state", "absent.npz"), 3)


def test_run_makes_the_page_of_its_report(certify, state_file):
    """`run --html` writes what `html` would; a page in place of the state is refused before any work."""
    state = state_file()
    ran = certify("run", state, "--methods", "none", "-o", "report.json", "--html", "page.html")
    assert ran.exit_code == 0
    assert "Page: page.html" in ran.stderr
    assert certify("html", "report.json", "-o", "again.html").exit_code == 0
    assert Path("page.html").read_bytes() == Path("again.html").read_bytes()
    assert "would be lost" in complaint(certify("run", state, "--html", state), 3)
