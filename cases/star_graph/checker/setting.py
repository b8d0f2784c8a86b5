"""The state as the checker reads it: edge orders with their probabilities, and what statements call them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any

from certify.checker.document import Rejected, binary64

EDGES = (("star", "v"), ("v", "end"), ("star", "v'"), ("v'", "end'"))
LABELS = ("star", "v", "end", "v'", "end'")
WEIGHTS = ("content_1", "position_1", "content_2", "position_2")
CONTROLS = ("gamma", "probe_denominator", "star_start", "star_end")
_FIXED = {"probe": (4, 10, 10), "countdown": (1, 4), "assignment": (1, 7), **dict.fromkeys(WEIGHTS, (10, 10))}
_ROWS = {"orders": (4,), "law": (), "star_edges": (2,), "clauses": (3,)}
#: How many rows a tensor may have.
MOST = 10_000


@dataclass
class Setting:
    """Edge orders as sequences of labels, and the probability of each."""

    orders: list[tuple[int, ...]]
    shares: list[Fraction]

    @property
    def sequences(self) -> list[list[str]]:
        """The ten tokens of the first step, by order."""
        return [[x for k in order for x in EDGES[k]] + ["end", "star"] for order in self.orders]

    @property
    def instances(self) -> int:
        """How many labelings of ten labels these stand for: 10 * 9 * 8 * 7 * 6 of each order."""
        return 10 * 9 * 8 * 7 * 6 * len(self.orders)

    @property
    def law(self) -> str:
        """What statements call the law."""
        how = "uniform over" if len(set(self.shares)) == 1 else "that of `law` over"
        return f"law: {how} {len(self.orders)} edge orders"

    def mean(self, values: list[Fraction]) -> Fraction:
        """The mean of a number per order."""
        return sum((p * x for p, x in zip(self.shares, values, strict=True)), Fraction(0))


def require_subject(context: Any) -> None:
    """Tensors and controls are a state of this case; raises Rejected."""
    tensors = context.saved.tensors
    names = {*_FIXED, *_ROWS}
    if missing := sorted(names - set(tensors)) or sorted(set(CONTROLS) - set(context.controls)):
        raise Rejected(f"the state has no {missing[0]}")
    for name in names:
        shape, dtype = tuple(tensors[name].shape), "float64" if name in WEIGHTS else "int64"
        fits = shape == _FIXED[name] if name in _FIXED else shape[1:] == _ROWS[name] and 0 < shape[0] <= MOST
        if not fits or tensors[name].dtype != dtype:
            raise Rejected(f"the tensor {name} has not the shape and type of this case")
    if context.controls["probe_denominator"] < 1 or not 0 <= context.controls["gamma"] <= 100:
        raise Rejected("probe_denominator is not positive, or gamma is not between 0 and 100")
    if any(context.controls[name].denominator != 1 for name in ("star_start", "star_end")):
        raise Rejected("star_start or star_end is no integer")
    setting_of(context)


def setting_of(context: Any) -> Setting:
    """The law of the state; raises Rejected."""
    return context.cached(("star_graph", "setting"), lambda: _setting(context))  # type: ignore[no-any-return]


def rows(context: Any, name: str) -> list[list[int]]:
    """An integer tensor as rows."""
    tensor = context.saved.tensors[name]
    width = tensor.shape[-1] if len(tensor.shape) > 1 else 1
    flat = [int(x) for x in tensor.values()]
    return [flat[k : k + width] for k in range(0, len(flat), width)]


def number_of(text: Any) -> Fraction:
    """A binary64 number as a rational."""
    return Fraction(binary64(text))


def _setting(context: Any) -> Setting:
    orders = [tuple(row) for row in rows(context, "orders")]
    weights = [row[0] for row in rows(context, "law")]
    if len(orders) != len(weights) or len(set(orders)) < len(orders) or not set(orders) <= set(permutations(range(4))):
        raise Rejected("orders and law are not distinct permutations with a weight each")
    if not all(0 < x <= 1 << 20 for x in weights):
        raise Rejected("a weight of law is not an integer from 1 to 2**20")
    return Setting(orders, [Fraction(x, sum(weights)) for x in weights])
