"""What a format decodes: the claims beside runs of the float program, and where attention saturates."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certify.cases.programs import one_program
from certify.cases.star_graph.case import kernel_of
from certify.cases.star_graph.decoded import Decoder, decoded_claim
from certify.cases.star_graph.instances import N, V
from certify.cases.star_graph.state import circuit_weights, state_from
from star_graph_reports import saved

from certify.arithmetic import Ieee, format_named
from certify.certificate import parse
from certify.graph import evaluate, output


@pytest.fixture(scope="module")
def kernel():
    """The layer on all orders."""
    return kernel_of(state_from(saved()), "serial")


def ran(kernel, format, gamma):
    """The two outputs of the float program at the circuit's weights (24, N)."""
    graph, ieee = one_program(kernel.traced.graph), Ieee(format)
    inputs = {name: ieee.constant(x) for name, x in circuit_weights(float(gamma)).items()}
    values = evaluate(graph, ieee, inputs)
    return [output(graph, ieee, values, name).astype(np.float64) for name in ("f1", "f2")]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_a_format_decodes_as_its_enclosures_say(kernel, name):
    """At gammas around the threshold the leads of a run are at least the proved ones, for v and for another label."""
    format = format_named(name)
    decoder = Decoder(kernel, format)
    for k in (36, 41, 42, 45, 64):
        gamma = Fraction(k, 16)
        right, wrong = decoder.leads(gamma)
        f1, _ = ran(kernel, format, gamma)
        leads = f1[:, V] - f1[:, np.arange(N) != V].max(axis=1)
        assert leads.min() >= right and -leads.min() >= wrong
        assert not (right > 0 and wrong > 0)
    assert decoder.leads(Fraction(4))[0] > 0 > decoder.leads(Fraction(2))[0]


def test_the_first_gamma_is_the_one_of_the_table(kernel):
    """float16: right at 21/8, wrong at 5/2, and larger gammas in the claim."""
    rounding = RoundingClaim()
    claim = decoded_claim(kernel, format_named("float16"), state_from(saved()).law, rounding)
    gammas = [parse(x) for x in claim.parameters["gammas"]]
    assert gammas[0] == Fraction(21, 8) and parse(claim.parameters["wrong"]) == Fraction(5, 2) and len(gammas) > 3


def test_attention_saturates_where_it_is_said_to(kernel):
    """The first gamma of the grid 1/16 at which f2[end] rounds to 1 in every order; a measurement, and monotone there."""
    found = {}
    for name, last in (("float16", 16), ("bfloat16", 16), ("float32", 24)):
        format = format_named(name)
        saturated = [k for k in range(64, 16 * last) if (ran_shallow(format, k) == 1)]
        found[name] = saturated[0]
        assert saturated == list(range(saturated[0], 16 * last))
        assert (ran(kernel, format, Fraction(saturated[0], 16))[1][:, 2] == 1).all()
    assert found["bfloat16"] < found["float16"] < found["float32"]


def ran_shallow(format, k):
    """e / (e + 9) as the program computes S1[T, T-1]: ten powers, added from left to right, then the quotient."""
    small = float(format.round(np.exp(-k / 16)))
    total = 0.0
    for power in [small] * 8 + [1.0, small]:
        total = float(format.round(np.float64(total + power)))
    return float(format.round(np.float64(1.0 / total)))


class RoundingClaim:
    """What a decoded claim takes from a rounding claim."""

    id, assumptions, semantics = "rounding/float16/serial/point/kernel=circuit", (), "program"
