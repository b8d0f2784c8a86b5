"""Verified eigenvalue bounds of symmetric interval matrices, all in one place.

The matrix is known as a midpoint and a radius, both (n, n) binary64 and symmetric; every symmetric A with
|A - mid| <= rad entrywise is meant, and every bound holds for each of them.

- two-sided, tight, with a witness that a checker recomputes: `lower_bound`, `upper_bound`, `verify`, `verify_upper`;
- two-sided by row sums, the paper's method: `gershgorin`, `interval_bounds`;
- from inside, for refutation: `rayleigh_lower`, `rayleigh_upper`, with `best_vectors`;
- exact counts of a point matrix, singular or not: `inertia`, `count_below`, `positive_below`;
- an approximate eigenbasis with verified distances: `eigenbasis`, `verified_basis`.
"""

from certify.contraction.eigenbasis import Basis, eigenbasis, verified_basis
from certify.contraction.inertia import Inertia, count_below, inertia, positive_below
from certify.contraction.rayleigh import best_vectors, rayleigh_lower, rayleigh_upper
from certify.contraction.rows import gershgorin, interval_bounds
from certify.contraction.witness import Bound, Witness, lower_bound, upper_bound, verify, verify_upper

__all__ = [
    "Basis",
    "Bound",
    "Inertia",
    "Witness",
    "best_vectors",
    "count_below",
    "eigenbasis",
    "gershgorin",
    "inertia",
    "interval_bounds",
    "lower_bound",
    "positive_below",
    "rayleigh_lower",
    "rayleigh_upper",
    "upper_bound",
    "verified_basis",
    "verify",
    "verify_upper",
]
