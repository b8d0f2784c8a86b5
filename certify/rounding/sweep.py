"""Adjoints in intervals: one backward sweep over a program's secants, for several results at once.

docs/theory/adjoint.md#sweep proves it. With A_k the adjoint of node k, A_out = 1 and A_j = sum over k of A_k s_kj, the error of
a result is sum_k A_k d_k, hence at most sum_k max |A_k| r_k. The adjoints are kept as midpoint and radius, arrays of shape
(n_nodes + 1, results), computed in binary64 to nearest; every radius also holds the rounding of its midpoint:

    A s              |a| r_s + r_a (|s| + r_s) + u |a s|          a product of midpoints, u = 2**-53
    A + A'           r + r' + u |a + a'|
    sum of n         sum of radii + n u / (1 - n u) sum |a|       in any order

A radius is the sum of n + 8 rounded terms that are not negative at most, so the factor 1 + (2 n + 16) 2**-53 bounds it; an
underflow costs 2**-1075 a product, for which 2**-960 is added: subnormal radii would be slow. Where the adjoint is exactly 0
both stay exactly 0.

In `any-order` a product may be rounded in one use and not in another. So its rounding in each use counts by itself:
`spread` is the sum of the magnitudes of what the uses contribute, where the adjoint is the magnitude of their sum.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from certify.graph import Instruction, Op
from certify.graph.graph import Ids
from certify.rounding.local import TINY
from certify.rounding.region import Floats
from certify.rounding.secants import Secants

_U = 2.0**-53
_LEAST = 2.0**-960
_LARGEST_BLOCK = 1 << 24  # numbers in an array of adjoints: 128 MB
_CACHED = 1 << 17  # numbers in an array that stays in a cache


class Sweep:
    """The adjoints of some nodes of one program; `blocks` yields them, a few results at a time."""

    def __init__(self, secants: Secants) -> None:
        self.secants = secants
        self._groups: dict[tuple[int, int], _Group] = {}

    def blocks(self, nodes: Ids) -> Iterator[tuple[slice, Floats, Floats]]:
        """For consecutive parts of `nodes`: which, and two arrays (n_nodes + 1, results): midpoints, and magnitudes at most.

        The magnitude is that of what the roundings of a node count with; of a node that is open it is its spread.
        """
        together = max(1, _LARGEST_BLOCK // (self.secants.graph.n_nodes + 1))
        for first in range(0, len(nodes), together):
            part = slice(first, min(first + together, len(nodes)))
            yield (part, *self._adjoints(nodes[part]))

    def middles(self, mid: Floats) -> Floats:
        """`mid` of a block, 0 for nodes that are open: their uses have no adjoint in common."""
        return mid if self.secants.open is None else np.where(self.secants.open[:, None], 0.0, mid)

    def _adjoints(self, nodes: Ids) -> tuple[Floats, Floats]:
        graph, opened = self.secants.graph, self.secants.open
        state = _State(graph.n_nodes + 1, len(nodes), opened is not None)
        state.mid[nodes, np.arange(len(nodes))] = 1.0
        if state.spread is not None:
            state.spread[nodes, np.arange(len(nodes))] = 1.0
        with np.errstate(all="ignore"):
            for i in graph.instructions(backward=True):
                self._back(i, state)
        sizes = (np.abs(state.mid) + state.rad) * _up(1)
        if opened is not None and state.spread is not None:
            sizes[opened] = state.spread[opened]
        return state.mid, sizes

    def _back(self, i: Instruction, state: _State) -> None:
        """Add to the operands of an instruction what its lanes contribute."""
        lanes = slice(i.start, i.stop)
        here = _Here(state, lanes, self.secants.open)
        if i.op is Op.CONST or not here.reached:
            return
        mid, rad = self.secants.mid, self.secants.rad

        def add(at: int, ids: Ids, mid: Floats, rad: Floats, spread: Floats | None) -> None:
            state.add(self._group(i.index, at, ids), mid, rad, spread)

        if i.op in (Op.ADD, Op.SUB):
            add(0, i.left, *here.signed(1.0))
            add(1, i.right, *here.signed(1.0 if i.op is Op.ADD else -1.0))
        elif i.op is Op.NEG:
            add(0, i.left, *here.signed(-1.0))
        elif i.op is Op.OVERWRITE:
            if not self.secants.graph.format_names:  # else it is cut
                add(0, i.right[0], *here.signed(1.0))
        elif i.op is Op.CAST:
            add(0, i.left, *here.signed(1.0))
        elif i.op is Op.SCALE:
            factor = np.full(i.stop - i.start, np.ldexp(1.0, i.exponent))
            add(0, i.left, *here.times(factor, np.zeros_like(factor)))
        elif i.op is Op.MUL:
            add(0, i.left, *here.times(mid[i.right], rad[i.right]))
            add(1, i.right, *here.times(mid[i.left], rad[i.left]))
        elif i.op is Op.SUM:
            terms = len(i.left)
            one, radius, spread = here.signed(1.0)
            over = None if spread is None else np.tile(spread, (terms, 1))
            add(0, i.left.ravel(), np.tile(one, (terms, 1)), np.tile(radius, (terms, 1)), over)
        elif i.op is Op.DOT:
            add(0, i.left.T.ravel(), *here.matrix(mid[i.right], rad[i.right], transposed=False))
            add(1, i.right.T.ravel(), *here.matrix(mid[i.left], rad[i.left], transposed=True))
        else:
            for at, p in enumerate(self.secants.partials[i.index]):
                add(at, p.ids, *here.times(p.mid, p.rad))

    def _group(self, index: int, at: int, ids: Ids) -> _Group:
        key = (index, at)
        if key not in self._groups:
            self._groups[key] = _Group(ids)
        return self._groups[key]


def products(local: Floats, sizes: Floats) -> Floats:
    """sum_k local_k sizes_k, rounded up, shape (results,); infinite where a term is not known."""
    known = np.isfinite(local)
    live = np.flatnonzero(known & (local > 0))
    total, smallest = np.zeros(sizes.shape[1]), np.full(sizes.shape[1], np.inf)
    with np.errstate(all="ignore"):
        for part in stretches(live, sizes.shape[1]):
            reach = np.asfortranarray(sizes[part])
            total += local[part] @ reach
            smallest = np.minimum(smallest, reach.min(axis=0, initial=np.inf, where=reach > 0))
        total *= _up(len(live))
        # the smallest terms may underflow, each by at most 2**-1075
        least = local[live].min(initial=1.0) * np.minimum(smallest, 1.0)
        total = np.where(least < 2.0**-1000, total + len(live) * TINY * (smallest < np.inf), total)
        unknown = (sizes[~known] != 0).any(axis=0) | np.isnan(total)
    return np.where(unknown, np.inf, total)


def stretches(rows: npt.NDArray[np.int64], results: int) -> Iterator[npt.NDArray[np.int64]]:
    """Parts of `rows` for which arrays (rows, results) stay in a cache."""
    together = max(1, _CACHED // max(results, 1))
    return (rows[first : first + together] for first in range(0, len(rows), together))


class _Group:
    """Where the entries of an index array go, and the entries that go to one place."""

    def __init__(self, ids: Ids) -> None:
        self.ids: Ids | slice = ids
        self.most = 1
        self.order: npt.NDArray[np.int64] | None = None
        self.starts: npt.NDArray[np.int64] | None = None
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ids) else np.ones(0, dtype=np.bool_)
        if not first.all():
            starts = np.flatnonzero(first)
            self.ids, self.order, self.starts = ordered[first], order, starts
            self.most = int(np.diff(np.append(starts, len(ids))).max())
        found = self.ids
        if len(found) and found[0] >= 0 and (np.diff(found) == 1).all():
            self.ids = slice(int(found[0]), int(found[-1]) + 1)  # no copy of what is there

    def total(self, terms: Floats) -> Floats:
        """The sums of the entries that go to one place."""
        if self.order is None or self.starts is None:
            return terms
        return np.asarray(np.add.reduceat(terms[self.order], self.starts, axis=0))


class _State:
    """Adjoints of all nodes: `mid`, `rad` and, where nodes are open, `spread`."""

    def __init__(self, nodes: int, results: int, spread: bool) -> None:
        self.mid = np.zeros((nodes, results))
        self.rad = np.zeros((nodes, results))
        self.spread = np.zeros((nodes, results)) if spread else None

    def add(self, to: _Group, mid: Floats, rad: Floats, spread: Floats | None) -> None:
        """Add the entries to their places."""
        n, own, more = to.most, to.total(mid), to.total(rad)
        if n > 1:
            absolute = to.total(np.abs(mid))
            more = more + absolute * (n * _U / (1 - n * _U)) + _LEAST * (absolute != 0)
        after = self.mid[to.ids] + own  # exact where it is 0
        radius = self.rad[to.ids] + more
        radius += np.abs(after) * _U
        radius *= _up(n)
        radius += _LEAST * (after != 0)
        self.rad[to.ids] = radius
        self.mid[to.ids] = after
        if self.spread is not None and spread is not None:
            self.spread[to.ids] = (self.spread[to.ids] + to.total(spread)) * _up(n)


class _Here:
    """The adjoints of an instruction's lanes, and what they contribute to its operands; shapes (lanes, results)."""

    def __init__(self, state: _State, lanes: slice, opened: npt.NDArray[np.bool_] | None) -> None:
        self._mid, self._rad = state.mid[lanes], state.rad[lanes]
        self._size = np.abs(self._mid) + self._rad
        self.reached = bool(self._size.any())
        self._spread = None
        if state.spread is not None and opened is not None:
            self._spread = np.where(opened[lanes, None], state.spread[lanes], self._size * _up(1))

    def signed(self, sign: float) -> tuple[Floats, Floats, Floats | None]:
        """For a secant that is 1 or -1."""
        return sign * self._mid, self._rad, self._spread

    def times(self, mid: Floats, rad: Floats) -> tuple[Floats, Floats, Floats | None]:
        """For secants within `rad` of `mid`, shape (lanes,)."""
        mid, rad = mid[:, None], rad[:, None]
        size = np.abs(mid) + rad
        least = _LEAST * ((self._size > 0) & (size > 0))
        product = self._mid * mid
        radius = (np.abs(self._mid) * rad + self._rad * size + np.abs(product) * _U) * _up(4) + 4 * least
        return product, radius, None if self._spread is None else self._spread * size * _up(4) + least

    def matrix(self, mid: Floats, rad: Floats, *, transposed: bool) -> tuple[Floats, Floats, Floats | None]:
        """For a matrix product: the secants (terms, J) are those of the lanes (I, J), or (terms, I) of their transpose.

        Of shape (I terms, results), or (J terms, results); sums over the other index, in any order.
        """
        terms, inner = mid.shape
        outer = len(self._mid) // max(inner, 1)

        def shaped(x: Floats) -> Floats:
            if not transposed:
                return x.reshape(outer, inner, -1)
            return x.reshape(inner, outer, -1).swapaxes(0, 1)

        def flat(x: Floats) -> Floats:
            return np.asarray(x.reshape(outer * terms, -1))

        a, r = shaped(self._mid), shaped(self._rad)
        gamma, size = (inner + 2) * _U / (1 - (inner + 2) * _U), np.abs(mid)
        reached = ((size + rad > 0) * 1.0) @ ((np.abs(a) + r > 0) * 1.0) > 0
        # the rounding of the midpoint's sum, and of radii that underflow before they are multiplied
        radius = size @ (r + np.abs(a) * gamma + _LEAST * (a != 0))
        if rad.any():
            radius = radius + rad @ (np.abs(a) + r)
        radius = radius * _up(inner + 4) + 8 * (inner + 1) * _LEAST * reached
        spread = None
        if self._spread is not None:
            spread = flat((size + rad) @ shaped(self._spread) * _up(inner + 4) + (inner + 1) * _LEAST * reached)
        return flat(mid @ a), flat(radius), spread


def _up(n: int) -> float:
    return 1.0 + (2 * n + 16) * _U
