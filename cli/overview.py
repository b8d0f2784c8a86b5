"""A report in the words of its page: what the summaries of the command line say, one view a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from certify.cli import contraction, summary
from certify.cli.comparisons import (
    compared_claims,
    cut,
    found_of,
    numbers_of,
    published_claims,
    published_of,
)
from certify.cli.contraction import Section, contraction_factor
from certify.cli.measured import UNKNOWN, Measured, number, number_down, ratio_text
from certify.cli.options import METHODS
from certify.cli.streams import one_line
from certify.cli.summary import Row, proved, state_of

from certify.certificate import Claim, Report, parse
from certify.page import ComparedLine, FormatRow, Overview, PublishedLine, StageLine, StateView

#: Bounds from below, and radii within which something was proved: what is shown is never above what was proved.
ROUNDED_DOWN = ("mu", "radius", "entry_radius", "kappa")


def overview_of(report: Report) -> Overview:
    """The report in words."""
    rows = summary.rows(report)
    sections = {section.state: section for section in contraction.sections(report)}
    ball = summary.ball_of(report)
    kernel = summary.has_kernels(report)
    program = "the kernel" if "kernel" in report.subject else "each kernel" if kernel else "one update"
    place = "inputs" if "kernel" in report.subject else "state"
    views = _views(report, rows, sections, program, place)
    several = "kernels" if any(row.kernel for row in rows) else "states"
    return Overview(
        subject=summary.subject_line(report),
        basis=summary.basis(report),
        advice=summary.advice(report, summary.tolerance_of(report)) if rows else "",
        program=program,
        result="each output" if kernel else "W",
        place=place,
        ball=f"every {ball.center} within {ball.radius} of the {'given one' if kernel else 'state'}" if ball else "",
        stage_title=contraction.title(report),
        worst=_rows(summary.over_states(rows)),
        worst_of=f"all {len(views)} {several}" if len(views) > 1 else "",
        states=views,
        compared=[ComparedLine(c.id, c.verdict, numbers_of(c)) for c in compared_claims(report)],
        published=[
            PublishedLine(c.id, c.verdict, published_of(c), one_line(c.statement), found_of(c))
            for c in published_claims(report)
        ],
    )


def bound_text(name: str, text: str) -> str:
    """A bound in decimal: a count as it is, q so that it does not look like 1, others rounded to the safe side.

    Without a name it may be an upper or a lower bound, and is cut off after some digits.
    """
    if text.isdecimal():
        return f"{int(text):,}" if len(text) < 20 else proved(text)
    value = parse(text)
    if not name:
        return cut(value)
    if name == "q" and contraction_factor(value) != UNKNOWN:
        return contraction_factor(value)
    return number_down(value, 3) if name in ROUNDED_DOWN and value > 0 else proved(text)


def _views(
    report: Report, rows: Sequence[Row], sections: Mapping[int | None, Section], program: str, place: str
) -> list[StateView]:
    """One view a kernel, where there are several, else one a state."""
    names = list(dict.fromkeys(row.kernel for row in rows if row.kernel))
    if names:
        return [
            StateView(
                title=f"Kernel {name}",
                caption=f"The kernel {name} at the state",
                rows=_rows([row for row in rows if row.kernel == name]),
                away="",
                lines=(),
                claims=[claim for claim in report.claims if claim.parameters.get("kernel") == name],
            )
            for name in names
        ]
    # a claim about several states, such as a precision, carries no number of one
    states = list(dict.fromkeys(state_of(claim) for claim in report.claims))
    states = [k for k in states if k is not None] or states
    return [_view(k, rows, sections.get(k), report.claims, program, place) for k in states]


def _view(
    state: int | None, rows: Sequence[Row], section: Section | None, claims: Sequence[Claim], program: str, place: str
) -> StateView:
    return StateView(
        title=f"The {place}" if state is None else f"State {state}",
        caption=f"{program.capitalize()} at {f'the {place}' if state is None else f'state {state}'}",
        rows=_rows([row for row in rows if row.state == state]),
        away=section.away if section else "",
        lines=[StageLine(_question(line.name), line.verdict, line.text.replace("  ", ", ")) for line in section.lines]
        if section
        else (),
        claims=[claim for claim in claims if state_of(claim) == state],
    )


def _question(name: str) -> str:
    return f"contraction, {name}" if name in METHODS else name


def _rows(several: Sequence[Row]) -> list[FormatRow]:
    orders = {row.order for row in several}
    return [
        FormatRow(
            format=_named(row) if len(orders) == 1 else f"{_named(row)} {row.order}",
            digits_norm=row.digits_norm,
            digits_worst=row.digits_worst,
            point_bound=number(row.point.bound),
            point_seen=_seen(row.point),
            ball_bound=number(row.ball.bound),
            ball_seen=_seen(row.ball),
            risk=row.risk,
            verdict=row.verdict,
            point_ratio=ratio_text(row.point.ratio),
            ball_ratio=ratio_text(row.ball.ratio),
        )
        for row in several
    ]


def _named(row: Row) -> str:
    return "tuned" if row.tuned else row.format


def _seen(measured: Measured) -> str:
    """The largest error that came about, or was looked for and found."""
    return number(measured.observed) if not measured.chosen else number_down(measured.attained)
