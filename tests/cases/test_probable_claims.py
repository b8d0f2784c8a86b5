"""Claims with a probability: what they say, and that no verdict, table or check mixes them with proofs."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from certify.cases import Options, case_named
from certify.cases.kernel import kernel_report
from certify.cli.likelihood import likely_claims, line_of, title_of
from certify.cli.summary import advice, others, rows

from certify.arithmetic import BINARY32
from certify.certificate import Claim, Report, Verdict, decode, encode, parse, producer
from certify.certificate.numbers import probability_text
from certify.checker.__main__ import run
from certify.errors import InputRejected
from certify.rounding import point, probable

RNG = np.random.default_rng(0)
INPUTS = {"x": RNG.uniform(0, 1, 40), "y": RNG.uniform(0, 1, 40)}


def kernel(x, y):
    """Two outputs."""
    return {"d": x @ y, "e": x[:3] * y[:3]}


@pytest.fixture(scope="module")
def report():
    """float16 overflows nowhere; on a ball too."""
    return kernel_report(kernel, INPUTS, formats=["float16", "float32"], center="x", radius=0.01, confidence="0.999")


def _likely(report):
    return [claim for claim in report.claims if claim.semantics == "stochastic"]


def test_what_the_claims_say(report):
    """Kind, semantics, confidence, assumptions, bounds of every output."""
    likely = _likely(report)
    assert [claim.id for claim in likely] == [
        f"rounding-probable/{name}/serial/{where}" for name in ("float16", "float32") for where in ("point", "ball")
    ]
    for claim in likely:
        assert claim.kind == "rounding-probable" and claim.verdict is Verdict.CERTIFIED
        assert claim.parameters["confidence"] == "999/1000"
        assert "with probability at least 0.999" in claim.statement
        assert any("rounds stochastically" in sentence for sentence in claim.assumptions)
        assert not any(sentence.startswith("every operation rounds to nearest") for sentence in claim.assumptions)
        assert set(claim.bounds) == {"probable_d", "probable_e"}
    found = probable(report.graph, BINARY32, point(INPUTS), confidence="0.999")
    [at_point] = [claim for claim in likely if claim.id.endswith("float32/serial/point")]
    bound = parse(at_point.bounds["probable_d"])
    assert found.norm_of("d") <= bound <= Fraction(found.norm_of("d")) * (1 + Fraction(1, 2**18))


def test_no_verdict_rests_on_them(report):
    """They are never required; a report that would rest on one is no report, whether it says so or not."""
    ids = {claim.id for claim in _likely(report)}
    assert ids and not ids & set(report.required)
    plain = kernel_report(kernel, INPUTS, formats=["float16", "float32"], center="x", radius=0.01)
    assert report.verdict is plain.verdict and report.required == plain.required
    for required in (None, [], [*report.required, *ids], list(ids)):
        with pytest.raises(ValueError, match="rest on a probability"):
            Report(producer(), report.subject, report.claims, required)
    document = report.to_json()
    del document["required"]
    with pytest.raises(InputRejected, match="rest on a probability"):
        decode(json.dumps(document).encode(), "r.json")
    assert decode(encode(report), "r.json").verdict is report.verdict


def test_semantics_and_kind_belong_together(report):
    """A probability under a proved kind, or a proof under a probable one, is no claim."""
    likely = _likely(report)[0]
    for changes in ({"semantics": "program"}, {"kind": "rounding"}):
        with pytest.raises(ValueError, match="a probability has the semantics stochastic"):
            replace(likely, **changes)
    proved = report.claims[0]
    with pytest.raises(ValueError, match="a probability has the semantics stochastic"):
        Claim(**{**proved.to_json(), "semantics": "stochastic"})


def test_tables_of_proved_bounds_do_not_see_them(report):
    """Rows and advice are those of the report without them; they have lines of their own."""
    plain = replace(report, claims=[claim for claim in report.claims if claim.semantics != "stochastic"])
    assert rows(report) == rows(plain)
    assert advice(report, None) == advice(plain, None)
    assert others(report) == others(plain)
    assert likely_claims(plain) == {}
    [(confidence, claims)] = likely_claims(report).items()
    assert title_of(confidence) == "With probability at least 0.999, under stochastic rounding"
    assert [line_of(claim).split(":")[0] for claim in claims][:2] == ["float16 at the state", "float16 on the ball"]
    assert " in d, " in line_of(claims[0]) and line_of(claims[0]).endswith(" in e")


def test_the_checker_proves_none_of_them(report, tmp_path, capsys):
    """It leaves them undecided; the others are proved again."""
    report.write(tmp_path / "r.json")
    assert run(str(tmp_path / "r.json"), None, True, "check") == 1
    found = json.loads(capsys.readouterr().out)
    verdicts = {claim["id"]: claim["verdict"] for claim in found}
    assert {name for name, verdict in verdicts.items() if verdict == "undecided"} >= {c.id for c in _likely(report)}
    assert verdicts["rounding/float32/serial/point"] == "certified"


def test_overflow_leaves_no_bound():
    """An undecided claim with the place."""
    found = kernel_report(lambda x: x * x, {"x": np.array([300.0])}, formats="float16", confidence=0.9)
    [claim] = _likely(found)
    assert claim.verdict is Verdict.UNDECIDED and "an enclosure that passes 65504" in claim.reason
    assert claim.bounds == {} and "no bound" in line_of(claim)


def test_states_of_the_block():
    """`run` on a case: at each state and on the ball, and the verdict is that without them."""
    case = case_named("polyprox")
    saved, _ = case.demo(lambda *_: None)
    options = Options(formats=("float32",), radius=0.01, samples=0)
    assert case.states(saved)
    plain, likely = (
        case.certify(saved, replace(options, confidence=confidence), lambda *_: None) for confidence in (None, "0.99")
    )
    assert likely.verdict is plain.verdict
    assert len(likely.claims) - len(plain.claims) == 2 * case.states(saved)
    for claim in _likely(likely):
        proved = next(c for c in likely.claims if c.id == claim.id.replace("rounding-probable", "rounding"))
        assert parse(claim.bounds["probable_W"]) < 4 * parse(proved.bounds["eps_W"])


def test_no_confidence():
    """Refused before any work."""
    for confidence in ("1", "much"):
        with pytest.raises(InputRejected, match="is no confidence"):
            kernel_report(kernel, INPUTS, formats="float32", confidence=confidence)
        case = case_named("polyprox")
        saved, _ = case.demo(lambda *_: None)
        with pytest.raises(InputRejected, match="is no confidence"):
            case.certify(saved, Options(confidence=confidence), lambda *_: None)


def test_confidences_are_shown_in_full_or_rounded_down():
    """Never more than is claimed."""
    assert probability_text(Fraction("0.999999")) == "0.999999"
    assert probability_text(Fraction(1, 3)) == "0.33333333333333333"
    assert probability_text(1 - Fraction(1, 10**20)) == "0." + "9" * 17
