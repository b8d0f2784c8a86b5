"""Random kernels of every operation, and the exact check of adjoint bounds; used by the adjoint tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import arb, ctx
from function_cases import Wild
from random_kernels import (
    BINARY,
    LENGTH,
    REGISTERS,
    UNARY,
    Box,
    exact_values,
    exceeds,
    floats,
    random_case,
    random_inputs,
)
from random_trees import any_floats

from certify.arithmetic import Format
from certify.arithmetic.balls import balls
from certify.arithmetic.libm import ONE_ULP, Libm
from certify.errors import Undecided
from certify.graph import Graph, evaluate, order_named, sigmoid, trace, with_order
from certify.rounding import Region, running
from certify.rounding.adjoint import Adjoint, adjoint


@dataclass
class Tally:
    """What a run saw: (graph, region) pairs whose range is proved, elements compared, and how often the bound is sharper."""

    checked: int = 0
    elements: int = 0
    sharper: int = 0
    violations: list[str] = field(default_factory=list)


def region_of(box: Box) -> Region:
    """The region of a box of `random_kernels`."""
    lower, upper = (dict(zip(REGISTERS, ends, strict=True)) for ends in (box.lower, box.upper))
    return Region(lower, upper, box.representable)


def check_polynomial(
    seed: int, format: Format, order: str, points: int, boxes: int, tally: Tally, **options: Any
) -> None:
    """Every output of a random kernel of sums, products and ReLUs, at every sample of every box, exactly."""
    compare(random_case(seed, format, points, boxes, order), seed, format, order, tally, **options)


def compare(case: Any, seed: int, format: Format, order: str, tally: Tally, **options: Any) -> None:
    """As `check_polynomial`, of a kernel and boxes that are given."""
    graph, regions, label = case
    rng = np.random.default_rng(seed)
    compute = any_floats if order_named(order).is_any else lambda graph, f, samples, _: floats(graph, f, samples)
    for box in regions:
        found = adjoint(graph, format, region_of(box), **options)
        if found.first_overflow() is not None:
            continue
        tally.checked += 1
        computed, exact = compute(graph, format, box.samples, rng), exact_values(graph, box.samples)
        for name, out in graph.outputs.items():
            live, bound = out.ids >= 0, found.error_of(name)
            plain = running(graph, format, region_of(box)).error_of(name)
            tally.sharper += int((bound[live] < plain[live] * (1 - 1e-9)).sum())
            if not (bound <= plain).all():
                tally.violations.append(f"{label}: looser than the running bound")
            ids = out.ids[live & np.isfinite(bound)]
            limit = np.broadcast_to(bound[live & np.isfinite(bound)], (len(box.samples), len(ids)))
            tally.elements += limit.size
            if exceeds(exact[:, :, ids].reshape(2, -1), computed[:, ids].ravel(), limit.ravel()).any():
                tally.violations.append(f"{label}: bound violated in {name}")


# kernels with functions

_SAFE = {
    "exp": lambda a: np.exp(a / 4),
    "log": lambda a: np.log(np.abs(a) + 0.25),
    "sqrt": lambda a: np.sqrt(np.abs(a) + 0.125),
    "root": lambda a: np.sqrt(a * a),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "abs": np.abs,
}
_PAIRS = {
    "div": lambda a, b: a / (np.abs(b) + 0.5),
    "max": np.maximum,
    "min": np.minimum,
    "where": lambda a, b: np.where(a < b, a * b, b - a),
    "softmax": lambda a, b: np.exp(a / 2) / np.sum(np.exp(b / 2)),
}


def random_function_steps(rng: np.random.Generator) -> tuple[Any, ...]:
    """Between 2 and 7 steps of all operations."""
    names = [*BINARY, *UNARY, *_SAFE, *_PAIRS]
    steps = []
    for _ in range(int(rng.integers(2, 8))):
        count = len(REGISTERS) + len(steps)
        first, second = (int(max(rng.integers(count), rng.integers(count))) for _ in range(2))
        steps.append((str(rng.choice(names)), first, second))
    return tuple(steps)


def function_graph(steps: tuple[Any, ...], order: str) -> Graph:
    """The kernel of such steps: its last two registers."""

    def kernel(x: Any, y: Any, z: Any) -> Any:
        registers = [x, y, z]
        for name, i, j in steps:
            a, b = registers[i], registers[j]
            both, one = {**BINARY, **_PAIRS}, {**UNARY, **_SAFE}
            registers.append(both[name](a, b) if name in both else one[name](a))
        return {"last": registers[-1], "before": registers[-2]}

    return trace(kernel, {name: np.ones(LENGTH) for name in REGISTERS}, order=order)


def check_functions(seed: int, format: Format, order: str, tally: Tally, libm: Libm = ONE_ULP) -> Adjoint | None:
    """Both outputs of a random kernel of all operations, at a point or in a ball, by a library that errs as far as it may."""
    rng = np.random.default_rng([seed, 5])
    graph = function_graph(random_function_steps(rng), order)
    regime = int(rng.choice([0, 1, 2, 9, 10, 11, 12]))
    middle = np.stack(list(random_inputs(rng, format, regime).values()))
    radius = np.abs(middle) * rng.choice([0.0, 2.0**-12, 2.0**-5, 0.25])
    lower, upper = middle - radius, middle + radius
    box = Region(dict(zip(REGISTERS, lower, strict=True)), dict(zip(REGISTERS, upper, strict=True)))
    found = adjoint(graph, format, box, libm=libm)
    if found.first_overflow() is not None:
        return None
    tally.checked += 1
    plain = running(graph, format, box, libm=libm)
    wild = Wild(format, libm, rng)
    program = with_order(graph, order_named(order).program.name)
    for share in (rng.random(lower.shape), (rng.random(lower.shape) < 0.5) * 1.0):
        at = dict(zip(REGISTERS, np.clip(lower + share * (upper - lower), lower, upper), strict=True))
        values = evaluate(program, wild, {name: wild.constant(x) for name, x in at.items()}).astype(np.float64)
        try:
            exact = balls(graph, at, 2500 if format.precision == 53 else 500)
        except Undecided:  # a tie: both sides are equal
            continue
        for name, out in graph.outputs.items():
            bound = found.error_of(name)
            tally.sharper += int((found.elements[name] < plain.error_of(name) * (1 - 1e-9)).sum())
            if not (bound <= plain.error_of(name)).all():
                tally.violations.append(f"function seed {seed} {format.name} {order}: looser than the running bound")
            for node, limit in zip(out.ids.ravel().tolist(), bound.ravel().tolist(), strict=True):
                if node < 0 or not np.isfinite(limit):
                    continue
                tally.elements += 1
                with ctx.workprec(2500):
                    far = abs(arb(float(values[node])) - exact[node]) > arb(limit)
                if far or not np.isfinite(values[node]):
                    tally.violations.append(f"function seed {seed} {format.name} {order}: bound violated in {name}")
    return found
