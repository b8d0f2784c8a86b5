"""Majorant bounds: the rules of the Poly-prox paper, for sums in any order."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from certify.checker.formats import Format
from certify.checker.program import Program
from certify.checker.rounding import TINY, Analysis, evaluate, up


class _Majorant:
    """The evaluation behind `majorant`: magnitude B and error E by node."""

    def __init__(self, format: Format) -> None:
        self.format = format
        self.size: list[float] = []
        self.error: list[float] = []

    def push(self, size: float, carried: float, depth: int, relative: float = 0.0, absolute: float = 0.0) -> None:
        """E = e + relative (B + e) + absolute."""
        self.size.append(up(size, depth))
        self.error.append(up(carried + relative * (size + carried) + (absolute + TINY), depth + 4))

    def given(self, lower: float, upper: float) -> None:
        size = max(-lower, upper)
        self.size.append(size)
        exact = abs(lower - self.format.fl(lower))
        self.error.append(exact if lower == upper else up(self.format.u * size + (self.format.omega + TINY), 3))

    def const(self, lane: Sequence[float], _: int) -> None:
        self.given(lane[0], lane[0])

    def sum(self, lane: Sequence[int], _: int) -> None:
        self.total(len(lane), len(lane) - 1, sum(self.size[a] for a in lane), sum(self.error[a] for a in lane))

    def sub(self, lane: Sequence[int], _: int) -> None:
        self.sum(lane, 0)

    def dot(self, lane: tuple[Sequence[int], Sequence[int]], _: int) -> None:
        size, error = self.size, self.error
        carried = total = 0.0
        for a, b in zip(*lane, strict=True):
            total += size[a] * size[b] + TINY
            carried += (size[a] + error[a]) * error[b] + size[b] * error[a] + TINY
        self.total(len(lane[0]), len(lane[0]), total, carried)

    def total(self, terms: int, roundings: int, size: float, carried: float) -> None:
        u, omega = self.format.u, self.format.omega
        if roundings == 1:
            return self.push(size, carried, 4 * terms, u, omega)
        if roundings * u >= 0.5:
            return self.push(inf, inf, 0)
        gamma = up(roundings * u / (1.0 - roundings * u), 2)
        return self.push(size, carried, 4 * terms, gamma, 4.0 * terms * omega)

    def neg(self, lane: Sequence[int], _: int) -> None:
        self.size.append(self.size[lane[0]])
        self.error.append(self.error[lane[0]])

    relu = neg

    def overwrite(self, lane: Sequence[int], _: int) -> None:
        self.sum((lane[0], lane[2]), 0)

    def scale(self, lane: Sequence[int], exponent: int) -> None:
        c, lost = 2.0**exponent, TINY if exponent < 0 else 0.0
        self.size.append(up(self.size[lane[0]] * c + lost, 2))
        self.error.append(up(self.error[lane[0]] * c + (self.format.omega + lost if lost else 0.0), 3))


def majorant(program: Program, format: Format, lower: Sequence[float], upper: Sequence[float]) -> Analysis:
    """The paper's bounds (App. E.2; Higham, Accuracy and Stability, ch. 3): |A| <= B, |A^ - A| <= E, sums in any order.

    **Theorem.** With fl(a o b) = (a o b)(1 + d) + eta, |d| <= u, |eta| <= omega, B and e summed over the terms or
    products (of which e = B_a E_b + B_b E_a + E_a E_b), and no overflow, which `running` excludes:

        one operation              E = e + u (B + e) + omega                      relu, -   unchanged
        n roundings of k terms     E = e + Gamma_n (B + e) + 4 k omega            2**k a    scaled, + omega for k < 0

    where Gamma_n = n u / (1 - n u), n u < 1/2: a term passes through at most n roundings, and of the at most 2 k
    underflows each is amplified by at most (1 + u)**n <= 2.
    """
    rules = _Majorant(format)
    evaluate(program, rules, lower, upper)
    return Analysis(program, format, [], [], rules.error)
