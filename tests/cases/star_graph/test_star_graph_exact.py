"""Rational results: the known numbers, and finite differences of the kernel."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certify.cases.star_graph import exact
from certify.cases.star_graph.exact_claims import exact_claims, paths, stated_instances
from certify.cases.star_graph.instances import END, FORWARD, ORDERS, UNIFORM, N, T, V, one_hot, second_tokens, tokens
from certify.cases.star_graph.layer import layer
from certify.cases.star_graph.state import STAR_EDGES, circuit_weights
from certify.cases.star_graph.train import WEIGHTS, Pass, over_labels

from certify.errors import Undecided


def mean(slope, law=UNIFORM):
    """The means of a derivative, k = 1..9."""
    return [law.mean([slope(order, k) for order in law.orders]) for k in exact.OFFSETS]


def test_expectations_of_the_surrogate_are_twice_the_published_ones():
    """-137/81000, 131/162000 for k = 2..8 and 1/2000 for k = 9."""
    assert mean(exact.surrogate_slope) == [Fraction(-137, 81000), *[Fraction(131, 162000)] * 7, Fraction(1, 2000)]


def test_expectations_of_the_true_losses():
    """The known decimals, under the uniform law and under its two halves."""
    first, second = mean(exact.first_slope), mean(exact.second_slope)
    assert [x > 0 for x in first] == [False] * 3 + [True] * 6
    assert float(first[0]) == pytest.approx(-0.0077742699, abs=1e-10)
    assert float(second[0]) == pytest.approx(-0.1089105465, abs=1e-10)
    assert float(mean(exact.next_token_slope)[0]) == pytest.approx(-0.0583424082, abs=1e-10)
    forward = mean(exact.first_slope, FORWARD)[0]
    assert float(forward) == pytest.approx(0.0031690623, abs=1e-10)
    assert float(2 * first[0] - forward) == pytest.approx(-0.0187176022, abs=1e-10)


def test_the_end_node_and_the_target_are_where_they_are():
    """1/4 at even positions, 1/4 at every context position."""
    assert exact.occurrence(UNIFORM, END) == [Fraction(t % 2, 4) for t in range(8)] + [1, 0]
    assert exact.occurrence(UNIFORM, V) == [Fraction(1, 4)] * 8 + [0, 0]


@pytest.mark.parametrize("name", ["first", "second", "shallow"])
def test_slopes_are_those_of_the_kernel(name):
    """Central differences of the float64 kernel in w(k), at zero weights and a few orders."""
    for order in ORDERS[::7]:
        nodes = second_tokens(order) if name == "second" else tokens(order)
        head, target = ("f2", END) if name == "shallow" else ("f1", END if name == "second" else V)
        slope = {"first": exact.first_slope, "second": exact.second_slope, "shallow": exact.shallow_slope}[name]
        for k in exact.OFFSETS:
            values = []
            for h in (1e-4, -1e-4):
                weights = {key: np.zeros((N, T)) for key in WEIGHTS} | {"position_1": h * np.eye(T, k=-k)}
                values.append(-np.log(layer(one_hot(nodes), *weights.values())[head][target]))
            assert (values[0] - values[1]) / 2e-4 == pytest.approx(float(slope(order, k)), abs=1e-7)


def test_the_shallow_gradient_is_that_of_training():
    """At zero weights, labels averaged; layer 2 has none."""
    Z = np.array([one_hot(tokens(order)) for order in ORDERS], dtype=float)
    _, gradient = Pass(Z, {name: np.zeros((N, T)) for name in WEIGHTS}).shallow_loss(END)
    position, content = exact.shallow_gradient(UNIFORM)
    np.testing.assert_allclose(gradient["position_1"].mean(axis=0), np.array(position, dtype=float), atol=1e-15)
    np.testing.assert_allclose(
        over_labels(gradient["content_1"].mean(axis=0)), np.array(content, dtype=float), atol=1e-15
    )
    assert not gradient["content_2"].any() and not gradient["position_2"].any()


def test_the_second_phase_is_driven_in_all_of_its_row():
    """The known row of rates; other rows rest; and the row sums to 0."""
    drive = exact.second_phase_drive(UNIFORM)
    known = [(-1, 60), (-1, 60), (1, 40), (1, 40), (1, 90), (1, 40), (1, 90), (1, 40), (1, 90), (-1, 10)]
    assert drive[T - 2] == [Fraction(a, b) for a, b in known]
    assert not any(any(row) for i, row in enumerate(drive) if i != T - 2) and sum(drive[T - 2]) == 0


def test_the_second_phase_at_a_large_gamma_is_its_limit():
    """The gradient of L1a at layer 1 = 40 L and layer 2 zero, in float64."""
    Z = np.array([one_hot(tokens(order)) for order in ORDERS], dtype=float)
    weights = circuit_weights(40.0) | {"content_2": np.zeros((N, N)), "position_2": np.zeros((T, T))}
    _, gradient = Pass(Z, weights).deep_loss(V)
    drive = np.array(exact.second_phase_drive(UNIFORM), dtype=float)
    np.testing.assert_allclose(-gradient["position_2"].mean(axis=0), drive, atol=1e-12)


def test_gradients_at_one_hot_attention_are_zero_and_not_elsewhere():
    """Every order; and with S2 spread over two positions the deep gradient is not."""
    assert not any(x for order in ORDERS for G in exact.stationary(order) for row in G for x in row)
    s2 = [Fraction(int(j in (3, 4)), 2) for j in range(T)]
    assert any(x for row in exact.deep_gradient(exact.shift(), s2, tokens((0, 1, 2, 3)), V) for x in row)


def test_rows_of_the_deep_gradient_sum_to_zero():
    """Random rational attention: the law behind the conserved row sums."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        rows = [
            [Fraction(int(x), 1) for x in rng.integers(1, 9, t + 1)] + [Fraction(0)] * (T - 1 - t) for t in range(T)
        ]
        S1 = [[x / sum(row) for x in row] for row in rows]
        gradient = exact.deep_gradient(S1, S1[T - 1], tokens(ORDERS[rng.integers(24)]), V)
        assert all(sum(row) == 0 for row in gradient) and any(any(row) for row in gradient)


def test_verdicts_depend_on_the_law():
    """Under the law that writes (star, v) first the sign at k = 1 is as published, under the uniform one it is not."""
    for law, wrong in ((UNIFORM, [1, 4, 5, 6, 7, 8, 9]), (FORWARD, [4, 5, 6, 7, 8, 9])):
        found = {claim.id: claim for claim in exact_claims(law)}
        assert found["counterexample/first-slope"].witness["offsets"] == wrong


def test_worked_examples_are_checked():
    """The path of the data line is the only one; a clause that fails and a second path are refused."""
    assert paths(STAR_EDGES, 49, 18) == [(49, 63, 31, 73, 18)]
    assert sum(len(paths(STAR_EDGES, 49, end)) for end in (3 - 0, 41, 27)) >= 1
    tensors = {"star_edges": [list(x) for x in STAR_EDGES], "countdown": [[97, 40, 14, 11]]}
    good = tensors | {"clauses": [[1, -2, 3]], "assignment": [[0, 1, 1, 0, 0, 0, 0]]}
    ends = {"star_start": 49, "star_end": 18}
    assert [claim.bounds for claim in stated_instances(good, ends)] == [
        {"paths": "1"},
        {"value": "19"},
        {"unsatisfied": "0"},
    ]
    with pytest.raises(Undecided, match="clause"):
        stated_instances(good | {"assignment": [[0, 1, 0, 0, 0, 0, 0]]}, ends)
    with pytest.raises(Undecided, match="2 paths"):
        stated_instances(good | {"star_edges": [*good["star_edges"], [49, 73]]}, ends)
