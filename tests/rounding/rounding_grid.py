"""The rounding grid of the Poly-prox paper (polyprox.md section 8): states, bounds and observed errors.

45 states: (p, P) in (2, 2), (3, 4), (5, 8); five seeds; scales 0.01, 0.1, 0.5. In three formats these are the 135 cases.
W is `scale` times normal entries off the diagonal, Sigma the covariance of a sample of 50, alpha and rho random and of
order 1, gamma small enough for a step to be one, lam small enough that W+ is not mostly zero. Balls have radius 0.01.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.polyprox import State, block, update_exact
from random_kernels import ManyIeee

from certify.arithmetic import Format
from certify.graph import Graph, Variable, evaluate, output, trace
from certify.rounding import Bounds, ball, majorant, point, running

CONFIGURATIONS = ((2, 2), (3, 4), (5, 8))
SEEDS = range(5)
SCALES = (0.01, 0.1, 0.5)
RADIUS = 0.01
NAMES = ("W", "Sigma", "alpha", "rho", "gamma", "lam")


@dataclass(frozen=True)
class Case:
    """A state of the grid with its graph; `label` names it."""

    label: str
    state: State
    graph: Graph
    seed: int

    @property
    def inputs(self) -> dict[str, Any]:
        """The variables of the graph."""
        return {name: np.asarray(getattr(self.state, name), dtype=np.float64) for name in NAMES}

    def bounds(self, format: Format, radius: float, *, method: str = "running") -> Bounds:
        """At the state (radius 0) or uniformly on the ball."""
        region = ball(self.inputs, "W", radius) if radius else point(self.inputs)
        return (running if method == "running" else majorant)(self.graph, format, region)

    def exact(self, samples: np.ndarray) -> np.ndarray:
        """The exact updates from `samples` (k, p, p), W+ and alpha+ as Fractions, shape (k, p p + 1)."""
        results = [update_exact(self.state, W=W) for W in samples]
        return np.array([[*(x for row in r.W for x in row), r.alpha] for r in results], dtype=object)

    def floats(self, format: Format, samples: np.ndarray) -> np.ndarray:
        """The updates as the program computes them from `samples` (k, p, p): W+ and alpha+, shape (k, p p + 1)."""
        ieee = ManyIeee(format, len(samples))
        inputs = {name: ieee.constant(np.broadcast_to(x, (len(samples), *x.shape))) for name, x in self.inputs.items()}
        values = evaluate(self.graph, ieee, inputs | {"W": ieee.constant(samples)})
        results = [output(self.graph, ieee, values, name).reshape(len(samples), -1) for name in ("W", "alpha")]
        return np.concatenate(results, axis=1).astype(np.float64)

    def samples(self, count: int) -> np.ndarray:
        """States of the ball of radius 0.01, shape (count, p, p); the first half near its surface."""
        rng = np.random.default_rng([7, self.seed])
        result = []
        for k in range(count):
            direction = rng.standard_normal(self.state.W.shape) * self.state.M
            length = RADIUS * (1 if k < count // 2 else rng.random()) * (1 - 2.0**-40)
            result.append(self.state.W + direction * (length / np.linalg.norm(direction)))
        return np.array(result)


def cases() -> Iterator[Case]:
    """The 45 states, in order."""
    for p, P in CONFIGURATIONS:
        for seed in SEEDS:
            for scale in SCALES:
                yield _case(p, P, seed, scale)


def _case(p: int, P: int, seed: int, scale: float) -> Case:
    rng = np.random.default_rng([p, seed])
    M = 1 - np.eye(p, dtype=np.int8)
    X = rng.standard_normal((50, p)) @ (np.eye(p) + 0.5 * np.triu(rng.standard_normal((p, p)), 1))
    X -= X.mean(axis=0)
    state = State(
        W=scale * rng.standard_normal((p, p)) * M,
        Sigma=X.T @ X / len(X),
        M=M,
        alpha=float(rng.uniform(0.1, 1.0)),
        rho=float(rng.uniform(0.5, 2.0)),
        gamma=float(rng.uniform(0.02, 0.1)),
        lam=0.01,
        b=1,
        p_max=P,
    )
    inputs = state.inputs() | {"W": Variable((p, p), M)}
    graph = trace(block, inputs, order="serial")
    return Case(f"p={p} P={P} seed={seed} scale={scale}", state, graph, seed)


@dataclass(frozen=True)
class Outcome:
    """Bound and largest observed error (Frobenius norm for W, absolute for alpha) of one case in one format.

    `holds`: no entry of W+ and no alpha+ is further from the exact one than its own bound, compared exactly.
    """

    bound: float
    observed: float
    alpha_bound: float
    alpha_observed: float
    holds: bool
    in_range: bool

    @property
    def ratio(self) -> float | None:
        """Bound over observed error, None if the program made no error in W."""
        return self.bound / self.observed if self.observed else None


def outcome(
    case: Case, format: Format, radius: float, samples: np.ndarray, exact: np.ndarray, method: str = "running"
) -> Outcome:
    """The largest error at `samples` (k, p, p), whose exact updates are `exact`, against the bound at `radius`."""
    bounds = case.bounds(format, radius, method=method)
    entry_bounds = np.append(bounds.error_of("W").ravel(), bounds.error_of("alpha"))
    error = abs(_as_fractions(case.floats(format, samples)) - exact)
    size = error.astype(np.float64)
    return Outcome(
        bound=bounds.norm_of("W"),
        observed=float(np.linalg.norm(size[:, :-1], axis=1).max()),
        alpha_bound=float(entry_bounds[-1]),
        alpha_observed=float(size[:, -1].max()),
        holds=bool((error <= _as_fractions(entry_bounds)).all()),
        in_range=bounds.first_overflow() is None,
    )


_as_fractions = np.vectorize(Fraction, otypes=[object])
