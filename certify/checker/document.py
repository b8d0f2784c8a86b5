"""Reads a report that nobody vouches for: strict JSON, exact numbers, and the shape that every claim must have."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NoReturn

MAX_BYTES = 32 << 20  # of any file: a report, a state, a graph
MAX_CLAIMS = 10_000
_MAX_ITEMS, _MAX_DEPTH, _MAX_DIGITS, _MAX_EXPONENT = 600_000, 64, 1000, 20_000
_NUMBER = re.compile(
    r"(-?)(?:0x(0|[1-9a-f][0-9a-f]*)(?:\.([0-9a-f]+))?p([+-]?(?:0|[1-9][0-9]{0,6}))|(0|[1-9][0-9]*)(?:/([1-9][0-9]*))?)"
)
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/()=:+,-]{0,199}")
_KIND = re.compile(r"[a-z][a-z0-9-]{0,39}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
VERDICTS = ("certified", "refuted", "undecided")


class Rejected(Exception):
    """A report, file or claim that is not valid or not true: one sentence, without a full stop."""


class Beyond(Exception):
    """Valid as far as it goes, but more work than this checker does, or a question it cannot settle."""


def shown(value: Any) -> str:
    """Whatever a file holds, short and printable."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:76] + " ..."


def parse_json(data: bytes, what: str) -> Any:
    """JSON with one meaning only: no float, NaN, duplicate key, lone surrogate, long integer or deep nesting."""
    if len(data) > MAX_BYTES or sum(data.count(c) for c in (b",", b"[", b"{")) > _MAX_ITEMS:
        raise Rejected(f"{what} is larger than a checker reads ({MAX_BYTES} bytes, {_MAX_ITEMS} elements)")

    def refuse(text: str) -> NoReturn:
        raise Rejected(f"{what} is not valid: the number {shown(text)} is not exact or too long")

    def integer(text: str) -> int:
        return int(text) if len(text) <= 20 else refuse(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise Rejected(f"{what} is not valid: a key occurs twice among {shown(list(found)[:3])}")
        return found

    try:
        hooks: dict[str, Any] = {"parse_int": integer, "parse_float": refuse, "parse_constant": refuse}
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, **hooks)
        _require_plain(value, what, b"\\u" in data)
    except (ValueError, RecursionError) as error:  # syntax, text that is not UTF-8, a lone surrogate, nesting
        raise Rejected(f"{what} is not valid JSON: {shown(str(error))}") from None
    return value


def _require_plain(value: Any, what: str, escaped: bool) -> None:
    """Bounded nesting, and no lone surrogate, which only an escape can make."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        objects = [x for x in level if isinstance(x, dict)]
        if escaped:
            "".join(x for x in [*level, *(key for x in objects for key in x)] if isinstance(x, str)).encode("utf-8")
        level = [y for x in objects for y in x.values()] + [y for x in level if isinstance(x, list) for y in x]
    if level:
        raise Rejected(f"{what} is nested deeper than {_MAX_DEPTH} levels")


def number(text: Any) -> Fraction:
    """The exact value of 0x1.8p+1, 0x1f3p-40, 12 or 3/7 (in lowest terms); nothing else is a number."""
    match = _NUMBER.fullmatch(text) if isinstance(text, str) and len(text) <= 1 << 14 else None
    if match is None:
        raise Rejected(f"{shown(text)} is not an exact number")
    sign, whole, part, exponent, over, under = match.groups()
    if whole is not None:
        shift = int(exponent)
        if abs(shift) > _MAX_EXPONENT:
            raise Rejected(f"the exponent of {shown(text)} is too large")
        shift -= 4 * len(part or "")
        size = int(whole + (part or ""), 16) * (Fraction(1 << shift) if shift >= 0 else Fraction(1, 1 << -shift))
    else:
        if max(len(over), len(under or "")) > _MAX_DIGITS:
            raise Rejected(f"{shown(text)} has too many digits")
        size = Fraction(int(over), int(under or "1"))
        if under and size.denominator != int(under):
            raise Rejected(f"{shown(text)} is not in lowest terms")
    return -size if sign else size


def binary64(text: Any) -> float:
    """A number string that is a finite binary64 number."""
    value = number(text)
    if not abs(value) < 1 << 1024 or Fraction(float(value)) != value:
        raise Rejected(f"{shown(text)} is not a binary64 number")
    return float(value)


def integer(value: Any, least: int, most: int, what: str) -> int:
    """A JSON integer (true is none) between two limits."""
    if type(value) is not int or not least <= value <= most:
        raise Rejected(f"{what} is {shown(value)}, not an integer from {least} to {most}")
    return value


def matrix(values: Any, p: int, what: str) -> list[list[float]]:
    """Rows of a (p, p) matrix from its binary64 entries, a flat row-major list of number strings."""
    if not isinstance(values, list) or len(values) != p * p:
        raise Rejected(f"{what} is not a list of {p * p} numbers")
    entries = [binary64(text) for text in values]
    return [entries[i * p : (i + 1) * p] for i in range(p)]


_TEXT = re.compile(r"[^\0]+")
_REPORT = {
    "schema": ("certify-report/1",),
    "producer": dict,
    "subject": dict,
    "claims": list,
    "verdict": VERDICTS,
    "required": list,
}
_PRODUCER = {"name": _TEXT, "version": _TEXT, "arithmetic": dict}
_CLAIM = {
    "id": ID,
    "kind": _KIND,
    "statement": _TEXT,
    "semantics": ("real", "program", "any-order"),
    "parameters": dict,
}
_CLAIM |= {"verdict": VERDICTS, "reason": str, "bounds": dict, "observed": dict, "assumptions": list, "theorem": str}
_CLAIM |= {"witness": (dict | None), "display": dict}


def claims_of(report: Any) -> dict[str, dict[str, Any]]:
    """The claims of a report by id, after checking the shape of everything; their truth is another matter."""
    _shape(report, _REPORT, "the report", optional=("required",))
    _shape(report["producer"], _PRODUCER, "the producer")
    if not isinstance(report["subject"].get("case"), str) or not 0 < len(report["claims"]) <= MAX_CLAIMS:
        raise Rejected(f"the report does not name its case, or does not hold 1 to {MAX_CLAIMS} claims")
    claims: dict[str, dict[str, Any]] = {}
    for index, claim in enumerate(report["claims"]):
        named = isinstance(claim, dict) and isinstance(claim.get("id"), str)
        name = f"claim {shown(claim['id'])[1:-1]}" if named else f"claim {index}"
        _require_claim(claim, name)
        if claim["id"] in claims:
            raise Rejected(f"{name}: two claims have this id")
        claims[claim["id"]] = claim
    required = report.get("required", list(claims))
    if (
        not required
        or not all(isinstance(x, str) and x in claims for x in required)
        or len(set(required)) < len(required)
    ):
        raise Rejected("the report requires no claim, one twice, or one that it does not hold")
    counted = {claims[x]["verdict"] for x in required}
    overall = "refuted" if "refuted" in counted else "certified" if counted == {"certified"} else "undecided"
    if report["verdict"] != overall:
        raise Rejected(f"the report says {report['verdict']}, but its claims give {overall}")
    return claims


def _shape(value: Any, rules: Mapping[str, Any], what: str, optional: tuple[str, ...] = ()) -> None:
    """Exactly these keys; a rule is a type, a pattern, or the texts there are."""
    if not isinstance(value, dict) or not set(rules) - set(optional) <= set(value) <= set(rules):
        raise Rejected(f"{what} does not have exactly the keys {', '.join(rules)}")
    for key in value:
        if not _fits(value[key], rules[key]):
            raise Rejected(f"{what}: {key} is not valid: {shown(value[key])}")


def _fits(value: Any, rule: Any) -> bool:
    if isinstance(rule, re.Pattern):
        return isinstance(value, str) and rule.fullmatch(value) is not None
    return isinstance(value, str) and value in rule if isinstance(rule, tuple) else isinstance(value, rule)


def _require_claim(claim: Any, name: str) -> None:
    _shape(claim, _CLAIM, name)
    if claim["id"].split("/")[0] != claim["kind"]:
        raise Rejected(f"{name}: the id does not start with the kind {claim['kind']}")
    if claim["verdict"] != "certified" and not claim["reason"]:
        raise Rejected(f"{name}: the verdict {claim['verdict']} needs a reason")
    side = claim["witness"] if claim["witness"] and "file" in claim["witness"] else {"file": "x", "sha256": "0" * 64}
    texts = all(_fits(x, _TEXT) for x in claim["assumptions"]) and all(_fits(x, str) for x in claim["display"].values())
    if not texts or not _fits(side["file"], FILE) or not _fits(side.get("sha256"), _SHA256):
        raise Rejected(f"{name}: assumptions, display or witness are not valid")
    for key, text in claim["bounds"].items():
        try:
            number(text)
        except Rejected as error:
            raise Rejected(f"{name}: the bound {shown(key)}: {error}") from None
