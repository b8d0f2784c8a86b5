# ruff: noqa: D102, D103 - the arithmetics below have the operations that programs have
"""The checker's own bounds against emulation minus exact, over random programs of all operations, orders and formats.

The numbers of a program are rounded by integers, in an order drawn here; exact values are balls.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from flint import arb, ctx

from certify.arithmetic import Ieee, format_named
from certify.arithmetic.libm import CALLS
from certify.checker import formats
from certify.checker.emulation import evaluate
from certify.checker.formats import Overflow, order_named
from certify.checker.program import Program
from certify.checker.rounding import Running

FORMATS = (
    "e4m3",
    "e5m2",
    "float16",
    "bfloat16",
    "tf32",
    "float32",
    "float64",
    "float16,ftz",
    "float32,ftz",
    "float64,ftz",
)
FORMATS += (
    "e4m3,saturate",
    "bfloat16,ftz,saturate",
    "p=2,emin=-3,emax=4",
    "p=9,emin=-20,emax=25",
    "p=24,emin=-400,emax=400",
)
ORDERS = ("serial", "pairwise", "blocked(2)", "blocked(3)", "fma", "any-order")
UNARY = ("neg", "relu", "abs", "sqrt", "exp", "log", "tanh", "sigmoid")
OPS = ("sum", "dot", "add", "sub", "mul", "div", "max", "scale", "overwrite", "select", "const", *UNARY)


def random_program(rng, order, own=()):
    """A few operations over four inputs, operands drawn from recent nodes; every node is an output."""
    program = Program({"x": [0, 1, 2, 3]}, order_named(order))
    for _ in range(rng.randrange(4, 12)):
        op = rng.choice((*OPS, "cast") if own else OPS)
        ids = [max(rng.randrange(program.nodes), rng.randrange(program.nodes)) for _ in range(8)]
        named = rng.choice(("", *own))
        if op in ("sum", "dot"):
            n = rng.randrange(1, 5)
            terms = [rng.choice(ids) for _ in range(2 * n)]
            for k in range(n):
                if program.order.keeps_places and n > 1 and rng.random() < 0.3:
                    terms[k] = terms[n + k] = -1
            left, right = terms[:n], terms[n:]
            if sum(x >= 0 for x in left) > (op == "sum"):
                program.emit(op, (left, right) if op == "dot" else left, own=named)
        elif op == "overwrite":
            d = program.emit("sub", [ids[1], ids[0]], own=named)
            program.emit(op, [ids[0], ids[1], d], own=named)
        elif op == "const":
            program.emit(op, [rng.choice([0.1, -0.3, 3.0, 1 + 2.0**-9, 2.0**-5])], own=named)
        elif op == "scale":
            program.emit(op, [ids[0]], extra=rng.choice([-3, -2, -1, 1, 2]), own=named)
        elif op == "select":
            program.emit(op, ids[:4], extra=rng.randrange(2), own=named)
        elif op == "cast":
            program.emit(op, ids[:1], own=named)
        else:
            program.emit(op, ids[:1] if op in UNARY else ids[:2], own=named)
    program.outputs, program.known = {"all": list(range(program.nodes))}, {"all": [0.0] * program.nodes}
    return program


def random_input(rng, f):
    """Ordinary numbers, subnormals, ties, powers of two and their neighbours."""
    regime, sign = rng.randrange(6), rng.choice([-1, 1])
    if regime == 0:
        return sign * f.omega * rng.randrange(1, 40)
    if regime == 1:
        return sign * (rng.randrange(1 << min(f.precision, 40)) + 0.5) * 2.0 ** (1 - min(f.precision, 40))
    if regime == 2:
        return sign * 2.0 ** rng.randrange(-4, 3)
    if regime == 3:
        return sign * (1 + rng.randrange(-2, 3) * f.u)
    if regime == 4:
        return sign * rng.uniform(0.3, 4) * 2.0**f.emin
    return rng.gauss(0, 1.5)


class Floats:
    """One program of the order and one library: additions in any tree for any-order, each product fused or not, each result of
    a function up to U ulps away.
    """

    def __init__(self, name, rng, ulps, any_order, mixed):
        self.mixed = mixed
        self.format, self.checked = format_named(name), formats.format_named(name)
        self.ieee, self.rng, self.ulps, self.any = Ieee(self.format.unbounded), rng, ulps, any_order
        self.given = self.rounded

    def own(self, name):
        return Floats(name, self.rng, self.ulps, self.any, self.mixed)

    def accumulating(self, format):
        return self.own(format.name)

    def rounded(self, x):
        """Once, from an exact number; ties and overflow by integers, not by either side's code."""
        x, f = Fraction(x), self.format
        if x == 0:
            return 0.0
        exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
        exponent -= abs(x) < Fraction(2) ** exponent
        spacing = Fraction(2) ** (max(exponent, f.emin) - f.precision + 1)
        y = round(x / spacing) * spacing
        if abs(y) > Fraction(f.largest):
            raise Overflow
        return 0.0 if f.flush and abs(y) < Fraction(2) ** f.emin else float(y)

    def open(self, exact):
        """A product that any-order may leave unrounded: both numbers; a later addition takes one."""
        return (self.rounded(exact), exact, self.checked) if self.any else self.rounded(exact)

    def number(self, a):
        return a[0] if isinstance(a, tuple) else a

    def either(self, a):
        return self.rng.choice(a[:2]) if isinstance(a, tuple) else a

    def add(self, a, b):
        left, right = self.either(a), self.either(b)
        if left is not self.number(a) and right is not self.number(b):  # one of two products is rounded
            right = self.number(b)
        return self.rounded(Fraction(left) + Fraction(right))

    def sub(self, a, b):
        return self.add(a, (-b[0], -b[1], b[2]) if isinstance(b, tuple) else -b)

    def mul(self, a, b):
        return self.open(Fraction(self.number(a)) * Fraction(self.number(b)))

    def cast(self, a):
        return self.passed(a, lambda x: x)

    def round(self, a):
        return (self.rounded(a[0]), a[1], self.checked) if isinstance(a, tuple) else self.rounded(a)

    def fma(self, a, b, c):
        return self.rounded(Fraction(a) * Fraction(b) + Fraction(c))

    def passed(self, a, exactly):
        """What is exact for numbers of this format passes a product on, rounded or not; what rounds it here, does not."""
        if isinstance(a, tuple) and self.checked.holds(a[2]):
            return exactly(a[0]), exactly(a[1]), self.checked
        return self.rounded(exactly(self.number(a)))

    def every(self, a, b=None):
        """A random tree."""
        terms = list(a) if b is None else [self.mul(x, y) for x, y in zip(a, b, strict=True)]
        while len(terms) > 1:
            i, j = sorted(self.rng.sample(range(len(terms)), 2))
            y, x = terms.pop(j), terms.pop(i)
            terms.append(self.add(x, y))
        return terms[0]

    def scale(self, a, exponent):
        exact = Fraction(self.number(a)) * Fraction(2) ** exponent
        return self.open(exact) if exponent < 0 else self.rounded(exact)

    def overwrite(self, x, y, d):
        return self.add(x, d)

    def neg(self, a):
        return self.passed(a, lambda x: -x)

    def relu(self, a):
        return self.rounded(max(self.number(a), 0.0))

    def abs(self, a):
        return self.passed(a, abs)

    def max(self, a, b):
        return self.rounded(max(self.number(a), self.number(b)))

    def select(self, p, q, x, y, strict):
        p, q = self.number(p), self.number(q)
        chosen = x if (p < q if strict else p <= q) else y
        # with formats of its own a selection may round, by either branch, and then passes no product on
        return self.rounded(self.number(chosen)) if self.mixed else self.passed(chosen, lambda x: x)

    def div(self, a, b):
        return self.rounded(Fraction(self.number(a)) / Fraction(self.number(b)))

    def sqrt(self, a, nonnegative):
        return self.called("sqrt", self.number(a), None)

    def called(self, name, a, ulps):
        """Correctly rounded by the producer's emulation, or a number at a random distance within U ulps."""
        with ctx.workprec(200):
            # beyond 2000, where balls may fail, the functions are as good as at 2000
            y = FUNCTIONS[name](arb(a if name in ("log", "sqrt") else min(max(a, -2000.0), 2000.0)))
            exact = fraction(y.mid())
        if ulps is None:
            return self.rounded(exact)  # at 200 bits no double rounding is seen
        exponent = (
            abs(exact).numerator.bit_length() - abs(exact).denominator.bit_length() if exact else self.format.emin
        )
        exponent -= bool(exact) and abs(exact) < Fraction(2) ** exponent
        ulp = Fraction(2) ** (max(exponent, self.format.emin) - self.format.precision + 1)
        aim = exact + Fraction(self.rng.choice([-ulps, ulps, self.rng.uniform(-ulps, ulps), 0])) * ulp
        low, high = {"exp": (0, 1 << 1100), "log": (-1 << 12, 1 << 12), "tanh": (-1, 1), "sigmoid": (0, 1)}[name]
        got = self.rounded(min(max(aim, low), high))
        return got if abs(Fraction(got) - exact) <= Fraction(ulps) * ulp else self.rounded(exact)

    def __getattr__(self, name):
        if name not in CALLS:
            raise AttributeError(name)
        return lambda a: self.called(name, self.number(a), self.ulps[name])


FUNCTIONS = {
    "exp": arb.exp,
    "log": arb.log,
    "tanh": arb.tanh,
    "sqrt": arb.sqrt,
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
}


SIZE = arb(2) ** 1100


def fraction(x):
    m, e = x.man_exp()
    return int(m) * Fraction(2) ** int(e)


class Balls:
    """Exact values, in balls; a choice that they do not decide ends the program."""

    def own(self, name):
        return self

    accumulating = own
    given = staticmethod(arb)

    def __getattr__(self, name):
        return {
            "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
            "relu": lambda a: a.max(arb(0)), "abs": abs, "max": lambda a, b: a.max(b), "div": lambda a, b: a / b,
            "scale": lambda a, k: a * arb(2) ** k, "overwrite": lambda x, y, d: y, "cast": lambda a: a, "round": lambda a: a,
            "sqrt": lambda a, n: (a.max(arb(0)) if n else a).sqrt(), **{n: FUNCTIONS[n] for n in CALLS},
        }[name]  # fmt: skip

    def select(self, p, q, x, y, strict):
        if p < q or p > q:
            return x if p < q else y
        if p.is_exact() and q.is_exact() and p == q:
            return y if strict else x
        raise Overflow


def check_case(rng, name, order, own=(), method=None):
    """One program at points and in boxes; how many nodes were compared. `method` gives other error bounds of its nodes."""
    f = formats.format_named(name)
    program = random_program(rng, order, own)
    ulps = {call: rng.choice([None, 0.5, 1.0, 1.5]) if f.precision > 2 else None for call in CALLS}
    middle = [random_input(rng, f) for _ in range(4)]
    radius = rng.choice([0.0, 0.0, f.u / 2, 0.01, 4 * f.omega] + [0.3] * (method is not None))
    lower, upper = [x - radius for x in middle], [x + radius for x in middle]
    analysis = Running(program, f, lower, upper, ulps)
    stop = (len(program.code) if analysis.first is None else max(analysis.first - 4, 0)) if analysis.low else 0
    errors = analysis.error
    if method:
        program.code, program.nodes = program.code[:stop], 4 + stop
        analysis = Running(program, f, lower, upper, ulps)
        errors = method(analysis) if analysis.first is None else []
    compared = 0
    for trial in range(2):
        values = [rng.choice(pair) for pair in zip(lower, upper, strict=True)] if trial else middle
        floats = Floats(name, rng, ulps, order.startswith("any-order"), bool(own))
        got, over = evaluate(program, floats, ([x] for x in values), stop)
        assert over is None or over >= len(analysis.low), (name, order, program.code, values)
        with ctx.workprec(2000):
            truth, _ = evaluate(program, Balls(), ([x] for x in values), stop, formats.PAIRWISE)
        for k in range(min(len(got), len(truth), len(errors))):
            ball = truth[k]
            if not (abs(ball) < SIZE and ball.rad() < 1 / SIZE):
                break
            middle_of, radius_of = (
                Fraction(0) if x < 1 / SIZE and x > -1 / SIZE else fraction(x) for x in (ball.mid(), ball.rad())
            )
            radius_of += Fraction(1, 1 << 1100)
            for x in got[k][:2] if isinstance(got[k], tuple) else (got[k],):
                low, high, error = analysis.low[k], analysis.high[k], errors[k]
                where = (name, order, k, program.code, values, ulps, x, low, high, error)
                assert Fraction(low) <= Fraction(x) <= Fraction(high), where
                # a fused product does not carry its rounding, and neither does its error
                assert error == math.inf or abs(Fraction(x) - middle_of) - radius_of <= Fraction(error), where
            compared += k >= 4
    return compared


@pytest.mark.parametrize("order", ORDERS)
def test_bounds_contain_every_error(order):
    """Ends, error of each node, in every format, with and without an accumulator, at points and in boxes."""
    rng, compared = random.Random(order), 0
    for name in FORMATS:
        f = formats.format_named(name)
        wide = [x for x in ("float16", "float32", "float64") if formats.format_named(x).holds(f)]
        for k in range(24):
            compared += check_case(rng, name, rng.choice([order, *(f"{order}:{x}" for x in wide)]) if k % 2 else order)
    assert compared > 1500


@pytest.mark.parametrize("order", ORDERS)
def test_formats_of_their_own(order):
    """Operations rounded to another format than that of their operands, casts among them."""
    rng, compared = random.Random(order), 0
    for name in ("float16", "float32", "float64", "bfloat16,ftz", "e4m3"):
        for _ in range(30):
            compared += check_case(rng, name, order, ("float16", "float32", "e5m2", "float64", "float16,ftz"))
    assert compared > 500
