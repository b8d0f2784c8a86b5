"""A state of the case ngd as a checker reads it: in rationals, from the tensors and controls alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from certify.checker.document import Beyond, Claim, Rejected, integer

THEOREM = "cases/ngd/README.md#"
_CONTROLS = ("denominator", "C1", "C2", "layers", "steps")
_NAME = re.compile(r"(Z|theta|start|star|V|W)\.([a-z0-9-]{1,40})")
#: Tensors beside those of contexts: element type and number of axes.
_TABLES = {"accuracies": ("int64", 2), "population": ("int64", 2), "closed": ("int64", 2)}
_BATCH = {"batch": ("float64", 3), "batch_theta": ("int64", 2), "batch_denominator": ("int64", 1)}


@dataclass(frozen=True)
class Examples:
    """A context: examples z_i, where the layers start, their scalars, and perhaps the separator that made the labels."""

    name: str
    Z: list[list[Fraction]]
    theta: list[Fraction]
    C1: Fraction
    C2: Fraction
    layers: int
    steps: int
    star: list[Fraction] | None
    trained: list[list[list[Fraction]]]

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.Z)

    @property
    def d(self) -> int:
        """In how many dimensions."""
        return len(self.theta)


def examples(context: Any, name: Any) -> Examples:
    """The context of that name, once."""
    if not isinstance(name, str) or f"Z.{name}" not in context.saved.tensors:
        raise Rejected("it is about no context of the state file")
    found: Examples = context.cached(("ngd", name), lambda: _examples(context, name))
    return found


def _examples(context: Any, name: str) -> Examples:
    Z, theta = rows(context, f"Z.{name}", "float64", 2), rows(context, f"theta.{name}", "int64", 1)
    below, C1, C2, layers, steps = (control(context, f"{key}.{name}") for key in _CONTROLS)
    if len(Z) < 2 or not theta or any(len(row) != len(theta) for row in Z):
        raise Rejected(f"the shapes of the context {name} do not fit together")
    if min(below, C1, C2) <= 0 or min(layers, steps) < 0 or any(x.denominator > 1 for x in (below, layers, steps)):
        raise Rejected(f"a control of the context {name} is out of its range")
    exact = [x / below for x in theta]
    if rows(context, f"start.{name}", "float64", 1) != [Fraction(float(x)) for x in exact]:
        raise Rejected(f"start.{name} is not the rounded theta.{name}")
    star = rows(context, f"star.{name}", "float64", 1) if f"star.{name}" in context.saved.tensors else None
    if star is not None and len(star) != len(theta):
        raise Rejected(f"the shapes of the context {name} do not fit together")
    trained = [rows(context, f"{key}.{name}", "float64", 2) for key in "VW" if f"{key}.{name}" in context.saved.tensors]
    if len(trained) == 1 or any(len(row) != 2 * len(theta) for M in trained for row in [M, *M]):
        raise Rejected(f"the trained weights of the context {name} do not fit together")
    return Examples(name, Z, exact, C1, C2, int(layers), int(steps), star, trained)


def rows(context: Any, name: str, dtype: str, axes: int) -> Any:
    """A tensor as nested lists of Fractions."""
    tensor = context.saved.tensors.get(name)
    if tensor is None or tensor.dtype != dtype or len(tensor.shape) != axes:
        raise Rejected(f"the state file has no tensor {name} of {axes} axes and type {dtype}")
    if prod(tensor.shape) > 20_000:
        raise Beyond(f"{name} is larger than this checker takes")
    found: list[Any] = [Fraction(x) for x in tensor.values()]
    for length in tensor.shape[:0:-1]:
        found = [found[k : k + length] for k in range(0, len(found), length)] if length else []
    return found


def control(context: Any, name: str) -> Fraction:
    """A control by name."""
    if name not in context.controls:
        raise Rejected(f"the state gives no control {name}")
    return Fraction(context.controls[name])


def require_subject(context: Any) -> None:
    """Tensors and controls make a state of this case: known names, and contexts that are complete."""
    names = []
    for key in context.saved.tensors:
        match = _NAME.fullmatch(key)
        if match is None and key not in _TABLES and key not in _BATCH:
            raise Rejected(f"{key} is no tensor of this case")
        names += [match[2]] if match and match[1] == "Z" else []
    for name in names:
        examples(context, name)
    owners = {match[2] for key in context.saved.tensors if (match := _NAME.fullmatch(key))}
    if not names or owners != set(names):
        raise Rejected("the state has no context, or tensors of one without examples")
    wanted = {f"{key}.{name}" for name in names for key in _CONTROLS}
    wanted |= {"batch_eta"} if "batch" in context.saved.tensors else set()
    if set(context.controls) != wanted:
        raise Rejected("the controls are not exactly those of its contexts and batch")


def layers_of(claim: Claim, most: int) -> int:
    """After how many layers a claim holds."""
    return integer(claim["parameters"].get("layers"), 1, most, "the number of layers")


def table(context: Any, name: str) -> list[tuple[int, ...]]:
    """The rows of a table of positive integers."""
    found = rows(context, name, *_TABLES[name])
    if any(x < 1 for row in found for x in row):
        raise Rejected(f"{name} holds a number that is not positive")
    return [tuple(int(x) for x in row) for row in found]


def require_certified(claim: Claim) -> None:
    """Claims of this case that are not undecided are certified: none of them can be refuted."""
    if claim["verdict"] != "certified":
        raise Rejected("claims of its kind are certified or undecided")
