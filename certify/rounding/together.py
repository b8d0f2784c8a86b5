"""The norm of several errors that share their roundings: smaller than that of the errors' bounds.

**Theorem** (docs/theory/adjoint.md#norm). Let the error of a vector of results be sum_j A_j d_j with |d_j| <= r_j, each entry
of A_j within R_j of a_j. For any weights w_j > 0 (where a_j r_j is not 0), with G = sum_j a_j a_j' r_j**2 / w_j,

    |error|_2 <= sqrt(lambda_max(G) sum_j w_j) + |sum_j R_j r_j|_2.

No vertex of the cube of roundings need reach the bounds b_i of all results at once, and this sees it. With the weights
w_j = r_j sum_i |a_ji| b_i, where b_i = sum_j r_j |a_ji|, it is never larger than |b|_2. lambda_max is bounded by an approximate
eigenbasis V: for v = V y, v' G v = y' (V' G V) y <= |V' G V|_inf |y|**2 and |v|**2 >= (1 - |V' V - I|_inf) |y|**2.
"""

from __future__ import annotations

import numpy as np

from certify.arithmetic.directed import norm_up
from certify.arithmetic.midrad import MidRad
from certify.rounding.local import UP
from certify.rounding.region import Floats
from certify.rounding.sweep import products

MOST_RESULTS = 512
_U = 2.0**-53
_SMALL = 2.0**-300


def norm_together(local: Floats, mid: Floats, sizes: Floats) -> float:
    """Upper bound of the Euclidean norm of the errors; `local` (nodes,), `mid` and `sizes` >= |A| (nodes, results).

    Infinite where it is not known. Takes the time of an eigenvalue problem of as many rows as results.
    """
    with np.errstate(invalid="ignore"):  # inf - inf, of a middle that is not finite
        apart = np.where(np.isfinite(mid), sizes - np.abs(mid), np.inf)
    rest = products(local, apart)
    live = np.flatnonzero((local > 0) & np.isfinite(local) & (mid != 0).any(axis=1))
    if not np.isfinite(rest).all():
        return float("inf")
    if not len(live):
        return norm_up(rest)
    with np.errstate(all="ignore"):
        # weights, their roots and the inverses of these may be any numbers: none need be accurate
        size = np.abs(mid[live])
        roots = np.sqrt(local[live] * (size @ (local[live] @ size)))
        scale = float(size.max()) * float(local[live].max())
        if not (
            np.isfinite(scale) and 2.0**-900 < scale < 2.0**900 and size.max() < 2.0**500 and (roots > 2.0**-500).all()
        ):
            return float("inf")
        # |S| for the exact S = a_j r_j / sqrt(w_j) is at most that of the computed one and the difference, entry by entry
        computed = mid[live].T * (local[live] / roots)
        computed[np.abs(computed) < _SMALL] = 0.0
        count, frobenius = computed.size, float(np.sqrt((computed * computed).sum())) * (1 + computed.size * _U)
        apart_from_exact = 8 * _U * frobenius + 2 * _SMALL * float(np.sqrt(count))
        gram = computed @ computed.T
        loss = len(live) * _U * frobenius * frobenius * 2 + count * 2.0**-1000  # of its additions, in any order
        largest = float(np.sqrt(_largest_eigenvalue((gram + gram.T) / 2) + 2 * loss)) * UP + apart_from_exact
        total = float(np.sqrt((roots * roots).sum() * (1 + 4 * len(live) * _U))) * UP
    whole = largest * total
    if not np.isfinite(whole):
        return float("inf")
    return float((whole * UP + norm_up(rest)) * UP)


def _largest_eigenvalue(gram: Floats) -> float:
    """An upper bound of the eigenvalues of a symmetric matrix, at least 0."""
    if not np.isfinite(gram).all():
        return float("inf")
    basis = MidRad.exact(np.linalg.eigh(gram)[1])
    near_one = basis.T @ basis - MidRad.exact(np.eye(len(gram)))
    turned = basis.T @ MidRad.exact(gram) @ basis
    up = 1 + len(gram) * 2.0**-52
    defect = float(near_one.size.sum(axis=1).max()) * up * UP
    if not defect < 0.5:
        return float("inf")
    return float(turned.size.sum(axis=1).max()) * up / (1.0 - defect) * UP
