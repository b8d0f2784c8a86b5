"""Who made a report."""

from __future__ import annotations

from typing import Any

from certify.arithmetic.selftest import selftest
from certify.version import __version__


def producer() -> dict[str, Any]:
    """Name, version, and the self-test of the arithmetic of the machine that made the report."""
    return {"name": "certify", "version": __version__, "arithmetic": selftest()}
