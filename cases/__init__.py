"""The certified cases. To add one, add its folder and one line here.

A case of another package is found by its entry point in the group `certify.cases`, which names its `CASE`; its checks, in
the group `certify.checkers`, as `certify.checker.cases` says.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from certify.cases.case import Case, Options, Progress

from certify.errors import InputRejected

CASES = {
    "polyprox": "certify.cases.polyprox.case",
    "ngd": "certify.cases.ngd.case",
    "star_graph": "certify.cases.star_graph.case",
    "meta_models": "certify.cases.meta_models.case",
}


def case_named(name: str) -> Case:
    """The case of that name. Raises InputRejected."""
    if name in CASES:
        return cast(Case, import_module(CASES[name]).CASE)
    from importlib import metadata

    for entry in metadata.entry_points(group="certify.cases", name=name):
        return cast(Case, entry.load())
    raise InputRejected(f"there is no case {name!r}", f"use one of {', '.join(case_names())}")


def case_names() -> list[str]:
    """The names of all cases that are installed, those of this package first."""
    from importlib import metadata

    others = sorted({entry.name for entry in metadata.entry_points(group="certify.cases")} - CASES.keys())
    return [*CASES, *others]


__all__ = ["CASES", "Case", "Options", "Progress", "case_named", "case_names"]
