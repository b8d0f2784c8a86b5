"""The sweep's own rounding: magnitudes of adjoints are upper bounds where binary64 loses part of them, every term counted."""

from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic import BINARY64
from certify.graph import trace
from certify.rounding import Region, adjoint
from certify.rounding.sweep import _Group, products

MANY = 20_000
TINY = 2.0**-54  # 1 + TINY is 1 in binary64


def downward(count: int) -> list[float]:
    """Factors whose product, from the last to the first, binary64 rounds down every time, by a third of an ulp or more."""
    rng, product, factors = np.random.default_rng(3), 1.0, []
    while len(factors) < count:
        factor = 1.0 + float(rng.random()) * 2.0**-20
        lost = Fraction(product) * Fraction(factor) - Fraction(product * factor)
        if not factors or lost * 3 > Fraction(2) ** -52:  # the first is exact
            product *= factor
            factors.append(factor)
    return factors[::-1]


def size_of(kernel, inputs, exact):
    """Of the first input entry: the magnitude that the sweep counts with, beside the exact adjoint of the only result."""
    graph = trace(kernel, inputs, order="serial")
    found = adjoint(graph, BINARY64, Region(inputs, inputs, representable=True))
    assert found.sweep is not None
    (node,) = graph.outputs["0"].ids.ravel()
    ((_, _, sizes),) = found.sweep.blocks(np.array([node], dtype=np.int32))
    return Fraction(float(sizes[0, 0])), exact


def chain(x, c):
    """x c_0 c_1 ..."""
    for k in range(len(c)):
        x = x * c[k]
    return x


def steps(x, c):
    """The sum of x c_k, each product and addition an instruction of its own, the last the first to be seen backward."""
    y = x * c[-1]
    for k in range(len(c) - 2, -1, -1):
        y = y + x * c[k]
    return y


def test_products_are_rounded_down_and_covered():
    """400 factors, a third of an ulp lost at each."""
    c = np.array(downward(400))
    exact = Fraction(1)
    for factor in c.tolist():
        exact *= Fraction(factor)
    size, exact = size_of(chain, {"x": np.array(1.0), "c": c}, exact)
    assert exact <= size <= exact * (1 + Fraction(1, 2**40))


@pytest.mark.parametrize(
    ("kernel", "count"),
    [(steps, 400), (lambda x, c: np.sum(x * c), MANY), (lambda x, c: np.sum(x.reshape(1, 1) @ c.reshape(1, -1)), MANY)],
    ids=["one by one", "in one instruction", "in a matrix product"],
)
def test_sums_that_lose_their_small_terms_are_covered(kernel, count):
    """1 and many numbers that are half an ulp of it, or less."""
    c = np.full(count, TINY)
    c[0] = 1.0
    size, exact = size_of(kernel, {"x": np.array(1.0), "c": c}, 1 + (count - 1) * Fraction(TINY))
    assert exact <= size <= exact * (1 + Fraction(1, 2**30))


def test_the_last_sum_is_covered():
    """Local terms times magnitudes, over all nodes."""
    local, sizes = np.full(MANY, TINY), np.ones((MANY, 1))
    local[0] = 1.0
    assert Fraction(float(products(local, sizes)[0])) >= 1 + (MANY - 1) * Fraction(TINY)


def test_any_order_of_a_sum_in_one_instruction_is_covered(monkeypatch):
    """NumPy adds in an order of its own; left to right each of the small terms is lost."""

    def left_to_right(group, terms):
        if group.order is None:
            return terms
        ends = [*group.starts[1:], len(terms)]
        ordered = terms[group.order]
        return np.stack([np.cumsum(ordered[a:b], axis=0)[-1] for a, b in zip(group.starts, ends, strict=True)])

    monkeypatch.setattr(_Group, "total", left_to_right)
    c = np.full(MANY, TINY)
    c[0] = 1.0
    size, exact = size_of(lambda x, c: np.sum(x * c), {"x": np.array(1.0), "c": c}, 1 + (MANY - 1) * Fraction(TINY))
    assert exact <= size
