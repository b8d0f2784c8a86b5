"""Consoles: how wide, and whether colours are welcome."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 80
"""Columns where nobody says: a file, a pipe, a log."""
NARROWEST = 20


def console_for(stream: TextIO) -> Console:
    """A console that writes to `stream`: colours on a terminal only, and none if NO_COLOR is set and not empty.

    What goes to a file does not depend on the terminal it was started from: only COLUMNS changes its width.
    """
    from rich.console import Console

    terminal = stream.isatty()
    colours = terminal and not os.environ.get("NO_COLOR")
    return Console(
        file=stream,
        force_terminal=terminal,
        # None also drops bold and dim: without colours, a log is plain text
        color_system="auto" if colours else None,
        width=max(_width(stream, terminal), NARROWEST),
        highlight=False,
        markup=False,
        emoji=False,
    )


def _width(stream: TextIO, terminal: bool) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and len(columns) <= 4 and int(columns) > 0:
        return int(columns)
    if terminal:
        try:
            return os.get_terminal_size(stream.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH
    return WIDTH
