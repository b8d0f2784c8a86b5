"""Nodes that cannot be negative."""

import numpy as np
import pytest

from certify.graph import sigmoid, trace

X = {"x": np.ones(3), "y": np.ones((3, 3))}


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x, y: x * x,
        lambda x, y: x @ x,
        lambda x, y: np.sum(np.square(x)),
        lambda x, y: np.exp(x) + np.abs(x),
        lambda x, y: np.exp(x) * sigmoid(x) / np.maximum(x, 1e-3),
        lambda x, y: np.maximum(x, np.abs(x)) / 2,
        lambda x, y: np.where(x > 0, np.abs(x), 3),
        lambda x, y: np.abs(y) @ np.exp(x),
        lambda x, y: np.linalg.norm(x),
        lambda x, y: np.var(x) + 1e-5,
    ],
)
def test_squares_and_their_like_are_not_negative(kernel):
    """Whatever the inputs."""
    graph = trace(kernel, X)
    assert graph.nonnegative[graph.outputs["0"].ids].all()


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x, y: x,
        lambda x, y: x * y[0],
        lambda x, y: x @ y,
        lambda x, y: np.abs(x) - np.exp(x),
        lambda x, y: -np.abs(x),
        lambda x, y: np.log(np.abs(x)),
        lambda x, y: np.tanh(np.abs(x)),  # could be; not known
        lambda x, y: np.where(x > 0, x, 1),
        lambda x, y: np.abs(x) * -3,
        lambda x, y: np.minimum(np.abs(x), x),
        lambda x, y: x + (np.abs(x) - x),
    ],
)
def test_nothing_is_said_of_others(kernel):
    """A sign that the operations do not prove."""
    graph = trace(kernel, X)
    assert not graph.nonnegative[graph.outputs["0"].ids].any()


def test_a_matrix_times_its_transpose_has_a_diagonal_that_is_not_negative():
    """Entry by entry."""
    graph = trace(lambda y: y @ y.T, {"y": np.ones((3, 3))})
    assert graph.nonnegative[graph.outputs["0"].ids].tolist() == np.eye(3, dtype=bool).tolist()
