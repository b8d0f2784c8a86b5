"""That the program of a kernel is the layer: its operations are run on quotients of polynomials, whatever its source was."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from certify.checker.cases.ngd.polynomials import ONE, Exponentials, Poly, dot, plus, times, var
from certify.checker.cases.ngd.setting import THEOREM, Examples, examples, require_certified

from certify.checker.document import Beyond, Claim, Finding, Rejected, agrees, proved
from certify.checker.emulation import evaluate
from certify.checker.formats import PAIRWISE
from certify.checker.program import Program

_MOST = 150
_KNOWN = {"add", "sub", "mul", "div", "neg", "scale", "sum", "dot", "max", "relu", "exp", "const"}


@dataclass(frozen=True)
class Ratio:
    """A quotient of polynomials."""

    over: Poly
    under: Poly | None = None

    def parts(self) -> tuple[Poly, Poly]:
        """Numerator and denominator."""
        return self.over, ONE if self.under is None else self.under


class Numbers:
    """Exact arithmetic on quotients, as an evaluation of programs wants it; each largest of two is a variable of its own."""

    def __init__(self) -> None:
        self.exponentials, self.largest = Exponentials(), 0

    def given(self, x: Any) -> Ratio:
        """An input, or a constant."""
        return x if isinstance(x, Ratio) else Ratio({(): Fraction(x)} if x else {})

    def add(self, a: Ratio, b: Ratio) -> Ratio:
        """A + b."""
        (p, q), (r, s) = a.parts(), b.parts()
        return Ratio(plus(p, r), q) if q == s else Ratio(plus(times(p, s), times(r, q)), times(q, s))

    def neg(self, a: Ratio) -> Ratio:
        """-a."""
        return Ratio(times(-1, a.over), a.under)

    def sub(self, a: Ratio, b: Ratio) -> Ratio:
        """A - b."""
        return self.add(a, self.neg(b))

    def mul(self, a: Ratio, b: Ratio) -> Ratio:
        """A b."""
        (p, q), (r, s) = a.parts(), b.parts()
        return Ratio(times(p, r), times(q, s))

    def div(self, a: Ratio, b: Ratio) -> Ratio:
        """A / b."""
        (p, q), (r, s) = a.parts(), b.parts()
        if not r:
            raise Rejected("the program divides by 0")
        return Ratio(times(p, s), times(q, r))

    def scale(self, a: Ratio, exponent: int) -> Ratio:
        """A 2^exponent."""
        return Ratio(times(Fraction(2) ** exponent, a.over), a.under)

    def max(self, a: Ratio, b: Ratio) -> Ratio:
        """The larger one: nothing is used of it but that it is a number."""
        self.largest += 1
        return Ratio(var(f"largest{self.largest}"))

    def relu(self, a: Ratio) -> Ratio:
        """The larger one of a and 0."""
        return self.max(a, Ratio({}))

    def exp(self, a: Ratio) -> Ratio:
        """Of a polynomial, minus perhaps a largest number: the product of two exponentials."""
        over, under = a.parts()
        if under != ONE:
            raise Beyond("the exponent of an exponential is no polynomial")
        front, rest = ONE, dict(over)
        for monomial, c in over.items():
            if any(x.startswith("largest") for x in monomial):
                if len(monomial) > 1 or c != -1:
                    raise Beyond("a largest number is not only subtracted in an exponent")
                front = times(front, var(f"lowered{monomial[0]}"))
                del rest[monomial]
        return Ratio(times(front, self.exponentials(rest)))


def require_layer(program: Program, given: Examples, context: Any) -> None:
    """Rejected unless the exact function of the program is the layer with the scalars of a context, for all its inputs."""
    context.cached(("ngd program", id(program), given.name), lambda: _require_layer(program, given))


def _require_layer(program: Program, given: Examples) -> bool:
    n, d = given.n, given.d
    if n * d > _MOST:
        raise Beyond("the kernel is too large for polynomials here")
    if {name: list(ids) for name, ids in program.inputs.items()} != {"Z": [*range(n * d)], "theta": [*range(d)]}:
        raise Rejected("its inputs are not all entries of Z and theta")
    if program.shapes != {"Z": (n, d), "theta": (d,)} or list(program.outputs) != ["0"]:
        raise Rejected("its inputs or outputs have other shapes or names than those of a layer")
    if program.formats or any(x < 0 for x in program.outputs["0"]) or len(program.outputs["0"]) != d:
        raise Beyond("some operation has a format of its own, or an output is a known number")
    if others := sorted({op for op, *_ in program.code} - _KNOWN):
        raise Beyond(f"the program has the operation {others[0]}, of which polynomials know nothing")
    z = [[var(f"z{i}.{k}") for k in range(d)] for i in range(n)]
    theta = [var(f"t{k}") for k in range(d)]
    ordered = {"Z": [x for row in z for x in row], "theta": theta}
    numbers = Numbers()
    inputs = [(Ratio(x),) for name in program.inputs for x in ordered[name]]
    values, first = evaluate(program, numbers, inputs, order=PAIRWISE)
    if first is not None:
        raise Beyond("the program is not defined on polynomials")
    e = [numbers.exponentials(times(-given.C2, dot(row, theta))) for row in z]
    total = plus(*e)
    for k, node in enumerate(program.outputs["0"]):
        over, under = values[node].parts()
        moved = plus(times(theta[k], total), times(given.C1, dot(e, [row[k] for row in z])))
        if not under or times(over, total) != times(moved, under):
            raise Rejected("the exact function of the program is not the layer")
    return True


def check_program(claim: Claim, context: Any) -> Finding:
    """The program of a kernel against the layer of its context."""
    given = examples(context, claim["parameters"].get("context"))
    name = f"layer-{given.name}"
    statement = (
        f"In exact arithmetic the program of the kernel {name} returns, for all real Z and theta, theta after the "
        f"masked layer with the C1 and C2 of context {given.name}: an identity of rational functions in the exponentials."
    )
    agrees(
        claim,
        context,
        id=f"identity/program/kernel={name}",
        semantics="real",
        parameters=("context", "kernel"),
        statement=statement,
        theorem=f"{THEOREM}program",
    )
    require_certified(claim)
    if claim["parameters"]["kernel"] != name:
        raise Rejected("its kernel is not that of its context")
    require_layer(context.kernel(name).program, given, context)
    return proved(claim)
