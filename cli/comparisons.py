"""What a case compares, and what became of published statements: a section each, one claim a line or a few."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from certify.cli.streams import one_line
from certify.cli.summary import UNKNOWN, exact, has_kernels

from certify.certificate import Claim, Report, Verdict
from certify.certificate.claims import COMPARED, COUNTEREXAMPLE

if TYPE_CHECKING:
    from rich.console import Console

COMPARED_TITLE = "Compared and proved"
PUBLISHED_TITLE = "Published statements that were tested"
_SHORT = 24
#: Lower bounds: what is shown is never above what was proved.
LOWER = ("margin", "gap", "low")


def compared_claims(report: Report) -> list[Claim]:
    """The claims that compare quantities, in the order of the report; of a case without stages also those on iterations."""
    kinds = (*COMPARED, "contraction", "updates") if has_kernels(report) else COMPARED
    return [claim for claim in report.claims if claim.kind in kinds]


def published_claims(report: Report) -> list[Claim]:
    """The tests of published statements, in the order of the report."""
    return [claim for claim in report.claims if claim.kind == COUNTEREXAMPLE]


def numbers_of(claim: Claim) -> str:
    """The bounds of a claim in short: a bracket as an interval, other numbers by their names; why there is none."""
    if claim.verdict is not Verdict.CERTIFIED:
        return one_line(claim.reason)
    values = {name: value for name, text in claim.bounds.items() if (value := exact(text)) is not None}
    low, high = values.pop("low", None), values.pop("high", None)
    parts = [] if low is None or high is None else [f"in {interval(low, high)}"]
    for name, value in values.items():
        text = claim.bounds[name]
        plain = text if len(text) <= _SHORT and "0x" not in text else rounded(value, 3, name not in LOWER)
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
    from certify.cli.rendering import TABLE_WIDTH, verdict_text
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if compared := compared_claims(report):
        console.print()
        console.print(COMPARED_TITLE, style="bold")
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False, collapse_padding=True)
        table.add_column(no_wrap=console.width >= TABLE_WIDTH, overflow="fold")
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for claim in compared:
            table.add_row(claim.id, verdict_text(claim.verdict), numbers_of(claim))
        console.print(table)
    if published := published_claims(report):
        console.print()
        console.print(PUBLISHED_TITLE, style="bold")
        for claim in published:
            console.print(Text.assemble(verdict_text(claim.verdict), f": {published_of(claim)}"))
            console.print(Padding(Text(f"Tested: {one_line(claim.statement)}"), (0, 0, 0, 2)))
            console.print(Padding(Text(f"Found: {one_line(claim.reason)}"), (0, 0, 0, 2)))


def rounded(value: Fraction, digits: int, up: bool) -> str:
    """A number in so many significant digits, rounded up or down."""
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    # one division, so rounded once, to the side that is safe
    return f"{context.divide(Decimal(value.numerator), Decimal(value.denominator)):g}"
