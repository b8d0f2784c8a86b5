"""Order models: how a sum of terms becomes a sequence of additions, or which sequences it may become.

A model of one program is a function. It is given an arithmetic and the terms of a sum, and adds them with the arithmetic's
own operation. So the same function says what the program computes (in a format), encloses it, and expands it into scalar
nodes (`certify.graph.lower`). `any-order` is no program but all of them: an arithmetic needs a rule of its own for it.

Structural zeros among the terms add exactly nothing. So skipping them computes the same number, and in a tree they only
hold a place: a tree is that over all terms of the instruction, known zeros included.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from certify.errors import InputRejected
from certify.graph.graph import Graph

Term = Callable[[int], Any]


class Adds(Protocol):
    """The part of an arithmetic that an order model needs."""

    def add(self, a: Any, b: Any) -> Any:
        """Lanewise a + b."""
        ...


def serial(arithmetic: Adds, term: Term, n: int) -> Any:
    """Left to right: fl(... fl(fl(t0 + t1) + t2) ... + t(n-1)), products rounded before they are added."""
    total = term(0)
    for k in range(1, n):
        total = arithmetic.add(total, term(k))
    return total


def pairwise(arithmetic: Adds, term: Term, n: int) -> Any:
    """The first n // 2 terms pairwise, the others pairwise, then the two sums; a single term is its own sum."""
    return _pairwise(arithmetic, term, 0, n)


def _pairwise(arithmetic: Adds, term: Term, first: int, n: int) -> Any:
    if n == 1:
        return term(first)
    half = n // 2
    left = _pairwise(arithmetic, term, first, half)
    return arithmetic.add(left, _pairwise(arithmetic, term, first + half, n - half))


def blocked(arithmetic: Adds, term: Term, n: int, size: int) -> Any:
    """Blocks of `size` consecutive terms (the last may be shorter), each summed serially, then their sums serially."""

    def block(j: int) -> Any:
        return serial(arithmetic, lambda k: term(j * size + k), min(size, n - j * size))

    return serial(arithmetic, block, -(-n // size))


@dataclass(frozen=True)
class Order:
    """One order model.

    `kind` is `serial`, `pairwise`, `blocked`, `fma` or `any-order`; `size` is the block length of `blocked`. With an
    `accumulator`, the name of a format, products are formed and added in that format, and the total is rounded once to the
    format of the program. `fma` is serial with every product of a DOT fused into the accumulation, s = fl(s + a b), the
    first product rounded once; a SUM has no products and is summed serially.
    """

    kind: str
    size: int = 0
    accumulator: str = ""

    @property
    def name(self) -> str:
        """The canonical name."""
        kind = f"{self.kind}({self.size})" if self.size else self.kind
        return f"{kind}:{self.accumulator}" if self.accumulator else kind

    @property
    def is_any(self) -> bool:
        """Whether this is all programs rather than one."""
        return self.kind == "any-order"

    @property
    def program(self) -> Order:
        """A program of this model: the model itself, and serial for `any-order`."""
        return replace(self, kind="serial") if self.is_any else self

    def total(self, arithmetic: Adds, term: Term, n: int) -> Any:
        """The sum of n >= 1 rounded terms. Not for `any-order`, nor for the products of `fma`."""
        if self.kind == "pairwise":
            return pairwise(arithmetic, term, n)
        if self.kind == "blocked":
            return blocked(arithmetic, term, n, self.size)
        return serial(arithmetic, term, n)


@lru_cache
def additions(order: Order, n: int) -> npt.NDArray[np.int64]:
    """How the model adds n terms on a stack: it pushes them in turn, and adds the topmost two so many times after each.

    Not for `any-order`. The array is shared, and read-only.
    """
    if order.kind in ("serial", "fma"):
        counts = np.ones(n, dtype=np.int64)
        counts[0] = 0
    else:
        recorded = _OnAStack()
        order.total(recorded, recorded.push, n)
        counts = np.array(recorded.counts)
    counts.flags.writeable = False
    return counts


class _OnAStack:
    """Additions of places on a stack."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.height = 0

    def push(self, k: int) -> int:
        """The place of term k, the next one."""
        assert k == len(self.counts), "a model asks for its terms in turn"
        self.counts.append(0)
        self.height += 1
        return self.height - 1

    def add(self, a: int, b: int) -> int:
        """The place of the sum."""
        assert (a, b) == (self.height - 2, self.height - 1), "a model adds the two latest results"
        self.counts[-1] += 1
        self.height -= 1
        return a


#: The models without a parameter; `order_named` knows `blocked(K)` and accumulators too.
ORDERS = {kind: Order(kind) for kind in ("serial", "pairwise", "fma", "any-order")}
ACCUMULATORS = ("float16", "float32", "float64")
_NAME = re.compile(rf"({'|'.join(ORDERS)}|blocked\(([1-9]\d{{0,8}})\))(?::({'|'.join(ACCUMULATORS)}))?")


@lru_cache
def order_named(name: str) -> Order:
    """The order model of that name: `serial`, `pairwise`, `blocked(K)`, `fma` or `any-order`, each with `:FORMAT` or not.

    Raises
    ------
    InputRejected : there is no such model.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputRejected(
            f"there is no order model {name!r}",
            f"use one of {', '.join(ORDERS)}, blocked(64); each may end in :float32 or another accumulator",
        )
    kind, size, accumulator = match.groups()
    return Order("blocked" if size else kind, int(size or 0), accumulator or "")


def with_order(graph: Graph, order: str | None) -> Graph:
    """`graph` with its sums evaluated in the named order, or left open. Raises InputRejected if there is no model."""
    return replace(graph, order=None if order is None else order_named(order).name)
