"""The comparison as JSON, `certify-gate/1`: every number exact, as in a report, with decimals beside it to show."""

from __future__ import annotations

import json
from typing import Any

from certify.certificate import to_text
from certify.gate.findings import BoundChange, Change, Code, Comparison, Source
from certify.gate.numbers import percent, shown

SCHEMA_ID = "certify-gate/1"


def render(comparison: Comparison, source: Source) -> str:
    """One JSON object, the same for the same comparison; without a final newline."""
    document = {
        "schema": SCHEMA_ID,
        "passed": comparison.passed,
        "baseline": source.baseline,
        "current": source.current,
        "rules": [rule.text for rule in comparison.rules],
        "notes": list(comparison.notes),
        "counts": {code.value: comparison.count(code) for code in Code},
        "changes": [_change(change) for change in comparison.changes],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def _change(change: Change) -> dict[str, Any]:
    return {
        "id": change.id,
        "kind": change.kind,
        "passed": not change.failures,
        "verdict": {
            "baseline": change.baseline.verdict.value if change.baseline else None,
            "current": change.current.verdict.value if change.current else None,
        },
        "findings": [
            {"code": finding.code.value, "fails": finding.code.fails, "message": finding.message}
            for finding in change.findings
        ],
        "bounds": [_bound(change, bound) for bound in change.bounds],
    }


def _bound(change: Change, bound: BoundChange) -> dict[str, Any]:
    before, after = shown(bound.baseline, bound.current)
    both = bound.baseline is not None and bound.current is not None
    return {
        "name": bound.name,
        "baseline": change.baseline.bounds.get(bound.name) if change.baseline else None,
        "current": change.current.bounds.get(bound.name) if change.current else None,
        "worse_by": to_text(bound.worse_by) if both else None,
        "worse_by_relative": None if bound.relative is None or not both else to_text(bound.relative),
        "broken_rules": [rule.text for rule in bound.broken],
        "display": {"baseline": before, "current": after, "change": percent(bound.relative) if both else "-"},
    }
