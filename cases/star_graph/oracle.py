"""The model as the paper defines it, on the residual stream, in balls: the reference that shares no step with the array code.

    X0 = [Z, I] (T, N + T);   attn(X; W) = softmax(MASK(X W X^T)) X;   X1 = [X0, attn(X0; W^(1))],   X2 = [X1, attn(X1; W^(2))]

W^(1) is block diagonal (content, position). W^(2) (2N + 2T wide) has such a block at (new half, old half) and zeros
elsewhere: the query is layer 1's output, the key the original token, as the text says. f2 and f1 are the content
blocks that layer 1 and layer 2 write at position T; that of f1 is the image of layer 1's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from flint import arb, arb_mat

from .circuit import ball
from .instances import N, T

Weights = Sequence[Sequence[Fraction]]


def blocks(content: Weights, position: Weights) -> arb_mat:
    """The block-diagonal matrix of a layer's content and position weights."""
    W = arb_mat(N + T, N + T)
    for i in range(N):
        for j in range(N):
            W[i, j] = ball(content[i][j])
    for i in range(T):
        for j in range(T):
            W[N + i, N + j] = ball(position[i][j])
    return W


def attention(X: arb_mat, W: arb_mat) -> arb_mat:
    """softmax(MASK(X W X^T)), causal (T, T)."""
    A, S = X * W * X.transpose(), arb_mat(T, T)
    for t in range(T):
        powers = [A[t, j].exp() for j in range(t + 1)]
        total = sum(powers, arb(0))
        for j, power in enumerate(powers):
            S[t, j] = power / total
    return S


def beside(left: arb_mat, right: arb_mat) -> arb_mat:
    """[left, right]."""
    rows = [[*a, *b] for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    return arb_mat(rows)


def stream(nodes: Sequence[int], first: arb_mat, second: arb_mat) -> tuple[list[arb], list[arb]]:
    """f1 and f2 (N,) by the residual stream, with the weights of both layers from `blocks`."""
    d = N + T
    X0 = arb_mat([[int(g == k) for k in range(N)] + [int(t == k) for k in range(T)] for t, g in enumerate(nodes)])
    X1 = beside(X0, attention(X0, first) * X0)
    W = arb_mat(2 * d, 2 * d)
    for i in range(d):
        for j in range(d):
            W[d + i, j] = second[i, j]
    X2 = beside(X1, attention(X1, W) * X1)
    # X2 = [X0, S1 X0, S2 X0, S2 S1 X0]: content blocks start at 0, d, 2 d and 3 d
    return [X2[T - 1, 3 * d + k] for k in range(N)], [X2[T - 1, d + k] for k in range(N)]


def factorised(nodes: Sequence[int], weights: Sequence[Weights]) -> tuple[list[arb], list[arb]]:
    """f1 and f2 (N,) by Lemma 1, from the content and position weights of layers 1 and 2, entry by entry."""
    content_1, position_1, content_2, position_2 = weights
    S1 = []
    for t in range(T):
        powers = [ball(content_1[nodes[t]][nodes[j]] + position_1[t][j]).exp() for j in range(t + 1)]
        total = sum(powers, arb(0))
        S1.append([power / total for power in powers])
    logits = [
        sum((s * ball(content_2[nodes[i]][nodes[j]] + position_2[i][j]) for i, s in enumerate(S1[T - 1])), arb(0))
        for j in range(T)
    ]
    powers = [x.exp() for x in logits]
    total = sum(powers, arb(0))
    values = [[sum((s for s, g in zip(row, nodes, strict=False) if g == k), arb(0)) for k in range(N)] for row in S1]
    deep = [sum((p * row[k] for p, row in zip(powers, values, strict=True)), arb(0)) / total for k in range(N)]
    return deep, values[T - 1]
