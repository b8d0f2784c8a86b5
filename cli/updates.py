"""`certify updates`: how many updates reach a tolerance, and the bound of the distance by update."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
from certify.cli.options import case_option, replay_option, require_place, step_option, tol_option
from certify.cli.streams import DASH, say

if TYPE_CHECKING:
    from certify.cases.convergence import Convergence

    from certify.certificate import Verdict

SUFFIXES = (".svg", ".png", ".pdf")
#: Updates replayed for a plot, besides those of --replay: some seconds, and more points than a figure shows.
REPLAYED = 2000


@click.command(
    epilog="""\b
Examples:
  certify updates state.safetensors
  certify updates states.npz --state 2 --step new --plot updates.svg
  certify updates state.npz --format float32 --tol 1e-4 --replay 5000
\b
Exit code: 0 if a count is proved, 1 if not, 4 if the fixed point is proved to
repel; of several states, the worst. --plot needs an extra:
pip install 'certify[plots]'.""",
    short_help="Count the updates until a state has converged.",
)
@click.argument("state_file", metavar="STATE")
@tol_option
@click.option("--format", "format_name", default="float64", show_default=True, metavar="NAME", help="As for `run`.")
@step_option
@replay_option
@click.option("--state", type=click.IntRange(min=0), metavar="K", help="One state of a trajectory; all, if absent.")
@click.option("--plot", metavar="FILE", help="Draw the bounds, a replay and the spectrum: .svg, .png or .pdf.")
@case_option
def command(
    state_file: str,
    tol: float,
    format_name: str,
    step: str,
    replay: int,
    state: int | None,
    plot: str | None,
    case_name: str,
) -> int:
    """Predict how many updates bring a saved STATE to the fixed point of its stage; - is standard input.

    Prints the count, and a bound of the distance by update: from the contraction factor alone (norm), and from the
    decay of each eigenvector (modal).
    """
    from certify.cases import Options
    from certify.cli.console import console_for
    from certify.cli.progress import progress
    from certify.cli.run import chosen_case, exit_code, formats_named, loaded
    from certify.cli.updates_table import show

    from certify.arithmetic import format_named

    case = chosen_case(case_name)
    (name,) = formats_named([format_name])
    if plot is not None:
        _require_plot(plot, state_file)
    saved = loaded(state_file)
    count = case.states(saved)
    chosen = _chosen(state, count, plot)
    options = Options(methods=("face",), tol=tol, step=step, replay=replay)
    verdicts = []
    for k in chosen:
        with progress() as moving:
            further = 0 if plot is None else REPLAYED + replay
            found = case.convergence(saved, k, format_named(name), options, further, moving)
        verdicts.append(found.verdict)
        title = f"State {k}" if count > 1 else "The state"
        if sys.stdout is not None:
            if len(verdicts) > 1:
                print()
            show(console_for(sys.stdout), found, title, name, options)
        if plot is not None:
            _draw(plot, found, f"{title}, {step} step, {name}", tol)
    return exit_code(_worst(verdicts))


def _chosen(state: int | None, count: int, plot: str | None) -> list[int]:
    if state is not None and state >= count:
        has = f"states 0 to {count - 1}" if count > 1 else "one state, number 0"
        raise click.BadParameter(f"the file has {has}", param_hint="--state")
    if state is None and count > 1 and plot is not None:
        raise click.BadParameter(f"the file has {count} states, say which with --state", param_hint="--plot")
    return list(range(count)) if state is None else [state]


def _require_plot(plot: str, state_file: str) -> None:
    """Refuse before the work what could not be drawn after it."""
    from certify.cli.plots import require_matplotlib

    if plot == DASH or os.path.splitext(plot)[1].lower() not in SUFFIXES:
        raise click.BadParameter(f"{plot!r} does not end in {', '.join(SUFFIXES)}", param_hint="--plot")
    require_place(plot, state_file)
    require_matplotlib()


def _draw(plot: str, found: Convergence, title: str, tol: float) -> None:
    from certify.cli.plots import draw

    from certify.states import write_atomically

    write_atomically(plot, draw(found, title, tol, os.path.splitext(plot)[1].lower().removeprefix(".")))
    say(f"Plot: {plot}")


def _worst(verdicts: list[Verdict]) -> Verdict:
    from certify.certificate import Verdict

    return next((v for v in (Verdict.REFUTED, Verdict.UNDECIDED) if v in verdicts), Verdict.CERTIFIED)
