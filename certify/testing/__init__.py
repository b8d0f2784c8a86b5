"""Proved bounds in other people's test suites: `assert_certified`, `assert_within`, and the pytest plugin with its fixtures.

The plugin is loaded by every pytest run of an environment that has certify installed, so nothing here imports NumPy
before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certify.testing.certified import Certified, assert_certified
    from certify.testing.within import Within, assert_within, compare_within

_MODULES = {
    "Certified": "certified",
    "Within": "within",
    "assert_certified": "certified",
    "assert_within": "within",
    "compare_within": "within",
}
__all__ = ["Certified", "Within", "assert_certified", "assert_within", "compare_within"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"certify.testing.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'certify.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
