"""`certify trace`: certificates for a kernel of one's own."""

from __future__ import annotations

import time

import click
from certify.cli.options import (
    ball_option,
    bound_option,
    center_option,
    confidence_option,
    libm_option,
    require_place,
    splits_option,
)
from certify.cli.streams import DASH, say, write_output


@click.command(
    epilog="""\b
Examples:
  certify trace model.py:norm inputs.npz --format bfloat16 -o report.json
  certify trace model:attend inputs.safetensors --order any-order:float32
  certify trace model:mlp inputs.npz --center x --radius 0.01 -o report.json
  certify trace model:norm inputs.npz --confidence 0.999999 -o report.json
\b
With -o the graph and the inputs are written beside the report, and
`certify check report.json` proves it again.
Exit code: 0 certified, 1 undecided, 3 not traced (the line is
named) or the inputs are not usable, 4 refuted.""",
    short_help="Certify a kernel of your own, in NumPy.",
)
@click.argument("kernel", metavar="MODULE:FUNCTION")
@click.argument("state")
@click.option("-o", "--output", metavar="FILE", default=DASH, help="Where the report goes; - is standard output.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    default=("float16", "bfloat16", "float32"),
    show_default=True,
    metavar="NAME",
    help="As for `run`. May be repeated.",
)
@click.option(
    "--order", default="serial", show_default=True, metavar="NAME", help="How sums are evaluated, as for `run`."
)
@center_option
@ball_option
@libm_option
@bound_option
@splits_option
@confidence_option
@click.option(
    "--variables", metavar="NAMES", help="The inputs that are data, with commas between; all of floating point."
)
def command(
    kernel: str,
    state: str,
    output: str,
    formats: tuple[str, ...],
    order: str,
    center: str | None,
    radius: float,
    libm: str | None,
    bound: str,
    splits: int,
    confidence: str | None,
    variables: str | None,
) -> int:
    """Certify the kernel MODULE:FUNCTION at the inputs in STATE, a .safetensors or .npz file; - is standard input.

    The function is NumPy code; its parameters are the tensors of their names. Its operations are traced, and every rounding
    is bounded: how far each output is from its exact value, and that nothing overflows.
    """
    started = time.perf_counter()
    from certify.cases.kernel import kernel_report
    from certify.cli.kernels import arguments, kernel_named, known_library
    from certify.cli.run import exit_code, formats_named, known_order, loaded, print_summary

    from certify.certificate import encode

    require_place(output, state)
    function = kernel_named(kernel)
    report = kernel_report(
        function,
        arguments(function, loaded(state).tensors, state),
        formats=formats_named(formats),
        order=known_order(order),
        center=center,
        radius=radius,
        libm=known_library(libm),
        variables=named(variables),
        bound=bound,
        splits=splits,
        confidence=confidence,
    )
    data = encode(report)
    if output == DASH:
        write_output(data)
    else:
        report.write(output)
    print_summary(report, output, f" ({len(data) / 1000:.0f} kB, in {time.perf_counter() - started:.1f} s)")
    if output == DASH:
        say("The graph and the inputs are written beside a report in a file: name one with -o to check it.")
    return exit_code(report.verdict)


def named(variables: str | None) -> list[str] | None:
    """Names with commas between them, as a list."""
    return None if variables is None else [name.strip() for name in variables.split(",")]
