"""What the summary makes of a report: the rows, the worst of several states, and the advice."""

from __future__ import annotations

from fractions import Fraction

import pytest
from certify.cli.summary import Measured, Row, advice, ball_of, basis, number, over_states, rows, tolerance_of

from certify.certificate import Claim, Report, Verdict, to_hex

PRODUCER = {"name": "certify", "version": "0.1.0", "arithmetic": {}}


def claim(kind, format, region, state=None, eps=None, reason="", method="running", order="serial", **changes):
    """A claim as the case makes them: certified if there is a bound, else undecided."""
    suffix = "" if state is None else f"/state={state}"
    extra = "" if method == "running" else f"/{method}"
    where = {"kind": region, **({"radius": "0x1p-1"} if region == "ball" else {})}
    fields = {
        "verdict": "undecided" if eps is None else "certified",
        "reason": reason or ("unknown" if eps is None else ""),
        "bounds": {} if eps is None else {"eps_W" if kind == "rounding" else "max_magnitude": to_hex(eps)},
    }
    return Claim(
        id=f"{kind}/{format}/{order}/{region}{extra}{suffix}",
        kind=kind,
        statement="A statement.",
        semantics="program",
        parameters={"format": format, "order": order, "region": where, "method": method},
        **{**fields, **changes},
    )


def both(format, state=None, point=None, ball=None, **changes):
    """The rounding and range claims of one format at a state and on its ball."""
    return [
        claim(kind, format, region, state, eps, **changes)
        for region, eps in (("point", point), ("ball", ball))
        for kind in ("rounding", "range")
    ]


def report(*claims, required=None):
    """A report of these claims."""
    return Report(PRODUCER, {"case": "polyprox"}, claims, required)


def test_rows_by_state_and_format():
    """One row for each pair, in the order of the report; the majorant's claims have none."""
    coarse = claim("rounding", "float32", "point", 0, 1.0, method="majorant")
    made = report(*both("float16", 0, 0.5, 0.75), *both("float32", 0, 0.25, 0.25), coarse, *both("float16", 1, 0.5))
    found = rows(made)
    assert [(row.state, row.format) for row in found] == [(0, "float16"), (0, "float32"), (1, "float16")]
    assert found[0].point == Measured(Fraction(1, 2)) and found[0].ball == Measured(Fraction(3, 4))
    assert found[1].point.bound == Fraction(1, 4)
    assert [row.verdict for row in found] == ["certified", "certified", "undecided"]
    assert found[0].bound == Fraction(3, 4)
    # certified at the state only: no bound for what the row speaks about
    assert found[2].bound is None


def test_orders_are_kept_apart():
    """The same format in two orders has two rows, and the advice says which."""
    made = report(*both("float32", None, 0.5, 0.5), *both("float32", None, 0.25, 0.25, order="tree"))
    assert [(row.order, row.bound) for row in rows(made)] == [("serial", 0.5), ("tree", 0.25)]
    assert "Use float32 in tree order" in advice(made, Fraction(1, 4))


@pytest.mark.parametrize(
    ("place", "verdict", "region", "risk"),
    [
        ("input rho", "refuted", "point", "input rho overflows"),
        ("input W[1, 2]", "undecided", "point", "input W[1, 2] may overflow"),
        ("register SS, layer 2.1 (block.py:60)", "undecided", "ball", "SS, layer 2.1 may overflow on the ball"),
        ("register SS, layer 2.1 (block.py:60)", "refuted", "ball", "SS, layer 2.1 overflows on the ball"),
    ],
)
def test_the_first_risk_is_named(place, verdict, region, risk):
    """The register and layer, or the input, without the source line, and whether it is proved."""
    made = claim("range", "float16", region, verdict=verdict, reason="another", observed={"first_risk": place})
    (row,) = rows(report(made))
    assert row.risk == risk


@pytest.mark.parametrize("observed", [{}, {"first_risk": 7}, {"first_risk": ""}])
def test_a_risk_without_a_place(observed):
    """The first clause of the reason stands for it."""
    made = claim("range", "float16", "point", reason="W is too large: see there", observed=observed)
    (row,) = rows(report(made))
    assert row.risk == "W is too large"


def test_the_first_risk_is_that_of_the_state():
    """Where both the state and its ball are at risk, the state's is the one to know."""
    claims = [
        claim("range", "float16", "point", reason="input rho overflows", verdict="refuted"),
        claim("range", "float16", "ball", reason="input W may overflow: so"),
    ]
    (row,) = rows(report(*claims))
    assert (row.risk, row.verdict) == ("input rho overflows", Verdict.REFUTED)


def test_the_worst_of_several_states():
    """Fewest digits (9.5 is fewer than 10.2), largest errors, the first risk with its state, the worst verdict."""
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    first = Row(0, "f", "o", "10.2", "exact", Measured(half, quarter), Measured(quarter), "", Verdict.CERTIFIED)
    second = Row(1, "f", "o", "9.5", "3.0", Measured(quarter, half), Measured(half), "x overflows", Verdict.REFUTED)
    (worst,) = over_states([first, second])
    assert (worst.digits_norm, worst.digits_worst) == ("9.5", "3.0")
    assert worst.point == Measured(half, half)
    assert worst.ball == Measured(half, None)
    assert worst.risk == "x overflows at state 1"
    assert worst.verdict is Verdict.REFUTED


def test_what_is_unknown_at_one_state_is_unknown():
    """A bound that is missing at one state is no bound for all."""
    known = Row(0, "f", "o", "3.0", "2.0", Measured(Fraction(1)), Measured(Fraction(1)), "", Verdict.CERTIFIED)
    (worst,) = over_states([known, Row(1, "f", "o")])
    assert worst.point.bound is None and worst.bound is None
    assert worst.digits_norm == worst.digits_worst == "-"


def test_advice_names_the_coarsest_that_is_enough():
    """bfloat16 before float16 before float32, whatever the order of the report; coarser ones with their reason."""
    made = report(
        *both("float64", None, 2**-50, 2**-50),
        *both("float16", None, 2**-8, 2**-8),
        *both("bfloat16", None, 0.5, 0.5),
    )
    assert advice(made, None).startswith("Use bfloat16, the coarsest format certified: ")
    sentence = advice(made, Fraction(1, 100))
    assert sentence.startswith("Use float16, the coarsest format proved enough for 0.01: ")
    assert "at most 4.0e-03 in W" in sentence  # 2**-8 = 0.00390625, rounded up
    assert "bfloat16 is too coarse, its bound is 5.0e-01" in sentence
    assert "float64" not in sentence


def test_a_format_that_leaves_no_digit_is_not_advised():
    """Certified, but with a bound as large as the result: the next one is named, unless a tolerance is enough for it."""
    digits = {"display": {"digits_norm": "0.4", "digits_worst": "0.0"}}
    made = report(
        claim("rounding", "bfloat16", "point", eps=0.5, **digits), claim("rounding", "float16", "point", eps=0.25)
    )
    assert advice(made, None).startswith("Use float16, the coarsest format certified")
    assert advice(made, None).endswith("bfloat16 leaves no digit.")
    assert advice(made, Fraction(1, 2)).startswith("Use bfloat16")


def test_advice_at_the_tolerance_itself():
    """A bound equal to the tolerance is enough; the next number below is not."""
    made = report(*both("float32", None, 0.25, 0.25))
    assert advice(made, Fraction(1, 4)).startswith("Use float32")
    assert advice(made, Fraction(1, 4) - Fraction(1, 10**30)).startswith("No format tried is proved enough")


def test_advice_where_nothing_is_enough():
    """Every format with its reason, and remedies that can help: float64 only if it was not tried."""
    overflow = claim("range", "float16", "point", reason="input rho overflows", verdict="refuted")
    made = report(overflow, *both("float32", None, 0.5, 0.5))
    sentence = advice(made, Fraction(1, 10))
    assert "in float16 input rho overflows, float32 is too coarse, its bound is 5.0e-01" in sentence
    assert sentence.endswith("Try a smaller radius or a larger tolerance or float64.")
    assert advice(report(claim("rounding", "float64", "point")), None).endswith("float64 is undecided.")


def test_a_report_without_formats():
    """Says so, and has neither rows nor a ball."""
    made = report(Claim("exactness/point", "exactness", "s", "real", verdict="certified"))
    assert (rows(made), ball_of(made), basis(made), tolerance_of(made)) == ([], None, "", None)
    assert advice(made, None) == "The report has no claim about a format."


def test_basis_and_tolerance():
    """The formats of the required claims, and the tolerance of the precision claim."""
    precision = Claim(
        "precision/update/0.5", "precision", "s", "program", {"tol": "0x1p-1", "format": "x"}, "certified"
    )
    claims = [*both("float16", None, 0.5, 0.5), *both("float32", None, 0.25, 0.25), precision]
    made = report(*claims, required=["range/float32/serial/point", "precision/update/0.5"])
    assert basis(made) == " in float32"
    assert basis(report(*claims)) == ""
    assert tolerance_of(made) == Fraction(1, 2)


def test_the_ball():
    """Its radius in decimal, and the number of samples of the claims that have any."""
    claims = both("float16", None, 0.5, 0.5)
    sampled = claim("rounding", "float32", "ball", None, 0.5, observed={"samples": 7})
    assert (ball_of(report(*claims, sampled)).radius, ball_of(report(*claims, sampled)).samples) == ("0.5", 7)
    assert ball_of(report(*claims)).samples == 0


@pytest.mark.parametrize(("value", "text"), [(Fraction(100001, 10**6), "1.1e-01"), (Fraction(0), "0"), (None, "-")])
def test_numbers_round_up(value, text):
    """What is shown is never below what was proved; a dash where nothing was."""
    assert number(value) == text
