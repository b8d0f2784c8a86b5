"""The checker stands alone: importing it loads neither NumPy nor any module that makes what it checks."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_checker_loads_nothing_else():
    """Of this package only the checker itself and the version; of others only python-flint and the standard library."""
    code = (
        "import sys; before = set(sys.modules); import certify.checker, certify.checker.__main__;"
        "print('\\n'.join(sorted(set(sys.modules) - before)))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", _with_path(code)], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    mine = {name for name in loaded if name.split(".")[0] == "certify"}
    assert {name for name in mine if not name.startswith("certify.checker")} <= {"certify", "certify.version"}
    others = (
        {name.split(".")[0] for name in loaded} - {"certify", "flint", "cython_runtime"} - set(sys.stdlib_module_names)
    )
    assert not {name for name in others if not name.startswith("_")}, others


def _with_path(code: str) -> str:
    """Without `site`, whose .pth files import what they like, but with its search path and editable installs."""
    finders = [type(f).__module__ if not isinstance(f, type) else f.__module__ for f in sys.meta_path]
    editable = "".join(f"import {m}; {m}.install();" for m in finders if m.startswith("__editable__"))
    return f"import sys; sys.path[:] = {sys.path!r}; {editable} {code}"
