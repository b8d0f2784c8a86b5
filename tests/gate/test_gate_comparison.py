"""The comparison: every pair of verdicts, every way a bound or a question can change."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from gate_reports import change_of, claim, codes_of, refuted, report, undecided
from hypothesis import given
from hypothesis import strategies as st

from certify.certificate import Report, to_hex
from certify.errors import InputRejected
from certify.gate import Code, compare, parse_rule
from certify.gate.directions import LARGER_IS_BETTER

MAKERS = {"certified": claim, "refuted": refuted, "undecided": undecided}


@pytest.mark.parametrize("before", MAKERS)
@pytest.mark.parametrize("after", MAKERS)
def test_every_pair_of_verdicts(before, after):
    """What changes to anything but certified fails; to certified it does not, unless both cannot be true."""
    codes = codes_of(MAKERS[before](), MAKERS[after]())
    expected = {
        ("undecided", "certified"): [Code.STRONGER_VERDICT],
        ("refuted", "certified"): [Code.CONTRADICTION],
    }.get((before, after), [] if before == after else [Code.WEAKENED_VERDICT])
    assert codes == expected


def test_a_refuted_claim_that_is_certified_now():
    """No contradiction at another state, for another question, or where the state does not settle the statement."""
    old, new = report(refuted()), report(claim())
    assert not compare(old, new).passed
    assert compare(old, report(claim(), controls={"lam": "0x1p-2"})).passed
    stage = "contraction/face"
    assert codes_of(refuted(stage), claim(stage)) == [Code.STRONGER_VERDICT]
    assert Code.CONTRADICTION not in codes_of(refuted(), claim(parameters={"format": "float32"}))


def test_a_lost_and_a_new_claim():
    """A claim that is gone fails, whatever its verdict was; a new one never does."""
    for maker in MAKERS.values():
        comparison = compare(report(claim("a"), maker("b")), report(claim("a"), maker("c")))
        assert [change.id for change in comparison.failed] == ["b"]
        assert [[f.code for f in change.findings] for change in comparison.changes] == [
            [],
            [Code.LOST_CLAIM],
            [Code.NEW_CLAIM],
        ]
        assert comparison.headline == "regressed: 1 of 2 claims of the baseline, 1 new"


@pytest.mark.parametrize("name", ["eps_W", "q", "count", "floor", "max_magnitude", "unheard_of", *LARGER_IS_BETTER])
def test_the_direction_of_a_bound(name):
    """Smaller is better but for a few, and only the worse direction can fail."""
    low, high = claim(bounds={name: "0x1p-3"}), claim(bounds={name: "0x1.8p-3"})
    worse, better = (low, high) if name not in LARGER_IS_BETTER else (high, low)
    assert codes_of(worse, better, f"{name}:0") == [Code.WORSE_BOUND]
    assert codes_of(better, worse, f"{name}:0") == [Code.BETTER_BOUND]
    assert codes_of(worse, better) == [Code.SLIPPED_BOUND]


@pytest.mark.parametrize(
    ("before", "after", "rule", "fails"),
    [
        ("10", "11", "x:10%", False),
        ("10", "0x1.6000000000001p+3", "x:10%", True),
        ("1/3", "11/30", "x:10%", False),
        ("1", "0x1.0000000000001p+0", "x:0", True),
        ("1", "1", "x:0", False),
        ("0", "0", "x:10%", False),
        ("0", "0x1p-1074", "x:10%", True),
        ("0", "0x1p-1074", "x:1e-9", False),
        ("-10", "-9", "x:10%", False),
        ("-10", "-8", "x:10%", True),
        ("1", "0x1p+900", "x:1e300", False),
    ],
)
def test_how_much_worse_is_allowed(before, after, rule, fails):
    """Exactly the amount and no more, in fractions."""
    change = change_of(claim(bounds={"x": before}), claim(bounds={"x": after}), rule)
    assert bool(change.failures) == fails
    assert all("x is worse" in finding.message and rule in finding.message for finding in change.failures)


def test_every_rule_that_fits_must_hold():
    """The broken ones are named, the others are not."""
    old, new = claim(bounds={"eps_W": "100"}), claim(bounds={"eps_W": "120"})
    rules = ("eps_W:25%", "rounding/*:eps_*:10%", "contraction/*:eps_W:0", "*:15")
    (finding,) = change_of(old, new, *rules).failures
    assert finding.message == (
        "eps_W is worse by 20 %: 100 -> 120, allowed is 10% ('rounding/*:eps_*:10%') and 15 ('*:15')"
    )


def test_small_changes_are_kept_to_themselves():
    """A bound that is worse by at most 1 % is no finding unless a rule forbids it, but stands among the bounds."""
    change = change_of(claim(bounds={"x": "100"}), claim(bounds={"x": "101"}))
    assert not change.findings
    assert change.bounds[0].relative == Fraction(1, 100)


def test_a_lost_and_a_new_bound():
    """A bound of a decided claim that is gone fails; of an undecided one nothing is compared."""
    both, one = {"q": "1/2", "entry_radius": "1"}, {"q": "1/2"}
    assert codes_of(claim(bounds=both), claim(bounds=one)) == [Code.LOST_BOUND]
    assert codes_of(claim(bounds=one), claim(bounds=both)) == [Code.NEW_BOUND]
    assert codes_of(refuted(bounds=both), refuted(bounds=one)) == [Code.LOST_BOUND]
    assert codes_of(undecided(bounds=both), undecided(bounds=one), "q:0") == []


def test_a_weakened_claim_has_one_finding():
    """Its bounds are gone with its verdict, and it says why."""
    (finding,) = change_of(claim(), undecided(reason="d + eps > (1 - q) r"), "*:0").findings
    assert finding.message == "was certified and is undecided: d + eps > (1 - q) r"


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"format": "float32", "order": "serial", "region": {"kind": "ball", "radius": "0x1p-8"}}},
        {"parameters": {"format": "float32", "order": "serial", "region": {"kind": "point"}}},
        {"parameters": {"format": "float32", "order": "serial"}},
        {"parameters": {"format": "float64", "order": "serial", "region": {"kind": "ball", "radius": "0x1p-7"}}},
        {"semantics": "real"},
        {"kind": "range"},
    ],
)
def test_another_question_under_the_same_id(changes):
    """A smaller ball has smaller bounds, and proves less: the gate must not pass it."""
    assert codes_of(claim(), claim(**changes)) == [Code.CHANGED_QUESTION]


def test_what_a_run_computes_is_no_question():
    """Radii that were searched, step sizes of the state and the like may change."""
    old = claim("updates/float64", parameters={"tol": "0x1p-20", "gamma": "0x1p-3", "radius": "0x1p-7"})
    new = replace(old, parameters={"tol": "0x1p-20", "gamma": "0x1p-4", "radius": "0x1p-8"})
    assert codes_of(old, new) == []
    assert "its tol was 9.53674e-07 and is 0.5" in str(change_of(old, replace(new, parameters={"tol": "0x1p-1"})))


def test_a_new_assumption():
    """A proof that takes more for granted proves less; one that takes less for granted passes."""
    assert codes_of(claim(), claim(assumptions=["round to nearest", "no subnormals"])) == [Code.NEW_ASSUMPTION]
    assert codes_of(claim(), claim(assumptions=[])) == []


def test_the_format_of_a_precision_claim():
    """It is the answer: a finer one is a loss, a coarser one a gain."""

    def needs(name):
        return claim("precision/1e-06", parameters={"tol": "0x1p-20", "format": name}, bounds={})

    assert codes_of(needs("float32"), needs("float64")) == [Code.FINER_FORMAT]
    assert codes_of(needs("float32"), needs("float16")) == [Code.COARSER_FORMAT]
    assert codes_of(needs("float32"), needs("float32")) == []
    assert codes_of(needs("bfloat16"), needs("tf32")) == [Code.FINER_FORMAT]
    assert codes_of(needs("p=12,emin=-14,emax=15"), needs("e4m3")) == [Code.COARSER_FORMAT]
    assert codes_of(needs("float32"), needs("posit8")) == [Code.CHANGED_QUESTION]


@pytest.mark.parametrize("subject", [{"case": "kernel"}, {"p": 4}, {"p": None}, {"kernel": "mine"}])
def test_reports_about_different_things(subject):
    """Refused, with both named: their bounds have nothing to do with each other."""
    with pytest.raises(InputRejected, match="the baseline is about"):
        compare(report(claim()), report(claim(), **subject))


def test_notes():
    """Another state, other controls or versions are said, and fail nothing."""
    other = report(claim(), tensors={"W": {"sha256": "1" * 64, "dtype": "float64", "shape": [3, 3]}}, p_max=8)
    other = Report({**other.producer, "version": "2"}, {**other.subject, "controls": {}}, other.claims)
    comparison = compare(report(claim()), other)
    assert comparison.passed
    assert list(comparison.notes) == [
        "Another state than that of the baseline: W changed.",
        "Other controls than those of the baseline: lam changed.",
        "Another subject than that of the baseline: p_max changed.",
        "Another producer: version '1' made the baseline, '2' this report.",
    ]
    note = "The overall verdict was certified and is undecided."
    assert list(compare(report(claim()), report(claim(), undecided("new"))).notes) == [note]


def test_a_bound_that_is_too_long():
    """Numbers beyond any binary64 would take long to compare: refused, by claim and bound."""
    huge = claim(bounds={"q": "0x1p-999999"})
    with pytest.raises(InputRejected, match="'q' of claim 'rounding/float32/serial/ball'"):
        compare(report(huge), report(huge))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.sampled_from(["eps_W", "q", "mu", "count", "radius", "d"])
CLAIMS = st.dictionaries(
    st.from_regex(r"[a-z]{1,4}/[a-z0-9]{1,6}", fullmatch=True),
    st.dictionaries(NAMES, FLOATS.map(to_hex), min_size=1),
    min_size=1,
    max_size=5,
)


@given(CLAIMS, st.sampled_from([[], ["*:0"], ["*:0%"]]))
def test_a_report_passes_against_itself(bounds, rules):
    """No rule is so strict that the same report fails, and nothing is found."""
    same = report(*(claim(id, bounds=numbers) for id, numbers in bounds.items()))
    comparison = compare(same, same, [parse_rule(rule) for rule in rules])
    assert comparison.passed
    assert not any(change.findings for change in comparison.changes)


@given(CLAIMS, st.data())
def test_one_bound_made_worse_is_named(bounds, data):
    """Whatever else a report holds: just beyond the rule fails and names the claim, at the rule passes."""
    victim = data.draw(st.sampled_from(sorted(bounds)))
    name = data.draw(st.sampled_from(sorted(bounds[victim])))
    permille = data.draw(st.integers(0, 500))
    old = report(*(claim(id, bounds=numbers) for id, numbers in bounds.items()))
    value = compare(old, old).changes[list(bounds).index(victim)].bounds[list(bounds[victim]).index(name)].baseline
    allowed = abs(value) * Fraction(permille, 1000)
    sign = -1 if name in LARGER_IS_BETTER else 1
    for beyond in (Fraction(0), Fraction(1, 2**1100)):
        after = value + sign * (allowed + beyond)
        text = str(after)
        new = report(*(claim(id, bounds={**n, name: text} if id == victim else n) for id, n in bounds.items()))
        failed = compare(old, new, [parse_rule(f"*:{permille // 10}.{permille % 10}%")]).failed
        assert [change.id for change in failed] == ([victim] if beyond else [])
