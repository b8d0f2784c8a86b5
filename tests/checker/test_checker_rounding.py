"""The checker's error analysis: against exact truth on random programs, and against the producer on the block."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox.certificates import graph_of, inputs_of
from checker_reports import random_state
from flint import ctx

from certify.arithmetic import format_named
from certify.arithmetic.directed import relaxed_up
from certify.checker.document import Rejected
from certify.checker.formats import format_named as checked_format
from certify.checker.program import Program, polyprox
from certify.checker.program import inputs_of as nodes_of
from certify.checker.rounding import FORMATS, Overflow, Running, emulate, exact, root_up
from certify.rounding import ball, point
from certify.rounding import majorant as producer_majorant
from certify.rounding import running as producer_running
from certify.rounding.posterior import computed

NAMES = ("float16", "bfloat16", "float32", "float64")


def neighbours(name, x):
    """A number of the format with the two around it, from the format's definition in integers."""
    f = FORMATS[name]
    exponent = max(math.frexp(x)[1] - 1, f.emin) if x else f.emin
    spacing = Fraction(2) ** (exponent - f.precision + 1)
    below = (Fraction(x) // spacing) * spacing
    return below, below + spacing, spacing


def rounded(f, x):
    """The number of the format nearest to x, or None beyond the largest."""
    try:
        return f.fl(x)
    except Overflow:
        return None


@pytest.mark.parametrize("name", NAMES[:3])
def test_rounding_is_to_nearest_ties_to_even(name):
    """Against exact rational arithmetic: ordinary numbers, ties, subnormals, powers of two and their neighbours."""
    rng = random.Random(1)
    f = FORMATS[name]
    for _ in range(4000):
        exponent = rng.choice([0, 1, f.emin, f.emin + 1, f.emin - f.precision + 2, f.emax - 1])
        n = rng.randrange(1 << (f.precision + 2))
        x = rng.choice([1, -1]) * (n + rng.choice([0, 0, 2.0**-20])) * 2.0 ** (exponent - f.precision - 1)
        below, above, spacing = neighbours(name, x)
        low, high = Fraction(x) - below, above - Fraction(x)
        even = below if (below / spacing) % 2 == 0 else above
        wanted = below if low < high else above if high < low else even
        assert rounded(f, x) == (float(wanted) if abs(wanted) <= f.largest else None)


@pytest.mark.parametrize("name", NAMES)
def test_rounding_agrees_with_the_producer(name):
    """On random bits of every magnitude, overflow included."""
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2**63 - 1, 5000) & ~np.int64(0)
    x = bits.view(np.float64)
    x = np.concatenate([x[np.isfinite(x)], [0.0, FORMATS[name].largest, FORMATS[name].omega, 65519.99, 65520.0]])
    with np.errstate(over="ignore"):
        wanted = format_named(name).round(x)
    finite = [v if math.isfinite(v) else None for v in wanted.tolist()]
    assert [rounded(FORMATS[name], v) for v in x.tolist()] == finite


@pytest.mark.parametrize("name", ["e4m3", "e5m2,ftz", "float16", "float16,ftz", "p=3,emin=-2,emax=9", "float64"])
def test_scales_are_those_that_a_format_holds(name):
    """A program scales by 2**k only if that and its reciprocal are numbers of the format, as reports refuse it otherwise."""
    format, refused = format_named(name), 0
    reach = min(format.emax + 12, 1023)
    for exponent in {*range(-reach, 20 - reach), *range(reach - 20, reach + 1), *range(-20, 20)}:
        program = Program({"x": [0]})
        program.outputs, program.known = {"0": [program.emit("scale", (0,), extra=exponent)]}, {"0": [0.0]}
        if format.holds(np.ldexp(1.0, [exponent, -exponent])).all():
            assert format.holds_scale(exponent)
            Running(program, checked_format(name), [0.0], [0.0])
        else:
            refused += 1
            with pytest.raises(Rejected, match="scales by a power of two"):
                Running(program, checked_format(name), [0.0], [0.0])
    assert refused > 0 or name == "float64"


OPS = ("sum", "sub", "dot", "mul", "neg", "relu", "scale", "overwrite", "const")


def random_program(rng):
    """Up to 14 operations over three inputs, operands drawn from recent nodes; every node is an output."""
    program = Program({"x": [0, 1, 2]})
    products = 0
    for _ in range(rng.randrange(4, 15)):
        op = rng.choice(OPS)
        ids = [max(rng.randrange(program.nodes), rng.randrange(program.nodes)) for _ in range(4)]
        if op in ("dot", "mul"):
            products += 1
            if products > 4:
                op = "sub"
        if op == "sum":
            program.emit("sum", ids[: rng.randrange(1, 5)])
        elif op in ("dot", "mul"):
            n = 2 if op == "dot" else 1
            program.emit("dot", (ids[:n], ids[2 : 2 + n]))
        elif op == "overwrite":
            d = program.emit("sub", (ids[1], ids[0]))
            program.emit("overwrite", (ids[0], ids[1], d))
        elif op == "const":
            program.emit("const", (rng.choice([0.1, -0.3, 3.0, 1 + 2.0**-9, 2.0**-30]),))
        elif op == "scale":
            program.emit("scale", (ids[0],), extra=rng.choice([-9, -2, -1, 1, 3]))
        else:
            program.emit(op, (ids[0], ids[1]) if op == "sub" else (ids[0],))
    program.outputs = {"all": list(range(program.nodes))}
    program.known = {"all": [0.0] * program.nodes}
    return program


def random_input(rng, f):
    """Aims at ties, subnormals, cancellation, powers of two, and numbers whose products underflow."""
    regime = rng.randrange(7)
    sign = rng.choice([-1, 1])
    if regime == 0:
        return rng.gauss(0, 1)
    if regime == 1:
        return sign * f.omega * rng.randrange(1, 40)
    if regime == 2:
        return sign * (rng.randrange(1 << f.precision) + 0.5) * 2.0 ** (1 - f.precision)
    if regime == 3:
        return sign * 2.0 ** rng.randrange(-4, 5)
    if regime == 4:
        return sign * rng.uniform(0.1, 3) * 2.0 ** (f.emin // 2)
    if regime == 5:
        return sign * (1 + rng.randrange(-2, 3) * f.u)
    return sign * rng.uniform(0.3, 4) * 2.0**f.emin


def dyadic(x):
    """The value of a ball of radius 0."""
    assert x.is_exact()
    m, e = x.man_exp()
    return int(m) * Fraction(2) ** int(e)


@pytest.mark.parametrize("name", NAMES)
def test_bounds_contain_the_error_of_random_programs(name):
    """At every node, at points and at points of boxes: enclosure of the computed value, error, magnitude."""
    f, rng = FORMATS[name], random.Random(name)
    finite = 0
    for _ in range(700):
        program = random_program(rng)
        middle = [random_input(rng, f) for _ in range(3)]
        radius = rng.choice([0.0, 0.0, f.u, 0.01, 4 * f.omega])
        lower, upper = [x - radius for x in middle], [x + radius for x in middle]
        analysis = Running(program, f, lower, upper)
        if analysis.first is not None:
            continue
        finite += 1
        corners = itertools.product(*zip(lower, upper, strict=True)) if radius else [middle]
        for values in [*itertools.islice(corners, 3), middle]:
            got, first = emulate(program, f, values)
            assert first is None
            with ctx.workprec(1 << 16):
                truth = [dyadic(x) for x in exact(program, values, "all")]
            for k, (x, t) in enumerate(zip(got, truth, strict=True)):
                error = abs(Fraction(x) - t)
                assert analysis.low[k] <= x <= analysis.high[k]
                assert error <= Fraction(analysis.error[k])
            assert max(map(abs, got)) <= f.fl(analysis.peak)
    assert finite > 300


def test_emulation_stops_at_the_first_overflow():
    """Its node is named, and the analysis does not prove more."""
    program = Program({"x": [0]})
    program.emit("dot", ([0], [0]), ("1", "a"))
    program.emit("dot", ([1], [1]), ("2", "b"))
    program.emit("neg", (2,), ("3", "c"))
    got, first = emulate(program, FORMATS["float16"], [100.0])
    assert (first, got[:2], program.place(first)) == (2, [100.0, 10000.0], ("2", "b"))
    assert Running(program, FORMATS["float16"], [100.0], [100.0]).first == 2
    assert emulate(program, FORMATS["float16"], [1e9])[1] == 0
    assert program.place(0) == ("", "x")


def test_a_partial_sum_that_overflows_is_seen():
    """60000 + 60000 - 60000 overflows on the way, although its value is finite."""
    program = Program({"x": [0, 1, 2]})
    program.emit("sum", [0, 1, 2])
    values = [60000.0, 60000.0, -60000.0]
    assert emulate(program, FORMATS["float16"], values)[1] == 3
    assert Running(program, FORMATS["float16"], values, values).first == 3
    assert Running(program, FORMATS["float32"], values, values).peak == 120000.0


@pytest.mark.parametrize("seed", range(12))
def test_the_block_is_the_producers_program_and_its_bounds_are_as_sharp(seed):
    """Same operations, same bits in every format, same first overflow, same peak, and bounds within the slack."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 7))
    density = (0.0, 0.3, 0.7, 1.0)[seed % 4]
    state = random_state(rng, p, int(rng.integers(p, 12)), seed % 2, density, scale=(0.3, 3.0, 100.0)[seed % 3])
    graph, mine = graph_of(state), polyprox(state.M.tolist(), state.b, state.N)
    assert mine.operations == graph.n_operations
    values = nodes_of(mine, {n: np.asarray(x).tolist() for n, x in inputs_of(state).items()})
    for name in NAMES:
        f, theirs = FORMATS[name], format_named(name)
        got, first = emulate(mine, f, values)
        if first is None:
            for output in ("W", "alpha"):
                wanted = computed(graph, theirs, inputs_of(state), output).ravel().tolist()
                assert mine.values(output, got) == wanted
        for region in (point(inputs_of(state)), ball(inputs_of(state), "W", 0.01)):
            ends = [nodes_of(mine, {n: x.tolist() for n, x in side.items()}) for side in (region.lower, region.upper)]
            bounds, analysis = producer_running(graph, theirs, region), Running(mine, f, *ends)
            assert (analysis.first is None) == (bounds.first_overflow() is None)
            if analysis.first is not None:
                continue
            assert f.fl(analysis.peak) == float(theirs.round(np.array(bounds.peak)))
            for output in ("W", "alpha"):
                published = relaxed_up(bounds.norm_of(output))
                assert published == math.inf or analysis.squared(output) <= Fraction(published) ** 2
                majorant = relaxed_up(producer_majorant(graph, theirs, region).norm_of(output))
                assert majorant == math.inf or analysis.squared(output) <= Fraction(majorant) ** 2


def test_roots_are_rounded_up():
    """Never below the square root, and hardly above."""
    rng = random.Random(3)
    assert root_up(Fraction(0)) == 0
    for _ in range(200):
        x = Fraction(rng.randrange(1, 1 << rng.randrange(1, 200)), rng.randrange(1, 1 << rng.randrange(1, 200)))
        root = root_up(x)
        assert x <= root * root <= x * (1 + Fraction(1, 1 << 50))


def test_products_just_above_a_power_of_two():
    """In binary64 they round down to it by more than half the spacing below it: the bound must see the exact product."""
    program = Program({"x": [0, 1]})
    program.emit("mul", (0, 1))
    rng, f, seen = random.Random(7), FORMATS["float64"], 0
    for _ in range(2000):
        a = 1 + rng.random()
        b = rng.choice([1.0, 8.0]) / a
        excess = Fraction(a) * Fraction(b) - Fraction(a * b)
        if math.frexp(a * b)[0] == 0.5 and excess > Fraction(a * b) / 2**54:
            seen += 1
        assert Fraction(Running(program, f, [a, b], [a, b]).error[2]) >= abs(excess)
    assert seen > 100


def test_known_outputs_count_with_their_conversion():
    """An output that is a number of the kernel errs by its rounding, without bound where the format overflows."""
    program = Program({"x": [0]}, outputs={"y": [-1]}, known={"y": [0.1]})
    analysis = Running(program, FORMATS["float32"], [1.0], [1.0])
    assert analysis.eps("y") >= abs(Fraction(0.1) - Fraction(FORMATS["float32"].fl(0.1))) > 0
    program.known = {"y": [1e6]}
    with pytest.raises(Rejected, match="overflow"):
        Running(program, FORMATS["float16"], [1.0], [1.0]).squared("y")
