"""The case ships its data and loads fast."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files


def test_import_loads_no_heavy_library() -> None:
    """Importing the case loads neither python-flint nor SciPy: the command starts without them."""
    code = "import sys, certify.cases.polyprox; print([m for m in ('flint', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_data_come_with_their_attribution() -> None:
    """The data folder names the article, the package and the licence the files came under."""
    text = files("certify.cases.polyprox").joinpath("data/ATTRIBUTION.md").read_text(encoding="utf-8")
    assert "Science 308 (2005)" in text
    assert "`cdt` 0.6.0" in text
    assert "Permission is hereby granted" in text
