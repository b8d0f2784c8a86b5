"""Small reports to compare."""

from __future__ import annotations

from typing import Any

from certify.certificate import Claim, Report
from certify.gate import Change, Code, compare, parse_rule

PRODUCER = {"name": "certify", "version": "1", "arithmetic": {}}
SUBJECT = {
    "case": "polyprox",
    "p": 3,
    "tensors": {"W": {"sha256": "0" * 64, "dtype": "float64", "shape": [3, 3]}},
    "controls": {"lam": "0x1p-3"},
}


def claim(id: str = "rounding/float32/serial/ball", **changes: Any) -> Claim:
    """A certified claim with one bound, with changes."""
    fields: dict[str, Any] = {
        "id": id,
        "kind": id.split("/")[0],
        "statement": "It is so.",
        "semantics": "program",
        "parameters": {"format": "float32", "order": "serial", "region": {"kind": "ball", "radius": "0x1p-7"}},
        "verdict": "certified",
        "bounds": {"eps_W": "0x1p-20"},
        "assumptions": ["round to nearest"],
    }
    fields.update(changes)
    if fields["verdict"] != "certified":
        fields.setdefault("reason", "q >= 1")
    return Claim(**fields)


def undecided(id: str = "rounding/float32/serial/ball", **changes: Any) -> Claim:
    """The same claim, of which nothing is proved."""
    return claim(id, **{"verdict": "undecided", "bounds": {}, **changes})


def refuted(id: str = "rounding/float32/serial/ball", **changes: Any) -> Claim:
    """The same claim, which is false."""
    return claim(id, **{"verdict": "refuted", "bounds": {}, **changes})


def report(*claims: Claim, **subject: Any) -> Report:
    """A report of these claims; None leaves something out of its subject."""
    about = {name: value for name, value in {**SUBJECT, **subject}.items() if value is not None}
    return Report(PRODUCER, about, claims)


def change_of(old: Claim, new: Claim, *rules: str) -> Change:
    """What becomes of one claim."""
    (change,) = compare(report(old), report(new), [parse_rule(rule) for rule in rules]).changes
    return change


def codes_of(old: Claim, new: Claim, *rules: str) -> list[Code]:
    """What is found about one claim."""
    return [finding.code for finding in change_of(old, new, *rules).findings]
