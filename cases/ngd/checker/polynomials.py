"""Polynomials over the rationals, as dictionaries from sorted tuples of variables to coefficients; enough for identities."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

Poly = dict[tuple[str, ...], Fraction]
ZERO: Poly = {}
ONE: Poly = {(): Fraction(1)}


def var(name: str) -> Poly:
    """A variable."""
    return {(name,): Fraction(1)}


def plus(*terms: Poly) -> Poly:
    """A sum."""
    total: Poly = {}
    for term in terms:
        for monomial, c in term.items():
            total[monomial] = total.get(monomial, Fraction(0)) + c
    return {monomial: c for monomial, c in total.items() if c}


def times(*factors: Poly | int | Fraction) -> Poly:
    """A product; numbers among the factors are constants."""
    result = ONE
    for factor in factors:
        other: Poly = factor if isinstance(factor, dict) else {(): Fraction(factor)} if factor else {}
        found: Poly = {}
        for a, x in result.items():
            for b, y in other.items():
                key = tuple(sorted(a + b))
                found[key] = found.get(key, Fraction(0)) + x * y
        result = {monomial: c for monomial, c in found.items() if c}
    return result


def derivative(p: Poly, name: str) -> Poly:
    """With respect to a variable."""
    terms = []
    for monomial, c in p.items():
        if power := monomial.count(name):
            at = monomial.index(name)
            terms.append({monomial[:at] + monomial[at + 1 :]: c * power})
    return plus(*terms)


def substituted(p: Poly, values: dict[str, Poly]) -> Poly:
    """With polynomials for variables."""
    return plus(*(times(c, *(values.get(x, var(x)) for x in monomial)) for monomial, c in p.items()))


class Exponentials:
    """A variable for the exponential of every polynomial that is met; 1 for that of 0."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}

    def __call__(self, exponent: Poly) -> Poly:
        """Of this exponent."""
        if not exponent:
            return ONE
        return var(self.names.setdefault(frozenset(exponent.items()), f"exp{len(self.names)}"))


def dot(a: Iterable[Poly], b: Iterable[Poly]) -> Poly:
    """Of two vectors of polynomials."""
    return plus(*(times(x, y) for x, y in zip(a, b, strict=True)))
