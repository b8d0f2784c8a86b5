"""`certify tolerance`: the tolerance to write into a test, proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from certify.cli.options import Amount, ball_option, center_option, libm_option

if TYPE_CHECKING:
    from certify.cases.kernel import Pair, Tolerance

STYLES = ("numpy", "torch")
EXACT = "exact"


@click.command(
    epilog="""\b
Examples:
  certify tolerance model.py:matmul inputs.npz --format float32
  certify tolerance model:attend inputs.npz --format float16 \\
      --order any-order:float32 --against float32 --style torch
  certify tolerance m.py:mlp in.npz --format float16 --center x --radius 1
\b
Exit code: 0 if there is a tolerance, 3 if the kernel cannot be traced or may
overflow (the line is named).""",
    short_help="Print the smallest proved tolerance for a test.",
)
@click.argument("kernel", metavar="MODULE:FUNCTION")
@click.argument("state")
@click.option(
    "--format", "format_name", required=True, metavar="NAME", help="What the kernel computes in, as for `run`."
)
@click.option(
    "--order",
    default="any-order",
    show_default=True,
    metavar="NAME",
    help="How sums are evaluated, as for `run`; any-order:float32 is any order, added in float32.",
)
@click.option(
    "--against",
    default="float64",
    show_default=True,
    metavar="NAME",
    help="What the test compares with: the kernel in this format, in any order, or its exact result (exact).",
)
@center_option
@ball_option
@libm_option
@click.option(
    "--rtol", type=Amount(), metavar="R", help="The relative tolerance; without it, the best pair on average."
)
@click.option("--style", type=click.Choice(STYLES), help="Whose line; torch for bfloat16, else numpy.")
@click.option(
    "--variables", metavar="NAMES", help="The inputs that are data, with commas between; all of floating point."
)
def command(
    kernel: str,
    state: str,
    format_name: str,
    order: str,
    against: str,
    center: str | None,
    radius: float,
    libm: str | None,
    rtol: float | None,
    style: str | None,
    variables: str | None,
) -> int:
    """Print a line for a test of MODULE:FUNCTION, with the smallest tolerance proved at the inputs in STATE.

    Whatever the order of the sums in the real kernel, its results are within that tolerance. One line an output; both sides
    are compared in float64, so that the comparison itself does not round.
    """
    from certify.cases.kernel import tolerance
    from certify.cli.kernels import arguments, kernel_named, known_library
    from certify.cli.run import formats_named, known_order, loaded
    from certify.cli.trace import named

    (format,) = formats_named([format_name])
    golden = None if against == EXACT else formats_named([against], "--against")[0]
    function = kernel_named(kernel)
    found = tolerance(
        function,
        arguments(function, loaded(state).tensors, state),
        format=format,
        order=known_order(order),
        golden=golden,
        center=center,
        radius=radius,
        libm=known_library(libm),
        variables=named(variables),
    )
    chosen = style or ("torch" if format.startswith("bfloat16") else "numpy")
    click.echo(f"# proved: {found.subject}{_where(center, radius)}")
    for output in found.error:
        pair = found.atol_rtol(rtol=rtol, output=output)
        click.echo(_line(found, output, _rounded(found, output, pair, rtol), chosen))
    return 0


def _where(center: str | None, radius: float) -> str:
    return f", for every {center or 'input'} within {radius!r} of the inputs" if radius else ""


def _rounded(found: Tolerance, output: str, pair: Pair, asked: float | None) -> tuple[str, str]:
    """The pair in three decimal digits, rounded up: first rtol, unless it was asked for, then the atol that it needs."""
    from certify.certificate import decimal_up

    if pair.rtol == 0 or asked is not None:
        return decimal_up(pair.atol), repr(pair.rtol)
    rtol = decimal_up(pair.rtol)
    return decimal_up(found.atol_rtol(rtol=float(rtol), output=output).atol), rtol


def _line(found: Tolerance, output: str, pair: tuple[str, str], style: str) -> str:
    atol, rtol = pair
    several = f"[{output!r}]" if len(found.error) > 1 else ""
    largest = float(found.error[output].max(initial=0.0))
    if style == "torch":
        call = f"torch.testing.assert_close(actual{several}.double(), expected{several}.double(), atol={atol}, rtol={rtol})"
    else:
        call = (
            f"np.testing.assert_allclose(np.float64(actual{several}), np.float64(expected{several}), "
            f"atol={atol}, rtol={rtol})"
        )
    return f"{call}  # largest bound {largest:.3g}"
