"""The Poly-prox block as plain array code: the one program that is run, traced and certified.

It is the serial program of the transformer of polyprox.md section 2, one statement a register and one ``layer`` a
transformer layer. Source: arXiv 2610.10395, Appendix B; ``layers.py`` holds the same block as literal attention
and feedforward weights, and the tests hold the two to the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from certify.graph import layer

Array = Any
"""A NumPy array of any float type or of Fractions, or a traced array."""


def block(
    W: Array,
    Sigma: Array,
    M: Array,
    alpha: Array,
    rho: Array,
    gamma: Array,
    lam: Array,
    b: int,
    N: int,
) -> dict[str, Array]:
    """Return one update as ``{"W": W+, "alpha": alpha+}``.

    Parameters
    ----------
    W, Sigma, M : shape ``(p, p)``; ``M`` an integer array of 0 and 1, zero on the diagonal, with ``W = M * W``.
    alpha, rho, gamma, lam : scalars.
    b : 1 at the end of a penalty stage, 0 inside it.
    N : a power of two, at least p.

    Notes
    -----
    Some lines look roundabout because they are what a residual stream computes. To overwrite a register is to add
    the difference, ``S + (new - S)``, which rounds twice; to double is ``S + (SS + S)``. Adding to a clean
    register, multiplying by 0 or 1, and scaling by a power of two are exact and make no statement of their own.
    The second pass runs whatever ``b`` is: an overflow there turns alpha into ``0 * inf = nan``.
    """
    s = N.bit_length() - 1

    with layer("1"):
        B = W * W
        S = B / N
        Q = np.zeros_like(M)
        tau = gamma * lam
        a_gamma = gamma * alpha
        r_gamma = gamma * rho
        r_b = b * rho

    for j in range(s):
        with layer(f"2.{j + 1}"):
            SS = S @ S
            QS = Q @ S
            Q = Q + (QS + S)
            S = S + (SS + S)

    with layer("3"):
        d = np.diagonal(S)

    with layer("4"):
        h = np.sum(d)
        ST = Q.T
        SW = Sigma @ W
        X = M * (SW - Sigma)
        HS = W * ST
        varsigma = r_gamma * h + a_gamma

    with layer("5"):
        V = W - (gamma * X + 2 * (varsigma * HS))

    with layer("6"):
        Wn = np.maximum(V - tau, 0) - np.maximum(-V - tau, 0)

    with layer("7"):
        B = B + (Wn * Wn - B)
        S = S + (Wn * Wn / N - S)
        Q = np.zeros_like(M)

    for j in range(s):
        with layer(f"8.{j + 1}"):
            SS = S @ S
            QS = Q @ S
            Q = Q + (QS + S)
            S = S + (SS + S)

    with layer("9"):
        d = d + (np.diagonal(S) - d)

    with layer("10"):
        h_plus = np.sum(d)
        alpha = alpha + r_b * h_plus
        W = W + (Wn - W)

    return {"W": W, "alpha": alpha}
