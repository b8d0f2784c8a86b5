"""Report files for the gate, and ways to change the claims in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from certify.certificate import Claim, Report, encode

PRODUCER = {"name": "certify", "version": "1", "arithmetic": {}}
ROUNDING, CONTRACTION, UPDATES = "rounding/float32/serial/ball", "contraction/face", "updates/float64"
RANGE = "range/float16/serial/point"


def document(claims: int = 0) -> dict[str, Any]:
    """A report of claims of four kinds, one of them refuted, and of so many more, as JSON values."""
    made = [
        Claim(ROUNDING, "rounding", "s", "program", {"format": "float32"}, "certified", bounds={"eps_W": "0x1p-20"}),
        Claim(CONTRACTION, "contraction", "s", "real", {}, "certified", bounds={"q": "0x1.ep-1", "radius": "0x1p-7"}),
        Claim(UPDATES, "updates", "s", "program", {}, "certified", bounds={"count": "40"}),
        Claim(RANGE, "range", "s", "program", {"format": "float16"}, "refuted", "input rho overflows"),
    ]
    made += [
        Claim(f"other/{i}", "other", "s" * 1000, "real", {}, "certified", bounds={"x": str(i)}) for i in range(claims)
    ]
    report: dict[str, Any] = json.loads(encode(Report(PRODUCER, {"case": "polyprox", "p": 3}, made)))
    return report


def write(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], object] | None = None) -> Path:
    """Write the report; `change` is called with it and with its claims by id."""
    report = document()
    if change is not None:
        change(report, {claim["id"]: claim for claim in report["claims"]})
    path.write_text(json.dumps(report, indent=1))
    return path


def drop(*ids: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Leave claims out."""

    def change(report: dict[str, Any], claims: dict[str, Any]) -> None:
        report["claims"] = [claim for claim in report["claims"] if claim["id"] not in ids]

    return change


def weaken(id: str, verdict: str = "undecided") -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Give a claim another verdict."""

    def change(report: dict[str, Any], claims: dict[str, Any]) -> None:
        claims[id].update(verdict=verdict, reason="q >= 1")

    return change


def bound(id: str, name: str, value: str | None) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Change a bound; None leaves it out."""

    def change(report: dict[str, Any], claims: dict[str, Any]) -> None:
        claims[id]["bounds"] = {k: v for k, v in {**claims[id]["bounds"], name: value}.items() if v is not None}

    return change


def put(id: str, **fields: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Change fields of a claim."""
    return lambda report, claims: claims[id].update(fields)
