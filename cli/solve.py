"""`certify solve`: the case's reference solver on a data file, capturing states to certify."""

from __future__ import annotations

import os
import shlex
import tempfile
from typing import TYPE_CHECKING

import click
from certify.cli.options import Amount, require_place
from certify.cli.streams import DASH, say, write_output

if TYPE_CHECKING:
    from certify.states import Saved


@click.command(
    epilog="""\b
Examples:
  certify solve data.csv -o states.safetensors --standardize
  certify solve data.parquet -o - --log | certify run - -o report.json

DATA has a row for each sample and a column for each variable: a csv file, with
a row of names or without; an npz file with an array X; or a parquet file (needs
the extra: pip install 'certify[parquet]').""",
    short_help="Solve for the structure behind data, saving states.",
)
@click.argument("data")
@click.option(
    "-o",
    "--output",
    metavar="STATES",
    required=True,
    help="The file for the states, .safetensors or .npz; - is standard output.",
)
@click.option(
    "--lam", type=Amount(), default=0.1, show_default=True, metavar="L", help="Weight of the Lasso: more, fewer edges."
)
@click.option(
    "--p-max", type=click.IntRange(min=1), metavar="N", help="Capacity of the block; the number of variables if absent."
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="K",
    help="Stages to capture, from the first to the last.",
)
@click.option("--log", "logarithms", is_flag=True, help="Take natural logarithms first, of positive data.")
@click.option("--standardize", is_flag=True, help="Scale each column to variance 1.")
def command(
    data: str, output: str, lam: float, p_max: int | None, count: int, logarithms: bool, standardize: bool
) -> int:
    """Solve for the structure behind DATA and save states on the way, for `certify run`; - is standard input."""
    from certify.cases import case_named
    from certify.cli.data import prepared, read_data
    from certify.cli.progress import progress

    _require_suffix(output)
    require_place(output, data)
    X, names = read_data(data)
    X = prepared(X, names, logarithms=logarithms, standardize=standardize)
    with progress() as moving:
        saved, sentence = case_named("polyprox").solve(X, names, {"lam": lam, "p_max": p_max, "count": count}, moving)
    _save(output, saved)
    say(f"{len(X)} samples of {len(names)} variables: {sentence}.")
    if output != DASH:
        say(f"States: {output}; next: certify run {shlex.quote(output)} -o report.json")
    return 0


def _require_suffix(output: str) -> None:
    if output != DASH and os.path.splitext(output)[1].lower() not in (".safetensors", ".npz"):
        raise click.BadParameter(f"{output!r} does not end in .safetensors or .npz", param_hint="--output")


def _save(output: str, saved: Saved) -> None:
    from certify.states import save

    if output != DASH:
        save(output, saved)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "states.safetensors")
        save(path, saved)
        with open(path, "rb") as stream:
            write_output(stream.read())
