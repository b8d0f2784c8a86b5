"""Instances of the star graph with two paths of three nodes: ten tokens, one of 24 edge orders, one of 30240 labelings.

The nodes are star, v, end, v', end', here 0 to 4; the edges (star, v), (v, end), (star, v'), (v', end'). An instance writes the
four edges as pairs of tokens in some order, then end, then star (arXiv 2604.11912, Section 5.1). The target is the path
(v, end): v is what the first step has to find.

**Theorem (labels).** Let the content weights be a I + b 1 1^T and let P be a permutation of the labels. Then
replacing the tokens Z by Z P leaves the attention matrices as they are and turns f into f P: decoding is right for
one labeling of an edge order if and only if it is for every one. *Proof.* Z P (a I + b 1 1^T) P^T Z^T = Z (a I + b 1
1^T) Z^T, and f is a row times Z P. QED So 24 orders decide all 24 * 10!/5! = 725,760 instances.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

STAR, V, END, OTHER_V, OTHER_END = range(5)
EDGES = ((STAR, V), (V, END), (STAR, OTHER_V), (OTHER_V, OTHER_END))
#: Positions T (tokens) and labels N; both are 10 in the paper.
T = N = 10
LABELINGS = 30240
ORDERS = tuple(permutations(range(4)))

Order = tuple[int, ...]


def tokens(order: Order) -> tuple[int, ...]:
    """The ten tokens of an instance whose edges stand in this order."""
    return (*(node for k in order for node in EDGES[k]), END, STAR)


def second_tokens(order: Order) -> tuple[int, ...]:
    """The context of the second step: the same with v, the first step's answer, as the last token."""
    return (*tokens(order)[:-1], V)


def end_position(order: Order) -> int:
    """Where the end node stands among the edges, counted from 0: it is the second token of its edge."""
    return 2 * order.index(1) + 1


def one_hot(nodes: tuple[int, ...]) -> NDArray[np.int64]:
    """Z, a row for each token (T, N), of the labeling that is the identity."""
    return np.eye(N, dtype=np.int64)[list(nodes)]


class Law:
    """Edge orders with their probabilities.

    Attributes
    ----------
    orders : distinct, those of probability 0 left out.
    weights : positive integers; the probability of order k is weights[k] / total.
    """

    def __init__(self, orders: tuple[Order, ...], weights: tuple[int, ...]) -> None:
        self.orders, self.weights, self.total = orders, weights, sum(weights)

    def mean(self, values: list[Fraction]) -> Fraction:
        """The mean of one number per order."""
        return sum((w * x for w, x in zip(self.weights, values, strict=True)), Fraction(0)) / self.total


UNIFORM = Law(ORDERS, (1,) * 24)
#: The law under which (star, v) is written before (v, end).
FORWARD = Law(tuple(x for x in ORDERS if x.index(0) < x.index(1)), (1,) * 12)
