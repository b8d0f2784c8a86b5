"""`certify demo`: the whole pipeline on embedded real states."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING

import click
from certify.cli.options import require_place
from certify.cli.streams import DASH, say
from click.core import ParameterSource

if TYPE_CHECKING:
    from certify.states import Saved

STATES = "states.safetensors"
#: A step of the solver changes W by more than this until the last stages.
TOLERANCE = 1e-3
#: Updates that replay in some seconds.
REPLAY = 2000
#: Updates to draw beside the bounds.
FURTHER = 200


@click.command(
    epilog="""\b
Examples:
  certify demo
  certify demo -o results/report.json""",
    short_help="Certify embedded real states, in a few seconds.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="demo/report.json",
    show_default=True,
    help="Where the report goes, with the states beside it; - is standard output, without the states.",
)
@click.pass_context
def command(ctx: click.Context, output: str) -> int:
    """Certify real states in a few seconds: solve, save, certify, report.

    The states are those of the reference solver on measurements of 11 proteins, in an early, a middle and a late
    stage. They are saved beside the report, so that `certify run` can certify them again.
    """
    started = time.perf_counter()
    from certify.cases import Options, case_named
    from certify.cli.console import console_for
    from certify.cli.progress import progress
    from certify.cli.run import certify_and_report

    case = case_named("polyprox")
    if output != DASH:
        _make_directory(os.path.dirname(output) or ".")
        require_place(output)
    with progress() as moving:
        saved, sentence = case.demo(moving)
    if sys.stderr is not None:
        console_for(sys.stderr).print(f"{sentence}.")
    if output != DASH:
        states = os.path.join(os.path.dirname(output), STATES)
        # demo/ is the demo's own; elsewhere a file of that name may be someone's work
        _save(states, saved, replace=ctx.get_parameter_source("output") is ParameterSource.DEFAULT)
        say(f"States: {states}")
    say("")
    options = Options(update_tol=TOLERANCE, methods=("face",), replay=REPLAY, further=FURTHER)
    code = certify_and_report(case, saved, options, output, started, _page_beside(output))
    if output != DASH:
        say(f"  certify updates {shlex.quote(states)} --state 0")
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
