"""The checker's adjoint and majorant bounds against exact errors, over random programs; and each of their rules, spoiled."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from fractions import Fraction
from typing import Any

import pytest
import test_checker_fuzz as fuzz
from flint import arb, ctx
from test_checker_fuzz import Balls, Floats, check_case, fraction

from certify.checker import adjoint as rules
from certify.checker.adjoint import Adjoint
from certify.checker.document import Beyond
from certify.checker.emulation import evaluate, operate
from certify.checker.formats import PAIRWISE, format_named, order_named
from certify.checker.majorant import Majorant, majorant
from certify.checker.program import Program
from certify.checker.rounding import Running

OWN = ("float16", "float32", "e5m2", "float64", "float16,ftz", "p=2,emin=-3,emax=4")
ULPS = {"exp": 0.5, "log": 0.5, "tanh": 0.5, "sigmoid": 0.5}
Code = list[tuple[Any, ...]]


def adjoint_bounds(running: Running) -> list[float]:
    """Of every node."""
    found = Adjoint(running)
    return [found.error(node) for node in range(len(running.error))]


def compared(rng: random.Random, own: bool, any_order: bool, method: Any, count: int) -> int:
    """Random programs in random formats and orders; how many nodes were compared."""
    nodes = 0
    for _ in range(count):
        name = rng.choice(fuzz.FORMATS)
        wide = [x for x in ("float16", "float32", "float64") if format_named(x).holds(format_named(name))]
        order = rng.choice([x for x in fuzz.ORDERS if any_order or x != "any-order"])
        order += f":{rng.choice(['float64'] if own else wide)}" * (rng.random() < 0.4 and bool(wide))
        nodes += check_case(rng, name, order, OWN if own else (), method)
    return nodes


@pytest.mark.parametrize("own", [False, True], ids=["one format", "own formats"])
def test_no_error_exceeds_its_adjoint_bound(own: bool) -> None:
    """Every operation, order and format, at points and in boxes, a library that errs as far as it may."""
    assert compared(random.Random(1), own, not own, adjoint_bounds, 120) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["one format", "own formats"])
def test_no_error_exceeds_its_adjoint_bound_often(own: bool) -> None:
    """The same at length."""
    assert compared(random.Random(2), own, not own, adjoint_bounds, 6000) > 60_000


def test_no_error_exceeds_its_majorant_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums and products, in every order and format; of other operations there are no such bounds."""

    def bounds(running: Running) -> list[float]:
        try:
            return majorant(running)
        except Beyond as none:
            assert "too long" in str(none)
            return []

    monkeypatch.setattr(fuzz, "OPS", ("sum", "dot", "add", "sub", "mul", "scale", "overwrite", "const", "neg", "relu"))
    for own in (False, True):
        assert compared(random.Random(3), own, True, bounds, 150) > 1500
    program = made([("exp", [0])])
    with pytest.raises(Beyond, match="sums and products only"):
        majorant(Running(program, format_named("float32"), [1.0] * 4, [1.0] * 4, ULPS))


def made(code: Code, order: str = "serial") -> Program:
    """A program over four inputs, 0 to 3; operations (name, operands, own format, extra)."""
    program = Program({"x": [0, 1, 2, 3]}, order_named(order))
    for op, operands, own, *extra in [(*x, "float64") if len(x) == 2 else x for x in code]:
        program.emit(op, operands, extra=sum(extra), own=own)
    return program


def near(rng: random.Random) -> list[float]:
    """Numbers of one size, some of which are equal once they are converted to a coarse format."""
    first = rng.uniform(0.5, 4.0)
    return [first * (1 + rng.uniform(-0.12, 0.12)) for _ in range(4)]


# programs: inputs are converted to e5m2, and hardly anything is rounded after that, so that the error is what a secant says
DIFFERENCE: Code = [("sub", (0, 1))]
ONE: dict[str, Code] = {
    **{op: [(op, (0,))] for op in ("exp", "log", "tanh", "sigmoid", "sqrt")},
    "div": [("div", (0, 1))],
    "mul": [("mul", (0, 1))],
    "max": [("max", (0, 1))],
    "relu": [*DIFFERENCE, ("sub", (2, 3)), ("add", (4, 5)), ("relu", (6,))],
    "abs": [*DIFFERENCE, ("abs", (4,)), ("sub", (5, 4))],
    "select": [("select", (0, 1, 2, 0), "float64", 0)],
    "strict": [("select", (0, 1, 2, 0), "float64", 1)],
    "neg": [("neg", (0,)), ("sub", (4, 0))],
    "sub": [*DIFFERENCE, ("neg", (1,)), ("add", (4, 5))],
    "scale": [("scale", (0,), "float64", 1)],
    "cast": [("cast", (0,), "float64")],
    "overwrite": [("mul", (0, 1)), ("sub", (4, 0), "p=2,emin=-30,emax=30"), ("overwrite", (0, 4, 5))],
    "rounded": [("mul", (0, 1), "p=2,emin=-30,emax=30")],
    "total": [("sum", [0, 1, 2], "")],
    "fused": [("mul", (0, 1), ""), ("add", (4, 2), ""), ("sub", (5, 4), "")],
}


def caught(code: Code, order: str = "serial", format: str = "e5m2", spoil: Callable[[Any], None] | None = None) -> bool:
    """Whether an error of the last node exceeds the bound, at states where the right one holds."""
    program, rng, wrong = made(code, order), random.Random(5), False
    f, last = format_named(format), 3 + len(code)
    for _ in range(300):
        values = near(rng)
        if order == "any-order":
            values[2] = -values[0] * values[1] * (1 + rng.uniform(-0.2, 0.2))
        running = Running(program, f, values, values, ULPS)
        if running.first is not None:
            continue
        found = Adjoint(running)
        if spoil:
            spoil(found)
        bound = Fraction(found.error(last))
        got, _ = evaluate(program, Floats(format, rng, ULPS, order == "any-order", order != "any-order"), zip(values))
        with ctx.workprec(300):
            truth, _ = evaluate(program, Balls(), zip(values), order=PAIRWISE)
            exact = fraction(truth[last].mid())
        computed = got[last][0] if isinstance(got[last], tuple) else got[last]
        wrong |= abs(Fraction(computed) - exact) > bound + Fraction(1, 1 << 120)
    return wrong


@pytest.mark.parametrize("name", ONE)
def test_without_a_bug_no_bound_is_exceeded(name: str) -> None:
    """At the states that show the bugs below."""
    assert not caught(ONE[name], {"fused": "any-order", "total": "serial:float32"}.get(name, "serial"))


def computed_only(a: Any) -> Any:
    """A hull that forgets the exact operand."""
    return arb(a[0]), arb(a[1])


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "sqrt", "div"])
def test_a_hull_of_computed_operands_alone_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slope between the two differs from that at the computed one."""
    monkeypatch.setattr(rules, "_hull", computed_only)
    assert caught(ONE[name])


def decided(rule: Any) -> Any:
    """A rule that forgets errors when it decides."""
    return lambda *args: rule(*[(x[0], x[1], 0.0, x[3]) if isinstance(x, tuple) else x for x in args])


@pytest.mark.parametrize(
    ("name", "op"), [("relu",) * 2, ("abs",) * 2, ("max",) * 2, ("select",) * 2, ("strict", "select")]
)
def test_a_decision_by_computed_operands_alone_is_caught(name: str, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact program may take the other side."""
    monkeypatch.setitem(rules._SECANTS, op, decided(rules._SECANTS[op]))
    assert caught(ONE[name])


#: A rule, the name of a program that shows it, and what is wrong: secants by operand that replace the right ones.
WRONG: list[tuple[str, str, Any]] = [
    ("div", "div", lambda good: lambda a, b: [good(a, b)[0], (0.0, 0.0)]),
    ("div", "div", lambda good: lambda a, b: [(0.0, 0.0), good(a, b)[1]]),
    ("div", "div", lambda good: lambda a, b: [good(a, b)[0], good(a, b)[0]]),
    ("sqrt", "sqrt", lambda good: lambda a: [(x / 2, t) for x, t in good(a)]),
    ("max", "max", lambda good: lambda a, b: [good(a, b)[0], (0.0, 0.0)]),
    ("max", "max", lambda good: lambda a, b: [(0.0, 0.0), good(a, b)[1]]),
    ("relu", "relu", lambda good: lambda a: [(0.5, 0.0) if t else (s, t) for s, t in good(a)]),
    ("abs", "abs", lambda good: lambda a: [(1.0, 0.0)]),
    ("select", "select", lambda good: lambda p, q, x, y, strict: [(0.0, 0.0)] * 2 + [(1.0, 0.0), (0.0, 0.0)]),
    ("select", "select", lambda good: lambda *args: good(*args) and [*good(*args)[:3], (0.0, 0.0)]),
    ("select", "select", lambda good: lambda *args: good(*args) and [*good(*args)[:2], (0.0, 0.0), good(*args)[3]]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "name", "wrong"), WRONG)
def test_a_wrong_secant_is_caught(op: str, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign, a factor, an operand or a width that is left out."""
    monkeypatch.setitem(rules._SECANTS, op, wrong(rules._SECANTS[op]))
    assert caught(ONE[name])


SLOPES: list[tuple[str, Any]] = [
    ("exp", lambda t: t),
    ("exp", lambda t: (t / 2).exp()),
    ("log", lambda t: 1 / (t + 1)),
    ("tanh", lambda t: 1 / t.cosh() ** 3),
    ("sigmoid", lambda t: 1 / (2 * t.cosh()) ** 2),
    ("sigmoid", lambda t: 1 / (4 * (t / 2).cosh()) ** 2),
]


@pytest.mark.parametrize(("op", "wrong"), SLOPES)
def test_a_wrong_slope_is_caught(op: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A derivative of another function."""
    monkeypatch.setitem(rules._SLOPES, op, wrong)
    assert caught(ONE[op])


@pytest.mark.parametrize("op", ["exp", "log", "tanh", "sigmoid", "div"])
def test_one_end_of_an_interval_is_not_enough(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller of its ends, as if the secant were known."""

    def smaller(*balls: arb) -> tuple[float, float]:
        return min((float(x.mid()) for x in balls), key=abs), 0.0

    monkeypatch.setattr(rules, "_around", smaller)
    assert caught(ONE[op])


@pytest.mark.parametrize(
    ("op", "wrong"), [("neg", (1.0,)), ("sub", (1.0, 1.0)), ("cast", (0.0,)), ("sub", (1.0, 0.0)), ("sub", (0.0, -1.0))]
)
def test_a_wrong_sign_is_caught(op: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two paths that add up would cancel, or one is lost."""
    monkeypatch.setitem(rules._FIXED, op, wrong)
    assert caught(ONE[op])


def of_the_program(program: Program, k: int, numbers: Any, order: Any, at: Any) -> Any:
    """An operation in the program's format, whatever its own; a total that is not rounded."""
    spoiled = copy(numbers)
    spoiled.own, spoiled.round = lambda name: numbers, lambda a: a
    return operate(program, k, spoiled, order, at)


@pytest.mark.parametrize(
    ("name", "order", "format"), [("rounded", "serial", "float64"), ("total", "serial:float32", "e5m2")]
)
def test_a_local_term_of_another_format_is_caught(
    name: str, order: str, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the program's format, or of the accumulator alone."""
    assert not caught(ONE[name], order, format)
    monkeypatch.setattr(rules, "operate", of_the_program)
    assert caught(ONE[name], order, format)


def not_cut(found: Any) -> None:
    """Cut nodes count with their own rounding alone."""
    for node, secants in found.found.items():
        found.local[node] = 0.0 if secants is None else found.local[node]


def as_one_format(found: Any) -> None:
    """Overwriting is not cut: the difference has an error of its own, which is lost."""
    for node in [k for k, secants in found.found.items() if secants is None]:
        del found.found[node]
        found.local[node] = 0.0


def never_open(found: Any) -> None:
    """Every use of a product sees the same number."""
    found.open = [False] * len(found.open)


@pytest.mark.parametrize(
    ("name", "order", "spoil"),
    [("select", "serial", not_cut), ("overwrite", "serial", as_one_format), ("fused", "any-order", never_open)],
)
def test_what_is_cut_or_open_counts(name: str, order: str, spoil: Any) -> None:
    """A selection that is not decided, overwriting in two formats, a product that one use rounds and another does not."""
    assert caught(ONE[name], order, spoil=spoil)


@pytest.mark.parametrize("term", ["w", "u"])
def test_a_majorant_bound_without_a_term_is_caught(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without underflow, or without the unit roundoff, errors of a product exceed it."""
    program, rng, f = made([("mul", (0, 1), "")]), random.Random(2), copy(format_named("float16"))
    exceeded = 0
    for spoiled in (False, True):
        if spoiled and term == "w":
            monkeypatch.setattr(Majorant, "w", 0.0, raising=False)
            monkeypatch.setattr(Majorant, "__init__", lambda self, format: setattr(self, "format", format))
        elif spoiled:
            f.u = 0.0
        for _ in range(300):
            size = 2.0**-12 if term == "w" else 1.0
            values = [f.fl(x * size) for x in near(rng)]
            bound = majorant(Running(program, f, values, values))[4]
            exact = Fraction(values[0]) * Fraction(values[1])
            wrong = abs(Fraction(f.fl(values[0] * values[1])) - exact) > Fraction(bound)
            assert spoiled or not wrong
            exceeded += wrong
    assert exceeded
