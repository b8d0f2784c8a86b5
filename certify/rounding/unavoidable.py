"""What every program of a kernel must pay for its formats: a lower bound of its running bounds, linear in the roundings.

**Theorem** (docs/theory/tuning.md#unavoidable). Let a graph have the order serial, without an accumulator, and let each of its
registers have one of some formats. There are weights g_k >= 0 and seeds s_k(f) >= 0, the same for all these programs, such that
every program whose running bounds certify |error of an output|_2 <= tol has

    sum_k g_k s_k(format of k) <= tol.

So the formats of certified programs are solutions of a knapsack: each register has a format, and its parts c(r, f) of the sum
stay within tol. For every z >= 0 their cost is at least sum_r min_f (cost(r, f) + z c(r, f)) - z tol.

Weights and seeds are sums of products of numbers that are not negative, each rounded to nearest; a part in 2**20 is taken off
at the end, which covers 2**30 roundings on any path. What must not be too small is raised by as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from certify.arithmetic import BINARY64, Format, format_named
from certify.graph import ZERO, Instruction, Op, order_named, with_order
from certify.rounding.assignments import Assignments
from certify.rounding.region import Floats, Region
from certify.rounding.running import running

_SLACK = 2.0**-20
_TINY = 2.0**-900  # below it nothing is counted, so that no product here underflows
_ROUNDS = 3


def least_cost(
    space: Assignments, region: Region, tolerances: Mapping[str, float], errors: Mapping[str, Floats]
) -> Fraction:
    """A lower bound of the cost of every assignment that the running bounds certify, by the theorem.

    Parameters
    ----------
    space, region, tolerances : as in the search; the norm of each output named is to stay within its tolerance.
    errors : of each of these outputs numbers that are not negative, as large where errors are large: the direction v.
    """
    costs = space.costs
    free = space.cost(tuple(costs.index(min(costs)) for _ in space.names))
    order = order_named(space.graph.order or "serial")
    if order.name != "serial" or any(f.flush or (f.precision > 24 and f != BINARY64) for f in space.formats):
        return free
    kernel = Unavoidable(space, region)
    if not kernel.defined:
        return free
    found = [kernel.knapsack(kernel.parts(name, tol, errors[name]), tol) for name, tol in tolerances.items()]
    return max([free, *found])


class Unavoidable:
    """The weights and seeds of the theorem for the registers of a space, with x0 the middle of the region."""

    def __init__(self, space: Assignments, region: Region) -> None:
        self.space, self.graph = space, space.graph
        formats = [*space.formats, *map(format_named, space.graph.format_names)]
        self.theta = max(f.u for f in formats) / 2
        self.narrowest = min(f.precision for f in formats)
        center = {
            name: np.clip(low / 2 + region.upper[name] / 2, low, region.upper[name])
            for name, low in region.lower.items()
        }
        exact = running(with_order(self.graph, "any-order"), BINARY64, Region(center, center))
        self.mid = exact.low / 2 + exact.high / 2
        self.radius = (exact.high / 2 - exact.low / 2 + exact.error) * (1 + 2.0**-40) + np.abs(self.mid) * 2.0**-50
        self.defined = bool(np.isfinite(self.mid).all() and np.isfinite(self.radius).all())
        if not self.defined:  # an operation that overflows, or is not defined, at the middle itself
            return
        self.size = np.maximum(np.abs(self.mid) - self.radius, 0.0)  # |x| is at least this
        self.seeds = np.stack([self._seeds(f, center, region.representable) for f in space.formats])

    def parts(self, output: str, tol: float, direction: Floats) -> Floats:
        """c(r, f), shape (registers, formats): what they add up to is at most tol in every program whose norm is."""
        most = self._most(self.seeds.max(axis=0))
        ids = self.graph.outputs[output].ids
        live = ids != ZERO
        towards = np.where(np.isfinite(direction), direction, 0.0)[live]
        if not towards.any() or not np.isfinite(np.linalg.norm(towards)):
            towards = np.ones(len(towards))
        weight = np.zeros(self.graph.n_nodes + 1)
        np.add.at(weight, ids[live], towards)
        weight /= float(np.linalg.norm(towards)) * (1 + _SLACK) or 1.0
        for _ in range(_ROUNDS):
            g = self._adjoints(weight.copy(), most)
            # a certified program has g_k L_k <= tol
            counts = g > _TINY
            most[counts] = np.minimum(most[counts], tol / g[counts] * (1 + _SLACK))
        parts = np.zeros((len(self.space.names), len(self.space.formats)))
        for register, start, stop in self.space.spans():
            parts[register] += self.seeds[:, start:stop] @ g[start:stop]
        return parts * (1 - _SLACK)

    def knapsack(self, parts: Floats, tol: float) -> Fraction:
        """A lower bound of the cost: the largest over all z at which some register changes its format."""
        space = self.space
        price = np.array([[float(lanes * c) for c in space.costs] for lanes in space.lanes])
        price[parts > tol] = np.inf  # no certified program has that register in that format
        differences = parts[:, :, None] - parts[:, None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            turns = (price[:, None, :] - price[:, :, None]) / differences
        best = float(price.min(axis=1).sum())
        for z in np.unique(turns[np.isfinite(turns) & (turns > 0)]).tolist():
            best = max(best, float((price + z * parts).min(axis=1).sum() - z * tol * (1 + _SLACK)))
        return space.fixed + Fraction(max(best * (1 - 2.0**-30), 0.0))

    def _most(self, seeds: Floats) -> Floats:
        """M: what is carried and what roundings add, with these seeds; without the factor 1 - theta."""
        most = np.zeros(self.graph.n_nodes + 1)
        most[: self.graph.n_inputs] = seeds[: self.graph.n_inputs]
        for i in self.graph.instructions():
            own = slice(i.start, i.stop)
            most[own] = (self._carried(i, most) + seeds[own]) * (1 + _SLACK)
        return most

    def _carried(self, i: Instruction, e: Floats) -> Floats:
        """What the operands carry to the lanes of an instruction, sizes taken from above."""
        if i.op in (Op.ADD, Op.SUB):
            return np.asarray(e[i.left] + e[i.right])
        if i.op is Op.MUL:
            return self._product(i.left, i.right, e)
        if i.op in (Op.NEG, Op.CAST):
            return np.asarray(e[i.left])
        if i.op is Op.SCALE:
            return np.ldexp(e[i.left], i.exponent)
        if i.op is Op.RELU:
            return np.minimum(e[i.left], np.maximum(self.mid[i.left] + self.radius[i.left], 0.0))
        if i.op is Op.OVERWRITE:
            return np.asarray(e[i.right[0]])
        if i.op is Op.SUM:
            return np.asarray(e[i.left].sum(axis=0))
        if i.op is Op.DOT:
            left, right = i.left[:, :, None], i.right[:, None, :]
            return np.asarray(self._product(left, right, e).sum(axis=0)).ravel()
        return np.zeros(i.stop - i.start)

    def _product(self, a: npt.NDArray[np.int32], b: npt.NDArray[np.int32], e: Floats) -> Floats:
        x, y = np.abs(self.mid) + self.radius, e  # M must not be too small: sizes from above
        return np.asarray(np.maximum(x[a] - y[a], 0.0) * y[b] + np.maximum(x[b] - y[b], 0.0) * y[a] + y[a] * y[b])

    def _adjoints(self, g: Floats, most: Floats) -> Floats:
        """g, from the weights of the results, in place."""
        keep = 1.0 - self.theta
        half = np.maximum(self.size - most / 2, 0.0)
        half[~np.isfinite(half)] = 0.0
        half[half < _TINY] = 0.0
        for i in self.graph.instructions(backward=True):
            own = g[i.start : i.stop]
            if i.op is Op.CONST or not own.any():
                continue
            terms = len(i.left) if i.op in (Op.SUM, Op.DOT) else 1
            # seeds inside a sum of products count at its end: what is left of them after all its additions
            own *= keep**terms
            for ids, weight in self._weights(i, own, half, most):
                np.add.at(g, ids, weight)
            g[ZERO] = 0.0
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
            x = np.maximum(self.mid[a] - self.radius[a], 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                yield a, own * np.where(x < most[a], x / most[a], 1.0)
        elif i.op is Op.OVERWRITE:
            yield b[0], own
        elif i.op is Op.SUM:
            yield a, np.broadcast_to(own, a.shape)
        elif i.op is Op.DOT:
            over = own.reshape(a.shape[1], b.shape[1])
            yield a, half[b] @ over.T
            yield b, half[a] @ over

    def _seeds(self, format: Format, center: Mapping[str, Floats], representable: bool) -> Floats:
        """s_k of every node in this format, of the structural zero 0."""
        seeds = np.zeros(self.graph.n_nodes + 1)
        finest = self.space.formats[-1]
        for block in self.graph.inputs:
            x = np.abs(center[block.name][block.support])
            moved = np.abs(center[block.name] - format.unbounded.round(center[block.name]))[block.support]
            if not representable:
                seeds[block.start : block.stop] = np.minimum(moved, format.u / 2 * (1 - 2 * finest.u) * x)
        for i in self.graph.instructions():
            own = slice(i.start, i.stop)
            if i.op is Op.CONST:
                constants = self.graph.constants[i.left]
                seeds[own] = np.abs(constants - format.unbounded.round(constants))
            elif i.op in (Op.ADD, Op.SUB):
                seeds[own] = self._of_sum(format, self.size[own], self.size[i.left], self.size[i.right])
            elif i.op is Op.MUL:
                seeds[own] = self._of_product(format, self.size[own])
            elif i.op in (Op.SUM, Op.DOT):
                seeds[own] = self._of_terms(format, i)
        seeds[~np.isfinite(seeds) | (seeds < _TINY)] = 0.0
        seeds[ZERO] = 0.0
        return seeds

    def _of_terms(self, format: Format, i: Instruction) -> Floats:
        """The seeds of all products and additions of a sum, added up."""
        mid, radius = self.mid[i.left], self.radius[i.left]
        seeds = np.zeros(i.stop - i.start)
        if i.op is Op.DOT:
            a, b, r, q = (
                mid[:, :, None],
                self.mid[i.right][:, None, :],
                radius[:, :, None],
                self.radius[i.right][:, None, :],
            )
            mid = (a * b).reshape(len(i.left), -1)
            radius = (np.abs(a) * q + np.abs(b) * r + r * q).reshape(mid.shape) * (1 + _SLACK) + np.abs(mid) * 2.0**-50
            seeds = self._of_product(format, np.maximum(np.abs(mid) - radius, 0.0)).sum(axis=0)
        partial, apart = np.cumsum(mid, axis=0), np.cumsum(radius, axis=0) * (1 + _SLACK)
        apart += np.cumsum(np.abs(mid), axis=0) * (len(mid) + 2) * 2.0**-52
        sizes, terms = np.maximum(np.abs(partial) - apart, 0.0), np.maximum(np.abs(mid) - radius, 0.0)
        return np.asarray(seeds + self._of_sum(format, sizes[1:], sizes[:-1], terms[1:]).sum(axis=0))

    def _of_sum(self, format: Format, size: Floats, a: Floats, b: Floats) -> Floats:
        y = np.maximum(size - np.ldexp(1.0, format.emin + 1), 0.0)
        plain, sharp, applies = self._roundings(format, y)
        smaller = np.minimum(a, b)
        return np.where(applies, np.minimum(sharp, self.theta * smaller), np.minimum(plain, format.u / 2 * smaller))

    def _of_product(self, format: Format, size: Floats) -> Floats:
        if 2 * self.narrowest <= format.precision:  # it may be exact
            return np.zeros_like(size)
        plain, sharp, applies = self._roundings(format, size)
        return np.where(applies, sharp, plain)

    def _roundings(self, format: Format, y: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """u y / 2; u 2**k; and where that may be taken."""
        y = y * (1 - _SLACK)  # m is rounded to binary64: it must not fall to 2**k
        below = np.ldexp(1.0, np.frexp(y)[1] - 1)  # 2**k <= y < 2**(k + 1)
        sharp = format.u * below
        return format.u / 2 * y, sharp, (y > 0) & (sharp <= self.theta * (y - below) * (1 - _SLACK))
