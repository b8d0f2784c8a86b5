"""What the gate writes: valid by the published schemas, the same every time, and harmless whatever a report says."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema
from gate_reports import claim, refuted, report, undecided

from certify.certificate import encode
from certify.gate import Code, Source, compare, github, junit, lines_of, parse_rule, sarif, text
from certify.gate import json as gate_json
from certify.gate.numbers import percent, shown

DATA = Path(__file__).parents[1] / "data"
HOSTILE = "\x1b]0;owned\x07 ]]> <b> & \"' | ` %0A ::error:: @all \u202e \ufffe \U0001f600 \r\n::warning::x"
SOURCE = Source("tests/a b%,:.json", "now.json", {"rounding/worse": 17})
RENDERERS = {"text": text, "json": gate_json, "junit": junit, "sarif": sarif, "github": github}


def comparison_of(hostile=""):
    """A comparison that has every code, with `hostile` in every text that a report is free to choose."""
    precision = {"tol": "0x1p-20", "formats": ["float16", "float32", "float64"]}
    bound = f"x{hostile}"
    old = [
        claim("rounding/same"),
        claim("rounding/lost"),
        claim("rounding/weakened"),
        refuted("rounding/contradiction"),
        claim("rounding/question", parameters={"region": {hostile: hostile}}),
        claim("rounding/assumption"),
        claim("precision/finer", parameters={**precision, "format": "float16"}, bounds={}),
        claim("precision/coarser", parameters={**precision, "format": "float32"}, bounds={}),
        claim("rounding/lost-bound", bounds={bound: "1", "q": "1"}),
        claim("rounding/new-bound", bounds={"q": "1"}),
        claim("rounding/worse", bounds={"eps_W": "0", bound: "1", "count": "44"}),
        claim("rounding/slipped", bounds={"q": "44", bound: "44"}),
        claim("rounding/better", bounds={bound: "0x1p-30"}),
        undecided("rounding/stronger"),
    ]
    new = [
        claim("rounding/same"),
        undecided("rounding/weakened", reason=f"no{hostile}"),
        claim("rounding/contradiction"),
        claim("rounding/question", parameters={"region": {hostile: hostile + "x"}}),
        claim("rounding/assumption", assumptions=[f"round to nearest{hostile}x"]),
        claim("precision/finer", parameters={**precision, "format": "float64"}, bounds={}),
        claim("precision/coarser", parameters={**precision, "format": "float16"}, bounds={}),
        claim("rounding/lost-bound", bounds={"q": "1"}),
        claim("rounding/new-bound", bounds={"q": "1", bound: "1"}),
        claim("rounding/worse", bounds={"eps_W": "0x1p-40", bound: "1", "count": "45"}),
        claim("rounding/slipped", bounds={"q": "45", bound: "45"}),
        claim("rounding/better", bounds={bound: "0x1p-31"}),
        claim("rounding/stronger"),
        refuted("rounding/new"),
    ]
    subject = {f"more{hostile}": hostile}
    rules = [parse_rule("eps_W:0%"), parse_rule("rounding/worse:[!q]*:1%")]
    return compare(report(*old), report(*new, **subject), rules)


@pytest.fixture(params=["", HOSTILE], ids=["plain", "hostile"])
def comparison(request):
    """One with every code, its texts good or bad."""
    return comparison_of(request.param)


def test_every_code_occurs(comparison):
    """So that the tests below see all of them."""
    assert {code for code in Code if comparison.count(code)} == set(Code)
    assert all(code.meaning.endswith(".") for code in Code)


def test_sarif_is_valid(comparison):
    """By the schema of the OASIS standard; an error a failure; each result at the line of its claim in the baseline."""
    log = json.loads(sarif.render(comparison, SOURCE))
    schema = json.loads((DATA / "sarif-schema-2.1.0.json").read_text("utf-8"))
    assert log["$schema"] == schema["id"]
    jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    errors = [result for result in run["results"] if result["level"] == "error"]
    assert len(errors) == sum(len(change.failures) for change in comparison.changes)
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "tests/a%20b%25%2C%3A.json"
        name = location["logicalLocations"][0]["fullyQualifiedName"]
        assert location["physicalLocation"]["region"]["startLine"] == (17 if name == "rounding/worse" else 1)
    prints = [result["partialFingerprints"]["certifyGate/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


def test_sarif_of_a_pass():
    """Valid with no result, and an absolute path is a URI."""
    same = compare(report(claim()), report(claim()))
    log = json.loads(sarif.render(same, Source("/a b/c.json", "-")))
    assert log["runs"][0]["results"] == []
    assert log["runs"][0]["invocations"][0]["exitCode"] == 0
    worse = compare(report(claim()), report(undecided()))
    (result,) = json.loads(sarif.render(worse, Source("/a b/c.json", "-")))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///a%20b/c.json"


def test_junit_is_valid(comparison):
    """By the schema of Jenkins; a test case a claim, failed where the claim fails."""
    document = junit.render(comparison, SOURCE)
    xmlschema.XMLSchema(DATA / "junit-10.xsd").validate(document)
    root = ElementTree.fromstring(document.encode())
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert list(cases) == [change.id for change in comparison.changes]
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {change.id for change in comparison.failed}
    assert (root.get("tests"), root.get("failures")) == (str(len(cases)), str(len(failed)))


def test_json_says_everything(comparison):
    """Each claim, finding and bound, exactly as in the reports."""
    document = json.loads(gate_json.render(comparison, SOURCE))
    assert document["schema"] == "certify-gate/1"
    assert document["passed"] is False
    by_id = {change["id"]: change for change in document["changes"]}
    assert {f["code"] for change in document["changes"] for f in change["findings"]} == set(Code)
    assert by_id["rounding/lost"]["verdict"] == {"baseline": "certified", "current": None}
    zero, _, count = by_id["rounding/worse"]["bounds"]
    assert (zero["baseline"], zero["current"], zero["worse_by"], zero["worse_by_relative"]) == (
        "0",
        "0x1p-40",
        "0x1p-40",
        None,
    )
    assert (count["worse_by"], count["worse_by_relative"], count["display"]["change"]) == ("1", "1/44", "+2.28 %")
    assert count["broken_rules"] == ["rounding/worse:[!q]*:1%"]
    assert sum(document["counts"].values()) >= len(document["changes"]) - 1


@pytest.mark.parametrize("name", RENDERERS)
def test_no_control_characters(name):
    """Nothing that a report says reaches a terminal or a log as it is; line breaks are the format's own."""
    render = RENDERERS[name].render
    plain, hostile = (render(comparison_of(said), SOURCE) for said in ("", HOSTILE))
    if name == "json":  # where every name is kept, escaped as JSON does it
        hostile = json.dumps(json.loads(hostile))
        plain = json.dumps(json.loads(plain))
    else:
        assert all(c.isprintable() or c == "\n" for c in hostile)
    if name != "text":  # its lines are wrapped
        assert hostile.count("\n") == plain.count("\n")
    assert render(comparison_of(), SOURCE) == render(comparison_of(), SOURCE)


def test_the_text():
    """How it went, what failed, what else changed; a row a bound, under its claim."""
    lines = text.render(comparison_of(), SOURCE).splitlines()
    assert lines[0] == "certify gate regressed: 8 of 14 claims of the baseline, 1 new"
    titles = [line for line in lines if line and lines[lines.index(line) - 1] == ""]
    assert titles == ["Failed", "Worse, and no rule forbids it", "Better", "New"]
    assert max(map(len, lines)) <= 80
    flat = [" ".join(line.split()) for line in lines]
    assert "count 44 45 2.28 % worse 1%" in flat
    assert "eps_W 0 9.10e-13 worse than 0 0%, 1%" in flat
    assert "is gone; it was certified" in flat
    assert "needed float16 and needs float64" in flat
    passed = text.render(compare(report(claim()), report(claim(bounds={"eps_W": "0x1.008p-20"}))), SOURCE)
    assert "passed: 1 claim of the baseline" in passed
    assert passed.endswith("Worse by at most 1 %, and no rule forbids it: 1 claim")


def test_github_annotations_are_escaped():
    """A percent sign, a colon or a comma of a path cannot end a property; a message cannot begin a command."""
    lines = github.render(comparison_of(HOSTILE), SOURCE).splitlines()
    shape = re.compile(
        r"::(error|warning|notice) (file=tests/a b%25%2C%3A\.json,line=(17|1),)?title=certify gate(%3A [a-z ]+)?::[^\n]+"
    )
    assert all(shape.fullmatch(line) for line in lines), lines
    assert sum(line.startswith("::error ") for line in lines) == 9
    assert "%2520A" not in lines[0]


def test_github_shows_ten_annotations_and_says_so():
    """The tenth counts the rest, which are in the summary."""
    many = [claim(f"rounding/{i}") for i in range(30)]
    comparison = compare(report(*many), report(*many[15:]))
    errors = [line for line in github.render(comparison, SOURCE).splitlines() if line.startswith("::error")]
    assert len(errors) == 10
    assert errors[-1].endswith("::6 more, see the job summary")
    assert github.summary(comparison, SOURCE).count("| lost-claim |") == 15


def test_the_job_summary():
    """Markdown tables whose cells nothing breaks out of."""
    summary = github.summary(comparison_of(HOSTILE), SOURCE)
    assert summary.startswith("## ❌ certify gate regressed: 8 of 14")
    rows = [line for line in summary.splitlines() if line.startswith("|")]
    assert all(row.count("|") == 4 for row in rows)
    assert "<b>" not in summary and "@all" not in summary
    many = [claim(f"rounding/{i}") for i in range(500)]
    long = github.summary(compare(report(*many), report(claim("other"))), SOURCE)
    assert "100 more rows are left out." in long
    assert github.summary(compare(report(*many), report(*many)), SOURCE).startswith("## ✅ certify gate passed")


def test_the_lines_of_a_report():
    """Those of the ids of its claims, as `certify run` writes them; a report on one line has none."""
    data = encode(report(claim("a"), claim("b")))
    lines = lines_of(data)
    assert list(lines) == ["a", "b"]
    assert all(data.splitlines()[number - 1].strip() == f'"id": "{id}",'.encode() for id, number in lines.items())
    assert lines_of(json.dumps(json.loads(data)).encode()) == {}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Fraction(44), Fraction(45), ("44", "45")),
        (Fraction(1, 3), Fraction(1, 3), ("3.34e-01", "3.34e-01")),
        (Fraction(100001, 10**7), Fraction(100002, 10**7), ("1.00001e-02", "1.00002e-02")),
        (Fraction(1, 3), Fraction(1, 3) + Fraction(1, 2**60), ("3.3333333333333334e-01", "3.3333333333333334e-01")),
        (None, Fraction(1, 4), ("-", "2.50e-01")),
        (Fraction(10**6), None, ("1.00e+06", "-")),
    ],
)
def test_two_numbers_are_told_apart(before, after, expected):
    """With as many digits as that takes, up to those of binary64; never below the value."""
    assert shown(before, after) == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (None, "from 0"),
        (Fraction(0), "0 %"),
        (Fraction(1, 10), "+10 %"),
        (Fraction(-1, 3), "-33.4 %"),
        (Fraction(1, 10**9), "+1.00e-07 %"),
        (Fraction(10**9), "+1.00e+11 %"),
    ],
)
def test_percentages(part, expected):
    """Signed, three digits, rounded away from zero."""
    assert percent(part) == expected
