"""An error as a report tells it: what is proved to be the most, what was seen, and what is attained beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from certify.certificate import Claim, decimal_up, parse
from certify.errors import InputRejected

UNKNOWN = "-"


@dataclass(frozen=True)
class Measured:
    """An error in one region: proved to be at most `bound`, and seen to be `observed`; None is not known.

    Of W; of a kernel with outputs of any name, the largest over them.

    Attributes
    ----------
    bound, observed : in exact numbers.
    attained : the largest error known to be reached in the output with the largest bound, observed ones included.
    ratio : of the bound to that; of several states the largest.
    sharp : whether the bound is an adjoint one.
    chosen : whether an adversary's error, who chooses roundings, was looked at too.
    """

    bound: Fraction | None = None
    observed: Fraction | None = None
    attained: Fraction | None = None
    ratio: Fraction | None = None
    sharp: bool = False
    chosen: bool = False


NOTHING = Measured()


def measured_of(claim: Claim, of_kernel: bool) -> Measured:
    """What a rounding claim says of the error of W, or of the outputs of a kernel."""
    names = [name for name in claim.bounds if name.startswith("eps_") and (of_kernel or name == "eps_W")]
    observed = largest(claim.observed, "error_" if of_kernel else "error_W")
    found = {name.removeprefix("eps_"): exact(claim.bounds[name]) for name in names}
    known = {name: value for name, value in found.items() if value is not None}
    if not known or len(known) < len(found):
        return Measured(None, observed)
    name, bound = max(known.items(), key=lambda entry: entry[1])
    chosen = exact(claim.observed.get(f"attained_{name}"))
    reached = max((x for x in (exact(claim.observed.get(f"error_{name}")), chosen) if x is not None), default=None)
    ratio = bound / reached if reached else None
    sharp = claim.parameters.get("method") == "adjoint"
    return Measured(bound, observed, reached, ratio, sharp, chosen is not None)


def worst_of(several: Sequence[Measured]) -> Measured:
    """The largest numbers of several; what is not known of one is not known."""
    return Measured(
        most([m.bound for m in several]),
        most([m.observed for m in several]),
        most([m.attained for m in several]),
        most([m.ratio for m in several]),
        all(m.sharp for m in several),
        any(m.chosen for m in several),
    )


def largest(numbers: Mapping[str, Any], prefix: str) -> Fraction | None:
    """The largest of the numbers whose names begin so; None if one is no number, or there is none."""
    return most([exact(value) for name, value in numbers.items() if name.startswith(prefix)] or [None])


def most(values: Sequence[Fraction | None]) -> Fraction | None:
    """The largest; None if one is not known."""
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def exact(text: Any) -> Fraction | None:
    """The number of a number string, None for what is none."""
    try:
        return parse(text)
    except (InputRejected, TypeError):
        return None


def number(value: Fraction | None) -> str:
    """Two digits, rounded up: a bound that is shown is never below the bound that was proved."""
    return UNKNOWN if value is None else decimal_up(value, 2)


def number_down(value: Fraction | None, digits: int = 2) -> str:
    """A positive number, rounded down: a ball, or an error that is reached, is shown no larger than it is."""
    return UNKNOWN if value is None else decimal_up(-value, digits).removeprefix("-")


def ratio_text(ratio: Fraction | None) -> str:
    """How many times what is attained the bound is, rounded up: 1.07, 35, 2.1e+04."""
    if ratio is None:
        return UNKNOWN
    if ratio < 10:
        return f"{math.ceil(ratio * 100) / 100:.2f}"
    return str(math.ceil(ratio)) if ratio < 1000 else number(ratio)
