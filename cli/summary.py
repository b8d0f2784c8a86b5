"""What a report says, arranged for a person: one row a format, and one sentence of advice.

Everything here is text and exact numbers taken from the report; how it looks is `certify.cli.rendering`'s.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from certify.cli.measured import NOTHING, UNKNOWN, Measured, exact, measured_of, number, worst_of
from certify.cli.risk import UNDEFINED, region_of, risk_of
from certify.cli.streams import one_line

from certify.certificate import Claim, Report, Verdict, decimal_up, overall, parse
from certify.certificate.claims import COMPARED, COUNTEREXAMPLE
from certify.errors import InputRejected

#: Formats from coarse to fine, to say which of several is the coarsest; others come after, as the report has them.
COARSE_TO_FINE = ("bfloat16", "float16", "float32", "float64")
SHOWN = ("rounding", "range", "precision", "contraction", "updates", "rounding-probable", *COMPARED, COUNTEREXAMPLE)
"""Kinds of claims that have a section of their own."""


@dataclass(frozen=True)
class Row:
    """One format at one state, or over several.

    Attributes
    ----------
    state : its number in the file; None if the file holds one state.
    format, order : what the program computes in.
    digits_norm, digits_worst : decimal digits of W that the bound leaves, of its norm and of its worst entry.
    point, ball : the error at the state, and anywhere on the ball around it, by the sharpest bounds that were asked for.
    risk : the first operation that overflows or may, as a clause; empty if none.
    verdict : of the claims about this format together.
    kernel : which of several kernels it is about; empty if there is one.
    tuned : whether its registers have formats of their own, found by `certify tune`.
    """

    state: int | None
    format: str
    order: str
    digits_norm: str = UNKNOWN
    digits_worst: str = UNKNOWN
    point: Measured = NOTHING
    ball: Measured = NOTHING
    risk: str = ""
    verdict: Verdict = Verdict.UNDECIDED
    kernel: str = ""
    tuned: bool = False

    @property
    def part(self) -> str:
        """Which of several states or kernels it is about, as in ` at state 2`."""
        return f"in the kernel {self.kernel}" if self.kernel else f"at state {self.state}"

    @property
    def bound(self) -> Fraction | None:
        """The larger of the bounds, as far as the claims of the row are certified."""
        bounds = [b for b in (self.point.bound, self.ball.bound) if b is not None]
        return max(bounds) if bounds and self.verdict is Verdict.CERTIFIED else None


@dataclass(frozen=True)
class Ball:
    """The ball that the report speaks about: its radius, as text, how many of its states were replayed, and what moves."""

    radius: str
    samples: int
    center: str = "W"


def rows(report: Report, wanted: Container[str] | None = None, *, sharpest: bool = True) -> list[Row]:
    """The rows of a report in its order: by state, then by format. Claims of other kinds have none.

    `wanted` are the ids of the claims to look at, all of them if None. The verdict is that of running bounds; the errors are
    those of adjoint bounds, where there are any, unless not the `sharpest` are asked for.
    """
    left_out = ("majorant",) if sharpest else ("majorant", "adjoint")
    groups: dict[Row, list[Claim]] = {}
    for claim in report.claims:
        if claim.kind not in ("rounding", "range") or claim.parameters.get("method") in left_out:
            continue
        if wanted is not None and claim.id not in wanted:
            continue
        format, order, kernel = (claim.parameters.get(key) for key in ("format", "order", "kernel"))
        key = Row(state_of(claim), _text(format), _text(order), kernel="" if kernel is None else _text(kernel))
        groups.setdefault(key, []).append(claim)
    return [_row(key, claims, has_kernels(report)) for key, claims in groups.items()]


def over_states(several: Sequence[Row]) -> list[Row]:
    """One row a format and order: the worst of its rows at each state, and of each kernel."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in several:
        groups.setdefault((row.format, row.order), []).append(row)
    return [_worst(group) for group in groups.values()]


def ball_of(report: Report) -> Ball | None:
    """The ball of the claims, None if they are about points only."""
    balls = [claim for claim in report.claims if region_of(claim) == "ball"]
    if not balls:
        return None
    samples = [n for n in (claim.observed.get("samples") for claim in balls) if isinstance(n, int)]
    region = balls[0].parameters["region"]
    return Ball(decimal(region.get("radius")), max(samples, default=0), _text(region.get("center", "W")))


def others(report: Report) -> list[tuple[str, Verdict, int]]:
    """The kinds of claims that no section shows: kind, overall verdict, and how many there are."""
    groups: dict[str, list[Claim]] = {}
    for claim in report.claims:
        if claim.kind not in SHOWN:
            groups.setdefault(claim.kind, []).append(claim)
    return [(kind, overall(claims), len(claims)) for kind, claims in groups.items()]


def subject_line(report: Report) -> str:
    """What the report is about, in a few words."""
    subject = report.subject
    kernel = f"kernel {_text(subject.get('kernel'))}" if "kernel" in subject else _text(subject.get("case"))
    digest = "" if has_kernels(report) else subject.get("tensors", {}).get("W", {}).get("sha256", "")
    several = subject.get("kernels")
    parts = [
        kernel,
        f"{subject['states']} states" if isinstance(subject.get("states"), int) else "",
        f"p = {subject['p']}" if "p" in subject else "",
        f"p_max = {subject['p_max']}" if "p_max" in subject else "",
        f"W {digest[:8]}" if digest else "",
        f"{len(several)} kernel{'s' * (len(several) > 1)}" if isinstance(several, Mapping) and several else "",
    ]
    return ", ".join(part for part in parts if part)


def basis(report: Report) -> str:
    """The formats that the overall verdict rests on, as in ` in float32`; empty if it rests on all claims."""
    if report.required is None:
        return ""
    wanted = set(report.required)
    formats = dict.fromkeys("tuned formats" if row.tuned else row.format for row in rows(report, wanted))
    return f" in {', '.join(formats)}" if formats else ""


def tolerance_of(report: Report) -> Fraction | None:
    """The error of one update that the run asked for, None if it asked for none."""
    about_updates = (c for c in report.claims if c.kind == "precision" and c.id.startswith("precision/update/"))
    tolerances = [exact(c.parameters.get("tol")) for c in about_updates]
    return next((tol for tol in tolerances if tol is not None), None)


def advice(report: Report, tol: Fraction | None) -> str:
    """Which format to use: the coarsest that is proved enough, and why the coarser ones are not.

    Enough means certified and an error of W of at most `tol` in one update; if `tol` is None, that a digit is left.
    """
    several = sorted(over_states(rows(report, sharpest=False)), key=_coarseness)
    if not several:
        return "The report has no claim about a format."
    target = "certified" if tol is None else f"proved enough for {decimal(tol)}"
    best = next((row for row in several if row.bound is not None and not _short(row, tol)), None)
    if best is None:
        # at the state itself no radius helps
        remedies = ["a smaller radius"] * any(row.point.bound is not None for row in several)
        remedies += ["a larger tolerance"] * any(row.bound is not None for row in several)
        overflow = not all(UNDEFINED in row.risk for row in several)
        remedies += ["float64"] * (overflow and all(row.format != "float64" for row in several))
        hint = f" Try {' or '.join(remedies)}." if remedies else ""
        return f"No format tried is {target}: {_shortfalls(several, tol)}.{hint}"
    coarser = _shortfalls(several[: several.index(best)], tol)
    what, where = ("each kernel", "each output") if has_kernels(report) else ("one update", "W")
    what = "the kernel" if "kernel" in report.subject else what
    shown = {(row.format, row.order): row.bound for row in over_states(rows(report))}
    off = f"{what} is off by at most {number(shown[best.format, best.order])} in {where} (Frobenius norm)"
    if best.tuned:
        return f"Use the tuned formats: {off}."
    return f"Use {_name(best, several)}, the coarsest format {target}: {off}{f'; {coarser}' if coarser else ''}."


def proved(text: str) -> str:
    """A bound of a claim in three digits, rounded up."""
    return decimal_up(parse(text))


def decimal(value: Any) -> str:
    """A number, or a number string of a report, in short decimal notation; for what is no bound."""
    try:
        return f"{float(value if isinstance(value, Fraction) else parse(value)):g}"
    except (InputRejected, TypeError, OverflowError):
        return UNKNOWN


def state_of(claim: Claim) -> int | None:
    """The number of the state that a claim is about, None in a report about one state."""
    found = re.search(r"/state=([0-9]{1,9})$", claim.id)
    return int(found[1]) if found else None


def has_kernels(report: Report) -> bool:
    """Whether the report is on kernels with inputs and outputs of any name, a user's or a case's: not on the first case."""
    return report.subject.get("case") != "polyprox"


def _row(row: Row, claims: Iterable[Claim], kernel: bool) -> Row:
    claims = list(claims)
    plain = [claim for claim in claims if claim.parameters.get("method") != "adjoint"]
    sharp = [c for c in claims if c.parameters.get("method") == "adjoint" and c.verdict is Verdict.CERTIFIED]
    tuned = any("tuned" in claim.observed for claim in plain)
    row = replace(row, verdict=overall(plain or claims), tuned=tuned)
    for claim in [*plain, *sharp]:  # the bounds of the last stay
        region = region_of(claim)
        if claim.kind == "rounding" and region in ("point", "ball"):
            measured = measured_of(claim, kernel)
            row = replace(row, point=measured) if region == "point" else replace(row, ball=measured)
            if "digits_norm" in claim.display:
                row = replace(
                    row, digits_norm=_digits(claim, "digits_norm"), digits_worst=_digits(claim, "digits_worst")
                )
        if claim.kind == "range" and claim.verdict is not Verdict.CERTIFIED and not row.risk:
            row = replace(row, risk=risk_of(claim))
    return row


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
        point=worst_of([row.point for row in group]),
        ball=worst_of([row.ball for row in group]),
        risk=f"{at_risk.risk} {at_risk.part}" if at_risk else "",
        verdict=next((v for v in (Verdict.REFUTED, Verdict.UNDECIDED) if v in verdicts), Verdict.CERTIFIED),
        tuned=any(row.tuned for row in group),
    )


def _fewest(digits: Sequence[str]) -> str:
    if UNKNOWN in digits:
        return UNKNOWN
    counted = [d for d in digits if d != "exact"]
    return min(counted, key=float) if counted else "exact"


def _shortfalls(several: Sequence[Row], tol: Fraction | None) -> str:
    parts = []
    for row in several:
        name = _name(row, several)
        if row.risk:
            parts.append(f"in {name} {row.risk}")
        elif row.bound is None:
            parts.append(f"{name} is {row.verdict.value}")
        elif short := _short(row, tol):
            parts.append(f"{name} {short}")
    return ", ".join(parts)


def _short(row: Row, tol: Fraction | None) -> str:
    """Why a format that is certified is not enough; empty if it is."""
    if tol is not None:
        return f"is too coarse, its bound is {number(row.bound)}" if row.bound is None or row.bound > tol else ""
    left = row.digits_norm if row.digits_norm not in (UNKNOWN, "exact") else "1"
    return "leaves no digit" if float(left) < 1 else ""


def _coarseness(row: Row) -> int:
    return COARSE_TO_FINE.index(row.format) if row.format in COARSE_TO_FINE else len(COARSE_TO_FINE)


def _name(row: Row, several: Sequence[Row]) -> str:
    return f"{row.format} in {row.order} order" if len({r.order for r in several}) > 1 else row.format


def _digits(claim: Claim, name: str) -> str:
    text = claim.display.get(name, "")
    return text if re.fullmatch(r"exact|[0-9]{1,3}(\.[0-9])?", text) else UNKNOWN


def _text(value: Any) -> str:
    return one_line(value)[:40] if isinstance(value, str) and value else UNKNOWN
