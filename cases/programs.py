"""Which program a claim is about: its order of sums, its semantics, and what it takes for granted of the arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from certify.arithmetic import Format, Overflow, format_named
from certify.graph import Graph, order_named, with_order

#: How every operation of a program rounds, as claims about it assume.
TO_NEAREST = "every operation rounds to nearest, ties to even"


def order_in(order: str, format: Format) -> str:
    """The order for programs in `format`: without its accumulator where that cannot hold the format's numbers."""
    model = order_named(order)
    narrow = model.accumulator and not format_named(model.accumulator).contains(format)
    return replace(model, accumulator="").name if narrow else model.name


def semantics_of(order: str | None) -> str:
    """What claims about a program with this order of sums are about: that program, or every order."""
    return "any-order" if order_named(order or "serial").is_any else "program"


def one_program(graph: Graph) -> Graph:
    """The graph with an order that is one program: its own, or serial for one that stands for all orders."""
    return with_order(graph, order_named(graph.order or "serial").program.name)


def program_assumptions(format: Format, order: str | None, own: Iterable[str] = ()) -> list[str]:
    """What every claim about a program takes for granted about its arithmetic; `own` are the formats of single instructions."""
    own, model = tuple(own), order_named(order or "serial")
    sums = {
        "any-order": "sums are evaluated in any order, with or without fused multiply-add",
        "fma": "sums are evaluated in the order serial, every product fused into the sum",
    }
    unfused = f"sums are evaluated in the order {replace(model, accumulator='').name}, without fused multiply-add"
    marked = ", or to the format that its operation is marked with" if own else ""
    wider = [f"products are added in {model.accumulator}, every total is rounded once to {format.name}{marked}"]
    return [
        _described(format),
        *(f"operations marked as such are in {_described(format_named(name))}" for name in own),
        TO_NEAREST,
        sums.get(model.kind, unfused),
        *(wider if model.accumulator else []),
        "the stored binary64 inputs are converted to the format by one rounding to nearest",
    ]


def _described(format: Format) -> str:
    below = "with subnormals flushed to zero" if format.flush else "with subnormals"
    above = {Overflow.INFINITY: "", Overflow.NAN: ", overflow gives NaN", Overflow.SATURATE: ", overflow saturates"}
    range = f"precision {format.precision}, exponents {format.emin} to {format.emax}"
    return f"{format.name}: {range}, {below}{above[format.overflow]}"
