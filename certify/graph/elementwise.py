"""Elementwise operations on traced arrays, with the exact ones left out (see `certify.graph.tracing`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from certify.errors import TraceRefused
from certify.graph.assembly import Assembler
from certify.graph.graph import Floats, Ids, Op
from certify.graph.in_force import asking, current_format
from certify.graph.places import here
from certify.graph.traced import KNOWN, Traced, as_traced

Mask = npt.NDArray[np.bool_]


def add(a: Traced, b: Traced) -> Traced:
    """A + b, entrywise; x + 0 makes no node."""
    return _sum_of_two(Op.ADD, a, b)


def subtract(a: Traced, b: Traced) -> Traced:
    """A - b, entrywise; x - 0, 0 - x (a negation) and x - x do not round."""
    return _sum_of_two(Op.SUB, a, b)


def _sum_of_two(op: Op, a: Traced, b: Traced) -> Traced:
    lanes = Lanes(a, b)
    if lanes.some_known:
        sign = 1.0 if op is Op.ADD else -1.0
        both = lanes.known_a & lanes.known_b
        lanes.fold(both, lanes.a_known + sign * lanes.b_known)
        lanes.keep(lanes.known_b & (lanes.b_known == 0), lanes.a, lanes.a_known)
        zero_a = lanes.known_a & (lanes.a_known == 0)
        if op is Op.ADD:
            lanes.keep(zero_a, lanes.b, lanes.b_known)
        else:
            lanes.unary(Op.NEG, zero_a & ~lanes.known_b, lanes.b)
    if op is Op.ADD:
        lanes.overwrite()
    else:
        lanes.cancel()
    lanes.binary(op)
    return lanes.result()


def multiply(a: Traced, b: Traced) -> Traced:
    """A * b, entrywise; by 0 and by 1 no node, by -1 a negation, by a power of two a scaling."""
    lanes = Lanes(a, b)
    if lanes.some_known:
        lanes.fold(lanes.known_a & lanes.known_b, lanes.a_known * lanes.b_known)
        zero = (lanes.known_a & (lanes.a_known == 0)) | (lanes.known_b & (lanes.b_known == 0))
        lanes.keep(zero, np.full_like(lanes.a, KNOWN), np.zeros_like(lanes.a_known))
        lanes.scale(lanes.known_b, lanes.b_known, lanes.a)
        lanes.scale(lanes.known_a, lanes.a_known, lanes.b)
    lanes.binary(Op.MUL)
    return lanes.result()


def divide(a: Traced, b: Traced) -> Traced:
    """A / b: a scaling where b is a known power of two, else a division. 0 / b is one too, for b must not be 0."""
    lanes = Lanes(a, b)
    if (lanes.known_b & (lanes.b_known == 0)).any():
        raise TraceRefused(f"the kernel divides by a number known to be 0 at {here()}", "divide by something else")
    mantissa, exponent = np.frexp(lanes.b_known)
    power = lanes.known_b & (np.abs(mantissa) == 0.5)
    reciprocal = np.ldexp(np.sign(mantissa), 1 - exponent)
    lanes.keep(power & lanes.known_a & (lanes.a_known == 0), lanes.a, lanes.a_known)
    lanes.fold(power & lanes.known_a, lanes.a_known * reciprocal)
    both, numerator = power & lanes.known_a & lanes.open, lanes.a.copy()
    numerator[both] = as_nodes(lanes.assembler, lanes.a[both], lanes.a_known[both])
    lanes.scale(power, reciprocal, numerator)
    lanes.binary(Op.DIV)
    return lanes.result()


def maximum(a: Traced, b: Traced) -> Traced:
    """max(a, b), entrywise; with a known 0 a ReLU."""
    lanes = Lanes(a, b)
    # the larger of two known numbers, converted, is the larger of the converted ones
    lanes.keep(lanes.known_a & lanes.known_b, np.full_like(lanes.a, KNOWN), np.maximum(lanes.a_known, lanes.b_known))
    lanes.unary(Op.RELU, lanes.known_b & (lanes.b_known == 0), lanes.a)
    lanes.unary(Op.RELU, lanes.known_a & (lanes.a_known == 0), lanes.b)
    lanes.keep((lanes.a == lanes.b) & ~lanes.known_a, lanes.a, lanes.a_known)
    lanes.binary(Op.MAX)
    return lanes.result()


def minimum(a: Traced, b: Traced) -> Traced:
    """min(a, b) = -max(-a, -b), entrywise."""
    return negative(maximum(negative(a), negative(b)))


def negative(a: Traced) -> Traced:
    """-a."""
    return subtract(as_traced(a.assembler, np.zeros(a.shape)), a)


def power(a: Traced, b: Traced) -> Traced:
    """A ** n for the exponents that NumPy computes without the power function of the library: -1, 0, 0.5, 1 and 2."""
    exponent = float(b.known) if b.shape == () and b.ids == KNOWN else None
    if exponent == 2:
        return multiply(a, a)
    if exponent == 1:
        return handed_on(a)
    if exponent == 0:
        return as_traced(a.assembler, np.ones(a.shape))
    if exponent == -1:
        return divide(as_traced(a.assembler, np.ones(a.shape)), a)
    if exponent == 0.5:
        return square_root(a)
    raise TraceRefused(
        f"the kernel raises to a power other than -1, 0, 0.5, 1 and 2 at {here()}",
        "write the products out, as x * x * x: numpy calls the power function of the library for x**3",
    )


def handed_on(a: Traced) -> Traced:
    """`a` itself, in the format in force."""
    lanes = Lanes(a, as_traced(a.assembler, np.zeros(())))
    lanes.keep(lanes.open, lanes.a, lanes.a_known)
    return lanes.result()


def square_root(a: Traced) -> Traced:
    """The square root; of a known 0 or 1 itself."""
    lanes = Lanes(a, as_traced(a.assembler, np.zeros(())))
    exact = lanes.known_a & ((lanes.a_known == 0) | (lanes.a_known == 1))
    lanes.keep(exact, lanes.a, lanes.a_known)
    lanes.call(Op.SQRT)
    return lanes.result()


def absolute(a: Traced) -> Traced:
    """|a|, exact."""
    lanes = Lanes(a, as_traced(a.assembler, np.zeros(())))
    lanes.keep(lanes.known_a, lanes.a, np.abs(lanes.a_known))
    lanes.call(Op.ABS)
    return lanes.result()


def called(op: Op) -> Callable[[Traced], Traced]:
    """The call of a library's function; of a known number too, since the library need not be exact there."""

    def traced(a: Traced) -> Traced:
        lanes = Lanes(a, as_traced(a.assembler, np.zeros(())))
        lanes.call(op)
        return lanes.result()

    return traced


class Lanes:
    """The lanes of one elementwise operation, each handled exactly once: kept, folded, or given to an instruction."""

    def __init__(self, a: Traced, b: Traced) -> None:
        self.assembler = a.assembler
        shape = np.broadcast_shapes(a.shape, b.shape)
        self.shape = shape
        a, b = settled(a), settled(b)
        if a.shape != shape or b.shape != shape:
            a, b = (x.moved(lambda array: np.broadcast_to(array, shape)) for x in (a, b))
        self.a, self.b = a.ids.ravel(), b.ids.ravel()
        self.a_known, self.b_known = a.known.ravel(), b.known.ravel()
        self.known_a, self.known_b = self.a == KNOWN, self.b == KNOWN
        self.some_known = bool(self.known_a.any() or self.known_b.any())
        self.place = here()
        self.open = np.ones(self.a.shape, dtype=np.bool_)
        self.ids = np.full(self.a.shape, KNOWN, dtype=np.int32)
        self.known = np.zeros(self.a.shape)

    def _claim(self, mask: Mask) -> Mask:
        mask = mask & self.open
        self.open &= ~mask
        return mask

    def keep(self, mask: Mask, ids: Ids, known: Floats) -> None:
        """These lanes are existing elements."""
        mask = self._claim(mask)
        if mask.any():
            self.ids[mask], self.known[mask] = self.assembler.converted(ids[mask], self.place), known[mask]

    def fold(self, mask: Mask, values: Floats) -> None:
        """Known operands whose result every format holds exactly: 0, 1 and -1."""
        if not mask.any():
            return
        exact = mask & in_every_format(values) & in_every_format(self.a_known) & in_every_format(self.b_known)
        self.keep(exact, np.full_like(self.a, KNOWN), values)

    def cancel(self) -> None:
        """X - x is 0 exactly, unless x may be a product that is rounded in one use and fused in the other (any order)."""
        same = self.open & ~self.known_a & (self.a == self.b)
        if not same.any():
            return
        same[same] = self.assembler.is_rounded(self.a[same])
        self.keep(same, np.full_like(self.a, KNOWN), np.zeros_like(self.a_known))

    def overwrite(self) -> None:
        """x + (y - x), in either order of the two, replaces x by y."""
        nodes = self.open & ~self.known_a & ~self.known_b
        if not (self.assembler.subtracts and nodes.any()):
            return
        for old, change in ((self.a, self.b), (self.b, self.a)):
            new, subtracted = self.assembler.difference(change[nodes])
            mask = nodes.copy()
            mask[nodes] = (subtracted == old[nodes]) & (new != KNOWN)
            fresh = np.full_like(self.a, KNOWN)
            fresh[nodes] = new
            mask = self._claim(mask)
            if mask.any():
                self.ids[mask] = self.assembler.emit(
                    Op.OVERWRITE, old[mask], np.stack([fresh[mask], change[mask]]), self.place
                )

    def unary(self, op: Op, mask: Mask, operand: Ids, exponent: int = 0) -> None:
        """An instruction of one operand over these lanes."""
        mask = self._claim(mask)
        if mask.any():
            self.ids[mask] = self.assembler.emit(op, operand[mask], None, self.place, exponent=exponent)

    def call(self, op: Op) -> None:
        """The remaining lanes are an instruction of one operand."""
        operand = self.a.copy()
        operand[self.open] = as_nodes(self.assembler, self.a[self.open], self.a_known[self.open])
        self.unary(op, self.open, operand)

    def scale(self, known: Mask, factor: Floats, other: Ids) -> None:
        """Lanes with a known factor that is 1, -1 or a signed power of two."""
        if not known.any():
            return
        mantissa, exponents = np.frexp(factor)
        power = self.open & known & (other != KNOWN) & (np.abs(mantissa) == 0.5)
        for exponent in np.unique(exponents[power]).tolist():
            for sign in (0.5, -0.5):
                mask = power & (exponents == exponent) & (mantissa == sign)
                if not mask.any():
                    continue
                mask = self._claim(mask)
                ids = other[mask]
                if exponent == 1 and sign > 0:
                    ids = self.assembler.converted(ids, self.place)
                elif exponent != 1:
                    ids = self.assembler.emit(Op.SCALE, ids, None, self.place, exponent=exponent - 1)
                if sign < 0:
                    ids = self.assembler.emit(Op.NEG, ids, None, self.place)
                self.ids[mask] = ids

    def binary(self, op: Op) -> None:
        """The remaining lanes are an instruction; known operands become constants of the kernel."""
        mask = self._claim(self.open)
        if mask.any():
            left = as_nodes(self.assembler, self.a[mask], self.a_known[mask])
            right = as_nodes(self.assembler, self.b[mask], self.b_known[mask])
            self.ids[mask] = self.assembler.emit(op, left, right, self.place)

    def result(self) -> Traced:
        """The lanes as an array."""
        return Traced(self.assembler, self.ids.reshape(self.shape), self.known.reshape(self.shape), current_format())


def in_every_format(values: Floats) -> Mask:
    """Numbers that every format holds exactly, those of a user's own included: 0, 1 and -1."""
    return np.asarray((values == 0) | (np.abs(values) == 1))


def settled(a: Traced, format: str | None = None) -> Traced:
    """`a`, as it meets arrays of a format, by default the one in force: known numbers of another one are constants of theirs.

    0, 1 and -1 are numbers of every format.
    """
    if a.format is None or a.format == (current_format() if format is None else format):
        return a
    with asking(a.format):
        return with_constants(a, ~in_every_format(a.known))


def with_constants(a: Traced, which: Mask) -> Traced:
    """`a` with its known numbers among `which` as constants, which are in the format in force."""
    numbers = (a.ids == KNOWN) & which
    if not numbers.any():
        return a
    ids = a.ids.copy()
    ids[numbers] = as_nodes(a.assembler, a.ids[numbers], a.known[numbers])
    return Traced(a.assembler, ids, np.where(numbers, 0.0, a.known), a.format)


def as_nodes(assembler: Assembler, ids: Ids, known: Floats) -> Ids:
    """Ids with a CONST node for each distinct known number."""
    missing = ids == KNOWN
    if missing.any():
        values, where = np.unique(known[missing], return_inverse=True)
        ids = ids.copy()
        ids[missing] = assembler.constants(values, here())[where.ravel()]
    return ids
