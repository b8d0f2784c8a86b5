"""What `certify tune` found, as `show` says it: the formats of the registers, what they cost, and the tolerance they keep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from certify.cli.measured import exact, number_down, ratio_text
from certify.cli.risk import region_of
from certify.cli.streams import one_line

from certify.certificate import Claim, Report, Verdict, decimal_up

if TYPE_CHECKING:
    from rich.console import Console

_MOST_NAMED = 6
_MOST_NUMBERS = 1 << 53


@dataclass(frozen=True)
class Tuning:
    """What a running claim on a tuned kernel says; numbers that it does not say are None.

    Attributes
    ----------
    claim : the claim, about the region that the tolerance is for.
    formats : of every format its registers, and how many numbers they store.
    cost, uniform, least : of the program, of it in `finest` alone, and of any program that running bounds certify at least.
    finest : the finest format that was considered.
    in_bits : whether the cost is the bits stored.
    tolerance : of each output that has one.
    """

    claim: Claim
    formats: Mapping[str, list[tuple[str, int]]]
    cost: Fraction | None
    uniform: Fraction | None
    least: Fraction | None
    finest: str
    in_bits: bool
    tolerance: Mapping[str, Fraction]


def tunings_of(report: Report) -> Iterator[Tuning]:
    """The tuning that a report is about, as far as the report is readable; nothing of other reports."""
    tuned = [c for c in report.claims if c.kind == "rounding" and "tuned" in c.observed]
    claim = next((c for c in tuned if region_of(c) == "ball"), tuned[0] if tuned else None)
    if claim is None:
        return
    formats: dict[str, list[tuple[str, int]]] = {}
    entries = claim.observed["tuned"]
    for entry in entries if isinstance(entries, list) else []:
        if _is_entry(entry):
            formats.setdefault(one_line(entry[1])[:40], []).append((one_line(entry[0]), entry[2]))
    told = claim.observed.get("tuning")
    told = told if isinstance(told, Mapping) else {}
    tolerances = told.get("tolerance")
    given = {
        one_line(str(name)): exact(text)
        for name, text in (tolerances.items() if isinstance(tolerances, Mapping) else ())
    }
    yield Tuning(
        claim,
        formats,
        cost=exact(told.get("cost")),
        uniform=exact(told.get("uniform")),
        least=exact(told.get("least")),
        finest=one_line(str(told.get("finest", "")))[:40],
        in_bits=told.get("unit") == "bits",
        tolerance={name: tol for name, tol in given.items() if tol is not None and tol > 0},
    )


def _is_entry(entry: Any) -> bool:
    """A register, its format, and how many numbers it stores."""
    if not (isinstance(entry, list) and len(entry) == 3 and all(isinstance(x, str) for x in entry[:2])):
        return False
    return isinstance(entry[2], int) and 0 <= entry[2] < _MOST_NUMBERS


def print_tuning(console: Console, tuning: Tuning) -> None:
    """Print what was tuned, what that costs and saves, and each bound beside its tolerance and what is attained."""
    from rich.padding import Padding
    from rich.text import Text

    console.print("Tuned: a format for each register, so that storing the numbers costs least", style="bold")
    for line in [*_registers(tuning), *_costs(tuning), *_outputs(tuning)]:
        console.print(Padding(Text(line), (0, 0, 0, 2)))


def _registers(tuning: Tuning) -> Iterator[str]:
    for format, registers in tuning.formats.items():
        names = ", ".join(name for name, _ in registers[:_MOST_NAMED])
        more = f", {len(registers) - _MOST_NAMED} more" if len(registers) > _MOST_NAMED else ""
        numbers = sum(count for _, count in registers)
        several = "s" if len(registers) != 1 else ""
        yield f"{format}: {len(registers)} register{several}, {numbers} number{'s' * (numbers != 1)} ({names}{more})"


def _costs(tuning: Tuning) -> Iterator[str]:
    cost, uniform, least = tuning.cost, tuning.uniform, tuning.least
    if cost is None or uniform is None or uniform <= 0:
        return
    unit = " bits" if tuning.in_bits else ""
    saved = f"saves {_percent(1 - cost / uniform)}"
    yield f"stored: {float(cost):.9g}{unit}; uniform {tuning.finest}: {float(uniform):.9g}; {saved}"
    if least is not None:
        yield (
            f"no program that running bounds certify saves more than {_percent_up(1 - least / uniform)} "
            f"({float(least):.9g}{unit}; proved by the search, which `certify check` does not repeat)"
        )


def _outputs(tuning: Tuning) -> Iterator[str]:
    claim = tuning.claim
    where = "on the ball" if region_of(claim) == "ball" else "at the inputs"
    for name, tol in tuning.tolerance.items():
        eps = exact(claim.bounds.get(f"eps_{name}"))
        if claim.verdict is not Verdict.CERTIFIED or eps is None:
            yield f"{name}: nothing is certified, the tolerance was {float(tol):g}"
            continue
        seen = (exact(claim.observed.get(f"{key}_{name}")) for key in ("error", "attained"))
        attained = max((x for x in seen if x), default=None)
        kept = "" if eps <= tol else ", which is NOT within"
        reached = "" if attained is None else f"; attained {number_down(attained)}, ratio {ratio_text(eps / attained)}"
        yield f"{name}: certified within {decimal_up(eps)} {where}{kept or ', within'} the tolerance {float(tol):g}{reached}"


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.0f} %"


def _percent_up(share: Fraction) -> str:
    return f"{math.ceil(1000 * share) / 10:.1f} %"
