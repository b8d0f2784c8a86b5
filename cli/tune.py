"""`certify tune`: the cheapest formats of a kernel's registers that still certify a tolerance."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import click
from certify.cli.options import Amount, case_option, center_option, libm_option, require_place
from certify.cli.streams import DASH, say

if TYPE_CHECKING:
    from certify.cases.kernel import TracedKernel

    from certify.rounding import Tuned

#: A table of costs is some lines.
_MOST_BYTES = 1 << 16


class Tolerances(click.ParamType):  # type: ignore[type-arg]  # as `Amount`
    """A positive number, or several as NAME=NUMBER with commas between: a dict whose key "" stands for the plain one."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        """The tolerances. Raises click.BadParameter."""
        found: dict[str, float] = {}
        for part in str(value).split(","):
            name, equals, number = part.rpartition("=")
            name = name.strip()
            if (equals and not name) or name in found or (found and not name):
                self.fail(f"{value!r} is neither a number nor NAME=NUMBER,...", param, ctx)
            found[name] = Amount(positive=True).convert(number.strip(), param, ctx)
        return found


@click.command(
    epilog="""\b
Examples:
  certify tune state.safetensors --tol 1e-3 -o tuned.json
  certify tune states.npz --state 1 --tol 1e-4 --radius 0.01
  certify tune inputs.npz --kernel model.py:mlp --tol y=0.01 --cost cost.json
\b
The report is one on a kernel: its graph file carries the format of every
operation, and `certify check` proves it again.
Exit code: 0 found, 1 no format certifies the tolerance, 3 rejected.""",
    short_help="Find the cheapest formats that keep a tolerance.",
)
@click.argument("state_file", metavar="STATE")
@click.option(
    "--tol",
    type=Tolerances(),
    required=True,
    metavar="T",
    help="The error to certify, Frobenius: of W for a state, of every output of a kernel; or NAME=T,... for some.",
)
@click.option("--kernel", metavar="MODULE:FUNCTION", help="A kernel of your own, with its inputs in STATE.")
@click.option("--state", type=click.IntRange(min=0), default=0, show_default=True, metavar="K", help="Which state.")
@click.option(
    "--radius",
    type=Amount(),
    default=0.0,
    show_default=True,
    metavar="R",
    help="Certify it for every W, or value of --center, within this Frobenius distance.",
)
@center_option
@click.option(
    "--formats",
    metavar="NAMES",
    help="The candidates, with semicolons or commas between; float16,bfloat16,float32 and, if it takes that, float64.",
)
@click.option(
    "--cost", metavar="FILE", help="What a stored number costs, JSON: an object from formats to numbers; else its bits."
)
@click.option("--across-layers", is_flag=True, help="One format for a register in all layers.")
@click.option("--order", default="serial", show_default=True, metavar="NAME", help="As for `run`.")
@libm_option
@click.option("-o", "--output", metavar="FILE", help="Write a report of the program found, its graph and its inputs.")
@case_option
def command(
    state_file: str,
    tol: dict[str, float],
    kernel: str | None,
    state: int,
    radius: float,
    center: str | None,
    formats: str | None,
    cost: str | None,
    across_layers: bool,
    order: str,
    libm: str | None,
    output: str | None,
    case_name: str,
) -> int:
    """Find a format for each register of the kernel at a saved STATE, so that storing its numbers costs least.

    The program found is certified: its error is proved to be within the tolerance, and nothing overflows. Beside what it costs
    stand lower bounds of what any certified program costs.
    """
    from certify.cases.kernel import tuned
    from certify.cli.console import console_for
    from certify.cli.kernels import known_library
    from certify.cli.progress import progress
    from certify.cli.run import exit_code, formats_named, known_order

    if output is not None:
        if output == DASH:
            raise click.BadParameter("files go beside the report: name a file", param_hint="--output")
        require_place(output, state_file)
    named = None if formats is None else formats_named(_listed(formats), "--formats")
    table = None if cost is None else _costs(cost)
    library = known_library(libm)
    traced, moving, plain = _kernel(state_file, kernel, state, known_order(order), case_name)
    tolerances: Any = {plain if not name and plain else name: value for name, value in tol.items()}
    with progress() as shown:
        made = tuned(
            traced,
            tolerances.get("", tolerances),
            formats=named,
            cost=table,
            center=center or (moving if radius else None),
            radius=radius,
            by_layer=not across_layers,
            libm=library,
            progress=shown,
        )
    if sys.stdout is not None:
        _print(console_for(sys.stdout), made.found, cost is None)
    if output is not None:
        made.report.write(output)
        say(f"Report: {output}")
        say(f"  certify check {output}")
    return exit_code(made.report.verdict)


def _kernel(
    file: str, kernel: str | None, state: int, order: str, case_name: str
) -> tuple[TracedKernel, str | None, str]:
    """The kernel, the input that moves if none is named, and the output of a plain tolerance; "" for all."""
    from certify.cases.kernel import trace_kernel
    from certify.cli.kernels import arguments, kernel_named
    from certify.cli.run import chosen_case, loaded

    if kernel is not None:
        function = kernel_named(kernel)
        return trace_kernel(function, arguments(function, loaded(file).tensors, file), order=order), None, ""
    case, saved = chosen_case(case_name), loaded(file)
    count = case.states(saved)
    if state >= count:
        has = f"states 0 to {count - 1}" if count > 1 else "one state, number 0"
        raise click.BadParameter(f"the file has {has}", param_hint="--state")
    return case.kernel(saved, state, order)


def _listed(formats: str) -> list[str]:
    # a format such as p=11,emin=-14,emax=15 has commas of its own
    return [name.strip() for name in formats.split(";" if ";" in formats or "=" in formats else ",")]


def _costs(file: str) -> dict[str, float]:
    """The table of a file. Raises InputRejected."""
    from certify.errors import InputRejected
    from certify.states import parse_json, quoted

    remedy = 'write an object such as {"float16": 16, "float32": 32}'
    try:
        with open(file, "rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputRejected(f"cannot read {quoted(file)}", "name a readable file") from error
    if len(data) > _MOST_BYTES:
        raise InputRejected(f"{quoted(file)} is too long for a table of costs", remedy)
    table = parse_json(data, file, what="table of costs", remedy=remedy)
    if not isinstance(table, dict):
        raise InputRejected(f"{quoted(file)} holds no object", remedy)
    return table


def _print(console: Any, found: Tuned, in_bits: bool) -> None:
    """The registers in the order in which they run, what the program costs, and what is saved."""
    from certify.cli.streams import one_line
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from certify.arithmetic import format_named
    from certify.certificate import decimal_up

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("register", "format", "numbers", "bits", "share of tol"):
        table.add_column(heading, justify="left" if heading in ("register", "format") else "right")
    for name, format in found.formats.items():
        lanes, share = found.lanes[name], found.shares[name]
        bits = str(lanes * format_named(format).bits)
        shown = "-" if format == found.finest else f"{max(share, 0.0):.1%}"
        table.add_row(Text(one_line(name)), format, str(lanes), bits, shown)
    console.print(table)
    console.print(
        Text("share of tol: what the register takes of it, about, in this format and all others in " + found.finest)
    )
    least = math.ceil(found.least) if in_bits else float(found.least)
    most = math.ceil(1000 * (1 - found.least / found.uniform)) / 10 if found.uniform else 0.0
    for name, eps in found.eps.items():
        console.print(Text(f"certified: {name} within {decimal_up(eps)} (Frobenius), and no operation overflows"))
    unit = " bits" if in_bits else ""
    console.print(
        Text(
            f"stored: {float(found.cost):.9g}{unit}; uniform {found.finest}: {float(found.uniform):.9g}; "
            f"{found.tried} programs bounded"
        )
    )
    limit = (
        f"no program that running bounds certify costs less than {least:.9g}, or saves more than {most:.1f} % (proved)"
    )
    if found.alone > found.least:
        limit += f"; or costs less than {float(found.alone):.9g} if refining a register never loosens the bounds (not proved)"
    console.print(Text(limit))
    what = "bits" if in_bits else "cost"
    console.print(
        Text(f"saves {100 * found.saved:.0f} % of the {what} of uniform {found.finest} at the same certified tolerance")
    )
