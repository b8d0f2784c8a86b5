"""What two reports are about: whether they can be compared, and what differs all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from certify.certificate import Report
from certify.errors import InputRejected
from certify.states.quoting import quoted

#: Reports that differ in one of these are about different things, and no bound of one says anything about the other's.
_SAME = ("case", "kernel", "p")
#: What a state is made of.
_STATE = (*_SAME, "p_max", "states", "tensors", "controls", "graph", "kernels")
_REMEDY = "compare it with a baseline of the same kind, or start a new one in another file"


def require_comparable(baseline: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Refuse subjects of different cases, kernels or sizes.

    Raises
    ------
    InputRejected : they differ so; the message says in what.
    """
    for name in _SAME:
        before, after = baseline.get(name), current.get(name)
        if before != after:
            raise InputRejected(
                f"the baseline is about {name} {_said(before)} and the current report about {name} {_said(after)}",
                _REMEDY,
            )


def same_state(baseline: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Whether both subjects are the same numbers, so that what is true of one is true of the other."""
    return all(baseline.get(name) == current.get(name) for name in _STATE)


def notes(baseline: Report, current: Report) -> list[str]:
    """What differs and fails nothing, as sentences: another state, other versions, another overall verdict."""
    found = []
    before, after = baseline.subject, current.subject
    tensors = _differing(before.get("tensors"), after.get("tensors"))
    if tensors:
        found.append(f"Another state than that of the baseline: {', '.join(tensors)} changed.")
    controls = _differing(before.get("controls"), after.get("controls"))
    if controls:
        found.append(f"Other controls than those of the baseline: {', '.join(controls)} changed.")
    known = (*_SAME, "tensors", "controls")
    others = _differing(*({k: v for k, v in subject.items() if k not in known} for subject in (before, after)))
    if others:
        found.append(f"Another subject than that of the baseline: {', '.join(others)} changed.")
    for name in ("name", "version"):
        ours, theirs = str(current.producer.get(name)), str(baseline.producer.get(name))
        if ours != theirs:
            found.append(f"Another producer: {name} {quoted(theirs)} made the baseline, {quoted(ours)} this report.")
    if baseline.verdict is not current.verdict:
        found.append(f"The overall verdict was {baseline.verdict} and is {current.verdict}.")
    return found


def _differing(before: Any, after: Any) -> list[str]:
    before, after = before or {}, after or {}
    names = dict.fromkeys([*before, *after])
    return [quoted(name)[1:-1] for name in names if before.get(name) != after.get(name)]


def _said(value: Any) -> str:
    return "none" if value is None else quoted(str(value))
