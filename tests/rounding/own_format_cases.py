"""Kernels whose instructions have formats of their own, drawn at random; used by the tests of this folder."""

from dataclasses import replace

import numpy as np
from random_kernels import Box, random_box, random_inputs, random_steps, traced
from random_numbers import REGIMES

from certify.arithmetic import Format
from certify.graph import Graph, with_order
from certify.graph.in_force import asking

#: Formats of single instructions: every named one, flushing, saturating and users' own.
OWN = (
    *("float16", "bfloat16", "tf32", "float32", "float64", "e4m3", "e5m2"),
    *("e4m3,saturate", "float16,ftz", "float32,ftz", "float64,ftz", "p=5,emin=-3,emax=4", "p=24,emin=-40,emax=300"),
)
#: Those that every accumulator used here holds.
NARROW = ("float16", "bfloat16", "tf32", "e4m3", "e5m2", "float16,ftz", "p=5,emin=-3,emax=4", "float32")


def own_case(
    seed: int, format: Format, points: int, boxes: int, order: str, names: tuple[str, ...]
) -> tuple[Graph, list[Box], str]:
    """A graph most of whose instructions are in one of these formats, some of them casts; and regions for it."""
    rng = np.random.default_rng(seed)
    steps = tuple(
        ("cast", i, str(rng.choice(names)))
        if name in ("neg", "mask", "flip", "plus", "relu") and rng.random() < 0.5
        else (name, i, int(np.clip(rest[0], -3, 2)))
        if name == "scale"  # which every format here can hold
        else (name, i, *rest)
        for name, i, *rest in random_steps(rng)
    )
    with asking(""):  # no promotion, which some of these formats do not have
        graph = with_order(traced(steps), order)
    few = rng.choice(names, size=int(rng.integers(1, 4)), replace=False)
    known = {name: k for k, name in enumerate(dict.fromkeys([*graph.format_names, *few.tolist()]))}
    drawn = np.array([known[str(rng.choice(few))] for _ in range(len(graph))], dtype=np.int32)
    chosen = rng.choice([0, 1, 2], size=len(graph), p=[0.55, 0.25, 0.2])  # another format, the program's, as traced
    mixed = np.where(chosen == 0, drawn, np.where(chosen == 1, -1, graph.format)).astype(np.int32)
    graph = replace(graph, format=mixed, format_names=tuple(known))
    regimes = rng.integers(len(REGIMES) + 1, size=points + boxes)
    regions = [
        random_box(rng, format, random_inputs(rng, format, regime), 1 if k < points else 4)
        for k, regime in enumerate(regimes)
    ]
    return (
        graph,
        regions,
        f"seed {seed} in {format.name} {order}, steps {steps}, formats {mixed.tolist()} of {list(known)}",
    )
