"""Reports that nobody vouches for: hostile bytes, numbers outside the grammar, claims out of shape."""

from __future__ import annotations

import copy
import json
from fractions import Fraction

import pytest
from checker_reports import findings, report_of, small_states

from certify.certificate import parse
from certify.checker import Beyond, Rejected, check
from certify.checker.document import binary64, claims_of, number, parse_json


@pytest.fixture(scope="module")
def made():
    """A small report with its state file."""
    return report_of(small_states(), formats=("float32",), update_tol=1e-3)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-3",
        "0x1.8p+1",
        "0x1f3p-40",
        "-0x0p+0",
        "12/7",
        "0x1p-1074",
        "0x1.fffffffffffffp+1023",
        "0x10000000000000000p+0",
    ],
)
def test_numbers_are_read_exactly(text):
    """The value is that of the report's own definition."""
    assert number(text) == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.5",
        "1e3",
        "0x1",
        "+1",
        "01",
        "0x01p0",
        "2/4",
        "1/0",
        "inf",
        "nan",
        " 1",
        "1 ",
        "1_0",
        "0X1p0",
        "0x1P0",
        "٣",
        "1\n",
        "0x1p9999999",
        "0x1p+00",
        "9" * 1001,
        "0x" + "1" * 20000 + "p+0",
        None,
        3,
        1.5,
        ["1"],
        True,
    ],
)
def test_what_is_no_number_is_rejected(text):
    """Decimal points, spaces, other digits, other types, and numbers beyond the limits."""
    with pytest.raises(Rejected):
        number(text)


def test_binary64_is_a_number_that_a_float_holds():
    """1 + 2**-53 and 2**1024 are exact numbers, but no floats."""
    assert binary64("0x1.8p+1") == 3.0
    for text in ("1/3", "0x1.00000000000008p+0", "0x1p+1024", "0x1p-1075"):
        assert number(text) > Fraction(0)
        with pytest.raises(Rejected):
            binary64(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        "[1.0]",
        "[1e400]",
        "[NaN]",
        "[Infinity]",
        "[-Infinity]",
        "[" + "9" * 30 + "]",
        '["\\ud800"]',
        "{",
        "[" * 100000,
        '{"a":' * 100000,
        "[" * 65 + "]" * 65,
        "\ufeff[]",
        "[٣]",
        "[" + "1," * 600001 + "1]",
        "[1]x",
        "",
    ],
)
def test_only_strict_json_is_read(text):
    """One sentence for each, whatever Python's own reader makes of it."""
    with pytest.raises(Rejected) as caught:
        parse_json(text.encode("utf-8", "surrogatepass"), "the report")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("data", [b"\xff\xfe", b'["\xed\xa0\x80"]', b'"\x00"'])
def test_bytes_that_are_no_text_are_rejected(data):
    """Not UTF-8, an encoded surrogate, a control character."""
    with pytest.raises(Rejected):
        parse_json(data, "the report")


def test_truncations_are_rejected(made):
    """A report cut at 200 places is never one with fewer claims."""
    report, state = made
    data = json.dumps(report).encode()
    for cut in range(0, len(data), len(data) // 200 + 1):
        with pytest.raises(Rejected):
            check(data[:cut], state, lambda name: b"")


def test_a_state_file_that_is_cut_or_changed_is_rejected(made):
    """At every tenth byte: shorter, or one bit flipped, it is another file and its digests differ."""
    report, state = made
    data = json.dumps(report).encode()
    for k in range(0, len(state), 10):
        spoiled = bytearray(state)
        spoiled[k] ^= 1
        for bad in (state[:k], bytes(spoiled)):
            with pytest.raises((Rejected, Beyond)):
                check(data, bad, lambda name: b"")


def test_every_key_is_needed_and_no_other_allowed(made):
    """In the report, its producer, its subject and a claim."""
    report, state = made
    for place in ([], ["producer"], ["subject"], ["claims", 0]):
        target = report
        for step in place:
            target = target[step]
        for key in [*target, "more"]:
            spoiled = copy.deepcopy(report)
            inner = spoiled
            for step in place:
                inner = inner[step]
            if key == "more":
                inner[key] = "1"
            elif key in ("required",):
                continue
            else:
                del inner[key]
            with pytest.raises(Rejected):
                findings(spoiled, state)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "x"),
        ("id", "range/x"),
        ("kind", "Range"),
        ("statement", ""),
        ("semantics", "none"),
        ("parameters", []),
        ("verdict", "true"),
        ("verdict", True),
        ("verdict", []),
        ("bounds", {"eps_W": "0.5"}),
        ("bounds", {"eps_W": 1}),
        ("observed", None),
        ("assumptions", [1]),
        ("assumptions", "a"),
        ("theorem", None),
        ("display", {"x": 1}),
        ("witness", []),
        ("witness", {"file": "../x", "sha256": "0" * 64}),
        ("witness", {"file": "x"}),
        ("reason", 1),
    ],
)
def test_a_claim_out_of_shape_is_rejected_by_name(made, key, value):
    """The sentence names the claim."""
    report = copy.deepcopy(made[0])
    claim = report["claims"][1]
    name = claim["id"] if key != "id" else value
    claim[key] = value
    with pytest.raises(Rejected, match=name.replace("/", ".")):
        claims_of(report)


def test_two_claims_with_one_id_are_rejected(made):
    """Neither would be the claim that a gate compares by."""
    report = copy.deepcopy(made[0])
    report["claims"].append(report["claims"][0])
    with pytest.raises(Rejected, match="two claims"):
        claims_of(report)


@pytest.mark.parametrize("verdict", ["refuted", "undecided"])
def test_the_overall_verdict_follows_from_the_claims(made, verdict):
    """A report cannot say other than its required claims."""
    report = copy.deepcopy(made[0]) | {"verdict": verdict}
    with pytest.raises(Rejected, match="its claims give certified"):
        claims_of(report)


@pytest.mark.parametrize("required", [[], ["none"], [1], "all"])
def test_required_claims_are_claims_of_the_report(made, required):
    """Each once, and at least one."""
    with pytest.raises(Rejected):
        claims_of(copy.deepcopy(made[0]) | {"required": required})
    twice = made[0]["claims"][0]["id"]
    with pytest.raises(Rejected):
        claims_of(copy.deepcopy(made[0]) | {"required": [twice, twice]})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("p",), 4),
        (("p",), True),
        (("p_max",), 8),
        (("states",), 1),
        (("case",), "kernel"),
        (("tensors", "W", "sha256"), "0" * 64),
        (("tensors", "W", "dtype"), "float32"),
        (("tensors", "W", "shape"), [9]),
        (("controls", "rho"), "0x1p+1"),
        (("controls", "alpha"), 0),
        (("tensors",), []),
        (("controls",), None),
        (("tensors", "M"), None),
    ],
)
def test_the_subject_is_the_state(made, path, value):
    """Sizes, digests and controls are those of the file."""
    report = copy.deepcopy(made[0])
    place = report["subject"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(Rejected):
        findings(report, made[1])


def test_an_unknown_case_is_beyond_the_checker(made):
    """Not wrong, and not passed."""
    report = copy.deepcopy(made[0])
    report["subject"]["case"] = "other"
    with pytest.raises(Beyond, match="other"):
        findings(report, made[1])


@pytest.mark.parametrize("number", ["0.001", "1e400", "NaN", "-Infinity", "1.0"])
@pytest.mark.parametrize("where", ["bounds", "observed"])
def test_a_number_that_is_not_exact_is_rejected_with_the_name_of_its_claim(made, number, where):
    """As a JSON number, wherever in a claim; elsewhere in the report the number itself is named."""
    report, state = made
    spoiled = copy.deepcopy(report)
    claim = spoiled["claims"][3]
    claim[where]["x"] = "HERE"
    data = json.dumps(spoiled).replace('"HERE"', number).encode()
    with pytest.raises(Rejected, match=f"claim {claim['id']} has the number {number}, which is not exact"):
        check(data, state, lambda name: b"")
    spoiled = {**report, "subject": {**report["subject"], "p": "HERE"}}
    with pytest.raises(Rejected, match=f"the number {number} is not exact"):
        check(json.dumps(spoiled).replace('"HERE"', number).encode(), state, lambda name: b"")
