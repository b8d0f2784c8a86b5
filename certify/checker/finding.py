"""What became of a claim, and the comparisons that every check makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from certify.checker.document import Rejected, number, shown
from certify.checker.formats import FORMATS

_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,4})?")


@dataclass(frozen=True)
class Finding:
    """One claim: the verdict it claims, and `certified` or `refuted` (proved again), `undecided` or `rejected`."""

    id: str
    kind: str
    claimed: str
    verdict: str
    sentence: str
    proved: dict[str, Fraction] = field(default_factory=dict)


def proved(claim: dict[str, Any], **numbers: Fraction) -> Finding:
    """The claim holds; `numbers` are the checker's own bounds."""
    return Finding(claim["id"], claim["kind"], claim["verdict"], claim["verdict"], "proved again", numbers)


def where(context: Any, k: int) -> str:
    """What statements call state k."""
    return f"state {k}" if context.several else "the state"


def require_id(claim: dict[str, Any], stem: str, state: int | None, context: Any) -> None:
    """The id follows from the kind and the parameters."""
    wanted = f"{stem}/state={state}" if context.several and state is not None else stem
    if claim["id"] != wanted:
        raise Rejected(f"its parameters belong to the id {shown(wanted)}")


def require_text(
    claim: dict[str, Any],
    *,
    statement: str,
    semantics: str,
    theorem: str,
    assumptions: Sequence[str] = (),
    parameters: Collection[str],
) -> None:
    """The words of a claim are those that its kind and parameters give, and there are no other parameters."""
    if set(claim["parameters"]) != set(parameters):
        raise Rejected(f"its parameters are not exactly {', '.join(sorted(parameters))}")
    wanted = {"statement": statement, "semantics": semantics, "theorem": theorem, "assumptions": list(assumptions)}
    for key, value in wanted.items():
        if claim[key] != value:
            raise Rejected(f"its {key} does not follow from its kind and parameters, which give {shown(value)}")


def require_names(claim: dict[str, Any], required: set[str], optional: Collection[str] = ()) -> None:
    """The claim has these bounds and no others."""
    if not required <= set(claim["bounds"]) <= required | set(optional):
        raise Rejected(f"its bounds are not exactly {', '.join(sorted(required)) or 'none'}")


def require_upper(claim: dict[str, Any], name: str, own: Fraction) -> None:
    """The claimed upper bound is not below what the checker proves, and not shown smaller than it is."""
    claimed = _require(claim, name, own, lambda x: x >= own, "at most")
    text = claim["display"].get(name)
    if text is not None and (_DECIMAL.fullmatch(text) is None or Fraction(text) < claimed):
        raise Rejected(f"{name} is displayed as {shown(text)}, which is not a decimal of at least {_rounded(claimed)}")


def require_lower(claim: dict[str, Any], name: str, own: Fraction) -> None:
    """The claimed lower bound is not above what the checker proves."""
    _require(claim, name, own, lambda x: x <= own, "at least")


def require_exact(claim: dict[str, Any], name: str, own: Fraction) -> None:
    """The claimed number is the checker's own."""
    _require(claim, name, own, lambda x: x == own, "exactly")


def _require(claim: dict[str, Any], name: str, own: Fraction, holds: Callable[[Fraction], bool], how: str) -> Fraction:
    claimed = number(claim["bounds"].get(name))
    if not holds(claimed):
        raise Rejected(f"{name} is claimed to be {how} {_rounded(claimed)}, but {_rounded(own)} is what is proved")
    return claimed


def program_assumptions(format: str, order: str) -> list[str]:
    """What a proof about a program takes for granted of the arithmetic that runs it."""
    f = FORMATS[format]
    return [
        f"{f.name}: precision {f.precision}, exponents {f.emin} to {f.emax}, with subnormals",
        "every operation rounds to nearest, ties to even",
        f"sums are evaluated in the order {order}, without fused multiply-add",
        "the stored binary64 inputs are converted to the format by one rounding to nearest",
    ]


def _rounded(x: Fraction) -> str:
    """For a sentence: 17 digits, so that one ulp shows."""
    try:
        return f"{float(x):.17g}"
    except OverflowError:
        return f"about 2**{x.numerator.bit_length() - x.denominator.bit_length()}"
