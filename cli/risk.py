"""The operation at which a format runs out of range, as a clause for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping

from certify.cli.streams import one_line

from certify.certificate import Claim, Verdict
from certify.certificate.claims import NOT_DEFINED

UNDEFINED = "is not proved to be defined"


def region_of(claim: Claim) -> str:
    """The kind of region that a claim is about: point or ball; empty if it says none."""
    region = claim.parameters.get("region")
    kind = region.get("kind") if isinstance(region, Mapping) else ""
    return kind if isinstance(kind, str) else ""


def risk_of(claim: Claim) -> str:
    """The place of a range claim, without the source line, and what happens there; its reason, if it names none."""
    place = claim.observed.get("first_risk")
    if isinstance(place, str) and place:
        happens = "overflows" if claim.verdict is Verdict.REFUTED else "may overflow"
        if claim.reason.startswith(NOT_DEFINED):
            happens = UNDEFINED
        clause = f"{re.sub(r' [(][^()]*:[0-9]+[)]', '', one_line(place))[:60]} {happens}"
    else:
        clause = one_line(claim.reason).split(":")[0][:80]
    return clause.removeprefix("register ") + (" on the ball" if region_of(claim) == "ball" else "")
