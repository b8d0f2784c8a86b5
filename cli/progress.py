"""Progress on standard error, if a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

Progress = Callable[[int, int, str], None]


@contextmanager
def progress() -> Iterator[Progress]:
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
    with Progress(*columns, console=console, transient=True) as bars:
        yield Moving(bars)


class Moving:
    """Two bars: the run's, whose total comes first, and below it that of a step which counts for itself.

    A step of total 1 says only what it is: the run's bar keeps its place, and pulses while it has none.
    """

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.run = bars.add_task("", total=None)
        self.inner = bars.add_task("", visible=False)
        self.total: int | None = None
        self.counting = False
        self.what = ""

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show that `done` of `total` parts of `what` are done."""
        if self.total is None and total > 1:
            self.total = total
        if total > 1 and total != self.total:
            if not self.counting:  # its clock starts with it
                self.bars.reset(self.inner, total=total)
            self.counting = done < total
            self.bars.update(self.inner, completed=done, total=total, description=what, visible=self.counting)
            return
        self.counting = False
        self.bars.update(self.inner, visible=False)
        if total > 1:
            self.bars.update(self.run, completed=done, total=total)
        # a new step is shown at once: it may be over before the next picture
        self.bars.update(self.run, description=what, refresh=what != self.what)
        self.what = what
