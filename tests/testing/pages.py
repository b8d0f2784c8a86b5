"""Pages whose blocks are run: Python as one program, commands after `$`, and under each what it prints."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from certify.cli.main import main
from click.testing import CliRunner

_BLOCK = re.compile(r"^```(python|text|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def outputs(page: Path) -> list[tuple[str, str]]:
    """Of every block with a text under it: that text, and what the block printed in the current directory.

    A Python block that begins with `# NAME.py` is written to that file and not run.
    """
    found: list[tuple[str, str]] = []
    names: dict[str, object] = {}
    printed = ""
    for number, (kind, text) in enumerate(_BLOCK.findall(page.read_text("utf-8"))):
        if kind == "text":
            found.append((text, printed))
            continue
        if kind == "console":
            printed = _run(text)
            continue
        file = re.match(r"# (\w+\.py)\n", text)
        if file:
            Path(file[1]).write_text(text, "utf-8")
            continue
        source = Path(f"{page.stem}_{number}.py")
        source.write_text(text, "utf-8")
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            exec(compile(text, str(source), "exec"), names)
        printed = stream.getvalue()
    return found


def _run(text: str) -> str:
    result = ""
    for line in text.splitlines():
        assert line.startswith("$ certify "), line
        done = CliRunner().invoke(main, shlex.split(line)[2:])
        assert done.exit_code == 0, done.stderr
        result += done.stdout
    return result
