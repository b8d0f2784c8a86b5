"""Known numbers are converted where NumPy converts them: the traced program, emulated, gives NumPy's own bits."""

import numpy as np
import pytest

import certify
from certify.arithmetic import Ieee, format_named
from certify.errors import TraceRefused
from certify.graph import evaluate, output, trace

HALF, SINGLE = np.float16, np.float32
MASK, ROWS = np.array([True, False, True, False]), np.tri(4, dtype=bool)


def _loop(x, start):
    total = start(x.astype(HALF)[0])
    for term in x.astype(HALF):
        total = total + term
    return total


def _compared_before(x):
    condition = x.astype(SINGLE) > 0.1
    return np.where(condition, x.astype(HALF), -x.astype(HALF))


def _mask_reused(x):
    mask = MASK.copy()
    condition = (x > 0.3) & mask
    mask[:] = False
    return np.where(condition, x, -x)


KERNELS = {
    "where, then wider": lambda x: np.where(MASK, x, 0.1).astype(SINGLE),
    "where, then narrower and wider": lambda x: np.where(MASK, x, 0.1).astype(HALF).astype(SINGLE) * 3,
    "where of halves": lambda x: np.where(MASK, x.astype(HALF), 0.1).astype(SINGLE) + x.astype(SINGLE),
    "where of two": lambda x: np.where(MASK, np.where(ROWS[1], x.astype(HALF), 0.7), 0.1).astype(SINGLE),
    "sum with a zero": lambda x: 0.7 - MASK * x.astype(HALF),
    "plus zero": lambda x: (np.where(MASK, x.astype(HALF), 0.7) + 0).astype(SINGLE),
    "maximum": lambda x: np.maximum(np.where(MASK, x.astype(HALF), 0.7), 0.3).astype(SINGLE),
    "absolute": lambda x: np.abs(np.where(MASK, x.astype(HALF), -0.7)).astype(SINGLE),
    "joined": lambda x: np.concatenate([x.astype(HALF), np.full(2, 0.1, HALF)]).astype(SINGLE) * 3,
    "stacked": lambda x: np.stack([np.where(MASK, x.astype(HALF), 0.1), x.astype(SINGLE)])[0] / 3,
    "known rows": lambda x: np.where(ROWS, x.astype(HALF), 0.0)[0, 1:] + 1 / 3,
    "known row": lambda x: np.where(ROWS, x.astype(HALF), 0.1)[0, 1:].astype(SINGLE) / 3,
    "times known": lambda x: np.where(MASK, x.astype(HALF), 0.1).astype(SINGLE) * x.astype(SINGLE),
    "promoted with known": lambda x: np.where(MASK, x.astype(HALF), 0.1) * x.astype(SINGLE),
    "maximum with known": lambda x: np.maximum(x.astype(SINGLE), np.where(MASK, x.astype(HALF), 0.7)),
    "sum of known": lambda x: np.sum(np.where(MASK, x.astype(HALF), 0.1).astype(SINGLE)),
    "product with known": lambda x: np.where(MASK, x.astype(HALF), 0.1).astype(SINGLE) @ x.astype(SINGLE),
    "largest of known": lambda x: np.max(np.where(MASK, x.astype(HALF), 0.9)).astype(SINGLE),
    "number of a half": lambda x: x.astype(HALF) * HALF(0.1),
    "halves": lambda x: x.astype(HALF) / np.full(4, 0.3, HALF),
    "number of a single": lambda x: x.astype(HALF) * SINGLE(0.1),
    "zeros like": lambda x: _loop(x, np.zeros_like),
    "zeros like in single": lambda x: _loop(x, lambda first: np.zeros_like(first, dtype=SINGLE)),
    "zeros of the dtype": lambda x: _loop(x, lambda first: np.zeros((), first.dtype)[()]),
    "compared before": _compared_before,
    "mask reused": _mask_reused,
    "selected": lambda x: np.where(x > 0.3, x.astype(HALF), 0.1).astype(SINGLE) * 3,
    "selected by halves": lambda x: np.where(x.astype(HALF) > 0.1, x, 0.7).astype(SINGLE),
}


@pytest.mark.parametrize("program", ["float16", "float32"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_traced_program_gives_numpys_bits(kernel, program):
    """Of each kernel, at numbers near the ones that it compares with, and others."""
    ieee = Ieee(format_named(program))
    for x in ([0.1, 0.3, 0.7, 1.5], [0.09998, -0.1, 1 / 3, 2.0], [-1.0, 0.0999755859375, 0.10009765625, 3.0]):
        given = np.array(x).astype(program)
        graph = trace(kernel, {"x": given}, order="serial")
        values = evaluate(graph, ieee, {"x": ieee.constant(given.astype(np.float64))})
        found = np.asarray(output(graph, ieee, values, "0"), dtype=np.float64)
        assert found.tolist() == np.asarray(kernel(given), dtype=np.float64).tolist()


def test_in_a_block_known_numbers_are_of_its_format():
    """Also outside of it, and in the result."""

    def kernel(x):
        with certify.precision("float16"):
            y = np.where(MASK, x, 0.1)
        return y, y * 3

    graph = trace(kernel, {"x": np.ones(4)})
    ieee = Ieee(certify.BINARY32)
    values = evaluate(graph, ieee, {"x": ieee.constant(np.ones(4))})
    tenth = float(np.float16(0.1))
    assert output(graph, ieee, values, "0").tolist() == [1.0, tenth, 1.0, tenth]
    assert output(graph, ieee, values, "1").tolist() == [3.0, float(np.float16(3 * tenth))] * 2


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: x / (np.abs(x) + np.finfo(x.dtype).eps),
        lambda x: x * (2 if x.dtype == np.float16 else 1),
        lambda x: x * {np.dtype(np.float32): 2}.get(x.dtype, 1),
        lambda x: x * x.dtype.itemsize,
    ],
    ids=["finfo", "equal", "table", "size"],
)
def test_what_only_a_known_dtype_can_tell_is_refused(kernel):
    """The format of the program is chosen after tracing."""
    with pytest.raises(
        TraceRefused, match=r"what only a known dtype can tell at test_known_numbers.py:.*; the format of the"
    ):
        trace(kernel, {"x": np.ones(4)})


def test_there_and_back():
    """Float64 itself is meant where it is named."""
    graph = trace(lambda x: x.astype(np.float64).astype(x.dtype), {"x": np.ones(4)})
    assert graph.format_names == ("float64",)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x * np.full(4, 0.1, x.dtype),
        lambda x: x * np.dtype(x.dtype).itemsize,
        lambda x: x / 3 if np.issubdtype(x.dtype, np.float64) else x,
        lambda x: x.astype(np.promote_types(x.dtype, np.float32)),
        lambda x: x.astype(x.dtype.type),
    ],
    ids=["full", "dtype", "subtype", "promoted", "type"],
)
def test_nothing_is_made_of_the_programs_dtype(make):
    """NumPy would take it for float64."""
    with pytest.raises(TraceRefused, match=r"dtype.* test_known_numbers.py:[0-9]+; (write zeros_like|the format of)"):
        trace(make, {"x": np.ones(4)})
