"""What the checker proves of the case, in arithmetic of its own."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.document import Claim, Finding, Rejected, agrees, proved, require_lower


def require_subject(context: Any) -> None:
    """One row, and a share."""
    if set(context.saved.tensors) != {"x"} or set(context.controls) != {"share"}:
        raise Rejected("the state is no row x with a share")


def check_margin(claim: Claim, context: Any) -> Finding:
    """The mean against the largest entry."""
    words = {"semantics": "real", "theorem": "README.md"}
    statement = "The mean of x lies below the share of its distance from 0 to the largest entry by margin."
    agrees(claim, context, id="margin/below-largest", parameters=(), bounds=("margin",), statement=statement, **words)
    x = [Fraction(v) for v in context.saved.tensors["x"].values()]
    require_lower(claim, "margin", own := context.controls["share"] * (len(x) * max(x) - sum(x)) / len(x))
    return proved(claim, margin=own)


def check_statement(claim: Claim, context: Any) -> Finding:
    """The mean is no entry."""
    words = {"semantics": "real", "theorem": "README.md", "statement": "The mean of x is an entry of x."}
    agrees(claim, context, id="counterexample/mean-is-median", parameters=("published", "source"), **words)
    x = [Fraction(v) for v in context.saved.tensors["x"].values()]
    if any(len(x) * v == sum(x) for v in x):
        raise Rejected("the mean is an entry")
    return proved(claim)


CHECKS = {"margin/below-largest": check_margin, "counterexample": check_statement}
