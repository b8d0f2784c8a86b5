"""Progress on standard error, if a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress() -> Iterator[Callable[[int, int, str], None]]:
    """Give a function of (done, total, what): it moves a bar on a terminal, and does nothing elsewhere.

    The bar disappears at the end, so that what stays on the screen is the same as in a log.
    """
    from certify.cli.console import console_for

    console = None if sys.stderr is None else console_for(sys.stderr)
    if console is None or not console.is_terminal or console.is_dumb_terminal:
        yield lambda done, total, what: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn("line"),
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def move(done: int, total: int, what: str) -> None:
            # A single step says nothing about how far it is: the bar then pulses.
            bar.update(task, completed=done, total=total if total > 1 else None, description=what)

        yield move
