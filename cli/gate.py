"""`certify gate`: fails where a report proves less than a baseline did."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click
from certify.cli.options import require_place
from certify.cli.streams import DASH, read_input, say, write_output

if TYPE_CHECKING:
    from certify.certificate import Report
    from certify.gate import Comparison, Rule, Source

FORMATS = ("text", "json", "junit", "sarif", "github")
SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the file of the job summary on GitHub."""


class RuleType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4, and older ones are allowed
    """A rule of the gate, such as eps_W:10%."""

    name = "rule"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Rule:
        """The rule. Raises click.BadParameter."""
        from certify.errors import InputRejected
        from certify.gate import parse_rule

        try:
            return parse_rule(value)
        except InputRejected as error:
            self.fail(str(error), param, ctx)


@click.command(
    epilog="""\b
Examples:
  certify gate baseline.json report.json
  certify gate baseline.json report.json --fail-on 'eps_W:10%' --fail-on q:0
  certify run state.npz | certify gate baseline.json - --format junit
  certify gate baseline.json report.json --update
\b
Without --fail-on verdicts alone decide: a bound that became worse is shown.
Exit code: 0 passed or updated, 1 regressed, 2 usage, 3 a report that is
missing, not valid, empty, or about something else.""",
    short_help="Compare a report with a baseline; fail if it is worse.",
)
@click.argument("baseline")
@click.argument("current")
@click.option(
    "--fail-on",
    "rules",
    type=RuleType(),
    multiple=True,
    metavar="RULE",
    help="[CLAIMS:]BOUND:AMOUNT, how much worse a bound may be: eps_W:10%, d:1e-9, rounding/*:eps_W:10%. "
    "May be repeated; every rule must hold.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How the comparison is written.",
)
@click.option("-o", "--output", metavar="FILE", default=DASH, help="Where it goes; - is standard output.")
@click.option("--update", is_flag=True, help="Make CURRENT the baseline, and show what changes; exit code 0.")
def command(baseline: str, current: str, rules: tuple[Rule, ...], style: str, output: str, update: bool) -> int:
    """Compare the report CURRENT with the report BASELINE, claim by claim; CURRENT may be - for standard input.

    Lost claims and weakened verdicts always fail, worse bounds as --fail-on says, and new claims never.
    """
    from certify.certificate import decode
    from certify.certificate.report import MAX_BYTES, read_bytes
    from certify.gate import Source, compare, lines_of
    from certify.states import write_atomically

    if baseline == DASH:
        raise click.BadParameter("the baseline must be a file", param_hint="BASELINE")
    require_place(output, baseline, current)
    data = read_input(MAX_BYTES) if current == DASH else read_bytes(current)
    name = "standard input" if current == DASH else current
    report = decode(data, name)
    if update and not os.path.lexists(baseline):
        _require_used(rules, report)
        write_atomically(baseline, data)
        say(f"New baseline: {baseline} ({len(report.claims)} claims)")
        return 0
    old = read_bytes(baseline)
    before = decode(old, baseline)
    _require_used(rules, before, report)
    comparison = compare(before, report, rules)
    _write(comparison, Source(baseline, name, lines_of(old)), style, output)
    if update:
        write_atomically(baseline, data)
        say(f"Updated baseline: {baseline}")
        return 0
    return 0 if comparison.passed else 1


def _require_used(rules: tuple[Rule, ...], *reports: Report) -> None:
    """Refuse a rule that no bound falls under: it would pass for ever. Raises click.BadParameter."""
    from certify.gate import unused
    from certify.states import quoted

    for rule in unused(rules, reports):
        names = sorted({name for report in reports for claim in report.claims for name in claim.bounds})
        known = ", ".join(quoted(name)[1:-1] for name in names[:20]) or "none"
        problem = f"the rule {quoted(rule.text)} fits no bound of these reports, which have {known}"
        raise click.BadParameter(problem, param_hint="--fail-on")


def _write(comparison: Comparison, source: Source, style: str, output: str) -> None:
    """Write the comparison; a person reads it on standard error where a machine gets standard output."""
    from importlib import import_module

    from certify.gate import text
    from certify.states import write_atomically

    rendered = import_module(f"certify.gate.{style}").render(comparison, source).encode() + b"\n"
    if style == "github":
        _add_summary(comparison, source)
    if output == DASH:
        _write_text(rendered) if style == "text" else write_output(rendered)
    else:
        write_atomically(output, rendered)
    if style != "text" or output != DASH:
        say(text.render(comparison, source))


def _write_text(rendered: bytes) -> None:
    """Text for a person, in what standard output can show of it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    write_output(rendered.decode().encode(encoding, "backslashreplace"))


def _add_summary(comparison: Comparison, source: Source) -> None:
    """Append to the job summary, if there is one. Raises InputRejected."""
    from certify.errors import InputRejected
    from certify.gate.github import summary
    from certify.states import quoted

    path = os.environ.get(SUMMARY)
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(summary(comparison, source))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputRejected(f"cannot write the job summary {quoted(path)}: {reason}", f"check {SUMMARY}") from error
