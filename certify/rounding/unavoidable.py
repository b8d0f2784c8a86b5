"""What every program of a kernel must pay for its formats: a lower bound of its running bounds, linear in the roundings.

**Theorem** (docs/theory/tuning.md#unavoidable). Let a graph have the order serial, without an accumulator, and let each of its
registers have one of some formats. Let M_k be any numbers that are not negative. From them follow weights g_k >= 0 and seeds
s_k(f) >= 0, the same for all these programs. If g_k M_k > tol wherever g_k > 0, then every program whose running bounds certify
|error of an output|_2 <= tol has

    sum_k g_k s_k(format of k) <= tol.

So the formats of certified programs are solutions of a knapsack: each register has a format, and its parts c(r, f) of the sum
stay within tol. For every z >= 0 their cost is at least sum_r min_f (cost(r, f) + z c(r, f)) - z tol. A format with
c(r, f) > tol is in no certified program; knowing that, more roundings are unavoidable.

Weights and seeds are sums of products of numbers that are not negative, each rounded to nearest; a part in 2**20 is taken off
at the end, which covers 2**30 roundings on any path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from certify.arithmetic import BINARY64, Format
from certify.graph import ZERO, Instruction, Op, order_named, with_order
from certify.rounding.assignments import Assignments
from certify.rounding.region import Floats, Region
from certify.rounding.running import running

Flags = npt.NDArray[np.bool_]

_SLACK = 2.0**-20
#: Below it nothing is counted: what a product here loses when it underflows is no part in 2**20 of what is.
_TINY = 2.0**-900
_ROUNDS = 32


def least_cost(
    space: Assignments, region: Region, tolerances: Mapping[str, float], errors: Mapping[str, Sequence[Floats]]
) -> Fraction:
    """A lower bound of the cost of every assignment that the running bounds certify, by the theorem.

    Parameters
    ----------
    space, region, tolerances : as in the search; the norm of each output named is to stay within its tolerance. Some
        assignment is certified.
    errors : of each of these outputs the error bounds of some programs. Directions v are their powers 0, 1/2 and 1.
    """
    costs = space.costs
    free = space.cost(tuple(costs.index(min(costs)) for _ in space.names))
    serial = order_named(space.graph.order or "serial").name == "serial"
    covered = all(not f.flush and (f.precision <= 24 or f == BINARY64) for f in space.formats)
    if region.representable or not (serial and covered) or min(tolerances.values()) < _TINY:
        return free
    kernel = Unavoidable(space, region)
    if not kernel.defined:
        return free
    allowed = np.array([[space.possible(r, f) for f in range(len(costs))] for r in range(len(space.names))])
    weighed = [
        (*kernel.weighed(name, tol, direction), tol)
        for name, tol in tolerances.items()
        for direction in (np.ones(errors[name][0].shape), *errors[name], *map(np.sqrt, errors[name]))
    ]
    while True:
        found = [(kernel.parts(g, most, allowed), tol) for g, most, tol in weighed]
        remain = allowed & np.all([parts <= tol for parts, tol in found], axis=0)
        if (remain == allowed).all():
            return max([free, *(kernel.knapsack(parts, tol, allowed) for parts, tol in found)])
        allowed = remain


class Unavoidable:
    """The weights and seeds of the theorem for the registers of a space.

    The exact values are taken where the inputs are the middle of the region, and where they are as large as it has them.
    """

    def __init__(self, space: Assignments, region: Region) -> None:
        self.space, self.graph = space, space.graph
        graph = with_order(self.graph, "any-order")
        low, high = region.lower, region.upper
        centers = [{n: np.clip(low[n] / 2 + high[n] / 2, low[n], high[n]) for n in low}]
        if any((low[n] < high[n]).any() for n in low):
            centers.append({n: np.where(np.abs(low[n]) > np.abs(high[n]), low[n], high[n]) for n in low})
        self.points: list[tuple[Floats, Floats]] = []  # exact values, and how far they may be off
        given = [np.zeros((len(space.formats), self.graph.n_nodes + 1))]
        for center in centers:
            exact = running(graph, BINARY64, Region(center, center))
            mid = exact.low / 2 + exact.high / 2
            radius = (exact.high / 2 - exact.low / 2 + exact.error) * (1 + 2.0**-40) + np.abs(mid) * 2.0**-50
            if np.isfinite(mid).all() and np.isfinite(radius).all():
                self.points.append((mid, radius))
                given.append(np.stack([self._given(f, center) for f in space.formats]))
        self.defined = bool(self.points)
        if not self.defined:  # an operation that overflows, or is not defined, at these points themselves
            return
        self.given = np.max(given, axis=0)
        least = [np.stack([np.abs(mid) - radius, mid - radius]) for mid, radius in self.points]
        self.size, self.high = np.maximum(np.max(least, axis=0), 0.0)  # |x| and x are at least these

    def weighed(self, output: str, tol: float, direction: Floats) -> tuple[Floats, Floats]:
        """g, for v along the direction, and numbers M, as small as is found, with g M > tol wherever g > 0."""
        ids = self.graph.outputs[output].ids
        live = ids != ZERO
        towards = np.where(np.isfinite(direction), direction, 0.0)[live]
        if not towards.any() or not np.isfinite(np.linalg.norm(towards)):
            towards = np.ones(len(towards))
        weight, most = np.zeros(self.graph.n_nodes + 1), np.zeros(self.graph.n_nodes + 1)
        np.add.at(weight, ids[live], towards)
        weight /= float(np.linalg.norm(towards)) * (1 + _SLACK) or 1.0
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for n in range(_ROUNDS):
                g = self._adjoints(weight.copy(), most)
                holds = (g == 0) | (g * most > tol * (1 + _SLACK))
                if holds.all():
                    break
                # which lowers g elsewhere; of a relu g M does not grow with M
                most = np.where(holds, most, tol / g * (1 + 2.0 ** (n - 8)) if 2 * n < _ROUNDS else np.inf)
            else:
                most[:] = np.inf
                g = self._adjoints(weight, most)
        return (g if np.isfinite(g).all() else np.zeros(len(g))), most

    def parts(self, g: Floats, most: Floats, allowed: Flags) -> Floats:
        """c(r, f), shape (registers, formats), of programs whose formats are `allowed`, of the same shape.

        What they add up to is at most tol in every such program whose running bounds certify it.
        """
        parts = np.zeros(allowed.shape)
        for f, format in enumerate(self.space.formats):
            seeds = self._seeds(format, self.given[f], most, allowed)
            for register, start, stop in self.space.spans():
                parts[register, f] += seeds[start:stop] @ g[start:stop]
        return np.where(parts < _TINY, 0.0, parts * (1 - _SLACK))

    def knapsack(self, parts: Floats, tol: float, allowed: Flags) -> Fraction:
        """A lower bound of the cost: the largest over all z at which some register changes its format."""
        space = self.space
        price = np.array([[float(lanes * c) for c in space.costs] for lanes in space.lanes])
        price[~allowed] = np.inf
        differences = parts[:, :, None] - parts[:, None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            turns = (price[:, None, :] - price[:, :, None]) / differences
        best = float(price.min(axis=1).sum())
        for z in np.unique(turns[np.isfinite(turns) & (turns > 0)]).tolist():
            best = max(best, float((price + z * parts).min(axis=1).sum() - z * tol * (1 + _SLACK)))
        return space.fixed + Fraction(max(best * (1 - 2.0**-30), 0.0))

    def _adjoints(self, g: Floats, most: Floats) -> Floats:
        """g, from the weights of the results, in place."""
        half = np.maximum(self.size - most / 2, 0.0)
        half[half < _TINY] = 0.0
        for i in self.graph.instructions(backward=True):
            own = g[i.start : i.stop]
            own[own < _TINY] = 0.0
            if i.op is not Op.CONST and own.any():
                for ids, weight in self._weights(i, own, half, most):
                    np.add.at(g, ids, weight)
                g[ZERO] = 0.0
        g[g < _TINY] = 0.0
        return g

    def _weights(
        self, i: Instruction, own: Floats, half: Floats, most: Floats
    ) -> Iterator[tuple[npt.NDArray[np.int32], Floats]]:
        a, b = i.left, i.right
        if i.op in (Op.ADD, Op.SUB):
            yield a, own
            yield b, own
        elif i.op is Op.MUL:
            yield a, own * half[b]
            yield b, own * half[a]
        elif i.op in (Op.NEG, Op.CAST):
            yield a, own
        elif i.op is Op.SCALE:
            yield a, np.ldexp(own, i.exponent)
        elif i.op is Op.RELU:
            x = self.high[a]
            yield a, own * np.where(x < most[a], x / most[a], 1.0)
        elif i.op is Op.OVERWRITE:
            yield b[0], own
        elif i.op is Op.SUM:
            yield a, np.broadcast_to(own, a.shape)
        elif i.op is Op.DOT:
            over = own.reshape(a.shape[1], b.shape[1])
            yield a, half[b] @ over.T
            yield b, half[a] @ over

    def _given(self, format: Format, center: Mapping[str, Floats]) -> Floats:
        """s_k of inputs and constants in this format."""
        seeds = np.zeros(self.graph.n_nodes + 1)
        finest = self.space.formats[-1]
        for block in self.graph.inputs:
            x = np.abs(center[block.name][block.support])
            moved = np.abs(center[block.name] - format.unbounded.round(center[block.name]))[block.support]
            seeds[block.start : block.stop] = np.minimum(moved, format.u / 2 * (1 - 2 * finest.u) * x)
        for i in self.graph.instructions():
            if i.op is Op.CONST:
                constants = self.graph.constants[i.left]
                seeds[i.start : i.stop] = np.abs(constants - format.unbounded.round(constants))
        return seeds

    def _seeds(self, format: Format, given: Floats, most: Floats, allowed: Flags) -> Floats:
        """s_k of every node in this format, of the structural zero 0; other registers have formats that are allowed."""
        seeds, formats = given.copy(), self.space.formats
        # of each node whether it may be a number of the format, and the precision that it has at least
        plain, precision = np.ones(len(seeds), dtype=np.bool_), np.zeros(len(seeds))
        holds = (allowed & np.array([format.contains(f) for f in formats])).any(axis=1)
        least = np.where(allowed, [f.precision for f in formats], np.inf).min(axis=1)
        for register, start, stop in self.space.spans():
            plain[start:stop], precision[start:stop] = holds[register], least[register]
        for i in self.graph.instructions():
            own = slice(i.start, i.stop)
            y = np.maximum(self.size[own] - most[own], 0.0)
            if i.op in (Op.ADD, Op.SUB):
                a, b = (np.maximum(self.size[ids] - most[own], 0.0) for ids in (i.left, i.right))
                seeds[own] = _of_sum(format, y, a, b, bool(plain[i.left].all()), bool(plain[i.right].all()))
            elif i.op is Op.MUL:
                if precision[i.left].max() + precision[i.right].max() > format.precision:
                    seeds[own] = _rounding(format, y)
            elif i.op in (Op.SCALE, Op.NEG, Op.CAST, Op.RELU):
                if not plain[i.left].all():
                    seeds[own] = _rounding(format, y)
            elif i.op in (Op.SUM, Op.DOT):
                inexact = i.op is Op.DOT and precision[i.left].max() + precision[i.right].max() > format.precision
                seeds[own] = np.max([self._of_terms(format, i, *x, most[own], inexact) for x in self.points], axis=0)
        seeds[~np.isfinite(seeds) | (seeds < _TINY)] = 0.0
        seeds[ZERO] = 0.0
        return seeds

    def _of_terms(
        self, format: Format, i: Instruction, mid: Floats, radius: Floats, most: Floats, inexact: bool
    ) -> Floats:
        """The seeds of all products and additions of a sum, added up."""
        x, r = mid[i.left], radius[i.left]
        seeds = np.zeros(i.stop - i.start)
        if i.op is Op.DOT:
            a, b, r, q = x[:, :, None], mid[i.right][:, None, :], r[:, :, None], radius[i.right][:, None, :]
            x = (a * b).reshape(len(i.left), -1)
            r = (np.abs(a) * q + np.abs(b) * r + r * q).reshape(x.shape) * (1 + _SLACK) + np.abs(x) * 2.0**-50
        partial, apart = np.cumsum(x, axis=0), np.cumsum(r, axis=0) * (1 + _SLACK)
        apart += np.cumsum(np.abs(x), axis=0) * (len(x) + 2) * 2.0**-52
        sizes, terms = np.maximum(np.abs(partial) - apart - most, 0.0), np.maximum(np.abs(x) - r - most, 0.0)
        if inexact:
            seeds += _rounding(format, terms).sum(axis=0)
        return np.asarray(seeds + _of_sum(format, sizes[1:], sizes[:-1], terms[1:]).sum(axis=0))


def _of_sum(
    format: Format, y: Floats, a: Floats, b: Floats, left_plain: bool = True, right_plain: bool = True
) -> Floats:
    """The local term of a sum of magnitude y at least, its operands a and b; they may be numbers of the format or not."""
    if left_plain and right_plain:
        half = np.where(y > np.ldexp(1.0 + _SLACK, format.emin + 1), _half_ulp(format, y), 0.0)
    else:
        half = _half_ulp(format, y) if format == BINARY64 else _rounding(format, y)
    half = np.minimum(half, a) if right_plain else half
    return np.minimum(half, b) if left_plain else half


def _rounding(format: Format, y: Floats) -> Floats:
    """min(max(h(y), omega), y)."""
    return np.minimum(np.maximum(_half_ulp(format, y), format.omega), y)


def _half_ulp(format: Format, y: Floats) -> Floats:
    """h(y), or less: magnitudes are rounded to binary64, and must not fall to a power of two."""
    _, exponent = np.frexp(y * (1 - _SLACK))
    return np.where(y > 0, format.u * np.ldexp(1.0, exponent - 1), 0.0)
