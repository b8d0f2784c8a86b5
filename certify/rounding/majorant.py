"""Majorant error bounds: the rules of the Poly-prox paper (App. E), for sums of any order.

**Theorem** (paper, E.2; Higham, Accuracy and Stability of Numerical Algorithms, ch. 3). Model: fl(a o b) =
(a o b)(1 + d) + eta with |d| <= u, |eta| <= omega. Let |A| <= B_A and |A^ - A| <= E_A for every operand and every
input of the region. Then, unless an operation overflows,

    a +- b     B = B_a + B_b,   e = E_a + E_b                        E = e + u (B + e) + omega
    a b        B = B_a B_b,     e = B_a E_b + B_b E_a + E_a E_b      E = e + u (B + e) + omega
    sum of k   B, e = sums over the terms                            E = e + Gamma_(k-1) (B + e) + zeta_k
    dot of k   B, e = sums of the products' B and e                  E = e + Gamma_k (B + e) + zeta_k
    relu, -    B, E unchanged;    2**k a: scaled, + omega for k < 0

with Gamma_k = k u / (1 - k u), zeta_k = 2 k (1 + u)**k omega, k u < 1, for every order of the additions.

*Proof.* A term passes through at most k roundings, so the computed sum is sum t_i (1 + theta_i) with |theta_i| <=
Gamma_k, plus underflows, of which there are at most 2 k, each amplified by at most (1 + u)**k. QED

k counts the terms that are not structural zeros. The rules replace values by magnitudes and know nothing of
cancellation; they are here for comparison with `running`, which is far sharper for a fixed order.

All of it is evaluated upward in binary64 as `certify.rounding.running` explains: nearest, times 1 + 2**-50 (a sum of k
products, in whatever order binary64 adds them, times 1 + (2 k + 8) 2**-53), plus 2**-1073 for each product that may
underflow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from certify.arithmetic import Format, format_named
from certify.arithmetic.accumulators import accumulator
from certify.errors import InputRejected
from certify.graph import FormatNames, Graph, Op, Values, evaluate, order_named, with_order
from certify.rounding.bounds import Bounds
from certify.rounding.region import Floats, Region

SIZE, ERROR = 0, 1
Counts = npt.NDArray[np.int64]
_UP = 1.0 + 2.0**-50
_TINY = 2.0**-1073


def majorant(graph: Graph, format: Format, region: Region) -> Bounds:
    """The paper's bounds, for every order of the sums of `graph` and every exact input in `region`.

    `peak` covers node results, not partial sums: use `running` for a range certificate.

    Raises
    ------
    InputRejected : a sum has so many terms that k u >= 1, or the kernel has other operations, or an input is missing.
    """
    arithmetic = Majorant(format)
    inputs = {name: arithmetic.enclose(region.lower[name], region.upper[name]) for name in region.lower}
    if region.representable:
        for enclosed in inputs.values():
            enclosed[ERROR] = 0.0
    wide = order_named(graph.order).accumulator if graph.order is not None else ""
    values = evaluate(with_order(graph, f"any-order:{wide}" if wide else None), arithmetic, inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        size = (values[SIZE] + values[ERROR]) * _UP
    return Bounds(graph, format, -size, size, values[ERROR], float(size.max()))


class Majorant:
    """The arithmetic of the theorem. Values are arrays of shape (2, lanes): B, E."""

    covers = "majorant bounds cover +, - and * only"

    def __init__(self, format: Format) -> None:
        self.format = format.unbounded
        self._holds = True  # whether operands are numbers of the format

    def in_format(self, name: str, left: FormatNames, right: FormatNames, op: Op) -> Majorant:
        """The arithmetic in which one instruction of a program of several formats is bounded. Raises InputRejected."""
        inner = Majorant(format_named(name) if name else self.format)
        operands = [format_named(each) if each else self.format for each in (*left, *right)]
        inner._holds = all(inner.format.contains(each) for each in operands)
        return inner

    def cast(self, a: Values) -> Values:
        """fl(a), where `a` is exact otherwise."""
        return a if self._holds else self.narrow(a)

    def accumulating(self, name: str) -> Majorant:
        """The arithmetic in which sums of this format's products are accumulated. Raises InputRejected."""
        return Majorant(accumulator(name, self.format))

    def widen(self, a: Values) -> Values:
        """Numbers of a narrower format, exact."""
        return a

    def narrow(self, a: Values) -> Values:
        """An accumulator's total, rounded once to this format."""
        rounding = self._rounding((a[SIZE] + a[ERROR]) * _UP, self.format.underflow)
        return np.stack([a[SIZE], (a[ERROR] + rounding) * _UP])

    def empty(self, n: int) -> Values:
        """Room for n values."""
        return np.empty((2, n))

    def constant(self, values: Floats) -> Values:
        """Constants, with their conversion error."""
        return self.enclose(values, values)

    def enclose(self, lower: Floats, upper: Floats) -> Values:
        """Inputs anywhere in [lower, upper], shape (2, *shape)."""
        size = np.maximum(np.abs(lower), np.abs(upper))
        rounding = self._rounding(size, self.format.underflow * (size > 0))
        own = np.abs(lower - self.format.round(lower))
        if self.format.flush:  # before or after rounding
            own = np.where((size > 0) & (size <= self.format.min_normal), self.format.min_normal, own)
        return np.stack([size, np.where(lower == upper, own, rounding)])

    def add(self, a: Values, b: Values) -> Values:
        """a + b."""
        carried = a[ERROR] + b[ERROR]
        size = (a[SIZE] + b[SIZE]) * _UP
        return np.stack([size, (carried + self._rounding(size + carried, self.format.underflow)) * _UP])

    def sub(self, a: Values, b: Values) -> Values:
        """a - b, like a + b."""
        return self.add(a, b)

    def mul(self, a: Values, b: Values) -> Values:
        """a b."""
        carried = (a[SIZE] + a[ERROR]) * b[ERROR] + b[SIZE] * a[ERROR] + _TINY
        size = a[SIZE] * b[SIZE] * _UP + _TINY
        return np.stack([size, (carried + self._rounding(size + carried, self.format.underflow)) * _UP + _TINY])

    def neg(self, a: Values) -> Values:
        """-a."""
        return a

    def relu(self, a: Values) -> Values:
        """max(a, 0)."""
        return a

    def scale(self, a: Values, exponent: int) -> Values:
        """a 2**exponent."""
        self.format.check_scale(exponent)
        scaled = np.ldexp(a, exponent)
        if not self._holds:
            return self.narrow(scaled + _TINY)
        return scaled if exponent >= 0 else (scaled + np.array([[_TINY], [self.format.underflow + _TINY]])) * _UP

    def sum(self, a: Values, live: Counts) -> Values:
        """Sum over terms, any order."""
        return self._total(a[SIZE].sum(axis=0), a[ERROR].sum(axis=0), live, np.maximum(live - 1, 0), len(a[SIZE]))

    def dot(self, a: Values, b: Values, live: Counts) -> Values:
        """Matrix product, any order."""
        size = (a[SIZE].T @ b[SIZE]).ravel()
        # rounded up: it enters a product below
        reach = (a[SIZE] + a[ERROR]) * _UP
        carried = (reach.T @ b[ERROR] + a[ERROR].T @ b[SIZE]).ravel()
        return self._total(size, carried, live, live, len(a[SIZE]))

    def _total(self, size: Floats, carried: Floats, live: Counts, k: Counts, terms: int) -> Values:
        if float(live.max(initial=0)) * self.format.u >= 0.5:
            raise InputRejected(
                f"a sum of {live.max()} terms is too long for majorant bounds in {self.format.name}",
                "use the running bounds or a format of higher precision",
            )
        up = 1.0 + (2 * terms + 8) * 2.0**-53  # any order of the binary64 additions in this evaluation
        underflow = 2 * terms * _TINY
        size, carried = size * up + underflow, carried * up + underflow
        gamma = k * self.format.u / (1.0 - k * self.format.u) * _UP
        # 1 - k u is exact or rounded by 2**-53 relatively; (1 + u)**k <= exp(k u) <= 2 for k u < 1/2
        zeta = 4.0 * live * self.format.underflow
        return np.stack([size, (carried + gamma * (size + carried) + zeta) * _UP + _TINY])

    def _rounding(self, size: Floats, omega: npt.ArrayLike) -> Floats:
        return np.asarray(self.format.u * size * _UP + np.asarray(omega) + _TINY)
