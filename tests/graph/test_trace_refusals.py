"""What a graph cannot hold is refused, with the line of the kernel and a remedy."""

import inspect
import operator
import re

import numpy as np
import pytest

from certify.errors import InputRejected, TraceRefused
from certify.graph import Variable, trace


def _assign(x):
    x[0] = 1.0
    return x


def _augment(x):
    x += 1
    return x


def _into(x):
    return np.add(x, x, out=np.empty(3))


REFUSED = {
    "branch": (lambda x: x if x[0] > 0 else -x, "numpy.greater", "use"),
    "truth": (lambda x: x and 1, "a branch on a value of the kernel", "trace each side on its own"),
    "float()": (lambda x: float(x[0]), "a conversion of a traced value to a Python number", "keep it an array"),
    "int()": (lambda x: int(x[0]), "a conversion of a traced value to a Python number", "keep it an array"),
    "index": (lambda x: [1, 2][x[0]], "a conversion of a traced value to a Python number", "keep it an array"),
    "array()": (lambda x: np.array(x), "a conversion of a traced array to a plain one", "keep the kernel in NumPy"),
    "assignment": (_assign, "an assignment to elements in place", "build the array with numpy.where or numpy.stack"),
    "augmented": (_augment, "numpy.add with out", "use +, -, *, @"),
    "out": (_into, "numpy.add with out", "use +, -, *, @"),
    "exp": (lambda x: np.exp(x), "numpy.exp", "use +, -, *, @, sums and maximum(x, 0)"),
    "abs": (lambda x: abs(x), "numpy.absolute", "use +, -, *, @"),
    "floor divide": (lambda x: x // 2, "numpy.floor_divide", "use"),
    "max": (lambda x: np.max(x), "numpy.max", "use"),
    "cumsum": (lambda x: np.cumsum(x), "numpy.cumsum", "rearrangements"),
    "outer": (lambda x: np.multiply.outer(x, x), "numpy.multiply.outer", "use"),
    "divide by 3": (lambda x: x / 3, "divides by something else than a known power of two", "reciprocal"),
    "divide by 0": (lambda x: x / 0, "divides by something else than a known power of two", "reciprocal"),
    "divide by data": (lambda x: 1 / x, "divides by something else than a known power of two", "reciprocal"),
    "maximum of two": (lambda x: np.maximum(x, x + 1), "a maximum of two values", "only maximum(x, 0)"),
    "maximum with 1": (lambda x: np.maximum(x, 1), "a maximum of two values", "only maximum(x, 0)"),
    "cube": (lambda x: x**3, "a power other than 2", "write the products out"),
    "where on data": (lambda x: np.where(x, 1, 2), "selects by values it computed", "known mask"),
    "index by data": (lambda x: x[x], "an index that depends on data", "index with known integers"),
    "three axes": (lambda x: x[None, None] @ x[:, None], "multiplies matrices of shapes", "matching inner dimensions"),
    "dtype": (lambda x: np.sum(x, dtype=np.float32), "numpy.sum with dtype", "leave such options away"),
    "complex": (lambda x: x * 1j, "an operand of type complex", "use real numbers"),
    "nan": (lambda x: x * np.nan, "a constant that is not finite", "use finite numbers"),
    "huge integer": (lambda x: x * (2**63 + 1), "an integer constant that binary64 cannot hold", "smaller"),
}


@pytest.mark.parametrize(("kernel", "problem", "remedy"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_name_the_line_and_the_remedy(kernel, problem, remedy):
    """TraceRefused, exit code 3, "the kernel ... at file:line; remedy"."""
    with pytest.raises(TraceRefused) as refusal:
        trace(kernel, {"x": np.ones(3)})
    assert refusal.value.exit_code == 3
    assert problem in refusal.value.problem
    assert remedy in refusal.value.remedy
    lines, first = inspect.getsourcelines(kernel)
    line = re.search(r" at .*test_trace_refusals\.py:(\d+)\)?$", refusal.value.problem)
    assert line and first <= int(line[1]) < first + len(lines)


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: np.add.reduce(x, initial=5.0),
        lambda x: np.add.reduce(x, where=np.array([True, False, True])),
        lambda x: np.sum(x, initial=5.0),
        lambda x: np.sum(x, where=np.array([True, False, True])),
        lambda x: np.add.reduce(x, dtype=np.float32),
        lambda x: np.concatenate([x, x], dtype=np.float32),
        lambda x: x.astype(np.float32),
        lambda x: x.mean(),
    ],
    ids=[
        "reduce initial",
        "reduce where",
        "sum initial",
        "sum where",
        "reduce dtype",
        "joined dtype",
        "astype",
        "mean",
    ],
)
def test_options_that_change_the_result_are_refused_and_not_dropped(kernel):
    """An option that the graph cannot hold must not vanish, and is refused with the library's own error."""
    with pytest.raises(TraceRefused):
        trace(kernel, {"x": np.ones(3)})


def test_arrays_of_two_traces_do_not_mix():
    """A traced array that leaked out of its trace is refused in another."""
    leaked = []
    trace(lambda x: leaked.append(x) or x, {"x": 1.0})
    with pytest.raises(TraceRefused, match=r"a mixture of arrays from two traces at .*; trace one kernel at a time"):
        trace(lambda x: x + leaked[0], {"x": 1.0})


def test_an_axis_that_is_not_there_is_an_error():
    """As NumPy itself: axis 5 of a matrix does not wrap around."""
    with pytest.raises((TraceRefused, np.exceptions.AxisError)):
        trace(lambda x: np.sum(x, axis=5), {"x": np.ones((2, 3))})


def test_outputs_that_are_no_numbers_are_refused():
    """The output's name and type are in the message."""
    with pytest.raises(TraceRefused, match="output result of the kernel is a str; return arrays or numbers"):
        trace(lambda x: {"result": "text"}, {"x": 1.0})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": np.ones(2, dtype=complex)}, "input x has dtype complex128; give real numbers"),
        ({"x": Variable((2,), np.ones(3))}, r"the support of input x has shape \(3,\), the input \(2,\)"),
        ({"x": "text"}, "input x has dtype"),
    ],
)
def test_inputs_that_are_no_arrays_are_refused(inputs, message):
    """Before the kernel runs."""
    with pytest.raises(InputRejected, match=message):
        trace(operator.itemgetter("x"), inputs)


def test_an_order_without_a_model_is_refused():
    """The known orders are listed."""
    with pytest.raises(InputRejected, match="there is no order model 'random'; use one of serial"):
        trace(lambda x: x, {"x": 1.0}, order="random")
