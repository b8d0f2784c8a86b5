"""Re-proves every claim of a report from the state file alone: standard library and python-flint, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from certify.checker.context import Context
from certify.checker.document import Beyond, Finding, Rejected, claims_of, number, parse_json
from certify.checker.saved import States, read

__all__ = ["Beyond", "Finding", "Rejected", "check", "claims_of", "likeness", "parse_json"]


def check(
    report: bytes, state: bytes, files: Callable[[str], bytes], progress: Any = lambda k, n: None
) -> list[Finding]:
    """What becomes of each claim of a report when it is proved again; Rejected or Beyond if it cannot be read.

    `report` and `state` are the contents of the report and of the file of states or inputs, `files` gives those of a file
    beside the report by its plain name, and `progress` is called with the number of claims done, and of all.
    """
    document = parse_json(report, "the report")
    claims = claims_of(document)
    context = Context(document["subject"], claims, read(state, "the state file"), files)
    findings: list[Finding] = []
    for claim in claims.values():
        progress(len(findings), len(claims))
        findings.append(context.examine(claim))
    return findings


def likeness(subject: Any, state: bytes) -> int:
    """How well a file fits a report: 0 if tensors differ; more if its controls agree, too, and it holds nothing else."""
    try:
        saved = read(state, "the file")
        found = saved.of(subject)
        if any(found.tensors[name].digest() != digest for name, digest in subject["tensors"].items()):
            return 0
    except (Rejected, Beyond, LookupError, AttributeError):
        return 0
    try:
        if subject["case"] == "polyprox":
            States(found).require_subject(subject)
        elif any(number(found.metadata.get(name)) != number(x) for name, x in subject.get("controls", {}).items()):
            return 1
    except (Rejected, Beyond, AttributeError):
        return 1
    return 2 + (len(found.tensors) == len(saved.tensors))
