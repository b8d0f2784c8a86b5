"""The comparison: two reports and rules in, what became of each claim out. Exact; no number is rounded on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from certify.certificate import Claim, Report, Verdict, parse
from certify.errors import InputRejected
from certify.gate.directions import worsening
from certify.gate.findings import BoundChange, Change, Code, Comparison, Finding
from certify.gate.numbers import percent, shown
from certify.gate.rules import Rule
from certify.gate.subjects import notes, require_comparable, same_state
from certify.states.quoting import quoted

#: What a run is asked for. A claim of the same id with another of these answers another question.
ASKED = ("region", "tol", "order", "step", "method", "limit", "format", "confidence")
#: Kinds whose statement the state and what was asked fix completely: refuted and certified cannot both be true.
_SETTLED = ("rounding", "range", "exactness")
#: Binary64 numbers need 2100 bits. Longer ones would make a hostile report slow to compare.
_LONGEST_BITS = 4096


def compare(baseline: Report, current: Report, rules: Iterable[Rule] = ()) -> Comparison:
    """Compare two reports claim by claim.

    What always fails: a claim of the baseline that is gone, a verdict that became anything but certified, a bound of a
    decided claim that is gone, an answer to another question, a new assumption, a finer format. What fails if a rule says so:
    a bound that is worse. Better bounds and new claims never fail.

    Raises
    ------
    InputRejected : the reports are of different cases, kernels or sizes, or a bound is too long to compare.
    """
    require_comparable(baseline.subject, current.subject)
    rules = tuple(rules)
    now = {claim.id: claim for claim in current.claims}
    before = {claim.id for claim in baseline.claims}
    same = same_state(baseline.subject, current.subject)
    changes = [_change(claim, now.get(claim.id), rules, same) for claim in baseline.claims]
    for claim in current.claims:
        if claim.id not in before:
            new = Finding(Code.NEW_CLAIM, f"is new: {claim.verdict}")
            changes.append(Change(claim.id, claim.kind, None, claim, (new,)))
    return Comparison(changes, rules, notes(baseline, current))


def _change(old: Claim, new: Claim | None, rules: Sequence[Rule], same: bool) -> Change:
    if new is None:
        lost = Finding(Code.LOST_CLAIM, f"is gone; it was {old.verdict}")
        return Change(old.id, old.kind, old, None, (lost,))
    findings = [*_verdicts(old, new, same), *_questions(old, new)]
    bounds: list[BoundChange] = []
    # Of an undecided claim nothing is proved, and numbers of other verdicts measure other things.
    if old.verdict is new.verdict and new.verdict is not Verdict.UNDECIDED:
        findings += [*_assumptions(old, new), *_formats(old, new)]
        bounds = [
            _bound(old, new, name, rules) for name in (*old.bounds, *(n for n in new.bounds if n not in old.bounds))
        ]
        findings += [finding for finding in map(_about_bound, bounds) if finding]
    return Change(old.id, old.kind, old, new, sorted(findings, key=lambda f: not f.code.fails), bounds)


def _verdicts(old: Claim, new: Claim, same: bool) -> list[Finding]:
    if old.verdict is new.verdict:
        return []
    if new.verdict is not Verdict.CERTIFIED:
        reason = f": {quoted(new.reason)[1:-1]}" if new.reason else ""
        return [Finding(Code.WEAKENED_VERDICT, f"was {old.verdict} and is {new.verdict}{reason}")]
    if old.verdict is Verdict.REFUTED and same and old.kind in _SETTLED and not _questions(old, new):
        both = "was refuted and is certified, for the same state: one of the reports is wrong, check both"
        return [Finding(Code.CONTRADICTION, both)]
    return [Finding(Code.STRONGER_VERDICT, f"was {old.verdict} and is certified")]


def _questions(old: Claim, new: Claim) -> list[Finding]:
    """Where the new claim is about something else under the same id."""
    found = []
    for name in ("kind", "semantics"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            found.append(f"its {name} was {before} and is {after}")
    for name in ASKED:
        if name == "format" and old.kind == new.kind == "precision":
            continue  # the answer there
        before, after = old.parameters.get(name), new.parameters.get(name)
        if before != after:
            found.append(f"its {name} was {_value(before)} and is {_value(after)}")
    return [Finding(Code.CHANGED_QUESTION, text) for text in found]


def _assumptions(old: Claim, new: Claim) -> list[Finding]:
    return [
        Finding(Code.NEW_ASSUMPTION, f"assumes more: {quoted(assumption)}")
        for assumption in dict.fromkeys(new.assumptions)
        if assumption not in old.assumptions
    ]


def _formats(old: Claim, new: Claim) -> list[Finding]:
    """A claim of kind precision names the coarsest format that is proved enough."""
    before, after = old.parameters.get("format"), new.parameters.get("format")
    if not old.kind == new.kind == "precision" or before == after:
        return []
    change = f"needed {_value(before)} and needs {_value(after)}"
    places = _coarseness(before), _coarseness(after)
    if None in places:
        return [Finding(Code.CHANGED_QUESTION, change)]
    finer = places[1] > places[0]
    return [Finding(Code.FINER_FORMAT if finer else Code.COARSER_FORMAT, change)]


def _coarseness(format: Any) -> Any:
    """Where a format stands among those of a report, which are sorted so; None if it is no format, such as "none"."""
    from certify.arithmetic import format_named

    try:
        return format_named(str(format)).precision, str(format)
    except InputRejected:
        return None


def _bound(old: Claim, new: Claim, name: str, rules: Sequence[Rule]) -> BoundChange:
    before, after = _number(old, name), _number(new, name)
    if before is None or after is None:
        return BoundChange(name, before, after)
    worse_by = worsening(name) * (after - before)
    broken = [rule for rule in rules if worse_by > 0 and rule.fits(old.id, name) and not rule.allows(before, worse_by)]
    return BoundChange(name, before, after, worse_by, broken)


def _number(claim: Claim, name: str) -> Fraction | None:
    if name not in claim.bounds:
        return None
    value = parse(claim.bounds[name])
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _LONGEST_BITS:
        raise InputRejected(
            f"the bound {quoted(name)} of claim {quoted(claim.id)} has more than {_LONGEST_BITS} bits",
            "round it outward to binary64 first",
        )
    return value


def _about_bound(bound: BoundChange) -> Finding | None:
    name = quoted(bound.name)[1:-1]
    before, after = shown(bound.baseline, bound.current)
    if bound.current is None:
        return Finding(Code.LOST_BOUND, f"{name} is no longer proved; it was {before}")
    if bound.baseline is None:
        return Finding(Code.NEW_BOUND, f"{name} is proved now: {after}")
    if not (bound.broken or bound.noteworthy):
        return None
    by = "" if bound.relative is None else f" by {percent(abs(bound.relative)).removeprefix('+')}"
    change = f"{name} is {'worse' if bound.worse_by > 0 else 'better'}{by}: {before} -> {after}"
    if bound.broken:
        rules = " and ".join(f"{rule.allowance} ({quoted(rule.text)})" for rule in bound.broken)
        return Finding(Code.WORSE_BOUND, f"{change}, allowed is {rules}")
    return Finding(Code.SLIPPED_BOUND if bound.worse_by > 0 else Code.BETTER_BOUND, change)


def _value(value: Any) -> str:
    """A parameter, as short as it can be said: a number in decimal, a region by its kind and radius."""
    if value is None:
        return "absent"
    if isinstance(value, Mapping):
        return quoted(" ".join(f"{key} {_value(entry)}" for key, entry in value.items()))[1:-1]
    if isinstance(value, str) and value.startswith("0x"):
        try:
            return f"{float(parse(value)):g}"
        except (InputRejected, OverflowError):
            pass
    return quoted(str(value))[1:-1]
