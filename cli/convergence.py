"""What is proved about repeated updates from one state, for `certify updates`: behind one function, whatever the case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic import Format
from certify.certificate import Verdict
from certify.errors import InputRejected

if TYPE_CHECKING:
    from certify.cases import Options

    from certify.contraction.modal import Prediction
    from certify.states import Saved

Floats = NDArray[np.float64]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of gamma K on the entries that move, at the centre.

    Attributes
    ----------
    values : shape (n,), increasing; computed, not verified.
    low, high : gamma mu and gamma L, which enclose those of every Hessian on the certified ball; None if there is none.
    """

    values: Floats
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Convergence:
    """Updates of one state with its controls fixed, in one format.

    Attributes
    ----------
    verdict : certified if a count is proved, refuted if the fixed point is proved to repel.
    reason : why it is not certified.
    away : bound of the distance from the state to the centre, Frobenius.
    radius, q : of the certified ball that the updates enter, else of the largest; None if no ball is certified.
    entered : replayed updates until a state lies in the ball.
    prediction : counts and bounds from there on; None if no ball is entered.
    distances : shape (k + 1,), Frobenius distance to the centre after 0 .. k replayed updates; empty if not asked for.
    spectrum : of the Hessian; None if no entry moves.
    """

    verdict: Verdict
    reason: str
    away: float
    radius: float | None
    q: float | None
    entered: int
    prediction: Prediction | None
    distances: Floats
    spectrum: Spectrum | None


def states_in(case_name: str, saved: Saved) -> int:
    """How many states of the case a file holds. Raises InputRejected."""
    _require(case_name)
    from certify.cases.polyprox import states_from

    return len(states_from(saved))


def convergence(
    case_name: str, saved: Saved, state: int, format: Format, options: Options, further: int, progress: Progress
) -> Convergence:
    """What is proved about the updates of one state of a file.

    Parameters
    ----------
    case_name, saved, state : the state with this number, of this case.
    format : of the program that does the updates.
    options : tol, step and replay.
    further : updates to replay, at most, beside the bounds; a measurement.
    progress : called with what is being done.

    Raises
    ------
    InputRejected : the file holds no states of the case, or there are no updates to speak of in it.
    """
    _require(case_name)
    from certify.cases.polyprox import states_from
    from certify.cli.convergence_polyprox import Stage

    return Stage(states_from(saved)[state], format, options, progress).convergence(further)


def _require(case_name: str) -> None:
    if case_name != "polyprox":
        raise InputRejected(f"the case {case_name!r} has no repeated updates", "use polyprox")
