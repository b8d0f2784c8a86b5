"""Contraction, refutation and stage precision: what the producer proves is proved again, and nothing weaker passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from certify.cases.polyprox import State, corpus
from certify.cases.polyprox.stage import methods
from certify.cases.polyprox.stage.hessian import hessian
from certify.cases.polyprox.stage.problem import Problem
from flint import arb, arb_mat, ctx
from stage_reports import Claim, StageContext, claims_of, corpus_claims, findings, plain, snapshot, spoiled

from certify.arithmetic import BINARY64
from certify.checker import curvature
from certify.checker.curvature import BITS, Box, Centre, Entries
from certify.checker.stage import centre_of

SAMPLE = [(3, 1, 0, "recorded"), (3, 0, 1, "new"), (3, 0, 1, "recorded"), (5, 1, 0, "new"), (5, 1, 1, "recorded")]


def moved(x: str, *, up: bool, factor: float = 0.0) -> str:
    """The next binary64 number, or one a factor away."""
    value = float.fromhex(x)
    return (value * factor if factor else math.nextafter(value, math.inf if up else -math.inf)).hex()


def bound(name: str, *, up: bool, factor: float = 0.0) -> Callable[[Claim], object]:
    """Moves one bound."""
    return lambda claim: claim["bounds"].update({name: moved(claim["bounds"][name], up=up, factor=factor)})


@pytest.mark.parametrize(("p", "seed", "k", "step"), SAMPLE)
def test_every_claim_of_a_sample_is_proved_again(p: int, seed: int, k: int, step: str) -> None:
    """All methods, both steps, certified and refuted, updates with a replay and precision."""
    found = findings(snapshot(p, seed, k), corpus_claims(p, seed, k, step))
    assert found
    for name, finding in found.items():
        assert finding.verdict == finding.claimed, f"{name}: {finding.sentence}"


def test_the_sample_has_every_kind_and_verdict() -> None:
    """Otherwise the test above would not say what it says."""
    claims = [c for case in SAMPLE for c in corpus_claims(*case) if c["verdict"] != "undecided"]
    kinds = {(c["kind"], c["parameters"].get("method"), c["verdict"]) for c in claims}
    assert {("contraction", m, "certified") for m in ("local", "interval", "face")} <= kinds
    assert ("contraction", "face", "refuted") in kinds
    assert {("updates", None, "certified"), ("precision", None, "certified")} <= kinds


def test_a_global_claim_is_proved_again() -> None:
    """Two variables, a small ball around a small fixed point: the constants alone are enough; mu and L_J are tight."""
    r = 0.2800064
    state = State(
        W=np.array([[0, 0.02], [0.02, 0]]), Sigma=np.array([[1, r / 14], [r / 14, 1]]), M=1 - np.eye(2), alpha=0.1,
        rho=0.1, gamma=0.5, lam=0.0, b=0, p_max=2,
    )  # fmt: skip
    claims = claims_of(state)
    assert claims[0]["id"] == "contraction/global"
    assert claims[0]["verdict"] == "certified"
    assert findings(state, claims)["contraction/global"].verdict == "certified"
    for change in (bound("mu", up=True, factor=1.001), bound("L_J", up=False, factor=0.999)):
        assert spoiled(state, claims, "contraction/global", change).verdict == "rejected"


@pytest.mark.parametrize("method", ["local", "interval", "face"])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c["bounds"].update(mu=c["bounds"]["L_J"]), "mu is claimed"),
        (lambda c: c["bounds"].update(L_J=c["bounds"]["mu"]), "L_J is claimed"),
        (bound("q", up=False), "q is claimed"),
        (bound("q", up=True, factor=1.5), "do not satisfy"),
        (bound("d", up=False, factor=0.999), "d is claimed"),
        (bound("eps_W", up=False, factor=0.999), "eps_W is claimed"),
        (bound("floor", up=False), "floor is claimed"),
        (bound("radius", up=False, factor=2.0**-60), "do not satisfy"),
        (bound("radius", up=True, factor=2.0**12), ""),
        (lambda c: c["bounds"].pop("d"), "bounds are not exactly"),
        (lambda c: c["bounds"].update(kappa="0x1p+0"), "bounds are not exactly"),
        (lambda c: c["parameters"].update(gamma=moved(c["parameters"]["gamma"], up=True)), "recorded"),
        (lambda c: c["parameters"].update(step="new"), "statement"),
        (lambda c: c["parameters"].update(step="old"), "step"),
        (lambda c: c["parameters"].update(method="any"), "method"),
        (lambda c: c["parameters"].update(format="float32"), "float64"),
        (lambda c: c["parameters"].update(order="sorted"), "order"),
        (lambda c: c["parameters"].update(state=1), "state"),
        (lambda c: c["parameters"].pop("tol"), "parameters"),
        (lambda c: c["witness"]["center"].pop(), "list of 9 numbers"),
        (lambda c: c["witness"]["center"].__setitem__(1, "0x1.8p+2"), ""),
        (lambda c: c["witness"]["center"].__setitem__(0, "0x1p-30"), "mask"),
        (lambda c: c["witness"]["center"].__setitem__(1, "nan"), "exact number"),
        (lambda c: c.update(witness=None), "centre"),
        (lambda c: c.update(theorem="docs/theory/contraction.md#refutation"), "theorem"),
        (lambda c: c.update(assumptions=[]), "assumptions"),
        (lambda c: c.update(verdict="refuted"), ""),
    ],
)
def test_spoiled_contraction_claims_are_rejected(method: str, change: Callable[[Claim], object], sentence: str) -> None:
    """Each number, parameter and word, one at a time."""
    finding = spoiled(snapshot(3, 1, 0), corpus_claims(3, 1, 0, "recorded"), f"contraction/{method}", change)
    assert finding.verdict == "rejected"
    assert sentence in finding.sentence


@pytest.mark.parametrize("change", [bound("mu", up=True, factor=1.02), bound("L_J", up=False, factor=0.9)])
def test_curvature_of_a_face_is_tight(change: Callable[[Claim], object]) -> None:
    """What the face method publishes is near what can be proved; a claim of another method may be weaker than the truth."""
    assert (
        spoiled(snapshot(3, 1, 0), corpus_claims(3, 1, 0, "recorded"), "contraction/face", change).verdict == "rejected"
    )


def test_a_centre_that_moves_by_an_ulp_is_rejected() -> None:
    """d is the rounding of the centre; any other centre is further from fixed than that."""
    claims = corpus_claims(3, 1, 0, "recorded")

    def nudge(claim: Claim) -> None:
        centre = claim["witness"]["center"]
        at = next(k for k, x in enumerate(centre) if abs(float.fromhex(x)) > 0.1)
        centre[at] = (float.fromhex(centre[at]) * (1 + 2.0**-48)).hex()

    assert "d is claimed" in spoiled(snapshot(3, 1, 0), claims, "contraction/face", nudge).sentence


def faced() -> tuple[State, list[Claim]]:
    """A state whose ball has a proper face."""
    claims = corpus_claims(5, 1, 0, "new")
    assert claims[3]["observed"]["face"] < claims[3]["observed"]["allowed"]
    assert claims[3]["id"] == "contraction/face"
    return snapshot(5, 1, 0), claims


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (bound("entry_radius", up=True, factor=1.01), "entry_radius is claimed"),
        (bound("smallest_radius", up=False, factor=2.0**-30), "contracted into itself"),
        (lambda c: c["bounds"].update(smallest_radius="0x1p+0"), ""),
        (lambda c: c["bounds"].pop("entry_radius"), "bounds are not exactly"),
        (lambda c: c["parameters"].update(tol="0x1p-60"), "tolerance"),
    ],
)
def test_spoiled_numbers_of_a_face_are_rejected(change: Callable[[Claim], object], sentence: str) -> None:
    """What only face claims have."""
    state, claims = faced()
    finding = spoiled(state, claims, "contraction/face", change)
    assert finding.verdict == "rejected"
    assert sentence in finding.sentence


def test_an_entry_radius_equal_to_the_radius_is_not_exceeded_by_an_ulp() -> None:
    """Where no entry is inactive."""
    change = bound("entry_radius", up=True)
    finding = spoiled(snapshot(3, 1, 0), corpus_claims(3, 1, 0, "recorded"), "contraction/face", change)
    assert "entry_radius is claimed" in finding.sentence


def test_the_entry_radius_of_many_entries_needs_no_matrix_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the norms of three parts, by both sides; smaller than the other by at most a factor of 4, and tight to 1%."""
    state, claims = faced()
    n = claims[3]["observed"]["face"]
    monkeypatch.setattr(methods, "MANY", n)
    monkeypatch.setattr(curvature, "MANY", n)
    blind = claims_of(state, methods=("face",), step="new", replay=400)
    small, large = (float.fromhex(c["bounds"]["entry_radius"]) for c in (blind[0], claims[3]))
    assert large / 4 <= small <= large
    assert {f.verdict for f in findings(state, blind).values()} == {"certified"}
    change = bound("entry_radius", up=True, factor=1.01)
    assert "entry_radius is claimed" in spoiled(state, blind, "contraction/face", change).sentence


def test_harmless_changes_pass() -> None:
    """Weaker numbers that still fit together, and a smallest radius left out."""
    state, claims = faced()
    for change in (
        bound("d", up=True),
        bound("entry_radius", up=False, factor=0.5),
        lambda c: c["bounds"].pop("smallest_radius"),
    ):
        assert spoiled(state, claims, "contraction/face", change).verdict == "certified"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (bound("kappa", up=True, factor=1.001), "kappa is claimed"),
        (bound("kappa", up=False, factor=0.5), "neither negative"),
        (bound("cube", up=False, factor=2.0**-40), "no fixed point"),
        (bound("cube", up=True, factor=2.0**60), ""),
        (lambda c: c["bounds"].update(cube="0x0p+0"), "cube"),
        (lambda c: c["bounds"].update(kappa="-0x1p-3"), "kappa is claimed"),
        (lambda c: c["witness"]["vector"].reverse(), "kappa is claimed"),
        (lambda c: c["witness"]["vector"].pop(), "vector"),
        (lambda c: c["witness"].update(vector=["0x0p+0"] * len(c["witness"]["vector"])), "vector is 0"),
        (lambda c: c["witness"].update(vector=None), "vector"),
        (lambda c: c["witness"].update(center=["0x0p+0"] * 9), "active"),
        (lambda c: c["parameters"].update(gamma=moved(c["parameters"]["gamma"], up=False, factor=0.1)), "recorded"),
        (lambda c: c.update(verdict="certified"), "theorem"),
    ],
)
def test_spoiled_refutations_are_rejected(change: Callable[[Claim], object], sentence: str) -> None:
    """kappa beyond the quotient, another vector, cubes without a fixed point or with a kink."""
    claims = corpus_claims(3, 0, 1, "recorded")
    assert next(c for c in claims if c["id"] == "contraction/face")["verdict"] == "refuted"
    finding = spoiled(snapshot(3, 0, 1), claims, "contraction/face", change)
    assert finding.verdict == "rejected"
    assert sentence in finding.sentence


@pytest.mark.parametrize("part", ["Sigma", "cycles", "slope"])
def test_a_norm_by_parts_holds_where_one_part_is_all(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """K(U) is nearly Sigma, c K_h or rho H H^T alone: neither program's bound for many entries is below its norm."""
    U = np.array([[0.0, 0.9], [0.8, 0.0]])
    h = float(np.trace(np.linalg.matrix_power(np.eye(2) + U * U / 2, 2))) - 2
    alpha, rho, size = {"Sigma": (0.0, 0.0, 1.0), "cycles": (10.0, 0.0, 1e-9), "slope": (-100 * h, 100.0, 1e-9)}[part]
    state = State(W=U, Sigma=size * np.eye(2), M=1 - np.eye(2), alpha=alpha, rho=rho, gamma=0.1, lam=0.1, b=0, p_max=2)
    problem, r = Problem(state, BINARY64), 1e-6
    over = hessian(state, U, r, problem.allowed)
    norm = np.linalg.norm(over.K.mid, 2)
    monkeypatch.setattr(curvature, "MANY", 0)
    for bound in (methods._norm_by_parts(problem, r, over), float(Centre(plain(state)).reach(r))):
        assert norm <= bound <= 3 * norm


def test_slopes_that_vary_in_the_cube_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry at 0 stays there only if its slope is below lam everywhere in the cube, not at the centre alone."""
    claims, box = corpus_claims(3, 8, 2, "recorded"), Centre.box
    assert spoiled(snapshot(3, 8, 2), claims, "contraction/face", lambda c: None).verdict == "refuted"

    def varied(centre: Centre, entries: Entries, radius: float) -> Box:
        found = box(centre, entries, radius)
        return found._replace(spread=found.spread + arb_mat(3, 3, [centre.lam] * 9))

    monkeypatch.setattr(Centre, "box", varied)
    assert "may become active" in spoiled(snapshot(3, 8, 2), claims, "contraction/face", lambda c: None).sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c["parameters"].update(tol="0x1p-60"), "id"),
        (lambda c: c["parameters"].update(format="float16"), "formats"),
        (lambda c: c["parameters"].update(formats=["float64", "float32"]), "statement"),
        (lambda c: c["parameters"].update(formats=["float64"]), "statement"),
        (lambda c: c["parameters"].update(formats=[]), "formats"),
        (lambda c: c["parameters"].update(formats=None), "formats"),
        (lambda c: c["parameters"].update(radius="0x1p-60"), "contracted into itself"),
        (lambda c: c["parameters"].update(stage="updates/float64"), "stage"),
        (lambda c: c["parameters"].update(stage=["contraction/face"]), ""),
        (lambda c: c["parameters"].update(stage="contraction/local"), "stage"),
        (lambda c: c["parameters"].update(gamma="0x1p-3"), "stage"),
        (lambda c: c["bounds"].update(floor="0x1p-60"), "bounds"),
        (lambda c: c.update(verdict="refuted", reason="x"), "verdict"),
    ],
)
def test_spoiled_precision_claims_are_rejected(change: Callable[[Claim], object], sentence: str) -> None:
    """Each parameter, one at a time."""
    finding = spoiled(snapshot(3, 1, 0), corpus_claims(3, 1, 0, "recorded"), "precision/1e-06", change)
    assert finding.verdict == "rejected"
    assert sentence in finding.sentence


def test_a_coarser_format_that_is_enough_contradicts_a_precision_claim() -> None:
    """An updates claim of the report, certified in a coarser format of the list."""
    claims = corpus_claims(3, 1, 0, "recorded")
    updates = next(c for c in claims if c["id"] == "updates/float32")
    updates["verdict"] = "certified"
    assert "coarser format" in findings(snapshot(3, 1, 0), claims)["precision/1e-06"].sentence


def test_claims_that_rest_on_a_rejected_centre_are_rejected() -> None:
    """Updates and precision name the claim with the centre; it must be proved again itself."""
    claims = corpus_claims(3, 1, 0, "recorded")
    bound("q", up=False)(next(c for c in claims if c["id"] == "contraction/face"))
    found = findings(snapshot(3, 1, 0), claims)
    for name in ("contraction/face", "updates/float64", "precision/1e-06"):
        assert found[name].verdict == "rejected"
    assert found["contraction/interval"].verdict == "certified"


@pytest.mark.parametrize("changes", [{"M": np.zeros((3, 3)), "W": np.zeros((3, 3))}, {"lam": 50.0}])
def test_degenerate_stages_are_proved_again(changes: dict[str, object]) -> None:
    """No allowed entry; every entry inactive: P is constant on the ball."""
    state = replace(snapshot(3, 1, 0), **changes)
    claims = claims_of(state)
    face = next(c for c in claims if c["id"] == "contraction/face")
    assert face["verdict"] == "certified"
    assert face["observed"]["face"] == 0
    for name, finding in findings(state, claims).items():
        assert finding.verdict == "certified", f"{name}: {finding.sentence}"


@pytest.mark.slow
@pytest.mark.parametrize(("p", "seed"), [(p, seed) for _, p, seed in corpus.instances()])
@pytest.mark.parametrize("step", ["recorded", "new"])
def test_every_claim_of_the_corpus_is_proved_again(p: int, seed: int, step: str) -> None:
    """30 instances, three snapshots each."""
    for k in range(3):
        for name, finding in findings(snapshot(p, seed, k), corpus_claims(p, seed, k, step)).items():
            assert finding.verdict == finding.claimed, f"snapshot {k}, {name}: {finding.sentence}"


def test_quotients_and_existence_hold_on_the_whole_cube() -> None:
    """In a larger cube K varies: the quotient at the centre is too much there; a cube as small as the step has no proof."""
    state, claims = snapshot(3, 0, 1), corpus_claims(3, 0, 1, "recorded")
    claim = next(c for c in claims if c["id"] == "contraction/face")
    with ctx.workprec(BITS):
        centre = centre_of(claim, StageContext(state, claims))
        active = tuple(e for e in centre.allowed if centre.state.W[e[0]][e[1]] != 0)
        at, texts = centre.box(active, 0.0), claim["witness"]["vector"]
        v = arb_mat([[arb(float.fromhex(x)) * centre.signs[e]] for x, e in zip(texts, active, strict=True)])
        middle = float(((v.transpose() * at.K * v)[0, 0] / (v.transpose() * v)[0, 0]).mid())
        G = arb_mat([[at.gradient[e] * centre.signs[e] + centre.lam] for e in active])
        step = max(abs(float(x)) for x in (at.K.inv() * G).entries())

    def widen(claim: Claim) -> None:
        claim["bounds"] |= {"cube": (1e-6).hex(), "kappa": (middle * (1 - 2.0**-50)).hex()}

    def shrink(claim: Claim) -> None:
        claim["bounds"]["cube"] = (step * (1 + 2.0**-51)).hex()

    assert "kappa is claimed" in spoiled(state, claims, "contraction/face", widen).sentence
    assert "no fixed point" in spoiled(state, claims, "contraction/face", shrink).sentence
