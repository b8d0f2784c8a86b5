"""Random states for the Poly-prox tests: seeded, within the ranges the paper tests."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from certify.cases.polyprox import DyadicMatrix, State, registers


def random_mask(rng: np.random.Generator, p: int, density: float = 1.0) -> np.ndarray:
    """Return a mask ``(p, p)`` with zero diagonal and about ``density`` of the edges."""
    return (rng.random((p, p)) < density) & ~np.eye(p, dtype=bool)


def random_state(
    rng: np.random.Generator,
    p: int,
    P: int,
    b: int,
    density: float = 1.0,
    scale: float = 1.0,
    alpha: float | None = None,
) -> State:
    """Return a state with a sampled covariance; a full ``W`` has Frobenius norm about ``scale``."""
    M = random_mask(rng, p, density)
    X = rng.normal(size=(3 * p, p))
    W = rng.normal(size=(p, p)) * M * (scale / p)
    controls = {"rho": rng.uniform(0.1, 2), "gamma": rng.uniform(0.05, 0.3), "lam": rng.uniform(0, 0.5)}
    drawn = rng.uniform(0.1, 2)
    return State(W=W, Sigma=X.T @ X / (3 * p), M=M, b=b, p_max=P, alpha=drawn if alpha is None else alpha, **controls)


def dyadic_state(rng: np.random.Generator, p: int, P: int, b: int, controls: dict[str, float]) -> State:
    """Return a state whose entries are small multiples of 1/8, so that exact arithmetic stays short."""
    M = random_mask(rng, p, 0.7)
    W = rng.integers(-8, 9, size=(p, p)) / 8 * M
    S = rng.integers(-4, 5, size=(p, p)) / 8
    return State(W=W, Sigma=S + S.T + np.eye(p), M=M, b=b, p_max=P, **controls)


class FractionArray(np.ndarray):
    """An object array whose operations all return Fractions: NumPy alone would let int 0 / N become a float."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        result = getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **kwargs)
        return fractions(result) if np.ndim(result) else Fraction(result)


def fractions(values: object) -> np.ndarray:
    """Return the exact Fractions of an array of floats, ints or Fractions."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values)).view(FractionArray)


def decode_exact(Z: DyadicMatrix, p: int, P: int) -> tuple[list[list[Fraction]], Fraction]:
    """Return ``(W, alpha)`` of an exact residual stream."""
    rows, at = Z.fractions(), registers(P)
    return [row[at["W"]][:p] for row in rows[:p]], rows[p][at["alpha"].start]


def distance(W: np.ndarray, exact: list[list[Fraction]]) -> float:
    """Return the Frobenius distance of a float matrix from an exact one."""
    gaps = [
        Fraction(float(x)) - y for row, other in zip(W, exact, strict=True) for x, y in zip(row, other, strict=True)
    ]
    return float(sum(g * g for g in gaps)) ** 0.5
