"""Re-proves every claim of a report from the state file alone: standard library and python-flint, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from certify.checker.context import Context
from certify.checker.document import Beyond, Rejected, claims_of, parse_json
from certify.checker.finding import Finding
from certify.checker.saved import read

__all__ = ["Beyond", "Finding", "Rejected", "check", "claims_of", "matches", "parse_json"]


def check(
    report: bytes,
    state: bytes,
    files: Callable[[str], bytes],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Finding]:
    """What becomes of each claim of a report when it is proved again.

    Parameters
    ----------
    report, state : contents of the report and of the file of states or inputs.
    files : the contents of a file beside the report, by its plain name; may raise Rejected.
    progress : called with the number of claims done, and of all.

    Raises
    ------
    Rejected : the report or a file is not valid, or they do not belong together.
    Beyond : they are larger than a checker reads, or about a case it does not know.
    """
    document = parse_json(report, "the report")
    claims = claims_of(document)
    context = Context(document["subject"], claims, read(state, "the state file"), files)
    findings: list[Finding] = []
    for claim in claims.values():
        progress(len(findings), len(claims))
        findings.append(context.examine(claim))
    return findings


def matches(subject: Any, state: bytes) -> bool:
    """Whether a file holds the tensors that a report is about; their digests decide."""
    try:
        tensors = read(state, "the file").tensors
    except (Rejected, Beyond):
        return False
    return isinstance(subject.get("tensors"), dict) and all(
        name in tensors and tensors[name].digest() == digest for name, digest in subject["tensors"].items()
    )
