"""Fixed stages at the edges, by hand: singular, weakly active, nothing allowed, q = 0, B_0 = 0, rho = 0, lam = 0."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certify.cases.polyprox import State, update_exact
from certify.cases.polyprox.stage import search
from certify.cases.polyprox.stage.methods import METHODS, Attempt, face_test
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.prediction import enter, prediction
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.refutation import refute
from certify.cases.polyprox.stage.search import paper_protocol, search_face, with_new_step

from certify.arithmetic import BINARY64, FORMATS

#: What a published bound gives away, relatively, and a little for its 24 bits.
SLACK = 1.5 * 2.0**-20


def one_edge(p: int = 2, to: int = 1, **changes: Any) -> State:
    """One allowed edge 0 -> `to`, h = 0: V = W - gamma (Sigma_00 W - Sigma_0to); all numbers dyadic."""
    M = np.zeros((p, p))
    M[0, to] = 1
    Sigma = np.eye(p)
    Sigma[0, to] = Sigma[to, 0] = 0.5
    controls = {"alpha": 1.0, "rho": 1.0, "gamma": 0.5, "lam": 0.25, "b": 0, "p_max": p}
    return State(**({"W": np.zeros((p, p)), "Sigma": Sigma, "M": M} | controls | changes))


def at(state: State, *entries: tuple[int, int, float]) -> State:
    """The state with these weights."""
    W = np.zeros_like(state.W)
    for i, j, value in entries:
        W[i, j] = value
    return replace(state, W=W)


def test_the_lasso_of_one_edge_is_certified_with_the_exact_rate() -> None:
    """W_* = (Sigma_01 - lam) / Sigma_00 = 1/4 exactly, K = Sigma_00 = 1, gamma = 1/2: d = 0 and q = 1/2."""
    problem = Problem(at(one_edge(), (0, 1, 0.25)), BINARY64)
    assert problem.d == 0.0
    for method, test in METHODS.items():
        attempt = test(problem, 2.0**-4)
        assert attempt.outcome.certified, method
        # one edge makes no cycle: its curvature does not change, so only the global constants, on a box, lose
        if method in ("interval", "face"):
            assert attempt.outcome.q == pytest.approx(0.5, abs=SLACK)
    assert not refute(problem.state, problem.center).refuted


@pytest.mark.parametrize("method", METHODS)
def test_no_allowed_entry_is_a_constant_map_for_every_method(method: str) -> None:
    """M = 0: P is 0 everywhere, and 0 is its fixed point; no test may fail for want of an eigenvalue."""
    state = one_edge(M=np.zeros((2, 2)))
    attempt = METHODS[method](Problem(state, BINARY64), 0.01)
    assert attempt.face == 0
    assert attempt.outcome.certified or attempt.outcome.reason


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search gives up with an error after 200 balls, instead of searching forever."""
    tried = []

    def counted(problem: Problem, radius: float) -> Attempt:
        tried.append(radius)
        assert len(tried) < 200, f"200 balls were tried, the last of radius {radius}"
        return face_test(problem, radius)

    monkeypatch.setattr(search, "face_test", counted)


@pytest.mark.usefixtures("patience")
def test_a_search_without_rounding_ends() -> None:
    """Everything inactive, U = 0: d = eps = 0, so any radius certifies, 0 included; the search must still end."""
    problem = Problem(one_edge(lam=1.0), BINARY64)
    assert face_test(problem, 0.0).outcome.certified
    found = search_face(problem, 1e-6)
    assert found.smallest is not None
    assert found.largest is not None
    assert found.largest.outcome.stage.radius > 1e-3


@pytest.mark.usefixtures("patience")
def test_no_allowed_entry_is_certified_on_its_empty_face() -> None:
    """M = 0: the search finds a ball, nothing is refuted, polishing returns 0, and no update is needed."""
    state = one_edge(M=np.zeros((2, 2)))
    assert not polish(state).U.any()
    problem = Problem(state, BINARY64)
    found = search_face(problem, 1e-6)
    assert found.smallest is not None
    assert not refute(state, state.W).refuted
    assert prediction(problem, found.smallest, state.W, 1e-6).modal == 0


def test_one_variable_is_certified() -> None:
    """p = 1, N = 1: there is nothing to learn."""
    zero = np.zeros((1, 1))
    state = State(W=zero, Sigma=np.eye(1), M=zero, alpha=1.0, rho=1.0, gamma=0.5, lam=0.1, b=0, p_max=1)
    assert face_test(Problem(state, BINARY64), 0.01).outcome.certified


def test_everything_inactive_has_an_empty_face_and_rate_zero() -> None:
    """Sigma_01 = 1/2 < lam = 1: V stays within gamma lam near 0, P is 0 on the ball, so one update arrives."""
    state = one_edge(lam=1.0)
    problem = Problem(state, BINARY64)
    attempt = face_test(problem, 0.01)
    assert attempt.outcome.certified
    assert attempt.face == 0
    assert attempt.outcome.q <= 2.0**-52
    # W - gamma (W - 1/2) as intervals is 1/4 +- 3/2 r, within gamma lam = 1/2 for r <= 1/6; really V = 1/4 + W/2 is for 1/2
    assert face_test(problem, 0.16).face == 0
    assert face_test(problem, 0.6).face == 1
    # q_all = max(|1 +- gamma K|) <= 1.5: starts up to r / 1.5 are covered
    assert 0 < attempt.entry_radius <= 0.01


def test_q_zero_needs_one_update() -> None:
    """gamma Sigma_00 = 1: P(W) = soft(Sigma_01) whatever W; eigenvalue bounds give away 2**-20, so q is nearly 0."""
    problem = Problem(at(one_edge(gamma=1.0), (0, 1, 0.25)), BINARY64)
    attempt = face_test(problem, 2.0**-4)
    assert attempt.outcome.certified
    assert attempt.outcome.q < 2 * SLACK
    start = at(problem.state, (0, 1, 0.25 + 2.0**-5)).W
    predicted = prediction(problem, attempt, start, 1e-6)
    assert (predicted.norm, predicted.modal) == (1, 1)


def test_a_start_at_the_fixed_point_needs_no_update() -> None:
    """B_0 = 0: d = 0 and W_0 = U."""
    problem = Problem(at(one_edge(), (0, 1, 0.25)), BINARY64)
    attempt = face_test(problem, 2.0**-4)
    predicted = prediction(problem, attempt, problem.center, 1e-9)
    assert predicted.start == 0.0
    assert (predicted.norm, predicted.modal) == (0, 0)
    entry = enter(problem, attempt, problem.center, 0)
    assert entry is not None
    assert (entry.replayed, entry.distance) == (0, 0.0)


def test_a_weakly_active_entry_stays_on_the_face() -> None:
    """Sigma_01 = lam = 1/4, W = 0: V = gamma lam exactly. P is not differentiable there, but it contracts by 1/2."""
    Sigma = np.array([[1.0, 0.25], [0.25, 1.0]])
    state = one_edge(Sigma=Sigma)
    assert update_exact(state).W == [[0, 0], [0, 0]]
    problem = Problem(state, BINARY64)
    for radius in (1e-15, 1e-9, 0.1):
        assert not problem.inactive(radius).any()
        attempt = face_test(problem, radius)
        assert attempt.face == 1
        assert attempt.outcome.q == pytest.approx(0.5, abs=SLACK)
    assert attempt.outcome.certified


def test_a_weakly_active_entry_blocks_the_refutation() -> None:
    """Edges 0 -> 1 with Sigma_01 = lam (weak) and 0 -> 2 with W_02 = (1/2 - 1/4) / 1; gamma K = 3 > 2 on the active one.

    Without strict complementarity the theorem says nothing, so the verdict must stay open.
    """
    Sigma = np.eye(3)
    Sigma[0, 1] = Sigma[1, 0] = 0.25
    Sigma[0, 2] = Sigma[2, 0] = 0.5
    M = np.zeros((3, 3))
    M[0, 1:] = 1
    W = np.zeros((3, 3))
    W[0, 2] = 0.25
    state = one_edge(p=3, to=2, Sigma=Sigma, M=M, gamma=3.0, W=W)
    assert [[float(x) for x in row] for row in update_exact(state).W] == W.tolist()
    found = refute(state, W)
    assert not found.refuted
    assert "complementarity is not strict" in found.reason
    # a hair inside the threshold the entry is strictly inactive, and the fixed point is refuted
    Sigma[0, 1] = Sigma[1, 0] = 0.25 - 2.0**-30
    strict = replace(state, Sigma=Sigma)
    assert refute(strict, W).refuted


def test_a_vanishing_active_entry_blocks_the_refutation() -> None:
    """Sigma_01 - lam = 2**-62 W_* = 2**-62: no cube that is certified to hold it keeps its sign."""
    state = at(one_edge(lam=0.5 - 2.0**-54, gamma=3.0), (0, 1, 2.0**-54))
    found = refute(state, state.W)
    assert not found.refuted


def test_gamma_times_the_curvature_exactly_two_is_neither() -> None:
    """gamma Sigma_00 = 2: P reflects, W_* +- e swap forever. It is not a contraction, and the derivative is not above 1."""
    state = at(one_edge(gamma=2.0), (0, 1, 0.25))
    attempt = face_test(Problem(state, BINARY64), 0.1)
    assert not attempt.outcome.certified
    assert "q < 1 fails" in attempt.outcome.reason
    found = refute(state, state.W)
    assert not found.refuted
    assert "outside [0, 2/gamma]" in found.reason
    # and just beyond it is refuted
    assert refute(replace(state, gamma=2.0 + 2.0**-17), state.W).refuted


def test_a_singular_hessian_is_neither() -> None:
    """Column 2 has parents 0 and 1 with equal data: K = [[1, 1], [1, 1]], eigenvalue 0, a line of fixed points."""
    Sigma = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    M = np.zeros((3, 3))
    M[:2, 2] = 1
    # W_02 + W_12 = 1/2 - 1/4
    W = np.zeros((3, 3))
    W[:2, 2] = 0.125
    controls = {"alpha": 1.0, "rho": 1.0, "gamma": 0.25, "lam": 0.25, "b": 0, "p_max": 4}
    state = State(W=W, Sigma=Sigma, M=M, **controls)
    problem = Problem(state, BINARY64)
    assert problem.d == 0.0
    for radius in (1e-12, 0.01):
        for test in METHODS.values():
            attempt = test(problem, radius)
            assert not attempt.outcome.certified
            assert attempt.outcome.stage.mu <= 0
    assert search_face(problem, 1e-6).largest is None
    assert with_new_step(state, BINARY64) is None
    found = refute(state, W)
    assert not found.refuted
    # 0 is not isolated, so no cube has exactly one
    assert "no fixed point is proved" in found.reason


@pytest.mark.parametrize("exponent", [8, 20, 30, 40])
def test_a_nearly_singular_hessian_is_certified_as_long_as_rounding_allows(exponent: int) -> None:
    """K = [[1, 1 - e], [1 - e, 1]]: eigenvalues e and 2 - e, gamma = 1/2, q = 1 - e / 2; no cycle, so K is constant."""
    e = 2.0**-exponent
    Sigma = np.array([[1.0, 1 - e, 0.5], [1 - e, 1.0, 0.5], [0.5, 0.5, 1.0]])
    M = np.zeros((3, 3))
    M[:2, 2] = 1
    W = np.zeros((3, 3))
    W[:2, 2] = 0.125  # (2 - e) w = 1/4, nearly; polished below
    controls = {"alpha": 1.0, "rho": 1.0, "gamma": 0.5, "lam": 0.25, "b": 0, "p_max": 4}
    state = State(W=W, Sigma=Sigma, M=M, **controls)
    problem = Problem(replace(state, W=polish(state).U), BINARY64)
    found = search_face(problem, 1e-2)
    assert found.largest is not None, found.reason
    q = found.largest.outcome.q
    assert 0 < (1 - Fraction(q)) <= Fraction(e) / 2
    assert 1 - q == pytest.approx(e / 2, rel=1e-2)


def test_rho_zero_leaves_the_multiplier_constant() -> None:
    """rho = 0: c = alpha, and the two-cycle with lam = 0 has K = [[1 + alpha t^2, 2 alpha t^2], ...]."""
    t = 0.25
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    # 1/4 - Sigma_01 + 4 t^3 = 0: Sigma_01 = 5/16, all exact; K = [[5/4, 1/2], [1/2, 5/4]], gamma = 1: q = max(1/4, 3/4)
    controls = {"alpha": 4.0, "rho": 0.0, "gamma": 1.0, "lam": 0.0, "b": 0, "p_max": 2}
    state = State(W=t * swap, Sigma=np.eye(2) + 0.3125 * swap, M=swap, **controls)
    problem = Problem(state, BINARY64)
    assert problem.d == 0.0
    attempt = face_test(problem, 1e-12)
    assert attempt.outcome.certified
    assert attempt.outcome.q == pytest.approx(0.75, abs=4 * SLACK)
    assert attempt.entry_radius == 1e-12


def test_lam_zero_declares_nothing_inactive() -> None:
    """lam = 0: the threshold clears nothing, so every allowed entry is on the face, zero or not."""
    Sigma = np.eye(3)
    Sigma[0, 1] = Sigma[1, 0] = 0.5
    M = 1 - np.eye(3)
    state = State(W=np.zeros((3, 3)), Sigma=Sigma, M=M, alpha=1.0, rho=1.0, gamma=0.5, lam=0.0, b=0, p_max=4)
    state = replace(state, W=polish(state).U)
    problem = Problem(state, BINARY64)
    for radius in (0.0, 1e-15, 1e-6):
        assert not problem.inactive(radius).any()
    found = search_face(problem, 1e-6)
    assert found.largest is not None
    assert found.largest.face == 6


def test_paper_protocol_keeps_every_attempt_and_stops_at_the_first() -> None:
    """On one edge every radius passes, so the largest of the paper's is the answer; an impossible tolerance tries them all."""
    problem = Problem(at(one_edge(), (0, 1, 0.25)), BINARY64)
    found = paper_protocol(problem, "face", 1e-6)
    assert len(found.attempts) == 1
    assert found.smallest is not None
    assert found.smallest.outcome.stage.radius == 0.1
    none = paper_protocol(problem, "face", 1e-30)
    assert none.smallest is None
    assert len(none.attempts) == 11


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_its_own_rounding_and_the_same_curvature(name: str) -> None:
    """One edge, dyadic numbers: mu, L and d do not depend on the format, eps grows with its unit roundoff."""
    problem = Problem(at(one_edge(), (0, 1, 0.25)), BINARY64)
    attempt, base = face_test(problem.in_format(FORMATS[name]), 2.0**-4), face_test(problem, 2.0**-4)
    assert attempt.outcome.stage.mu == base.outcome.stage.mu
    assert attempt.outcome.stage.d == 0.0
    assert attempt.outcome.stage.eps >= base.outcome.stage.eps
    # in eight bits eps is a tenth or more
    assert attempt.outcome.certified == (FORMATS[name].precision > 4)


def test_a_centre_next_to_overflow_is_not_certified() -> None:
    """W = 1e70 on a two-cycle: K overflows at the centre itself, and the verdict is a reason, not an exception."""
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    controls = {"alpha": 1.0, "rho": 1.0, "gamma": 0.5, "lam": 0.1, "b": 0, "p_max": 2}
    state = State(W=1e70 * swap, Sigma=np.eye(2), M=swap, **controls)
    with np.errstate(over="ignore", invalid="ignore"):
        attempt = face_test(Problem(state, BINARY64), 1.0)
    assert not attempt.outcome.certified
    assert attempt.outcome.reason
