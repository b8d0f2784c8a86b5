"""`certify demo`: the whole pipeline on embedded states of a case."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING

import click
from certify.cli.options import DEFAULT_CASE as DEFAULT
from certify.cli.options import require_place
from certify.cli.streams import DASH, say

if TYPE_CHECKING:
    from certify.states import Saved

STATES = "states.safetensors"


@click.command(
    epilog="""\b
Examples:
  certify demo
  certify demo ngd
  certify demo -o results/report.json
\b
Exit code: 0 certified, 1 undecided, 4 refuted. Published statements that a
case tests and refutes are in its report; the verdict does not rest on them.""",
    short_help="Certify embedded states of a case, in a few seconds.",
)
@click.argument("case_name", metavar="[CASE]", default=DEFAULT)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where the report goes, with the states beside it; - is standard output, without the states. By default "
    "demo/report.json, of another CASE demo/CASE/report.json.",
)
def command(case_name: str, output: str | None) -> int:
    """Certify states that come with a CASE, in a few seconds: make, save, certify, report.

    Without a name, those of the reference solver on measurements of 11 proteins, in an early, a middle and a late stage.
    They are saved beside the report, so that `certify run` can certify them again.
    """
    started = time.perf_counter()
    from certify.cli.console import console_for
    from certify.cli.progress import progress
    from certify.cli.run import certify_and_report, chosen_case

    case = chosen_case(case_name, "CASE")
    own = output is None  # demo/ is the demo's own; elsewhere a file of that name may be someone's work
    if output is None:
        output = os.path.join(*(["demo"] if case_name == DEFAULT else ["demo", case_name]), "report.json")
    if output != DASH:
        _make_directory(os.path.dirname(output) or ".")
        require_place(output)
    with progress() as moving:
        saved, sentence = case.demo(moving)
    if sys.stderr is not None:
        console_for(sys.stderr).print(f"{sentence}.")
    if output != DASH:
        states = os.path.join(os.path.dirname(output), STATES)
        _save(states, saved, replace=own)
        say(f"States: {states}")
    say("")
    code = certify_and_report(case, saved, case.demo_options, output, started, _page_beside(output))
    if output != DASH:
        for line in case.next_steps(shlex.quote(states)):
            say(f"  {line}")
    return code


def _page_beside(output: str) -> str | None:
    """Where the page of the report goes: beside it, if pages can be made here."""
    from certify.errors import MissingExtra
    from certify.page import require_html

    with contextlib.suppress(MissingExtra):
        require_html()
        return None if output == DASH else f"{os.path.splitext(output)[0]}.html"
    return None


def _make_directory(path: str) -> None:
    from certify.errors import InputRejected
    from certify.states import quoted

    try:
        os.makedirs(path, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputRejected(f"cannot make the directory {quoted(path)}: {reason}", "choose a writable place") from error


def _save(path: str, saved: Saved, *, replace: bool) -> None:
    from certify.errors import InputRejected
    from certify.states import quoted, save

    if not replace and os.path.lexists(path) and not _holds(path, saved):
        raise InputRejected(f"{quoted(path)} exists and holds something else", "choose another directory with -o")
    save(path, saved)


def _holds(path: str, saved: Saved) -> bool:
    import numpy as np

    from certify.errors import InputRejected
    from certify.states import load

    try:
        found = load(path)
    except InputRejected:
        return False
    return (
        dict(found.metadata) == dict(saved.metadata)
        and found.tensors.keys() == saved.tensors.keys()
        and all(np.array_equal(found.tensors[name], array) for name, array in saved.tensors.items())
    )
