"""What a comparison finds: one change for each claim id, with its findings."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from certify.certificate import Claim
from certify.gate.rules import Rule


class Code(enum.StrEnum):
    """What can be found about a claim; `fails` says whether it fails the gate, `meaning` what it is."""

    LOST_CLAIM = "lost-claim"
    WEAKENED_VERDICT = "weakened-verdict"
    CONTRADICTION = "contradiction"
    CHANGED_QUESTION = "changed-question"
    NEW_ASSUMPTION = "new-assumption"
    FINER_FORMAT = "finer-format"
    LOST_BOUND = "lost-bound"
    WORSE_BOUND = "worse-bound"
    SLIPPED_BOUND = "slipped-bound"
    NEW_CLAIM = "new-claim"
    NEW_BOUND = "new-bound"
    BETTER_BOUND = "better-bound"
    COARSER_FORMAT = "coarser-format"
    STRONGER_VERDICT = "stronger-verdict"

    @property
    def fails(self) -> bool:
        """Whether it fails the gate."""
        return self in _FAILING

    @property
    def meaning(self) -> str:
        """What it means, in one sentence."""
        return _MEANINGS[self]


#: Changes of a bound below this part of it are not reported unless they fail.
NOTEWORTHY = Fraction(1, 100)
_FAILING = frozenset(
    {
        Code.LOST_CLAIM,
        Code.WEAKENED_VERDICT,
        Code.CONTRADICTION,
        Code.CHANGED_QUESTION,
        Code.NEW_ASSUMPTION,
        Code.FINER_FORMAT,
        Code.LOST_BOUND,
        Code.WORSE_BOUND,
    }
)
_MEANINGS = {
    Code.LOST_CLAIM: "A claim of the baseline is no longer made.",
    Code.WEAKENED_VERDICT: "What was certified is not any more, or a verdict changed to one that is not certified.",
    Code.CONTRADICTION: "The same statement about the same state was refuted and is certified now.",
    Code.CHANGED_QUESTION: "The claim is about another region, tolerance, order, step or limit than that of the baseline.",
    Code.NEW_ASSUMPTION: "The claim rests on an assumption that that of the baseline did not need.",
    Code.FINER_FORMAT: "The coarsest format that is proved enough is finer than it was.",
    Code.LOST_BOUND: "A number that was proved is no longer proved.",
    Code.WORSE_BOUND: "A number that was proved is worse by more than a rule allows.",
    Code.SLIPPED_BOUND: "A number that was proved is worse by more than 1 %, and no rule forbids it.",
    Code.NEW_CLAIM: "A claim is new.",
    Code.NEW_BOUND: "A number is proved that was not before.",
    Code.BETTER_BOUND: "A number that was proved is better by more than 1 %.",
    Code.COARSER_FORMAT: "The coarsest format that is proved enough is coarser than it was.",
    Code.STRONGER_VERDICT: "What was not certified is certified now.",
}


@dataclass(frozen=True)
class Finding:
    """One thing found about a claim: what, and a clause that says so (printable, on one line)."""

    code: Code
    message: str


@dataclass(frozen=True)
class BoundChange:
    """One bound in both reports.

    Attributes
    ----------
    name : of the bound.
    baseline, current : its exact values, None where it is absent.
    worse_by : how much worse it is, absolutely; negative where it is better.
    broken : the rules that do not allow that.
    """

    name: str
    baseline: Fraction | None
    current: Fraction | None
    worse_by: Fraction = Fraction(0)
    broken: Sequence[Rule] = ()

    @property
    def relative(self) -> Fraction | None:
        """`worse_by` as a part of the size of the baseline's bound; None if it has no such part: that is zero or absent."""
        if self.worse_by == 0:
            return Fraction(0)
        return self.worse_by / abs(self.baseline) if self.baseline else None

    @property
    def noteworthy(self) -> bool:
        """Whether it changed by more than 1 % of the baseline's bound: less tells a reader nothing."""
        return self.relative is None or abs(self.relative) > NOTEWORTHY


@dataclass(frozen=True)
class Change:
    """What became of one claim id.

    Attributes
    ----------
    id, kind : of the claim.
    baseline, current : the claims, None where there is none; at least one is there.
    findings : what was found, failures first.
    bounds : the bounds that could be compared, in the order of the baseline; none if the verdicts differ.
    """

    id: str
    kind: str
    baseline: Claim | None
    current: Claim | None
    findings: Sequence[Finding] = ()
    bounds: Sequence[BoundChange] = ()

    @property
    def failures(self) -> list[Finding]:
        """The findings that fail the gate."""
        return [finding for finding in self.findings if finding.code.fails]


@dataclass(frozen=True)
class Comparison:
    """Two reports compared: the claims of the baseline in its order, then the new ones.

    Attributes
    ----------
    changes : one for each claim id.
    rules : the rules that were applied.
    notes : what differs in the subjects and producers, as sentences; they fail nothing.
    """

    changes: Sequence[Change]
    rules: Sequence[Rule] = ()
    notes: Sequence[str] = ()

    @property
    def failed(self) -> list[Change]:
        """The changes that fail the gate."""
        return [change for change in self.changes if change.failures]

    @property
    def passed(self) -> bool:
        """Whether nothing fails."""
        return not self.failed

    def count(self, *codes: Code) -> int:
        """How many claims have a finding of one of these codes."""
        return sum(any(finding.code in codes for finding in change.findings) for change in self.changes)

    @property
    def headline(self) -> str:
        """One line that says how it went."""
        total = sum(change.baseline is not None for change in self.changes)
        claims = f"{total} claim{'' if total == 1 else 's'} of the baseline"
        new = self.count(Code.NEW_CLAIM)
        more = f", {new} new" if new else ""
        if self.passed:
            return f"passed: {claims}{more}"
        return f"regressed: {len(self.failed)} of {claims}{more}"


@dataclass(frozen=True)
class Source:
    """Where the reports came from, for messages: names as given, and the line of each claim in the baseline."""

    baseline: str
    current: str
    lines: Mapping[str, int] = field(default_factory=dict)

    def line(self, claim_id: str) -> int:
        """The line of a claim in the baseline; 1 if it has none."""
        return self.lines.get(claim_id, 1)


def lines_of(report: bytes) -> dict[str, int]:
    """The lines, from 1, on which the claims of a report file give their ids, as far as ids are on lines of their own."""
    found: dict[str, int] = {}
    for number, line in enumerate(report.splitlines(), start=1):
        match = re.fullmatch(rb'\s*"id": "([^"\\]{1,200})",?\s*', line)
        if match:
            found.setdefault(match[1].decode("utf-8", "replace"), number)
    return found
