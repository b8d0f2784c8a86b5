"""What the summary makes of claims about the fixed stage: the lines, the worst of several states, numbers and reasons."""

from __future__ import annotations

from fractions import Fraction

import pytest
from certify.cli.contraction import (
    LONGEST_REASON,
    PAPER_PREFIX,
    contraction_factor,
    number_down,
    over_states,
    sections,
    shorter,
    title,
    updates_text,
)

from certify.certificate import Claim, Report, Verdict, to_hex

PRODUCER = {"name": "certify", "version": "0.1.0", "arithmetic": {}}


def method(name, state=None, q=None, radius=0.5, reason="", verdict=None, **changes):
    """A contraction claim as the case makes them: certified if there is a q."""
    return Claim(
        id=f"contraction/{name}" + ("" if state is None else f"/state={state}"),
        kind="contraction",
        statement="s",
        semantics="program",
        parameters={"method": name, "step": "recorded", "tol": to_hex(2.0**-20)},
        verdict=verdict or ("undecided" if q is None else "certified"),
        reason=reason or ("unknown" if q is None else ""),
        bounds={} if q is None else {"q": to_hex(q), "radius": to_hex(radius)},
        **{"observed": {"center_distance": to_hex(0.25), "face": 3, "allowed": 4}, **changes},
    )


def updates(format, state=None, count=None, replayed=0, reason="no reason"):
    """An updates claim: certified if there is a count."""
    return Claim(
        id=f"updates/{format}" + ("" if state is None else f"/state={state}"),
        kind="updates",
        statement="s",
        semantics="program",
        parameters={"format": format, "tol": to_hex(2.0**-20), "replayed": replayed},
        verdict="undecided" if count is None else "certified",
        reason=reason if count is None else "",
        bounds={} if count is None else {"count": str(count)},
    )


def precision(identifier, format, **parameters):
    """A precision claim, of an update or of the stage."""
    return Claim(identifier, "precision", "s", "program", {"format": format, **parameters}, "certified")


def report(*claims):
    """A report of these claims."""
    return Report(PRODUCER, {"case": "polyprox"}, claims)


def test_lines_of_one_state():
    """A line a method with its numbers, the counts, the formats that failed for one reason together, the coarsest."""
    made = report(
        method("global", reason=f"{PAPER_PREFIX}mu > 0 fails: the curvature is only bounded below by -2"),
        method("face", q=0.75),
        updates("float16", reason="no ball is certified in float16 for this tolerance"),
        updates("float32", reason="no ball is certified in float32 for this tolerance"),
        updates("float64", count=1234, replayed=5),
        precision("precision/1e-6", "float64", step="recorded"),
        precision("precision/update/0.5", "float16"),
    )
    (section,) = sections(made)
    assert (section.state, section.away) == (None, "2.5e-01")
    assert [(line.name, line.verdict.value, line.text) for line in section.lines] == [
        ("global", "undecided", "mu > 0 fails: only mu >= -2 proved"),
        ("face", "certified", "radius 5.0e-01  q 0.75  on 3 of 4 entries"),
        ("updates", "certified", "5 replayed, then at most 1,234 in float64"),
        ("updates", "undecided", "in float16, float32: no ball is certified"),
        ("format", "certified", "float64 is the coarsest with a ball that gets there and stays"),
    ]


def test_a_section_for_each_state():
    """In the order of the report, with the numbers of the states."""
    made = report(method("face", 0, q=0.5), method("face", 3), updates("float64", 0, count=1))
    assert [(section.state, len(section.lines)) for section in sections(made)] == [(0, 2), (3, 1)]


def test_all_entries_are_not_counted():
    """A ball on all entries says nothing of a face."""
    (section,) = sections(report(method("local", q=0.5, observed={"face": 4, "allowed": 4})))
    assert section.lines[0].text == "radius 5.0e-01  q 0.50"
    assert section.away == "-"


def test_the_radius_of_a_refusal():
    """The paper's methods say on which ball the last inequality failed."""
    made = method("local", reason=f"{PAPER_PREFIX}q < 1 fails: q = 7", observed={"attempts": [{"radius": "0x1p-1"}]})
    assert sections(report(made))[0].lines[0].text == "q < 1 fails at radius 0.5: q = 7"


@pytest.mark.parametrize("observed", [{}, {"attempts": 3}, {"attempts": [7]}, {"attempts": [{"radius": "x"}]}])
def test_a_refusal_without_a_radius(observed):
    """What is missing or malformed is left out."""
    made = method("local", reason=f"{PAPER_PREFIX}q < 1 fails: q = 7", observed=observed)
    assert sections(report(made))[0].lines[0].text == "q < 1 fails: q = 7"


def test_the_worst_of_several_states():
    """How many have each verdict; the largest q, smallest radius and largest count of the certified; the first refusal."""
    made = report(
        method("face", 0, q=0.5, radius=0.25),
        method("face", 1, q=0.75, radius=0.5),
        method("face", 2, reason="it repels", verdict="refuted"),
        updates("float64", 0, count=10, replayed=90),
        updates("float64", 1, count=50),
    )
    face, counts = over_states(made).lines
    assert (face.name, face.verdict) == ("face", Verdict.REFUTED)
    assert face.text == "certified at 2, refuted at 1 of 3 states; radius 2.5e-01  q 0.75; state 2: it repels"
    assert (counts.name, counts.verdict) == ("updates float64", Verdict.CERTIFIED)
    assert counts.text == "at all 2 states; 90 replayed, then at most 10"


def test_the_title():
    """Names the step and the tolerance; a report without such claims has no section."""
    assert title(report(method("face"))) == (
        "Fixed stage, recorded step: contraction, and updates to within 9.53674e-07"
    )
    assert title(report(precision("precision/update/0.5", "x"))) == ""


@pytest.mark.parametrize(
    ("q", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(7, 10), "0.70"),
        (Fraction(1, 3), "0.34"),  # 1 - q = 0.667, of which 0.66 is proved
        (Fraction(99, 100), "0.990"),
        (1 - Fraction(2154, 10**6), "0.9979"),
        (1 - Fraction(2949, 10**9), "0.9999971"),  # 1 - q = 2.949e-6
        (1 - Fraction(1, 10**9), "1 - 1.0e-09"),
        (Fraction(1), "-"),
        (Fraction(2), "-"),
    ],
)
def test_contraction_factors(q, text):
    """Two digits of 1 - q, never rounded to 1 and never below the proved q."""
    assert contraction_factor(q) == text
    if text.startswith("0."):
        assert Fraction(text) >= q


def test_radii_round_down():
    """A ball that is shown lies in the one proved."""
    assert number_down(Fraction(1999, 1000)) == "1.9e+00"
    assert number_down(Fraction(1999, 1000), 4) == "1.999e+00"


@pytest.mark.parametrize(
    ("count", "replayed", "text"),
    [
        (1, 0, "at most 1 update"),
        (0, 0, "at most 0 updates"),
        (5031, 1812, "1,812 replayed, then at most 5,031"),
    ],
)
def test_counts_in_words(count, replayed, text):
    """Replayed updates come first; thousands have commas."""
    assert updates_text(Fraction(count), replayed) == text


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("q < 1 fails: q = 7; a step size below 0.02 would pass", "a step size below 0.02 would pass, try --step new"),
        ("it repels; a step below 0.02 would contract", "a step below 0.02 would contract, try --step new"),
        ("it is outside the ball; replay the block with --replay", "it is outside the ball; try --replay MAX"),
        ("two\nlines\x1b", "two lines\\x1b"),
    ],
)
def test_reasons_name_the_option(reason, words):
    """What would change the verdict is said as the option of the command, on one clean line."""
    assert shorter(reason).endswith(words)


def test_long_reasons_are_cut():
    """At a space, with a pointer to the whole."""
    text = shorter("word " * 1000)
    assert len(text) < LONGEST_REASON + 30
    assert text.endswith("word (more with --claims)")
