"""`certify run`: certificates for a saved state."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from certify.cli.options import (
    METHODS,
    Amount,
    Methods,
    bound_option,
    case_option,
    confidence_option,
    replay_option,
    require_place,
    splits_option,
    step_option,
    tol_option,
)
from certify.cli.streams import DASH, read_input, write_output

if TYPE_CHECKING:
    from certify.cases import Case, Options

    from certify.certificate import Report, Verdict
    from certify.states import Saved


@click.command(
    epilog="""\b
Examples:
  certify run state.safetensors -o report.json
  certify run state.npz --format float32 --radius 0.001 | jq .verdict
  certify run state.npz --methods face --step new --replay 5000 -o report.json
\b
Exit code: 0 certified, 1 undecided, 4 refuted. Without --format the verdict
rests on the coarsest of float16, float32 and float64 that is certified, and
within --update-tol if given; with it, every format named must be certified.
With --methods it also rests on the claims about the fixed stage, which are
made anyway for states that take seconds.""",
    short_help="Certify a saved state or trajectory.",
)
@click.argument("state")
@click.option("-o", "--output", metavar="FILE", default=DASH, help="Where the report goes; - is standard output.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    metavar="NAME",
    help="e5m2, e4m3, float16, bfloat16, tf32, float32, float64, or p=11,emin=-14,emax=15; add ,ftz or ,saturate. May be "
    "repeated.",
)
@click.option(
    "--order",
    default="serial",
    show_default=True,
    metavar="NAME",
    help="How sums are evaluated: serial, pairwise, blocked(K), fma or any-order; add :float32 to accumulate in a wider "
    "format.",
)
@click.option(
    "--radius",
    type=Amount(),
    default=0.01,
    show_default=True,
    metavar="R",
    help="Also certify every W within this Frobenius distance; 0 leaves the ball out.",
)
@click.option(
    "--update-tol",
    type=Amount(positive=True),
    metavar="T",
    help="The error of W in one update, Frobenius, that is small enough; any, if absent.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=4,
    show_default=True,
    metavar="N",
    help="States of the ball to replay, beside the proof.",
)
@click.option(
    "--methods",
    type=Methods(),
    metavar="NAMES",
    help=f"How to certify convergence in the fixed stage: some of {','.join(METHODS)}, or none. Without it face, for "
    "states of at most 20 variables, and the verdict does not rest on it.",
)
@bound_option
@splits_option
@confidence_option
@tol_option
@step_option
@replay_option
@click.option(
    "--further",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Updates to replay beside a proved count, to be drawn on the page; a measurement.",
)
@click.option("--html", metavar="FILE", help="Also make a page of the report; needs the extra html.")
@case_option
def command(
    state: str,
    output: str,
    formats: tuple[str, ...],
    order: str,
    radius: float,
    update_tol: float | None,
    samples: int,
    methods: tuple[str, ...] | None,
    bound: str,
    splits: int,
    confidence: str | None,
    tol: float,
    step: str,
    replay: int,
    further: int,
    html: str | None,
    case_name: str,
) -> int:
    """Certify a saved STATE: a .safetensors or .npz file, one state or a trajectory; - is standard input.

    Bounds the rounding error of one update at the state and on a ball around it, and proves that nothing overflows.
    It also decides whether repeated updates with alpha, rho and gamma fixed must converge.
    The report goes to --output, a summary to standard error.
    """
    started = time.perf_counter()
    from certify.cases import Options

    case = chosen_case(case_name)
    options = Options(
        formats=formats_named(formats),
        order=known_order(order),
        radius=radius,
        update_tol=update_tol,
        samples=samples,
        bound=bound,
        splits=splits,
        confidence=confidence,
        methods=("face",) if methods is None else methods,
        methods_required=bool(methods),
        tol=tol,
        step=step,
        replay=replay,
        further=further,
    )
    require_place(output, state)
    if html is not None:
        from certify.page import require_html

        require_html()
        require_place(html, state, output)
    return certify_and_report(case, loaded(state), options, output, started, html)


def certify_and_report(
    case: Case, saved: Saved, options: Options, output: str, started: float, html: str | None = None
) -> int:
    """Certify, write the report and its page, print the summary; the exit code of the verdict. Raises InputRejected."""
    from certify.cli.progress import progress

    from certify.certificate import encode, write

    with progress() as moving:
        report = case.certify(saved, options, moving)
    if output != DASH:
        report = write(report, output)
    data = encode(report)
    if output == DASH:
        write_output(data)
    size, seconds = len(data) / 1000, time.perf_counter() - started
    print_summary(report, output, f" ({size:.0f} kB, in {seconds:.1f} s)")
    if html is not None:
        from certify.cli.html import write_page

        write_page(report, output, html)
    return exit_code(report.verdict)


def exit_code(verdict: Verdict) -> int:
    """0 certified, 1 undecided, 4 refuted."""
    from certify.certificate import Verdict

    return {Verdict.CERTIFIED: 0, Verdict.UNDECIDED: 1, Verdict.REFUTED: 4}[verdict]


def print_summary(report: Report, output: str, note: str) -> None:
    """The tables of a report, on standard error."""
    from certify.cli.console import console_for
    from certify.cli.rendering import show_summary

    if sys.stderr is not None:
        show_summary(console_for(sys.stderr), report, output, note=note)


def chosen_case(name: str, where: str = "--case") -> Case:
    """The case of that name, which stands at `where` in the command. Raises click.BadParameter."""
    from certify.cases import case_named

    from certify.errors import InputRejected

    try:
        return case_named(name)
    except InputRejected as error:
        raise click.BadParameter(str(error), param_hint=where) from error


def formats_named(names: Iterable[str], option: str = "--format") -> tuple[str, ...]:
    """The formats once each, under their own names and from coarse to fine. Raises click.BadParameter."""
    from certify.arithmetic import format_named
    from certify.errors import InputRejected

    try:
        named = {format_named(name) for name in names}
    except InputRejected as error:
        raise click.BadParameter(str(error), param_hint=option) from error
    return tuple(format.name for format in sorted(named, key=lambda f: (f.precision, f.emax, f.name)))


def known_order(order: str) -> str:
    """The order under its own name. Raises click.BadParameter if there is none."""
    from certify.errors import InputRejected
    from certify.graph import order_named

    try:
        return order_named(order).name
    except InputRejected as error:
        raise click.BadParameter(str(error), param_hint="--order") from error


def loaded(state: str) -> Saved:
    """The tensors of a file; - is standard input. Raises InputRejected."""
    from certify.states import load, load_stream
    from certify.states.tensors import MAX_BYTES

    if state != DASH:
        return load(state)
    return load_stream(io.BytesIO(read_input(MAX_BYTES)), "standard input")
