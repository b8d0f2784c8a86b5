"""The pages about kernels and tolerances: every block runs, and prints what stands under it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pages import outputs

#: The modules that pages write and import.
WRITTEN = ("kernels", "real")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["your-kernel.md", "tolerances.md", "tuning.md"])
def test_blocks_print_what_the_page_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty directory, in order."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in WRITTEN:  # another module of that name would be imported instead
        assert name not in sys.modules
    try:
        for wanted, printed in outputs(DOCS / page):
            assert printed == wanted
    finally:
        for name in WRITTEN:
            sys.modules.pop(name, None)
