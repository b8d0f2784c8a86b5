"""Comparisons of traced values, and selecting by them: what `numpy.where` of a traced comparison becomes.

Both branches are computed, and every comparison is one of the program: the format's own numbers decide. A Python `if` would
need one answer for every input, so it is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from certify.errors import TraceRefused
from certify.graph.assembly import Assembler
from certify.graph.elementwise import as_nodes, handed_on, in_every_format, settled, with_constants
from certify.graph.graph import Op
from certify.graph.in_force import current_format
from certify.graph.places import here
from certify.graph.traced import Traced, as_traced, promoted

Choose = Callable[[Traced, Traced], Traced]

_EACH_SIDE = (
    "use numpy.where(condition, x, y), which computes both sides, or certify each side as a kernel of its own, on the part of "
    "the region where its condition holds"
)
_COMBINE = "combine conditions with &, | and ~, and select with numpy.where(condition, x, y)"


@dataclass(frozen=True, eq=False)
class Condition:
    """A comparison of traced arrays, entrywise, or a combination of such by &, | and ~.

    `choose(x, y)` is x where it holds and y where it does not.
    """

    choose: Choose
    shape: tuple[int, ...]
    line: str
    assembler: Assembler | None

    def __invert__(self) -> Condition:
        return Condition(lambda x, y: self.choose(y, x), self.shape, self.line, self.assembler)

    def __and__(self, other: Any) -> Condition:
        both = _condition(other)
        return self._with(both, lambda x, y: self.choose(both.choose(x, y), y))

    def __or__(self, other: Any) -> Condition:
        either = _condition(other)
        return self._with(either, lambda x, y: self.choose(x, either.choose(x, y)))

    def _with(self, other: Condition, choose: Choose) -> Condition:
        shape = np.broadcast_shapes(self.shape, other.shape)
        return Condition(choose, shape, self.line, self.assembler or other.assembler)

    __rand__, __ror__ = __and__, __or__

    def __bool__(self) -> bool:
        raise TraceRefused(f"the kernel branches on the comparison of values it computed at {self.line}", _EACH_SIDE)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise TraceRefused(f"the kernel uses .{name} of a comparison at {here()}", _COMBINE)

    def _refused(self, *args: Any) -> Any:
        raise TraceRefused(f"the kernel computes with a comparison at {here()}", _COMBINE)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = _refused
    __truediv__ = __rtruediv__ = __xor__ = __rxor__ = __getitem__ = __array__ = __iter__ = __float__ = _refused

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        combined: dict[np.ufunc, Callable[..., Any]]
        combined = {np.logical_and: operator.and_, np.logical_or: operator.or_, np.logical_not: operator.invert}
        combined |= {np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.invert: operator.invert}
        if ufunc not in combined or method != "__call__" or kwargs:
            raise TraceRefused(f"the kernel uses numpy.{ufunc.__name__} of a comparison at {here()}", _COMBINE)
        return combined[ufunc](*(_condition(x) for x in inputs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.where and len(args) == 3 and not kwargs:
            with promoted(args):
                return where(*args)
        raise TraceRefused(f"the kernel uses numpy.{func.__name__} of a comparison at {here()}", _COMBINE)


def comparison(strict: bool, swapped: bool) -> Callable[[Traced, Traced], Condition]:
    """The ufunc a <= b (or <), or with the operands swapped."""

    def traced(a: Traced, b: Traced) -> Condition:
        # what is compared is in the format in force here, whatever it is where the comparison selects
        p, q = (_numbered(x) for x in ((b, a) if swapped else (a, b)))
        line = str(here())

        def choose(x: Traced, y: Traced) -> Traced:
            return _select(p, q, x, y, strict)

        return Condition(choose, np.broadcast_shapes(a.shape, b.shape), line, a.assembler)

    return traced


def equal(a: Traced, b: Traced) -> Condition:
    """A == b."""
    return comparison(strict=False, swapped=False)(a, b) & comparison(strict=False, swapped=True)(a, b)


def where(condition: Any, x: Any, y: Any) -> Traced:
    """`numpy.where` with a known mask or a condition on traced values."""
    if isinstance(condition, Traced):
        raise TraceRefused(
            f"the kernel selects by values it computed, and not by a comparison of them, at {here()}",
            "compare them, as in numpy.where(x > 0, a, b), or give a known mask",
        )
    assembler = next(v.assembler for v in (condition, x, y) if isinstance(v, Traced | Condition) and v.assembler)
    x, y = as_traced(assembler, x), as_traced(assembler, y)
    if isinstance(condition, Condition):
        shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
        return condition.choose(*(v.moved(lambda array: np.broadcast_to(array, shape)) for v in (x, y)))
    x, y = settled(x), settled(y)
    ids, known = (np.where(condition, *pair) for pair in ((x.ids, y.ids), (x.known, y.known)))
    return handed_on(_noted(Traced(assembler, ids, known, current_format())))


def _noted(a: Traced) -> Traced:
    """`a` with large known numbers as constants of this line, where a person looks for the value of a mask."""
    return with_constants(a, np.abs(a.known) > 2.0**6)


def _numbered(a: Traced) -> Traced:
    """`a` with its known numbers as constants of its format, or of the one in force."""
    a = settled(a)
    return with_constants(a, ~in_every_format(a.known))


def _condition(value: Any) -> Condition:
    if isinstance(value, Condition):
        return value
    mask = np.array(value)  # a copy: the kernel may use its array again
    if mask.dtype != np.bool_:
        raise TraceRefused(f"the kernel combines a comparison with no condition at {here()}", _COMBINE)

    def choose(x: Traced, y: Traced) -> Traced:
        return where(mask, x, y)

    return Condition(choose, mask.shape, str(here()), None)


def _select(p: Traced, q: Traced, x: Traced, y: Traced, strict: bool) -> Traced:
    assembler = p.assembler
    x, y = settled(x), settled(y)
    shape = np.broadcast_shapes(p.shape, q.shape, x.shape, y.shape)
    ids = [np.broadcast_to(v.ids, shape).ravel() for v in (p, q, x, y)]
    known = [np.broadcast_to(v.known, shape).ravel() for v in (p, q, x, y)]
    same = (ids[2] == ids[3]) & (known[2] == known[3])
    result, values = ids[2].copy(), known[2].copy()
    result[same] = assembler.converted(result[same], here())
    if not same.all():
        nodes = [as_nodes(assembler, i[~same], k[~same]) for i, k in zip(ids, known, strict=True)]
        result[~same] = assembler.emit(Op.SELECT, nodes[0], np.stack(nodes[1:]), here(), exponent=int(strict))
        values[~same] = 0.0
    return Traced(assembler, result.reshape(shape), values.reshape(shape), current_format())
