"""How a report looks to a person: the widest question first, and a dash where nothing is known.

Works in any width: a table where there is room for one, else a block of lines a format. Texts of a report are shown
as they are, never as markup.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from certify.cli import contraction
from certify.cli.comparisons import bounds_of, compared_kinds, print_comparisons
from certify.cli.contraction import Section
from certify.cli.likelihood import KIND, likely_claims, print_likely
from certify.cli.measured import UNKNOWN, Measured, number, number_down, ratio_text
from certify.cli.origins import origins_of, print_origins
from certify.cli.streams import DASH, one_line
from certify.cli.summary import (
    Ball,
    Row,
    advice,
    ball_of,
    basis,
    decimal,
    others,
    over_states,
    proved,
    rows,
    subject_line,
    tolerance_of,
)
from certify.cli.tuning import print_tuning, tunings_of

from certify.certificate import Claim, Report, Verdict, parse
from certify.certificate.claims import COUNTEREXAMPLE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

COLOURS = {Verdict.CERTIFIED: "bold green", Verdict.REFUTED: "bold red", Verdict.UNDECIDED: "bold yellow"}
TABLE_WIDTH = 76
"""Columns that the table needs; below, each format is a block of lines."""
DIGITS_WIDTH = 15
"""Of these, those of the digits: beside ratios on a ball there is room for them in wide terminals alone."""
MANY_STATES = 4
"""Above, one table holds the worst of all states, and `show --state` the others."""


def show_summary(
    console: Console,
    report: Report,
    path: str,
    *,
    note: str = "",
    tol: float | None = None,
    state: int | None = None,
) -> None:
    """Print the verdict, the table of updates, the fixed stage, the advice and where the report lies.

    Parameters
    ----------
    console : where to.
    report : what to show.
    path : the report's file, or - where it went to standard output or came from standard input.
    note : what to add to the path, such as the time it took.
    tol : the error of one update to advise for; the one the run asked for, if None.
    state : the one state to show a table for; all of them, or their worst, if None.
    """
    from rich.text import Text

    console.print(Text.assemble(f"{subject_line(report)}: ", verdict_text(report.verdict), basis(report)))
    ball = ball_of(report)
    stage = contraction.title(report)
    several = rows(report)
    for k, (title, of_state) in enumerate(_tables(several, state)):
        console.print()
        if stage and k == 0:
            console.print("One update: rounding and range", style="bold")
        if title:
            console.print(title, style="" if stage else "bold")
        if console.width >= _width(of_state):
            _print_table(console, of_state, ball)
        else:
            _print_blocks(console, of_state)
    print_comparisons(console, report)
    notes = [Text(_about(ball, _compares(several)), style="dim")] if ball is not None else []
    if _compares(several):
        notes.append(Text(_about_attained(several), style="dim"))
    for kind, verdict, count in others(report):
        notes.append(Text.assemble(f"{kind}: ", verdict_text(verdict), f" ({count} claim{'s' if count > 1 else ''})"))
    for k, note_line in enumerate(notes):
        if k == 0:
            console.print()
        console.print(note_line)
    for tuning in tunings_of(report):
        console.print()
        print_tuning(console, tuning)
    if any(origins_of(report, state)):
        console.print()
        print_origins(console, report, state)
    if stage:
        console.print()
        _print_stage(console, report, stage, state)
    if likely := likely_claims(report, state):
        console.print()
        print_likely(console, likely)
    if several:
        console.print()
        console.print(advice(report, tolerance_of(report) if tol is None else Fraction(tol)))
    console.print()
    _print_place(console, path, note)


def show_claims(console: Console, report: Report) -> None:
    """Print every claim with its verdict, statement, numbers, reason and assumptions."""
    from rich.padding import Padding
    from rich.text import Text

    assumptions = list(dict.fromkeys(a for claim in report.claims for a in claim.assumptions))
    undirected = (*compared_kinds(report), COUNTEREXAMPLE)
    for claim in report.claims:
        console.print(Text.assemble((claim.id, "bold"), "  ", verdict_text(claim.verdict)))
        lines = [one_line(claim.statement)]
        if claim.reason:
            lines.append(f"Reason: {one_line(claim.reason)}.")
        if claim.bounds:
            numbers = bounds_of(claim) if claim.kind in undirected else _bounds(claim)
            lines.append(f"{'Probable' if claim.kind == KIND else 'Proved'}: {numbers}.")
        if observed := _observed(claim):
            lines.append(f"Observed: {observed}.")
        if claim.assumptions:
            lines.append(f"Assumes {', '.join(str(assumptions.index(a) + 1) for a in claim.assumptions)}.")
        if claim.theorem:
            lines.append(f"Proof: {one_line(claim.theorem)}")
        for line in lines:
            console.print(Padding(Text(line), (0, 0, 0, 2)))
        console.print()
    if assumptions:
        console.print("Assumptions", style="bold")
        for i, assumption in enumerate(assumptions, 1):
            console.print(Padding(Text(f"{i}. {one_line(assumption)}"), (0, 0, 0, 2)))


def _tables(several: Sequence[Row], state: int | None) -> list[tuple[str, list[Row]]]:
    if kernels := list(dict.fromkeys(row.kernel for row in several if row.kernel)):
        return [
            (f"Kernel {name}: rounding and range", [row for row in several if row.kernel == name]) for name in kernels
        ]
    states = list(dict.fromkeys(row.state for row in several))
    if state is not None:
        states = [state]
    elif len(states) > MANY_STATES:
        return [(f"Worst of {len(states)} states (one of them: certify show REPORT --state K)", over_states(several))]
    return [("" if k is None else f"State {k}", [row for row in several if row.state == k]) for k in states]


def _print_table(console: Console, several: Sequence[Row], ball: Ball | None) -> None:
    from rich.table import Table
    from rich.text import Text

    # Each header is read across: "digits kept" over "norm" and "worst".
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", collapse_padding=True)
    table.add_column("\nformat", no_wrap=True)
    compared = _compares(several)
    digits = not compared or ball is None or console.width >= _width(several) + DIGITS_WIDTH
    if digits:
        table.add_column("digits\nnorm", justify="right", no_wrap=True)
        table.add_column("kept\nworst", justify="right", no_wrap=True)
    for first, second, seen in [("at", "state", "exact"), ("on", "ball", "sampled")][: 1 if ball is None else 2]:
        table.add_column(f"error {first}\nbound", justify="right", no_wrap=True)
        table.add_column(f"{second}\n{'attained' if compared else seen}", justify="right", no_wrap=True)
        if compared:
            table.add_column("\nratio", justify="right", no_wrap=True)
    table.add_column("\nverdict", overflow="fold")
    for row in several:
        cells = [_name(row, several), *([row.digits_norm, row.digits_worst] if digits else [])]
        for measured in [row.point, row.ball][: 1 if ball is None else 2]:
            cells += _cells(measured, compared)
        table.add_row(*cells, Text.assemble(verdict_text(row.verdict), f", {row.risk}" if row.risk else ""))
    console.print(table)


def _print_blocks(console: Console, several: Sequence[Row]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    compared = _compares(several)
    for row in several:
        console.print(Text.assemble(f"{_name(row, several)}: ", verdict_text(row.verdict)))
        lines = [row.risk] if row.risk else []
        if row.digits_norm != UNKNOWN:
            lines.append(f"digits kept: {row.digits_norm}, worst {row.digits_worst}")
        for where, measured, how in (("at state", row.point, "exact"), ("on ball", row.ball, "sampled")):
            if measured.bound is not None:
                seen = (
                    f"attained {number_down(measured.attained)}" if compared else f"{how} {number(measured.observed)}"
                )
                ratio = f", ratio {ratio_text(measured.ratio)}" if compared else ""
                lines.append(f"{where} <= {number(measured.bound)}, {seen}{ratio}")
        for line in lines:
            console.print(Padding(Text(line), (0, 0, 0, 2)))


def _width(several: Sequence[Row]) -> int:
    return TABLE_WIDTH + max((len(_name(row, several)) for row in several), default=0) - len("float16")


def _compares(several: Sequence[Row]) -> bool:
    """Whether errors that were looked for stand beside the bounds, and not only those that came about."""
    return any(measured.chosen or measured.sharp for row in several for measured in (row.point, row.ball))


def _about_attained(several: Sequence[Row]) -> str:
    sharp = any(measured.sharp for row in several for measured in (row.point, row.ball))
    start = "Bounds are adjoint ones where there are some. " if sharp else ""
    return (
        f"{start}Attained: an error that the program makes, or that chosen directions of all its roundings make, replayed: "
        "reached in the model of the bounds. Ratio: the bound over it."
    )


def _about(ball: Ball, compared: bool) -> str:
    sampled = f"; the largest error of {ball.samples} states in it is a sample, not a bound"
    replayed = sampled if ball.samples and not compared else ""
    return f"Ball: every {ball.center} within {ball.radius} of the state{replayed}."


def _print_stage(console: Console, report: Report, title: str, state: int | None) -> None:
    several = contraction.sections(report)
    if state is not None:
        several = [section for section in several if section.state == state]
    elif len(several) > MANY_STATES:
        several = [contraction.over_states(report)]
    console.print(title, style="bold")
    for k, section in enumerate(several):
        if k:
            console.print()
        if section.away:
            where = "The" if section.state is None else f"State {section.state}: the"
            console.print(f"{where} centre is {section.away} from the state")
        _print_lines(console, section)
    console.print()
    console.print(
        "Centre: a polished fixed point. On the ball of that radius around it an update brings any two W closer, by a "
        "factor of at most q.",
        style="dim",
    )


def _print_lines(console: Console, section: Section) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if console.width < TABLE_WIDTH:
        for line in section.lines:
            console.print(Text.assemble(f"{line.name}: ", verdict_text(line.verdict)))
            console.print(Padding(Text(line.text.replace("  ", ", ")), (0, 0, 0, 2)))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False, collapse_padding=True)
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    names = ["", *(line.name for line in section.lines)]
    for line, before in zip(section.lines, names, strict=False):
        table.add_row("" if line.name == before else line.name, verdict_text(line.verdict), line.text)
    console.print(table)


def _print_place(console: Console, path: str, note: str) -> None:
    if path == DASH:
        console.print(f"Report: on standard output{note}; keep it with -o FILE, and look at it with certify show FILE.")
        return
    name = shlex.quote(path if path.isprintable() else one_line(path))
    # Not wrapped: these are lines to copy.
    console.print(f"Report: {name}{note}", soft_wrap=True)
    console.print(f"  certify check {name}", soft_wrap=True)
    console.print(f"  certify show --claims {name}", soft_wrap=True)
    console.print(f"  jq -r '.claims[] | [.verdict, .id] | @tsv' {name}", soft_wrap=True)


def verdict_text(verdict: Verdict) -> Text:
    """The verdict in its colour."""
    from rich.text import Text

    return Text(verdict.value, style=COLOURS[verdict])


def _name(row: Row, several: Sequence[Row]) -> str:
    format = "tuned" if row.tuned else row.format
    return f"{format} {row.order}" if len({r.order for r in several}) > 1 else format


def _cells(measured: Measured, compared: bool) -> list[str]:
    if compared:
        return [number(measured.bound), number_down(measured.attained), ratio_text(measured.ratio)]
    return [number(measured.bound), number(measured.observed)]


def _bounds(claim: Claim) -> str:
    relation = "<=" if claim.kind in ("rounding", "range", KIND) else "="
    return ", ".join(f"{one_line(name)} {relation} {_bound(name, text)}" for name, text in claim.bounds.items())


def _bound(name: str, text: str) -> str:
    """Rounded up, but a count as it is, and q so that it does not look like 1."""
    if text.isdecimal():
        return f"{int(text):,}" if len(text) < 20 else proved(text)
    factor = contraction.contraction_factor(parse(text)) if name == "q" else UNKNOWN
    return proved(text) if factor == UNKNOWN else factor


def _observed(claim: Claim) -> str:
    shown = []
    for name, value in claim.observed.items():
        if isinstance(value, list | dict):  # series, which the page draws
            continue
        text = decimal(value)
        shown.append(
            f"{one_line(name)} {text if isinstance(value, str) and text != DASH else one_line(str(value))[:80]}"
        )
    return ", ".join(shown)
