"""What several commands share: options and types of their values, and places to write to, checked before any work."""

from __future__ import annotations

import math
import os
from typing import Any

import click
from certify.cli.streams import DASH

from certify.errors import InputRejected

DEFAULT_CASE = "polyprox"
METHODS = ("global", "local", "interval", "face")
"""How convergence in the fixed stage can be certified, from coarse to sharp."""


class Amount(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4, and older ones are allowed
    """A finite number that is not negative, or, if asked for, not zero either."""

    name = "number"

    def __init__(self, *, positive: bool = False) -> None:
        self.positive = positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. Raises click.BadParameter."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        if number < 0 or (self.positive and number == 0):
            self.fail(f"{value} is not {'positive' if self.positive else 'a number of at least 0'}", param, ctx)
        return abs(number)  # -0 becomes 0


class Methods(click.ParamType):  # type: ignore[type-arg]
    """Names of METHODS with commas between them, or none: a tuple without repetitions, in the order of METHODS."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names. Raises click.BadParameter."""
        if not isinstance(value, str):
            return tuple(value)
        named = [name.strip() for name in value.split(",")]
        if named == ["none"]:
            return ()
        for name in named:
            if name not in METHODS:
                self.fail(f"there is no method {name!r}; use some of {','.join(METHODS)}, or none", param, ctx)
        return tuple(name for name in METHODS if name in named)


tol_option = click.option(
    "--tol",
    type=Amount(positive=True),
    default=1e-6,
    show_default=True,
    metavar="T",
    help="The distance to the fixed point of the stage, Frobenius, that is close enough.",
)
step_option = click.option(
    "--step",
    type=click.Choice(["recorded", "new"]),
    default="recorded",
    show_default=True,
    help="The step size of the stage: the state's, or one chosen to contract fast.",
)
replay_option = click.option(
    "--replay",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="MAX",
    help="Updates to run at most until a state enters a certified ball.",
)
center_option = click.option(
    "--center", metavar="NAME", help="The input that moves within --radius; may be left out if there is one."
)
ball_option = click.option(
    "--radius",
    type=Amount(),
    default=0.0,
    show_default=True,
    metavar="R",
    help="Also for every value of that input within this Frobenius distance.",
)
libm_option = click.option(
    "--libm",
    metavar="NAME",
    help="How accurate exp, log, tanh and sigmoid are assumed to be: numpy (the default), torch, correct, 1ulp, 2ulp, "
    "cuda/float32, ...",
)
bound_option = click.option(
    "--bound",
    type=click.Choice(["running", "adjoint"]),
    default="running",
    show_default=True,
    help="adjoint: also sharper bounds of the error, and which registers and layers it comes from.",
)
splits_option = click.option(
    "--splits",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="How often the adjoint bounds cut the ball in two: tighter, and N times slower.",
)
confidence_option = click.option(
    "--confidence",
    metavar="P",
    help="Also bounds that a run with stochastic rounding keeps with probability P, such as 0.999999; no verdict rests on "
    "them, and `certify check` leaves them undecided.",
)
case_option = click.option(
    "--case",
    "case_name",
    default=DEFAULT_CASE,
    show_default=True,
    metavar="NAME",
    help="What the state is of: a case of this package, such as ngd, or one that is installed from elsewhere.",
)


def require_place(path: str, *inputs: str) -> None:
    """Refuse an output file that could not be written, or that would replace an input, before hours of work.

    Raises
    ------
    InputRejected : a directory, no directory to put it in, or one of `inputs`.
    """
    from certify.states import quoted

    if path == DASH:
        return
    if os.path.isdir(path):
        raise InputRejected(f"{quoted(path)} is a directory", "name a file inside it")
    parent = os.path.dirname(path) or "."
    if not os.path.isdir(parent):
        raise InputRejected(f"there is no directory {quoted(parent)}", "create it, or choose another place")
    for name in inputs:
        if os.path.exists(path) and os.path.exists(name) and os.path.samefile(path, name):
            raise InputRejected(f"{quoted(path)} is the input, which would be lost", "choose another output file")
