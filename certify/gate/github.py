"""The comparison for GitHub Actions: annotations in the log, and a job summary in Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterable

from certify.gate.findings import Change, Code, Comparison, Finding, Source
from certify.states.quoting import quoted

#: GitHub shows ten annotations of a level for each step, and drops the others without a word.
MOST = 10
#: A summary may have a mebibyte; this many rows of the longest messages fit.
_MOST_ROWS = 400


def render(comparison: Comparison, source: Source) -> str:
    """The workflow commands: an error for each failure, warnings for bounds that slipped, a notice that sums up."""
    file = _property(source.baseline)
    slipped = [(c, f) for c in comparison.changes for f in c.findings if f.code is Code.SLIPPED_BOUND]
    failures = [(c, f) for c in comparison.failed for f in c.failures]
    lines = []
    for level, found in (("error", failures), ("warning", slipped)):
        cut = found if len(found) <= MOST else found[: MOST - 1]
        for change, finding in cut:
            place = f"file={file},line={source.line(change.id)},title={_property(_title(finding))}"
            lines.append(f"::{level} {place}::{_data(f'{change.id} {finding.message}')}")
        if len(cut) < len(found):
            more = f"{len(found) - len(cut)} more, see the job summary"
            lines.append(f"::{level} file={file},line=1,title=certify gate::{_data(more)}")
    lines.append(f"::notice title=certify gate::{_data(comparison.headline)}")
    return "\n".join(lines)


def summary(comparison: Comparison, source: Source) -> str:
    """The job summary, in Markdown, with a final newline."""
    mark = "✅" if comparison.passed else "❌"
    lines = [f"## {mark} certify gate {comparison.headline}", ""]
    lines += [f"Baseline {_code(source.baseline)}, current {_code(source.current)}.", ""]
    if comparison.rules:
        lines += [f"Rules: {', '.join(_code(rule.text) for rule in comparison.rules)}.", ""]
    lines += [f"- {_cell(note)}" for note in comparison.notes]
    lines += [""] * bool(comparison.notes)
    rest = [(c, f) for c in comparison.changes for f in c.findings if not f.code.fails]
    lines += _table("Failed", [(c, f) for c in comparison.failed for f in c.failures])
    lines += _table("Not failed", rest)
    return "\n".join(lines).rstrip() + "\n"


def _table(title: str, found: list[tuple[Change, Finding]]) -> list[str]:
    if not found:
        return []
    rows = [f"| {_code(change.id)} | {finding.code} | {_cell(finding.message)} |" for change, finding in found]
    more = [f"\n{len(rows) - _MOST_ROWS} more rows are left out."] if len(rows) > _MOST_ROWS else []
    return [f"### {title}", "", "| claim | what | how |", "| --- | --- | --- |", *rows[:_MOST_ROWS], *more, ""]


def _title(finding: Finding) -> str:
    return f"certify gate: {finding.code.replace('-', ' ')}"


def _data(text: str) -> str:
    """Escape the message of a workflow command."""
    return _escaped(text, (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")))


def _property(text: str) -> str:
    """Escape the value of a property of a workflow command."""
    return _escaped(_data(text), ((":", "%3A"), (",", "%2C")))


def _escaped(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    for plain, code in pairs:
        text = text.replace(plain, code)
    return text


def _code(text: str) -> str:
    return f"<code>{_cell(quoted(text)[1:-1])}</code>"


def _cell(text: str) -> str:
    """Text that Markdown and HTML show as it is, in a table too: each of their signs as a character reference."""
    escaped = html.escape(text)
    for sign in "|`*_[]\\~@":
        escaped = escaped.replace(sign, f"&#{ord(sign)};")
    return escaped
