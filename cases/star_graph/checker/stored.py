"""Checks of the claims about stored weights: the model written out once on the residual stream and once factorised."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import arb, arb_mat, ctx

from certify.checker.document import Claim, Finding, Rejected, number, proved, require_upper

from .circuit import exact
from .setting import EDGES, WEIGHTS, Setting, setting_of
from .words import require_words

BITS = 288
_LABEL = {"star": 0, "v": 1, "end": 2, "v'": 3, "end'": 4}
Matrix = list[list[arb]]


def softmax(logits: Sequence[arb]) -> list[arb]:
    """exp over the sum of exp."""
    powers = [x.exp() for x in logits]
    total = sum(powers, arb(0))
    return [x / total for x in powers]


def factorised(g: Sequence[int], weights: Sequence[Matrix]) -> tuple[list[arb], list[arb]]:
    """f1 and f2 from two attention matrices of ten positions."""
    S = [softmax([weights[0][g[t]][g[j]] + weights[1][t][j] for j in range(t + 1)]) for t in range(10)]
    last = S[9]
    logits = [
        sum((last[i] * (weights[2][g[i]][g[j]] + weights[3][i][j]) for i in range(10)), arb(0)) for j in range(10)
    ]
    out = [[sum((s for s, x in zip(row, g, strict=False) if x == k), arb(0)) for k in range(10)] for row in S]
    deep = softmax(logits)
    return [sum((a * row[k] for a, row in zip(deep, out, strict=True)), arb(0)) for k in range(10)], out[9]


def streamed(g: Sequence[int], weights: Sequence[Matrix]) -> tuple[list[arb], list[arb]]:
    """f1 and f2 from tokens of 20 numbers, then of 40, then of 80: the stream of the disentangled model."""
    stream = arb_mat([[int(i == x) for i in range(10)] + [int(i == t) for i in range(10)] for t, x in enumerate(g)])
    for layer in (0, 1):
        size = 20 << layer
        W = arb_mat(size, size)
        for i in range(10):
            for j in range(10):
                W[size - 20 + i, j] = weights[2 * layer][i][j]
                W[size - 10 + i, 10 + j] = weights[2 * layer + 1][i][j]
        A = (stream * W * stream.transpose()).tolist()
        S = arb_mat([[*softmax(A[t][: t + 1]), *[arb(0)] * (9 - t)] for t in range(10)])
        read = (S * stream).tolist()
        stream = arb_mat([[*a, *b] for a, b in zip(stream.tolist(), read, strict=True)])
    row = stream.tolist()[9]
    return row[60:70], row[20:30]


def factorisation(claim: Claim, context: Any) -> Finding:
    """Both forms at the rational weights of the state."""
    setting = setting_of(context)
    require_words(claim, context, {"orders": len(setting.orders)}, ["radius"])
    scale, values = context.controls["probe_denominator"], context.saved.tensors["probe"].values()
    own = Fraction(0)
    with ctx.workprec(BITS):
        flat = [exact(Fraction(int(x)) / scale) for x in values]
        weights = [[flat[100 * k + 10 * i : 100 * k + 10 * i + 10] for i in range(10)] for k in range(4)]
        for g in _labels(setting):
            one, other = streamed(g, weights), factorised(g, weights)
            for a, b in zip([*one[0], *one[1]], [*other[0], *other[1]], strict=True):
                if not ((a - b).is_finite() and (a - b).contains(0)):
                    raise Rejected("the two forms differ")
                significand, exponent = (int(x) for x in (a - b).rad().man_exp())
                own = max(own, significand * Fraction(2) ** exponent)
    require_upper(claim, "radius", own)
    if number(claim["bounds"]["radius"]) >= Fraction(1, 10**50):
        raise Rejected("its radius is not below 1e-50")
    return proved(claim, radius=own)


def decoded(claim: Claim, context: Any) -> Finding:
    """The lead of the right token in every order; refuted by an order and a label."""
    setting, step = setting_of(context), claim["id"].split("/")[1]
    entries = [context.saved.tensors[name].values() for name in WEIGHTS]
    even = all(_even(entries[k]) for k in (0, 2))
    n = len(setting.orders)
    covered = f"all {setting.instances} instances" if even else f"the first labeling of each of {n} edge orders"
    target = 1 if step == "stored-first" else 2
    with ctx.workprec(BITS):
        weights = [[[arb(x) for x in flat[10 * i : 10 * i + 10]] for i in range(10)] for flat in entries]
        if claim["verdict"] == "refuted":
            require_words(claim, context, {"covered": covered}, ["excess"], "refuted")
            order, label = ((claim["witness"] or {}).get(name) for name in ("order", "label"))
            orders = list(map(list, setting.orders))
            if order not in orders or type(label) is not int or label not in range(10):
                raise Rejected("its witness is no order of the state with a label")
            excess, g = number(claim["bounds"]["excess"]), _labels(setting)[orders.index(order)]
            f1 = factorised(_step(g, step), weights)[0]
            if not (label != target and excess > 0 and f1[label] - f1[target] >= exact(excess)):
                raise Rejected("the label of the witness is not proved to lead by `excess`")
            return proved(claim, excess=excess)
        require_words(claim, context, {"covered": covered}, ["margin"])
        margin = number(claim["bounds"]["margin"])
        if margin <= 0:
            raise Rejected("its margin is not positive")
        for g in _labels(setting):
            f1 = factorised(_step(g, step), weights)[0]
            if not all(f1[target] - x >= exact(margin) for k, x in enumerate(f1) if k != target):
                raise Rejected("the lead is not proved to be `margin`")
        return proved(claim, margin=margin)


def _labels(setting: Setting) -> list[list[int]]:
    return [[_LABEL[x] for k in order for x in EDGES[k]] + [2, 0] for order in setting.orders]


def _step(g: list[int], step: str) -> list[int]:
    """The tokens of the first step, or of the second, after v."""
    return g if step == "stored-first" else [*g[:-1], 1]


def _even(flat: list[float]) -> bool:
    """Content weights that treat all labels alike."""
    return len({flat[11 * i] for i in range(10)}) == 1 == len({x for i, x in enumerate(flat) if i % 11})


CHECKS = {"identity/factorisation": factorisation, "margin/stored-first": decoded, "margin/stored-second": decoded}
