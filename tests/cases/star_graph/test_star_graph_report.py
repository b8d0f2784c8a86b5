"""Reports of the case: what the checker proves again, what it rejects, and what other states do."""

from __future__ import annotations

import copy
import json
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.star_graph.case import CASE
from certify.cases.star_graph.circuit_claims import circuit_claims
from certify.cases.star_graph.exact_claims import exact_claims
from certify.cases.star_graph.state import circuit_weights, saved_from, state_from
from certify.cases.star_graph.stored import decoding
from star_graph_reports import about, findings, produced, quiet, saved

from certify.certificate import parse, to_text
from certify.checker.document import Rejected
from certify.errors import InputRejected
from certify.states import Saved


@pytest.fixture(scope="module")
def demo():
    """The demo's state, its report in one format, and the files beside it."""
    state = CASE.demo(quiet)[0]
    return state, *produced(state)


def test_the_checker_proves_every_claim_of_the_demo_again(demo):
    """None is left; verdicts agree; the report is certified although published statements are refuted."""
    state, report, files = demo
    found = findings(report, state, files)
    for claim in report["claims"]:
        assert found[claim["id"]].verdict == claim["verdict"] != "undecided", found[claim["id"]].sentence
    assert report["verdict"] == "certified"
    kinds = {x["kind"] for x in report["claims"]}
    assert kinds >= {"identity", "margin", "enclosure", "expectation", "counterexample", "rounding", "range"}
    assert sum(x["kind"] == "counterexample" for x in report["claims"]) == 11
    assert not any(name.startswith("counterexample") for name in report["required"])


@pytest.mark.parametrize(
    ("law", "gamma"),
    [
        ("first", 0.5),
        ("end first", 3.0),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in (("forward", 2.5), ("weighed", 3.0))),
    ],
)
def test_other_laws_and_gammas_are_proved_again(law, gamma):
    """Fewer orders with other weights, and one alone; at a gamma below the threshold the first step is refuted."""
    state = saved(law, gamma)
    read = state_from(state)
    claims = [*circuit_claims(read.law, read.gamma), *exact_claims(read.law)]
    found = findings(about(state, claims), state)
    for claim in claims:
        assert found[claim.id].verdict == claim.verdict != "undecided", found[claim.id].sentence
    names = {x.id for x in claims}
    assert ("margin/always-right" in names) is (law == "end first") is ("margin/threshold" not in names)
    first = next(x for x in claims if x.id == "margin/first-step")
    assert first.verdict == ("certified" if gamma == 3.0 else "refuted")


def moved(text, up):
    """A number a twentieth of itself (or of 1/100) away from this one."""
    value = parse(text)
    return to_text(value + (1 if up else -1) * max(abs(value), Fraction(1, 100)) / 20)


#: Bounds that may honestly be weaker on one side, by whether that side is up; all others are exact.
WEAKER = {"margin": False, "excess": False, "low": False, "high": True}
#: Here the same names are exact numbers, or say something else.
EXACT = ("margin/phase-one/m=4", "margin/phase-one/m=8", "counterexample/second-phase-loss")


@pytest.mark.parametrize("place", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("up", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_number_of_every_claim_is_checked(demo, place, up):
    """A bound of each claim moved by a twentieth, to the side that says more, or to either if it is exact: all are rejected."""
    state, report, files = demo
    altered, names = copy.deepcopy(report), []
    for claim in altered["claims"]:
        name = next(iter(list(claim["bounds"])[place:]), None)
        free = claim["kind"] in ("rounding", "range") or claim["id"] == "identity/factorisation" or "m=8" in claim["id"]
        if name is None or free or (claim["id"] not in EXACT and WEAKER.get(name) == up):
            continue
        claim["bounds"][name] = moved(claim["bounds"][name], up)
        names.append(claim["id"])
    found = findings(altered, state, files)
    for name in names:
        # an inequality that takes too many boxes is given up, not accepted
        wanted = (
            ("rejected", "undecided") if name in ("margin/threshold", "enclosure/first-constant") else ("rejected",)
        )
        assert found[name].verdict in wanted, (name, found[name].sentence)
    assert len(names) > (40 if place == 0 else 12)


def test_a_radius_that_is_too_large_is_rejected(demo):
    """1e-50 is what the factorisation has to keep."""
    state, report, _ = demo
    claim = next(copy.deepcopy(x) for x in report["claims"] if x["id"] == "identity/factorisation")
    claim["bounds"]["radius"] = to_text(Fraction(1, 10**50))
    lone = {**report, "claims": [claim], "required": [claim["id"]], "subject": {**report["subject"], "kernels": {}}}
    assert findings(lone, state)[claim["id"]].verdict == "rejected"


@pytest.mark.parametrize("part", ["statement", "published", "source", "theorem", "reason", "witness"])
def test_words_are_checked(demo, part):
    """Other words in a claim, or a published text of another kind; a reason and a witness are no proof, and free."""
    state, report, files = demo
    lone = copy.deepcopy(report)
    claim = next(x for x in lone["claims"] if x["id"] == "counterexample/first-slope")
    lone["claims"], lone["required"], lone["verdict"] = [claim], [claim["id"]], "refuted"
    if part in ("published", "source"):
        claim["parameters"][part] = "Something else."
    else:
        claim[part] = {"any": "thing"} if part == "witness" else "Something else."
    wanted = "refuted" if part in ("reason", "witness") else "rejected"
    assert findings(lone, state, files)[claim["id"]].verdict == wanted


def test_a_state_that_is_none_is_refused():
    """Missing tensors, wrong shapes, orders that repeat, a negative weight of the law, a gamma out of range."""
    state = saved()
    good = dict(state.tensors)
    bad = [
        {name: x for name, x in good.items() if name != "probe"},
        good | {"orders": good["orders"][:, :3]},
        good | {"orders": good["orders"][[0, 0, *range(2, 24)]]},
        good | {"law": -good["law"]},
        good | {"content_1": np.full((10, 10), np.nan)},
        good | {"clauses": np.array([[1, 2, 8]])},
        good | {"countdown": np.array([[97, 40, 14, 14]])},
    ]
    for tensors in bad:
        with pytest.raises(InputRejected):
            state_from(Saved(tensors, state.metadata))
    for gamma in ("-1", "101", "three"):
        with pytest.raises(InputRejected):
            state_from(Saved(good, {**state.metadata, "gamma": gamma}))


def test_the_checker_refuses_a_state_that_is_none(demo):
    """An order law of other digests, and one that repeats an order."""
    state, report, files = demo
    orders = state.tensors["orders"][[0, 0, *range(2, 24)]]
    other = Saved({**state.tensors, "orders": orders}, state.metadata)
    with pytest.raises(Rejected, match="digests"):
        findings(report, other, files)
    from certify.states import digest

    altered = json.loads(json.dumps(report))
    altered["subject"]["tensors"]["orders"] = digest(orders)
    with pytest.raises(Rejected, match="distinct"):
        findings(altered, other, files)


def test_stored_weights_are_decoded_as_they_are():
    """Weights that treat labels unlike are certified for one labeling each; zero weights are refuted at the first step."""
    weights = circuit_weights(4.0)
    weights["content_2"] = weights["content_2"] + np.diag(np.arange(10) / 64)
    zero = {name: np.zeros((10, 10)) for name in weights}
    for stored, covered, verdict in ((weights, "the first labeling", "certified"), (zero, "all 725760", "refuted")):
        state = saved_from(stored, Fraction(4))
        read = state_from(state)
        claims = decoding(read.law, read.exact_weights)
        assert claims[0].parameters["covered"].startswith(covered) and claims[0].verdict == verdict
        found = findings(about(state, claims), state)
        assert all(found[claim.id].verdict == claim.verdict for claim in claims)


@pytest.mark.parametrize(
    ("id", "parameters"),
    [
        ("enclosure/phase-one/m=4/t=1", {"m": []}),
        ("enclosure/phase-one/m=4/t=1", {"m": True}),
        ("enclosure/phase-one/m=4/t=1", {"t": {}}),
        ("margin/phase-one/m=4", {"m": "4"}),
        ("margin/threshold", {"order": [[], {}, 0, 1]}),
        ("margin/threshold", {"order": "2031"}),
        ("margin/first-step", {"gamma": 4}),
        ("margin/second-gradient", {"least": "-5"}),
        ("margin/second-gradient", {"least": None}),
        ("margin/decoded/float32", {"gammas": ["0x1p+9999"]}),
        ("margin/decoded/float32", {"gammas": [4]}),
        ("margin/decoded/float32", {"wrong": "1/3"}),
        ("margin/decoded/float32", {"rounding": "margin/first-step"}),
        ("margin/decoded/float32", {"rounding": ["x"]}),
        ("expectation/mean-slope/k=1", {"k": 10}),
        ("expectation/mean-slope/k=1", {"k": 2}),
        ("identity/countdown", {"target": "18"}),
        ("enclosure/first-limit", {"limits": [8] * 24}),
        ("identity/star-path", {"path": "49, 18"}),
    ],
)
def test_parameters_of_another_kind_are_rejected(demo, id, parameters):
    """What no run would write is no crash of the checker, and no proof."""
    state, report, files = demo
    altered = copy.deepcopy(report)
    rest = {"rounding/float32/serial/point/kernel=circuit", "margin/first-step", id}
    altered["claims"] = [x for x in altered["claims"] if x["id"] in rest]
    claim = next(x for x in altered["claims"] if x["id"] == id)
    claim["parameters"].update(parameters)
    if "rounding" not in claim["parameters"]:  # what needs no kernel is checked without one, which takes less long
        altered["subject"]["kernels"] = {}
        altered["claims"] = [x for x in altered["claims"] if x["kind"] != "rounding"]
    altered["required"], altered["verdict"] = [id], "certified"
    assert findings(altered, state, files)[id].verdict == "rejected"
