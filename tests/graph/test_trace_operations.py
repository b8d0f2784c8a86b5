"""Every NumPy operation a kernel may use: the graph in binary64 returns the bits of the same kernel on NumPy arrays."""

import numpy as np
import pytest

from certify.arithmetic import BINARY64, Ieee
from certify.graph import evaluate, output, trace

RNG = np.random.default_rng(20)
A, B = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
V, S = RNG.standard_normal(4), np.array(1.7)
INPUTS = {"a": A, "b": B, "v": V, "s": S}
MASK = np.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 1, 1]], dtype=bool)


def _evaluated(kernel, inputs=INPUTS):
    """The first output of the traced kernel, in binary64 and serial order."""
    ieee = Ieee(BINARY64)
    graph = trace(kernel, inputs, order="serial")
    floats = {b.name: np.asarray(inputs[b.name], dtype=np.float64) for b in graph.inputs}
    return output(graph, ieee, evaluate(graph, ieee, floats), "0")


ELEMENTWISE = {
    "add": lambda a, b, v, s: a + b,
    "broadcast a vector": lambda a, b, v, s: a + v,
    "broadcast a scalar": lambda a, b, v, s: s - a,
    "broadcast both": lambda a, b, v, s: v[:, None] * v,
    "subtract": lambda a, b, v, s: a - b,
    "multiply": lambda a, b, v, s: a * b,
    "negative": lambda a, b, v, s: -a,
    "positive": lambda a, b, v, s: +a,
    "square": lambda a, b, v, s: np.square(a),
    "power of 2": lambda a, b, v, s: a**2,
    "divide by a power of two": lambda a, b, v, s: a / 8,
    "divide by powers of two": lambda a, b, v, s: a / np.array([2.0, -4.0, 0.5, 1.0]),
    "multiply by a power of two": lambda a, b, v, s: -0.25 * a,
    "multiply by constants": lambda a, b, v, s: np.array([0.1, 2.0, -1.0, 0.0]) * a,
    "add a constant": lambda a, b, v, s: a + 0.1,
    "subtract from a constant": lambda a, b, v, s: 3 - a,
    "integer constants": lambda a, b, v, s: a * np.arange(4) + 7,
    "relu": lambda a, b, v, s: np.maximum(a, 0),
    "relu from the left": lambda a, b, v, s: np.maximum(np.zeros(4), a),
    "overwrite": lambda a, b, v, s: a + (b - a),
    "overwrite from the right": lambda a, b, v, s: (b - a) + a,
    "numpy functions": lambda a, b, v, s: np.add(a, np.subtract(b, np.multiply(a, b))),
    "soft threshold": lambda a, b, v, s: np.maximum(a - 0.3, 0) - np.maximum(-a - 0.3, 0),
    "mask with integers": lambda a, b, v, s: MASK.astype(int) * (a - b),
    "where": lambda a, b, v, s: np.where(MASK, a, b),
    "where with a number": lambda a, b, v, s: np.where(MASK, a, 0.3) * b,
}
REARRANGED = {
    "transpose": lambda a, b, v, s: a.T,
    "transpose by function": lambda a, b, v, s: np.transpose(a),
    "transpose by axes": lambda a, b, v, s: a.transpose(1, 0),
    "index": lambda a, b, v, s: a[1],
    "slice": lambda a, b, v, s: a[::-1, 1:3],
    "fancy index": lambda a, b, v, s: a[:, [2, 0, 2]],
    "mask index": lambda a, b, v, s: a[MASK],
    "new axis": lambda a, b, v, s: v[None, :, None],
    "reshape": lambda a, b, v, s: a.reshape(2, -1),
    "reshape by function": lambda a, b, v, s: np.reshape(a, (4, 3)),
    "ravel": lambda a, b, v, s: a.ravel(),
    "ravel by function": lambda a, b, v, s: np.ravel(a),
    "copy": lambda a, b, v, s: a.copy(),
    "diagonal": lambda a, b, v, s: a.diagonal(),
    "diagonal by function": lambda a, b, v, s: np.diagonal(a, 1),
    "diag of a matrix": lambda a, b, v, s: np.diag(a),
    "diag of a vector": lambda a, b, v, s: np.diag(v),
    "diag off the middle": lambda a, b, v, s: np.diag(v, -1),
    "tril": lambda a, b, v, s: np.tril(a),
    "triu": lambda a, b, v, s: np.triu(a, 1),
    "broadcast_to": lambda a, b, v, s: np.broadcast_to(v, (2, 4)),
    "expand_dims": lambda a, b, v, s: np.expand_dims(a, 1),
    "squeeze": lambda a, b, v, s: np.squeeze(a[None]),
    "moveaxis": lambda a, b, v, s: np.moveaxis(a[None], 0, 2),
    "swapaxes": lambda a, b, v, s: np.swapaxes(a, 0, 1),
    "repeat": lambda a, b, v, s: np.repeat(a, 2, axis=0),
    "tile": lambda a, b, v, s: np.tile(v, (2, 2)),
    "flip": lambda a, b, v, s: np.flip(a, axis=1),
    "roll": lambda a, b, v, s: np.roll(a, 1, axis=1),
    "concatenate": lambda a, b, v, s: np.concatenate([a, b], axis=1),
    "stack": lambda a, b, v, s: np.stack([a, b], axis=-1),
    "vstack with numbers": lambda a, b, v, s: np.vstack([a, np.eye(4)]),
    "hstack": lambda a, b, v, s: np.hstack([v, v]),
    "rows": lambda a, b, v, s: np.stack([row * 2 for row in a]),
    "zeros_like": lambda a, b, v, s: a * 1 + np.zeros_like(a),
}


@pytest.mark.parametrize("kernel", (ELEMENTWISE | REARRANGED).values(), ids=(ELEMENTWISE | REARRANGED).keys())
def test_elementwise_operations_and_rearrangements_return_numpys_bits(kernel):
    """Equal to the kernel on NumPy arrays, entry for entry and in shape."""
    expected = kernel(**INPUTS)
    result = _evaluated(kernel)
    assert result.shape == expected.shape
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("name", [name for name in REARRANGED if name != "rows"])
def test_rearrangements_make_no_node(name):
    """Selecting, repeating and filling in zeros is no operation."""
    assert len(trace(REARRANGED[name], INPUTS)) == 0


def _serial(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _serial_product(x, y):
    return _serial([x[..., k, None] * y[k] for k in range(len(y))])


M, N = RNG.standard_normal((3, 5)), RNG.standard_normal((5, 2))
U, W = RNG.standard_normal(5), RNG.standard_normal(5)
Q = RNG.standard_normal((5, 5))
REDUCTIONS = {
    "sum": (lambda m: np.sum(m), _serial(M.ravel())),
    "sum method": (lambda m: m.sum(), _serial(M.ravel())),
    "sum over rows": (lambda m: np.sum(m, axis=0), _serial(M)),
    "sum over columns": (lambda m: m.sum(axis=1), _serial(M.T)),
    "sum over the last axis": (lambda m: np.sum(m, axis=-1), _serial(M.T)),
    "sum keeping axes": (lambda m: m.sum(axis=1, keepdims=True), _serial(M.T)[:, None]),
    "sum over two axes": (lambda m: np.sum(m[None], axis=(0, 2)), _serial(M.T)),
    "add.reduce": (lambda m: np.add.reduce(m, axis=1), _serial(M.T)),
    "Python's sum": (lambda m: sum(m), _serial(M)),
    "trace": (lambda q: np.trace(q), _serial(np.diagonal(Q))),
    "trace method": (lambda q: q.trace(), _serial(np.diagonal(Q))),
    "matrix product": (lambda m, n: m @ n, _serial([M[:, k, None] * N[k] for k in range(5)])),
    "matmul": (lambda m, n: np.matmul(m, n), _serial([M[:, k, None] * N[k] for k in range(5)])),
    "matrix times vector": (lambda m, u: m @ u, _serial([M[:, k] * U[k] for k in range(5)])),
    "vector times matrix": (lambda u, n: u @ n, _serial([U[k] * N[k] for k in range(5)])),
    "inner product": (lambda u, w: u @ w, _serial([U[k] * W[k] for k in range(5)])),
    "dot": (lambda u, w: np.dot(u, w), _serial([U[k] * W[k] for k in range(5)])),
    "dot with a scalar": (lambda u: np.dot(u, 0.3), U * 0.3),
    "known matrix from the left": (lambda u: Q @ u, _serial([Q[:, k] * U[k] for k in range(5)])),
    "known matrix from the right": (lambda u: u @ Q, _serial([U[k] * Q[k] for k in range(5)])),
    "selection matrix": (lambda n: np.eye(5)[[3, 1]] @ n, N[[3, 1]]),
    "matrix power": (lambda q: q @ q @ q, _serial_product(_serial_product(Q, Q), Q)),
}
ARRAYS = {"m": M, "n": N, "u": U, "w": W, "q": Q}


@pytest.mark.parametrize(("kernel", "expected"), REDUCTIONS.values(), ids=REDUCTIONS.keys())
def test_sums_run_left_to_right(kernel, expected):
    """Equal, to the bit, to an explicit loop over the terms in index order."""
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    inputs = {name: ARRAYS[name] for name in names}
    result = _evaluated(kernel, inputs)
    assert result.shape == np.shape(expected)
    assert np.array_equal(result, expected)


def test_several_outputs_keep_their_names():
    """Tuples are numbered, dicts named; numbers of the kernel are outputs too."""
    graph = trace(lambda x: (x, 2.5), {"x": 1.0})
    assert list(graph.outputs) == ["0", "1"] and graph.outputs["1"].known == 2.5
    assert list(trace(lambda x: {"first": x, "second": x * x}, {"x": 1.0}).outputs) == ["first", "second"]


def test_known_inputs_reach_the_kernel_as_they_are():
    """Integers, booleans and integer arrays are constants of the program; the kernel may branch on them."""

    def kernel(x, n, flags):
        return x * n if n > 2 and flags[0] else x

    graph = trace(kernel, {"x": np.ones(2), "n": 3, "flags": np.array([True, False])})
    assert [block.name for block in graph.inputs] == ["x"]
    assert graph.n_operations == 2


def test_shapes_can_be_asked_for():
    """Shape, ndim, size, len and dtype are those of the array that the kernel would get."""

    def kernel(a):
        assert (a.shape, a.ndim, a.size, len(a), a.dtype.kind) == ((3, 4), 2, 12, 3, "f")
        return a

    assert kernel(A) is A
    trace(kernel, {"a": A})


def test_only_arrays_with_axes_can_be_iterated():
    """As NumPy's: a kernel may ask."""

    def kernel(a):
        assert np.iterable(a) and not np.iterable(a[0, 0])
        assert not hasattr(a, "detach")
        return a

    assert kernel(A) is A
    trace(kernel, {"a": A})
