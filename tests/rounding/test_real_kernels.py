"""NumPy's own matrix products (OpenBLAS, whose order is its own) and sums stay within `any-order`."""

from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic import BINARY32, BINARY64
from certify.graph import trace
from certify.rounding import Bounds, point, running

DTYPES = {"float32": (np.float32, BINARY32), "float64": (np.float64, BINARY64)}


def _bounds(shape, A, B, format, order):
    p, k, q = shape
    graph = trace(lambda A, B: A @ B, {"A": np.ones((p, k)), "B": np.ones((k, q))}, order=order)
    return running(graph, format, point({"A": A.astype(np.float64), "B": B.astype(np.float64)}))


def _excess(result, A, B, bounds: Bounds):
    """The largest |result - A B| / bound over the entries, exactly compared; > 1 is a violation."""
    errors = bounds.error_of("0")
    left = [[Fraction(float(x)) for x in row] for row in A]
    right = [[Fraction(float(x)) for x in column] for column in B.T]
    worst = Fraction(0)
    for i, row in enumerate(left):
        for j, column in enumerate(right):
            exact = sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0))
            off = abs(Fraction(float(result[i, j])) - exact)
            if off:
                worst = max(worst, off / Fraction(float(errors[i, j])))
    return float(worst)


def _state(rng, shape, dtype, kind):
    p, k, q = shape
    A, B = rng.standard_normal((p, k)).astype(dtype), rng.standard_normal((k, q)).astype(dtype)
    if kind == "cancelling" and k > 1:
        half = k // 2
        A[:, half : 2 * half], B[half : 2 * half] = A[:, :half], -B[:half]
        A[:, 0] += dtype(1e-3)
    if kind == "positive":
        A, B = np.abs(A), np.abs(B)
    return A, B


@pytest.mark.parametrize("kind", ["normal", "positive", "cancelling"])
@pytest.mark.parametrize("name", DTYPES)
def test_blas_stays_within_any_order(name, kind):
    """Matrix, matrix-vector and dot products of random sizes: no entry leaves its bound."""
    dtype, format = DTYPES[name]
    rng = np.random.default_rng(17)
    shapes = [(1, int(rng.integers(1, 300)), 1) for _ in range(15)]
    shapes += [tuple(int(n) for n in rng.integers(1, 24, 3)) for _ in range(15)] + [(5, 200, 1), (3, 128, 7)]
    for shape in shapes:
        A, B = _state(rng, shape, dtype, kind)
        bounds = _bounds(shape, A, B, format, "any-order")
        assert bounds.first_overflow() is None
        for result in (A @ B, np.array([[np.dot(a, b) for b in B.T] for a in A]), np.einsum("ik,kj->ij", A, B)):
            assert result.dtype == dtype
            assert _excess(result, A, B, bounds) <= 1, (shape, kind)


def test_sums_of_numpy_stay_within_any_order():
    """numpy.sum adds pairwise in blocks of its own: contiguous, strided and along the first axis."""
    rng = np.random.default_rng(18)
    graph = trace(lambda x: np.sum(x), {"x": np.ones(1000)}, order="any-order")
    for _ in range(20):
        x = rng.standard_normal(1000).astype(np.float32)
        error = float(running(graph, BINARY32, point({"x": x.astype(np.float64)})).error_of("0"))
        exact = sum((Fraction(float(v)) for v in x), Fraction(0))
        for computed in (x.sum(), x.repeat(2)[::2].sum(), np.repeat(x[:, None], 2, axis=1).sum(axis=0)[0]):
            assert abs(Fraction(float(computed)) - exact) <= error
