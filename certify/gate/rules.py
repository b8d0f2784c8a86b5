"""Rules: how much worse a bound may become before the gate fails.

    rule   = [ claims ":" ] bound ":" amount
    claims = a pattern of claim ids, such as rounding/*; every claim if left out
    bound  = a pattern of bound names, such as eps_W or eps_*
    amount = a decimal, such as 0 or 1e-9; with "%", relative to the size of the baseline's bound

Patterns are those of a shell: `*`, `?`, `[...]`; `*` matches slashes too. Every rule that fits a bound must hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction

from certify.certificate import Report
from certify.errors import InputRejected
from certify.states.quoting import quoted

_LONGEST = 400
# Digits of the exponent are few: Fraction("1e999999999") would fill the memory.
_AMOUNT = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?) ?(%?)", re.ASCII)
_REMEDY = "write it as 'eps_W:10%', 'd:1e-9' or 'rounding/*:eps_W:10%'"


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    text : as it was given.
    claims, bound : patterns of claim ids and of bound names.
    amount : by how much a bound may become worse, exactly.
    relative : whether `amount` is a part of the size of the baseline's bound.
    """

    text: str
    claims: str
    bound: str
    amount: Fraction
    relative: bool

    def fits(self, claim_id: str, bound: str) -> bool:
        """Whether the rule speaks about this bound of this claim."""
        return fnmatchcase(bound, self.bound) and fnmatchcase(claim_id, self.claims)

    def allows(self, baseline: Fraction, worse_by: Fraction) -> bool:
        """Whether a bound that was `baseline` may be worse by `worse_by`; the amount itself is allowed."""
        return worse_by <= (self.amount * abs(baseline) if self.relative else self.amount)

    @property
    def allowance(self) -> str:
        """The amount as it was given, for messages."""
        return self.text.rsplit(":", 1)[1].strip()


def parse_rule(text: str) -> Rule:
    """Read a rule; its amount is exact.

    Raises
    ------
    InputRejected : the text is no rule; the message names it.
    """
    if len(text) > _LONGEST:
        raise InputRejected(f"the rule {quoted(text)} has more than {_LONGEST} characters", _REMEDY)
    parts = [part.strip() for part in text.rsplit(":", 2)]
    if len(parts) < 2:
        raise InputRejected(f"the rule {quoted(text)} says no amount", _REMEDY)
    *claims, bound, amount = parts
    if not all(parts[:-1]):
        raise InputRejected(f"the rule {quoted(text)} names no {'bound' if not bound else 'claim'}", _REMEDY)
    match = _AMOUNT.fullmatch(amount)
    if match is None:
        raise InputRejected(
            f"the rule {quoted(text)} has the amount {quoted(amount)}, which is no decimal that is at least 0", _REMEDY
        )
    value, percent = Fraction(match[1]), bool(match[2])
    return Rule(text, claims[0] if claims else "*", bound, value / 100 if percent else value, percent)


def unused(rules: Iterable[Rule], reports: Sequence[Report]) -> list[Rule]:
    """The rules that fit no bound of any report. Such a rule is a slip of the pen: it could never fail."""
    bounds = {(claim.id, name) for report in reports for claim in report.claims for name in claim.bounds}
    return [rule for rule in rules if not any(rule.fits(*bound) for bound in bounds)]
