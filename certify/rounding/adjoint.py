"""Adjoint bounds: every rounding counts with how far it moves a result in the end, not with how far it may spread.

**Theorem** (docs/theory/adjoint.md#adjoint). Let the running analysis prove that nothing overflows in the region, and let A_k
be intervals that hold the adjoints of a result over the secants of the program. Then for every input in the region

    |computed - exact| <= sum_k r_k max |A_k|,

r_k being the local term of node k. Two paths from one rounding to the result may cancel here; in the running bounds they add
up. The bound of a result is the smaller of this and the running one, so it is never looser than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from certify.arithmetic import Format, format_named
from certify.arithmetic.libm import Libm, chosen_library
from certify.errors import InputRejected
from certify.graph import ZERO, Graph, order_named
from certify.graph.graph import Ids
from certify.rounding.bounds import Bounds
from certify.rounding.region import Floats, Region
from certify.rounding.running import analysed, arithmetic_of
from certify.rounding.secants import secants
from certify.rounding.shares import Share, shares
from certify.rounding.sweep import Sweep, products
from certify.rounding.together import MOST_RESULTS, norm_together


@dataclass(frozen=True, kw_only=True)
class Adjoint(Bounds):
    """Running bounds of every node, and sharper ones of the elements of some outputs.

    `elements[name]` bounds the error of each element of an output that was asked for, in its shape. `norms[name]`
    bounds their Euclidean norm. `influence`, shape (n_inputs,), says how far each input entry moves a result, about. `sweep`
    is that of the region, or of its part with the largest bound; None where an overflow is not excluded.
    """

    elements: Mapping[str, Floats]
    norms: Mapping[str, float] = field(default_factory=dict)
    influence: Floats
    sweep: Sweep | None = None

    def error_of(self, output: str) -> Floats:
        """As `Bounds.error_of`, and never larger."""
        error = super().error_of(output)
        return np.minimum(error, self.elements[output]) if output in self.elements else error

    def norm_of(self, output: str) -> float:
        """As `Bounds.norm_of`, and never larger."""
        return min(super().norm_of(output), self.norms.get(output, float("inf")))

    def shares(self, by: str = "register", output: str | None = None) -> list[Share]:
        """Where the bound of an output comes from, the largest share first: `certify.rounding.shares.shares`."""
        return shares(self, by, output)


def adjoint(
    graph: Graph,
    format: Format,
    region: Region,
    outputs: Iterable[str] | None = None,
    *,
    libm: str | Libm | None = None,
    splits: int = 0,
) -> Adjoint:
    """Adjoint bounds of the program `graph` in `format`, for every exact input in `region`.

    Parameters
    ----------
    graph, format, region, libm : as for `running`, whose bounds these refine.
    outputs : the outputs to refine, all by default. Time grows with the number of their elements.
    splits : how many times to cut the region in two (`certify.rounding.splitting`): tighter where it is wide.

    Raises
    ------
    OrderUnspecified : the graph has sums without an order.
    InputRejected : an input is missing, there is no such output, or `splits` is negative.
    """
    names = list(graph.outputs) if outputs is None else list(outputs)
    for name in names:
        if name not in graph.outputs:
            raise InputRejected(f"there is no output {name!r}", f"name some of {', '.join(graph.outputs)}")
    if splits < 0:
        raise InputRejected(f"a region cannot be split {splits} times", "give a number that is not negative")
    library = chosen_library(libm, [format, *map(format_named, graph.format_names)])
    found = on_box(graph, format, region, names, library)
    if splits and not region.is_point:
        from certify.rounding.splitting import split

        return split(found, region, splits, lambda part: on_box(graph, format, part, names, library))
    return found


def on_box(graph: Graph, format: Format, region: Region, names: list[str], libm: Libm) -> Adjoint:
    """Adjoint bounds of the named outputs, from one sweep over the whole region."""
    arithmetic = arithmetic_of(graph, format, libm)
    bounds, values = analysed(graph, arithmetic, format, region)
    rows = bounds.low, bounds.high, bounds.error, bounds.peak, bounds.libm
    # the theorem needs finite enclosures, and that of any order one format
    mixed = bool(graph.format_names) and graph.order is not None and order_named(graph.order).is_any
    if mixed or bounds.first_overflow() is not None:
        return Adjoint(graph, format, *rows, elements={}, influence=np.ones(graph.n_inputs))
    sweep = Sweep(secants(graph, arithmetic, values))
    nodes = unique_nodes(graph, names)
    found, influence = np.full(graph.n_nodes + 1, np.inf), np.zeros(graph.n_inputs)
    norms = dict.fromkeys(names, float("inf"))
    for part, mid, sizes in sweep.blocks(nodes):
        found[nodes[part]] = products(sweep.secants.local, sizes)
        influence = np.maximum(influence, sizes[: graph.n_inputs].max(axis=1, initial=0.0))
        norms = {name: min(norms[name], _norm(bounds, name, nodes[part], sweep, mid, sizes)) for name in names}
    elements = {
        name: np.where(graph.outputs[name].ids == ZERO, np.inf, found[graph.outputs[name].ids]) for name in names
    }
    return Adjoint(graph, format, *rows, elements=elements, norms=norms, influence=influence, sweep=sweep)


def _norm(bounds: Bounds, name: str, nodes: Ids, sweep: Sweep, mid: Floats, sizes: Floats) -> float:
    """The norm of an output all of whose elements are among `nodes`, and infinity otherwise."""
    ids = bounds.graph.outputs[name].ids
    live = ids[ids != ZERO]
    constant = bounds.error_of(name)[ids == ZERO]
    if constant.any() or not 1 < len(live) <= MOST_RESULTS or not np.isin(live, nodes).all():
        return float("inf")
    columns = np.searchsorted(nodes, live)
    return norm_together(sweep.secants.local, sweep.middles(mid)[:, columns], sizes[:, columns])


def unique_nodes(graph: Graph, names: Iterable[str]) -> Ids:
    """The nodes of some outputs, once each."""
    ids = [graph.outputs[name].ids.ravel() for name in names]
    every = np.unique(np.concatenate(ids)) if ids else np.zeros(0, dtype=np.int32)
    return np.asarray(every[every != ZERO], dtype=np.int32)
