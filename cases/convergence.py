"""What a case can say about repeating its kernel from one state; plain numbers, for tables and plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from certify.certificate import Verdict

if TYPE_CHECKING:
    from certify.contraction.modal import Prediction

Floats = NDArray[np.float64]


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
    posterior : bound of the distance to the fixed point there, from one more update; None if no ball is entered or the
        order is no one program.
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
    posterior: float | None
    prediction: Prediction | None
    distances: Floats
    spectrum: Spectrum | None
