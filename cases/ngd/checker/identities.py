"""Identities between rational functions, proved again: scores from the blocks of W, the gradient by differentiation."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from certify.checker.cases.ngd.polynomials import (
    ONE,
    ZERO,
    Exponentials,
    Poly,
    derivative,
    dot,
    plus,
    substituted,
    times,
    var,
)
from certify.checker.cases.ngd.setting import THEOREM, require_certified

from certify.checker.document import Beyond, Claim, Finding, Rejected, agrees, integer, proved

_MOST = 200
_WORDS = {
    "step": "the masked layer keeps the top block of every column and takes its bottom block t to "
    "t - C1 grad L(C2 t) / L(C2 t)",
    "unmasked": "the layer whose softmax runs over all n + 1 tokens takes theta to "
    "theta - C1 grad L(C2 theta) / (L(C2 theta) + 1/n)",
    "effective": "the masked layer takes phi = C2 theta to phi - C1 C2 grad L(phi) / L(phi)",
    "rmsnorm": "the masked layer with C1 > 0, its attention output divided by its root mean square and multiplied by "
    "alpha / sqrt(2 d), takes theta to theta - alpha grad L(C2 theta) / |grad L(C2 theta)|",
}


class Symbolic:
    """A transformer whose every number is a variable."""

    def __init__(self, n: int, d: int) -> None:
        self.n, self.d, self.exp = n, d, Exponentials()
        self.z = [[var(f"z{i}.{k}") for k in range(d)] for i in range(n)]
        self.t = [[var(f"t{j}.{k}") for k in range(d)] for j in range(n + 1)]
        self.H = [self.z[i] + self.t[i] for i in range(n)] + [[ZERO] * d + self.t[n]]  # columns
        self.C1, self.C2 = var("C1"), var("C2")
        self.V = {(d + k, k): self.C1 for k in range(d)}
        self.W = {(k, d + k): times(-1, self.C2) for k in range(d)}

    def added(self, j: int, keys: int) -> tuple[list[Poly], Poly]:
        """What attention adds to column j, 2 d numerators over one denominator, with that many keys."""
        h = self.H[j]
        e = [self.exp(plus(*(times(self.H[i][r], w, h[s]) for (r, s), w in self.W.items()))) for i in range(keys)]
        over = [
            plus(*(times(v, self.H[i][s], e[i]) for (q, s), v in self.V.items() if q == r for i in range(keys)))
            for r in range(2 * self.d)
        ]
        return over, plus(*e)

    def loss(self, point: list[Poly]) -> tuple[Poly, list[Poly]]:
        """The mean of exp(-<z_i, x>) and its derivatives in x, at x = point."""
        names = [f"x{k}" for k in range(self.d)]
        values = dict(zip(names, point, strict=True))
        exponents = [times(-1, dot(z, map(var, names))) for z in self.z]
        e = [self.exp(substituted(q, values)) for q in exponents]
        inner = [[substituted(derivative(q, name), values) for q in exponents] for name in names]
        share = Fraction(1, self.n)
        return times(share, plus(*e)), [times(share, dot(row, e)) for row in inner]


def _equal(over: Poly, under: Poly, other: Poly, below: Poly) -> bool:
    return times(over, below) == times(other, under)


def _step(model: Symbolic) -> bool:
    for j, t in enumerate(model.t):
        added, total = model.added(j, model.n)
        value, slopes = model.loss([times(model.C2, x) for x in t])
        if any(added[: model.d]):
            return False
        if not all(
            _equal(a, total, times(-1, model.C1, g), value) for a, g in zip(added[model.d :], slopes, strict=True)
        ):
            return False
    return True


def _unmasked(model: Symbolic) -> bool:
    added, total = model.added(model.n, model.n + 1)
    value, slopes = model.loss([times(model.C2, x) for x in model.t[-1]])
    below = plus(value, times(Fraction(1, model.n), ONE))
    pairs = zip(added[model.d :], slopes, strict=True)
    return not any(added[: model.d]) and all(_equal(a, total, times(-1, model.C1, g), below) for a, g in pairs)


def _effective(model: Symbolic) -> bool:
    added, total = model.added(model.n, model.n)
    value, slopes = model.loss([times(model.C2, x) for x in model.t[-1]])
    pairs = zip(added[model.d :], slopes, strict=True)
    return all(_equal(times(model.C2, a), total, times(-1, model.C1, model.C2, g), value) for a, g in pairs)


def _rmsnorm(model: Symbolic) -> bool:
    """The output is a positive multiple of -grad L, entry by entry; so are their normed vectors, if the squared sizes agree.

    A vector a in 2 d dimensions, divided by sqrt(|a|^2 / (2 d)) and multiplied by alpha / sqrt(2 d), is alpha a / |a|; and
    a = c b with c > 0 gives a / |a| = b / |b|.
    """
    added, total = model.added(model.n, model.n)
    value, slopes = model.loss([times(model.C2, x) for x in model.t[-1]])
    # total and value are sums of exponentials, with positive coefficients, and C1 > 0
    positive = all(c > 0 for p in (total, value) for c in p.values())
    pairs = zip(added[model.d :], slopes, strict=True)
    multiple = all(times(a, value) == times(-1, model.C1, g, total) for a, g in pairs)
    return positive and multiple and not any(added[: model.d])


_PROOFS: dict[str, Callable[[Symbolic], bool]] = {
    "step": _step,
    "unmasked": _unmasked,
    "effective": _effective,
    "rmsnorm": _rmsnorm,
}


def check_identity(claim: Claim, context: Any) -> Finding:
    """One of the identities, for one size of contexts."""
    name = claim["id"].split("/")[1]
    n = integer(claim["parameters"].get("n"), 1, 1000, "n")
    d = integer(claim["parameters"].get("d"), 1, 1000, "d")
    where = f"For all real numbers in a context of n = {n} examples in d = {d} dimensions"
    agrees(
        claim,
        context,
        id=f"identity/{name}/n={n},d={d}",
        semantics="real",
        parameters=("n", "d"),
        statement=f"{where}, {_WORDS[name]}, where L(x) is the mean of exp(-<z_i, x>).",
        theorem=f"{THEOREM}identities",
    )
    require_certified(claim)
    if n * d > _MOST:
        raise Beyond(f"n = {n} and d = {d} are too large for polynomials here")
    if not _PROOFS[name](Symbolic(n, d)):
        raise Rejected("the rational functions differ")
    return proved(claim)
