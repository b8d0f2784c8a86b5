"""What claims that rest on rounding need of a kernel: its bounds, and that its graph file computes what it is to compute."""

from __future__ import annotations

import operator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from certify.checker.cases.meta_models.parts import (
    BITS,
    System,
    upper,
)
from flint import arb, ctx

from certify.checker.document import (
    Beyond,
    Claim,
    Rejected,
    number,
)
from certify.checker.emulation import evaluate
from certify.checker.formats import PAIRWISE
from certify.checker.kernels import values_of
from certify.checker.setting import Setting


def rests_on(claim: Claim, s: System, output: str, ball: bool = False) -> tuple[Claim, Fraction]:
    """The rounding claim of the kernel of a system on which another claim rests, proved again; and its bound."""
    source = s.context.proved(claim["parameters"].get("rounding"))
    parts = source["id"].split("/")
    if source["kind"] != "rounding" or parts[1] != claim["parameters"].get("format") or parts[-1] != f"kernel={s.name}":
        raise Rejected("what it rests on is no rounding claim of its kernel in its format")
    if parts[3] != ("ball" if ball else "point") or source["semantics"] != claim["semantics"]:
        raise Rejected("what it rests on is about another region, or other programs")
    return source, number(source["bounds"][f"eps_{output}"])


def errors_of(source: Claim, s: System, output: str) -> list[Fraction]:
    """The running error bound of each entry of an output, where a rounding claim that is proved again holds."""
    running = Setting(source, s.context).bounds()
    nodes = running.program.outputs[output]
    if min(nodes) < 0:
        raise Beyond("an entry of the output is known in advance")
    return [Fraction(running.error[node]) for node in nodes]


def through_graph(s: System, output: str) -> list[Any]:
    """The exact values of an output of the kernel of a system at the state, in balls: what its graph file computes."""

    def make() -> list[Any]:
        kernel = s.context.kernel(s.name)
        program = kernel.program
        if program.formats or output not in program.outputs:
            raise Beyond("the program has formats of its own, or not this output")
        with ctx.workprec(BITS):
            found, stop = evaluate(program, BALLS, zip(values_of(program, kernel), strict=True), order=PAIRWISE)
        if stop is not None:
            raise Beyond("the exact program is not evaluated")
        ids, known = program.outputs[output], program.known[output]
        return [arb(k) if node < 0 else found[node] for node, k in zip(ids, known, strict=True)]

    found: list[Any] = s.context.cached(("through graph", s.name, output), make)
    return found


def largest_gap(own: list[Any], s: System, output: str) -> Fraction:
    """How far the program of the graph file, in exact arithmetic, can be from the checker's own values."""
    there = through_graph(s, output)
    if len(there) != len(own):
        raise Rejected("the program of the graph file has another output than the kernel")
    with ctx.workprec(BITS):
        gap = max(upper(abs(x - y)) for x, y in zip(there, own, strict=True))
    if gap > Fraction(1, 1 << 200):
        raise Rejected("the program of the graph file is not the kernel: its exact output is another one")
    return gap


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + (-x).exp())


BALLS = SimpleNamespace(
    given=arb,
    add=operator.add,
    sub=operator.sub,
    mul=operator.mul,
    div=operator.truediv,
    neg=operator.neg,
    abs=abs,
    max=lambda a, b: a.max(b),
    relu=lambda a: a.max(arb(0)),
    scale=lambda a, k: a * arb(2) ** k,
    overwrite=lambda x, y, d: y,
    sqrt=lambda a, nonnegative: a.sqrt(),
    exp=lambda a: a.exp(),
    log=lambda a: a.log(),
    tanh=lambda a: a.tanh(),
    sigmoid=_sigmoid,
)
