"""Claims: no verdict without evidence, no number that is not exact."""

import dataclasses
import enum
import itertools
import pickle

import numpy as np
import pytest

from certify.certificate import Claim, Verdict, overall

BASE = {
    "id": "rounding/float32/serial/ball",
    "kind": "rounding",
    "statement": "For every state in the ball the computed W differs from the exact one by at most eps_W.",
    "semantics": "program",
}


def claim(**changes):
    """A certified claim with one bound, changed."""
    return Claim(**{**BASE, "verdict": Verdict.CERTIFIED, "bounds": {"eps_W": "0x1.2p-20"}, **changes})


def test_a_claim_starts_undecided():
    """Nothing is certified by default, and an undecided claim says why."""
    assert Claim(**BASE, reason="the residual is too large").verdict is Verdict.UNDECIDED
    with pytest.raises(ValueError, match="undecided needs a reason"):
        Claim(**BASE)


def test_json_has_the_keys_of_the_format_in_order():
    """The order of report.md, and plain values."""
    found = claim(assumptions=("subnormals",), verdict="certified").to_json()
    assert list(found) == [
        "id", "kind", "statement", "semantics", "parameters", "verdict", "reason", "bounds", "observed",
        "assumptions", "theorem", "witness", "display",
    ]  # fmt: skip
    assert found["verdict"] == "certified" and type(found["verdict"]) is str
    assert found["assumptions"] == ["subnormals"]
    assert Claim(**found) == claim(assumptions=("subnormals",))


COUNTER = {
    "id": "counterexample/sign",
    "kind": "counterexample",
    "verdict": "refuted",
    "reason": "the sign is the other one",
    "bounds": {},
    "witness": {"x": "1"},
    "parameters": {"published": "x is negative", "source": "a paper, Section 1"},
}


def test_comparisons_say_what_was_compared():
    """Margins, orders, means and enclosures need their numbers; an identity may do without; all may be undecided."""
    for kind, bounds in [
        ("margin", {"margin": "1/3"}),
        ("margin", {"low": "1", "high": "2"}),
        ("order", {"gap": "0x1p-3"}),
        ("expectation", {"value": "-137/81000"}),
        ("enclosure", {"low": "-1", "high": "1"}),
        ("identity", {}),
        ("identity", {"radius": "0x1p-200"}),
    ]:
        assert claim(id=f"{kind}/x", kind=kind, bounds=bounds).verdict is Verdict.CERTIFIED
        undecided = claim(id=f"{kind}/x", kind=kind, bounds={}, verdict="undecided", reason="too close")
        assert undecided.verdict is Verdict.UNDECIDED
    assert claim(**COUNTER).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"kind": "margin", "bounds": {"gap": "1"}}, "needs the bounds margin or high and low"),
        ({"kind": "margin", "bounds": {"low": "1"}}, "needs the bounds"),
        ({"kind": "order", "bounds": {"margin": "1"}}, "needs the bounds gap"),
        ({"kind": "expectation", "bounds": {"mean": "1"}}, "needs the bounds value"),
        ({"kind": "enclosure", "bounds": {"high": "1"}}, "needs the bounds high and low"),
        ({**COUNTER, "verdict": "certified"}, "a counterexample is refuted"),
        ({**COUNTER, "witness": None}, "a counterexample is refuted, with a witness"),
        ({**COUNTER, "witness": {}}, "a counterexample is refuted, with a witness"),
        ({**COUNTER, "parameters": {"published": "x"}}, "what was published, and its source"),
        ({**COUNTER, "parameters": {"published": "", "source": "y"}}, "what was published, and its source"),
        ({**COUNTER, "parameters": {"published": ["x"], "source": "y"}}, "what was published, and its source"),
    ],
)
def test_the_schema_says_the_same_of_comparisons(changes, match):
    """What the class refuses, the schema refuses."""
    from jsonschema import Draft202012Validator

    from certify.certificate.report import schema

    whole = schema()
    validator = Draft202012Validator({"$ref": "#/$defs/claim", "$defs": whole["$defs"]})
    good = claim().to_json()
    assert validator.is_valid(good) and validator.is_valid(claim(**COUNTER).to_json())
    assert not validator.is_valid({**good, **changes})
    with pytest.raises(ValueError, match=match):
        claim(**changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"verdict": "refuted"}, "refuted needs a reason"),
        ({"verdict": "proved"}, "proved"),
        ({"bounds": {}}, "needs a bound or a witness"),
        ({"bounds": {}, "witness": {}}, "needs a bound or a witness"),
        ({"semantics": "float"}, "semantics"),
        ({"semantics": "REAL"}, "semantics"),
        ({"id": ""}, "id must match"),
        ({"id": "a b"}, "id must match"),
        ({"id": "a\n"}, "id must match"),
        ({"id": 3}, "int, not str"),
        ({"kind": "Rounding"}, "kind"),
        ({"kind": "rounding\n"}, "kind"),
        ({"statement": ""}, "statement is empty"),
        ({"bounds": {"eps_W": 1e-6}}, "the float 1e-06; write it exactly"),
        ({"bounds": {"eps_W": "1e-6"}}, "'eps_W': '1e-6' is not an exact number"),
        ({"bounds": {"eps_W": "nan"}}, "not an exact number"),
        ({"bounds": {"eps_W": 3}}, "int, not str"),
        ({"bounds": {3: "1"}}, "int, not str"),
        ({"bounds": ["1"]}, "no mapping"),
        ({"bounds": None}, "no mapping"),
        ({"parameters": {"radius": 0.01}}, "the float 0.01"),
        ({"parameters": {"region": {"radius": [float("nan")]}}}, "the float nan"),
        ({"parameters": {"n": np.int64(3)}}, "int64"),
        ({"parameters": {"n": np.float64(3)}}, "the float"),
        ({"parameters": {"n": 2**63}}, "beyond 64 bits"),
        ({"parameters": {"n": {1, 2}}}, "set"),
        ({"parameters": {"text": "\ud800"}}, "not valid Unicode"),
        ({"observed": {"error_W": 1e-7}}, "the float"),
        ({"witness": {"L": [[0.5]]}}, "the float"),
        ({"witness": {"file": "w.safetensors"}}, "plain name and its sha256"),
        ({"witness": {"file": "../w", "sha256": "0" * 64}}, "plain name"),
        ({"witness": {"file": "/etc/w", "sha256": "0" * 64}}, "plain name"),
        ({"witness": {"file": "w", "sha256": "0" * 63}}, "plain name"),
        ({"display": {"eps_W": 1}}, "int, not str"),
        ({"assumptions": [1]}, "int, not str"),
    ],
)
def test_misuse_raises(changes, match):
    """Every violated invariant is a ValueError that names it."""
    with pytest.raises(ValueError, match=match):
        claim(**changes)


def test_deep_values_are_refused():
    """Nesting is bounded below the limit of the reader."""
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        claim(parameters={"x": value})


@pytest.mark.parametrize("kind", ["range", "exactness", "precision"])
def test_kinds_without_numbers(kind):
    """These kinds may be certified by their parameters alone."""
    assert claim(kind=kind, bounds={}).verdict is Verdict.CERTIFIED


def test_a_claim_keeps_its_own_values():
    """Later changes of the producer's containers do not reach the claim; tuples become lists."""
    inner = [1, (2, 3)]
    made = claim(parameters={"x": inner})
    inner.append(4)
    assert made.parameters == {"x": [1, [2, 3]]}


def test_text_of_enumerations_is_stored_as_text():
    """Formats named by a str enumeration come out as their value."""

    class Format(str, enum.Enum):  # noqa: UP042
        SINGLE = "float32"

    stored = claim(parameters={"format": Format.SINGLE}).parameters["format"]
    assert stored == "float32" and type(stored) is str


def test_claims_are_frozen_and_travel_between_processes():
    """A claim cannot be changed, and is the same after pickling."""
    made = claim(witness={"L": ["0x1p+0"]})
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.verdict = Verdict.REFUTED
    assert pickle.loads(pickle.dumps(made)) == made


def test_every_verdict_has_a_remedy():
    """What to do next is said for each."""
    assert len({verdict.remedy for verdict in Verdict}) == 3


def of(verdict, name):
    """A claim with this verdict and id."""
    return claim(id=name, verdict=verdict, reason="because")


@pytest.mark.parametrize("verdicts", list(itertools.product(Verdict, repeat=3)))
def test_overall_of_three(verdicts):
    """Refuted wins; certified needs all; the rest is undecided."""
    claims = [of(verdict, f"c{i}") for i, verdict in enumerate(verdicts)]
    expected = (
        Verdict.REFUTED
        if Verdict.REFUTED in verdicts
        else Verdict.UNDECIDED
        if Verdict.UNDECIDED in verdicts
        else Verdict.CERTIFIED
    )
    assert overall(claims) is expected


def test_overall_of_none_is_undecided():
    """Nothing claimed is nothing certified, whether there is no claim or none counts."""
    assert overall([]) is Verdict.UNDECIDED
    assert overall([of("certified", "a")], required_ids=[]) is Verdict.UNDECIDED


def test_overall_counts_the_required_claims_only():
    """Named claims decide, the others do not; a name without a claim is misuse."""
    claims = [of("certified", "single"), of("undecided", "half"), of("refuted", "quarter")]
    assert overall(claims, ["single"]) is Verdict.CERTIFIED
    assert overall(claims, ["single", "half"]) is Verdict.UNDECIDED
    assert overall(iter(claims), iter(["half", "quarter"])) is Verdict.REFUTED
    with pytest.raises(ValueError, match="'double' is not in the report"):
        overall(claims, ["double"])
