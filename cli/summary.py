"""What a report says, arranged for a person: one row a format, and one sentence of advice.

Everything here is text and exact numbers taken from the report; how it looks is `certify.cli.rendering`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from certify.certificate import Claim, Report, Verdict, decimal_up, overall, parse
from certify.cli.streams import one_line
from certify.errors import InputRejected

#: Formats from coarse to fine, to say which of several is the coarsest; others come after, as the report has them.
COARSE_TO_FINE = ("bfloat16", "float16", "float32", "float64")
UNKNOWN = "-"


@dataclass(frozen=True)
class Measured:
    """An error of W in one region: proved to be at most `bound`, and seen to be `observed`; None is not known."""

    bound: Fraction | None = None
    observed: Fraction | None = None


@dataclass(frozen=True)
class Row:
    """One format at one state, or over several.

    Attributes
    ----------
    state : its number in the file; None if the file holds one state.
    format, order : what the program computes in.
    digits_norm, digits_worst : decimal digits of W that the bound leaves, of its norm and of its worst entry.
    point, ball : the error at the state, and anywhere on the ball around it.
    risk : the first operation that overflows or may, as a clause; empty if none.
    verdict : of the claims about this format together.
    """

    state: int | None
    format: str
    order: str
    digits_norm: str = UNKNOWN
    digits_worst: str = UNKNOWN
    point: Measured = Measured()
    ball: Measured = Measured()
    risk: str = ""
    verdict: Verdict = Verdict.UNDECIDED

    @property
    def bound(self) -> Fraction | None:
        """The larger of the bounds, as far as the claims of the row are certified."""
        bounds = [b for b in (self.point.bound, self.ball.bound) if b is not None]
        return max(bounds) if bounds and self.verdict is Verdict.CERTIFIED else None


@dataclass(frozen=True)
class Ball:
    """The ball that the report speaks about: its radius and how many of its states were replayed, as text."""

    radius: str
    samples: str


def rows(report: Report) -> list[Row]:
    """The rows of a report in its order: by state, then by format. Claims of other kinds have none."""
    groups: dict[tuple[int | None, str, str], list[Claim]] = {}
    for claim in report.claims:
        if claim.kind not in ("rounding", "range") or claim.parameters.get("method") == "majorant":
            continue
        key = (state_of(claim), _text(claim.parameters.get("format")), _text(claim.parameters.get("order")))
        groups.setdefault(key, []).append(claim)
    return [_row(Row(*key), claims) for key, claims in groups.items()]


def over_states(several: Sequence[Row]) -> list[Row]:
    """One row a format and order: the worst of its rows at each state."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in several:
        groups.setdefault((row.format, row.order), []).append(row)
    return [_worst(group) for group in groups.values()]


def ball_of(report: Report) -> Ball | None:
    """The ball of the claims, None if they are about points only."""
    for claim in report.claims:
        if _region(claim) == "ball":
            radius, samples = claim.parameters["region"].get("radius"), claim.observed.get("samples")
            if samples is not None or claim.kind != "rounding":
                return Ball(decimal(radius), str(samples) if isinstance(samples, int) else UNKNOWN)
    balls = [c for c in report.claims if _region(c) == "ball"]
    return Ball(decimal(balls[0].parameters["region"].get("radius")), UNKNOWN) if balls else None


def others(report: Report) -> list[tuple[str, Verdict, int]]:
    """The kinds of claims that have no rows: kind, overall verdict, and how many there are."""
    groups: dict[str, list[Claim]] = {}
    for claim in report.claims:
        if claim.kind not in ("rounding", "range"):
            groups.setdefault(claim.kind, []).append(claim)
    return [(kind, overall(claims), len(claims)) for kind, claims in groups.items()]


def subject_line(report: Report) -> str:
    """What the report is about, in a few words."""
    subject = report.subject
    count = subject.get("states")
    states = f"{count} states" if isinstance(count, int) else "a state"
    size = f" of {subject['p']} variables" if "p" in subject else ""
    capacity = f"capacity {subject['p_max']}" if "p_max" in subject else ""
    digest = subject.get("tensors", {}).get("W", {}).get("sha256", "")[:8]
    known = ", ".join(part for part in (capacity, f"W {digest}" if digest else "") if part)
    return one_line(f"{_text(subject.get('case'))}, {states}{size}{f' ({known})' if known else ''}")


def basis(report: Report) -> str:
    """The formats that the overall verdict rests on, as in ` in float32`; empty if it rests on all claims."""
    if report.required is None:
        return ""
    wanted = set(report.required)
    formats = dict.fromkeys(_text(c.parameters.get("format")) for c in report.claims if c.id in wanted)
    return f" in {', '.join(formats)}" if formats else ""


def advice(report: Report, tol: float | None) -> str:
    """Which format to use: the coarsest that is proved enough, and why the coarser ones are not.

    `tol` is the error of one update that is small enough. A report does not carry it; without it the verdict of
    the run decides, through the claims it required.
    """
    by_coarseness = sorted(over_states(rows(report)), key=_coarseness)
    if not by_coarseness:
        return "The report has no claim about a format."
    limit = None if tol is None else Fraction(tol)
    enough = [row for row in by_coarseness if _enough(row, report, limit)]
    target = "the tolerance of the run" if tol is None else f"a tolerance of {tol:g}"
    if not enough:
        return f"No format tried is proved enough for {target}: {_shortfalls(by_coarseness, report, limit)}."
    best = enough[0]
    coarser = by_coarseness[: by_coarseness.index(best)]
    sentence = (
        f"Use {_name(best, by_coarseness)}: it is the coarsest format tried that is proved enough for {target}, "
        f"with an error of W of at most {number(best.bound)} in one update"
    )
    return f"{sentence}; {_shortfalls(coarser, report, limit)}." if coarser else f"{sentence}."


def number(value: Fraction | None) -> str:
    """Two digits, rounded up: a bound that is shown is never below the bound that was proved."""
    return UNKNOWN if value is None else decimal_up(value, 2)


def decimal(text: Any) -> str:
    """A number string of a report in short decimal notation, for what is no bound."""
    try:
        return f"{float(parse(text)):g}"
    except (InputRejected, TypeError, OverflowError):
        return UNKNOWN


def state_of(claim: Claim) -> int | None:
    """The number of the state that a claim is about, None in a report about one state."""
    found = re.search(r"/state=([0-9]{1,9})$", claim.id)
    return int(found[1]) if found else None


def _row(row: Row, claims: Iterable[Claim]) -> Row:
    claims = list(claims)
    row = replace(row, verdict=overall(claims))
    for claim in claims:
        region = _region(claim)
        if claim.kind == "rounding" and region in ("point", "ball"):
            measured = Measured(_exact(claim.bounds.get("eps_W")), _exact(claim.observed.get("error_W")))
            row = replace(row, point=measured) if region == "point" else replace(row, ball=measured)
            if "digits_norm" in claim.display:
                row = replace(row, digits_norm=_digits(claim, "digits_norm"), digits_worst=_digits(claim, "digits_worst"))
        if claim.kind == "range" and claim.verdict is not Verdict.CERTIFIED and not row.risk:
            row = replace(row, risk=_risk(claim))
    return row


def _risk(claim: Claim) -> str:
    """The clause of a range claim's reason that names the place, without the source line."""
    clause = re.sub(r" \([^()]*:[0-9]+\)", "", one_line(claim.reason)).split(":")[0][:80]
    clause = re.sub(r"^register ", "", clause)
    return clause + (" on the ball" if _region(claim) == "ball" else "")


def _worst(group: Sequence[Row]) -> Row:
    """The row that holds at every state of the group; a number that is not known somewhere is not known."""
    first = group[0]
    if len(group) == 1:
        return first
    at_risk = next((row for row in group if row.risk), None)
    verdicts = [row.verdict for row in group]
    return Row(
        state=None,
        format=first.format,
        order=first.order,
        digits_norm=_fewest([row.digits_norm for row in group]),
        digits_worst=_fewest([row.digits_worst for row in group]),
        point=Measured(_most([r.point.bound for r in group]), _most([r.point.observed for r in group])),
        ball=Measured(_most([r.ball.bound for r in group]), _most([r.ball.observed for r in group])),
        risk=f"{at_risk.risk} at state {at_risk.state}" if at_risk else "",
        verdict=next((v for v in (Verdict.REFUTED, Verdict.UNDECIDED) if v in verdicts), Verdict.CERTIFIED),
    )


def _most(values: Sequence[Fraction | None]) -> Fraction | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _fewest(digits: Sequence[str]) -> str:
    if UNKNOWN in digits:
        return UNKNOWN
    counted = [d for d in digits if d != "exact"]
    return min(counted, key=float) if counted else "exact"


def _enough(row: Row, report: Report, limit: Fraction | None) -> bool:
    if row.bound is None:
        return False
    if limit is not None:
        return row.bound <= limit
    wanted = set(report.required or ())
    return report.verdict is Verdict.CERTIFIED and any(
        c.id in wanted and c.parameters.get("format") == row.format for c in report.claims
    )


def _shortfalls(several: Sequence[Row], report: Report, limit: Fraction | None) -> str:
    parts = []
    for row in several:
        if row.risk:
            parts.append(f"in {row.format} {row.risk}")
        elif row.bound is None:
            parts.append(f"{row.format} is {row.verdict}")
        else:
            parts.append(f"{row.format} is too coarse, its bound is {number(row.bound)}")
    return ", ".join(parts)


def _coarseness(row: Row) -> int:
    return COARSE_TO_FINE.index(row.format) if row.format in COARSE_TO_FINE else len(COARSE_TO_FINE)


def _name(row: Row, several: Sequence[Row]) -> str:
    return f"{row.format} in {row.order} order" if len({r.order for r in several}) > 1 else row.format


def _region(claim: Claim) -> str:
    region = claim.parameters.get("region")
    return _text(region.get("kind")) if isinstance(region, Mapping) else ""


def _exact(text: Any) -> Fraction | None:
    try:
        return parse(text)
    except (InputRejected, TypeError):
        return None


def _digits(claim: Claim, name: str) -> str:
    text = claim.display.get(name, "")
    return text if re.fullmatch(r"exact|[0-9]{1,3}(\.[0-9])?", text) else UNKNOWN


def _text(value: Any) -> str:
    return one_line(value)[:40] if isinstance(value, str) and value else UNKNOWN
