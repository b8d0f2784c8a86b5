"""Programs with stochastic rounding, run many times and compared with their probable bounds; used by tests and a benchmark."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from adjoint_cases import function_graph, random_function_steps
from flint import arb, ctx
from random_kernels import REGISTERS, random_inputs

from certify.arithmetic import Format
from certify.arithmetic.balls import balls
from certify.arithmetic.libm import ONE_ULP
from certify.arithmetic.stochastic import Stochastic
from certify.errors import Undecided
from certify.graph import Graph, evaluate, trace
from certify.graph.evaluation import output
from certify.rounding import Region, probable

_TOGETHER = 1000


def dot_case(kind: str, format: Format, n: int = 1000, seed: int = 0) -> tuple[Graph, dict[str, np.ndarray]]:
    """A serial dot product of numbers of the format: `positive` in [0, 1), or `signed` from the normal distribution."""
    rng = np.random.default_rng(seed)
    draw = (lambda: rng.uniform(0, 1, n)) if kind == "positive" else (lambda: rng.standard_normal(n))
    inputs = {name: format.round(draw()) for name in "xy"}
    return trace(lambda x, y: x @ y, inputs, order="serial"), inputs


def results(
    graph: Graph, format: Format, inputs: dict[str, np.ndarray], name: str, runs: int, seed: int = 1
) -> np.ndarray:
    """What `runs` runs return, shape (runs, elements)."""
    rng, parts = np.random.default_rng(seed), []
    for first in range(0, runs, _TOGETHER):
        machine = Stochastic(format, rng, min(_TOGETHER, runs - first))
        given = {key: machine.constant(x) for key, x in inputs.items()}
        found = output(graph, machine, evaluate(graph, machine, given), name)
        parts.append(found.reshape(len(found), -1))
    return np.concatenate(parts)


def beyond(computed: np.ndarray, exact: Fraction, bound: float) -> int:
    """How many of the numbers are farther than `bound` from `exact`, in rationals."""
    values, counts = np.unique(computed, return_counts=True)
    far = [abs(Fraction(x) - exact) > Fraction(bound) for x in values.tolist()]
    return int(counts[np.array(far)].sum())


def exact_dot(inputs: dict[str, np.ndarray]) -> Fraction:
    """The dot product."""
    pairs = zip(inputs["x"].tolist(), inputs["y"].tolist(), strict=True)
    return sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))


def most_allowed(runs: int, delta: float, deviations: float = 6.0) -> float:
    """Events of probability delta at most happen so often in `runs` independent runs, but with probability 1e-6."""
    return runs * delta + deviations * np.sqrt(runs * delta * (1 - delta)) + deviations**2 / 3


@dataclass
class Tally:
    """What a run saw: kernels whose range is proved, elements, and failures in words."""

    checked: int = 0
    elements: int = 0
    sharper: int = 0
    violations: list[str] = field(default_factory=list)


def check_functions(seed: int, format: Format, tally: Tally, confidence: float = 0.75, runs: int = 200) -> None:
    """A random kernel of all operations at one input of a region: every run against `surely`, most against the bound."""
    rng = np.random.default_rng([seed, 9])
    graph = function_graph(random_function_steps(rng), "serial")
    middle = np.stack(list(random_inputs(rng, format, int(rng.choice([0, 1, 2, 9, 10, 11, 12]))).values()))
    radius = np.abs(middle) * rng.choice([0.0, 2.0**-12, 2.0**-5])
    ends = middle - radius, middle + radius
    region = Region(*(dict(zip(REGISTERS, end, strict=True)) for end in ends))
    found = probable(graph, format, region, confidence=confidence, libm=ONE_ULP)
    if found.every_outcome.first_overflow() is not None:
        return
    at = np.clip(ends[0] + rng.random(middle.shape) * (ends[1] - ends[0]), *ends)
    inputs = dict(zip(REGISTERS, at, strict=True))
    try:
        exact = balls(graph, inputs, 2500 if format.precision == 53 else 500)
    except Undecided:  # a tie: both sides are equal
        return
    tally.checked += 1
    failed = np.zeros(runs, dtype=np.bool_)
    for name, out in graph.outputs.items():
        values = results(graph, format, inputs, name, runs, seed)
        bounds, sure = found.error_of(name).ravel(), found.surely[name].ravel()
        tally.sharper += int((bounds < sure * 0.999).sum())
        for k, node in enumerate(out.ids.ravel().tolist()):
            if node < 0:
                continue
            tally.elements += 1
            with ctx.workprec(2500):
                off = {x: abs(arb(x) - exact[node]) for x in set(values[:, k].tolist())}
                far = {x for x, e in off.items() if e > arb(float(bounds[k]))}
                lost = {x for x, e in off.items() if e > arb(float(sure[k]))}
            if lost:
                tally.violations.append(f"seed {seed} {format.name}: outside what holds surely in {name}")
            failed |= np.isin(values[:, k], list(far))
    if failed.sum() > most_allowed(runs, 1 - confidence):
        tally.violations.append(f"seed {seed} {format.name}: {failed.sum()} of {runs} runs outside")
