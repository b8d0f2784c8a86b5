"""Rounding, range, exactness and precision claims: proved again as they are, rejected when changed."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import pytest
from certify.cases.polyprox import states_from, update_exact
from checker_reports import alone, changed, claim_of, findings, report_of, small_states
from flint import arb, ctx, fmpq

from certify.certificate import to_hex
from certify.checker.curvature import Centre
from certify.checker.saved import States, read

BALL = "rounding/float32/serial/ball/state=0"


@pytest.fixture(scope="module")
def made():
    """Two states, at the second of which float16 overflows."""
    return report_of(small_states(2, rho=60.0), update_tol=1e-3)


def test_every_claim_is_proved_again(made):
    """With the verdict it claims; certified, refuted and undecided ones occur."""
    report, state = made
    found = findings(report, state)
    assert {c["id"]: c["verdict"] for c in report["claims"]} == {f.id: f.verdict for f in found.values()}
    assert {f.verdict for f in found.values()} == {"certified", "refuted", "undecided"}
    assert {f.kind for f in found.values()} == {"exactness", "rounding", "range", "precision"}


def test_own_bounds_are_within_the_published_ones(made):
    """And hardly smaller where they are the same theorem; a majorant claim is proved by the smaller running bound."""
    report, state = made
    for name, f in findings(report, state).items():
        for key, own in f.proved.items():
            published = Fraction(float.fromhex(claim_of(report, name)["bounds"][key]))
            assert own <= published
            assert "majorant" in name or published <= own * (1 + Fraction(1, 1 << 18)) + Fraction(1, 1 << 1070)


def rejected(report, state, name):
    """The sentence by which this claim is rejected."""
    whole = name.startswith("precision")
    found = findings(report if whole else alone(report, name), state)[name]
    assert found.verdict == "rejected"
    assert found.sentence.isprintable()
    return found.sentence


def certified(made, kind, **parameters):
    """Claims of a kind that are certified."""
    return [
        c["id"]
        for c in made[0]["claims"]
        if c["kind"] == kind
        and c["verdict"] == "certified"
        and all(c["parameters"].get(k) == v for k, v in parameters.items())
    ]


def test_a_bound_that_is_too_small_is_rejected(made):
    """Every bound of every certified claim, lowered by the slack and a little; of a majorant claim, below what is proved."""
    report, state = made
    found = findings(report, state)
    for claim in report["claims"]:
        for key, text in claim["bounds"].items():
            value = float.fromhex(text)
            if claim["verdict"] == "certified" and value > 0:
                least = float(found[claim["id"]].proved[key]) if "majorant" in claim["id"] else value
                spoiled = changed(report, claim["id"], "bounds", key, to=to_hex(least * (1 - 2.0**-18)))
                assert key in rejected(spoiled, state, claim["id"])


def test_a_larger_bound_is_true(made):
    """It claims less; what is displayed must follow."""
    report, state = made
    larger = changed(report, BALL, "bounds", "eps_W", to="0x1p-9")
    assert "displayed" in rejected(larger, state, BALL)
    assert "displayed" in rejected(changed(report, BALL, "display", "eps_W", to="small"), state, BALL)
    assert findings(changed(larger, BALL, "display", "eps_W", to="1.96e-03"), state)[BALL].verdict == "certified"


@pytest.mark.parametrize("key", ["statement", "semantics", "assumptions", "theorem"])
def test_the_words_follow_from_kind_and_parameters(made, key):
    """In every claim that is proved."""
    report, state = made
    for name in [c["id"] for c in report["claims"] if c["verdict"] != "undecided"]:
        value = claim_of(report, name)[key]
        other = "any-order" if key == "semantics" else [*value, "more"] if key == "assumptions" else value + "."
        assert key in rejected(changed(report, name, key, to=other), state, name)


def test_parameters_decide(made):
    """Each parameter of each certified claim, replaced or left out, gives another claim than this one."""
    report, state = made
    others = {
        "state": 1,
        "format": "bfloat16",
        "order": "pairwise",
        "method": "none",
        "limit": "0x1p+3",
        "tol": "0x1p-3",
    }
    others |= {"region": {"kind": "ball", "radius": "0x1p-3"}, "formats": ["float32"], "claims": []}
    for kind in ("exactness", "rounding", "range", "precision"):
        name = certified(made, kind)[0]
        for key in claim_of(report, name)["parameters"]:
            spoiled = changed(report, name, "parameters", key, to=others[key])
            missing = copy.deepcopy(report)
            del claim_of(missing, name)["parameters"][key]
            for bad in (spoiled, missing, changed(report, name, "parameters", "more", to=1)):
                bad = bad if kind == "precision" else alone(bad, name)
                assert findings(bad, state)[name].verdict == "rejected"


@pytest.mark.parametrize(
    "region", [{"kind": "ball", "radius": "0x0p+0"}, {"kind": "ball"}, {"kind": "box"}, None, "point"]
)
def test_a_region_is_a_point_or_a_ball(made, region):
    """Anything else is no region."""
    report, state = made
    rejected(changed(report, BALL, "parameters", "region", to=region), state, BALL)


@pytest.mark.parametrize("verdict", ["certified", "refuted", "undecided"])
def test_a_verdict_cannot_be_exchanged(made, verdict):
    """A refuted range is not certified, nor the other way round; a claim may be left undecided."""
    report, state = made
    wrong = {
        "certified": "range/float16/serial/point/state=1",
        "refuted": "range/float32/serial/point/state=1",
        "undecided": "range/float16/serial/ball/state=1",
    }[verdict]
    spoiled = changed(changed(report, wrong, "verdict", to=verdict), wrong, "reason", to="because")
    spoiled |= {"required": [wrong], "verdict": verdict}
    if verdict == "undecided":
        assert findings(spoiled, state)[wrong].verdict == "undecided"
    else:
        rejected(spoiled, state, wrong)


def test_an_overflow_is_replayed(made):
    """From the witness the program must overflow where the claim says, first of all operations."""
    report, state = made
    name = "range/float16/serial/point/state=1"
    witness = claim_of(report, name)["witness"]
    for key, value in (("layer", "1"), ("register", "B"), ("W", witness["W"][1:]), ("W", None), ("node", "x")):
        rejected(changed(report, name, "witness", key, to=value), state, name)
    moved = [*witness["W"]]
    moved[1] = to_hex(math.nextafter(float.fromhex(moved[1]), math.inf))
    assert "outside" in rejected(changed(report, name, "witness", "W", to=moved), state, name)
    moved = ["0x1p-20", *witness["W"][1:]]  # on the diagonal
    assert "mask" in rejected(changed(report, name, "witness", "W", to=moved), state, name)
    rejected(changed(report, name, "witness", to=None), state, name)
    ball = "range/float16/serial/ball/state=1"
    far = ["0x0p+0"] * 9
    assert "outside" in rejected(changed(report, ball, "witness", "W", to=far), state, ball)


def test_enough_means_every_state_and_ball(made):
    """The precision claim falls with a claim it rests on, and does not survive without one."""
    report, state = made
    name = "precision/update/0.001"
    assert claim_of(report, name)["parameters"]["format"] == "float32"
    ids = claim_of(report, name)["parameters"]["claims"]
    for part in ids:
        without = copy.deepcopy(report)
        without["claims"] = [c for c in without["claims"] if c["id"] != part]
        claim_of(without, name)["parameters"]["claims"] = [x for x in ids if x != part]
        without["required"] = [name]
        assert findings(without, state)[name].verdict == "rejected"
    spoiled = changed(report, BALL, "bounds", "eps_W", to="0x1p-40")
    assert "rests on" in findings(spoiled, state)[name].sentence
    finer = changed(report, name, "parameters", "format", to="float64")
    assert findings(finer, state)[name].verdict == "rejected"


def test_a_coarser_format_that_is_enough_is_found():
    """float64 is not the coarsest format that is enough if float32 is."""
    report, state = report_of(small_states(), update_tol=1.0)
    name = "precision/update/1.0"
    claim = claim_of(report, name)
    assert claim["parameters"]["format"] == "float16"
    finer = changed(report, name, "parameters", "format", to="float32")
    claim_of(finer, name)["statement"] = (
        claim["statement"].replace("float16 is", "float32 is").replace("in float16", "in float32")
    )
    ids = [x.replace("float16", "float32") for x in claim["parameters"]["claims"]]
    claim_of(finer, name)["parameters"]["claims"] = ids
    assert "coarser" in findings(finer, state)[name].sentence


def test_a_kind_that_is_unknown_is_not_passed(made):
    """Nor rejected."""
    report, state = made
    strange = {**copy.deepcopy(report["claims"][0]), "id": "magic/point", "kind": "magic"}
    report = copy.deepcopy(report)
    report["claims"].append(strange)
    report["required"] = [report["claims"][0]["id"]]
    report["verdict"] = "certified"
    found = findings(report, state)["magic/point"]
    assert (found.claimed, found.verdict) == ("certified", "undecided")


def test_exactness_is_equality(made, monkeypatch):
    """A difference of 2**-3000 is one; numbers that the working precision cannot hold settle nothing."""
    report, state = made
    name = "exactness/point/state=0"
    for change, verdict in ((arb(2) ** -3000, "rejected"), (arb(0, 2.0**-1000), "undecided")):
        with monkeypatch.context() as patch:
            update = Centre.update
            patch.setattr(Centre, "update", lambda self, x=change, update=update: [y + x for y in update(self)])
            assert findings(alone(report, name), state)[name].verdict == verdict
    assert findings(alone(report, name), state)[name].verdict == "certified"


def test_the_exact_update_is_that_of_the_definition(made):
    """The checker's matrix powers against the producer's, as rationals."""
    saved = read(made[1], "it")
    import numpy as np

    from certify.states import Saved

    arrays = {n: np.array(t.values(), dtype=t.dtype).reshape(t.shape) for n, t in saved.tensors.items()}
    for k, theirs in enumerate(states_from(Saved(arrays, saved.metadata))):
        wanted = [x for row in update_exact(theirs).W for x in row]
        with ctx.workprec(1 << 18):
            mine = Centre(States(saved).state(k)).update()
            assert all(x == arb(fmpq(y.numerator, y.denominator)) for x, y in zip(mine, wanted, strict=True))


def test_a_claim_by_the_bare_name_of_its_kind(made):
    """Rejected like any other false id, also where another claim counts the formats of all."""
    report, state = made
    spoiled = copy.deepcopy(report)
    claim = claim_of(spoiled, "range/float32/serial/point/state=1")
    claim["id"] = "range"
    spoiled["required"] = [c["id"] for c in spoiled["claims"] if c["verdict"] == "certified"][:1]
    spoiled["verdict"] = "certified"
    found = findings(spoiled, state)
    assert found["range"].verdict == "rejected"
    assert found["precision/update/0.001"].verdict == "rejected"
