"""What a graph cannot hold is refused, with the line of the kernel and a remedy."""

import inspect
import operator
import re

import numpy as np
import pytest

import certify
from certify.arithmetic import BINARY16, BINARY32, Ieee
from certify.errors import InputRejected, TraceRefused
from certify.graph import Variable, evaluate, trace
from certify.graph.evaluation import output


def _assign(x):
    x[0] = 1.0
    return x


def _augment(x):
    x += 1
    return x


def _into(x):
    return np.add(x, x, out=np.empty(3))


def _into_a_plain_array(x):
    y = np.zeros(3)
    y[0] = x[0]
    return y


REFUSED = {
    "element of a plain array": (_into_a_plain_array, "a traced value to a Python number", "with numpy.stack"),
    "branch": (lambda x: x if x[0] > 0 else -x, "branches on the comparison of values it computed", "use numpy.where"),
    "any": (lambda x: np.any(x > 0), "numpy.any of a comparison", "combine conditions with &, | and ~"),
    "comparison as a number": (lambda x: (x > 0) * x, "computes with a comparison", "select with numpy.where"),
    "comparison plus": (lambda x: (x > 0) + 1, "computes with a comparison", "select with numpy.where"),
    "comparison and a number": (lambda x: (x > 0) & 3, "combines a comparison with no condition", "combine"),
    "comparison as a mask": (lambda x: x[x > 0], "computes with a comparison", "select with numpy.where"),
    "truth": (lambda x: x and 1, "a branch on a value of the kernel", "compare it and select with numpy.where"),
    "float()": (lambda x: float(x[0]), "a conversion of a traced value to a Python number", "keep it an array"),
    "int()": (lambda x: int(x[0]), "a conversion of a traced value to a Python number", "keep it an array"),
    "index": (lambda x: [1, 2][x[0]], "a conversion of a traced value to a Python number", "keep it an array"),
    "array()": (lambda x: np.array(x), "a conversion of a traced array to a plain one", "keep the kernel in NumPy"),
    "assignment": (_assign, "an assignment to elements in place", "build the array with numpy.where or numpy.stack"),
    "augmented": (_augment, "numpy.add with out", "use +, -, *, /, @"),
    "out": (_into, "numpy.add with out", "use +, -, *, /, @"),
    "sin": (lambda x: np.sin(x), "numpy.sin", "use +, -, *, /, @, sums, maximum, sqrt, exp, log, tanh, abs, where"),
    "exp with out": (lambda x: np.exp(x, where=np.array([True, False, True])), "numpy.exp with where", "use +"),
    "floor divide": (lambda x: x // 2, "numpy.floor_divide", "use"),
    "max from": (lambda x: np.max(x, initial=1.0), "numpy.max with initial", "leave such options away"),
    "max of none": (lambda x: np.max(x[:0]), "the largest element of none", "not empty"),
    "asked for a method": (
        lambda x: x.flatten() if hasattr(x, "flatten") else 2 * x,
        "uses .flatten of an array",
        "use",
    ),
    "median": (lambda x: np.median(x), "numpy.median", "use"),
    "matrix norm": (lambda x: np.linalg.norm(x * np.ones((2, 1)), 2), "a norm with ord=2", "of vectors"),
    "positional dtype": (lambda x: np.sum(x, 0, np.float16), "numpy.sum with dtype", "leave such options away"),
    "ddof": (lambda x: np.var(x, ddof=3), "divides a sum of 3 numbers by 3 - 3", "with a ddof less than the number"),
    "half a ddof": (lambda x: np.std(x, ddof=0.5), "a variance with ddof=0.5", "give an integer"),
    "one-sided where": (lambda x: np.where(x), "numpy.where with a condition alone", "give both sides"),
    "tile by data": (lambda x: np.tile([1.0], x), "gives numpy.tile computed values", "give known numbers"),
    "einsum of sums": (
        lambda x: np.einsum("i,j->", x, x),
        "sums by numpy.einsum over 'i'",
        "use numpy.sum: of that operand before you multiply, or of the products",
    ),
    "dot": (
        lambda x: np.dot(x[None, None], x[:2]),
        "multiplies arrays of shapes (1, 1, 3) and (2,)",
        "inner dimensions",
    ),
    "ellipsis": (lambda x: np.einsum("...i->...", x), "an einsum of another form", "without an ellipsis"),
    "three operands": (lambda x: np.einsum("i,i,i->", x, x, x), "an einsum of another form", "one or two operands"),
    "subscripts": (lambda x: np.einsum("i->ii", x), "the subscripts 'i->ii'", "one or two operands"),
    "cumsum": (lambda x: np.cumsum(x), "numpy.cumsum", "rearrangements"),
    "outer": (lambda x: np.multiply.outer(x, x), "numpy.multiply.outer", "use"),
    "divide by 0": (lambda x: x / 0, "divides by a number known to be 0", "something else"),
    "cube": (lambda x: x**3, "a power other than -1, 0, 0.5, 1 and 2", "x * x * x"),
    "power of a scalar": (lambda x: np.sum(x) ** 2, "** of a scalar", "write x * x, 1 / x or numpy.sqrt"),
    "root of a scalar": (lambda x: x[0] ** np.float64(0.5), "** of a scalar", "powers of arrays are these"),
    "power of data": (lambda x: 2.0**x, "a power other than", "write the products out"),
    "where on data": (lambda x: np.where(x, 1, 2), "selects by values it computed", "compare them"),
    "index by data": (lambda x: x[x], "an index that depends on data", "index with known integers"),
    "three axes": (lambda x: x[None, None] @ x[:2, None], "multiplies matrices of shapes", "matching inner dimensions"),
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
        lambda x: x.astype(np.float32, order="F"),
        lambda x: x.astype(np.int32),
        lambda x: x.astype("no dtype"),
        lambda x: x.mean(dtype=np.float32),
        lambda x: np.var(x, where=np.array([True, False, True])),
        lambda x: np.clip(x, 0, 1, casting="unsafe"),
    ],
    ids=[
        "reduce initial",
        "reduce where",
        "sum initial",
        "sum where",
        "reduce dtype",
        "joined dtype",
        "astype order",
        "astype int",
        "astype unknown",
        "mean dtype",
        "var where",
        "clip casting",
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


@pytest.mark.parametrize(
    ("kernel", "inputs", "message"),
    [
        (
            lambda x, y: x + y,
            {"x": 1.0},
            r"^the input y of the kernel is missing: its parameters are \(x, y\); give a value",
        ),
        (lambda x, *, y: x + y, {"x": 1.0}, "^the input y of the kernel is missing"),
        (
            lambda x: x,
            {"x": 1.0, "z": 1.0},
            r"^the kernel has no parameter z: its parameters are \(x\); leave the input z out",
        ),
        (lambda x: x, {}, "^the input x of the kernel is missing"),
        (lambda x, /: x, {"x": 1.0}, r"^the kernel has no parameter x: its parameters are \(x, /\)"),
        (lambda x, /, **others: x, {"x": 1.0}, r"^the inputs x do not fit the kernel's parameters"),
        (lambda x: x, [1.0], "^the inputs of the kernel are no mapping; give a dict"),
        (lambda x: x, {1: 1.0}, "^an input of the kernel is named 1; name inputs by strings"),
        ("k", {"x": 1.0}, "^the kernel is no function: 'k'; give the function itself, not its name"),
        (None, {"x": 1.0}, "^the kernel is no function"),
    ],
)
def test_inputs_that_are_not_the_kernels_are_refused(kernel, inputs, message):
    """The culprit by its name and the remedy, by whatever the kernel is called through."""
    for call in (lambda: trace(kernel, inputs), lambda: certify.tolerance(kernel, inputs, format="float16")):
        with pytest.raises(InputRejected, match=message):
            call()


def test_a_kernel_may_leave_parameters_to_their_defaults():
    """And take others by **."""
    assert trace(lambda x, y=2.0: x * y, {"x": 1.0}).n_inputs == 1
    assert trace(lambda **given: given["x"] * given["y"], {"x": 1.0, "y": 1.0}).n_inputs == 2


def test_an_order_without_a_model_is_refused():
    """The known orders are listed."""
    with pytest.raises(InputRejected, match="there is no order model 'random'; use one of serial"):
        trace(lambda x: x, {"x": 1.0}, order="random")


def test_more_nodes_than_numbers_are_refused(monkeypatch):
    """Node numbers are int32: a kernel of more values is refused where it passes them; terms of sums do not count."""
    from certify.graph import assembly

    monkeypatch.setattr(assembly, "MOST_NODES", 30)
    assert trace(lambda x: np.sum(x), {"x": np.ones(20)}).n_nodes == 21
    with pytest.raises(TraceRefused, match=r"more than 30 values at .*trace a smaller kernel"):
        trace(lambda x: x * x, {"x": np.ones(20)})


MADE = {
    "zeros": (lambda x: x + np.zeros_like(x, shape=(3, 3)), lambda x: x + np.zeros((3, 3), dtype=x.dtype)),
    "ones": (lambda x: x - (np.zeros_like(x, shape=(3, 3)) + 1.0), lambda x: x - np.ones((3, 3), dtype=x.dtype)),
    "full": (lambda x: x * (np.zeros_like(x, shape=3) + 0.1), lambda x: x * np.full(3, 0.1, dtype=x.dtype)),
    "eye": (
        lambda x: x @ np.where(np.eye(3) > 0, np.zeros_like(x, shape=(3, 3)) + 1.0, 0) / 3,
        lambda x: x @ np.eye(3, dtype=x.dtype) / 3,
    ),
    "array": (None, lambda x: x * np.array([0.1, 0.2, 0.3], dtype=x.dtype)),
    "asarray": (None, lambda x: x * np.asarray([0.1, 0.2, 0.3], x.dtype)),
}


@pytest.mark.parametrize("name", MADE)
def test_arrays_made_with_a_dtype_that_is_chosen_later(name):
    """Refused with what to write instead; and that is the same program, in float16 and float32, as NumPy runs the other."""
    instead, kernel = MADE[name]
    with pytest.raises(
        TraceRefused, match=r"dtype of an array whose format is chosen later.*write zeros_like\(x, shape="
    ):
        trace(kernel, {"x": np.ones((3, 3))})
    for format, dtype in ((BINARY16, np.float16), (BINARY32, np.float32)) if instead else ():
        x = np.random.default_rng(0).standard_normal((3, 3)).astype(dtype)
        ieee, graph = Ieee(format), trace(instead, {"x": x.astype(float)}, order="serial")
        found = output(graph, ieee, evaluate(graph, ieee, {"x": ieee.constant(x.astype(float))}), "0")
        assert kernel(x).dtype == instead(x).dtype == dtype
        assert np.array_equal(found.astype(float), kernel(x).astype(float))
        assert np.array_equal(instead(x), kernel(x))
