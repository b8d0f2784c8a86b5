"""The saved state of the case: weights, the law of the edge orders, and the data of the worked examples.

| tensor | what it holds |
| --- | --- |
| `orders` (n, 4), `law` (n,) int64 | distinct edge orders (permutations of 0..3), and their positive weights |
| `content_1`, `position_1`, `content_2`, `position_2` (10, 10) float64 | the weights W0 and W1 of both layers |
| `probe` (4, 10, 10) int64 | numerators of rational weights for the factorisation |
| `star_edges` (m, 2), `countdown` (1, 4), `clauses` (m, 3), `assignment` (1, 7) int64 | the worked examples |

Controls: `gamma`, `probe_denominator`, `star_start`, `star_end`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from certify.cases.controls import control
from numpy.typing import NDArray

from certify.certificate import to_text
from certify.errors import InputRejected
from certify.states import Saved

from .instances import ORDERS, UNIFORM, Law, N, T
from .oracle import Weights

WEIGHTS = ("content_1", "position_1", "content_2", "position_2")
CONTROLS = ("gamma", "probe_denominator", "star_start", "star_end")
SHAPES = {"probe": (4, N, T), **dict.fromkeys(WEIGHTS, (N, T)), "countdown": (1, 4), "assignment": (1, 7)}
COLUMNS = {"orders": 4, "star_edges": 2, "clauses": 3}
#: The largest weight of a state, and of the probe.
MOST_WEIGHT = 1024
#: The largest gamma for which the claims at one gamma are made.
MOST_GAMMA = 100


@dataclass(frozen=True)
class State:
    """A checked state."""

    law: Law
    gamma: Fraction
    weights: dict[str, NDArray[np.float64]]
    probe: list[Weights]
    examples: dict[str, list[list[int]]]
    ends: dict[str, int]

    @property
    def exact_weights(self) -> list[Weights]:
        """The stored weights as rationals, in the order of WEIGHTS."""
        return [_rational(self.weights[name]) for name in WEIGHTS]


def circuit_weights(gamma: float) -> dict[str, NDArray[np.float64]]:
    """The weights of Corollary 1."""
    corner = np.zeros((T, T))
    corner[T - 2, T - 2] = -gamma
    shift = gamma * np.eye(T, k=-1)
    return dict(zip(WEIGHTS, (np.zeros((N, N)), shift, gamma * np.eye(N), corner), strict=True))


def saved_from(weights: dict[str, NDArray[np.float64]], gamma: Fraction, law: Law = UNIFORM, seed: int = 0) -> Saved:
    """A state with these weights, the worked examples of the paper, and a random formula with a solution."""
    rng = np.random.default_rng(seed)
    tensors = {
        **weights,
        "orders": np.array(law.orders, dtype=np.int64),
        "law": np.array(law.weights, dtype=np.int64),
        "probe": rng.integers(-24, 25, (4, N, T)),
        "star_edges": np.array(STAR_EDGES, dtype=np.int64),
        "countdown": np.array([[97, 40, 14, 11]], dtype=np.int64),
        **_formula(rng),
    }
    controls = {"gamma": to_text(gamma), "probe_denominator": "16", "star_start": "49", "star_end": "18"}
    return Saved(tensors, controls)


def state_from(saved: Saved) -> State:
    """The state in a file. Raises InputRejected."""
    tensors = saved.tensors
    names = {*SHAPES, *COLUMNS, "law"}
    if missing := sorted(names - set(tensors)):
        raise InputRejected(f"the file has no tensor {missing[0]!r}", "save it with certify.cases.star_graph.state")
    for name, shape in SHAPES.items():
        _require(tensors[name].shape == shape, f"{name} has the shape {tensors[name].shape}, not {shape}")
    for name, columns in COLUMNS.items():
        _require(tensors[name].ndim == 2 and tensors[name].shape[1] == columns, f"{name} has not {columns} columns")
    for name in names:
        kind = np.float64 if name in WEIGHTS else np.int64
        _require(tensors[name].dtype == kind, f"{name} is not {np.dtype(kind).name}")
    small = all((np.abs(tensors[name]) <= MOST_WEIGHT).all() for name in WEIGHTS)  # which no nan is
    _require(small, f"a weight is not a number up to {MOST_WEIGHT} in size")
    controls = {name: control(saved, name) for name in CONTROLS}
    _require(0 <= controls["gamma"] <= MOST_GAMMA, f"gamma is not between 0 and {MOST_GAMMA}")
    _require(controls["probe_denominator"] >= 1, "probe_denominator is not positive")
    whole = {name: controls[name] for name in ("star_start", "star_end")}
    _require(all(x.denominator == 1 for x in whole.values()), "star_start or star_end is no integer")
    scale = controls["probe_denominator"]
    _require(bool((np.abs(tensors["probe"]) <= float(scale * MOST_WEIGHT)).all()), "an entry of probe is too large")
    probe: list[Weights] = [[[Fraction(int(x)) / scale for x in row] for row in matrix] for matrix in tensors["probe"]]
    examples = {name: tensors[name].tolist() for name in ("star_edges", "countdown", "clauses", "assignment")}
    a, b, c, d = examples["countdown"][0]
    _require(c != d, f"the expression ({a} - {b}) / ({c} - {d}) divides by 0")
    clauses = [x for clause in examples["clauses"] for x in clause]
    _require(all(1 <= abs(x) <= 7 for x in clauses), "a literal of clauses is not between 1 and 7 in size")
    _require(set(examples["assignment"][0]) <= {0, 1}, "assignment is not of 0 and 1")
    weights = {name: tensors[name] for name in WEIGHTS}
    ends = {name: int(x) for name, x in whole.items()}
    return State(_law(saved), controls["gamma"], weights, probe, examples, ends)


def _law(saved: Saved) -> Law:
    orders = tuple(tuple(int(k) for k in row) for row in saved.tensors["orders"])
    weights = tuple(int(x) for x in saved.tensors["law"].ravel())
    _require(bool(orders) and len(orders) == len(weights), "orders and law have not the same length")
    _require(
        len(set(orders)) == len(orders) and set(orders) <= set(ORDERS), "orders are not distinct permutations of 0..3"
    )
    _require(all(0 < x <= 1 << 20 for x in weights), "a weight of law is not an integer from 1 to 2**20")
    return Law(orders, weights)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise InputRejected(problem, "save the state with certify.cases.star_graph.state")


def _rational(matrix: NDArray[np.float64]) -> Weights:
    exact: Callable[[float], Fraction] = Fraction
    return [[exact(x) for x in row] for row in matrix.tolist()]


def _formula(rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
    """45 clauses of three of 7 variables, and an assignment that satisfies them: signs are drawn until it does."""
    assignment = rng.integers(0, 2, 7)
    clauses = list[NDArray[np.int64]]()
    while len(clauses) < 45:
        clause = (rng.permutation(7)[:3] + 1) * rng.choice([-1, 1], 3)
        if any((assignment[abs(x) - 1] == 1) == (x > 0) for x in clause):
            clauses.append(clause)
    return {"clauses": np.array(clauses, dtype=np.int64), "assignment": assignment[None].astype(np.int64)}


#: The data line of Appendix E.3.
STAR_EDGES = (
    (74, 64), (3, 36), (49, 63), (40, 16), (31, 73), (73, 18), (51, 22), (49, 46), (38, 19), (13, 27),
    (46, 40), (49, 74), (63, 31), (65, 13), (64, 3), (49, 61), (19, 51), (61, 65), (49, 38), (16, 41),
)  # fmt: skip
