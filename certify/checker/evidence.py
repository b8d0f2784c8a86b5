"""Witnesses whose use is noted: a claim carries none that its proof does not look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from certify.checker.document import SIDE_FILE, Claim, Rejected, shown


class Evidence(dict[str, Any]):
    """The entries of a witness; `used` are the keys that were looked at, `beside` the same with the arrays of its file."""

    def __init__(self, entries: dict[str, Any], used: set[str] | None = None) -> None:
        super().__init__(entries)
        self.used: set[str] = set() if used is None else used
        self.beside: Evidence | None = None

    def __getitem__(self, key: str) -> Any:
        self.used.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dict."""
        self.used.add(key)
        return super().get(key, default)

    def unused(self) -> Iterator[str]:
        """The entries that nobody looked at."""
        return (key for key in self if key not in self.used)

    def joined(self, rows: dict[str, Any]) -> Evidence:
        """With the arrays of its file in the place of the file's name; what is looked at there counts here."""
        self.used.update(SIDE_FILE)
        found = Evidence({key: x for key, x in self.items() if key not in SIDE_FILE} | rows, self.used)
        self.beside = found
        return found


def evidence(claim: Claim) -> Evidence:
    """The witness of a claim; one without entries, if it has none."""
    given = claim["witness"]
    return given if isinstance(given, Evidence) else Evidence(given or {})


def require_used(claim: Claim) -> None:
    """Refuse a witness, or an entry of one, that the proof of its claim did not look at."""
    witness = evidence(claim)
    idle = next((witness.beside or witness).unused(), None) or next(witness.unused(), None)
    if idle is not None:
        raise Rejected(f"its witness holds {shown(idle)}, on which nothing of it rests")
