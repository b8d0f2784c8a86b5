"""The page: a template, a style sheet and a script of this package, filled with a report that nobody vouches for.

Every text of the report is escaped where it is put in; the content security policy lets nothing run or load but this
package's own style sheet and script, named by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from certify.certificate import Claim, Report, Verdict
from certify.certificate.claims import COMPARED, COUNTEREXAMPLE
from certify.errors import MissingExtra
from certify.page.growth import draw_growth, growth_of
from certify.page.model import Check, Overview, StateView, Status
from certify.page.numbers import SHORT, headline, meaning, sort_key
from certify.page.origins import draw_strips, hottest, strips_of
from certify.page.stage import convergences_of, draw_convergence, draw_spectrum, spectrum_of
from certify.page.theorems import Texts, documents, link_of
from certify.version import __version__

#: Each chart takes a tenth of a second and ten kilobytes.
MOST_STATES_DRAWN = 12
#: Beyond, the text of the report is left to the download.
MOST_BYTES_SHOWN = 4 << 20
MARKS = {Verdict.CERTIFIED: "✓", Verdict.REFUTED: "✗", Verdict.UNDECIDED: "?"}
CHECK_MARKS = {Status.PROVED: "✓", Status.REJECTED: "✗", Status.NOT_CHECKED: "○"}
_ORDER = tuple(Verdict)
_DRAWN = ("growth", "shares", "raise_first", "spectrum", "convergence")
_LONGEST_VALUE = 120

Shown = Callable[[str, str], str]


@dataclass(frozen=True)
class Chart:
    """A drawing with its title and the sentence that says how to read it."""

    title: str
    svg: Any
    caption: str


@dataclass(frozen=True)
class Entry:
    """One claim as the table shows it."""

    claim: Claim
    anchor: str
    format: str
    bound_name: str
    bound: str
    bound_key: str
    bounds: Sequence[tuple[str, str, str, str]]
    parameters: Sequence[tuple[str, str]]
    observed: Sequence[tuple[str, str]]
    check: Check | None
    link: str


def require_html() -> None:
    """Raise MissingExtra if no page can be made."""
    try:
        import jinja2
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "a page needs jinja2 and matplotlib, which are not installed", "pip install 'certify[html]'"
        ) from error
    del jinja2


def render(
    report: Report,
    data: bytes,
    overview: Overview,
    *,
    name: str,
    shown: Shown,
    checks: Mapping[str, Check] | None = None,
    texts: Texts | None = None,
) -> bytes:
    """The page of a report: the same bytes for the same arguments and versions of what draws it.

    Parameters
    ----------
    report, data : the report, and the bytes of its file, which the page carries unchanged.
    overview : the report in words.
    name : what the report's file is called.
    shown : how a bound is written in decimal, from its name and its exact text; without a name, one that may be upper or lower.
    checks : what the independent checker said, by claim id; None if it did not run.
    texts : documents that claims cite, Markdown by path, beside those of docs/theory.

    Raises
    ------
    MissingExtra : jinja2 or matplotlib is not installed.
    """
    require_html()
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_printable
    )
    style, script = _own("page.css"), _own("page.js")
    entries = [_entry(k, claim, shown, checks, texts or {}) for k, claim in enumerate(report.claims)]
    page = environment.from_string(_own("page.html")).render(
        report=report,
        overview=overview,
        name=name,
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        charts=[_charts(k, view, overview.place) for k, view in enumerate(overview.states[:MOST_STATES_DRAWN])],
        entries=entries,
        theory=[(d.name, d.title, Markup(d.html)) for d in documents((c.theorem for c in report.claims), texts or {})],
        anchors={entry.claim.id: entry.anchor for entry in entries},
        marks=MARKS,
        check_marks=CHECK_MARKS,
        verdicts=_ORDER,
        tally=_tally(entries) if checks is not None else None,
        checked=checks is not None,
        rejected=sum(check.status is Status.REJECTED for check in (checks or {}).values()),
        rejected_status=Status.REJECTED,
        assumptions=list(dict.fromkeys(a for claim in report.claims for a in claim.assumptions)),
        json=data.decode("utf-8") if len(data) <= MOST_BYTES_SHOWN else "",
        download=base64.b64encode(data).decode("ascii"),
        size=len(data),
    )
    return page.encode("utf-8")


def _own(name: str) -> str:
    return importlib.resources.files("certify.page").joinpath(name).read_text("utf-8")


def _printable(value: Any) -> Any:
    """Texts of a report without control or direction characters, which could make a page read otherwise than it is."""
    if type(value) is not str or value.replace("\n", "").isprintable():
        return value
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in value)


def _policy(style: str, script: str) -> str:
    digests = [
        base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in (style, script)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _charts(index: int, view: StateView, place: str) -> list[Chart]:
    """The charts of one state; `index` tells their identifiers from those of others, `place` is what a state is called."""
    from markupsafe import Markup

    charts = []
    growth = growth_of(view.claims)
    if growth is not None:
        where = "anywhere in the ball" if growth.ball else f"at the {place}"
        marked = ", ".join(f"{risk.clause} in {risk.format}" for risk in growth.risks)
        caption = (
            f"How the bound of the error comes about, {where}: of the numbers that a layer computes, the one with the "
            "largest bound."
        )
        caption += f" Marked: {marked}." if marked else ""
        charts.append(("Error growth by layer", draw_growth(growth, f"g{index}-", f"Line chart. {caption}"), caption))
    strips = strips_of(view.claims)
    if strips:
        most = "; ".join(f"{strip.name}: {layer}, {share:.0%}" for strip in strips for layer, share in [hottest(strip)])
        caption = f"Which layers the bound of the error comes from, in the order of execution, by adjoint bounds. Most: {most}."
        charts.append(("Where the error comes from", draw_strips(strips, f"Heat strips. {caption}"), caption))
    spectrum = spectrum_of(view.claims)
    if spectrum is not None:
        few = "All of them are inside." if not spectrum.outside else f"Outside: {spectrum.outside}, so it does not."
        caption = (
            "An update brings states near the centre closer to each other if every eigenvalue, step size included, lies "
            f"between 0 and 2. {few} The points are computed, not proved."
        )
        charts.append(
            ("Spectrum: does repeating contract?", draw_spectrum(spectrum, f"s{index}-", f"Chart. {caption}"), caption)
        )
    for k, found in enumerate(convergences_of(view.claims)):
        caption = (
            f"Distance to the fixed point, update by update in {found.format}. Lines are the upper bounds that the count "
            "rests on; dots are a replay of the program, which must stay below."
        )
        drawn = draw_convergence(found, f"c{index}-{k}-", f"Line chart. {caption}")
        charts.append(("Convergence: bound and replay", drawn, caption))
    return [Chart(title, Markup(svg), caption) for title, svg, caption in charts]


def _entry(index: int, claim: Claim, shown: Shown, checks: Mapping[str, Check] | None, texts: Texts) -> Entry:
    name, exact = headline(claim)
    check = None if checks is None else checks.get(claim.id, Check(Status.NOT_CHECKED))
    format = claim.parameters.get("format")
    # of these kinds only the statement says which bounds are upper and which are lower ones
    undirected = claim.kind in (*COMPARED, COUNTEREXAMPLE)
    bounds = [
        (bound, meaning(bound), shown("" if undirected else bound, text), text) for bound, text in claim.bounds.items()
    ]
    return Entry(
        claim=claim,
        anchor=f"claim-{index + 1}",
        format=format[:40] if isinstance(format, str) else "",
        bound_name=SHORT.get(name, name),
        bound=shown("" if undirected else name, exact) if exact else "",
        bound_key=sort_key(exact),
        bounds=bounds,
        parameters=[(key, _brief(value)) for key, value in claim.parameters.items() if value != ""],
        observed=[(key, _brief(value)) for key, value in claim.observed.items() if key not in _DRAWN],
        check=check,
        link=link_of(claim.theorem, texts),
    )


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        text = ", ".join(f"{key} {_brief(entry)}" for key, entry in value.items())
    elif isinstance(value, list):
        text = ", ".join(map(_brief, value[:20])) + (", ..." if len(value) > 20 else "")
    else:
        text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _tally(entries: Sequence[Entry]) -> list[tuple[Status, int]]:
    counted = [(status, sum(e.check is not None and e.check.status is status for e in entries)) for status in Status]
    return [(status, count) for status, count in counted if count]
