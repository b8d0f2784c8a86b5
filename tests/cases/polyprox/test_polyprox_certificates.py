"""The claims about a Poly-prox state: what they say, and that they hold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from certify.cases import Options, case_named
from certify.cases.polyprox import State, saved_from, update_exact
from certify.cases.polyprox.certificates import Certifier, graph_of, inputs_of
from polyprox_states import random_state

from certify.arithmetic import BINARY16, BINARY32
from certify.certificate import Claim, Verdict, encode, parse
from certify.errors import InputRejected
from certify.rounding import ball, range_test, running
from certify.rounding.posterior import computed, error


def quiet(done: int, total: int, what: str) -> None:
    """A progress callback that shows nothing."""


def report_of(state: State | list[State], **options: object) -> object:
    """The report of the case on one state or a trajectory."""
    return case_named("polyprox").certify(saved_from(state), Options(**options), quiet)


def by_id(claims: list[Claim]) -> dict[str, Claim]:
    """Claims by their id."""
    return {claim.id: claim for claim in claims}


@pytest.fixture(scope="module")
def state() -> State:
    """A small state at the end of a stage."""
    return random_state(np.random.default_rng(5), 4, 4, 1, scale=0.4)


def test_ids_are_those_of_the_report_format(state: State) -> None:
    """Every format has a rounding and a range claim for point and ball, under the names that reports use."""
    ids = by_id(report_of(state).claims)
    for name in ("float16", "float32", "float64"):
        for region in ("point", "ball"):
            assert {f"rounding/{name}/serial/{region}", f"range/{name}/serial/{region}"} <= set(ids)


def test_no_observed_error_exceeds_its_bound(state: State) -> None:
    """The exact error at the state and at sampled states of the ball lies below what is certified, by either method."""
    claims = report_of(state, samples=20, formats=("float16", "bfloat16", "float32", "float64")).claims
    seen = 0
    for claim in claims:
        if claim.kind == "rounding" and claim.observed:
            coarse = by_id(claims)[claim.id + "/majorant"]
            for name in ("W", "alpha"):
                observed = parse(claim.observed[f"error_{name}"])
                assert observed <= parse(claim.bounds[f"eps_{name}"])
                assert observed <= parse(coarse.bounds[f"eps_{name}"])
                seen += observed > 0
    assert seen >= 12


def test_a_real_overflow_is_refuted_with_its_register_and_layer() -> None:
    """A state whose powers overflow float16 names the register and layer; the floats there are indeed infinite."""
    rng = np.random.default_rng(1)
    large = replace(random_state(rng, 4, 4, 1, scale=1.0), W=np.full((4, 4), 40.0) * (1 - np.eye(4)))
    claims = by_id(report_of(large, formats=("float16",)).claims)
    claim = claims["range/float16/serial/point"]
    assert claim.verdict is Verdict.REFUTED
    assert "register" in claim.reason and "layer 2.1" in claim.reason and "block.py" in claim.reason
    assert claims["rounding/float16/serial/point"].verdict is Verdict.UNDECIDED
    assert not np.isfinite(computed(graph_of(large), BINARY16, inputs_of(large), "alpha")).all()


def test_an_input_that_overflows_is_named() -> None:
    """A penalty of 1e6 does not fit float16: the first overflow is the input itself."""
    state = replace(random_state(np.random.default_rng(2), 3, 4, 0, scale=0.1), rho=1e6)
    assert by_id(report_of(state, formats=("float16",)).claims)["range/float16/serial/point"].reason == (
        "input rho overflows"
    )


def test_an_overflow_that_is_only_possible_is_undecided(state: State) -> None:
    """A ball wide enough to reach an overflow somewhere, with a harmless centre, is undecided and not refuted."""
    region = ball(inputs_of(state), "W", 60.0)
    tested = range_test(running(graph_of(state), BINARY16, region), region)
    assert tested.node is not None and tested.witness is None
    claims = by_id(report_of(state, radius=60.0, formats=("float16",), samples=0).claims)
    assert claims["range/float16/serial/ball"].verdict is Verdict.UNDECIDED
    assert "may overflow" in claims["range/float16/serial/ball"].reason
    assert claims["range/float16/serial/point"].verdict is Verdict.CERTIFIED


def test_the_verdict_rests_on_the_coarsest_format_that_is_enough(state: State) -> None:
    """Without --format the coarsest format within tol decides; named formats must all be certified."""
    fine = report_of(state, update_tol=1e-5)
    assert fine.verdict is Verdict.CERTIFIED
    assert {claim_id.split("/")[1] for claim_id in fine.required} == {"float32", "update"}
    large = replace(state, rho=1e6)
    assert report_of(large).verdict is Verdict.CERTIFIED
    assert report_of(large, formats=("float16", "float32")).verdict is Verdict.REFUTED
    assert report_of(large, formats=("float32",)).verdict is Verdict.CERTIFIED


def test_a_tolerance_makes_a_precision_claim(state: State) -> None:
    """With tol the coarsest format that is enough is claimed; a tolerance below every bound is undecided."""
    claim = by_id(report_of(state, update_tol=1e-5).claims)["precision/update/1e-05"]
    assert claim.verdict is Verdict.CERTIFIED and claim.parameters["format"] == "float32"
    report = report_of(state, update_tol=1e-30)
    assert report.verdict is Verdict.UNDECIDED
    assert by_id(report.claims)["precision/update/1e-30"].verdict is Verdict.UNDECIDED


def test_a_trajectory_keeps_its_states_apart(state: State) -> None:
    """Each state of a file has claims of its own, and they are those of the state alone."""
    other = replace(state, W=state.W / 2)
    both = by_id(report_of([state, other]).claims)
    for k, single in enumerate((state, other)):
        alone = by_id(report_of(single).claims)["rounding/float32/serial/point"]
        assert both[f"rounding/float32/serial/point/state={k}"].bounds == alone.bounds


def test_a_large_block_is_certified_without_exact_reference() -> None:
    """Beyond the capacity for exact evaluation the bounds stand alone: no observation is made up."""
    state = random_state(np.random.default_rng(3), 6, 32, 1, scale=0.3)
    claims = by_id(report_of(state, formats=("float32",)).claims)
    assert "exactness/point" not in claims
    assert claims["rounding/float32/serial/point"].verdict is Verdict.CERTIFIED
    assert "error_W" not in claims["rounding/float32/serial/point"].observed


def test_alpha_and_forbidden_entries_are_exact(state: State) -> None:
    """At b = 0 a representable alpha carries no error, and entries outside the mask are 0 in floats and bound."""
    sparse = random_state(np.random.default_rng(4), 5, 8, 0, density=0.4, alpha=0.25)
    region = ball(inputs_of(sparse), "W", 0.01)
    bounds = running(graph_of(sparse), BINARY32, region)
    assert float(bounds.error_of("alpha")) == 0.0
    off = sparse.M == 0
    assert (bounds.error_of("W")[off] == 0).all()
    assert (computed(graph_of(sparse), BINARY32, inputs_of(sparse), "W")[off] == 0).all()


def test_the_block_equals_the_update_exactly(state: State) -> None:
    """The exactness claim is a comparison of rationals, and a block with one wrong constant is refuted."""
    assert Certifier(state, Options()).exactness()[0].verdict is Verdict.CERTIFIED
    wrong = Certifier(state, Options())
    wrong._at_state.next_W[0, 1] += Fraction(1, 2**200)
    assert wrong.exactness()[0].verdict is Verdict.REFUTED


def test_the_digits_shown_are_digits_kept(state: State) -> None:
    """The decimal digits in the display never exceed what the observed error leaves."""
    claim = by_id(report_of(state).claims)["rounding/float32/serial/point"]
    exact_W = np.array(update_exact(state).W)
    errors = error(computed(graph_of(state), BINARY32, inputs_of(state), "W"), exact_W).astype(float)
    norm = np.log10(np.linalg.norm(exact_W.astype(float)) / np.linalg.norm(errors))
    assert float(claim.display["digits_norm"]) <= norm


def test_reports_are_deterministic(state: State) -> None:
    """The same state and options give the same bytes."""
    assert encode(report_of(state)) == encode(report_of(state))


@pytest.mark.parametrize(
    ("options", "culprit"),
    [({"formats": ("float17",)}, "float17"), ({"order": "magic"}, "magic"), ({"radius": float("nan")}, "nan")],
)
def test_bad_options_are_refused(state: State, options: dict[str, object], culprit: str) -> None:
    """A format, an order or a radius that means nothing is refused with its name."""
    with pytest.raises(InputRejected, match=culprit):
        report_of(state, **options)


def test_states_of_one_file_share_a_graph_and_keep_their_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of several states are evaluated together, two at a time here; each state's are those of its own file."""
    from certify.rounding import batch

    first = random_state(np.random.default_rng(12), 3, 4, 1, scale=0.4)
    states = [replace(first, W=first.W * share, alpha=share) for share in (0.0, 0.25, 0.5, 3.0, 1.0)]
    monkeypatch.setattr(batch, "NODES_TOGETHER", 2 * graph_of(first).n_nodes)
    together = by_id(report_of(states, methods=()).claims)
    for k, state in enumerate(states):
        for name, claim in by_id(report_of(state, methods=()).claims).items():
            assert (together[f"{name}/state={k}"].bounds, together[f"{name}/state={k}"].verdict) == (
                claim.bounds,
                claim.verdict,
            )
            assert together[f"{name}/state={k}"].observed == claim.observed
