"""The comparison as text for a person: how it went, then what failed, then what else changed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from certify.gate.findings import BoundChange, Change, Code, Comparison, Source
from certify.gate.numbers import percent, shown
from certify.states.quoting import quoted

WIDTH = 80
_HEADER = ("bound", "baseline", "current", "change", "allowed")
_IN_TABLE = (Code.WORSE_BOUND, Code.SLIPPED_BOUND, Code.BETTER_BOUND)
_BETTER = (Code.BETTER_BOUND, Code.STRONGER_VERDICT, Code.COARSER_FORMAT, Code.NEW_BOUND)


def render(comparison: Comparison, source: Source) -> str:
    """The whole text, without a final newline; printable. Sentences are wrapped at 80 columns, claim ids are not."""
    passing = [change for change in comparison.changes if not change.failures]
    slipped = [change for change in passing if _has(change, Code.SLIPPED_BOUND)]
    others = [change for change in passing if not _has(change, Code.SLIPPED_BOUND)]
    better = [change for change in others if _has(change, *_BETTER)]
    new = [change for change in passing if change.baseline is None]
    lines = [
        f"certify gate {comparison.headline}",
        *_wrapped(f"baseline {quoted(source.baseline)}, current {quoted(source.current)}", ""),
        *(line for note in comparison.notes for line in _wrapped(note, "")),
        *_section("Failed", comparison.failed),
        *_section("Worse, and no rule forbids it", slipped),
        *_section("Better", better),
        *_section("New", new),
    ]
    quiet = sum(any(b.worse_by > 0 and not b.noteworthy for b in c.bounds) for c in others)
    if quiet:
        lines += ["", f"Worse by at most 1 %, and no rule forbids it: {quiet} claim{'' if quiet == 1 else 's'}"]
    return "\n".join(lines)


def _section(title: str, changes: Iterable[Change]) -> list[str]:
    changes = list(changes)
    if not changes:
        return []
    rows = [[_row(bound) for bound in change.bounds if _in_table(bound)] for change in changes]
    cells = [row for several in rows for row in several]
    widths = [max(map(len, column)) for column in zip(_HEADER, *cells, strict=True)] if cells else []
    lines = ["", title]
    if cells:
        lines.append(_aligned(_HEADER, widths))
    for change, several in zip(changes, rows, strict=True):
        lines.append(f"  {change.id}")
        for finding in change.findings:
            if finding.code not in _IN_TABLE:
                lines += _wrapped(finding.message, "    ")
        lines += [_aligned(row, widths) for row in several]
    return lines


def _has(change: Change, *codes: Code) -> bool:
    return any(finding.code in codes for finding in change.findings)


def _in_table(bound: BoundChange) -> bool:
    both = bound.baseline is not None and bound.current is not None
    return both and (bool(bound.broken) or bound.noteworthy)


def _row(bound: BoundChange) -> tuple[str, ...]:
    before, after = shown(bound.baseline, bound.current)
    which = "worse" if bound.worse_by > 0 else "better"
    change = f"{which} than 0" if bound.relative is None else f"{percent(abs(bound.relative))[1:]} {which}"
    return quoted(bound.name)[1:-1], before, after, change, ", ".join(rule.allowance for rule in bound.broken)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = row
    cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
    return f"    {'  '.join(cells)}".rstrip()


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
