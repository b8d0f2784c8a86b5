"""The certified cases. To add one, add its folder and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from certify.cases.case import Case, Options, Progress

from certify.errors import InputRejected

CASES = {
    "polyprox": "certify.cases.polyprox.case",
}


def case_named(name: str) -> Case:
    """The case of that name. Raises InputRejected."""
    if name not in CASES:
        raise InputRejected(f"there is no case {name!r}", f"use one of {', '.join(CASES)}")
    return cast(Case, import_module(CASES[name]).CASE)


__all__ = ["CASES", "Case", "Options", "Progress", "case_named"]
