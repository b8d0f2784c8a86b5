"""Random kernels, random states and the exact check of a bound at every node; used by the tests of this folder.

A kernel is data: a tuple of steps over a growing list of vector registers, so that a failing one can be printed. States
are drawn from regimes (ties, subnormals, cancellation, ...) that aim at the places where rounding bounds go wrong.
"""

# ruff: noqa: D102  (methods here override documented ones)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from random_numbers import REGIMES

from certify.arithmetic import BFLOAT16, BINARY16, BINARY32, BINARY64, Format, Ieee, Overflow, cast, format_named
from certify.arithmetic.dyadic import Dyadic
from certify.graph import Graph, evaluate, lower, order_named, trace, with_order
from certify.rounding.anyorder import EveryOrder
from certify.rounding.running import Running

PLAIN = {f.name: f for f in (BINARY16, BFLOAT16, BINARY32, BINARY64)}
LENGTH = 4
REGISTERS = ("x", "y", "z")
MASK = np.array([True, False, True, True])
Step = tuple[Any, ...]


def _overwrite(x: Any, y: Any) -> Any:
    return x + (y - x)


BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "overwrite": _overwrite,
    "matmul": lambda a, b: (a.reshape(2, 2) @ b.reshape(2, 2)).ravel(),
    "sum": lambda a, b: np.sum(a) + b,
    "dot": lambda a, b: (a @ b) + np.where(MASK, b, 0),
}
UNARY: dict[str, Callable[..., Any]] = {
    "neg": lambda a: -a,
    "relu": lambda a: np.maximum(a, 0),
    "mask": lambda a: np.where(MASK, a, 0),
    "flip": lambda a: np.flip(a),
}
WITH_NUMBER: dict[str, Callable[..., Any]] = {
    "scale": lambda a, k: a * 2.0**k if k >= 0 else a / 2.0**-k,
    "times": lambda a, c: c * a,
    "plus": lambda a, c: a + c,
    "cast": lambda a, name: cast(a, name),
}
EXPONENTS = (-14, -6, -3, -2, -1, 1, 2, 4)
CONSTANTS = (0.1, -0.3, 1.0009765625, 3.0, -7.1, 1e-5, 1.0 + 2.0**-9, 0.5 + 2.0**-12)
WEIGHTS = {
    "add": 4,
    "sub": 4,
    "mul": 4,
    "overwrite": 3,
    "matmul": 2,
    "sum": 2,
    "dot": 1,
    "relu": 2,
    "scale": 2,
    "cast": 0,
}


def run(steps: tuple[Step, ...], **inputs: Any) -> dict[str, Any]:
    """The kernel: every register by name."""
    registers = [inputs[name] for name in REGISTERS]
    for name, i, *rest in steps:
        a = registers[i]
        if name in BINARY:
            registers.append(BINARY[name](a, registers[rest[0]]))
        elif name in UNARY:
            registers.append(UNARY[name](a))
        else:
            registers.append(WITH_NUMBER[name](a, rest[0]))
    return {f"r{k}": r for k, r in enumerate(registers)}


def traced(steps: tuple[Step, ...]) -> Graph:
    """The graph of a kernel, in serial order."""
    arrays = {name: np.ones(LENGTH) for name in REGISTERS}
    return trace(lambda **inputs: run(steps, **inputs), arrays, order="serial")


def random_steps(rng: np.random.Generator) -> tuple[Step, ...]:
    """Between 3 and 8 steps; recent registers are preferred, products are limited so that numbers stay short."""
    names = [*BINARY, *UNARY, *WITH_NUMBER]
    weights = np.array([WEIGHTS.get(name, 1) for name in names], dtype=float)
    steps: list[Step] = []
    products = 0
    for _ in range(int(rng.integers(3, 9))):
        name = str(rng.choice(names, p=weights / weights.sum()))
        if name in ("mul", "matmul", "dot"):
            products += 1
            if products > 3:
                name = "sub"
        count = len(REGISTERS) + len(steps)
        first, second = (int(max(rng.integers(count), rng.integers(count))) for _ in range(2))
        if name in BINARY:
            steps.append((name, first, second))
        elif name in UNARY:
            steps.append((name, first))
        else:
            steps.append((name, first, rng.choice(EXPONENTS if name == "scale" else CONSTANTS).item()))
    return tuple(steps)


# states


def random_inputs(rng: np.random.Generator, f: Format, regime: int) -> dict[str, np.ndarray]:
    """One state. The regime after the last draws every entry from a regime of its own."""
    shape = (len(REGISTERS), LENGTH)
    if regime == len(REGIMES):
        layers = np.stack([draw(rng, f, shape) for draw in REGIMES])
        chosen = rng.integers(len(REGIMES), size=shape)
        entries = np.take_along_axis(layers, chosen[None], axis=0)[0]
    else:
        entries = REGIMES[regime](rng, f, shape)
    return dict(zip(REGISTERS, entries, strict=True))


@dataclass(frozen=True)
class Box:
    """A region with states in it: `lower`, `upper` (registers, LENGTH), `samples` (k, registers, LENGTH)."""

    lower: np.ndarray
    upper: np.ndarray
    representable: bool
    samples: np.ndarray


def random_box(rng: np.random.Generator, f: Format, center: dict[str, np.ndarray], samples: int) -> Box:
    """A box around a state, sampled at corners and inside; `samples` 1 makes the point itself."""
    middle = np.stack([center[name] for name in REGISTERS])
    if samples == 1:
        return Box(middle, middle, False, middle[None])
    representable = bool(rng.random() < 0.5)
    limit = f.largest
    share = rng.random((samples, *middle.shape))
    corners = rng.random((samples, *middle.shape)) < rng.choice([0.5, 1.0], (samples, 1, 1))
    share = np.where(corners, share < 0.5, share)
    share[:2] = np.array([0.0, 1.0])[:, None, None]
    with np.errstate(over="ignore"):
        radius = np.abs(middle) * rng.choice([2.0**-20, 2.0**-6, 2.0**-2, 2.0])
        radius = np.minimum(radius + rng.choice([0.0, f.min_subnormal, 2.0**-8]), limit)
        radius *= rng.random(middle.shape) < 0.8  # some entries are points
        lower, upper = np.clip(middle - radius, -limit, limit), np.clip(middle + radius, -limit, limit)
        if representable:
            lower, upper = f.unbounded.round(lower), f.unbounded.round(upper)
        inside = np.clip(lower * (1 - share) + upper * share, lower, upper)
    return Box(lower, upper, representable, f.unbounded.round(inside) if representable else inside)


# batched arithmetics: the same operations with one more axis, for several states in one pass


class ManyRunning(Running):
    """`Running` on several regions at once, values (3, regions, nodes)."""

    def __init__(self, format: Format, count: int) -> None:
        super().__init__(format)
        self.count = count

    def empty(self, n: int) -> np.ndarray:
        return np.empty((3, self.count, n))

    def constant(self, values: np.ndarray) -> np.ndarray:
        return super().constant(values)[:, None, :]


class ManyEveryOrder(EveryOrder):
    """`EveryOrder` on several regions at once, values (3, regions, nodes)."""

    def __init__(self, format: Format, count: int) -> None:
        super().__init__(format)
        self.count = count

    def empty(self, n: int) -> np.ndarray:
        return np.empty((4, self.count, n))

    def constant(self, values: np.ndarray) -> np.ndarray:
        return super().constant(values)[:, None, :]


class ManyIeee(Ieee):
    """`Ieee` on several states at once, values (states, nodes)."""

    def __init__(self, format: Format, count: int) -> None:
        super().__init__(format, infinities=True)
        self.count = count

    def empty(self, n: int) -> np.ndarray:
        return np.empty((self.count, n), dtype=self._dtype)

    def in_format(self, *instruction: Any) -> Ieee:
        inner = super().in_format(*instruction)
        inner.empty = lambda n: np.empty((self.count, n))
        return inner


class ManyDyadic(Dyadic):
    """`Dyadic` on several states at once, values (2, states, nodes)."""

    def __init__(self, count: int) -> None:
        self.count = count

    def empty(self, n: int) -> np.ndarray:
        return np.empty((2, self.count, n), dtype=object)

    def constant(self, values: np.ndarray) -> np.ndarray:
        exact = super().constant(values)
        return exact if exact.ndim == 3 else exact[:, None, :]


def exact_values(graph: Graph, samples: np.ndarray) -> np.ndarray:
    """All nodes at `samples` (states, registers, LENGTH) as dyadics, shape (2, states, nodes)."""
    dyadic = ManyDyadic(len(samples))
    return evaluate(graph, dyadic, {name: dyadic.constant(samples[:, k]) for k, name in enumerate(REGISTERS)})


def floats(graph: Graph, format: Format, samples: np.ndarray) -> np.ndarray:
    """All nodes at `samples` as the program computes them, shape (states, nodes), as binary64."""
    ieee = ManyIeee(format.unbounded, len(samples))
    values = evaluate(graph, ieee, {name: ieee.constant(samples[:, k]) for k, name in enumerate(REGISTERS)})
    return values.astype(np.float64)


def _exceeds(n: Any, e: int, c: int, ce: int, bound: int, be: int) -> bool:
    base = min(e, ce, be)
    return bool(abs((c << (ce - base)) - (int(n) << (e - base))) > bound << (be - base))


_EXCEEDS = np.frompyfunc(_exceeds, 6, 1)


def exceeds(exact: np.ndarray, computed: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Whether |computed - exact| > bound, in integers; `exact` dyadic (2, k), `computed` and `bound` finite (k,)."""
    return _EXCEEDS(exact[0], exact[1], *_integers(computed), *_integers(bound)).astype(bool)


def _integers(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finite binary64 x = n 2**e as Python ints; splits x without rounding, subnormals included."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(mantissa, 53).astype(np.int64).astype(object), (exponent - 53).astype(object)


@dataclass
class Tally:
    """What a soundness run saw. `checked` counts (graph, region) pairs all of whose nodes were proved finite."""

    checked: int = 0
    excluded: int = 0
    nodes: int = 0
    overflows: int = 0
    unbounded: int = 0
    violations: list[str] = field(default_factory=list)


Arithmetic = Callable[[Format, int], ManyRunning]


def check(
    graph: Graph,
    format: Format,
    boxes: list[Box],
    tally: Tally,
    label: str,
    arithmetic: Arithmetic = ManyRunning,
    compute: Callable[[Graph, Format, np.ndarray], np.ndarray] = floats,
) -> np.ndarray:
    """Check the theorem of `certify.rounding.running` at every node of `graph`, for every sample of every box.

    Nodes from the first that is not proved finite on are outside the theorem; there the range theorem is checked: no
    computed value before that node overflows. Returns the bounds, shape (3, boxes, nodes).
    """
    bounding = arithmetic(format, len(boxes))
    regions = {
        name: bounding.enclose(np.stack([b.lower[k] for b in boxes]), np.stack([b.upper[k] for b in boxes]))
        for k, name in enumerate(REGISTERS)
    }
    exact_inputs = np.array([b.representable for b in boxes])
    for enclosed in regions.values():
        enclosed[2, exact_inputs] = 0.0
    bounds = evaluate(graph, bounding, regions)
    low, high, error = bounds[:3]
    bounding.note(np.maximum(-low, high)[:, : graph.n_inputs])  # as `running` does
    limits = np.array([*(format_named(name).largest for name in graph.format_names), format.largest, format.largest])
    limit = limits[graph.node_formats]
    proved = (low >= -limit) & (high <= limit)
    first = np.where(proved.all(axis=1), graph.n_nodes, proved.argmin(axis=1))
    before = np.arange(graph.n_nodes + 1) < first[:, None]

    of_box = np.repeat(np.arange(len(boxes)), [len(b.samples) for b in boxes])
    samples = np.concatenate([b.samples for b in boxes])
    computed = compute(graph, format, samples)
    exact = exact_values(graph, samples)

    tally.checked += int((first == graph.n_nodes).sum())
    tally.excluded += int((first < graph.n_nodes).sum())
    inside = before[of_box]
    tally.nodes += int(inside.sum())
    finite = np.isfinite(computed)
    tally.overflows += int((~finite).any(axis=1).sum())
    if (inside & ~finite).any():
        tally.violations.append(f"{label}: overflow at a node proved finite")
        inside &= finite
    if (inside & ((computed < low[of_box]) | (computed > high[of_box]))).any():
        tally.violations.append(f"{label}: computed value outside its enclosure")
    if (np.abs(computed[inside]) > bounding.largest_result).any():
        tally.violations.append(f"{label}: computed value above the peak")
    limit = error[of_box][inside]
    if not np.isfinite(limit).all():
        # a bound near the largest binary64 number may overflow although the values do not, as where values saturate and exact
        # ones go on; it is then no bound
        formats = (format, *map(format_named, graph.format_names))
        if not any(f.precision == 53 or (f.overflow is Overflow.SATURATE and f.emax >= 300) for f in formats):
            tally.violations.append(f"{label}: no finite error bound at a node proved finite")
        tally.unbounded += int((~np.isfinite(limit)).sum())
        inside &= np.isfinite(error[of_box])
        limit = error[of_box][inside]
    bad = exceeds(exact[:, inside], computed[inside], limit)
    if bad.any():
        state, node = np.argwhere(inside)[np.argmax(bad)]
        tally.violations.append(f"{label}: error bound violated at {graph.describe(node)}, {samples[state].tolist()}")
    return bounds


def random_case(
    seed: int, format: Format, points: int, boxes: int, order: str = "serial"
) -> tuple[Graph, list[Box], str]:
    """A graph (every other one of `serial` lowered to single operations) and regions for it, from a seed."""
    rng = np.random.default_rng(seed)
    limit = min(format.emax, -format.emin)
    steps = tuple(
        (name, i, max(-limit, min(limit, *rest))) if name == "scale" else (name, i, *rest)
        for name, i, *rest in random_steps(rng)
    )
    graph = with_order(traced(steps), order)
    if seed % 2 and len(graph) and order_named(order) == order_named("serial"):
        graph = lower(graph)
    regimes = rng.integers(len(REGIMES) + 1, size=points + boxes)
    regions = [
        random_box(rng, format, random_inputs(rng, format, regime), 1 if k < points else 4)
        for k, regime in enumerate(regimes)
    ]
    return graph, regions, f"seed {seed} in {format.name} {order}, steps {steps}"
