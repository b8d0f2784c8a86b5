"""How the answer of `certify updates` looks: one sentence, a few numbers, and the bound by update."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from certify.cli.contraction import contraction_factor, shorter, updates_text
from certify.cli.measured import UNKNOWN, number, number_down
from certify.cli.rendering import COLOURS
from certify.cli.summary import decimal
from numpy.typing import NDArray

from certify.certificate import Verdict, decimal_up

if TYPE_CHECKING:
    from certify.cases import Options
    from certify.cases.convergence import Convergence
    from rich.console import Console

    from certify.contraction.modal import Prediction

ROWS = 12
NARROW = 60
"""Columns below which the table leaves out the norm bound."""
DIGITS = 4
"""Of the radius and of the distance to the centre, which is often just below it."""


def show(console: Console, found: Convergence, title: str, format: str, options: Options) -> None:
    """Print the verdict, the counts and the bounds of one state."""
    from rich.text import Text

    verdict = Text(found.verdict.value, style=COLOURS[found.verdict])
    console.print(Text.assemble((title, "bold"), f", {options.step} step, {format}: ", verdict))
    console.print(_sentence(found, options.tol))
    console.print()
    _print_numbers(console, found, format)
    if found.prediction is not None and found.prediction.updates[-1] > 0:
        console.print()
        _print_bounds(console, found, found.prediction, options.tol)


def rows(prediction: Prediction) -> NDArray[np.intp]:
    """Indices of about ROWS points of a prediction, their updates spread evenly in the logarithm; first and last too."""
    updates = prediction.updates
    last = int(updates[-1])
    if last == 0:
        return np.array([0])
    chosen = np.array([0])
    # where points are fewer than targets, several targets share one
    for targets in range(ROWS, 5 * ROWS):
        wanted = np.concatenate([[0.0], np.geomspace(1, last, targets - 1)])
        chosen = np.unique(np.abs(updates[None, :] - wanted[:, None]).argmin(axis=1))
        if len(chosen) >= min(ROWS, len(updates)):
            break
    return chosen


def _sentence(found: Convergence, tol: float) -> str:
    prediction = found.prediction
    if found.verdict is Verdict.CERTIFIED and prediction is not None and prediction.modal is not None:
        if prediction.modal == found.entered == 0:
            return f"W is within {decimal(Fraction(tol))} of the fixed point of the stage already, and stays so."
        after = updates_text(Fraction(prediction.modal), found.entered)
        if found.entered:
            after += " updates"
        return f"W is within {decimal(Fraction(tol))} of the fixed point of the stage after {after}, and stays so."
    reason = shorter(found.reason)
    return f"{reason[:1].upper()}{reason[1:]}."


def _print_numbers(console: Console, found: Convergence, format: str) -> None:
    from rich.table import Table

    pairs = [("distance to the centre", decimal_up(Fraction(found.away), DIGITS))]
    if found.posterior is not None:
        when = f" after {found.entered:,} updates" if found.entered else ""
        pairs.append(
            (
                "distance to the fixed point",
                f"{decimal_up(Fraction(found.posterior), DIGITS)}{when}, from one more update",
            )
        )
    if found.radius is not None and found.q is not None:
        ball = f"radius {number_down(Fraction(found.radius), DIGITS)}, q {contraction_factor(Fraction(found.q))}"
        pairs.append(("certified ball", ball))
    if found.prediction is not None:
        pairs += [
            ("modal bound", _count(found.prediction.modal)),
            ("norm bound", _count(found.prediction.norm)),
            ("floor of rounding", f"{number(Fraction(found.prediction.floor))} in {format}"),
        ]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False, collapse_padding=True)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, text in pairs:
        table.add_row(name, text)
    console.print(table)


def _print_bounds(console: Console, found: Convergence, prediction: Prediction, tol: float) -> None:
    from rich.table import Table

    replayed = len(found.distances) > found.entered
    both = console.width >= NARROW
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", collapse_padding=True)
    table.add_column("updates\nafter entry" if found.entered else "\nupdates", justify="right")
    table.add_column("distance\nmodal bound" if both else "distance\nat most", justify="right")
    if both:
        table.add_column("distance\nnorm bound", justify="right")
    if replayed:
        table.add_column("to centre\nreplayed", justify="right")
    if both:
        table.add_column("")
    for i in rows(prediction).tolist():
        k = int(prediction.updates[i])
        norm, modal = float(prediction.norm_bounds[i]), float(prediction.modal_bounds[i])
        cells = [f"{k:,}", number(Fraction(modal))] + [number(Fraction(norm))] * both
        if replayed:
            at = found.entered + k
            cells.append(number(Fraction(float(found.distances[at]))) if at < len(found.distances) else UNKNOWN)
        table.add_row(*cells, *["reached" if Fraction(modal) <= Fraction(tol) else ""] * both)
    console.print(table)


def _count(count: int | None) -> str:
    return "no count" if count is None else updates_text(Fraction(count), 0)
