"""What a state of this case holds, as exact rationals.

A file holds any number of contexts. That of NAME (letters, digits and hyphens) is given by the tensors

- `Z.NAME` (n, d) binary64: the examples z_i = y_i x_i;
- `theta.NAME` (d,) int64, over the control `denominator.NAME`: the start of the layers, exactly;
- `start.NAME` (d,) binary64: the same for kernels, each entry the nearest number;
- `star.NAME` (d,) binary64, which may be left out: the separator that labelled the examples, of any length;
- `V.NAME` and `W.NAME` (2 d, 2 d) binary64, which may be left out: trained weights, which then stand for C1 and C2;

and the controls `C1.NAME`, `C2.NAME` (rational, positive), `layers.NAME` (how many are compared with descent; 0 for none) and
`steps.NAME` (how many are run for claims about margins; 0 for none). Beside contexts there may be

- `accuracies` (m, 2) int64: the ratios at which layers are counted;
- `population` (m, 3) int64: rows (d, p, q) for the training problem of infinitely many examples, with sigma = p/q;
- `closed` (m, 4) int64: rows (n, d, p, q) for that of n examples at zero parameters;
- `batch` (K, n, d) binary64, `batch_theta` (K, d) and `batch_denominator` (K,) int64 and the control `batch_eta`: a training
  problem of K contexts, with rational starts, and the learning rate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.controls import control
from flint import fmpq

from certify.errors import InputRejected
from certify.states import Saved

Row = list[Any]
Rows = list[Row]
CONTROLS = ("denominator", "C1", "C2", "layers", "steps")
_TENSOR = re.compile(r"(Z|theta|start|star|V|W)\.([a-z0-9-]{1,40})")
_OTHERS = {"accuracies", "population", "closed", "batch", "batch_theta", "batch_denominator"}
_REMEDY = "see cases/ngd/README.md for what a state holds"


@dataclass(frozen=True)
class Context:
    """One context, in rationals (`fmpq`)."""

    name: str
    Z: Rows
    theta: Row
    C1: Any
    C2: Any
    layers: int
    steps: int
    star: Row | None
    V: Rows | None = None
    W: Rows | None = None

    @property
    def n(self) -> int:
        """How many examples there are."""
        return len(self.Z)

    @property
    def d(self) -> int:
        """Their dimension."""
        return len(self.theta)

    @property
    def step(self) -> Any:
        """The step size of the descent that C2 theta makes: C1 C2."""
        return self.C1 * self.C2


@dataclass(frozen=True)
class Batch:
    """A training problem of several contexts."""

    Z: list[Rows]
    theta: Rows
    eta: Any


@dataclass(frozen=True)
class State:
    """Everything a file holds."""

    contexts: tuple[Context, ...]
    accuracies: tuple[Fraction, ...]
    population: tuple[tuple[int, Fraction], ...]
    closed: tuple[tuple[int, int, Fraction], ...]
    batch: Batch | None
    controls: tuple[str, ...]


def rational(x: float | int | Fraction) -> Any:
    """A number as `fmpq`, exactly."""
    return fmpq(*Fraction(x).as_integer_ratio())


def fraction(x: Any) -> Fraction:
    """An `fmpq` as a Fraction."""
    return Fraction(int(x.p), int(x.q))


def state_of(saved: Saved) -> State:
    """The state of a file.

    Raises
    ------
    InputRejected : a tensor is missing, unknown or of another shape, or a control is not usable.
    """
    names: set[str] = set()
    for key in saved.tensors:
        match = _TENSOR.fullmatch(key)
        if match is None and key not in _OTHERS:
            raise InputRejected(f"the tensor {key!r} is unknown to the case ngd", _REMEDY)
        if match:
            names.add(match[2])
    contexts = tuple(_context(saved, name) for name in sorted(names))
    if not contexts:
        raise InputRejected("the state holds no context", "give the tensors Z.NAME and theta.NAME")
    batch = _batch(saved) if any(key.startswith("batch") for key in saved.tensors) else None
    controls = [f"{key}.{context.name}" for context in contexts for key in CONTROLS]
    return State(
        contexts,
        tuple(Fraction(p, q) for p, q in _table(saved, "accuracies", 2)),
        tuple((d, Fraction(p, q)) for d, p, q in _table(saved, "population", 3)),
        tuple((n, d, Fraction(p, q)) for n, d, p, q in _table(saved, "closed", 4)),
        batch,
        tuple(controls + ["batch_eta"] * (batch is not None)),
    )


def _context(saved: Saved, name: str) -> Context:
    Z = _array(saved, f"Z.{name}", np.float64, 2)
    theta = _array(saved, f"theta.{name}", np.int64, 1)
    start = _array(saved, f"start.{name}", np.float64, 1)
    star = _array(saved, f"star.{name}", np.float64, 1) if f"star.{name}" in saved.tensors else None
    denominator, C1, C2, layers, steps = (_control(saved, f"{key}.{name}") for key in CONTROLS)
    n, d = Z.shape
    if n < 2 or d < 1 or {theta.shape, start.shape} | ({star.shape} if star is not None else set()) != {(d,)}:
        raise InputRejected(f"the shapes of context {name!r} do not fit together, or there is one example", _REMEDY)
    if min(C1, C2, denominator) <= 0 or min(layers, steps) < 0:
        raise InputRejected(f"a control of context {name!r} is negative or zero", "give positive C1 and C2")
    if any(x.denominator > 1 for x in (denominator, layers, steps)) or max(layers, steps) > 10**5:
        raise InputRejected(f"a count of context {name!r} is not an integer of at most 100000", _REMEDY)
    exact = [fmpq(int(x), int(denominator)) for x in theta]
    if [float(fraction(x)) for x in exact] != start.tolist():
        raise InputRejected(f"start.{name} is not theta.{name} rounded to nearest", "divide theta by the denominator")
    weights = [_array(saved, f"{key}.{name}", np.float64, 2) for key in "VW" if f"{key}.{name}" in saved.tensors]
    if len(weights) == 1 or any(x.shape != (2 * d, 2 * d) for x in weights):
        raise InputRejected(f"V.{name} and W.{name} are not two matrices of size {2 * d}", "give both, or neither")
    rows, *trained = ([[rational(x) for x in row] for row in M.tolist()] for M in (Z, *weights))
    labels = None if star is None else [rational(x) for x in star.tolist()]
    return Context(name, rows, exact, rational(C1), rational(C2), int(layers), int(steps), labels, *trained)


def _batch(saved: Saved) -> Batch:
    Z = _array(saved, "batch", np.float64, 3)
    theta = _array(saved, "batch_theta", np.int64, 2)
    below = _array(saved, "batch_denominator", np.int64, 1)
    eta = _control(saved, "batch_eta")
    if theta.shape != (Z.shape[0], Z.shape[2]) or below.shape != Z.shape[:1] or below.min(initial=1) < 1 or eta <= 0:
        raise InputRejected("the tensors of the batch do not fit together, or batch_eta is not positive", _REMEDY)
    starts = [[fmpq(x, q) for x in row] for row, q in zip(theta.tolist(), below.tolist(), strict=True)]
    return Batch([[[rational(x) for x in row] for row in rows] for rows in Z.tolist()], starts, rational(eta))


def _table(saved: Saved, name: str, columns: int) -> list[list[int]]:
    if name not in saved.tensors:
        return []
    table = _array(saved, name, np.int64, 2)
    if table.shape[1] != columns or table.min(initial=1) < 1:
        raise InputRejected(f"{name} has no rows of {columns} positive integers", _REMEDY)
    rows: list[list[int]] = table.tolist()
    return rows


def _array(saved: Saved, name: str, dtype: Any, axes: int) -> Any:
    array = saved.tensors.get(name)
    if array is None or array.ndim != axes or array.dtype != dtype:
        raise InputRejected(f"{name} is missing, or not of {axes} axes and type {np.dtype(dtype).name}", _REMEDY)
    return array


def _control(saved: Saved, name: str) -> Fraction:
    value = control(saved, name)
    if max(abs(value.numerator), value.denominator) >= 10**30:
        raise InputRejected(f"the control {name} has more than 30 digits", "give a simpler number")
    return value
