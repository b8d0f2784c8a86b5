"""Update counts: proved again, never below what the program needs, and nothing smaller passes than what is proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from certify.cases.polyprox import State
from flint import arb, arb_mat, ctx
from stage_reports import Claim, StageContext, claims_of, corpus_claims, findings, plain, snapshot, spoiled

from certify.checker import counts
from certify.checker.curvature import BITS, Centre, modes_of, real
from certify.checker.document import Finding, Rejected
from certify.checker.program import inputs_of
from certify.checker.rounding import FORMATS, emulate
from certify.checker.stage import Ball, centre_of

FIXED = plain(snapshot(3, 1, 0))


def updates_claim(claims: list[Claim], format: str = "float64") -> Claim:
    """The updates claim of a format."""
    return next(c for c in claims if c["id"] == f"updates/{format}")


def replayed() -> tuple[State, list[Claim]]:
    """A claim with updates that are replayed before its count begins."""
    claims = corpus_claims(3, 4, 0, "new")
    assert updates_claim(claims)["parameters"]["replayed"] > 0
    return snapshot(3, 4, 0), claims


@pytest.mark.parametrize(("p", "seed", "step"), [(3, 1, "recorded"), (3, 4, "new"), (5, 1, "recorded")])
def test_published_counts_are_proved_again(p: int, seed: int, step: str) -> None:
    """With and without a replay; the checker's own counts are not above the published ones, nor far below."""
    state, claims = snapshot(p, seed, 0), corpus_claims(p, seed, 0, step)
    claim = updates_claim(claims)
    assert claim["verdict"] == "certified", claim["reason"]
    finding = findings(state, claims)["updates/float64"]
    assert finding.verdict == "certified", finding.sentence
    assert int(claim["bounds"]["count"]) * 0.5 <= finding.proved["count"] <= int(claim["bounds"]["count"])


def test_a_count_in_float32_is_proved_again() -> None:
    """A tolerance above the rounding floor of the format."""
    state = snapshot(3, 1, 0)
    claims = claims_of(state, tol=1e-3, methods=("face",), replay=400)
    assert updates_claim(claims, "float32")["verdict"] == "certified"
    for name, finding in findings(state, claims).items():
        assert finding.verdict == "certified", f"{name}: {finding.sentence}"


def test_the_program_is_as_near_as_the_count_says() -> None:
    """The literal float64 program, run for the checker's own count: nearer than tol + d / (1 - q) to the centre."""
    state, claims = snapshot(5, 1, 0), corpus_claims(5, 1, 0, "recorded")
    context = StageContext(state, claims)
    claim = updates_claim(claims)
    centre = centre_of(claims[3], context)
    with ctx.workprec(BITS):
        ball = Ball(centre, context, "float64", "serial", float.fromhex(claim["parameters"]["radius"]))
    W = np.array(counts._replay(context.only, context, "float64", "serial", int(claim["bounds"]["count"])))
    slack = float(ball.d / (1 - ball.q))
    assert np.linalg.norm(W - np.array(centre.state.W)) <= 1e-6 + slack


def test_a_replay_is_the_literal_program() -> None:
    """Three updates, one after the other."""
    context = StageContext(snapshot(3, 1, 0), [])
    program = context.program(context.only)
    values = inputs_of(program, context.only)
    for _ in range(3):
        W = program.values("W", emulate(program, FORMATS["float32"], values)[0])
        values = inputs_of(program, replace(context.only, W=[W[0:3], W[3:6], W[6:9]]))
    assert counts._replay(context.only, context, "float32", "serial", 3) == [W[0:3], W[3:6], W[6:9]]


def test_a_replay_that_overflows_proves_nothing() -> None:
    """W is not finite."""
    wild = replace(FIXED, gamma=1e300, b=0)
    context = StageContext(snapshot(3, 1, 0), [])
    with pytest.raises(Rejected, match="overflows"):
        counts._replay(wild, context, "float64", "serial", 5)


class Simple:
    """A ball by its numbers alone."""

    def __init__(self, q: float, eps: float) -> None:
        self.q, self.floor = Fraction(q), Fraction(eps) / (1 - Fraction(q))


@pytest.mark.parametrize("q", [0.5, 0.9, 1 - 2.0**-20, 1 - 2.0**-40])
@pytest.mark.parametrize(
    ("start", "eps", "tol"), [(1.0, 0.0, 1e-6), (3.0, 1e-20, 2.0), (0.1, 1e-30, 1e-9), (1.0, 0.0, 1.0)]
)
def test_norm_counts_are_the_smallest(q: float, start: float, eps: float, tol: float) -> None:
    """f + q^L (start - f) <= tol, and not for L - 1."""
    with ctx.workprec(BITS):
        ball = Simple(q, eps)
        count = counts._norm_count(Fraction(start), ball, Fraction(tol))  # type: ignore[arg-type]
        rate, floor = real(ball.q), real(ball.floor)

        def left(k: int) -> arb:
            return floor + (real(Fraction(start)) - floor) * (k * rate.log()).exp()

        assert left(count) <= tol * (1 + 1e-40) or count == 0
        assert count == 0 or left(count - 1) > tol


def test_no_norm_count_below_the_floor() -> None:
    """Rounding keeps it away."""
    with pytest.raises(Rejected, match="rounding"):
        counts._norm_count(Fraction(1), Simple(0.5, 0.5), Fraction(1))  # type: ignore[arg-type]


def linear(gamma: float, seed: int, scale: float) -> tuple[Ball, list[arb]]:
    """alpha = rho = 0: P is affine where no entry changes its branch, so that distances are known exactly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 3))
    S = X.T @ X / 20
    state = State(
        W=np.zeros((3, 3)), Sigma=(S + S.T) / 2, M=1 - np.eye(3), alpha=0.0, rho=0.0, gamma=gamma, lam=0.0, b=0, p_max=4
    )
    blocks = [[i for i in range(3) if i != j] for j in range(3)]
    U = np.zeros((3, 3))
    for j, rows in enumerate(blocks):
        U[rows, j] = np.linalg.solve(S[np.ix_(rows, rows)], S[rows, j])
    context = StageContext(state, [])
    ball = Ball(Centre(plain(state, W=U)), context, "float64", "serial", scale)
    return ball, [arb(x) for x in rng.uniform(-1, 1, size=6) * scale / 3]


@pytest.mark.parametrize("seed", range(3))
def test_counts_of_an_affine_map_are_those_of_its_eigenvalues(seed: int) -> None:
    """The modal count is within one update of the exact number, where the norm count is above it."""
    with ctx.workprec(BITS):
        ball, offset = linear(0.3, seed, 1e-3)
        count = counts._updates_to(ball, offset, Fraction(1e-9))
        K = np.array([[float(x) for x in row] for row in ball.centre.box(ball.face, 0.0).K.tolist()])
        w, needed = np.array([float(x) for x in offset]), 0
        while np.linalg.norm(w) > 1e-9:
            w, needed = w - 0.3 * K @ w, needed + 1
        norm = counts._norm_count(Fraction(float(np.linalg.norm([float(x) for x in offset]))), ball, Fraction(1e-9))
    assert needed <= count <= needed + 1 <= norm


def test_rounding_in_every_update_is_counted() -> None:
    """From the slowest mode, with eps in its direction each time and a floor of half the tolerance: never below the need."""
    with ctx.workprec(BITS):
        ball, _ = linear(0.3, 0, 1e-3)
        lam, Q = ball.centre.modes(ball.face)[:2]
        slowest = min(range(len(lam)), key=lambda i: float(lam[i]))
        rate, tol, start = 1 - 0.3 * float(lam[slowest]), 1e-7, 5e-4
        ball.eps = Fraction(tol / 2 * (1 - rate))
        count = counts._updates_to(ball, [Q[i, slowest] * start for i in range(len(lam))], Fraction(tol))
    apart, needed = start, 0
    while apart > tol:
        apart, needed = rate * apart + float(ball.eps), needed + 1
    assert needed <= count <= needed + 2


SPOILED = [
    (lambda c: c["bounds"].update(floor="0x1p-70"), "floor is claimed"),
    (lambda c: c["bounds"].update(start="0x1p-40"), "start is claimed"),
    (lambda c: c["bounds"].update(q="0x1p-2"), "q is claimed"),
    (lambda c: c["bounds"].update(norm_count="1"), "norm_count is claimed"),
    (lambda c: c["bounds"].pop("q"), "bounds are not exactly"),
    (lambda c: c["parameters"].update(radius="0x1p+4"), ""),
    (lambda c: c["parameters"].update(radius="0x1p-40"), "not in the ball"),
    (lambda c: c["parameters"].update(replayed=c["parameters"]["replayed"] + 1), "statement"),
    (lambda c: c["parameters"].update(replayed=-1), "replayed"),
    (lambda c: c["parameters"].update(replayed=True), "replayed"),
    (lambda c: c["parameters"].update(format="float32"), "id"),
    (lambda c: c["parameters"].update(format=["float64"]), "id"),
    (lambda c: c["parameters"].update(order="any"), "order"),
    (lambda c: c["parameters"].update(tol="0x1p-3"), "statement"),
    (lambda c: c["parameters"].update(stage="contraction/interval"), "stage"),
    (lambda c: c["parameters"].update(stage="updates/float64"), "rests on"),
    (lambda c: c["parameters"].update(gamma="0x1p-9"), "stage"),
    (lambda c: c["parameters"].update(state=1), ""),
    (lambda c: c["parameters"].update(through="0x1p+5"), ""),
    (lambda c: c["parameters"].pop("through"), "parameters"),
    (lambda c: c.update(verdict="refuted", reason="x"), "certified"),
]


@pytest.mark.parametrize(("change", "sentence"), SPOILED)
def test_spoiled_update_claims_are_rejected(change: Callable[[Claim], object], sentence: str) -> None:
    """Each number, parameter and word, one at a time."""
    finding = spoiled(snapshot(5, 1, 0), corpus_claims(5, 1, 0, "recorded"), "updates/float64", change)
    assert finding.verdict == "rejected"
    assert sentence in finding.sentence


def test_one_update_less_than_what_is_proved_is_rejected() -> None:
    """The checker's own count passes, one less does not."""
    state, claims = snapshot(5, 1, 0), corpus_claims(5, 1, 0, "recorded")
    own = int(findings(state, claims)["updates/float64"].proved["count"])
    for count, verdict in ((own, "certified"), (own - 1, "rejected")):

        def change(claim: Claim, count: int = count) -> None:
            claim["bounds"]["count"] = str(count)

        assert spoiled(state, claims, "updates/float64", change).verdict == verdict


def test_a_replay_of_too_much_work_is_left_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim may ask for more updates than there is time for: it is beyond the checker, and no update is run."""
    state, claims = replayed()
    monkeypatch.setattr(counts, "_MOST_REPLAYED", 1)
    monkeypatch.setattr(counts, "emulate", lambda *_: pytest.fail("an update was run"))
    assert findings(state, claims)["updates/float64"].verdict == "undecided"


def test_what_rests_on_a_claim_beyond_the_checker_is_undecided_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not rejected: nothing is wrong with it."""
    state, claims = replayed()
    monkeypatch.setattr("certify.checker.curvature.LARGEST", 0)
    found = findings(state, claims)
    assert {found[name].verdict for name in ("contraction/face", "updates/float64", "precision/1e-06")} == {"undecided"}


def test_fewer_replayed_updates_do_not_reach_the_ball() -> None:
    """Numbers and words agree, but the program is not there yet."""
    state, claims = replayed()

    def hurry(claim: Claim) -> None:
        k = claim["parameters"]["replayed"]
        claim["parameters"]["replayed"] = k - 1
        claim["statement"] = claim["statement"].replace(f"{k} replayed", f"{k - 1} replayed")

    assert "start" in spoiled(state, claims, "updates/float64", hurry).sentence


def test_radii_of_other_balls_are_rejected() -> None:
    """A ball that the start is not in."""
    state, claims = replayed()
    smallest = claims[3]["bounds"]["smallest_radius"]
    change = lambda claim: claim["parameters"].update(radius=smallest)  # noqa: E731
    assert "not in the ball" in spoiled(state, claims, "updates/float64", change).sentence


def test_a_count_through_an_inner_ball_is_proved_again() -> None:
    """Down to the entry radius of a smaller ball, one update, and that ball's own count; not one less."""
    state, claims = replayed()
    inner = (float.fromhex(updates_claim(claims)["parameters"]["radius"]) / 8).hex()

    def through(count: int) -> Finding:
        def change(claim: Claim) -> None:
            claim["parameters"]["through"] = inner
            claim["bounds"]["count"] = claim["display"]["count"] = str(count)

        return spoiled(state, claims, "updates/float64", change)

    found = through(10**6)
    assert found.verdict == "certified", found.sentence
    own = int(found.proved["count"])
    assert own >= findings(state, claims)["updates/float64"].proved["count"]
    assert through(own).verdict == "certified"
    assert through(own - 1).verdict == "rejected"
    with ctx.workprec(BITS):
        context = StageContext(state, claims)
        centre = centre_of(claims[3], context)
        outer, ball = (
            Ball(centre, context, "float64", "serial", float.fromhex(x))
            for x in (updates_claim(claims)["parameters"]["radius"], inner)
        )
        stepped = replace(context.only, gamma=centre.state.gamma, b=0)
        W = counts._replay(stepped, context, "float64", "serial", updates_claim(claims)["parameters"]["replayed"])
        offset = [real(Fraction(W[i][j]) - Fraction(centre.state.W[i][j])) * centre.signs[i, j] for i, j in outer.face]
        drift = ball.d / (1 - ball.q)
        reach = ball.entry_radius(Fraction(ball.radius) - ball.d - ball.eps) - drift
        first = counts._updates_to(outer, offset, reach)
        last = counts._norm_count(Fraction(ball.radius) + drift, ball, Fraction(1e-6))
    assert own == first + 1 + last


def test_a_basis_that_is_off_still_gives_counts_that_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eigenvalues a third too large promise a faster decay; what the basis leaves out of K is paid for."""
    with ctx.workprec(BITS):
        ball, offset = linear(0.3, 1, 1e-3)
        honest = counts._updates_to(ball, offset, Fraction(1e-9))
        modes, K = ball.centre.modes(ball.face), ball.centre.box(ball.face, 0.0).K
        off = modes_of(K, [x * 4 / 3 for x in modes.lam], modes.Q)
        monkeypatch.setattr(ball.centre, "modes", lambda face: off)
        assert counts._updates_to(ball, offset, Fraction(1e-9)) >= honest - 1


@pytest.mark.parametrize("share", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("side", [-1, 1])
def test_counts_hold_where_the_curvature_varies_most(share: float, side: int) -> None:
    """x -> x - gamma (x - slope x |x| / 2): K = 1 - slope |x| attains the variation; exact iterates need the count."""
    gamma, r, slope = 0.5, 1.0, share

    def box(face: object, t: float) -> SimpleNamespace:
        column, zero = {(0, 1): arb(0)}, {(0, 1): arb(0)}
        return SimpleNamespace(K=arb_mat([[1]]), V=arb_mat([[slope * t]]), gradient=column, spread=zero)

    centre = SimpleNamespace(
        gamma=arb(gamma),
        lam=arb(0),
        signs={(0, 1): 1},
        U={(0, 1): arb(9)},
        box=box,
        modes=lambda face: modes_of(arb_mat([[1]]), [arb(1)], arb_mat([[1]])),
        spectrum=lambda face: (arb(1), arb(1), None),
    )
    q = Fraction(1) - Fraction(gamma) * (1 - Fraction(slope) * Fraction(r))
    ball = SimpleNamespace(
        centre=centre, face=((0, 1),), radius=r, drift=Fraction(0), eps=Fraction(0), q=q, floor=Fraction(0)
    )
    x, needed = side * 0.9375, 0
    with ctx.workprec(BITS):
        count = counts._updates_to(ball, [arb(x)], Fraction(1e-6))  # type: ignore[arg-type]
    while abs(x) > 1e-6:
        x, needed = x - gamma * (x - slope * x * abs(x) / 2), needed + 1
    assert needed <= count <= counts._norm_count(Fraction(0.9375), ball, Fraction(1e-6))  # type: ignore[arg-type]
