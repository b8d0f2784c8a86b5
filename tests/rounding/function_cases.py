"""Random operands of one operation and the exact check of its rule; used by the tests of `certify.rounding.functions`.

A case is what the invariant promises of an operand: numbers lo <= x^ <= hi, E, and an exact x with |x^ - x| <= E, at an end as
often as inside. The operation is computed from x^ (by a library that errs as far as it may) and known exactly from x, in balls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx

from certify.arithmetic import Format, Ieee
from certify.arithmetic.balls import middle, sigmoid
from certify.arithmetic.elementary import nearest
from certify.arithmetic.ieee import AnyOperands
from certify.arithmetic.libm import CALLS, Libm

BITS = 400
UNARY = ("sqrt", "exp", "log", "tanh", "sigmoid", "abs")
OPERATIONS = (*UNARY, "div", "max", "select")
_BALLS = {
    "sqrt": lambda x: x.sqrt(),
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": sigmoid,
    "abs": abs,
    "div": lambda a, b: a / b,
    "max": lambda a, b: a.max(b),
}


@dataclass
class Operands:
    """Lanes of one operand: `values` (4, lanes) with lo, hi, E and the flag of any-order; computed and exact numbers."""

    values: np.ndarray
    computed: np.ndarray
    exact: list[Any] = field(default_factory=list)


def _numbers(rng: np.random.Generator, f: Format, n: int, near: float) -> np.ndarray:
    """Numbers of the format from many regimes, by lane; `near` scales the ordinary ones."""
    sign = rng.choice([-1.0, 1.0], n)
    low = f.emin - f.precision + 1
    kinds = [
        rng.standard_normal(n) * near,
        rng.standard_normal(n) * rng.choice([0.01, 10.0, 100.0], n),
        sign * rng.integers(0, 9, n) * f.min_subnormal,
        sign * f.min_normal * rng.uniform(0.2, 4, n),
        sign * f.largest * rng.uniform(0.01, 1, n),
        sign * np.ldexp(1 + rng.integers(-3, 4, n) * f.u, rng.integers(-6, 7, n)),
        sign * np.ldexp(rng.uniform(1, 2, n), rng.integers(max(low, -1000), f.emax, n)),
        sign * rng.integers(0, 5, n),
        1 + rng.integers(-9, 10, n) * 2 * f.u,
        np.zeros(n),
    ]
    weights = np.array([6, 3, 1, 1, 1, 2, 2, 1, 2, 0.5])
    chosen = rng.choice(len(kinds), n, p=weights / weights.sum())
    x = f.unbounded.round(np.choose(chosen, kinds))
    return np.clip(x, -f.largest, f.largest) + 0.0


def operands(rng: np.random.Generator, f: Format, n: int, near: float = 1.0, positive: bool = False) -> Operands:
    """`n` lanes: points and boxes, without error, with a small or a large one."""
    x = _numbers(rng, f, n, near)
    if positive:
        x = np.where(rng.random(n) < 0.9, np.abs(x), x)
    size = np.maximum(np.abs(x), f.min_subnormal)
    wide = rng.choice([0.0, 0.0, 2 * f.u, 16 * f.u, 0.1, 1.0, 4.0], (2, n)) * rng.random((2, n))
    with np.errstate(over="ignore"):
        low, high = f.unbounded.round(x - wide[0] * size), f.unbounded.round(x + wide[1] * size)
    low, high = np.clip(np.minimum(low, x), -f.largest, f.largest), np.clip(np.maximum(high, x), -f.largest, f.largest)
    loose = rng.random((2, n)) < 0.1  # ends that are no numbers of the format, as any-order has them
    away = np.abs(np.stack([low, high])) * 2.0**-40 * (np.abs(np.stack([low, high])) < 1e300)
    low, high = np.where(loose[0], low - away[0], low), np.where(loose[1], high + away[1], high)
    scale = rng.choice([0.0, 0.0, f.u, 4 * f.u, 0.01, 0.3, 1.0, 3.0], n)
    with np.errstate(over="ignore", under="ignore"):
        error = np.where(rng.random(n) < 0.9, scale * size, scale * rng.choice([f.min_subnormal, 0.1, 1.0, 50.0], n))
    error = np.where(np.isfinite(error), error, 0.0)
    share = rng.choice([-1.0, 1.0, 0.0, 0.5, -0.37], n)
    with ctx.workprec(2500):
        exact = [arb(a) + arb(t) * arb(e) for a, t, e in zip(x.tolist(), share.tolist(), error.tolist(), strict=True)]
    return Operands(np.stack([low, high, error, rng.choice([0.0, 1.0], n)]), x, exact)


class Wild(Ieee):
    """A library that returns a number of the format as far from the exact result as its ulps allow, or any in between."""

    def __init__(self, format: Format, libm: Libm, rng: np.random.Generator) -> None:
        super().__init__(format.unbounded)
        self._libm, self._rng = libm, rng

    def _called(self, name: str, a: np.ndarray) -> np.ndarray:
        ulps = self._libm.of(name, self.format)
        if ulps == 0.5:
            return super()._called(name, a)
        best = super()._called(name, a).astype(np.float64)
        steps = self._rng.integers(-math.ceil(ulps) - 1, math.ceil(ulps) + 2, best.shape)
        return np.array([self._moved(name, *lane, ulps) for lane in zip(a, best, steps, strict=True)]).astype(
            self._dtype
        )

    def _moved(self, name: str, x: float, best: float, steps: int, ulps: float) -> float:
        f = self.format
        if not (np.isfinite(best) and np.isfinite(x)):
            return best
        with ctx.workprec(BITS):
            y = middle(_BALLS[name](arb(float(np.clip(x, -2000, 2000) if name != "log" else x))))
        size = abs(y)
        exponent = max(size.numerator.bit_length() - size.denominator.bit_length() + 1, f.emin) if size else f.emin
        while exponent > f.emin and size < Fraction(2) ** exponent:
            exponent -= 1
        ulp = Fraction(2) ** (exponent - f.precision + 1)
        low, high = {"exp": (0, None), "log": (None, None), "tanh": (-1, 1), "sigmoid": (0, 1)}[name]
        for step in range(int(steps), 0, -1) if steps > 0 else range(int(steps), 0):
            r = nearest(Fraction(float(best)) + step * ulp, f)
            inside = (low is None or r >= low) and (high is None or r <= high)
            if np.isfinite(r) and inside and abs(Fraction(r) - y) <= Fraction(ulps) * ulp:
                return r
        return float(best)


class WildAny(Wild, AnyOperands):
    """The same library, in a program of several formats."""


def violations(
    rules: Any, name: str, f: Format, rng: np.random.Generator, n: int, libm: Libm, given_in: Format | None = None
) -> tuple[list[Any], int]:
    """Lanes whose result is outside its enclosure, or further from the exact one than its bound; and how many count.

    Operands are numbers of `given_in`, by default of the format itself.
    """
    machine = Wild(f, libm, rng) if given_in is None else WildAny(f, libm, rng)
    g = given_in or f
    count = {"div": 2, "max": 2, "select": 4}.get(name, 1)
    near = float({"exp": 8.0, "tanh": 3.0, "sigmoid": 8.0}.get(name, 1.0))
    given = [operands(rng, g, n, near, name in ("sqrt", "log")) for _ in range(count)]
    if name in ("max", "select"):
        _close(rng, g, given)
    rows = 4 if hasattr(rules, "sum") else 3  # any-order has a flag
    values = [o.values[:rows] for o in given]
    floats = [o.computed for o in given] if given_in else [machine.constant(o.computed) for o in given]
    options: dict[str, Any] = {}
    strict = bool(rng.random() < 0.5)
    if name == "sqrt":
        options["nonnegative"] = _nonnegative(rng, given[0])
    with np.errstate(all="ignore"):
        if name == "select":
            bound = rules.select(*values, strict)
            computed = machine.select(*floats, strict)
        else:
            bound = getattr(rules, name)(*values, **options)
            computed = getattr(machine, name)(*floats, **options)
        if given_in and name in ("abs", "max", "select"):
            bound, computed = rules.cast(bound), machine.cast(computed)
    low, high, error = bound[0], bound[1], bound[2]
    counted = np.isfinite(f.unbounded.round(low)) & np.isfinite(f.unbounded.round(high))
    computed = computed.astype(np.float64)
    wrong: list[Any] = []
    with ctx.workprec(BITS if g.precision < 53 else 3000 if name not in CALLS else BITS):
        for k in np.nonzero(counted)[0].tolist():
            lane = [o.exact[k] for o in given]
            exact = _selected(lane, strict) if name == "select" else _BALLS[name](*lane)
            inside = np.isfinite(computed[k]) and low[k] <= computed[k] <= high[k]
            far = np.isfinite(error[k]) and abs(arb(float(computed[k])) - exact) > arb(float(error[k]))
            undefined = not exact.is_finite()
            if not inside or far or (undefined and not np.isnan(error[k]) and error[k] < 1e300):
                case = [o.values[:3, k].tolist() for o in given]
                wrong.append((name, f.name, case, computed[k], exact, bound[:3, k].tolist()))
    return wrong, int(counted.sum())


def _selected(lane: list[Any], strict: bool) -> Any:
    p, q, x, y = lane
    return x if (p < q if strict else p <= q) else y


def _nonnegative(rng: np.random.Generator, given: Operands) -> np.ndarray:
    """Lanes that are known not to be negative: those where both numbers are not, at random."""
    exact = np.array([bool(x >= 0) for x in given.exact])
    return (given.computed >= 0) & exact & (rng.random(exact.shape) < 0.5)


def _close(rng: np.random.Generator, f: Format, given: list[Operands]) -> None:
    """Half of the second operands are the first ones, so that comparisons tie or nearly do."""
    same = rng.random(given[0].computed.shape) < 0.4
    given[1].values[:, same] = given[0].values[:, same]
    given[1].computed[same] = given[0].computed[same]
    own = rng.random(same.shape) < 0.5
    for k in np.nonzero(same)[0].tolist():
        if own[k]:
            given[1].exact[k] = given[0].exact[k]
        else:  # the other side of the same number
            with ctx.workprec(2500):
                given[1].exact[k] = 2 * arb(float(given[0].computed[k])) - given[0].exact[k]
