"""The numbers of a claim: what their names mean, which comes first, and how a drawing or a sorted column reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from certify.certificate import Claim, parse

#: What each name in `bounds` means.
MEANING: Mapping[str, str] = {
    "eps_W": "largest error of W in one update, Frobenius norm",
    "eps_alpha": "largest error of alpha in one update",
    "max_magnitude": "largest number that occurs",
    "q": "contraction factor: an update brings any two W of the ball closer, by this factor at least",
    "mu": "smallest curvature on the ball, at least",
    "L_J": "largest curvature on the ball, at most",
    "d": "how far one exact update moves the centre, at most",
    "radius": "radius of the ball, Frobenius norm",
    "entry_radius": "a state within this distance of the centre is pulled into the ball",
    "smallest_radius": "smallest ball found that still certifies the tolerance",
    "floor": "distance to the fixed point that rounding cannot be proved to go below",
    "start": "distance to the fixed point where the count starts, at most",
    "count": "updates that are enough",
    "norm_count": "updates that are enough by the simpler bound",
    "kappa": "an eigenvalue at the fixed point, at least",
    "cube": "radius of the box that holds the fixed point",
    "margin": "by how much the comparison holds, at least",
    "gap": "distance of the closest neighbours in the order, at least",
    "value": "the mean, exactly",
    "low": "lower end",
    "high": "upper end",
}
#: The bound that a claim is about, by kind; of other kinds, the first.
HEADLINE: Mapping[str, str] = {
    "rounding": "eps_W",
    "range": "max_magnitude",
    "contraction": "q",
    "updates": "count",
}
#: Names that would be too wide for a column.
SHORT: Mapping[str, str] = {"max_magnitude": "max"}
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,4})?", re.ASCII)


def headline(claim: Claim) -> tuple[str, str]:
    """The name and the exact text of the bound to show beside a claim; empty if it has none."""
    name = HEADLINE.get(claim.kind, "")
    name = name if name in claim.bounds else next(iter(claim.bounds), "")
    return name, claim.bounds.get(name, "")


def meaning(name: str) -> str:
    """What a bound of that name says, in a few words; empty if nobody knows."""
    if name.startswith("probable_"):
        return f"error of the output {name.removeprefix('probable_')} with the probability stated, Frobenius norm"
    output = name.removeprefix("eps_")
    return MEANING.get(name, f"largest error of the output {output}, Frobenius norm" if output != name else "")


def sort_key(text: str) -> str:
    """A number string as a decimal that JavaScript reads, for sorting only; empty for none or one beyond its range."""
    try:
        return repr(float(parse(text))) if text else ""
    except OverflowError:
        return ""


def measured(text: Any) -> float | None:
    """A decimal of `observed`, None for what is none or is not finite."""
    if not isinstance(text, str) or _DECIMAL.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def exact(text: Any) -> float | None:
    """A number string that passed the schema, or any other value, as a float for a drawing; None for what is none."""
    if not isinstance(text, str) or re.fullmatch(r"-?0x[0-9a-f.]{1,30}p[+-]?[0-9]{1,4}", text) is None:
        return None
    try:
        return float(parse(text))
    except OverflowError:
        return None
