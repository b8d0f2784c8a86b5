"""Order models: how a sum of terms becomes a fixed sequence of additions.

An order model is one function. It is given an arithmetic and the terms of a sum, and adds them with the arithmetic's
own operation. So the same function says what the program computes (in a format), encloses it, and expands it into
scalar nodes (`certify.graph.lower`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from certify.errors import InputRejected
from certify.graph.graph import Graph


class Adds(Protocol):
    """The part of an arithmetic that an order model needs."""

    def add(self, a: Any, b: Any) -> Any:
        """Lanewise a + b."""
        ...


Order = Callable[[Adds, Callable[[int], Any], int], Any]


def serial(arithmetic: Adds, term: Callable[[int], Any], n: int) -> Any:
    """Left to right, unfused: fl(... fl(fl(t0 + t1) + t2) ... + t(n-1)), products rounded before they are added.

    A structural zero among the terms adds exactly nothing, so skipping it computes the same number.
    """
    total = term(0)
    for k in range(1, n):
        total = arithmetic.add(total, term(k))
    return total


ORDERS: dict[str, Order] = {"serial": serial}


def with_order(graph: Graph, order: str | None) -> Graph:
    """`graph` with its sums evaluated in the named order, or left open. Raises InputRejected if there is no model."""
    if order is not None and order not in ORDERS:
        raise InputRejected(f"there is no order model {order!r}", f"use one of {', '.join(ORDERS)}")
    return replace(graph, order=order)
