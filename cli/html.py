"""`certify html`: a report as one self-contained page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from certify.cli.options import require_place
from certify.cli.streams import DASH, read_input, say, write_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.certificate import Report
    from certify.checker import Finding
    from certify.page import Check

#: What a report from standard input is called on its page.
NAMELESS = "report.json"


@click.command(
    epilog="""\b
Examples:
  certify html report.json
  certify html report.json --state states.safetensors -o page.html
  certify run state.npz | certify html - > page.html

Without --state the report is shown as it is, not checked. With it the exit
code is 3 if a claim was rejected; the page is written before that.""",
    short_help="Make one self-contained page of a report.",
)
@click.argument("report")
@click.option("-o", "--output", metavar="FILE", help="Where the page goes, - for standard output; else beside REPORT.")
@click.option("--state", metavar="FILE", help="Prove the claims again from this state, with the independent checker.")
def command(report: str, output: str | None, state: str | None) -> int:
    """Make a page of a REPORT file; - is standard input.

    The page loads nothing, so it can be mailed, archived or printed. It is readable on a phone, in light and dark.
    """
    from certify.page import Status, require_html

    require_html()
    place = output or (DASH if report == DASH else f"{os.path.splitext(report)[0]}.html")
    require_place(place, *(name for name in (report, state) if name is not None and name != DASH))
    data = _report_bytes(report)
    checks = None if state is None else _checked(data, report, state)
    page = _page(data, NAMELESS if report == DASH else os.path.basename(report), checks)
    _put(page, place)
    rejected = {key: check for key, check in (checks or {}).items() if check.status is Status.REJECTED}
    for key, check in rejected.items():
        say(f"certify: rejected: {key}: {check.sentence}")
    return 3 if rejected else 0


def write_page(report: Report, report_path: str, path: str) -> None:
    """Write the page of a report that was just made and written to `report_path`, - being standard output.

    Raises
    ------
    MissingExtra : jinja2 or matplotlib is not installed.
    InputRejected : the file cannot be written.
    """
    from certify.certificate import encode

    name = NAMELESS if report_path == DASH else os.path.basename(report_path)
    _put(_page(encode(report), name, None), path)


def _checked(data: bytes, report: str, state: str) -> dict[str, Check]:
    """What the independent checker says of each claim. Raises InputRejected if the report or a file is not valid."""
    from certify.certificate import decode
    from certify.certificate.report import read_bytes
    from certify.checker import Beyond, Rejected, check
    from certify.errors import InputRejected
    from certify.page import Check, Status
    from certify.states.tensors import MAX_BYTES

    def beside(name: str) -> bytes:
        try:
            return read_bytes(os.path.join(os.path.dirname(report), name), MAX_BYTES)
        except InputRejected as error:  # the claim's fault, or the report's
            raise Rejected(error.problem) from error

    try:
        found = check(data, read_bytes(state, MAX_BYTES), beside)
    except Rejected as error:
        raise InputRejected(str(error).rstrip("."), "give the state that the report is about") from error
    except Beyond as error:
        return {claim.id: Check(Status.NOT_CHECKED, str(error)) for claim in decode(data, report).claims}
    return {finding.id: _check(finding) for finding in found}


def _check(finding: Finding) -> Check:
    from certify.certificate import decimal_up
    from certify.page import Check, Status

    if finding.verdict == "rejected":
        return Check(Status.REJECTED, finding.sentence)
    if finding.verdict == "undecided":
        return Check(Status.NOT_CHECKED, finding.sentence)
    own = ", ".join(f"{name} {decimal_up(value)}" for name, value in finding.proved.items())
    return Check(Status.PROVED, own and f"with bounds of its own, {own}")


def _page(data: bytes, name: str, checks: Mapping[str, Check] | None) -> bytes:
    from certify.cli.overview import bound_text, overview_of

    from certify.certificate import decode
    from certify.page import render

    report = decode(data, name)
    texts = _texts(report)
    return render(report, data, overview_of(report), name=name, shown=bound_text, checks=checks, texts=texts)


def _texts(report: Report) -> dict[str, str]:
    """What the claims cite of the cases of this package: their README files, by path."""
    from importlib.resources import files

    from certify.cases import CASES

    from certify.page import path_of

    found = {}
    for path in dict.fromkeys(path_of(claim.theorem) for claim in report.claims):
        folder, _, name = path.rpartition("/")
        case = folder.removeprefix("cases/")
        if case in CASES:
            found[path] = files(f"certify.cases.{case}").joinpath(name).read_text("utf-8")
    return found


def _put(page: bytes, place: str) -> None:
    from certify.states import write_atomically

    if place == DASH:
        write_output(page)
    else:
        write_atomically(place, page)
        say(f"Page: {place}")


def _report_bytes(report: str) -> bytes:
    from certify.certificate.report import MAX_BYTES, read_bytes

    return read_input(MAX_BYTES) if report == DASH else read_bytes(report)
