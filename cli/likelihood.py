"""What a report says with a probability, in a section of its own: never a column beside what is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.cli.measured import UNKNOWN, exact, number
from certify.cli.risk import region_of
from certify.cli.streams import one_line
from certify.cli.summary import state_of

from certify.certificate import Claim, Report, Verdict
from certify.certificate.numbers import probability_text

if TYPE_CHECKING:
    from rich.console import Console

KIND = "rounding-probable"


def likely_claims(report: Report, state: int | None = None) -> dict[str, list[Claim]]:
    """The claims with a probability, by their confidence as text; of one state, if one is named."""
    groups: dict[str, list[Claim]] = {}
    for claim in report.claims:
        if claim.kind == KIND and state in (None, state_of(claim)):
            groups.setdefault(_confidence(claim), []).append(claim)
    return groups


def title_of(confidence: str) -> str:
    """What stands above the claims of one confidence."""
    return f"With probability at least {confidence}, under stochastic rounding"


def line_of(claim: Claim) -> str:
    """One claim: format, region, and the bounds of the outputs, or why there is none."""
    where = "on the ball" if region_of(claim) == "ball" else "at the state"
    name = f"state {state_of(claim)}, " if state_of(claim) is not None else ""
    start = f"{name}{one_line(str(claim.parameters.get('format', UNKNOWN)))[:40]} {where}: "
    if claim.verdict is not Verdict.CERTIFIED:
        return f"{start}no bound, {one_line(claim.reason)}"
    several = len(claim.bounds) > 1
    bounds = [
        number(exact(text)) + (f" in {one_line(name.removeprefix('probable_'))}" if several else "")
        for name, text in claim.bounds.items()
    ]
    return f"{start}error at most {', '.join(bounds)}"


def print_likely(console: Console, groups: dict[str, list[Claim]]) -> None:
    """Print the section: a title for every confidence, a line for every claim, and what it does not say."""
    from rich.padding import Padding
    from rich.text import Text

    for confidence, claims in groups.items():
        console.print(title_of(confidence), style="bold")
        for claim in claims:
            console.print(Padding(Text(line_of(claim)), (0, 0, 0, 2)))
    console.print(
        "Frobenius norms. Not proved of any single run, and no verdict rests on it. Such a rounding moves a result by up to a "
        "whole spacing, rounding to nearest by half of one: in few operations that outweighs what errors cancel.",
        style="dim",
    )


def _confidence(claim: Claim) -> str:
    value = exact(claim.parameters.get("confidence"))
    return probability_text(value) if value is not None and 0 < value < 1 else UNKNOWN
