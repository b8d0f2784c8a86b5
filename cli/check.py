"""`certify check`: every claim of a report proved again by code that shares nothing with what made it."""

from __future__ import annotations

import click


@click.command(
    epilog="""\b
Examples:
  certify check report.json
  certify check report.json --state states.safetensors
  python -m certify.checker report.json
\b
Without --state, the file beside the report that fits it is taken: its tensors
have the digests of the report. Files that it names must lie there too.
`python -m certify.checker` is the same command and needs python-flint alone.
\b
Exit codes: 0 every certified or refuted claim is proved again, 1 nothing is
wrong but a claim is beyond the checker, 2 usage, 3 a claim, the report or the
state is rejected.""",
    short_help="Prove every claim of a report again, independently.",
)
@click.argument("report")
@click.option("--state", metavar="FILE", help="The states or inputs that the report is about.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(report: str, state: str | None, as_json: bool) -> int:
    """Check a REPORT file: recompute its bounds from the state file and compare, claim by claim."""
    from certify.checker.__main__ import run

    return run(report, state, as_json, "certify check")
