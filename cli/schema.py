"""`certify schema`: the JSON Schema of reports."""

from __future__ import annotations

import json

import click
from certify.cli.streams import write_output


@click.command(
    epilog="""\b
Examples:
  certify schema > report.schema.json
  certify schema | jq '.["$defs"].claim.required'""",
    short_help="Print the JSON Schema of reports.",
)
def command() -> int:
    """Print the JSON Schema (2020-12) of report files."""
    from certify.certificate import schema

    write_output(json.dumps(schema(), indent=2, ensure_ascii=False).encode() + b"\n")
    return 0
