"""Checks of what is rational: dual numbers a + a' eps through softmax at zero logits, where exp(eps d) = 1 + eps d exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

from certify.checker.document import Beyond, Claim, Finding, Rejected, integer, number, proved

from .setting import Setting, rows, setting_of
from .words import exactly, numbered, require_words

_EIGHTH = Fraction(1, 8)


def moved(marks: Sequence[int], logits: Sequence[int]) -> tuple[Fraction, Fraction]:
    """Of uniform attention: the share of the marked positions, and its derivative as the logits move at these rates."""
    n, total, pushed = len(marks), sum(marks), sum(logits)
    drawn = sum(a * b for a, b in zip(marks, logits, strict=True))
    # (total + eps drawn) / (n + eps pushed)
    return Fraction(total, n), Fraction(drawn * n - total * pushed, n * n)


def deep(sequence: Sequence[str], target: str, k: int) -> tuple[Fraction, Fraction]:
    """f1[target] at zero weights, and its derivative with respect to w(k): the mean over the rows of S1."""
    marks = [int(g == target) for g in sequence]
    parts = [moved(marks[: t + 1], [int(t - j == k) for j in range(t + 1)]) for t in range(10)]
    return sum((a for a, _ in parts), Fraction(0)) / 10, sum((b for _, b in parts), Fraction(0)) / 10


def loss_slope(sequence: Sequence[str], target: str, k: int) -> Fraction:
    """Of -log f1[target]."""
    value, slope = deep(sequence, target, k)
    return -slope / value


def slopes(setting: Setting, which: str) -> list[Fraction]:
    """The mean over the law of a derivative with respect to w(k), k = 1..9."""
    at: dict[str, Callable[[list[str], int], Fraction]] = {
        "mean-slope": lambda s, k: deep(s, "v", k)[1],
        "first-slope": lambda s, k: loss_slope(s, "v", k),
        "second-slope": lambda s, k: loss_slope([*s[:-1], "v"], "end", k),
        "shallow-slope": shallow,
        "next-token-slope": lambda s, k: (loss_slope(s, "v", k) + loss_slope([*s[:-1], "v"], "end", k)) / 2,
    }
    return [setting.mean([at[which](s, k) for s in setting.sequences]) for k in range(1, 10)]


def shallow(sequence: list[str], k: int) -> Fraction:
    """Of L2 = -log f2[end]."""
    value, slope = moved([int(g == "end") for g in sequence], [int(9 - j == k) for j in range(10)])
    return -slope / value


def expectation(which: str, claim: Claim, context: Any) -> Finding:
    """The exact mean of one derivative."""
    setting = setting_of(context)
    k = integer(claim["parameters"].get("k"), 1, 9, "its k")
    require_words(claim, context, {"law": setting.law, "k": k}, ["value"], name=f"/k={k}")
    return exactly(claim, {"value": slopes_of(context, which)[k - 1]})


def means(which: str, claim: Claim, context: Any) -> Finding:
    """All nine of them, in one claim."""
    own = numbered(slopes_of(context, which))
    require_words(claim, context, {"law": setting_of(context).law}, list(own))
    return exactly(claim, own)


def slopes_of(context: Any, which: str) -> list[Fraction]:
    """The means, made once."""
    found: list[Fraction] = context.cached(("star_graph", which), lambda: slopes(setting_of(context), which))
    return found


def probabilities(setting: Setting, label: str) -> list[Fraction]:
    """Of each token being `label`."""
    return [setting.mean([Fraction(int(s[t] == label)) for s in setting.sequences]) for t in range(10)]


def token(label: str, claim: Claim, context: Any) -> Finding:
    """Exact probabilities of a token."""
    setting = setting_of(context)
    own = numbered(probabilities(setting, label))
    require_words(claim, context, {"law": setting.law}, list(own))
    return exactly(claim, own)


def uniform(label: str, claim: Claim, context: Any) -> Finding:
    """Refuted if some context position has another probability than 1/8."""
    found = token(label, claim, context)
    _require(any(x != _EIGHTH for x in probabilities(setting_of(context), label)[:8]), "every probability is 1/8")
    return found


def signs(which: str, claim: Claim, context: Any) -> Finding:
    """Refuted if some sign is not + at k = 1 and - at k >= 2."""
    found, values = means(which, claim, context), slopes_of(context, which)
    _require(not (values[0] > 0 and all(x < 0 for x in values[1:])), "the signs are as published")
    return found


def mean_slope(claim: Claim, context: Any) -> Finding:
    """Refuted if the means are not -(1/100 - 1/648)/10 and (1/648 + 2/800)/10."""
    found, values = means("mean-slope", claim, context), slopes_of(context, "mean-slope")
    first, rest = -(Fraction(1, 100) - Fraction(1, 648)) / 10, (Fraction(1, 648) + Fraction(2, 800)) / 10
    _require(values != [first] + [rest] * 8, "the means are as published")
    return found


def mean_margin(claim: Claim, context: Any) -> Finding:
    """Signs of the means of dmu/dw(k)."""
    setting, margin = setting_of(context), number(claim["bounds"].get("margin"))
    require_words(claim, context, {"law": setting.law}, ["margin"])
    values = slopes_of(context, "mean-slope")
    own = min(-values[0], *values[1:])
    _require(0 < margin <= own, "`margin` is not below every mean")
    return proved(claim, margin=own)


def decoupling(claim: Claim, context: Any) -> Finding:
    """f2 reads row T of layer 1 alone. Content gradients by moving a I, then b (1 1^T - I), spread over their entries."""
    setting = setting_of(context)
    own: dict[str, Fraction] = {}
    end = [[int(g == "end") for g in s] for s in setting.sequences]
    for j in range(10):
        each = [moved(marks, [int(i == j) for i in range(10)]) for marks in end]
        own[f"row_{j + 1}"] = setting.mean([-b / a for a, b in each])
    for name, same, entries in (("diagonal", 1, 10), ("off", 0, 90)):
        pushes = [[int((g == s[9]) == bool(same)) for g in s] for s in setting.sequences]
        each = [moved(marks, push) for marks, push in zip(end, pushes, strict=True)]
        own[name] = setting.mean([-b / a for a, b in each]) / entries
    require_words(claim, context, {"law": setting.law}, list(own))
    return exactly(claim, own)


def stationary(claim: Claim, context: Any) -> Finding:
    """Every distribution on a path of a gradient is one-hot, so that J = diag(s) - s s^T is 0, and f1[v] = f2[end] = 1."""
    setting = setting_of(context)
    require_words(claim, context, {"instances": setting.instances}, ["gradient"])
    for s in setting.sequences:
        S1 = [[int(j == max(t - 1, 0)) for j in range(10)] for t in range(10)]
        s2 = [int(j == s.index("end")) for j in range(10)]
        _require(all(a * (i == j) == a * b for d in [*S1, s2] for i, a in enumerate(d) for j, b in enumerate(d)), "J")
        value = sum(a * b * (g == "v") for a, row in zip(s2, S1, strict=True) for b, g in zip(row, s, strict=True))
        _require(value == 1 and s[S1[9].index(1)] == "end", "an output at one-hot attention is not 1")
        second = [*s[:-1], "v"]
        lost = sum(
            a * b * (g == "end") for a, row in zip(s2, S1, strict=True) for b, g in zip(row, second, strict=True)
        )
        _require(lost == 0, "L1b is finite")
    return exactly(claim, {"gradient": Fraction(0)})


def second_phase(claim: Claim, context: Any) -> Finding:
    """The rates of row T-1: layer 2 is uniform, and W1[T-1, j] is logit j as S1[T] is at T-1. Other rows have weight 0."""
    setting = setting_of(context)
    drive = []
    for j in range(10):
        each = [moved(_pointed(s), [int(i == j) for i in range(10)]) for s in setting.sequences]
        drive.append(setting.mean([b / a for a, b in each]))
    own = numbered(drive)
    require_words(claim, context, {"law": setting.law}, list(own))
    if claim["kind"] == "counterexample":
        _require(any(x for j, x in enumerate(drive) if j != 8), "no other entry moves")
    return exactly(claim, own)


def second_phase_loss(claim: Claim, context: Any) -> Finding:
    """f1[v] is nowhere S2[T, t_end] = 1/10."""
    setting = setting_of(context)
    require_words(claim, context, {"instances": setting.instances}, ["low", "attention"])
    values = [Fraction(sum(_pointed(s)), 10) for s in setting.sequences]
    _require(all(x != Fraction(1, 10) for x in values), "in some order the two agree")
    return exactly(claim, {"low": min(values), "attention": Fraction(1, 10)})


def row_sums(claim: Claim, context: Any) -> Finding:
    """Polynomials as monomials with coefficients: w_i (u_i sum w - sum w_j u_j), summed over i."""
    require_words(claim, context, {"positions": 10}, ["sum"])
    require_cancelled()
    return exactly(claim, {"sum": Fraction(0)})


def finite_rest(claim: Claim, context: Any) -> Finding:
    """The same law: a row whose sum stays 0 is not bounded in all entries but one that is unbounded."""
    require_words(claim, context, {}, ["sum"])
    require_cancelled()
    return exactly(claim, {"sum": Fraction(0)})


def require_cancelled() -> None:
    """Every monomial w_i w_j u_k of the sum has the coefficient 0; Rejected."""
    terms: dict[tuple[int, int, int], int] = {}
    for i in range(10):
        for j in range(10):
            low, high = min(i, j), max(i, j)
            for k, sign in ((i, 1), (j, -1)):  # w_i w_j u_i - w_i w_j u_j
                terms[low, high, k] = terms.get((low, high, k), 0) + sign
    _require(not any(terms.values()), "the entries of J(s) u do not sum to 0")


def arithmetic(claim: Claim, context: Any) -> Finding:
    """Two equalities of rationals."""
    require_words(claim, context, {}, ["first", "second"])
    own = {"first": Fraction(548, 648000), "second": Fraction(2096, 5184000)}
    _require(own["first"] * 10 == Fraction(1, 100) - Fraction(1, 648), "548/648000")
    _require(own["second"] * 10 == Fraction(1, 648) + Fraction(2, 800), "2096/5184000")
    return exactly(claim, own)


def polynomial(claim: Claim, context: Any) -> Finding:
    """Both sides at T = 10."""
    require_words(claim, context, {}, ["left", "right"])
    own = {"left": Fraction(81 * 8 - 100), "right": Fraction(1000 - 500 + 50 + 2)}
    _require(own["left"] != own["right"], "the two sides agree")
    return exactly(claim, own)


def star_path(claim: Claim, context: Any) -> Finding:
    """The paths of the state's graph, all of them."""
    edges = [(a, b) for a, b in rows(context, "star_edges")]
    start, end = (int(context.controls[name]) for name in ("star_start", "star_end"))
    found = _paths(edges, start, end)
    _require(len(found) == 1, "there is not exactly one path")
    own = {"edges": len(edges), "start": start, "end": end, "path": ", ".join(map(str, found[0]))}
    require_words(claim, context, own, ["paths"])
    return exactly(claim, {"paths": Fraction(1)})


def countdown(claim: Claim, context: Any) -> Finding:
    """(a - b) = target (c - d)."""
    a, b, c, d = rows(context, "countdown")[0]
    target = number(claim["bounds"].get("value"))
    _require(c != d and a - b == target * (c - d), "the expression has another value")
    own = {"a": a, "b": b, "c": c, "d": d, "target": claim["parameters"].get("target")}
    _require(number(own["target"]) == target, "its target is not its value")
    require_words(claim, context, own, ["value"])
    return exactly(claim, {"value": target})


def formula(claim: Claim, context: Any) -> Finding:
    """A clause fails if each of its literals does."""
    clauses, (values,) = rows(context, "clauses"), rows(context, "assignment")
    _require(set(values) <= {0, 1}, "the assignment is not of 0 and 1")
    require_words(claim, context, {"clauses": len(clauses)}, ["unsatisfied"])
    for clause in clauses:
        literals = [integer(abs(x), 1, 7, "a literal") * (1 if x > 0 else -1) for x in clause]
        _require(prod(values[abs(x) - 1] != (x > 0) for x in literals) == 0, "a clause fails")
    return exactly(claim, {"unsatisfied": Fraction(0)})


def _paths(edges: list[tuple[int, int]], start: int, end: int) -> list[list[int]]:
    """All paths without a repeated node; Beyond if the search is long."""
    found, todo, steps = [], [[start]], 0
    while todo:
        path = todo.pop()
        steps += len(path) + len(edges)
        if steps > 1_000_000:
            raise Beyond("the graph has too many paths for this checker")
        if path[-1] == end:
            found.append(path)
        else:
            todo += [[*path, b] for a, b in edges if a == path[-1] and b not in path]
    return found


def _pointed(sequence: list[str]) -> list[int]:
    """Where the predecessor is v; position 1 is its own."""
    return [int(sequence[max(j - 1, 0)] == "v") for j in range(10)]


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Rejected(what)


CHECKS = {
    "identity/row-sums": row_sums,
    "identity/decoupling": decoupling,
    "identity/stationary": stationary,
    "identity/arithmetic": arithmetic,
    "identity/star-path": star_path,
    "identity/countdown": countdown,
    "identity/formula": formula,
    "margin/mean-slope": mean_margin,
    **{
        f"expectation/{x}": partial(expectation, x)
        for x in ("mean-slope", "first-slope", "second-slope", "shallow-slope")
    },
    "identity/end-token": partial(token, "end"),
    "identity/target-token": partial(token, "v"),
    "identity/second-phase": second_phase,
    "counterexample/uniform-end": partial(uniform, "end"),
    "counterexample/uniform-target": partial(uniform, "v"),
    "counterexample/mean-slope": mean_slope,
    "counterexample/first-slope": partial(signs, "first-slope"),
    "counterexample/next-token-slope": partial(signs, "next-token-slope"),
    "counterexample/polynomial": polynomial,
    "counterexample/second-phase": second_phase,
    "counterexample/finite-rest": finite_rest,
    "counterexample/second-phase-loss": second_phase_loss,
}
