"""What a case compares, and what became of published statements: a section each, one claim a line or a few."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from certify.cli.measured import UNKNOWN, exact
from certify.cli.streams import one_line
from certify.cli.summary import has_kernels

from certify.certificate import Claim, Report, Verdict
from certify.certificate.claims import COMPARED, COUNTEREXAMPLE

if TYPE_CHECKING:
    from rich.console import Console

COMPARED_TITLE = "Compared and proved"
PUBLISHED_TITLE = "Published statements that were tested"
ITERATED = ("contraction", "updates")
#: Above, claims of one kind and verdict share a line.
MANY = 30
_SHORT, _FEW = 24, 3


def compared_kinds(report: Report) -> tuple[str, ...]:
    """The kinds that compare quantities; in a report on a case without stages also those about iterations.

    Of their bounds, as of those of counterexamples, only the statement says which are upper and which are lower ones.
    """
    return (*COMPARED, *ITERATED) if has_kernels(report) else COMPARED


def compared_claims(report: Report) -> list[Claim]:
    """The claims of these kinds, in the order of the report."""
    return [claim for claim in report.claims if claim.kind in compared_kinds(report)]


def published_claims(report: Report) -> list[Claim]:
    """The tests of published statements, in the order of the report."""
    return [claim for claim in report.claims if claim.kind == COUNTEREXAMPLE]


def numbers_of(claim: Claim) -> str:
    """The bounds of a claim in short, as `bounds_of`; why there are none, if it is not certified."""
    return bounds_of(claim) if claim.verdict is Verdict.CERTIFIED else one_line(claim.reason)


def bounds_of(claim: Claim) -> str:
    """The bounds of a claim: a bracket as an interval, other numbers by their names."""
    values = {name: value for name, text in claim.bounds.items() if (value := exact(text)) is not None}
    low, high = values.pop("low", None), values.pop("high", None)
    parts = [] if low is None or high is None else [f"in {interval(low, high)}"]
    for name, value in values.items():
        text = claim.bounds[name]
        plain = text if len(text) <= _SHORT and "0x" not in text else cut(value)
        parts.append(f"{one_line(name)} {plain}")
    return ", ".join(parts)


def published_of(claim: Claim) -> str:
    """What was published and where, as the claim says it."""
    published, source = (one_line(str(claim.parameters.get(key, UNKNOWN))) for key in ("published", "source"))
    return f"{published} ({source})"


def interval(low: Fraction, high: Fraction) -> str:
    """[low, high] rounded outward, in two digits more than the ends have in common."""
    size, width = max(abs(low), abs(high)), high - low
    digits = 3
    while digits < 40 and width and size > width * 10 ** (digits - 2):
        digits += 1
    return f"[{rounded(low, digits, False)}, {rounded(high, digits, True)}]"


def print_comparisons(console: Console, report: Report) -> None:
    """Print both sections, with a line between them; nothing if the report has no such claim."""
    from certify.cli.rendering import verdict_text
    from rich.padding import Padding
    from rich.text import Text

    if compared := compared_claims(report):
        console.print()
        console.print(COMPARED_TITLE, style="bold")
        for name, verdict, text in _lines(compared):
            head = Text.assemble((f"{verdict.value:9}", verdict_text(verdict).style), f"  {name}")
            if len(head) + 2 + len(text) <= console.width:
                console.print(Text.assemble(head, "  ", text))
            else:
                console.print(head)
                console.print(Padding(Text(text), (0, 0, 0, 11)))
        if len(compared) > MANY:
            console.print("Each of them: certify show --claims REPORT", style="dim")
    if published := published_claims(report):
        console.print()
        console.print(PUBLISHED_TITLE, style="bold")
        for claim in published:
            console.print(Text.assemble(verdict_text(claim.verdict), f": {published_of(claim)}"))
            console.print(Padding(Text(f"Tested: {one_line(claim.statement)}"), (0, 0, 0, 2)))
            console.print(Padding(Text(f"Reason: {found_of(claim)}"), (0, 0, 0, 2)))


def found_of(claim: Claim) -> str:
    """What is true instead of a published statement, with the numbers that were proved if they are few."""
    numbers = bounds_of(claim) if 0 < len(claim.bounds) <= _FEW else ""
    return one_line(claim.reason) + (f" ({numbers})" if numbers else "")


def _lines(compared: Sequence[Claim]) -> list[tuple[str, Verdict, str]]:
    """Name, verdict and numbers of each claim; of many claims, those of one kind and verdict together."""
    if len(compared) <= MANY:
        return [(claim.id, claim.verdict, numbers_of(claim)) for claim in compared]
    groups: dict[tuple[str, Verdict], list[Claim]] = {}
    for claim in compared:
        groups.setdefault(("/".join(claim.id.split("/")[:2]), claim.verdict), []).append(claim)
    return [
        (alike[0].id, verdict, numbers_of(alike[0]))
        if len(alike) == 1
        else (f"{name}/...", verdict, f"{len(alike)} claims")
        for (name, verdict), alike in groups.items()
    ]


def rounded(value: Fraction, digits: int, up: bool) -> str:
    """A number in so many significant digits, rounded up or down."""
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    # one division, so rounded once, to the side that is safe
    return f"{context.divide(Decimal(value.numerator), Decimal(value.denominator)):g}"


def cut(value: Fraction, digits: int = 6) -> str:
    """The first significant digits of a number, with dots where there are more: true of upper and of lower bounds."""
    context = Context(prec=digits, rounding=ROUND_DOWN)
    shown = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{shown:g}" + ("" if Fraction(shown) == value else "...")
