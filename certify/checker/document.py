"""Reads a report that nobody vouches for (strict JSON, exact numbers, claims in shape), and compares what it says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

MAX_BYTES = 32 << 20  # of any file: a report, a state, a graph
_MAX_ITEMS, _MAX_DEPTH, _MAX_CLAIMS, _MAX_LENGTH, _MAX_EXPONENT = 600_000, 64, 10_000, 1000, 20_000
_HEX = re.compile(r"(-?)0x(0|[1-9a-f][0-9a-f]*)(?:\.([0-9a-f]+))?p([+-]?(?:0|[1-9][0-9]{0,6}))")
_RATIO = re.compile(r"-?(0|[1-9][0-9]*)(/[1-9][0-9]*)?")
_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,4})?")

# what values must be: of a type, or strings that match
_NAME, _TEXT, _VERDICT = "[A-Za-z0-9][A-Za-z0-9._/()=:+,-]{0,199}", "[^\0]+", "certified|refuted|undecided"
_REPORT: dict[str, Any] = {"schema": "certify-report/1", "producer": dict, "subject": dict, "verdict": _VERDICT}
_REPORT |= {"claims": list}
_PRODUCER: dict[str, Any] = {"name": _TEXT, "version": _TEXT, "arithmetic": dict}
_CLAIM: dict[str, Any] = {"id": _NAME, "kind": "[a-z][a-z0-9-]{0,39}", "statement": _TEXT, "theorem": str}
_CLAIM |= {"semantics": "real|program|any-order|stochastic", "parameters": dict, "verdict": _VERDICT, "reason": str}
_CLAIM |= {"bounds": dict, "display": dict, "observed": dict, "assumptions": list, "witness": dict | None}
SIDE_FILE = {"file": "[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", "sha256": "[0-9a-f]{64}"}
STOCHASTIC = "stochastic"  # of bounds that hold with a probability
Claim = dict[str, Any]


class Rejected(Exception):
    """A report, file or claim that is not valid or not true: one sentence, without a full stop."""


class Beyond(Exception):
    """Valid as far as it goes, but more work than this checker does, or a question it cannot settle."""


@dataclass(frozen=True)
class Finding:
    """One claim: the verdict it claims, and `certified` or `refuted` (proved again), `undecided` or `rejected`."""

    id: str
    kind: str
    claimed: str
    verdict: str
    sentence: str
    proved: dict[str, Fraction] = field(default_factory=dict)


def shown(value: Any) -> str:
    """Whatever a file holds, short and printable."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:76] + " ..."


class _Inexact(str):
    """A number that is not exact, as the file has it."""


def _inexact(x: Any) -> str | None:
    """The first number in a value that is not exact."""
    inner = x.values() if isinstance(x, dict) else x if isinstance(x, list) else ()
    return x if isinstance(x, _Inexact) else next((text for y in inner if (text := _inexact(y))), None)


def parse_json(data: bytes, what: str) -> Any:
    """JSON with one meaning only: no float, NaN, duplicate key, lone surrogate, long integer or deep nesting."""
    seen: list[str] = []

    def inexact(text: str) -> str:
        seen.append(_Inexact(text))
        return seen[-1]

    def refuse(text: str) -> NoReturn:
        raise ValueError(f"the number {text[:40]} is not exact or too long")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(f"a key occurs twice among {list(found)[:2]}")
        if seen and {"id", "kind"} <= set(found) and (text := _inexact(found)):
            raise ValueError(f"claim {found['id']} has the number {text[:40]}, which is not exact")
        return found

    def depth(x: Any) -> int:
        inner = x.values() if isinstance(x, dict) else x
        return 1 + max(map(depth, inner), default=0) if isinstance(x, dict | list) else 0

    if len(data) > MAX_BYTES or sum(map(data.count, (b",", b"[", b"{"))) > _MAX_ITEMS:
        raise Rejected(f"{what} is larger than a checker reads ({MAX_BYTES} bytes, {_MAX_ITEMS} elements)")
    try:
        hooks: dict[str, Any] = {"parse_float": inexact, "parse_constant": inexact, "object_pairs_hook": unique}
        value = json.loads(data.decode(), parse_int=lambda x: int(x) if len(x) <= 20 else refuse(x), **hooks)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()  # refuses lone surrogates
        if seen:
            refuse(seen[0])
        if depth(value) > _MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{what} is not JSON that a checker reads: {shown(str(error))}") from None
    return value


def number(text: Any) -> Fraction:
    """The exact value of 0x1.8p+1, 0x1f3p-40, 12 or 3/7 (in lowest terms); nothing else is a number."""
    if isinstance(text, str) and len(text) <= _MAX_LENGTH:
        if _RATIO.fullmatch(text) and str(Fraction(text)) == text:
            return Fraction(text)
        if (match := _HEX.fullmatch(text)) and abs(int(match[4])) <= _MAX_EXPONENT:
            part = match[3] or ""
            return int(match[1] + match[2] + part, 16) * Fraction(2) ** (int(match[4]) - 4 * len(part))
    raise Rejected(f"{shown(text)} is not an exact number")


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
    return [[binary64(text) for text in values[i * p : (i + 1) * p]] for i in range(p)]


def fits(value: Any, rule: Any) -> bool:
    """Whether a value has a type, or is a string that a pattern matches."""
    pattern = isinstance(rule, str)
    return isinstance(value, str if pattern else rule) and (not pattern or re.fullmatch(rule, value) is not None)


def require_shape(value: Any, rules: dict[str, Any], what: str) -> None:
    """An object with exactly these keys, whose values fit."""
    if not isinstance(value, dict) or set(value) != set(rules):
        raise Rejected(f"{what} does not have exactly the keys {', '.join(rules)}")
    for key, rule in rules.items():
        if not fits(value[key], rule):
            raise Rejected(f"{what}: {key} is not valid: {shown(value[key])}")


def claims_of(report: Any) -> dict[str, Claim]:
    """The claims of a report by id, after checking the shape of everything; their truth is another matter."""
    listed = {"required": list} if isinstance(report, dict) and "required" in report else {}
    require_shape(report, _REPORT | listed, "the report")
    require_shape(report["producer"], _PRODUCER, "the producer")
    claims: dict[str, Claim] = {}
    for k, claim in enumerate(report["claims"][:_MAX_CLAIMS]):
        what = f"claim {shown(claim['id'])[1:-1] if isinstance(claim, dict) and 'id' in claim else k}"
        require_shape(claim, _CLAIM, what)
        if "file" in (witness := claim["witness"] or {}):
            require_shape({key: x for key, x in witness.items() if key in SIDE_FILE}, SIDE_FILE, f"{what}: witness")
        if not all(fits(x, _TEXT) for x in [*claim["assumptions"], *claim["display"].values()]):
            raise Rejected(f"{what}: assumptions or display are not texts")
        if claim["id"].split("/")[0] != claim["kind"] or claim["id"] in claims:
            raise Rejected(f"{what}: the id does not start with its kind, or two claims have this id")
        if claim["kind"] == "counterexample" and claim["verdict"] == "certified":
            raise Rejected(f"{what}: a counterexample refutes a published statement, and certifies none")
        if (claim["semantics"] == STOCHASTIC) != claim["kind"].endswith("-probable"):
            raise Rejected(f"{what}: a probability has the semantics {STOCHASTIC} and a kind in -probable")
        if claim["verdict"] != "certified" and not claim["reason"]:
            raise Rejected(f"{what}: the verdict {claim['verdict']} has no reason")
        try:
            [number(text) for text in claim["bounds"].values()]
        except Rejected as error:
            raise Rejected(f"{what}: bounds: {error}") from None
        claims[claim["id"]] = claim
    required = report.get("required", list(claims))
    chosen = {x for x in required if isinstance(x, str) and x in claims}
    if not len(chosen) == len(required) > 0 or len(claims) < len(report["claims"]):
        raise Rejected(f"the report has over {_MAX_CLAIMS} claims, or requires none, one twice, or an unknown one")
    if any(claims[x]["semantics"] == STOCHASTIC for x in chosen):
        raise Rejected("the verdict of the report would rest on a probability")
    verdicts = {claims[x]["verdict"] for x in chosen}
    overall = "refuted" if "refuted" in verdicts else "certified" if verdicts == {"certified"} else "undecided"
    if report["verdict"] != overall:
        raise Rejected(f"the report says {report['verdict']}, but its claims give {overall}")
    return claims


def proved(claim: Claim, **numbers: Fraction) -> Finding:
    """The claim holds; `numbers` are the checker's own bounds."""
    return Finding(claim["id"], claim["kind"], claim["verdict"], claim["verdict"], "proved again", numbers)


def agrees(
    claim: Claim, context: Any, *, id: str, parameters: Any, bounds: Any = (), optional: Any = (), **words: Any
) -> None:
    """The id and words of a claim are those of its parameters; it has these parameters and bounds, and no others."""
    k = claim["parameters"].get("state")
    id = f"{id}/state={k}" if context.several and k is not None else id
    for key, wanted in ({"id": id, "semantics": "program", "assumptions": []} | words).items():
        if claim[key] != wanted:
            raise Rejected(f"its {key} does not follow from its kind and parameters, which give {shown(wanted)}")
    for key, least, most in (("parameters", parameters, ()), ("bounds", bounds, optional)):
        if not set(least) <= set(claim[key]) <= {*least, *most}:
            raise Rejected(f"its {key} are not exactly {', '.join(sorted(least)) or 'none'}")


def require_upper(claim: Claim, name: str, own: Fraction) -> None:
    """The claimed upper bound is not below what the checker proves, and not shown smaller than it is."""
    claimed, text = number(claim["bounds"].get(name)), claim["display"].get(name)
    if claimed < own:
        raise Rejected(f"{name} is claimed to be at most {_rounded(claimed)}, but {_rounded(own)} is what is proved")
    if text is not None and (_DECIMAL.fullmatch(text) is None or Fraction(text) < claimed):
        raise Rejected(f"{name} is displayed as {shown(text)}, which is not a decimal of at least {_rounded(claimed)}")


def require_lower(claim: Claim, name: str, own: Fraction) -> None:
    """The claimed lower bound is not above what the checker proves."""
    if (claimed := number(claim["bounds"].get(name))) > own:
        raise Rejected(f"{name} is claimed to be at least {_rounded(claimed)}, but {_rounded(own)} is what is proved")


def _rounded(x: Fraction) -> str:
    """For a sentence: 17 digits, so that one ulp shows."""
    return f"{float(x):.17g}" if abs(x) < 1 << 1023 else f"about 2**{int(abs(x)).bit_length()}"
