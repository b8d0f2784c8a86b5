"""How a refusal quotes a name taken from a file: on one line, short, and harmless on a terminal."""

from __future__ import annotations

_LONGEST = 120


def quoted(name: str) -> str:
    """Return `name` in single quotes, with unprintable characters escaped and the middle cut if it is long."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name[:4096])
    if len(shown) > _LONGEST:
        half = _LONGEST // 2
        shown = f"{shown[:half]}...{shown[-half:]}"
    return f"'{shown}'"
