"""What a report says about the fixed stage, arranged for a person: a line a method, the update counts, the formats.

Everything here is text and exact numbers taken from the report; how it looks is `certify.cli.rendering`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from certify.cli.measured import UNKNOWN, exact, number, number_down
from certify.cli.streams import one_line
from certify.cli.summary import decimal, has_kernels, state_of

from certify.certificate import Claim, Report, Verdict, overall

LONGEST_REASON = 240
PAPER_PREFIX = "no ball of the paper's radii passes; at the smallest, "

#: What the claims say at length, and how it is said beside a verdict.
SHORTER = (
    (re.compile(r"the curvature is only bounded below by (\S+)"), r"only mu >= \1 proved"),
    (re.compile(r"(a step (?:size )?below \S+ would (?:pass|contract))"), r"\1, try --step new"),
    (re.compile(r"replay the block with --replay"), "try --replay MAX"),
    (re.compile(r" for this tolerance$"), ""),
)


@dataclass(frozen=True)
class Line:
    """One answer: what was asked, the verdict, and the numbers proved or what failed."""

    name: str
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class Section:
    """The lines about one state, or about several together.

    Attributes
    ----------
    state : its number in the file; None if the file holds one state, and for several.
    away : how far the centre is from the state, as text; empty for several.
    lines : by method, then updates, then formats.
    """

    state: int | None
    away: str
    lines: tuple[Line, ...]


def title(report: Report) -> str:
    """What the sections answer, with the step size and the tolerance; empty if the report has none."""
    claims = _claims(report)
    if not claims:
        return ""
    step = next((c.parameters["step"] for c in claims if c.parameters.get("step") in ("recorded", "new")), "")
    tol = next((decimal(c.parameters.get("tol")) for c in claims), UNKNOWN)
    within = f", and updates to within {tol}" if tol != UNKNOWN else ""
    return f"Fixed stage{f', {step} step' if step else ''}: contraction{within}"


def sections(report: Report) -> list[Section]:
    """A section a state, in the order of the report."""
    groups: dict[int | None, list[Claim]] = {}
    for claim in _claims(report):
        groups.setdefault(state_of(claim), []).append(claim)
    return [Section(state, _away(claims), tuple(_lines(claims))) for state, claims in groups.items()]


def over_states(report: Report) -> Section:
    """One section for all states: how many are certified, and the numbers that hold at all of those."""
    claims = _claims(report)
    groups: dict[str, list[Claim]] = {}
    for claim in claims:
        name = _name(claim) if claim.kind == "contraction" else f"updates {_word(claim.parameters.get('format'))}"
        if claim.kind != "precision":
            groups.setdefault(name, []).append(claim)
    return Section(None, "", tuple(Line(name, overall(group), _worst(group)) for name, group in groups.items()))


def contraction_factor(q: Fraction) -> str:
    """q with two digits of 1 - q, rounded up and never to 1: 0.9978, or 1 - 2.4e-09 where that is shorter."""
    gap = 1 - q
    if not 0 < gap < 1:
        return "0" if gap == 1 else UNKNOWN
    digits = number_down(gap)
    exponent = int(digits.split("e")[1])
    if exponent < -7:
        return f"1 - {digits}"
    places = 1 - exponent
    scaled = (1 - Fraction(digits)) * 10**places
    return f"0.{int(scaled):0{places}d}"


def updates_text(count: Fraction, replayed: int) -> str:
    """A predicted count, as in `44 updates` or `1,812 replayed, then at most 5,031`."""
    most = f"{int(count):,}"
    if replayed:
        return f"{replayed:,} replayed, then at most {most}"
    return f"at most {most} update{'' if count == 1 else 's'}"


def shorter(reason: str, radius: str = "") -> str:
    """A claim's reason in fewer words, with the radius where it fails and the option that changes it."""
    text = one_line(reason).removeprefix(PAPER_PREFIX)
    for pattern, words in SHORTER:
        text = pattern.sub(words, text)
    if radius:
        text = text.replace(" fails: ", f" fails at radius {radius}: ", 1)
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON].rsplit(' ', 1)[0]} (more with --claims)"


def _claims(report: Report) -> list[Claim]:
    if has_kernels(report):
        return []  # of another case, which has no stages: shown with what it compares
    return [
        c
        for c in report.claims
        if c.kind in ("contraction", "updates")
        or (c.kind == "precision" and not c.id.startswith("precision/update/") and "step" in c.parameters)
    ]


def _lines(claims: Sequence[Claim]) -> Iterable[Line]:
    yield from (_method(c) for c in claims if c.kind == "contraction")
    yield from _updates([c for c in claims if c.kind == "updates"])
    yield from (_precision(c) for c in claims if c.kind == "precision" and c.verdict is Verdict.CERTIFIED)


def _method(claim: Claim) -> Line:
    if claim.verdict is not Verdict.CERTIFIED:
        return Line(_name(claim), claim.verdict, shorter(claim.reason, _last_radius(claim)))
    return Line(_name(claim), claim.verdict, _numbers([claim]) + _face(claim))


def _last_radius(claim: Claim) -> str:
    """Of the paper's methods, which try smaller and smaller balls; the face method chooses its balls otherwise."""
    attempts = claim.observed.get("attempts")
    if not (claim.reason.startswith(PAPER_PREFIX) and isinstance(attempts, list) and attempts):
        return ""
    radius = decimal(attempts[-1].get("radius")) if isinstance(attempts[-1], dict) else UNKNOWN
    return "" if radius == UNKNOWN else radius


def _numbers(claims: Sequence[Claim]) -> str:
    """The smallest radius and the largest q of certified claims."""
    radii = [r for r in (exact(c.bounds.get("radius")) for c in claims) if r is not None]
    factors = [q for q in (exact(c.bounds.get("q")) for c in claims) if q is not None]
    radius = number_down(min(radii)) if radii and min(radii) > 0 else UNKNOWN
    return f"radius {radius}  q {contraction_factor(max(factors)) if factors else UNKNOWN}"


def _face(claim: Claim) -> str:
    entries, allowed = claim.observed.get("face"), claim.observed.get("allowed")
    if isinstance(entries, int) and isinstance(allowed, int) and entries < allowed:
        return f"  on {entries} of {allowed} entries"
    return ""


def _updates(claims: Sequence[Claim]) -> Iterable[Line]:
    """A line for each format with a count, then one for all that failed for the same reason."""
    failed: dict[tuple[Verdict, str], list[str]] = {}
    for claim in claims:
        format = _word(claim.parameters.get("format"))
        count = exact(claim.bounds.get("count"))
        if claim.verdict is Verdict.CERTIFIED and count is not None:
            yield Line("updates", claim.verdict, f"{updates_text(count, _replayed(claim))} in {format}")
        else:
            reason = shorter(claim.reason.replace(f" in {format}", ""))
            failed.setdefault((claim.verdict, reason), []).append(format)
    for (verdict, reason), formats in failed.items():
        yield Line("updates", verdict, f"in {', '.join(formats)}: {reason}")


def _precision(claim: Claim) -> Line:
    format = _word(claim.parameters.get("format"))
    return Line("format", claim.verdict, f"{format} is the coarsest with a ball that gets there and stays")


def _worst(claims: Sequence[Claim]) -> str:
    """How many of the claims about several states have each verdict, what holds at the certified, who failed first."""
    by = {verdict: [c for c in claims if c.verdict is verdict] for verdict in Verdict}
    counts = ", ".join(f"{verdict.value} at {len(group)}" for verdict, group in by.items() if group)
    certified = by[Verdict.CERTIFIED]
    parts = [f"{counts} of {len(claims)} states" if len(certified) < len(claims) else f"at all {len(claims)} states"]
    if certified and claims[0].kind == "contraction":
        parts.append(_numbers(certified))
    if certified and claims[0].kind == "updates":
        counted = [(exact(c.bounds.get("count")) or Fraction(0), _replayed(c)) for c in certified]
        parts.append(updates_text(*max(counted, key=lambda pair: pair[0] + pair[1])))
    first = next((c for c in claims if c.verdict is not Verdict.CERTIFIED), None)
    if first is not None:
        parts.append(f"state {state_of(first)}: {shorter(first.reason, _last_radius(first))}")
    return "; ".join(parts)


def _away(claims: Iterable[Claim]) -> str:
    distances = (exact(c.observed.get("center_distance")) for c in claims if c.kind == "contraction")
    return number(next((d for d in distances if d is not None), None))


def _replayed(claim: Claim) -> int:
    replayed = claim.parameters.get("replayed")
    return replayed if isinstance(replayed, int) else 0


def _name(claim: Claim) -> str:
    return _word(claim.parameters.get("method"))


def _word(value: object) -> str:
    return one_line(value)[:20] if isinstance(value, str) and value else UNKNOWN
