"""Which folder becomes which package; all else is in pyproject.toml.

certify/ stays as it is, cli/ and cases/ become certify.cli and certify.cases, docs/theory becomes certify.theory. A case brings
its own part of the independent checker: its folder checker/ becomes certify.checker.cases.NAME.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def packages() -> dict[str, str]:
    """The folders that are packages, by the name of the package."""
    found = {"certify.theory": "docs/theory"}
    for top in ("certify", "cli", "cases"):
        for module in sorted((ROOT / top).rglob("__init__.py")):
            folder = module.parent.relative_to(ROOT)
            parts = folder.parts if top == "certify" else ("certify", *folder.parts)
            if top == "cases" and folder.parts[2:3] == ("checker",):
                parts = ("certify", "checker", "cases", folder.parts[1], *folder.parts[3:])
            found[".".join(parts)] = folder.as_posix()
    return found


FOLDERS = packages()
setup(packages=list(FOLDERS), package_dir=FOLDERS)
