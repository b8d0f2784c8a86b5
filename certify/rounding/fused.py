"""Running bounds of fused multiply-adds, one at a time or a whole chain of them at once.

With q = |a| E_b + |b| E_a + E_a E_b, what the product of the operands carries, and m = max(-lo, hi) of a b + c before rounding:

    a b + c   lo, hi = fl of the ends of a b plus those of c, rounded once      E = q + E_c + min(max(h(m), omega), |a| |b|)

c is a number of the format, so rounding moves a b + c by at most |a b|. For p <= 24 the product is exact in binary64 and the
sum is rounded to odd. Where the product is rounded (binary64, and operands of it), its ends go one step outward; in binary64 m
may have been rounded down to a power of two, so there h(m) is doubled. Proof: docs/theory/rounding.md#running.
"""

from __future__ import annotations

import numpy as np

from certify.arithmetic.chains import fused_chains, guessed_sums, verified_sums
from certify.arithmetic.errorfree import sum_to_odd
from certify.graph import Values
from certify.rounding.local import ERROR, MANTISSA, TINY, UP, Local, corners, magnitude, outward
from certify.rounding.region import Floats


class Fused(Local):
    """The rule, for an arithmetic whose values are arrays of shape (3 or more, lanes): lo, hi, E."""

    def _result(self, ends: Values, m: Floats, error: Floats) -> Values:
        raise NotImplementedError

    def fma(self, a: Values, b: Values, c: Values) -> Values:
        """fl(a b + c), rounded once; operands broadcast."""
        products = self._unrounded(a, b)
        m, carried, local = self._fused(a, b, products, c[:2])
        error = (carried + c[ERROR] + local) * UP + TINY
        return self._result(self._fused_ends(products, c[:2]), m, error)

    def fused_chains(self, lanes: int) -> bool:
        """Whether `fused_chain` is worth it for so many lanes."""
        return fused_chains(lanes)

    def fused_chain(self, total: Values, a: Values, b: Values) -> Values:
        """fl(... fl(fl(total + a_1 b_1) + a_2 b_2) ...), factors of shape (3, ..., K, lanes), by the rule of `fma` at once.

        **Theorem.** Along such a chain that rule gives the ends of `verified_sums`, terms q_k (what a_k and b_k carry) and l_k
        (local) that depend on the ends alone, and E = E_0 + sum (q_k + l_k). *Proof.* As for `chain`. QED

        A term passes at most K + 7 roundings on its way, which `up` makes good for K < 2**24 as in `chain`; the two products of
        q_k may underflow, each by 2**-1075, and the last one too: less than 2**-1073 a term.
        """
        products, terms = self._unrounded(a, b), a.shape[-2]
        ends = verified_sums(
            total[:2],
            terms,
            lambda start, part: guessed_sums(self.format, start, products[..., part, :]),
            lambda before, part: self._fused_ends(products[..., part, :], before),
        )
        m, carried, local = self._fused(a, b, products, ends[..., :-1, :])
        up = 1.0 + (2 * terms + 8) * 2.0**-53
        # one after the other, as compiled loops add them
        moved = np.add.accumulate(carried + local, axis=-2)[..., -1, :]
        error = (total[ERROR] + moved) * up + terms * TINY
        return self._result(ends[..., -1, :], m, error)

    def _unrounded(self, a: Values, b: Values) -> Values:
        """The ends of a b: exact in binary64, or one step outward."""
        products = corners(a, b)
        return outward(products) if self._double or self._rounded_twice else products

    def _fused_ends(self, products: Values, c: Values) -> Values:
        """The ends of fl(a b + c), from those of a b and of c."""
        return self._round(np.asarray(products + c) if self._double else sum_to_odd(products, c))

    def _fused(self, a: Values, b: Values, products: Values, c: Values) -> tuple[Floats, Floats, Floats]:
        """For fl(a b + c): m, what the errors of a and b become, and how far it is rounded at most."""
        size_a, size_b = magnitude(a), magnitude(b)
        before = np.asarray(products + c)
        m = magnitude(before)
        half = self._half_ulp(m)
        if self._double:  # a power of two may have been rounded down to
            half *= np.where((m.view(np.int64) & MANTISSA) == 0, 2.0, 1.0)
        moved = (size_a * size_b) * UP + TINY  # c is a number of the format
        local = np.minimum(np.maximum(half, self.format.omega), moved)
        local = np.maximum(local, self._flushed(before, m)) * ((size_a > 0) & (size_b > 0))
        return m, (size_a + a[ERROR]) * b[ERROR] + size_b * a[ERROR], local
