"""Tuning: the programs found are contained in their bounds, and the lower bounds are lower bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from random_kernels import random_steps, traced
from tuning_cases import FORMATS, KERNELS, case, every_certified

from certify.arithmetic import BINARY32, BINARY64, format_named, with_formats
from certify.errors import InputRejected, Undecided
from certify.graph import trace, with_order, with_stored_inputs
from certify.rounding import Region, ball, point, running, tune
from certify.rounding.assignments import Assignments, coarse_to_fine
from certify.rounding.batch import computed_batch
from certify.rounding.posterior import computed, error, exact
from certify.rounding.unavoidable import Unavoidable


def contained(found, inputs, runs, radius, name="0", moving=None):
    """Run the program at many inputs of the region; every error is within its element's bound."""
    rng = np.random.default_rng(1)
    moving = next(iter(inputs)) if moving is None else moving
    bound = found.bounds.error_of(name)
    worst = 0.0
    for _ in range(runs):
        step = rng.standard_normal(inputs[moving].shape)
        length = float(np.linalg.norm(step)) or 1.0
        at = {**inputs, moving: inputs[moving] + step * (0.999 * radius * rng.random() / length)}
        floats = computed(found.graph, found.format, at, name)
        wrong = np.asarray(error(floats, exact(found.graph, at, name)), dtype=object).ravel()
        assert (wrong <= np.asarray(bound, dtype=object).ravel()).all()
        worst = max(worst, float(np.sqrt(float((wrong * wrong).sum()))))
    return worst


@pytest.mark.parametrize("name", KERNELS)
def test_tuned_programs_are_contained(name):
    """1,000 runs in all over the kernels, on a ball, at a tolerance between those of float16 and float32."""
    graph, region, inputs = case(name, radius=0.01)
    found = tune(graph, region, 2e-2)
    assert found.bounds.first_overflow() is None
    assert all(eps <= 2e-2 for eps in found.eps.values())
    assert contained(found, inputs, 200, 0.01) <= 2e-2
    assert found.cost <= found.uniform


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("tol", [3e-1, 1e-2, 1e-3, 1e-5])
def test_no_assignment_is_below_the_lower_bounds(name, tol):
    """Of all assignments, the cheapest certified one costs no less than `least`, and no more than what is found."""
    for radius in (0.0, 0.02):
        graph, region, _ = case(name, seed=3, radius=radius)
        costs = list(every_certified(graph, region, tol))
        if not costs:
            with pytest.raises(Undecided, match="none of bfloat16, float16, float32 certifies"):
                tune(graph, region, tol, formats=FORMATS)
            continue
        found = tune(graph, region, tol, formats=FORMATS)
        assert found.least <= min(costs) <= found.cost <= found.uniform
        assert found.alone <= min(costs)  # monotone, here
        assert found.cost <= min(costs) * 1.25


def test_the_search_is_exact_on_most_small_kernels():
    """On kernels of this size the cheapest program is found in nine cases of ten."""
    exact = total = 0
    for name, tol in product(KERNELS, (1e-1, 1e-2, 1e-3)):
        graph, region, _ = case(name, seed=1)
        costs = list(every_certified(graph, region, tol))
        if costs:
            total += 1
            exact += tune(graph, region, tol, formats=FORMATS).cost == min(costs)
    assert total >= 10
    assert exact >= 0.9 * total


@pytest.mark.parametrize("seed", range(60))
def test_unavoidable_parts_of_any_program(seed):
    """Random kernels, formats and regions: what the theorem counts never passes the running bound of the program itself.

    Whatever tolerance the weights are for, and whatever they are told of the formats of other registers, if it is true.
    """
    rng = np.random.default_rng(seed)
    graph = with_order(traced(random_steps(rng)), "serial")
    candidates = [
        ("float16", "bfloat16", "float32"),
        ("e5m2", "e4m3", "float16", "float32"),
        ("tf32", "float32", "float64"),
    ]
    formats = candidates[seed % 3]
    try:
        space = Assignments(graph, coarse_to_fine(formats))
    except InputRejected:
        pytest.skip("scaled beyond these formats")
    scale = 2.0 ** rng.integers(-12, 3)
    low = {b.name: scale * rng.standard_normal(b.support.shape) for b in graph.inputs}
    for spread in (0.0, 0.01):
        region = Region(low, {n: x + spread * np.abs(x) for n, x in low.items()})
        kernel = Unavoidable(space, region)
        for _ in range(6):
            drawn = tuple(int(f) for f in rng.integers(0, len(space.formats), len(space.names)))
            if not kernel.defined or not all(space.possible(r, f) for r, f in enumerate(drawn)):
                continue
            bounds = running(*space.program(drawn), region)
            if bounds.first_overflow() is not None:
                continue
            for name in rng.permutation(list(graph.outputs))[:4]:
                norm, error = bounds.norm_of(name), bounds.error_of(name)
                for direction in (error, rng.random(error.shape)):
                    g, most = kernel.weighed(name, norm * rng.choice([1, 1.001, 2, 100]), direction)
                    allowed = rng.random((len(drawn), len(space.formats))) < rng.choice([0, 0.5, 1])
                    allowed[range(len(drawn)), drawn] = True
                    parts = kernel.parts(g, most, allowed)
                    assert (parts >= 0).all()
                    assert sum(parts[r, f] for r, f in enumerate(drawn)) <= norm


def cancelling(x, y, z):
    """Numbers that are left of sums with 80, which may be wrong by as much as they are; and products that may be exact."""
    p = x + 80
    a = p - 80
    q = y + 80
    b = q - 80
    r = a * b
    s = b + 300
    t = s + a
    u = np.maximum(a - 0.1, 0)
    v = z * z
    w = v * v
    return {"r": r, "t": t, "u": u, "w": w}


@pytest.mark.parametrize("seed", range(4))
def test_unavoidable_parts_where_it_is_close(seed):
    """The same of one number: factors and terms that may be 0, a relu that may be, and products that may be exact."""
    rng = np.random.default_rng(seed)
    inputs = {name: rng.uniform(0.02, 0.5, 1) for name in ("x", "y")} | {"z": rng.integers(222, 256, 1) / 256}
    space = Assignments(trace(cancelling, inputs, order="serial"), coarse_to_fine(["bfloat16", "float16", "float32"]))
    kernel = Unavoidable(space, point(inputs))
    for _ in range(40):
        drawn = rng.choice([0, 0, 1, 2], len(space.names))
        bounds = running(*space.program(tuple(drawn.tolist())), point(inputs))
        allowed = rng.random((len(drawn), 3)) < rng.choice([0, 1])
        allowed[range(len(drawn)), drawn] = True
        for name in space.graph.outputs:
            norm = bounds.norm_of(name)
            parts = kernel.parts(*kernel.weighed(name, norm, bounds.error_of(name)), allowed)
            assert parts[range(len(drawn)), drawn].sum() <= norm


@pytest.mark.parametrize("x", [(1 + 2.0**-13, 1.0, 4.0), (300.0, 0.1), (1.0, 1 + 2.0**-13, 0.0)])
def test_unavoidable_parts_of_sums_whose_terms_were_converted_down(x):
    """A partial sum that passes a power of two exactly, and computed does not; a term that is all that its addition loses."""
    inputs = {"x": np.array(x)}
    space = Assignments(trace(lambda x: np.sum(x), inputs, order="serial"), coarse_to_fine(["float16", "float32"]))
    kernel, drawn = Unavoidable(space, point(inputs)), [0] * len(space.names)
    bounds = running(*space.program(tuple(drawn)), point(inputs))
    g, most = kernel.weighed("0", bounds.norm_of("0"), np.ones(()))
    parts = kernel.parts(g, most, np.ones((len(drawn), 2), dtype=bool))
    assert 0 < parts[:, 0].sum() <= bounds.norm_of("0")


def test_products_that_may_be_exact_add_nothing():
    """float32 holds v v if v is bfloat16 or float16, and rounds it if v can only be float32."""
    inputs = {name: np.array([0.9]) for name in ("x", "y", "z")}
    space = Assignments(trace(cancelling, inputs, order="serial"), coarse_to_fine(["bfloat16", "float16", "float32"]))
    kernel, allowed = Unavoidable(space, point(inputs)), np.ones((len(space.names), 3), dtype=bool)
    g, most = kernel.weighed("w", 1e-6, np.ones(1))
    v, w = (space.names.index(name) for name in "vw")
    assert kernel.parts(g, most, allowed)[w, 2] == 0
    allowed[v, :2] = False
    assert kernel.parts(g, most, allowed)[w, 2] > 2.0**-26


def test_the_unavoidable_part_is_most_of_a_simple_bound():
    """Of a sum of products without cancellation more than a half of the bound is unavoidable: the theorem is not empty."""

    def kernel(x, y):
        p = x * y
        q = p + 1.5
        return q

    inputs = {"x": np.linspace(1.3, 1.4, 6), "y": np.linspace(1.1, 1.2, 6)}
    graph = trace(kernel, inputs, order="serial")
    space = Assignments(graph, coarse_to_fine(["float16", "float32"]))
    bounds = running(graph, format_named("float16"), point(inputs))
    kernel, norm = Unavoidable(space, point(inputs)), bounds.norm_of("0")
    g, most = kernel.weighed("0", norm, bounds.error_of("0"))
    parts = kernel.parts(g, most, np.ones((len(space.names), 2), dtype=bool))
    assert 0.9 * bounds.norm_of("0") <= parts[:, 0].sum() <= bounds.norm_of("0")


def test_the_same_program_every_time():
    """Nothing is drawn: formats, costs and counts repeat."""
    graph, region, _ = case("doubling", radius=0.01)
    once, again = (tune(graph, region, 1e-2) for _ in range(2))
    assert once.formats == again.formats
    assert (once.cost, once.least, once.alone, once.tried) == (again.cost, again.least, again.alone, again.tried)


def test_a_uniform_program_is_found():
    """A tolerance that float16 keeps everywhere: the program is the kernel itself in it, no casts."""
    graph, region, _ = case("polynomial")
    found = tune(graph, region, 10.0)
    assert found.cost * 2 == found.uniform
    assert found.least == found.cost
    assert len(set(found.formats.values())) == 1
    assert found.graph is graph


def test_registers_that_overflow_stay_wide():
    """y and z pass float16: they are bfloat16 or float32, whatever the tolerance."""
    graph, region, _ = case("large")
    found = tune(graph, region, 1.0, formats=("float16", "float32"))
    assert {found.formats["y"], found.formats["z"]} == {"float32"}
    assert found.formats["w"] == "float16"


def test_costs_of_a_table():
    """A format that costs more than the finest is not used; one that is free is, where it is certified."""
    graph, region, _ = case("doubling")
    dear = tune(graph, region, 0.1, cost={"float16": 40, "bfloat16": 40, "float32": 32})
    assert set(dear.formats.values()) == {"float32"}
    free = tune(graph, region, 10.0, cost={"float16": 0, "bfloat16": 5.5, "float32": 1})
    assert set(free.formats.values()) == {"float16"}
    assert free.cost == 0
    for table in (
        {"float16": 1},
        {"float16": 1, "bfloat16": -1, "float32": 1},
        {"float16": True, "bfloat16": 1, "float32": 1},
    ):
        with pytest.raises(InputRejected, match="cost"):
            tune(graph, region, 0.1, cost=table)


def test_float64_where_float32_is_not_enough():
    """Without a choice of formats, float64 is the finest where float32 does not certify."""
    graph, region, _ = case("polynomial")
    found = tune(graph, region, 1e-9)
    assert found.finest == "float64"
    assert found.format == BINARY64
    with pytest.raises(Undecided, match="none of float32 certifies 1e-09 in 0"):
        tune(graph, region, 1e-9, formats=["float32"])


def test_an_accumulator_that_does_not_hold_float64():
    """float64 is then no candidate: none certifies, and that is what is said."""
    graph, region, _ = case("doubling")
    wide = with_order(graph, "any-order:float32")
    with pytest.raises(Undecided, match="none of bfloat16, float16, float32 certifies"):
        tune(wide, region, 1e-9)
    assert tune(wide, region, 1e-2).eps["0"] <= 1e-2


def test_refusals():
    """Tolerances that are none, outputs that are not there, no format."""
    graph, region, _ = case("polynomial")
    for tol in (0.0, -1.0, float("nan"), float("inf"), {"0": 0.0}):
        with pytest.raises(InputRejected, match="no error bound"):
            tune(graph, region, tol)
    with pytest.raises(InputRejected, match="there is no output 'y'"):
        tune(graph, region, {"y": 1.0})
    with pytest.raises(InputRejected, match="no output has a tolerance"):
        tune(graph, region, {})
    with pytest.raises(InputRejected, match="no format is given"):
        tune(graph, region, 1.0, formats=[])


def test_layers_apart_or_together():
    """S is a register in two layers; across layers it has one format."""
    graph, _, _ = case("doubling")
    apart, together = Assignments(graph, [BINARY32]), Assignments(graph, [BINARY32], by_layer=False)
    assert {"1.S", "2.S"} <= set(apart.names)
    assert "S" in together.names
    assert sum(apart.lanes) == sum(together.lanes) == graph.n_nodes


def test_formats_of_the_kernel_stay():
    """Operations with a format of their own keep it, and are counted in it."""
    graph, region, _ = case("polynomial")
    mixed = with_formats(graph, {"a": "float64"})
    space = Assignments(mixed, coarse_to_fine(["float16", "float32"]))
    assert "a" not in space.names
    program, _ = space.program((0,) * (len(space.names) - 1) + (1,))
    assert "float64" in program.format_names
    assert space.cost(space.uniform(0)) == 16 * sum(space.lanes) + 64 * 5
    assert tune(mixed, region, 1e-2).bounds.first_overflow() is None


def test_stored_inputs_are_cast_once():
    """The values are those of a kernel that casts first; other inputs and constants are untouched."""

    def plain(x, y):
        z = x * y + 0.1
        return {"z": z, "x": x}

    inputs = {"x": np.array([1.1, 2.3]), "y": np.array([0.7, 0.9])}
    graph = trace(plain, inputs, order="serial")
    stored = with_stored_inputs(graph, {"x": "float16"})
    half = format_named("float16")
    given = {**inputs, "x": half.round(inputs["x"].astype(np.float32).astype(float))}
    for name in ("z", "x"):
        np.testing.assert_array_equal(computed(stored, BINARY32, inputs, name), computed(graph, BINARY32, given, name))
    assert stored.n_nodes == graph.n_nodes + 2
    assert replace(stored, places=graph.places).describe(0) == "input x[0]"
    with pytest.raises(InputRejected, match="no input 'w'"):
        with_stored_inputs(graph, {"w": "float16"})


def test_the_ball_needs_more():
    """What holds on a ball costs no less than what holds at its centre."""
    graph, region, inputs = case("doubling")
    wide = ball(inputs, "A", 0.2)
    assert tune(graph, region, 1e-2).cost <= tune(graph, wide, 1e-2).cost


def test_many_runs_at_once():
    """A program of several formats gives the same bits for many inputs at once as for one after another."""
    graph, region, inputs = case("doubling", radius=0.01)
    found = tune(graph, region, 1e-2)
    assert found.graph.format_names
    trials = [{"A": inputs["A"] * (1 + k / 1024)} for k in range(5)]
    together = computed_batch(found.graph, found.format, trials, ("0",))
    for at, floats in zip(trials, together, strict=True):
        np.testing.assert_array_equal(floats["0"], computed(found.graph, found.format, at, "0"))
