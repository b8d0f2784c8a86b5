"""The block as a transformer: literal attention and feedforward weights, made from the capacity P alone.

Source: arXiv 2610.10395, Appendix B; polyprox.md section 2. Tokens are p variable rows and one control row. The
depth is ``2 s + 8``, the width ``13 P + 18``, every nonzero weight is 1, 2 or 1/N in magnitude, and one weight set
serves every ``p <= P``. ``executors.py`` runs it; ``block.py`` is the same program as array code.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .state import State

Matrix = NDArray[np.float64]

PERSISTENT = ("id", "Sigma", "M", "W")
WIDE_SCRATCH = ("B", "Q", "S", "SW", "ST", "HS", "X", "V", "Wn")
FLAGS = ("var", "ctl")
CONTROLS = ("gamma", "lam", "rho", "b", "alpha")
SCALAR_SCRATCH = (
    *("tau", "a_gamma", "r_gamma", "r_b", "d", "h"),
    *("gamma_bar", "tau_bar", "varsigma", "varsigma_bar", "h_plus"),
)


class Head(NamedTuple):
    """Linear attention ``(Z Theta_Q) (Z Theta_K)^T (Z Theta_V)``, scores first, no normalisation."""

    Theta_Q: Matrix
    Theta_K: Matrix
    Theta_V: Matrix


class FeedForward(NamedTuple):
    """``(Z U_a * Z U_b) U_c + ReLU(Z U_1) U_2``."""

    U_a: Matrix
    U_b: Matrix
    U_c: Matrix
    U_1: Matrix
    U_2: Matrix


class Layer(NamedTuple):
    """``Z <- Z + sum of heads``, then ``Z <- Z + ff(Z)``."""

    name: str
    heads: tuple[Head, ...]
    ff: FeedForward | None


@cache
def registers(P: int) -> dict[str, slice]:
    """Return the columns of every register in order: wide ones of P columns, then flags, controls, scratch."""
    layout = {name: slice(P * k, P * (k + 1)) for k, name in enumerate((*PERSISTENT, *WIDE_SCRATCH))}
    start = P * len(layout)
    scalars = (*FLAGS, *CONTROLS, *SCALAR_SCRATCH)
    return layout | {name: slice(start + k, start + k + 1) for k, name in enumerate(scalars)}


def encode(state: State) -> Matrix:
    """Return the residual stream ``(p + 1, 13 P + 18)`` of a state: scratch and padding zero."""
    p, at = state.p, registers(state.P)
    Z = np.zeros((p + 1, at["h_plus"].stop))
    for name, value in {"id": np.eye(p), "Sigma": state.Sigma, "M": state.M, "W": state.W}.items():
        Z[:p, at[name]][:, :p] = value
    Z[:p, at["var"]] = 1
    Z[p, at["ctl"]] = 1
    for name in CONTROLS:
        Z[p, at[name]] = getattr(state, name)
    return Z


def decode(Z: NDArray[np.floating], p: int) -> tuple[NDArray[np.floating], float]:
    """Return ``(W (p, p), alpha)`` of a residual stream of p variables."""
    P = (Z.shape[1] - 18) // 13
    at = registers(P)
    return Z[:p, at["W"]][:, :p].copy(), float(Z[p, at["alpha"]][0])


@cache
def weights(P: int, clears: Literal[True, False, "wide"] = True) -> tuple[Layer, ...]:
    """Return the ``2 s + 8`` layers of capacity P, the doubling layers sharing their arrays.

    ``clears=False`` leaves out the final clearing of the scratch registers, ``"wide"`` that of the scalar ones only
    (the defect of the paper's first executor): both compute the first block correctly and spoil the next.
    """
    w = _Weights(P)
    N = 1 << w.s
    doubling = (
        w.head("S", "id", {"S": "S"}),
        w.head("Q", "id", {"S": "Q"}),
        w.head("id", "id", {"S": "S Q"}),
    )
    diagonal = w.feedforward([Product("id", "S", {"d": 1})], {"d": "-d"})
    scratch: dict[Any, tuple[str, ...]] = {True: WIDE_SCRATCH + SCALAR_SCRATCH, "wide": WIDE_SCRATCH, False: ()}
    return (
        Layer(
            "1",
            (),
            w.feedforward(
                [
                    Product("W", "W", {"B": 1, "S": 1 / N}),
                    Product("gamma", "lam", {"tau": 1}),
                    Product("gamma", "alpha", {"a_gamma": 1}),
                    Product("gamma", "rho", {"r_gamma": 1}),
                    Product("b", "rho", {"r_b": 1}),
                ],
                {"Q": "-Q"},
            ),
        ),
        *(Layer(f"2.{j + 1}", doubling, None) for j in range(w.s)),
        Layer("3", (), diagonal),
        Layer(
            "4",
            (
                w.head("ctl", "var", {"d": "h"}),
                w.head("id", "Q", {"id": "ST"}),
                w.head("Sigma", "id", {"W": "SW"}),
                w.head("var", "ctl", {"gamma": "gamma_bar", "tau": "tau_bar"}),
            ),
            w.feedforward(
                [
                    Product("M", "SW -Sigma", {"X": 1}),
                    Product("W", "ST", {"HS": 1}),
                    Product("r_gamma", "h", {"varsigma": 1}),
                ],
                {"varsigma": "a_gamma"},
            ),
        ),
        Layer(
            "5",
            (w.head("var", "ctl", {"varsigma": "varsigma_bar"}),),
            w.feedforward(
                [Product("gamma_bar", "X", {"V": -1}), Product("varsigma_bar", "HS", {"V": -2})], {"V": "W -V"}
            ),
        ),
        Layer("6", (), w.threshold()),
        Layer(
            "7",
            (),
            w.feedforward([Product("Wn", "Wn", {"B": 1, "S": 1 / N})], {"B": "-B", "S": "-S", "Q": "-Q"}),
        ),
        *(Layer(f"8.{j + 1}", doubling, None) for j in range(w.s)),
        Layer("9", (), diagonal),
        Layer(
            "10",
            (w.head("ctl", "var", {"d": "h_plus"}),),
            w.feedforward(
                [Product("r_b", "h_plus", {"alpha": 1})],
                {"W": "Wn -W"} | {name: f"-{name}" for name in scratch[clears]},
            ),
        ),
    )


class Product(NamedTuple):
    """Two signed sums of registers, such as ``SW -Sigma``, multiplied column by column, and where to add it.

    A scalar times a wide register multiplies every column; a wide product into a scalar is summed over its columns.
    """

    left: str
    right: str
    targets: dict[str, float]


class _Weights:
    """Writes the matrices of one capacity; registers are named, a leading minus negates."""

    def __init__(self, P: int) -> None:
        self.s = (P - 1).bit_length()
        self.at = registers(P)
        self.eye = np.eye(self.at["h_plus"].stop)

    def reads(self, terms: str) -> Matrix:
        """Return the columns that read a signed sum of registers, ``(width, P)`` or ``(width, 1)``."""
        columns = [self.eye[:, self.at[term.lstrip("-")]] * (-1 if term[0] == "-" else 1) for term in terms.split()]
        units = max(c.shape[1] for c in columns)
        total: Matrix = np.sum([np.broadcast_to(c, (len(c), units)) for c in columns], axis=0)
        return total

    def writes(self, target: str, units: int) -> Matrix:
        """Return the rows that add the units to a register, ``(units, width)``."""
        return np.broadcast_to(self.reads(target).T, (units, len(self.eye)))

    def head(self, query: str, key: str, routes: dict[str, str]) -> Head:
        """Return the head that moves each source register to its targets, weighted by the scores."""
        moves = [self.reads(source) @ self.reads(goal).T for source, goals in routes.items() for goal in goals.split()]
        return Head(self.reads(query), self.reads(key), np.sum(moves, axis=0))

    def feedforward(self, products: list[Product], linear: dict[str, str]) -> FeedForward:
        """Return the layer that adds every product and every linear map, ``{target: signed sum}``."""
        left, right, routes = [], [], []
        for product in products:
            a, b = np.broadcast_arrays(self.reads(product.left), self.reads(product.right))
            left.append(a)
            right.append(b)
            routes.append(np.sum([c * self.writes(r, a.shape[1]) for r, c in product.targets.items()], axis=0))
        sources = np.hstack([self.reads(terms) for terms in linear.values()])
        goals = np.vstack([self.reads(target).T for target in linear])
        # a linear map L is ReLU(Z L) - ReLU(-Z L); the zero columns of L are left out
        U_1, U_2 = np.hstack([sources, -sources]), np.vstack([goals, -goals])
        return FeedForward(np.hstack(left), np.hstack(right), np.vstack(routes), U_1, U_2)

    def threshold(self) -> FeedForward:
        """Return the soft threshold ``Wn = ReLU(V - tau_bar) - ReLU(-V - tau_bar)``, which has no products."""
        none = np.zeros((len(self.eye), 0))
        goals = self.reads("Wn").T
        U_1 = np.hstack([self.reads("V -tau_bar"), self.reads("-V -tau_bar")])
        return FeedForward(none, none, none.T, U_1, np.vstack([goals, -goals]))
