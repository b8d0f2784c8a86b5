"""Bounds of h, its gradient, its Hessian and the Hessian's Lipschitz constant on ||W||_F <= R, from R and N alone.

Two sets of them: the paper's (polyprox.md section 5), and sharper ones that use the zero diagonal. All are exact
rationals for rational R, so a caller rounds once.

**Theorem (zero diagonal).** Let B >= 0 be a p x p matrix with zero diagonal and entry sum t, and x = t / N, Y = I + B / N.
Then its numerical radius is at most t / 2, and for k >= 1, l >= 0 and i != j

    (B^k)_ij <= 2 (t/2)^k,   tr B^k <= 4 (t/2)^k,   tr B^2 <= t^2 / 2,
    (Y^l - I)_ij <= 2 ((1 + x/2)^l - 1),   (Y^l)_ij and (Y^l)_ii <= g_l := max((1 + x/2)^l, 2 ((1 + x/2)^l - 1)).

*Proof.* For unit v, v^T B v = sum_{i != j} b_ij v_i v_j <= sum b_ij (v_i^2 + v_j^2) / 2 <= t / 2, as |v_i v_j| <= 1/2 for
i != j; so the numerical radius r(B), attained at a nonnegative vector, is at most t / 2, and r(B^k) <= r(B)^k (Berger;
Halmos, A Hilbert Space Problem Book, 176). For a nonnegative C the vector (e_i + e_j) / sqrt 2 gives c_ij + c_ji <= 2 r(C)
and e_i gives c_ii <= r(C): the entry bounds of B^k. tr B^k = sum_{i != j} b_ij (B^(k-1))_ji <= t 2 (t/2)^(k-1). tr B^2 =
sum_{i<j} 2 b_ij b_ji <= sum_{i<j} (b_ij + b_ji)^2 / 2 <= t^2 / 2. Expand Y^l; Y^l = I + (Y^l - I) has r <= (1 + x/2)^l. QED

With B = W * W, t <= R^2, D a unit direction, E = |W * D| (zero diagonal, entry sum at most R by Cauchy-Schwarz):

    h           = sum_{k >= 2} C(N, k) N^-k tr B^k            <= c_h
    ||grad h||  = ||2 W * (Y^(N-1))^T||                      <= 2 R 2 ((1 + x/2)^(N-1) - 1) = c_H
    <D, h'' D>  = 2 sum D_ij^2 (Y^(N-1))_ji + (4/N) sum_l sum E E Y^l Y^(N-2-l)
                                                              <= 4 ((1 + x/2)^(N-1) - 1) + (4/N) R^2 sum_l g_l g_(N-2-l) = L_H
    |h''' D^3|                                                <= (12/N) R sum_l g_l g_(N-2-l)
                                                                 + (16/N^2) R^3 sum_{a+b+c = N-3} g_a g_b g_c = T_H

The third derivative of tr Y^N along W + s D is 3 tr(dY d^2Y ..) + tr(dY dY dY ..) with dY = 2 W * D / N, d^2Y = 2 D * D / N,
whose entry sums are at most 2 R / N and 2 / N: N sum_l of the first kind three times, 2 N sum_{a+b+c} of the second. A
symmetric trilinear form has its norm on the diagonal (Banach 1938), so T_H bounds the Lipschitz constant of h''.
The paper's values are the same sums with (1 + x)^l for g_l and for the off-diagonal factor 1 + (1 + x)^l - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb


@dataclass(frozen=True)
class Constants:
    """On ||W||_F <= R: h <= c_h, ||H||_F <= c_H, ||h''|| <= L_H, and h'' is T_H-Lipschitz. Exact rationals."""

    c_h: Fraction
    c_H: Fraction
    L_H: Fraction
    T_H: Fraction


def published(R: Fraction, N: int) -> Constants:
    """The paper's constants. R >= 0; N a power of two."""
    x = R * R / N
    a = (1 + x) ** (N - 1) - 1
    b = Fraction(N - 1, N) * (1 + x) ** max(N - 2, 0)
    d = Fraction(0) if N <= 2 else Fraction((N - 1) * (N - 2), N * N) * (1 + x) ** (N - 3)
    return Constants(
        c_h=(1 + x) ** N - 1 - R * R,
        c_H=2 * R * a,
        L_H=2 * a + 4 * R * R * b,
        T_H=12 * R * b + 8 * R**3 * d,
    )


def zero_diagonal(R: Fraction, N: int) -> Constants:
    """The constants of the theorem above; never larger than the published ones (both are valid, the smaller is taken)."""
    half = R * R / (2 * N)
    powers = [(1 + half) ** k for k in range(N)]
    g = [max(power, 2 * (power - 1)) for power in powers]
    off = 2 * (powers[N - 1] - 1)  # off-diagonal entries of Y^(N-1)
    pairs = sum((g[k] * g[N - 2 - k] for k in range(N - 1)), Fraction(0))
    convolved = [sum((g[i] * g[k - i] for i in range(k + 1)), Fraction(0)) for k in range(max(N - 2, 0))]
    triples = sum((convolved[k] * g[N - 3 - k] for k in range(N - 2)), Fraction(0))
    # tr B^k <= min(4 (t/2)^k, t^k): the second is the paper's
    t = R * R
    cycles = [Fraction(comb(N, k), N**k) * min(4 * (t / 2) ** k, t**k) for k in range(3, N + 1)]
    two_cycles = Fraction(comb(N, 2), N * N) * t * t / 2
    sharp = Constants(
        c_h=sum(cycles, two_cycles),
        c_H=2 * R * off,
        L_H=2 * off + Fraction(4, N) * t * pairs,
        T_H=Fraction(12, N) * R * pairs + Fraction(16, N * N) * R**3 * triples,
    )
    paper = published(R, N)
    return Constants(*(min(getattr(sharp, name), getattr(paper, name)) for name in ("c_h", "c_H", "L_H", "T_H")))
