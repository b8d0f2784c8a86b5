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


def norm_together(local: Floats, mid: Floats, sizes: Floats) -> float:
    """Upper bound of the Euclidean norm of the errors; `local` (nodes,), `mid` and `sizes` >= |A| (nodes, results).

    Infinite where it is not known. Takes the time of an eigenvalue problem of as many rows as results.
    """
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
        if not (np.isfinite(scale) and 2.0**-900 < scale < 2.0**900 and (roots > 2.0**-500).all()):
            return float("inf")
        scaled = MidRad.exact(mid[live].T) * MidRad.exact(local[live]) * _inverse(roots)
        total = MidRad.exact(roots[None, :]) @ MidRad.exact(roots[:, None])
        largest = _largest_eigenvalue(scaled @ scaled.T)
        square = largest * float(total.size[0, 0]) * UP
    if not np.isfinite(square):
        return float("inf")
    return float((float(np.sqrt(square)) + norm_up(rest)) * UP)


def _inverse(x: Floats) -> MidRad:
    y = 1.0 / x
    return MidRad(y, y * 2.0**-52)


def _largest_eigenvalue(gram: MidRad) -> float:
    """An upper bound of the eigenvalues of every symmetric member of `gram`."""
    if not (np.isfinite(gram.mid).all() and np.isfinite(gram.rad).all()):
        return float("inf")
    basis = MidRad.exact(np.linalg.eigh(gram.mid)[1])
    near_one = basis.T @ basis - MidRad.exact(np.eye(len(gram.mid)))
    turned = basis.T @ gram @ basis
    defect = float(near_one.size.sum(axis=1).max()) * UP * (1 + len(gram.mid) * 2.0**-52)
    if not defect < 0.5:
        return float("inf")
    row = float(turned.size.sum(axis=1).max()) * (1 + len(gram.mid) * 2.0**-52)
    return float(row / (1.0 - defect) * UP)
