"""What a program computes: one loop over its operations for every arithmetic, the numbers of a format, and exact ones."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import inf, sqrt
from types import SimpleNamespace
from typing import Any

from flint import arb, ctx

from certify.checker.document import Beyond, Rejected
from certify.checker.formats import PAIRWISE, Format, Order, Overflow, format_named
from certify.checker.program import Program

#: The functions of a library, and the two that bounds need beside.
CALLS: dict[str, Any] = {"exp": arb.exp, "log": arb.log, "tanh": arb.tanh, "sigmoid": lambda x: 1 / (1 + (-x).exp())}
CALLS |= {"expm1": arb.expm1, "sqrt": arb.sqrt}
REACH = 800.0  # beyond it exp, tanh and sigmoid round in every format as they do here


def evaluate(
    program: Program, numbers: Any, inputs: Iterable[Any], stop: int | None = None, order: Order | None = None
) -> tuple[list[Any], int | None]:
    """The values of the nodes under some arithmetic, up to the first that overflows, or may; that node, or None.

    With no stop, the known numbers of outputs are converted at the end; one that overflows counts as `Program.place` has it.
    """
    v: list[Any] = []
    converted = 0
    at, order = v.__getitem__, order or program.order
    try:
        for x in inputs:
            v.append(numbers.given(*x))
        for k in range(len(program.code) if stop is None else stop):
            v.append(operate(program, k, numbers, order, at))
        for _, known in program.constants if stop is None else []:
            numbers.given(known)
            converted += 1
    except (Overflow, OverflowError):  # the latter of a sum that even binary64 cannot hold
        return v, len(v) + converted
    return v, None


def operate(program: Program, k: int, numbers: Any, order: Order, at: Any) -> Any:
    """The value of operation k, from those of the nodes before it."""
    op, operands, _, extra, own = program.code[k]
    numbers = numbers.own(own) if own else numbers
    if op in ("sum", "dot"):
        return _total(op, operands, numbers, order, at)
    if op in ("scale", "select"):
        return getattr(numbers, op)(*map(at, operands), extra)
    if op == "sqrt":
        return numbers.sqrt(at(operands[0]), program.nonnegative[operands[0]])
    return numbers.given(*operands) if op == "const" else getattr(numbers, op)(*map(at, operands))


def _total(op: str, operands: Any, numbers: Any, order: Order, at: Any) -> Any:
    """A sum or a sum of products in an order, in its accumulator if it has one: then rounded once more."""
    wide = numbers.accumulating(order.accumulator) if order.accumulator else numbers
    terms = [[None if i < 0 else at(i) for i in ids] for ids in (operands if op == "dot" else [operands])]
    if order.kind == "any-order":
        total = wide.every(*terms)
    elif op == "dot" and order.kind == "fma":
        (a, *left), (b, *right) = terms
        total = wide.mul(a, b)
        for a, b in zip(left, right, strict=True):
            total = wide.fma(a, b, total)
    elif op == "dot":
        products = (None if a is None else wide.mul(a, b) for a, b in zip(*terms, strict=True))
        total = order.total(wide.add, list(products))
    else:
        total = order.total(wide.add, terms[0])
    return total if wide is numbers else numbers.round(total)


class Ieee:
    """The numbers of a format. Functions of a library are correctly rounded, which every assumption on one admits.

    `plain`: all operands are numbers of the format, so that binary64 rounds innocuously on the way.
    """

    def __init__(self, format: Format, plain: bool = True) -> None:
        self._plain, self._nearest, fl, near, exact = plain, format.nearest, format.fl, format.nearest, Fraction
        self.given = self.cast = self.round = fl
        self.add: Any = (lambda a, b: fl(a + b)) if plain else lambda a, b: near(exact(a) + exact(b))
        self.mul: Any = (lambda a, b: fl(a * b)) if plain else lambda a, b: near(exact(a) * exact(b))
        self.fma = lambda a, b, c: near(exact(a) * exact(b) + exact(c))
        self.sub, self.overwrite = lambda a, b: self.add(a, -b), lambda x, y, d: self.add(x, d)
        self.scale, self.relu = lambda a, k: self.mul(a, 2.0**k), lambda a: fl(max(a, 0.0))
        self.neg, self.abs, self.max = lambda a: fl(-a), lambda a: fl(abs(a)), lambda a, b: fl(max(a, b))
        self.select = lambda p, q, x, y, strict: fl(x if p < q or (p == q and not strict) else y)
        self.exp, self.log, self.tanh, self.sigmoid = (
            partial(self._call, x) for x in ("exp", "log", "tanh", "sigmoid")
        )
        self._others: dict[str, Ieee] = {}

    def own(self, name: str) -> Ieee:
        """The arithmetic of an operation with a format of its own."""
        return self.accumulating(format_named(name))

    def accumulating(self, format: Format) -> Ieee:
        """The arithmetic of another format."""
        if format.name not in self._others:
            self._others[format.name] = Ieee(format, self._plain)
        return self._others[format.name]

    def div(self, a: float, b: float) -> float:
        """a / b."""
        if b == 0:
            raise Rejected("the program divides by 0, which is not defined, before anything overflows")
        return self.given(a / b) if self._plain else self._nearest(Fraction(a) / Fraction(b))

    def sqrt(self, a: float, nonnegative: bool = False) -> float:
        """The root of a."""
        return self.given(sqrt(a)) if self._plain and a >= 0 else self._call("sqrt", a)

    def _call(self, name: str, a: float) -> float:
        """fl(f(a)): the ends of a ball decide, as fl is monotone; where f(a) is rational, balls are exact."""
        if (name == "sqrt" and a < 0) or (name == "log" and a <= 0):
            raise Rejected(f"the program takes the {name} of {a}, which is not defined, before anything overflows")
        reach = inf if name in ("sqrt", "log") else REACH
        for bits in (128, 512, 2048, 8192):
            with ctx.workprec(bits):
                low, high = map(self._nearest, ends(CALLS[name](arb(min(max(a, -reach), reach)))))
            if low == high:
                return low
        raise Beyond("a function is too close to a tie for this checker")


def ends(ball: arb) -> tuple[Fraction, Fraction]:
    """The exact ends of a ball."""
    if not ball.is_finite():
        raise Overflow
    middle, radius = (int(m) * Fraction(2) ** int(e) for m, e in (ball.mid().man_exp(), ball.rad().man_exp()))
    return middle - radius, middle + radius


def emulate(program: Program, format: Format, values: Sequence[float]) -> tuple[list[float], int | None]:
    """The numbers that the program computes, inputs converted first, before the first that is not finite; and its node.

    Of any-order, the serial program, which is one of them.
    """
    order = replace(program.order, kind="serial") if program.order.kind == "any-order" else program.order
    numbers = Ieee(format, plain=not any(own for *_, own in program.code))
    return evaluate(program, numbers, zip(values, strict=True), order=order)


def exact(program: Program, values: Sequence[float], output: str) -> list[arb]:
    """An output of sums and products in exact arithmetic: balls, of radius 0 if the working precision suffices."""
    dyadic = SimpleNamespace(
        given=arb, add=operator.add, sub=operator.sub, mul=operator.mul, neg=operator.neg, overwrite=lambda x, y, d: y
    )
    dyadic.relu, dyadic.scale = lambda a: a.max(arb(0)), lambda a, k: a * arb(2) ** k
    ids, first = list(program.outputs[output]), len(values)
    for k, node in enumerate(ids):
        while (
            node >= first and program.code[node - first][0] == "overwrite"
        ):  # x + (y - x) is y, and y comes much before
            node = ids[k] = program.code[node - first][1][1]
    v, _ = evaluate(program, dyadic, zip(values, strict=True), max(ids) + 1 - first, PAIRWISE)
    return [arb(known) if node < 0 else v[node] for node, known in zip(ids, program.known[output], strict=True)]
