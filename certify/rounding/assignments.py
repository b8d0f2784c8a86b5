"""The registers of a graph with a format for each: which programs those are, and what it costs to store their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import PurePath

import numpy as np

from certify.arithmetic import Format, format_named
from certify.errors import InputRejected
from certify.graph import Graph, Op, with_stored_inputs

#: Of every register the place of its format in `Assignments.formats`.
Assignment = tuple[int, ...]

_INPUT = "input "


class Assignments:
    """Every program that a graph becomes when each of its registers has one of several formats.

    A register is the variable that a line of the kernel assigns to, in one layer; without a variable, the line; or an input.
    Operations that have a format of their own in the kernel keep it, and belong to no register here.

    Attributes
    ----------
    graph : the kernel.
    formats : the candidates, from coarse to fine.
    names : the registers: inputs, then lines in the order in which they run.
    lanes : how many numbers each of them stores: entries of an input, results of instructions.
    costs : what a stored number costs, of every candidate.
    fixed : what the operations with a format of their own cost.
    """

    def __init__(
        self,
        graph: Graph,
        formats: Sequence[Format],
        cost: Mapping[str, float] | None = None,
        *,
        by_layer: bool = True,
    ) -> None:
        """`cost` says what one stored number of a format costs, by its name; its bits, if None.

        Raises
        ------
        InputRejected : `cost` lacks a format, or has a cost that is negative or not finite.
        """
        self.graph, self.formats = graph, tuple(formats)
        own = tuple(map(format_named, graph.format_names))
        known = {format.name: _cost(format, cost) for format in (*self.formats, *own)}
        self.costs = tuple(known[format.name] for format in self.formats)
        labels = [_label(graph, k, by_layer) for k in range(len(graph))]
        size = np.diff(graph.start).tolist()
        lanes: dict[str, int] = {}
        scales: dict[str, set[int]] = {}
        for block in graph.inputs:
            if block.stop > block.start:
                lanes[_INPUT + block.name] = block.stop - block.start
        self.fixed = Fraction(0)
        for k, label in enumerate(labels):
            if graph.format[k] >= 0:
                self.fixed += size[k] * known[own[graph.format[k]].name]
            elif size[k]:
                lanes[label] = lanes.get(label, 0) + size[k]
                if graph.op[k] == Op.SCALE:
                    scales.setdefault(label, set()).add(int(graph.exponent[k]))
        self.names, self.lanes = tuple(lanes), tuple(lanes.values())
        at = {name: k for k, name in enumerate(self.names)}
        tuned = (graph.format < 0) & (np.diff(graph.start) > 0)
        self._register = np.array(
            [at[label] if mine else -1 for label, mine in zip(labels, tuned, strict=True)], dtype=int
        )
        self._scales = [scales.get(name, set()) for name in self.names]

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """The nodes of each register, in the kernel's graph: register, first node, one past the last."""
        for block in self.graph.inputs:
            if block.stop > block.start:
                yield self.names.index(_INPUT + block.name), block.start, block.stop
        for k, register in enumerate(self._register.tolist()):
            if register >= 0:
                yield register, int(self.graph.start[k]), int(self.graph.start[k + 1])

    def uniform(self, format: int) -> Assignment:
        """Every register in one format."""
        return (format,) * len(self.names)

    def possible(self, register: int, format: int) -> bool:
        """Whether the format holds the powers of two that the register is scaled by."""
        return all(self.formats[format].holds_scale(exponent) for exponent in self._scales[register])

    def cost(self, assignment: Assignment) -> Fraction:
        """What all numbers that the program stores cost together: each result of an instruction, and each input, once."""
        each = (lanes * self.costs[f] for lanes, f in zip(self.lanes, assignment, strict=True))
        return self.fixed + sum(each, Fraction(0))

    def program(self, assignment: Assignment) -> tuple[Graph, Format]:
        """The graph with these formats, and the program's format, to which the inputs are converted first.

        Of several formats that is the finest in `formats`; inputs in another one are cast to it. If all registers have one
        format, it is the program's.
        """
        if len(set(assignment)) == 1:
            return self.graph, self.formats[assignment[0]]
        finest = len(self.formats) - 1
        names = {name: k for k, name in enumerate(self.graph.format_names)}
        table = [names.setdefault(self.formats[f].name, len(names)) if f != finest else -1 for f in assignment]
        moved = np.append(np.array(table, dtype=np.int32), -1)[self._register]
        used = tuple(names)
        graph = replace(
            self.graph,
            format=np.where(self.graph.format < 0, moved, self.graph.format).astype(np.int32),
            format_names=used,
        )
        stored = {
            name.removeprefix(_INPUT): self.formats[f].name
            for name, f in zip(self.names, assignment, strict=True)
            if name.startswith(_INPUT) and f != finest
        }
        return with_stored_inputs(graph, stored), self.formats[finest]


def _label(graph: Graph, k: int, by_layer: bool) -> str:
    place = graph.places[int(graph.place[k])]
    register = place.register or f"{PurePath(place.filename).name}:{place.line}"
    return f"{place.layer}.{register}" if by_layer and place.layer else register


def _cost(format: Format, table: Mapping[str, float] | None) -> Fraction:
    if table is None:
        return Fraction(format.bits)
    costs = {format_named(name).name: cost for name, cost in table.items()}
    if format.name not in costs:
        raise InputRejected(f"the table of costs lacks {format.name}", "give each format what one stored number costs")
    cost = costs[format.name]
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not np.isfinite(cost) or cost < 0:
        raise InputRejected(f"the cost of {format.name} is {cost!r}", "give a finite number that is not negative")
    return Fraction(cost)


def coarse_to_fine(formats: Sequence[str | Format]) -> tuple[Format, ...]:
    """Formats by precision, then by range, once each."""
    named = {f if isinstance(f, Format) else format_named(f) for f in formats}
    return tuple(sorted(named, key=lambda f: (f.precision, f.emax, f.name)))
