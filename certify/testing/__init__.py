"""Certified bounds in other people's test suites: `assert_certified`, and the pytest plugin with its fixtures.

The plugin is loaded by every pytest run of an environment that has certify installed, so nothing here imports NumPy
before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certify.testing.certified import Certified, assert_certified

__all__ = ["Certified", "assert_certified"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from certify.testing import certified

        return getattr(certified, name)
    raise AttributeError(f"module 'certify.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
