"""Where a bound arises: the shares of an element's bound, for every operation, order and accumulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from certify.cases.kernel import origins

import certify

X = {"x": np.array([[0.3, 0.7, 1.1], [0.2, 0.9, 0.4]])}


def shares(
    kernel: Any, order: str = "any-order", format: str = "float16", index: tuple[int, ...] = (0,)
) -> dict[str, float]:
    """Of an element of the only output, the shares by register or input."""
    graph = certify.trace(kernel, X, order=order)
    bounds = certify.running(graph, certify.format_named(format), certify.point(X))
    found = origins(bounds, "0", index)
    assert [o.share for o in found] == sorted((o.share for o in found), reverse=True)
    assert sum(o.share for o in found) == pytest.approx(1)
    return {o.place.removeprefix("register ").split(" (")[0]: o.share for o in found}


@pytest.mark.parametrize("order", ["serial", "fma", "pairwise", "any-order", "any-order:float32"])
def test_shares_in_every_order(order: str) -> None:
    """A product of three terms, then a factor that magnifies what came before: an accumulator moves the shares."""

    def kernel(x: Any) -> Any:
        y = x @ np.ones(3)
        z = y * 100.0 + x[:, 0]
        return z

    found = shares(kernel, order)
    assert set(found) <= {"y", "z", "the conversion of input x"} and found["the conversion of input x"] > 0.05
    assert found["z"] > 0.1


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("div", lambda x: 1.0 / x),
        ("sqrt", np.sqrt),
        ("exp", np.exp),
        ("log", np.log),
        ("tanh", np.tanh),
        ("abs", np.abs),
        ("max", lambda x: np.maximum(x, x[:, :1])),
        ("where", lambda x: np.where(x > 0.5, x, -x)),
    ],
)
def test_shares_of_every_operation(name: str, function: Any) -> None:
    """What comes before an operation is followed through it: a coarse sum dominates whatever is done to it."""

    def kernel(x: Any) -> Any:
        coarse = (x + 64.0) - 63.5
        y = function(coarse)
        return y

    found = shares(kernel, "serial", index=(0, 1))
    assert max(found, key=lambda place: found[place]) == "coarse", (name, found)
    assert found["coarse"] > 0.8


def test_the_parts_are_the_bound() -> None:
    """To first order the parts add up to the bound itself: every operation's own rounding, carried on."""
    graph = certify.trace(lambda x: (x @ x.T) * x[:, :1], X, order="serial")
    bounds = certify.running(graph, certify.BINARY32, certify.point(X))
    assert sum(o.share for o in origins(bounds, "0", (1, 0))) == pytest.approx(1)


def test_nothing_rounds() -> None:
    """No origins; and none where an element is a known number or a bound is not finite."""
    given = {"x": np.array([1.0, 2.0])}
    for kernel in (lambda x: x * 2.0, lambda x: np.concatenate([np.zeros(1), x])):
        graph = certify.trace(kernel, given, order="serial")
        assert origins(certify.running(graph, certify.BINARY16, certify.point(given)), "0", (0,)) == []
    graph = certify.trace(lambda x: x * 1e5 * x, given, order="serial")
    assert origins(certify.running(graph, certify.BINARY16, certify.point(given)), "0", (1,)) == []
