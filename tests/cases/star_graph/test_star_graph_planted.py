"""Bugs planted in the producer: the checker rejects what they claim."""

from __future__ import annotations

from fractions import Fraction

import pytest
from certify.cases.star_graph import circuit, circuit_claims, exact, exact_claims, flow, flow_claims, oracle, stored
from certify.cases.star_graph.circuit import Circuit
from certify.cases.star_graph.instances import T
from certify.cases.star_graph.state import state_from
from star_graph_reports import about, findings, saved


def wrong_mask(monkeypatch):
    """Every position of layer 1 sees the token after it."""
    counted = Circuit._counted

    def ahead(self, node):
        seen = [*self.nodes[1:], None]
        return [(before, more + (seen[t] == node)) for t, (before, more) in enumerate(counted(self, node))]

    monkeypatch.setattr(Circuit, "_counted", ahead)
    return lambda state: circuit_claims.limits(state.law), {"enclosure/first-limit"}


def dropped_term(monkeypatch):
    """The derivative of attention without what its other weights lose."""

    def slope(u, k):
        return sum((Fraction(u[r - k], r + 1) for r in range(k, T)), Fraction(0)) / T

    monkeypatch.setattr(exact, "mean_slope", slope)
    wrong = {f"expectation/{name}-slope/k={k}" for name in ("mean", "first", "second") for k in range(1, 10)}
    return lambda state: exact_claims.slopes(state.law), wrong


def wrong_sign(monkeypatch):
    """The drive of Phase II instead of its negative."""
    drive = exact.second_phase_drive
    monkeypatch.setattr(exact, "second_phase_drive", lambda law: [[-x for x in row] for row in drive(law)])
    return lambda state: exact_claims.second_phase(state.law), {"identity/second-phase", "counterexample/second-phase"}


def wrong_index(monkeypatch):
    """The query and the end node before it change places."""
    factorised = oracle.factorised
    monkeypatch.setattr(stored, "factorised", lambda g, weights: factorised((*g[:-2], g[-1], g[-2]), weights))
    return lambda state: stored.decoding(state.law, state.exact_weights), {"margin/stored-first"}


def wrong_number(monkeypatch):
    """A flow with one position fewer."""
    monkeypatch.setattr(flow_claims, "FLOWS", (flow.Flow(4, 4),))
    return lambda state: flow_claims.flow_claims((1,)), {"enclosure/phase-one/m=4/t=1"}


def wrong_exponent(monkeypatch):
    """A token that occurs n times has the logit (n + 1) q."""
    init = circuit.Variables.__init__

    def shifted(self, x, y, gamma=None):
        init(self, x, y, gamma)
        self.attention = {n: ((n + 9) * y).exp() for n in (1, 2, 3)}

    monkeypatch.setattr(circuit.Variables, "__init__", shifted)
    wrong = {"enclosure/attention-constant", "enclosure/first-constant"}
    return lambda state: circuit_claims.constants(state.law), wrong


@pytest.mark.parametrize("plant", [wrong_mask, dropped_term, wrong_sign, wrong_index, wrong_number, wrong_exponent])
def test_a_planted_bug_is_caught(monkeypatch, plant):
    """A wrong mask, a dropped term, a wrong sign, index, number and exponent, each in one place of the producer."""
    state = saved("forward")
    claims, wrong = plant(monkeypatch)
    found = findings(about(state, claims(state_from(state))), state)
    assert {name for name in wrong if found[name].verdict == "rejected"} == wrong


@pytest.mark.parametrize("plant", [wrong_mask, dropped_term, wrong_sign, wrong_index, wrong_number, wrong_exponent])
def test_without_the_bug_the_same_claims_are_proved(plant):
    """So that the tests above say something."""
    state = saved("forward")
    with pytest.MonkeyPatch.context() as monkeypatch:
        claims, wrong = plant(monkeypatch)
    found = findings(about(state, claims(state_from(state))), state)
    assert all(found[name].verdict in ("certified", "refuted") for name in wrong)
