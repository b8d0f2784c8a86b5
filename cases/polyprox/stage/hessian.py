"""The Hessian of the stage objective J on a set of entries, enclosed over a ball; with its multiplier and gradient.

Source: polyprox.md section 5. On entries (i, j), (a, b) of W,

    K = S + c K_h + rho H (x) H,    S_(ij,ab) = Sigma_ia [j = b],    c = alpha + rho h
    (K_h)_(ij,ab) = 2 [(i,j) = (a,b)] (Y^(N-1))_ji + (4 W_ij W_ab / N) sum_{l=0}^{N-2} (Y^l)_ja (Y^(N-2-l))_bi

All of it is evaluated with midpoint-radius matrices (`certify.arithmetic.midrad`), so the result contains K(W) for every W
of the box, rounding included. Y^l - I is kept instead of Y^l: h = tr(Y^N - I) does not cancel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic.midrad import MidRad, box
from certify.contraction.floating import thickened

from ..state import State

Entries = tuple[NDArray[np.intp], ...]
"""Row and column indices of the entries of W that a Hessian is about, as `numpy.nonzero` gives them."""


@dataclass(frozen=True)
class Enclosed:
    """Enclosures over one box: c (), grad J (p, p), and for the n entries asked for K (n, n), K_h (n, n), H (n,).

    K and K_h are symmetric. K is S + c K_h + rho H (x) H, and may be enclosed more sharply than from its parts.
    """

    c: MidRad
    gradient: MidRad
    K: MidRad
    cycles: MidRad
    slope: MidRad


def hessian(state: State, W: NDArray[np.float64], radius: float, entries: Entries) -> Enclosed:
    """Enclose c, grad J and K over every W' with |W' - W| <= radius on the given entries and W' = W elsewhere.

    The Frobenius ball of that radius in those entries lies inside. `state` gives Sigma, alpha, rho and N.

    Parameters
    ----------
    W : the centre, (p, p) float64, exact.
    radius : absolute; 0 for the centre alone.
    entries : the n entries that vary and index K.
    """
    spread = np.zeros_like(W)
    spread[entries] = radius
    weights = box(W, spread)
    S = (weights * weights).scaled(-state.s)
    powers = _powers(S, state.N)
    h = MidRad(np.diagonal(powers[-1].mid), np.diagonal(powers[-1].rad)).total()
    c = _number(state.alpha) + _number(state.rho) * h
    off = powers[-2].T if state.N > 1 else MidRad.exact(np.zeros_like(W))
    H = (weights * off).scaled(1)
    i, j = entries
    K = MidRad.exact(np.where(j[:, None] == j[None, :], state.Sigma[i[:, None], i[None, :]], 0.0))
    cycles, slope = MidRad.exact(np.zeros((len(i), len(i)))), H[entries]
    if len(i) and state.N > 1:
        cycles = _symmetric(_curvature(weights, powers, state, entries))
        K = K + cycles * c + _outer(slope, slope) * _number(state.rho)
    eye = MidRad.exact(np.eye(state.p))
    gradient = MidRad.exact(state.Sigma) @ (weights - eye) + H * c
    return Enclosed(c, gradient, _symmetric(K), cycles, slope)


def _powers(S: MidRad, N: int) -> list[MidRad]:
    """Y^l - I for l = 0..N, from Y^(l+1) - I = (Y^l - I) + S + (Y^l - I) S."""
    powers = [MidRad.exact(np.zeros_like(S.mid)), S]
    while len(powers) <= N:
        last = powers[-1]
        powers.append(last + S + last @ S)
    return powers


def _curvature(weights: MidRad, powers: list[MidRad], state: State, entries: Entries) -> MidRad:
    """K_h on the entries, (n, n)."""
    i, j = entries
    N, n = state.N, len(i)
    eye = MidRad.exact(np.eye(state.p))
    full = [thickened(power + eye) for power in powers[: N - 1]]  # Y^l for l = 0..N-2
    total = MidRad.exact(np.zeros((n, n)))
    from_j, to_i = (j[:, None], i[None, :]), (j[None, :], i[:, None])
    # the terms l and N - 2 - l are each other's transposes
    for left in range((N - 1) // 2):
        total = total + full[left][from_j] * full[N - 2 - left][to_i]
    middle = full[N // 2 - 1]
    total = total + total.T + middle[from_j] * middle[to_i]
    at = weights[entries]
    cycles = (_outer(at, at) * total).scaled(2 - state.s)
    # i != j, so the diagonal term needs only the off-diagonal part of Y^(N-1)
    diagonal = powers[N - 1][(j, i)].scaled(1)
    return cycles + MidRad(np.diag(diagonal.mid), np.diag(diagonal.rad))


def _outer(a: MidRad, b: MidRad) -> MidRad:
    return a[:, None] * b[None, :]


def _number(x: float) -> MidRad:
    return MidRad.exact(np.array(x))


def _symmetric(K: MidRad) -> MidRad:
    """The same enclosure with an exactly symmetric midpoint: the members meant are symmetric."""
    mid = (K.mid + K.mid.T) / 2
    moved = np.maximum(np.abs(mid - K.mid), np.abs(mid - K.mid.T))
    return MidRad(mid, (np.maximum(K.rad, K.rad.T) + np.nextafter(moved, np.inf)) * (1 + 2.0**-50))
