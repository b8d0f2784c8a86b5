"""The comparison as SARIF 2.1.0 (OASIS), for code scanning: one result a finding that a reader must see."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any
from urllib.parse import quote

from certify.gate.findings import Change, Code, Comparison, Finding, Source
from certify.version import __version__

#: The place that the standard itself gives its schema.
SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NOTES = (Code.SLIPPED_BOUND, Code.NEW_CLAIM)
_REPORTED = tuple(code for code in Code if code.fails or code in _NOTES)


def render(comparison: Comparison, source: Source) -> str:
    """One SARIF log. Failures are errors; bounds that slipped and new claims are notes; what is better is left out.

    Every result lies in the baseline, on the line of its claim: that is the file in the repository.
    """
    run = {
        "tool": {
            "driver": {"name": "certify gate", "version": __version__, "rules": [_rule(code) for code in _REPORTED]}
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": 0 if comparison.passed else 1,
                "toolExecutionNotifications": [
                    {"level": "note", "message": {"text": note}} for note in comparison.notes
                ],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(change, finding, source)
            for change in comparison.changes
            for finding in change.findings
            if finding.code in _REPORTED
        ],
    }
    return json.dumps({"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False)


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.value,
        "shortDescription": {"text": code.meaning},
        "defaultConfiguration": {"level": _level(code)},
    }


def _result(change: Change, finding: Finding, source: Source) -> dict[str, Any]:
    # One claim may have several findings of one code, told apart by their first word: the bound's name.
    key = "\0".join([finding.code.value, change.id, finding.message.split(" ", 1)[0]])
    return {
        "ruleId": finding.code.value,
        "ruleIndex": _REPORTED.index(finding.code),
        "level": _level(finding.code),
        "message": {"text": f"{change.id} {finding.message}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(source.baseline)},
                    "region": {"startLine": source.line(change.id)},
                },
                "logicalLocations": [{"fullyQualifiedName": change.id, "kind": "member"}],
            }
        ],
        "partialFingerprints": {"certifyGate/v1": hashlib.sha256(key.encode()).hexdigest()},
    }


def _level(code: Code) -> str:
    return "error" if code.fails else "note"


def _uri(path: str) -> str:
    """A relative reference for a relative path, a file URI for an absolute one."""
    encoded = quote(os.fsencode(path.replace(os.sep, "/")))
    return f"file://{encoded}" if os.path.isabs(path) else encoded
