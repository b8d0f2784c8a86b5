"""What all claims of this case have in common: exact functions, exact numbers, a theorem in the README."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from certify.arithmetic.directed import round_down, round_up
from certify.certificate import Claim, Verdict, to_hex


def certified(
    id: str,
    statement: str,
    anchor: str,
    *,
    parameters: Mapping[str, Any],
    bounds: Mapping[str, str] | None = None,
    **rest: Any,
) -> Claim:
    """A certified claim about exact functions; its kind is how the id starts."""
    return Claim(
        id=id,
        kind=id.split("/")[0],
        statement=statement,
        semantics="real",
        parameters=parameters,
        verdict=Verdict.CERTIFIED,
        bounds=bounds or {},
        theorem=f"cases/ngd/README.md#{anchor}",
        **rest,
    )


def undecided(id: str, statement: str, anchor: str, reason: str, *, parameters: Mapping[str, Any]) -> Claim:
    """The same, not proved."""
    theorem = f"cases/ngd/README.md#{anchor}"
    return Claim(id, id.split("/")[0], statement, "real", parameters, Verdict.UNDECIDED, reason, theorem=theorem)


def below(x: Fraction) -> str:
    """A lower bound as a binary64 number."""
    return to_hex(round_down(x))


def above(x: Fraction) -> str:
    """An upper bound as a binary64 number."""
    return to_hex(round_up(x))
