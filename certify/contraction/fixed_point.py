"""Existence: a solution of an equation next to an approximate one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from certify.arithmetic.directed import round_up
from certify.arithmetic.formats import Floats
from certify.arithmetic.midrad import MidRad


@dataclass(frozen=True)
class Existence:
    """Outcome of the Newton-Kantorovich test: exactly one solution within `radius`, unless `reason` says why not."""

    radius: float
    reason: str

    @property
    def proved(self) -> bool:
        """Whether the solution exists and is unique in the ball."""
        return not self.reason


def newton_kantorovich(residual: MidRad, jacobian: MidRad, inverse: Floats, radius: float) -> Existence:
    """Whether G has exactly one zero in the cube |x - u|_inf <= radius, nonsingular there.

    **Theorem** (Newton-Kantorovich in Krawczyk's form). Let C be any matrix, Y >= ||C G(u)||_inf and Z >= ||I - C G'(x)||_inf
    for all x in the cube. If Z < 1 and Y + Z r <= r, then x -> x - C G(x) maps the cube into itself and contracts, so G has
    exactly one zero in it (C is nonsingular, since ||I - C G'|| < 1). *Proof.* Its derivative is I - C G'(x), of norm at most
    Z on the convex cube; |x - C G(x) - u| <= |C G(u)| + Z r. QED

    Parameters
    ----------
    residual : encloses G(u), shape (n,).
    jacobian : encloses G'(x) for every x of the cube, shape (n, n).
    inverse : C, an approximate inverse of G'(u); any matrix is safe.
    radius : r, absolute.
    """
    C = MidRad.exact(inverse)
    n = len(inverse)
    if n == 0:
        return Existence(radius, "")
    with np.errstate(over="ignore", invalid="ignore"):
        step = (C @ MidRad(residual.mid[:, None], residual.rad[:, None])).size
        spread = (MidRad.exact(np.eye(n)) - C @ jacobian).size
    if not (np.isfinite(step).all() and np.isfinite(spread).all()):
        return Existence(radius, "an enclosure is not finite")
    Y, Z = step.max(), _row_sum(spread)
    if not Z < 1:
        return Existence(radius, f"Z < 1 fails: the Jacobian varies too much on the cube, Z = {Z:.3g}")
    if not Fraction(float(Y)) + Fraction(Z) * Fraction(radius) <= Fraction(radius):
        return Existence(radius, f"Y + Z r <= r fails: Y = {float(Y):.3g}, Z = {Z:.3g}, r = {radius:.3g}")
    return Existence(radius, "")


def _row_sum(sizes: Floats) -> float:
    """Upper bound of the largest row sum of nonnegative numbers."""
    return max(round_up(sum((Fraction(x) for x in row), Fraction(0))) for row in sizes.tolist())
