"""`certify show`: the summary of a report file, or all of its claims."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from certify.cli.options import Amount
from certify.cli.streams import DASH, read_input

if TYPE_CHECKING:
    from certify.certificate import Report


@click.command(
    epilog="""\b
Examples:
  certify show report.json
  certify show report.json --update-tol 1e-6
  certify run state.npz | certify show - --claims

A report is shown, not believed and not checked: the exit code says only that
it could be read, whatever its verdict.""",
    short_help="Show a report as tables, or list its claims.",
)
@click.argument("report")
@click.option("--claims", is_flag=True, help="List every claim: statement, numbers, reason, assumptions.")
@click.option("--state", type=click.IntRange(min=0), metavar="K", help="One state of a trajectory alone.")
@click.option(
    "--update-tol",
    type=Amount(positive=True),
    metavar="T",
    help="Advise for this error of W in one update; without it, for that of the run.",
)
def command(report: str, claims: bool, state: int | None, update_tol: float | None) -> int:
    """Show a REPORT file as `certify run` did; - is standard input."""
    from certify.cli.console import console_for
    from certify.cli.rendering import show_claims, show_summary

    loaded = _loaded(report)
    if sys.stdout is None:
        return 0
    console = console_for(sys.stdout)
    if claims:
        show_claims(console, loaded)
    else:
        _require_state(loaded, state)
        show_summary(console, loaded, report, tol=update_tol, state=state)
    return 0


def _loaded(report: str) -> Report:
    from certify.certificate import decode, read
    from certify.certificate.report import MAX_BYTES

    return decode(read_input(MAX_BYTES), "standard input") if report == DASH else read(report)


def _require_state(report: Report, state: int | None) -> None:
    from certify.cli.summary import state_of

    known = sorted({k for k in map(state_of, report.claims) if k is not None})
    if state is not None and state not in known:
        has = f"states {known[0]} to {known[-1]}" if len(known) > 1 else "one state, without a number"
        raise click.BadParameter(f"the report has {has}", param_hint="--state")
