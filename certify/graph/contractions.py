"""`numpy.einsum` of one or two traced operands, by transposing, summing and multiplying matrices.

The program is that of the subscripts: for every element of the result one sum, over all summed indices, of products. With
two operands and a summed index it is a DOT, whose order is open. Along an index that one operand lacks, or along which its
stride is 0, NumPy's inner loops multiply with the sum of the other: such sums are refused.
"""

from __future__ import annotations

from math import prod
from string import ascii_letters
from typing import Any

import numpy as np

from certify.errors import TraceRefused
from certify.graph.elementwise import multiply
from certify.graph.places import here
from certify.graph.reductions import matmul, total
from certify.graph.signatures import as_array
from certify.graph.traced import KNOWN, Traced, as_traced, promoted

_REMEDY = 'use one or two operands and subscripts such as "ij,jk->ik", without an ellipsis and without options'


def einsum(subscripts: Any, *operands: Any, **options: Any) -> Traced:
    """As `numpy.einsum(subscripts, a)` or `numpy.einsum(subscripts, a, b)`."""
    if not isinstance(subscripts, str) or "." in subscripts or options or not 1 <= len(operands) <= 2:
        raise _refused("an einsum of another form")
    with promoted([as_array(x) for x in operands]):
        return _einsum(subscripts, operands)


def _einsum(subscripts: str, operands: tuple[Any, ...]) -> Traced:
    text, arrow, result = subscripts.replace(" ", "").partition("->")
    names = text.split(",")
    assembler = next(x.assembler for x in operands if isinstance(x, Traced))
    arrays = [as_traced(assembler, x) for x in operands]
    if [len(name) for name in names] != [x.ndim for x in arrays]:
        raise _refused(f"the subscripts {subscripts!r} for {[x.ndim for x in arrays]} axes")
    if not arrow:
        result = "".join(sorted(c for c in set(text) - {","} if text.count(c) == 1))
    letters = set(text) - {","}
    if len(set(result)) < len(result) or not set(result) <= letters or not all(c in ascii_letters for c in letters):
        raise _refused(f"the subscripts {subscripts!r}")
    sizes: dict[str, int] = {}
    for name, x in zip(names, arrays, strict=True):
        for c, n in zip(name, x.shape, strict=True):
            if sizes.setdefault(c, n) != n:
                raise _refused(f"the subscripts {subscripts!r} for sizes {sizes[c]} and {n} of {c!r}")
    parts = [_without_repeats(name, x) for name, x in zip(names, arrays, strict=True)]
    if len(parts) == 1:
        return _one(*parts[0], result)
    for c in sizes:
        if c not in result and sizes[c] != 1 and any(map(_unchanging, [c, c], names, operands)):
            raise TraceRefused(
                f"the kernel sums by numpy.einsum over {c!r}, along which one operand does not change, so that numpy may sum "
                f"the other before it multiplies, at {here()}",
                "use numpy.sum: of that operand before you multiply, or of the products",
            )
    return _two(parts, result, sizes)


def _unchanging(c: str, name: str, x: Any) -> bool:
    """Whether an operand lacks an index, or may lie in memory once along it, as after broadcasting."""
    if not isinstance(x, Traced):
        return sum(n for d, n in zip(name, np.asarray(x).strides, strict=True) if d == c) == 0
    if c not in name:
        return True
    name, x = _without_repeats(name, x)
    ids, known = (np.moveaxis(part, name.index(c), 0) for part in (x.ids, x.known))
    return bool((ids == ids[:1]).all() and (known == known[:1]).all() and ((ids != KNOWN).any() or known.any()))


def _without_repeats(name: str, x: Traced) -> tuple[str, Traced]:
    """The operand with every index once: of a repeated one the diagonal."""
    for c in dict.fromkeys(name):
        while name.count(c) > 1:
            first = name.index(c)
            second = name.index(c, first + 1)
            x = x.diagonal(0, first, second)  # the diagonal is the last axis
            name = "".join(d for k, d in enumerate(name) if k not in (first, second)) + c
    return name, x


def _one(name: str, x: Traced, result: str) -> Traced:
    summed = tuple(k for k, c in enumerate(name) if c not in result)
    left = "".join(c for c in name if c in result)
    if summed:
        x = total(x, summed)
    return x.transpose([left.index(c) for c in result])


def _two(parts: list[tuple[str, Traced]], result: str, sizes: dict[str, int]) -> Traced:
    (name_a, a), (name_b, b) = parts
    summed = [c for c in sizes if c not in result]
    if not summed:
        return multiply(_spread(name_a, a, result, None), _spread(name_b, b, result, None))
    both = [c for c in result if c in name_a and c in name_b]
    only_a, only_b = ([c for c in result if c in name and c not in both] for name in (name_a, name_b))
    left = _spread(name_a, a, [*both, *only_a, *summed], sizes)
    right = _spread(name_b, b, [*both, *summed, *only_b], sizes)
    count = [prod(sizes[c] for c in group) for group in (both, only_a, summed, only_b)]
    product = matmul(
        left.reshape(count[0], count[1], count[2]),
        right.reshape(count[0], count[2], count[3]),
    )
    order = [*both, *only_a, *only_b]
    return product.reshape([sizes[c] for c in order]).transpose([order.index(c) for c in result])


def _spread(name: str, x: Traced, order: Any, sizes: dict[str, int] | None) -> Traced:
    """`x` with its indices in the given order; those it lacks have length 1, or repeat if `sizes` are given."""
    present = [c for c in order if c in name]
    x = x.transpose([name.index(c) for c in present])
    x = x.reshape([x.shape[present.index(c)] if c in name else 1 for c in order])
    if sizes is None:
        return x
    shape = tuple(sizes[c] for c in order)
    return x.moved(lambda array: np.broadcast_to(array, shape))


def _refused(what: str) -> TraceRefused:
    return TraceRefused(f"the kernel uses {what} at {here()}", _REMEDY)
