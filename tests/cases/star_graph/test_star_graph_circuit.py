"""The circuit's closed form against the model itself, and the numbers that are known of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certify.cases.star_graph import circuit, oracle
from certify.cases.star_graph.circuit import OTHERS, at, ball, beyond, first, second
from certify.cases.star_graph.instances import (
    END,
    LABELINGS,
    ORDERS,
    UNIFORM,
    N,
    T,
    V,
    end_position,
    one_hot,
    second_tokens,
    tokens,
)
from certify.cases.star_graph.layer import layer
from certify.cases.star_graph.proofs import lower, require_positive, rounded_down, rounded_up, upper
from certify.cases.star_graph.state import circuit_weights
from certify.checker.cases.star_graph import circuit as checked
from flint import arb, ctx
from star_graph_reports import uniform_claims

from certify.errors import Undecided


@pytest.fixture(scope="module")
def claims():
    """The claims about the circuit under the uniform law, by id."""
    return {claim.id: claim for claim in uniform_claims()}


def weights(gamma):
    """Rational weights of Corollary 1, in the order of the oracle."""
    return [[[Fraction(float(x)) * gamma for x in row] for row in W] for W in circuit_weights(1.0).values()]


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(5, 2), Fraction(20)])
def test_the_closed_form_is_the_model(gamma):
    """Leads, errors and shares of every order overlap what the factorised model gives at rational gammas; all are narrow."""
    with ctx.workprec(200):
        v = at(ball(gamma))
        for order in ORDERS:
            f1, f2 = oracle.factorised(tokens(order), weights(gamma))
            c = first(order)
            for other in OTHERS:
                assert (c.lead(V, other, v) / c.total(v)).overlaps(f1[V] - f1[other])
            assert c.first_error(v).overlaps((1 - f1[V]) / v.x)
            assert f2[END].overlaps((1 + v.x) / (1 + 9 * v.x))
            again, _ = oracle.factorised(second_tokens(order), weights(gamma))
            assert second(order).end_share(v).overlaps(again[END] / v.x)
            assert all(float(x.rad()) < 1e-40 for x in (c.first_error(v), again[END], f1[V]))


def test_the_checker_has_the_same_functions_by_another_way():
    """Its enclosures overlap those of the producer, at points and for large gamma, and both are narrow at points."""
    with ctx.workprec(160):
        for order in ORDERS:
            names = ["star", "v", "end", "v'", "end'"]
            own = checked.Circuit([names[x] for x in tokens(order)])
            again = checked.Circuit([names[x] for x in second_tokens(order)])
            for mine, theirs in ((at(arb(4)), checked.box(Fraction(4), Fraction(4))), (beyond(12), checked.tail(12))):
                assert checked.first_error(own, theirs).overlaps(first(order).first_error(mine))
                assert checked.attention_error(own, theirs).overlaps(first(order).attention_error(mine))
                assert checked.end_share(again, theirs).overlaps(second(order).end_share(mine))
                rows = zip(checked.gradient_row(again, theirs), second(order).row(mine), strict=True)
                assert all(x.overlaps(y) for x, y in rows)


def test_the_limit_constants_are_those_that_are_known():
    """8 six times, 10 twice, 11 and 12 four times, 13 twice, 14 six times; the mean is 45/4."""
    found = sorted(first(order).limit() for order in ORDERS)
    assert found == [8] * 6 + [10] * 2 + [11] * 4 + [12] * 4 + [13] * 2 + [14] * 6
    assert UNIFORM.mean([Fraction(x) for x in found]) == Fraction(45, 4)


def test_the_bracket_is_narrow_and_where_it_should_be(claims):
    """At most 1e-12 wide, around 2.573472680038967370."""
    low, high = (parsed(claims["margin/threshold"].bounds[name]) for name in ("low", "high"))
    assert low < Fraction(2573472680038967370, 10**18) < high and high - low < Fraction(1, 10**12)
    assert claims["margin/threshold"].parameters["order"] == [2, 0, 3, 1]


def test_the_constants_are_as_tight_as_is_known(claims):
    """15.7782 and 13.0505 are reached near gamma = 4.35 and 3.81; 17 and 13.06 are upper bounds that were known."""
    for name, reached, bound in (("first", "15.778", 17), ("attention", "13.05", Fraction(1306, 100))):
        bounds = claims[f"enclosure/{name}-constant"].bounds
        assert Fraction(reached) < parsed(bounds["low"]) < parsed(bounds["high"]) < bound


def test_the_first_step_is_wrong_below_and_right_above_in_float64(claims):
    """Decoding by NumPy a little below and above the bracket, in the worst order and in all."""
    low = float(parsed(claims["margin/threshold"].bounds["low"]))
    for gamma, right in ((low - 1e-9, False), (low + 1e-9, True), (low + 1, True), (low - 1, False)):
        Z = np.array([one_hot(tokens(order)) for order in ORDERS])
        f1 = layer(Z, *circuit_weights(gamma).values())["f1"]
        assert bool((f1.argmax(axis=-1) == V).all()) is right


def test_a_lead_that_is_not_everywhere_is_not_proved():
    """The worst order from below its threshold on; and the right one from above it."""
    worst = first((2, 0, 3, 1))
    with pytest.raises(Undecided):
        require_positive(lambda v: worst.lead(V, 0, v), Fraction(5, 2))
    require_positive(lambda v: worst.lead(V, 0, v), Fraction(13, 5))


def test_the_gradient_row_is_that_of_autodiff():
    """Row T-1 of dL1b/dW1 of layer 2 against torch, at gamma = 5 and all orders."""
    torch = pytest.importorskip("torch")
    for order in ORDERS:
        given = [torch.tensor(W, requires_grad=True) for W in circuit_weights(5.0).values()]
        f1 = layer(torch.tensor(one_hot(second_tokens(order)), dtype=torch.float64), *given, xp=torch)["f1"]
        (-torch.log(f1[END])).backward()
        with ctx.workprec(120):
            row = [float(x) for x in second(order).row(at(arb(5)))]
        assert np.abs(given[3].grad[T - 2].numpy() - row).max() < 1e-12


def test_the_mean_gradient_tends_to_a_row_of_norm_one_half():
    """(0, 1/6, -1/12, 1/6, ..., -1/12, -1/3), from the tail alone."""
    with ctx.workprec(120):
        tail = beyond(Fraction(40))
        rows = [second(order).row(tail) for order in ORDERS]
        mean = [sum((row[j] for row in rows), arb(0)) / 24 for j in range(T)]
        wanted = [0, 2, -1, 2, -1, 2, -1, 2, -1, -4]
        assert all(abs(x - arb(w) / 12) < 1e-10 for x, w in zip(mean, wanted, strict=True))


def test_labels_do_not_matter():
    """Random labelings of random orders: the same attention, permuted outputs; content weights a I + b 1 1^T."""
    rng = np.random.default_rng(5)
    W0, W1 = (np.eye(N) * a + b for a, b in rng.standard_normal((2, 2)))
    P1, P2 = rng.standard_normal((2, T, T))
    for _ in range(40):
        order, names = ORDERS[rng.integers(24)], rng.permutation(N)
        Z = one_hot(tokens(order))
        renamed = np.eye(N, dtype=np.int64)[names[list(tokens(order))]]
        one, other = (layer(x, W0, P1, W1, P2) for x in (Z, renamed))
        for head in ("f1", "f2"):
            np.testing.assert_allclose(other[head][names], one[head], rtol=1e-12, atol=1e-15)
    assert len(ORDERS) * LABELINGS == 725_760


def test_every_instance_is_a_star_graph():
    """Two paths from the star, the target v before the end; positions of the end node as the formulas take them."""
    for order in ORDERS:
        nodes = tokens(order)
        assert nodes[8:] == (END, 0) and nodes[end_position(order)] == END and nodes[end_position(order) - 1] == V
        assert sorted(zip(nodes[:8:2], nodes[1:8:2], strict=True)) == sorted(circuit_edges())


def test_numbers_are_published_on_the_safe_side():
    """Rounded decimals leave room on the side that proves less."""
    rng = np.random.default_rng(1)
    for x in [Fraction(float(v)) for v in rng.standard_normal(50)] + [Fraction(0), Fraction(1)]:
        assert rounded_down(x) <= x - Fraction(1, 10**6) and x + Fraction(1, 10**6) <= rounded_up(x)
    with ctx.workprec(60):
        third = arb(1) / 3
        assert lower(third) < Fraction(1, 3) < upper(third)


def test_a_tail_begins_where_its_variable_falls():
    """gamma e^-gamma rises below 1, so that no ball of its values there would be one for all that follow."""
    with pytest.raises(ValueError, match="decreases"):
        circuit.beyond(Fraction(1, 2))


def circuit_edges():
    """The edges of the graph."""
    return [(0, 1), (1, 2), (0, 3), (3, 4)]


def parsed(text):
    """An exact number of a claim."""
    from certify.certificate import parse

    return parse(text)
