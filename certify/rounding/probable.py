"""Probable bounds: what the errors of a program with stochastic rounding exceed with a small probability only.

**Theorem** (docs/theory/probable.md#bound). Let every rounding of a program be stochastic: a result y, given all roundings
before it, becomes one of its two neighbours, and y on average. For an input of the region, with adjoints within R_k of fixed
numbers a_k, with probability at least 1 - delta

    |computed - exact| <= sqrt(log(2 / delta) / 2 sum_k a_k^2 c_k^2) + sum_k R_k c_k + sum_j |A_j| r_j,

k over the roundings that are drawn, c_k the spacing of the format below the largest result, and j over errors that are not
drawn: conversions, library functions, nodes that were cut. Of several results each has its share of delta.

All roundings of a sum or of an element of a matrix product have one adjoint, that of its node: two numbers stand for them, the
sum of their c_k and the root of the sum of squares. So there is no node for every addition and product.

Such a bound is no proof about one run, and is never put beside proved ones without its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from certify.arithmetic import Format, format_named
from certify.arithmetic.directed import norm_up, round_down
from certify.arithmetic.elementary import between
from certify.arithmetic.enclosure import step_up
from certify.arithmetic.libm import Libm, chosen_library
from certify.arithmetic.stochastic import refuse
from certify.errors import InputRejected
from certify.graph import ZERO, Graph, Op, Values, order_named
from certify.graph.evaluation import apply
from certify.graph.lowering import with_plain_sums
from certify.rounding.adjoint import unique_nodes
from certify.rounding.bounds import Bounds
from certify.rounding.local import ERROR, LOW, TINY, UP
from certify.rounding.outcomes import EveryOutcome, Squares
from certify.rounding.region import Floats, Region
from certify.rounding.running import analysed
from certify.rounding.secants import Mask, Secants, secants
from certify.rounding.sweep import Sweep, products, stretches

ASSUMPTIONS = (
    "every addition, subtraction, product, quotient, root and scaling rounds stochastically: given all roundings before "
    "it, its result is one of the two numbers of the format around the exact result, and equal to that on average",
    "inputs and constants are converted to nearest, ties to even",
)
#: Operations whose roundings are drawn: one a result, and in sums and dot products one an addition and a product. Others are
#: exact, or their errors are not drawn.
_DRAWN = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.SQRT, Op.SCALE, Op.SUM, Op.DOT)
_LEAST = 2.0**-1000


@dataclass(frozen=True, kw_only=True)
class Probable:
    """Bounds of the errors of some outputs under stochastic rounding, which all hold together with probability `confidence`.

    For each input of the region by itself, if no operation overflows in any outcome; `every_outcome.first_overflow` tells.

    Attributes
    ----------
    confidence : the probability, at least.
    elements : by output, in its shape: the bounds.
    surely : the same for every outcome of every rounding, proved without probabilities; both infinite if one may overflow.
    every_outcome : running bounds of the nodes for every outcome; in its graph overwriting is an addition like any other.
    """

    confidence: Fraction
    elements: Mapping[str, Floats]
    surely: Mapping[str, Floats]
    every_outcome: Bounds

    def error_of(self, output: str) -> Floats:
        """What |computed - exact| exceeds with probability 1 - confidence at most, for all elements of all outputs at once."""
        return self.elements[output]

    def norm_of(self, output: str) -> float:
        """The same of the Euclidean (for a matrix: Frobenius) norm of the error of an output; inf if unknown."""
        error = self.elements[output]
        return norm_up(error) if np.isfinite(error).all() else float("inf")

    def assumptions(self) -> list[str]:
        """What the probability rests on, and what the bounds assume of the library."""
        return [*ASSUMPTIONS, *self.every_outcome.assumptions()]


def probable(
    graph: Graph,
    format: Format,
    region: Region,
    outputs: Iterable[str] | None = None,
    *,
    confidence: float | str | Fraction = 0.999999,
    libm: str | Libm | None = None,
) -> Probable:
    """Bounds of `graph` in `format` with stochastic rounding, which hold with that confidence at each input in `region`.

    Parameters
    ----------
    graph, format, region, libm : as for `running`; of one format with subnormal numbers, in the order serial, pairwise or
        blocked(K). Memory and time are those of `adjoint`.
    outputs : the outputs to bound, all by default: together they have the confidence.
    confidence : above 0 and below 1; of a float what it prints as, so that 0.999999 is what it says.

    Raises
    ------
    OrderUnspecified : the graph has sums without an order.
    InputRejected : an input is missing, there is no such output, the confidence is no such number, or stochastic rounding has
        no model of what the program uses: any order, accumulators, fused operations, several formats, flushing to
        zero.
    """
    names = list(graph.outputs) if outputs is None else list(outputs)
    for name in names:
        if name not in graph.outputs:
            raise InputRejected(f"there is no output {name!r}", f"name some of {', '.join(graph.outputs)}")
    confidence = confidence_of(confidence)
    if graph.format_names:
        refuse("several formats in one program")
    order = None if graph.order is None else order_named(graph.order)
    if order is not None and (order.is_any or order.kind == "fma" or order.accumulator):
        refuse(f"the order {order.name}")
    program = with_plain_sums(graph)
    library = chosen_library(libm, [format, *map(format_named, program.format_names)])
    arithmetic = EveryOutcome(format, library)
    bounds, values = analysed(program, arithmetic, format, region)
    sure, likely = bounds.error.copy(), bounds.error.copy()
    if bounds.first_overflow() is None:
        linear = secants(program, arithmetic, values)
        sweep, drawn, nodes = Sweep(linear), drawn_nodes(linear), unique_nodes(program, names)
        spacings = root_spacings(linear, arithmetic, values)
        deviations = deviations_allowed((1 - confidence) / max(len(nodes), 1))
        for part, mid, sizes in sweep.blocks(nodes):
            at = nodes[part]
            sure[at] = np.minimum(sure[at], products(linear.local, sizes))
            likely[at] = np.minimum(sure[at], _likely(linear.local, spacings, drawn, mid, sizes, deviations))
    else:
        sure[:] = likely[:] = np.inf
    return Probable(
        confidence=confidence,
        elements={name: _of_output(bounds, name, likely) for name in names},
        surely={name: _of_output(bounds, name, sure) for name in names},
        every_outcome=bounds,
    )


def confidence_of(given: float | str | Fraction) -> Fraction:
    """A confidence as the number that it prints as. Raises InputRejected unless it lies between 0 and 1."""
    try:
        found = given if isinstance(given, Fraction) else Fraction(str(given))
    except (ValueError, ZeroDivisionError):
        found = Fraction(0)
    if not 0 < found < 1:
        raise InputRejected(f"{given!r} is no confidence", "give a probability above 0 and below 1, such as 0.999999")
    return found


def drawn_nodes(linear: Secants) -> Mask:
    """The nodes whose local rounding is 0 on average, whatever was rounded before."""
    drawn = np.zeros(linear.cut.shape, dtype=np.bool_)
    for i in linear.graph.instructions():
        if i.op in _DRAWN:
            drawn[i.start : i.stop] = True
    return drawn & ~linear.cut


def root_spacings(linear: Secants, arithmetic: EveryOutcome, values: Values) -> Floats:
    """For each node at least the root of the sum of squares of its roundings' local terms: of one, that is its `local`."""
    roots, exact = linear.local.copy(), values.copy()
    exact[ERROR] = 0.0
    with np.errstate(all="ignore"):
        for i in linear.graph.instructions():
            lanes = slice(i.start, i.stop)
            largest = linear.local[lanes].max(initial=0.0, where=np.isfinite(linear.local[lanes]))
            if i.op not in (Op.SUM, Op.DOT) or not largest > 0:
                continue
            unit = float(np.ldexp(0.5, np.frexp(largest)[1]))
            squares = apply(linear.graph, i, Squares(arithmetic, unit), exact)[ERROR]
            root = np.sqrt(squares) * UP * unit + TINY * (squares > 0)
            roots[lanes] = np.fmin(root, roots[lanes])  # unless it is not a number
    return roots


def deviations_allowed(delta: Fraction) -> float:
    """At least sqrt(log(2 / delta) / 2).

    A sum of errors that are 0 on average, drawn one after the other from intervals of lengths l_k, exceeds this times
    sqrt(sum_k l_k^2) with probability delta at most (docs/theory/probable.md#martingale).
    """
    x = round_down(delta / 2)
    if x < _LEAST:
        raise InputRejected("the confidence is too close to 1", "give one whose distance to 1 is at least 1e-290")
    least = np.array(x)
    logarithm = -between("log", least, least)[LOW]
    return float(step_up(np.sqrt(logarithm / 2)))


def _likely(local: Floats, roots: Floats, drawn: Mask, mid: Floats, sizes: Floats, deviations: float) -> Floats:
    """The bound of the theorem for some results, shape (results,); mid and sizes as from `Sweep.blocks`."""
    counted = drawn & np.isfinite(local)
    rest, spreads = [products(np.where(counted, 0.0, local), sizes)], []
    with np.errstate(all="ignore"):
        for part in stretches(np.flatnonzero(counted & (local > 0)), mid.shape[1]):
            # a result's numbers side by side, for there may be few results
            middles, reach = np.abs(np.asfortranarray(mid[part])), np.asfortranarray(sizes[part])
            # what an adjoint may be off its midpoint; sizes were rounded up
            radii = (reach - middles) * UP + TINY * (reach > 0)
            rest.append(products(local[part], radii))
            middles *= roots[part, None]
            spreads.append(_root_of_squares(middles))
        spread = _root_of_squares(np.array(spreads).reshape(-1, mid.shape[1]))
        others = np.sum(rest, axis=0) * (1.0 + (2 * len(rest) + 16) * 2.0**-53)
        total = (deviations * spread + others) * UP + TINY * (spread > 0)
    return np.where(np.isnan(total), np.inf, total)


def _root_of_squares(terms: Floats) -> Floats:
    """At least the norm of each column of what `terms`, shape (n, results), are products of, each rounded once.

    Divided by the largest, a term that underflows is too small to count: the factor has room for n 2**-1074 and more.
    """
    largest = terms.max(axis=0, initial=0.0)
    ratios = terms / np.where(largest > 0, largest, 1.0)
    sums = (ratios * ratios).sum(axis=0) * (1.0 + (2 * len(terms) + 32) * 2.0**-53)
    # products that underflowed are off by 2**-1075 each
    return np.asarray((largest * np.sqrt(sums)) * UP + (len(terms) + 1) * TINY * (largest > 0))


def _of_output(bounds: Bounds, name: str, found: Floats) -> Floats:
    ids = bounds.graph.outputs[name].ids
    return np.where(ids == ZERO, bounds.error_of(name), found[ids])
