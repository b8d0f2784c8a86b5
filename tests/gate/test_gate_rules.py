"""Rules: what they say, exactly, and what is no rule."""

from __future__ import annotations

from fractions import Fraction

import pytest
from gate_reports import claim, report

from certify.errors import InputRejected
from certify.gate import parse_rule, unused


@pytest.mark.parametrize(
    ("text", "claims", "bound", "amount", "relative"),
    [
        ("eps_W:10%", "*", "eps_W", Fraction(1, 10), True),
        ("q:0", "*", "q", Fraction(0), False),
        ("count:5%", "*", "count", Fraction(1, 20), True),
        ("d:1e-9", "*", "d", Fraction(1, 10**9), False),
        ("q:0.1", "*", "q", Fraction(1, 10), False),
        ("rounding/*:eps_W:12.5 %", "rounding/*", "eps_W", Fraction(1, 8), True),
        ("a:b/c:q:1E+2", "a:b/c", "q", Fraction(100), False),
        (" eps_* : 1 ", "*", "eps_*", Fraction(1), False),
    ],
)
def test_rules_are_read_exactly(text, claims, bound, amount, relative):
    """Decimal amounts are fractions, never floats; claim ids may hold colons."""
    rule = parse_rule(text)
    assert (rule.claims, rule.bound, rule.amount, rule.relative) == (claims, bound, amount, relative)
    assert isinstance(rule.amount, Fraction)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eps_W",
        ":1",
        "eps_W:",
        "eps_W:-1",
        "eps_W:nan",
        "eps_W:inf",
        "eps_W:1/3",
        "eps_W:10%%",
        "eps_W:1e9999",
        "eps_W:0x1p-3",
        "eps_W:1_0",
        "eps_W:\u0661",
        ":eps_W:1",
        "a::1",
        "eps_W:" + "9" * 41,
        "x" * 500 + ":1",
    ],
)
def test_what_is_no_rule(text):
    """One sentence that names the rule, and how one is written."""
    with pytest.raises(InputRejected, match="the rule '") as caught:
        parse_rule(text)
    assert text[:20] in str(caught.value) or not text.isascii()
    assert "'eps_W:10%'" in caught.value.remedy


def test_which_bounds_a_rule_fits():
    """Patterns of the shell, case and slashes included, for claims and bounds."""
    assert parse_rule("eps_W:0").fits("anything/at/all", "eps_W")
    assert not parse_rule("eps_W:0").fits("anything", "EPS_W")
    assert parse_rule("rounding/*:eps_?:0").fits("rounding/float32/serial/ball", "eps_W")
    assert not parse_rule("rounding/*:eps_?:0").fits("contraction/face", "eps_W")


def test_what_a_rule_allows():
    """The amount itself; a percentage of the size of the baseline, so nothing of zero."""
    tenth = parse_rule("x:10%")
    assert tenth.allows(Fraction(-10), Fraction(1))
    assert not tenth.allows(Fraction(10), Fraction(1) + Fraction(1, 10**30))
    assert not tenth.allows(Fraction(0), Fraction(1, 10**30))
    assert parse_rule("x:1e-3").allows(Fraction(0), Fraction(1, 1000))


def test_rules_that_fit_nothing_are_found():
    """A misspelt bound or claim; a bound of either report is enough."""
    rules = [parse_rule(text) for text in ("eps_w:1%", "q:0", "*:0", "contraction/*:eps_W:0", "mu:1%")]
    reports = [report(claim(bounds={"eps_W": "1"})), report(claim(bounds={"q": "1"}))]
    assert [rule.text for rule in unused(rules, reports)] == ["eps_w:1%", "contraction/*:eps_W:0", "mu:1%"]
