"""The cheapest formats of a kernel's registers that still certify a tolerance.

**What is proved of the program found.** Its running bounds (docs/theory/rounding.md#own-formats) show that nothing overflows,
each operation in its own format, and that every output with a tolerance is within it. Nothing about the search enters that.

**How much cheaper it could be.** Two lower bounds of the cost stand beside it:

- `Tuned.least` is proved, of every program that these running bounds certify (`certify.rounding.unavoidable`). It says nothing
  of sharper bounds: a program may be more accurate than its running bounds prove.
- `Tuned.alone` adds up what each register would cost in its cheapest format that is certified *while all others have the
  finest*. It is a lower bound too if the bounds are monotone: if refining the other registers never turns a certified program
  into one that is not. For then every format in a certified program is one that its register can have alone. That is measured,
  not proved (docs/theory/tuning.md#alone). Either may be the sharper of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from certify.arithmetic import Format, format_named
from certify.arithmetic.directed import relaxed_up
from certify.arithmetic.libm import Libm
from certify.errors import InputRejected, Undecided
from certify.graph import Graph, order_named
from certify.rounding.assignments import Assignment, Assignments, coarse_to_fine
from certify.rounding.bounds import Bounds
from certify.rounding.region import Region
from certify.rounding.running import running
from certify.rounding.unavoidable import least_cost

DEFAULT_FORMATS = ("float16", "bfloat16", "float32")
#: Tried when none of the default formats certifies the tolerance.
LAST_FORMAT = "float64"
#: How many programs the exchanges of two registers may look at.
MOST_EXCHANGES = 400

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Tuned:
    """A program with a format for each register that certifies the tolerance.

    Attributes
    ----------
    graph, format : the program, its inputs converted to `format` first.
    formats : of every register its format.
    lanes : of every register how many numbers it stores.
    bounds : the running bounds of the program.
    eps : of every output with a tolerance the bound of its norm, as a report publishes it.
    shares : of every register about the share of the tolerance that its format takes: what the bound grows by if it has this
        format and all others the finest, as a fraction of the tolerance; the largest over the outputs. For guidance.
    cost, uniform : the cost of the program, and of the same registers all in `finest`.
    least, alone : lower bounds of the cost, proved and measured (see above).
    finest : the finest format considered, in which alone the whole kernel certifies the tolerance.
    tried : how many programs were bounded.
    """

    graph: Graph
    format: Format
    formats: Mapping[str, str]
    lanes: Mapping[str, int]
    bounds: Bounds
    eps: Mapping[str, float]
    shares: Mapping[str, float]
    cost: Fraction
    uniform: Fraction
    least: Fraction
    alone: Fraction
    finest: str
    tried: int

    @property
    def saved(self) -> float:
        """The share of the uniform program's cost that is saved, 0 to 1."""
        return float(1 - self.cost / self.uniform) if self.uniform else 0.0

    @property
    def most(self) -> float:
        """The share that no program which the running bounds certify can save more than."""
        return float(1 - self.least / self.uniform) if self.uniform else 0.0


def tune(
    graph: Graph,
    region: Region,
    tol: float | Mapping[str, float],
    *,
    formats: Sequence[str | Format] | None = None,
    cost: Mapping[str, float] | None = None,
    by_layer: bool = True,
    libm: str | Libm | None = None,
    progress: Progress = lambda done, total, what: None,
) -> Tuned:
    """The cheapest formats found for the registers of `graph` that certify `tol` for every input in `region`.

    Deterministic: it starts with every register in the finest format, lowers those first that save most for what they take
    of the tolerance, and then exchanges registers in pairs. Every program it accepts is bounded as a whole.

    Parameters
    ----------
    graph : a traced kernel with an order. Operations with a format of their own keep it.
    region : the exact inputs.
    tol : the largest Euclidean (Frobenius) norm of the error of each output; or of some outputs by name, the others being free
        as long as nothing overflows.
    formats : the candidates. None: float16, bfloat16 and float32, and float64 where float32 does not certify.
    cost : what a stored number of a format costs, by its name. None: its bits.
    by_layer : whether a register may have different formats in different layers.
    libm : as for `running`.
    progress : called with (done, total, what).

    Raises
    ------
    Undecided : no candidate certifies the tolerance when the whole kernel is computed in it.
    InputRejected : a tolerance, a format or a cost is unusable, or as for `running`.
    OrderUnspecified : the graph has sums without an order.
    """
    tolerances = _tolerances(graph, tol)
    candidates = coarse_to_fine(DEFAULT_FORMATS if formats is None else formats)
    if not candidates:
        raise InputRejected("no format is given", "name at least one, such as float16")
    last = coarse_to_fine([LAST_FORMAT]) if formats is None and cost is None and _holds(graph, LAST_FORMAT) else ()
    finest = next((f for f in (*reversed(candidates), *last) if _certifies(graph, f, region, tolerances, libm)), None)
    if finest is None:
        named = ", ".join(f.name for f in (*candidates, *last))
        wanted = ", ".join(f"{value:g} in {name}" for name, value in tolerances.items())
        raise Undecided(
            f"none of {named} certifies {wanted}", "add a finer format, or take a larger tolerance or a smaller region"
        )
    others = tuple(f for f in candidates if f != finest)
    search = _Search(Assignments(graph, (*others, finest), cost, by_layer=by_layer), region, tolerances, libm, progress)
    found = search.run()
    best = search.bounded(found)
    assert best is not None  # the search ends at a program that it certified
    shares = {name: search.share(k, f) for k, (name, f) in enumerate(zip(search.space.names, found, strict=True))}
    finer = running(graph, finest, region, libm=libm)
    errors = {name: [bounds.error_of(name) for bounds in (best, finer)] for name in tolerances}
    return Tuned(
        graph=best.graph,
        format=best.format,
        formats=dict(zip(search.space.names, (search.space.formats[f].name for f in found), strict=True)),
        lanes=dict(zip(search.space.names, search.space.lanes, strict=True)),
        bounds=best,
        eps={name: relaxed_up(best.norm_of(name)) for name in tolerances},
        shares=shares,
        cost=search.space.cost(found),
        uniform=search.space.cost(search.space.uniform(search.finest)),
        least=least_cost(search.space, region, tolerances, errors),
        alone=search.cheapest_alone(),
        finest=finest.name,
        tried=search.tried,
    )


def _tolerances(graph: Graph, tol: float | Mapping[str, float]) -> dict[str, float]:
    given = dict(tol) if isinstance(tol, Mapping) else dict.fromkeys(graph.outputs, float(tol))
    for name, value in given.items():
        if name not in graph.outputs:
            raise InputRejected(f"there is no output {name!r}", f"name some of {', '.join(graph.outputs)}")
        if not (np.isfinite(value) and value > 0):
            raise InputRejected(f"the tolerance {value!r} of {name} is no error bound", "give a positive number")
    if not given:
        raise InputRejected("no output has a tolerance", f"give one for some of {', '.join(graph.outputs)}")
    return given


def _holds(graph: Graph, format: str) -> bool:
    """Whether the accumulator of the graph's sums, if they have one, holds the numbers of a format."""
    accumulator = order_named(graph.order or "serial").accumulator
    return not accumulator or format_named(accumulator).contains(format_named(format))


def _certifies(
    graph: Graph, format: Format, region: Region, tolerances: Mapping[str, float], libm: str | Libm | None
) -> Bounds | None:
    """The bounds of a program if they prove its range and its tolerances, by the numbers that a report publishes."""
    bounds = running(graph, format, region, libm=libm)
    if bounds.first_overflow() is not None:
        return None
    within = all(relaxed_up(bounds.norm_of(name)) <= tol for name, tol in tolerances.items())
    return bounds if within else None


class _Search:
    """One search: programs that were bounded are remembered by the norms of their errors."""

    def __init__(
        self,
        space: Assignments,
        region: Region,
        tolerances: Mapping[str, float],
        libm: str | Libm | None,
        progress: Progress,
    ) -> None:
        self.space, self.finest, self.tried = space, len(space.formats) - 1, 0
        self._region, self._tolerances, self._libm, self._progress = region, tolerances, libm, progress
        self._known: dict[Assignment, float] = {}
        self._base = space.uniform(self.finest)

    def bounded(self, assignment: Assignment) -> Bounds | None:
        """The bounds of a program, if they certify it."""
        return _certifies(*self.space.program(assignment), self._region, self._tolerances, self._libm)

    def used(self, assignment: Assignment) -> float:
        """The largest share of a tolerance that the bound of a program takes: at most 1, or infinite if it is not certified."""
        if assignment not in self._known:
            self.tried += 1
            bounds = self.bounded(assignment) if self._has_scales(assignment) else None
            shares = (
                [] if bounds is None else [relaxed_up(bounds.norm_of(n)) / tol for n, tol in self._tolerances.items()]
            )
            self._known[assignment] = max(shares, default=np.inf)
        return self._known[assignment]

    def certified(self, assignment: Assignment) -> bool:
        """Whether the bounds of a program prove its range and its tolerances."""
        return self.used(assignment) < np.inf

    def share(self, register: int, format: int) -> float:
        """What a register takes of the tolerance in this format, all others in the finest."""
        return self.used(self._with(self._base, register, format)) - self.used(self._base)

    def cheapest_alone(self) -> Fraction:
        """The cost with every register in its cheapest format that is certified alone."""
        costs = self.space.costs
        cheapest = [
            min((f for f in range(len(costs)) if self.certified(self._with(self._base, r, f))), key=lambda f: costs[f])
            for r in range(len(self.space.names))
        ]
        return self.space.cost(tuple(cheapest))

    def run(self) -> Assignment:
        """The cheapest program found."""
        moves = self._moves()
        starts = [self.space.uniform(f) for f in range(len(self.space.formats))]
        uniform = [start for start in starts if self.certified(start)]
        found = [self._exchanged(self._lowered(self._base, moves), moves), *uniform]
        return min(found, key=self.space.cost)  # which is stable: the earlier of equal ones

    def _moves(self) -> list[tuple[int, int]]:
        """Registers with cheaper formats that are certified alone, the best saving for their share of the tolerance first."""
        costs, count = self.space.costs, len(self.space.names)
        found = []
        for r in range(count):
            self._progress(r, count, f"alone: {self.space.names[r]}")
            for f in range(self.finest):
                if costs[f] < costs[self.finest] and self.certified(self._with(self._base, r, f)):
                    saving = float(self.space.lanes[r] * (costs[self.finest] - costs[f]))
                    found.append((max(self.share(r, f), 0.0) / saving if saving else 0.0, r, -f))
        self._progress(count, count, "alone: done")
        return [(r, -f) for _, r, f in sorted(found)]  # of equal ones the finer format

    def _lowered(self, start: Assignment, moves: Sequence[tuple[int, int]]) -> Assignment:
        """`start` with the moves applied in this order, each that keeps the program certified and makes it cheaper.

        As many as possible at once: a stretch that fails is halved, and one that succeeds doubles the next.
        """
        costs, rest, stretch = self.space.costs, list(moves), len(moves)
        while rest:
            rest = [(r, f) for r, f in rest if costs[f] < costs[start[r]]]
            if not rest:
                break
            self._progress(1, 1, f"{float(1 - self.space.cost(start) / self._whole):.0%} saved, {len(rest)} moves left")
            stretch = max(min(stretch, len(rest)), 1)
            tried = start
            for r, f in rest[:stretch]:
                if costs[f] < costs[tried[r]]:
                    tried = self._with(tried, r, f)
            if self.certified(tried):
                start, rest, stretch = tried, rest[stretch:], stretch * 2
            elif stretch == 1:
                rest = rest[1:]
            else:
                stretch //= 2
        return start

    def _exchanged(self, found: Assignment, moves: Sequence[tuple[int, int]]) -> Assignment:
        """`found` after exchanges: one register back to the finest, for another one and what then still fits."""
        tried_before, better = self.tried, True
        while better and self.tried - tried_before < MOST_EXCHANGES:
            better = False
            for raised, lowered in self._exchanges(found, moves):
                if self.tried - tried_before >= MOST_EXCHANGES:
                    break
                start = self._with(self._with(found, raised, self.finest), *lowered)
                if not self.certified(start):
                    continue
                others = [(r, f) for r, f in moves if r != raised]
                then = self._lowered(start, others)
                if self.space.cost(then) < self.space.cost(found):
                    found, better = then, True
                    break
        return found

    def _exchanges(self, found: Assignment, moves: Sequence[tuple[int, int]]) -> list[tuple[int, tuple[int, int]]]:
        """Pairs worth a try: lowering the second saves more than raising the first costs, and takes no more than is left."""
        costs, lanes = self.space.costs, self.space.lanes
        left = 1.0 - self.used(found)
        pairs = []
        for raised, f in enumerate(found):
            if f == self.finest:
                continue
            loss = lanes[raised] * (costs[self.finest] - costs[f])
            freed = left + self.share(raised, f)
            for r, g in moves:
                gain = lanes[r] * (costs[found[r]] - costs[g])
                if r != raised and gain > loss and self.share(r, g) <= freed:
                    pairs.append((loss - gain, raised, (r, g)))
        return [(raised, lowered) for _, raised, lowered in sorted(pairs)]

    @property
    def _whole(self) -> Fraction:
        return self.space.cost(self._base) or Fraction(1)

    def _has_scales(self, assignment: Assignment) -> bool:
        return all(self.space.possible(r, f) for r, f in enumerate(assignment))

    @staticmethod
    def _with(assignment: Assignment, register: int, format: int) -> Assignment:
        return (*assignment[:register], format, *assignment[register + 1 :])
