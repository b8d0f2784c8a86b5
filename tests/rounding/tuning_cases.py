"""Small kernels with few registers, so that every assignment of formats can be tried; used by the tests of this folder."""

from itertools import product

import numpy as np

from certify.graph import Graph, layer, trace
from certify.rounding import Region, ball, point
from certify.rounding.assignments import Assignments, coarse_to_fine
from certify.rounding.tuning import _certifies

FORMATS = ("float16", "bfloat16", "float32")


def polynomial(x):
    """Products and sums, with cancellation."""
    a = x * x
    b = a * x - a * 0.3
    c = (b + a) / 4
    return c - x


def doubling(A):
    """The core of the block: matrix products of what is not negative."""
    with layer("1"):
        S = A * A / 8
    with layer("2"):
        T = S @ S
        S = S + (T + S)
    with layer("3"):
        h = np.sum(S * 0.7)
    return h


def threshold(v, t):
    """Relus, and a register that is overwritten."""
    w = np.maximum(v - t, 0) - np.maximum(-v - t, 0)
    u = v + (w - v)
    return u


def functions(x):
    """A quotient, an exponential and a root."""
    e = np.exp(x)
    s = np.sqrt(e + 1)
    q = e / s
    return q


def large(x):
    """What passes float16."""
    y = x * 50000.0
    z = y * 2
    w = z * 0.0001
    return w


KERNELS = {
    "polynomial": (polynomial, {"x": (5,)}),
    "doubling": (doubling, {"A": (3, 3)}),
    "threshold": (threshold, {"v": (6,), "t": ()}),
    "functions": (functions, {"x": (4,)}),
    "large": (large, {"x": (3,)}),
}


def case(name: str, seed: int = 0, radius: float = 0.0) -> tuple[Graph, Region, dict]:
    """A kernel with inputs in [1/4, 2], some of them negative; at these or on a ball around the first."""
    kernel, shapes = KERNELS[name]
    rng = np.random.default_rng(seed)
    inputs = {k: rng.uniform(0.25, 2, shape) * rng.choice([-1, 1], shape) for k, shape in shapes.items()}
    if "t" in inputs:
        inputs["t"] = np.abs(inputs["t"]) / 8
    graph = trace(kernel, inputs, order="serial")
    return graph, ball(inputs, next(iter(inputs)), radius) if radius else point(inputs), inputs


def every_certified(graph: Graph, region: Region, tol: float, formats=FORMATS, cost=None):
    """The cost of every certified assignment, by trying all."""
    space = Assignments(graph, coarse_to_fine(formats), cost)
    tolerances = dict.fromkeys(graph.outputs, tol)
    for assignment in product(range(len(space.formats)), repeat=len(space.names)):
        if _certifies(*space.program(assignment), region, tolerances, None):
            yield space.cost(assignment)
