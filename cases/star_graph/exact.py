"""What is rational: every attention weight where the weights are zero or where attention is one-hot. All in Fractions.

Layer 1 has Toeplitz position weights w(i - j) here, as in Theorems 2 and 3 of the paper; derivatives are at w = 0 and with all
other weights 0. Rows of S1 are then uniform, and S2[T] is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from .instances import END, Law, N, Order, T, V, end_position, second_tokens, tokens

Matrix = list[list[Fraction]]
#: Offsets i - j of the Toeplitz weights that have a gradient in every term: the predecessor, then the context.
OFFSETS = range(1, T)


def indicator(nodes: Sequence[int], node: int) -> list[int]:
    """u: where the tokens are `node`."""
    return [int(g == node) for g in nodes]


def mean_output(u: Sequence[int]) -> Fraction:
    """mu: what uniform attention in both layers gives to the tokens of u."""
    return sum((Fraction(sum(u[: r + 1]), r + 1) for r in range(T)), Fraction(0)) / T


def mean_slope(u: Sequence[int], k: int) -> Fraction:
    """d mu / d w(k): row r moves by (u[r - k] - mean of u up to r) / r, J(s) of a uniform s."""
    rows = [(Fraction(u[r - k]) - Fraction(sum(u[: r + 1]), r + 1)) / (r + 1) for r in range(k, T)]
    return sum(rows, Fraction(0)) / T


def deep_slope(nodes: Sequence[int], target: int, k: int) -> Fraction:
    """d (-log f1[target]) / d w(k). Layer 2 is zero, so that w reaches f1 through the values alone."""
    u = indicator(nodes, target)
    return -mean_slope(u, k) / mean_output(u)


def shallow_slope(order: Order, k: int) -> Fraction:
    """d L2 / d w(k), with f2 = S1[T] Z."""
    u = indicator(tokens(order), END)
    return -(Fraction(u[T - 1 - k]) - Fraction(sum(u), T)) / sum(u)


def first_slope(order: Order, k: int) -> Fraction:
    """d L1a / d w(k): the first step, whose target is v."""
    return deep_slope(tokens(order), V, k)


def second_slope(order: Order, k: int) -> Fraction:
    """d L1b / d w(k): the second step, whose target is the end."""
    return deep_slope(second_tokens(order), END, k)


def next_token_slope(order: Order, k: int) -> Fraction:
    """The same of the whole loss of next-token prediction, (L1a + L1b) / 2."""
    return (first_slope(order, k) + second_slope(order, k)) / 2


def surrogate_slope(order: Order, k: int) -> Fraction:
    """d mu / d w(k) of the first step: what the paper's argument takes the mean of."""
    return mean_slope(indicator(tokens(order), V), k)


def occurrence(law: Law, node: int) -> list[Fraction]:
    """E u_t at each position."""
    return [law.mean([Fraction(int(tokens(x)[t] == node)) for x in law.orders]) for t in range(T)]


def deep_gradient(S1: Matrix, S2: Sequence[Fraction], nodes: Sequence[int], target: int) -> Matrix:
    """dL1 / dW1 of layer 2 at given attention (T, T): -(1/f) S1[T]^T r^T, r = J(S2[T]) S1 Z e_target."""
    r = jacobian_times(
        S2, [sum((s for s, g in zip(row, nodes, strict=True) if g == target), Fraction(0)) for row in S1]
    )
    f = sum((a * b for a, b in zip(S2, [_share(row, nodes, target) for row in S1], strict=True)), Fraction(0))
    return [[-s * x / f for x in r] for s in S1[T - 1]]


def jacobian_times(s: Sequence[Fraction], u: Sequence[Fraction]) -> list[Fraction]:
    """J(s) u = s * (u - s.u)."""
    mean = sum((a * b for a, b in zip(s, u, strict=True)), Fraction(0))
    return [a * (b - mean) for a, b in zip(s, u, strict=True)]


def shift() -> Matrix:
    """S1 in the limit of large gamma: every row at its predecessor, the first at itself."""
    return [[Fraction(int(j == max(t - 1, 0))) for j in range(T)] for t in range(T)]


def second_phase_drive(law: Law) -> Matrix:
    """Minus the mean gradient of L1a with respect to the position weights of layer 2, at S1 = L and layer 2 zero (T, T)."""
    uniform = [Fraction(1, T)] * T
    each = [deep_gradient(shift(), uniform, tokens(x), V) for x in law.orders]
    return [[-law.mean([g[i][j] for g in each]) for j in range(T)] for i in range(T)]


def shallow_gradient(law: Law) -> tuple[Matrix, Matrix]:
    """The mean gradient of L2 at zero weights: position (T, T) and content (N, N) weights of layer 1.

    The labels are averaged over, which leaves of the content gradient its mean on the diagonal and off it.
    """
    position = [[Fraction(0)] * T for _ in range(T)]
    diagonal = off = Fraction(0)
    for order, weight in zip(law.orders, law.weights, strict=True):
        nodes, share = tokens(order), Fraction(weight, law.total)
        u = indicator(nodes, END)
        row = [-x * T / sum(u) for x in jacobian_times([Fraction(1, T)] * T, [Fraction(x) for x in u])]
        for j, x in enumerate(row):
            position[T - 1][j] += share * x
            if nodes[j] == nodes[T - 1]:
                diagonal += share * x / N
            else:
                off += share * x / (N * (N - 1))
    return position, [[diagonal if i == j else off for j in range(N)] for i in range(N)]


def stationary(order: Order) -> list[Matrix]:
    """All gradients of L2 and L1a at the one-hot attention of Theorem 1, with respect to the logits of both layers.

    dL2/dA1, dL1a/dA2 as the position weights see it, and dL1a/dA1: value path, and query path with A2 = Z Z^T - E[T-1, T-1].
    """
    nodes, S1, end = tokens(order), shift(), end_position(order)
    s2 = [Fraction(int(j == end)) for j in range(T)]
    u_end, u_v = ([Fraction(x) for x in indicator(nodes, g)] for g in (END, V))
    zero = [[Fraction(0)] * T for _ in range(T)]
    shallow = [*zero[:-1], [-x for x in jacobian_times(S1[T - 1], u_end)]]
    deep = deep_gradient(S1, s2, nodes, V)
    r = jacobian_times(s2, [_share(row, nodes, V) for row in S1])
    A2 = [[Fraction(int(nodes[i] == nodes[j]) - int(i == j == T - 2)) for j in range(T)] for i in range(T)]
    arriving = [[s2[t] * x for x in u_v] for t in range(T)]
    arriving[T - 1] = [
        x + sum((a * b for a, b in zip(A2[j], r, strict=True)), Fraction(0)) for j, x in enumerate(arriving[T - 1])
    ]
    first = [[-x for x in jacobian_times(S1[t], arriving[t])] for t in range(T)]
    return [shallow, deep, first]


def _share(row: Sequence[Fraction], nodes: Sequence[int], target: int) -> Fraction:
    return sum((s for s, g in zip(row, nodes, strict=True) if g == target), Fraction(0))
