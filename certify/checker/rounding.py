"""How far a program is from exact: the rules of all its operations, from the inputs to the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import inf, isqrt

from certify.checker.document import Rejected
from certify.checker.emulation import emulate, evaluate, exact
from certify.checker.formats import FORMATS, Format, Overflow, format_named
from certify.checker.functions import Functions
from certify.checker.program import Program

__all__ = ["FORMATS", "Overflow", "Running", "emulate", "exact", "root_up"]


class Running:
    """Running error bounds of all nodes of a program for all exact inputs between two ends, conversion included.

    `ulps` says how accurate the library's functions are. `first` is the first node that may overflow or be undefined, or None:
    then no operation does anywhere in the region, partial sums included, as an end that overflows would have stopped there; and
    `peak` bounds every result, each rounded.
    """

    def __init__(
        self,
        program: Program,
        format: Format,
        lower: Sequence[float],
        upper: Sequence[float],
        ulps: Mapping[str, float | None] | None = None,
    ) -> None:
        own = {name for *_, name in program.code if name}
        for op, _, _, exponent, name in program.code:
            held = format_named(name) if name else format
            if op == "scale" and not held.holds_scale(exponent):
                raise Rejected(f"the program scales by a power of two that {held.name} cannot hold")
        rules = Functions(format, ulps, program.order.kind == "any-order", mixed=bool(own))
        self.rules, self.box = rules, list(zip(lower, upper, strict=True))
        self.values, self.first = evaluate(program, rules, self.box)
        self.program, self.fl = program, format.fl
        every = [rules, *(rules.own(name) for name in own)] if self.first is None else []
        self.peak = max([each.fl(each.peak) for each in every], default=inf)
        self.low: list[float]
        self.high: list[float]
        self.error: list[float]
        self.low, self.high, self.error = ([x[k] for x in self.values] for k in range(3))

    def squared(self, output: str, others: Mapping[int, float] | Sequence[float] = ()) -> Fraction:
        """The sum of the squares of an output's error bounds: these, or other ones of its nodes."""
        error = others or self.error
        pairs = zip(self.program.outputs[output], self.program.known[output], strict=True)
        try:
            errors = [
                error[node] if node >= 0 else known - self.fl(known) for node, known in pairs if self.first is None
            ]
        except Overflow:  # of a known number
            errors = [inf]
        if self.first is not None or inf in errors:
            raise Rejected(f"no error bound of {output} is proved: an overflow is not excluded")
        return sum((Fraction(e) ** 2 for e in errors), Fraction(0))

    def eps(self, output: str, others: Mapping[int, float] | Sequence[float] = ()) -> Fraction:
        """An upper bound of the norm of an output's error, within one part in 2**60."""
        return root_up(self.squared(output, others))


def root_up(x: Fraction) -> Fraction:
    """An upper bound of the square root of x >= 0, within one part in 2**60."""
    shift = max(0, 64 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    scaled = -((-x.numerator << 2 * shift) // x.denominator)
    return Fraction(isqrt(scaled - 1) + 1 if scaled else 0, 1 << shift)
