"""Lemma 4.4 in symbols, proved again: generators turn the blocks, and a matrix that is turned averages to tr/d I."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

from certify.checker.cases.ngd.polynomials import ZERO, Exponentials, Poly, dot, plus, times, var
from certify.checker.cases.ngd.setting import THEOREM, require_certified

from certify.checker.document import Beyond, Claim, Finding, Rejected, agrees, integer, proved

Turn = tuple[tuple[int, int], ...]
_MOST = 18


class Parts:
    """Numerators of what the blocks 2 r g^T and sum_i ds_i z_i theta^T are made of: r over n D, g over D, ds over n D^3."""

    def __init__(self, exp: Exponentials, z: list[list[Poly]], theta: list[Poly]) -> None:
        columns, self.C1 = range(len(theta)), var("C1")
        self.z, self.s = z, [dot(row, theta) for row in z]
        self.e = [exp(times(-1, var("C2"), s)) for s in self.s]
        f = [exp(times(-1, s)) for s in self.s]
        self.total = plus(*self.e)
        self.g = [dot(self.e, [row[k] for row in z]) for k in columns]
        taught = [dot(f, [row[k] for row in z]) for k in columns]
        self.r = [plus(times(len(z), self.C1, self.g[k]), times(-1, self.total, taught[k])) for k in columns]
        off = [[plus(times(row[k], self.total), times(-1, self.g[k])) for k in columns] for row in z]
        # the derivative of |r|^2 in the score of key i, by p_i (z_i - g)
        self.ds = [times(2, self.C1, a, dot(self.r, row)) for a, row in zip(self.e, off, strict=True)]

    def in_C2(self) -> Poly:
        """The derivative of |r|^2 in C2, by the rule for quotients: e_i changes by -s_i e_i."""
        changes = [times(-1, a, s) for a, s in zip(self.e, self.s, strict=True)]
        moved = [dot(changes, [row[k] for row in self.z]) for k in range(len(self.g))]
        total = plus(*changes)
        rest = [plus(times(m, self.total), times(-1, g, total)) for m, g in zip(moved, self.g, strict=True)]
        return times(2, self.C1, dot(self.r, rest))


def _turned(turn: Turn, row: list[Poly]) -> list[Poly]:
    return [times(sign, row[column]) for column, sign in turn]


def _group(generators: list[Turn]) -> set[Turn]:
    """All products of the generators."""
    found, new = set(generators), list(generators)
    while new:
        a = new.pop()
        for g in generators:
            b = tuple((a[column][0], sign * a[column][1]) for column, sign in g)
            if b not in found:
                found.add(b)
                new.append(b)
    return found


def _holds(n: int, d: int) -> bool:
    z = [[var(f"z{i}.{k}") for k in range(d)] for i in range(n)]
    theta, exp = [var(f"t{k}") for k in range(d)], Exponentials()
    still = tuple((k, 1) for k in range(d))
    generators: list[Turn] = [((0, -1), *still[1:]), (*still[1:], still[0])]
    generators += [(still[1], still[0], *still[2:])] if d > 1 else []
    group = _group(generators)
    if group != {tuple(zip(p, s, strict=True)) for p in permutations(range(d)) for s in product((1, -1), repeat=d)}:
        return False
    plain = Parts(exp, z, theta)
    for turn in generators:
        other = Parts(exp, [_turned(turn, row) for row in z], _turned(turn, theta))
        # so Q turns each block B into Q B Q^T
        if other.r != _turned(turn, plain.r) or other.g != _turned(turn, plain.g) or other.ds != plain.ds:
            return False
    M = [[var(f"m{a}.{b}") for b in range(d)] for a in range(d)]
    trace = plus(*(M[k][k] for k in range(d)))
    for a, b in product(range(d), repeat=2):
        total = plus(*(times(turn[a][1], turn[b][1], M[turn[a][0]][turn[b][0]]) for turn in group))
        if times(d, total) != (times(len(group), trace) if a == b else ZERO):
            return False
    # the trace of 2 r g^T is 2 r g, the derivative in C1; that of the other is sum ds_i <z_i, theta>
    return dot(plain.ds, plain.s) == times(-1, plain.in_C2())


def check_average(claim: Claim, context: Any) -> Finding:
    """For one size of contexts."""
    n = integer(claim["parameters"].get("n"), 1, 1000, "n")
    d = integer(claim["parameters"].get("d"), 1, 1000, "d")
    statement = (
        f"For all real numbers in a context of n = {n} examples in d = {d} dimensions, the blocks 2 r g^T and "
        "sum_i ds_i z_i theta^T of the gradient in V and W, averaged over the context turned by all signed permutations, are "
        "dC1/d I and -dC2/d I, for the gradient (dC1, dC2) of the loss of two scalars."
    )
    words = {"statement": statement, "theorem": f"{THEOREM}lemma", "semantics": "real"}
    agrees(claim, context, id=f"identity/average/n={n},d={d}", parameters=("n", "d"), **words)
    require_certified(claim)
    if n * d > _MOST or d > 3:
        raise Beyond(f"n = {n} and d = {d} are too large for polynomials here")
    if not _holds(n, d):
        raise Rejected("the rational functions differ")
    return proved(claim)
