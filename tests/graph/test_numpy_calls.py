"""Every entry of the tables, called in every way NumPy allows: the traced program computes what NumPy does, or is refused."""

import inspect

import numpy as np
import pytest

from certify.arithmetic import BINARY64, Ieee
from certify.errors import TraceRefused
from certify.graph import evaluate, output, trace
from certify.graph.traced import FUNCTIONS, REDUCTIONS, UFUNCS, Traced

RNG = np.random.default_rng(5)
INPUTS = {
    "x": RNG.integers(-4, 5, (2, 3, 4)).astype(float),
    "y": RNG.integers(1, 5, (2, 4, 3)).astype(float),
    "q": RNG.integers(1, 9, (3, 3)).astype(float),
    "v": RNG.integers(1, 5, 4).astype(float),
    "s": np.array(3.0),
}
ROW = np.array([True, False, True, True])


def invalid(kernel):
    """A kernel that NumPy itself raises for."""
    kernel.invalid = True
    return kernel


REDUCED = [
    lambda f, x, y, q, v, s: (f(x), f(x, 0), f(x, -1), f(x, (0, 2)), f(x, (-1, -3)), f(x, None)),
    lambda f, x, y, q, v, s: (f(x, axis=1), f(x, axis=()), f(x, axis=(1,)), f(x, np.int64(1)), f(s, None), f(v[:1])),
    lambda f, x, y, q, v, s: (f(x, axis=1, keepdims=True), f(x, keepdims=True), f(x, (0, 1), keepdims=1)),
    invalid(lambda f, x, y, q, v, s: f(x, keepdims=np.True_)),
    lambda f, x, y, q, v, s: (f(x, out=None), f(x.T, 0), f(x[:, ::-1, ::2], 1), f(x[:, :0], 2)),
    invalid(lambda f, x, y, q, v, s: f(x, 3)),
    invalid(lambda f, x, y, q, v, s: f(x, -4)),
    invalid(lambda f, x, y, q, v, s: f(x, (0, 0))),
    invalid(lambda f, x, y, q, v, s: f(x, (0, -3))),
    invalid(lambda f, x, y, q, v, s: f(x, 1.0)),
    invalid(lambda f, x, y, q, v, s: f(x, [0, 1])),
    invalid(lambda f, x, y, q, v, s: f(x, "0")),
    invalid(lambda f, x, y, q, v, s: f(x, keepdims="yes")),
    invalid(lambda f, x, y, q, v, s: f()),
    invalid(lambda f, x, y, q, v, s: f(x, other=1)),
]
EXTREME = [*REDUCED, invalid(lambda f, x, y, q, v, s: f(x[:, :0], 1)), invalid(lambda f, x, y, q, v, s: f(x[:0]))]
EMPTY = [
    lambda f, x, y, q, v, s: (f(x, 0, None, None, True), f(x[:, :0], 1), f(x[:0]), f(x[:0], axis=(0, 1), keepdims=True))
]
SPREAD = [
    lambda f, x, y, q, v, s: (f(x, ddof=1), f(x, 1, ddof=2), f(x, (0, 2), None, None, 3), f(x, ddof=-2)),
    lambda f, x, y, q, v, s: (f(x, 0, None, None, 1, True), f(x, ddof=np.int8(1))),
    invalid(lambda f, x, y, q, v, s: f(v, ddof=4)),
    invalid(lambda f, x, y, q, v, s: f(v, ddof=7)),
    invalid(lambda f, x, y, q, v, s: f(x, 1, ddof=3)),
    invalid(lambda f, x, y, q, v, s: f(s, ddof=1)),
    invalid(lambda f, x, y, q, v, s: f(x, ddof="1")),
]
UNARY = [lambda f, x, y, q, v, s: (f(y), f(y.T), f(s), f(v[:0]), f(y[0])), invalid(lambda f, x, y, q, v, s: f(y, y, y))]
BINARY = [
    lambda f, x, y, q, v, s: (f(x, v), f(v, x), f(x, 2), f(2.0, y), f(s, s), f(x, s), f(x[:, :, :3], q)),
    lambda f, x, y, q, v, s: (
        f(x, [1, 2, 3, 4]),
        f(x[:0], v),
        f(x, y.swapaxes(1, 2) if isinstance(y, np.ndarray) else y.transpose(0, 2, 1)),
    ),
    invalid(lambda f, x, y, q, v, s: f(x, q)),
    invalid(lambda f, x, y, q, v, s: f(x)),
]
COMPARED = [
    lambda f, x, y, q, v, s: (np.where(f(x, v), x, v), np.where(f(2, x), 1, x), np.where(f(x, s), s, x)),
    invalid(lambda f, x, y, q, v, s: f(x, q)),
]
JOINED = [
    lambda f, x, y, q, v, s: (f([x, x]), f((x, x + 1)), f([v, [1.0, 2.0, 3.0, 4.0]]), f([q]), f(x), f([q, np.eye(3)])),
    invalid(lambda f, x, y, q, v, s: f([])),
    invalid(lambda f, x, y, q, v, s: f(x, "axis")),
    invalid(lambda f, x, y, q, v, s: f([x, q])),
    invalid(lambda f, x, y, q, v, s: f([x, x], 0, 0, 0)),
]
ALONG = [
    lambda f, x, y, q, v, s: (f([x, x], 1), f([x, x], -1), f([x, x], axis=2), f([x, 0 * x], axis=-2)),
    invalid(lambda f, x, y, q, v, s: f([x, x], 7)),
    invalid(lambda f, x, y, q, v, s: f([x, x], 1.5)),
]
DIAGONALS = [
    lambda f, x, y, q, v, s: (f(q), f(x), f(x, 1), f(x, -1, 1, 2), f(x, 0, 2, 0), f(x, axis1=1, axis2=-1), f(x, 7)),
    invalid(lambda f, x, y, q, v, s: f(x, 0, 1, 1)),
    invalid(lambda f, x, y, q, v, s: f(x, 0, 0, 3)),
    invalid(lambda f, x, y, q, v, s: f(v)),
]
TRIANGLES = [lambda f, x, y, q, v, s: (f(q), f(x), f(x, 1), f(q, k=-1), f(m=q, k=2), f(v))]
RAVELED = [
    lambda f, x, y, q, v, s: (f(x), f(x, "F"), f(x.T, order="C"), f(s), f(x[:0])),
    invalid(lambda f, x, y, q, v, s: f(x, "X")),
]
RESHAPED = [
    lambda f, x, y, q, v, s: (
        f(x, (6, 4)),
        f(x, -1),
        f(x, (4, -1), order="F"),
        f(s, (1, 1)),
        f(v[:1], ()),
    ),
    invalid(lambda f, x, y, q, v, s: f(x, (5, 5))),
    invalid(lambda f, x, y, q, v, s: f(x, (-1, -1))),
]
PRODUCTS = [
    lambda f, x, y, q, v, s: (
        f(x, y),
        f(x, y[0]),
        f(x[0], y),
        f(x, v),
        f(v, y),
        f(x[0], y[0]),
        f(x[0], v),
        f(v, v),
        f(q, q),
    ),
    lambda f, x, y, q, v, s: (
        f(x[:0], y[0]),
        f(x[:, :, :0], y[:, :0]),
        f(q, np.eye(3)),
        f(np.eye(3), q),
        f([1, 2, 3, 4], y),
    ),
    invalid(lambda f, x, y, q, v, s: f(x, q)),
    invalid(lambda f, x, y, q, v, s: f(x, x)),
    invalid(lambda f, x, y, q, v, s: f(v, q)),
]
SAME = {
    **{f"numpy.{name}": REDUCED for name in ("sum", "mean", "var", "std")},
    **{f"numpy.{name}": EXTREME for name in ("max", "min")},
    "numpy.clip": [
        lambda f, x, y, q, v, s: (
            f(x, -1, 2),
            f(x, None, 1),
            f(x, v, None),
            f(x, 2, -2),
            f(x, a_min=0, a_max=v),
            f(x, s, 4),
        ),
        lambda f, x, y, q, v, s: (
            f(x, min=0),
            f(x, max=v),
            f(x, min=-1, max=1),
            f(x),
            f(x, None, None),
            f(np.ones(4), v, 3),
        ),
        lambda f, x, y, q, v, s: (f(x, [1, 2, 3, 4], 5), f(a=x, a_min=-1, a_max=0, out=None), f(1.5, v, 2)),
        invalid(lambda f, x, y, q, v, s: f(x, 0)),
        invalid(lambda f, x, y, q, v, s: f(x, a_max=1)),
        invalid(lambda f, x, y, q, v, s: f(x, 0, 1, min=0)),
    ],
    "numpy.linalg.norm": [
        lambda f, x, y, q, v, s: (
            f(x),
            f(q),
            f(v),
            f(s),
            f(v, 2),
            f(q, "fro"),
            f(x, keepdims=True),
            f(q, "fro", None, True),
        ),
        lambda f, x, y, q, v, s: (
            f(v, 1),
            f(v, np.inf),
            f(x, 1, 0),
            f(x, 2, -1),
            f(x, np.inf, (1,)),
            f(x, None, 1, True),
        ),
        lambda f, x, y, q, v, s: (
            f(x=v, ord=2.0),
            f(x, axis=np.int64(1)),
            f(x, 1, 2, keepdims=True),
            f(v, 1, keepdims=True),
        ),
        invalid(lambda f, x, y, q, v, s: f(v, "fro")),
        invalid(lambda f, x, y, q, v, s: f(x, "fro")),
        invalid(lambda f, x, y, q, v, s: f(x, 2)),
        invalid(lambda f, x, y, q, v, s: f(x, 2, 3)),
        invalid(lambda f, x, y, q, v, s: f(x, axis=(0, 1, 2))),
    ],
    "numpy.einsum": [
        lambda f, x, y, q, v, s: (
            f("hij,hjk->ihk", x, y),
            f("ij,jk", q, q),
            f("ij->ji", q),
            f("ii", q),
            f("iij->j", x[:, :2]),
        ),
        lambda f, x, y, q, v, s: (
            f("hij,j->hi", x, v),
            f("ii,i->i", q, q[0]),
            f("i,->i", v, s),
            f(",", s, s),
            f("B,a", v, v),
        ),
        lambda f, x, y, q, v, s: (
            f("ij,ij->", q, q),
            f("i,j->ji", v, v),
            f("ii,ij->j", q, q),
            f("ab,b", q[:, :1], v[:1]),
        ),
        lambda f, x, y, q, v, s: (
            f("i,j->j", v[:1], v),
            f("ij,jk->ik", np.ones((2, 3)), q),
            f(" i j -> j", q),
            f("i->", v),
        ),
        invalid(lambda f, x, y, q, v, s: f("ij,jk->ii", q, q)),
        invalid(lambda f, x, y, q, v, s: f("i1->i", q)),
        invalid(lambda f, x, y, q, v, s: f("ij->k", q)),
        invalid(lambda f, x, y, q, v, s: f("ij", v)),
        invalid(lambda f, x, y, q, v, s: f("i,i", v, q[0])),
        invalid(lambda f, x, y, q, v, s: f("i,j", v)),
    ],
    "numpy.outer": [
        lambda f, x, y, q, v, s: (f(v, v), f(x, q), f(s, v), f(v, 2), f([1, 2], v), f(a=v, b=q), f(q, np.ones(2)))
    ],
    "numpy.trace": DIAGONALS,
    "numpy.dot": [
        *PRODUCTS,
        lambda f, x, y, q, v, s: (f(x, 3), f(s, x), f(s, s), f(2.5, v), f(a=v, b=v), f(q, x[0]), f(y, x[0]), f(x, y.T)),
    ],
    "numpy.where": [
        lambda f, x, y, q, v, s: (
            f(ROW, x, v),
            f([1, 0, 2, 0], v, 1.5),
            f(True, x, s),
            f(x > 0, x, v),
            f(ROW[:, None], v, s),
        ),
        lambda f, x, y, q, v, s: (
            f(np.array([0.0, 2.0, 0.0, 1.0]), v, -v),
            f(v > 2, [1, 2, 3, 4], 0.5),
            f(x[:0] > 0, 1, v),
        ),
        invalid(lambda f, x, y, q, v, s: f(ROW, x)),
        invalid(lambda f, x, y, q, v, s: f(ROW, q, v)),
        invalid(lambda f, x, y, q, v, s: f(condition=ROW, x=v, y=v)),
    ],
    "numpy.zeros_like": [
        lambda f, x, y, q, v, s: (
            f(x),
            f(x, None, "C"),
            f(a=q),
            f(s),
            f(x, shape=(2, 5)),
            f(x, np.float64, "K", True, 3),
        ),
        invalid(lambda f, x, y, q, v, s: f(x, "no dtype")),
    ],
    "numpy.concatenate": [*JOINED, *ALONG, lambda f, x, y, q, v, s: (f([x, q], None), f([q, v, s], axis=None))],
    "numpy.stack": [
        *JOINED,
        *ALONG,
        lambda f, x, y, q, v, s: (f([x, x], 3), f([s, 2])),
        invalid(lambda f, x, *a: f([x], None)),
    ],
    "numpy.vstack": [*JOINED, lambda f, x, y, q, v, s: (f([v, np.eye(4)]), f(tup=[v, v]), f([s, s, 2]), f([v, x[0]]))],
    "numpy.hstack": [*JOINED, lambda f, x, y, q, v, s: (f([v, s, 1.5]), f(tup=[v, v]), f([q, q[:, :1]]))],
    "numpy.transpose": [
        lambda f, x, y, q, v, s: (f(x), f(x, (2, 0, 1)), f(x, axes=(0, -1, 1)), f(v), f(s), f(a=q)),
        invalid(lambda f, x, y, q, v, s: f(x, (0, 1))),
    ],
    "numpy.reshape": [*RESHAPED, lambda f, x, *a: f(x, (3, 8), "F")],
    "numpy.ravel": RAVELED,
    "numpy.diagonal": DIAGONALS,
    "numpy.diag": [
        lambda f, x, y, q, v, s: (f(q), f(v), f(v, 1), f(q, k=-1), f(v=v, k=-2)),
        invalid(lambda f, x, *a: f(x)),
    ],
    "numpy.tril": TRIANGLES,
    "numpy.triu": TRIANGLES,
    "numpy.broadcast_to": [
        lambda f, x, y, q, v, s: (f(v, (3, 4)), f(s, 2), f(array=q, shape=(2, 3, 3)), f(x[:, :1], (2, 5, 4), True)),
        invalid(lambda f, x, y, q, v, s: f(v, 3)),
    ],
    "numpy.expand_dims": [
        lambda f, x, y, q, v, s: (f(x, 1), f(x, -1), f(v, (0, 2)), f(a=s, axis=0)),
        invalid(lambda f, x, y, q, v, s: f(x, 5)),
    ],
    "numpy.squeeze": [
        lambda f, x, y, q, v, s: (f(x), f(x[None, :, None]), f(x[None], 0), f(x[None], axis=(0,)), f(s)),
        invalid(lambda f, x, y, q, v, s: f(x, 0)),
    ],
    "numpy.moveaxis": [
        lambda f, x, y, q, v, s: (f(x, 0, 2), f(x, -1, 0), f(x, (0, 1), (1, 2)), f(a=x, source=[0], destination=[1])),
        invalid(lambda f, x, y, q, v, s: f(x, 0, 3)),
    ],
    "numpy.swapaxes": [
        lambda f, x, y, q, v, s: (f(x, 0, 2), f(x, -1, 1), f(a=q, axis1=0, axis2=1)),
        invalid(lambda f, x, *a: f(x, 0, 3)),
    ],
    "numpy.repeat": [
        lambda f, x, y, q, v, s: (f(x, 2), f(x, 2, 1), f(x, [1, 0, 2], axis=1), f(s, 3), f(a=v, repeats=[1, 2, 0, 1])),
        invalid(lambda f, x, y, q, v, s: f(x, -1)),
        invalid(lambda f, x, y, q, v, s: f(x, [1, 2], 1)),
    ],
    "numpy.tile": [
        lambda f, x, y, q, v, s: (f(x, 2), f(v, (2, 3)), f(x, (2, 1, 1, 2)), f(A=s, reps=2)),
        invalid(lambda f, x, y, q, v, s: f([1, 2], v)),
    ],
    "numpy.flip": [
        lambda f, x, y, q, v, s: (f(x), f(x, 1), f(x, (0, -1)), f(m=v, axis=0)),
        invalid(lambda f, x, *a: f(x, 3)),
    ],
    "numpy.roll": [
        lambda f, x, y, q, v, s: (f(x, 2), f(x, -1, 2), f(x, (1, 2), (0, 1)), f(a=v, shift=5, axis=-1)),
        invalid(lambda f, x, y, q, v, s: f(x, 1, 3)),
    ],
    **{f"numpy.{name}.reduce": EXTREME for name in ("maximum", "minimum")},
    "numpy.add.reduce": [*REDUCED, *EMPTY],
    **{f"ufunc {name}": BINARY for name in ("add", "subtract", "multiply", "maximum", "minimum")},
    "ufunc divide": [lambda f, x, y, q, v, s: (f(x, v), f(v, y[0].T), f(s, 4), f(1, s), f(x, [1, 2, 4, 8])), BINARY[2]],
    "ufunc matmul": PRODUCTS,
    **{f"ufunc {name}": UNARY for name in ("absolute", "fabs", "sqrt", "exp", "log", "tanh", "reciprocal", "negative")},
    **{f"ufunc {name}": UNARY for name in ("positive", "square")},
    **{f"ufunc {name}": COMPARED for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")},
    "ufunc power": [
        lambda f, x, y, q, v, s: (f(x, 2), f(y, -1.0), f(y, 0.5), f(x, 1), f(x, 0), f(x, np.float64(2))),
        BINARY[2],
    ],
    **{f"ndarray.{name}": REDUCED for name in ("sum", "mean", "var", "std")},
    **{f"ndarray.{name}": EXTREME for name in ("max", "min")},
    "ndarray.trace": DIAGONALS,
    "ndarray.diagonal": DIAGONALS,
    "ndarray.ravel": RAVELED,
    "ndarray.reshape": [*RESHAPED, lambda f, x, *a: (f(x, 6, 4), f(x, 8, -1, order="F"))],
    "ndarray.transpose": [
        lambda f, x, y, q, v, s: (f(x), f(x, 1, 0, 2), f(x, (2, 1, 0)), f(x, None)),
        invalid(lambda f, x, *a: f(x, 0, 1)),
    ],
    "ndarray.copy": [lambda f, x, y, q, v, s: (f(x), f(x, "F"), f(s, order="K"))],
    "ndarray.dot": [
        lambda f, x, y, q, v, s: (f(x, y), f(x, v), f(v, y), f(v, v), f(s, 2), f(q, q)),
        invalid(lambda f, x, y, q, *a: f(x, q)),
    ],
    "ndarray.astype": [
        lambda f, x, y, q, v, s: (f(x, np.float64), f(x, "float64", copy=False)),
        invalid(lambda f, x, *a: f(x, "no")),
    ],
}
for name in ("numpy.max", "numpy.min", "ndarray.max", "ndarray.min"):
    SAME[name] = [*SAME[name], lambda f, x, *a: f(x, 0, None, True)]
for name in ("numpy.var", "numpy.std", "ndarray.var", "ndarray.std"):
    SAME[name] = [*SAME[name], *SPREAD]
for name in ("numpy.sum", "ndarray.sum"):
    SAME[name] = [*SAME[name], *EMPTY]

#: What NumPy computes and a graph does not.
REFUSED = {
    "numpy.sum": [lambda f, x, y, q, v, s: f(s, 0)],
    "numpy.add.reduce": [lambda f, x, y, q, v, s: f(s)],
    "numpy.var": [lambda f, x, y, q, v, s: f(v, ddof=0.5)],
    "numpy.linalg.norm": [
        lambda f, x, y, q, v, s: f(v, 3),
        lambda f, x, y, q, v, s: f(v, 0),
        lambda f, x, y, q, v, s: f(q, 2),
        lambda f, x, y, q, v, s: f(x, axis=(0, 1)),
        lambda f, x, y, q, v, s: f(v, -np.inf),
    ],
    "numpy.einsum": [
        lambda f, x, y, q, v, s: f("i,j->", v, v),
        lambda f, x, y, q, v, s: f("ij,j->", q, q[0]),
        lambda f, x, y, q, v, s: f("ij,k->kj", q, v),
        lambda f, x, y, q, v, s: f("i,->", v, s),
        lambda f, x, y, q, v, s: f("ij,j->i", q, np.broadcast_to(2.0, 3)),
        lambda f, x, y, q, v, s: f("ij,j->i", q, np.broadcast_to(s, 3)),
        lambda f, x, y, q, v, s: f("ij,ij->j", q, np.broadcast_to(q[0], (3, 3))),
        lambda f, x, y, q, v, s: f("ij,jj->i", q, np.broadcast_to(s, (3, 3))),
        lambda f, x, y, q, v, s: f("i,i", v, v[:1]),
        lambda f, x, y, q, v, s: f("i,i", v, v, optimize=True),
        lambda f, x, y, q, v, s: f(v, [0], v, [0]),
    ],
    "numpy.where": [lambda f, x, y, q, v, s: f(x, 1, 2)],
    "numpy.reshape": [lambda f, x, y, q, v, s: f(x, 24, "A"), lambda f, x, y, q, v, s: f(x, 24, copy=False)],
    "numpy.ravel": [lambda f, x, y, q, v, s: f(x, "K"), lambda f, x, y, q, v, s: f(x, order="A")],
    "ufunc power": [lambda f, x, y, q, v, s: f(x, 3), lambda f, x, y, q, v, s: f(x, 2 * np.ones(4))],
}

#: Arguments that a graph cannot hold, by the name of the parameter.
OPTIONS = {
    "dtype": np.float32,
    "out": np.zeros(3),
    "initial": 1.0,
    "where": np.array([[True], [False], [True]]),
    "mean": 0.5,
    "correction": 1,
    "casting": "unsafe",
    "device": "cpu",
    "copy": False,
}
HELD = {"numpy.zeros_like": {"dtype"}, "ndarray.astype": {"dtype", "casting", "copy"}}
METHODS = [name for name in vars(Traced) if name[0] != "_" and callable(getattr(np.ndarray, name, None))]


def _callables():
    yield from ((f"{f.__module__}.{f.__name__}", f) for f in FUNCTIONS)
    yield from ((f"numpy.{f.__name__}.reduce", f.reduce) for f in REDUCTIONS)
    yield from ((f"ufunc {f.__name__}", f) for f in UFUNCS)
    yield from ((f"ndarray.{name}", _method(name)) for name in METHODS)


def _method(name):
    return lambda a, *args, **options: getattr(a, name)(*args, **options)


CALLABLES = dict(_callables())
CASES = [(name, kernel) for name, kernels in SAME.items() for kernel in kernels]
REFUSALS = [(name, kernel) for name, kernels in REFUSED.items() for kernel in kernels]


def test_every_entry_of_the_tables_is_called_below():
    """A new entry needs its calls."""
    assert set(SAME) == set(CALLABLES)
    assert set(REFUSED) <= set(CALLABLES)


@pytest.mark.parametrize(("name", "kernel"), CASES, ids=[f"{name} {k}" for k, (name, _) in enumerate(CASES)])
def test_calls_compute_what_numpy_does(name, kernel):
    """The values of the graph in binary64, most of them exact, and their shapes; what NumPy raises for is no graph either."""

    def called(**inputs):
        return kernel(CALLABLES[name], *inputs.values())

    if hasattr(kernel, "invalid"):
        with pytest.raises((TypeError, ValueError, IndexError, RuntimeWarning)):
            called(**INPUTS)
        with pytest.raises((TraceRefused, TypeError, ValueError, IndexError)):
            trace(called, INPUTS)
        return
    expected = called(**INPUTS)
    expected = expected if isinstance(expected, tuple) else (expected,)
    graph, ieee = trace(called, INPUTS, order="serial"), Ieee(BINARY64)
    values = evaluate(graph, ieee, {key: ieee.constant(x) for key, x in INPUTS.items()})
    for result, key in zip(expected, graph.outputs, strict=True):
        ours = output(graph, ieee, values, key)
        assert ours.shape == np.shape(result)
        np.testing.assert_allclose(ours, result, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("name", "kernel"), REFUSALS, ids=[f"{name} {k}" for k, (name, _) in enumerate(REFUSALS)])
def test_what_a_graph_cannot_hold_is_refused(name, kernel):
    """Although NumPy computes it; with the line."""
    kernel(CALLABLES[name], *INPUTS.values())
    with pytest.raises(TraceRefused, match=r"at .*test_numpy_calls.py:\d+"):
        trace(lambda **inputs: kernel(CALLABLES[name], *inputs.values()), INPUTS)


@pytest.mark.parametrize(
    ("subscripts", "a", "shape"),
    [
        ("i,j->", np.full(2, 1e-10, np.float32), 8),
        ("i,i->", np.broadcast_to(np.float32(1e-10), 8), 8),
        ("ij,j->i", np.broadcast_to(np.float32(1e-10), (2, 8)), 8),
        ("ij,ij->", np.broadcast_to(np.float32([[1e-10], [1e-10]]), (2, 8)), (2, 8)),
    ],
)
def test_the_sums_that_einsum_refuses_are_programs_of_their_own(subscripts, a, shape):
    """NumPy sums before it multiplies: that overflows, and the sum of the products does not."""
    b = np.full(shape, 3e38, np.float32)
    with np.errstate(over="ignore"):
        assert np.isinf(np.einsum(subscripts, a, b)).all()
    assert np.isfinite(np.sum(np.multiply.outer(a, b)))
    with pytest.raises(TraceRefused, match=r"sums by numpy\.einsum over"):
        trace(lambda b: np.einsum(subscripts, a, b), {"b": b})


def _options():
    for name, function in CALLABLES.items():
        if name.startswith("ufunc") or name == "numpy.einsum":
            continue
        short = name.split(".")[-1]
        told = getattr(np.ndarray, short) if name.startswith("ndarray.") else function
        try:
            signature = inspect.signature(told)
        except ValueError:  # an older NumPy
            continue
        more = ["where"] if "kwargs" in signature.parameters else []
        more += ["initial"] if more and short in ("reduce", "sum", "max", "min") else []
        for option in [*signature.parameters, *more]:
            if option in OPTIONS and option not in HELD.get(name, ()):
                yield name, option, signature


@pytest.mark.parametrize(
    ("name", "option", "signature"), list(_options()), ids=[f"{name} {option}" for name, option, _ in _options()]
)
def test_options_are_refused_by_their_names(name, option, signature):
    """Wherever they stand in NumPy's signature, by name and by place: none is dropped or read as another."""
    parameters = list(signature.parameters.values())
    first = {"arrays": lambda x: [x, x], "tup": lambda x: [x, x], "condition": lambda x: x > 0}
    fill = {
        "shape": (9,),
        "repeats": 1,
        "source": 0,
        "destination": 0,
        "axis1": 0,
        "axis2": 1,
        "shift": 1,
        "reps": 1,
        "b": np.eye(3),
        "other": np.eye(3),
    }

    def array(p, q):
        return first.get(p.name, lambda x: x)(q)

    def by_name(q):
        return CALLABLES[name](array(parameters[0], q), *needed, **{option: OPTIONS[option]})

    def by_place(q):
        before = [fill.get(p.name, p.default) for p in parameters[1 : [p.name for p in parameters].index(option)]]
        return CALLABLES[name](array(parameters[0], q), *before, OPTIONS[option])

    needed = [fill[p.name] for p in parameters[1:] if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    calls = [by_name]
    at = signature.parameters.get(option)
    if at is not None and at.kind is at.POSITIONAL_OR_KEYWORD:
        calls.append(by_place)
    for call in calls:
        with pytest.raises(TraceRefused, match=rf"with .*{option}.* at .*test_numpy_calls.py:\d+"):
            trace(lambda q, call=call: call(q), {"q": INPUTS["q"]})
