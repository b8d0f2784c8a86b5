"""The reference update, by powers of ``Y = I + W*W / N``: the definition, sharing no step with the block.

Source: polyprox.md section 1 (Algorithm 1 of arXiv 2610.10395). ``update`` is float64, ``update_exact`` rounds
nothing; the block and the literal layers are tested against both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dyadic import DyadicMatrix, identity, power
from .state import State


@dataclass(frozen=True)
class ExactState:
    """The exact outcome of one update: ``W`` row by row and ``alpha``, dyadic rationals."""

    W: list[list[Fraction]]
    alpha: Fraction


def acyclicity(W: NDArray[np.float64], N: int) -> tuple[float, NDArray[np.float64]]:
    """Return ``h(W) = tr(Y**N) - p`` and its gradient ``H = 2 W * (Y**(N-1))^T`` in float64.

    The subtraction of ``p`` cancels: the absolute error of h is of the order ``p N`` roundoffs, however small h is.
    """
    p = W.shape[0]
    Y = np.eye(p) + W * W / N
    h = float(np.trace(np.linalg.matrix_power(Y, N))) - p
    H = 2 * W * np.linalg.matrix_power(Y, N - 1).T
    return h, H


def soft_threshold(V: NDArray[np.float64], t: float) -> NDArray[np.float64]:
    """Return ``sign(v) max(|v| - t, 0)`` entrywise."""
    shrunk: NDArray[np.float64] = np.sign(V) * np.maximum(np.abs(V) - t, 0)
    return shrunk


def update(state: State) -> tuple[NDArray[np.float64], float]:
    """Return ``(W+, alpha+)`` of one update in float64, shapes ``(p, p)`` and scalar."""
    W, N = state.W, state.N
    h, H = acyclicity(W, N)
    gradient = state.Sigma @ W - state.Sigma + (state.alpha + state.rho * h) * H
    V = W - state.gamma * gradient
    W_plus = state.M * soft_threshold(V, state.gamma * state.lam)
    h_plus, _ = acyclicity(W_plus, N)
    return W_plus, state.alpha + state.b * state.rho * h_plus


def update_exact(state: State, *, W: Any = None, alpha: Any = None) -> ExactState:
    """Return the exact ``(W+, alpha+)`` of one update of the stored float64 values.

    Parameters
    ----------
    state : the state; its floats are taken as the dyadic rationals they are.
    W, alpha : replace those of ``state`` by exact dyadic values (Fractions, ints or floats; ``(p, p)`` and scalar),
        such as the outcome of an earlier update: exact updates can be chained.

    Raises
    ------
    InputRejected : a value of ``W`` or ``alpha`` is not dyadic.
    """
    N, s, p = state.N, state.s, state.p
    W_ = DyadicMatrix.of(state.W if W is None else W)
    Sigma, M = DyadicMatrix.of(state.Sigma), DyadicMatrix.of(state.M)
    alpha_ = DyadicMatrix.of(state.alpha if alpha is None else alpha)
    rho, gamma, lam = (DyadicMatrix.of(x) for x in (state.rho, state.gamma, state.lam))

    Y = identity(p) + (W_ * W_).halved(s)
    G = power(Y, N - 1).T
    h = (G * Y).total() - DyadicMatrix.of(p)
    H = (W_ * G).halved(-1)
    c = alpha_ + rho * h
    V = W_ - gamma * (Sigma @ W_ - Sigma + c * H)

    tau = DyadicMatrix.of(np.ones((p, p), dtype=np.int64)) * (gamma * lam)
    W_plus = (M * ((V - tau).relu() - (W_ - W_ - V - tau).relu())).reduced()
    if state.b == 0:
        return ExactState(W_plus.fractions(), alpha_.fractions()[0][0])
    alpha_plus = alpha_ + rho * _h_exact(W_plus, s)
    return ExactState(W_plus.fractions(), alpha_plus.fractions()[0][0])


def _h_exact(W: DyadicMatrix, s: int) -> DyadicMatrix:
    """Return h exactly; ``tr(Y**N)`` as entry products of ``Y**(N/2)``, which halves the digits to multiply."""
    p = W.shape[0]
    Y = identity(p) + (W * W).halved(s)
    if s == 0:
        return (identity(p) * Y).total() - DyadicMatrix.of(p)
    root = power(Y, 2 ** (s - 1))
    return (root * root.T).total() - DyadicMatrix.of(p)
