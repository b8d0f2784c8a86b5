"""Where the error comes from: what `run` and `show` say about claims by adjoint bounds, with a strip of coloured cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from certify.cli.measured import exact, number, number_down
from certify.cli.risk import region_of
from certify.cli.streams import one_line
from certify.cli.summary import state_of

from certify.certificate import Claim, Report, Verdict, parse

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

#: Backgrounds from cool to hot, as colours of 256; text alone shows the digit.
_HEAT = (17, 19, 25, 31, 71, 142, 178, 208, 202, 196)
_MOST_CELLS = 200
_MOST_NAMED = 3


@dataclass(frozen=True)
class Origin:
    """What one adjoint claim says: layers with their shares in execution order, and the registers to raise first."""

    claim: Claim
    layers: list[tuple[str, float]]
    first: list[tuple[str, float, Fraction | None]]


def origins_of(report: Report, state: int | None = None) -> Iterator[Origin]:
    """One for each certified adjoint claim, of one state or of all, as far as the report is readable."""
    for claim in report.claims:
        if claim.parameters.get("method") != "adjoint" or claim.verdict is not Verdict.CERTIFIED:
            continue
        if state is not None and state_of(claim) != state:
            continue
        layers = [(one_line(name), share) for name, share, *_ in _entries(claim.observed.get("shares"), 2)]
        first = [
            (one_line(name), share, _size(wider))
            for name, share, _, wider in _entries(claim.observed.get("raise_first"), 4)
        ]
        if layers:
            yield Origin(claim, layers[:_MOST_CELLS], first[:_MOST_NAMED])


def print_origins(console: Console, report: Report, state: int | None = None) -> None:
    """Print a strip and the registers to raise first for each adjoint claim; nothing if there is none."""
    from rich.text import Text

    several = list(origins_of(report, state))
    if not several:
        return
    console.print("Where the error comes from: share of the adjoint bound, layer by layer", style="bold")
    for origin in several:
        console.print(Text.assemble(f"{_title(origin.claim)}  ", _strip(origin.layers)))
        name, share = max(origin.layers, key=lambda entry: entry[1])
        raised = ", ".join(_raised(*entry, _bound(origin.claim)) for entry in origin.first)
        console.print(Text(f"  most in {name} ({share:.0%}); raise first: {raised}"))
    console.print(
        "A cell is a layer, from 0 to 9 tenths of the bound. Raised: the bound, about, with that register alone in the next "
        "wider format.",
        style="dim",
    )


def _title(claim: Claim) -> str:
    state = state_of(claim)
    where = "on the ball" if region_of(claim) == "ball" else "at the state"
    format = one_line(str(claim.parameters.get("format")))
    named = f"state {state}, " if state is not None else ""
    name, bound = next(iter(claim.bounds)).removeprefix("eps_"), _bound(claim)
    seen = (exact(claim.observed.get(f"{key}_{name}")) for key in ("error", "attained"))
    attained = max((x for x in seen if x is not None), default=None)
    reached = f", attained {number_down(attained)}" if attained is not None else ""
    return f"{named}{format} {where}: <= {number(bound)}{reached}"


def _bound(claim: Claim) -> Fraction | None:
    return next((parse(text) for text in claim.bounds.values()), None)


def _raised(register: str, share: float, wider: Fraction | None, bound: Fraction | None) -> str:
    """A register with its share, and the bound that raising it would leave, if there is a wider format to raise it to."""
    falls = wider is not None and bound is not None and wider < bound * Fraction(99, 100)
    return f"{register} ({share:.0%}{f', then {number(wider)}' if falls else ''})"


def _strip(layers: list[tuple[str, float]]) -> Text:
    """One cell a layer: the tenths of its share, on a background that says the same."""
    from rich.text import Text

    strip = Text()
    for _, share in layers:
        tenth = min(max(int(share * 10), 0), 9)
        strip.append(str(tenth), style=f"white on color({_HEAT[tenth]})")
    return strip


def _entries(value: Any, length: int) -> Iterator[list[Any]]:
    """Entries of a series in a report: a name, a share, and texts."""
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, list) and len(entry) == length and all(isinstance(x, str) for x in entry):
            share = _size(entry[1])
            if share is not None and share <= 2:
                yield [entry[0], float(share), *entry[2:]]


def _size(text: str) -> Fraction | None:
    try:
        return abs(Fraction(text)) if len(text) < 40 else None
    except (ValueError, ZeroDivisionError):
        return None
