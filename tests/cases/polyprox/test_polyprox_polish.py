"""Polishing: the centre is a fixed point to the last bits, which exact arithmetic confirms, near the saved state."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox import State, corpus, solve, stage_states, update_exact
from certify.cases.polyprox.sachs import covariance
from certify.cases.polyprox.stage.polish import Polished, approximate_hessian, polish
from polyprox_states import random_state

from certify.errors import InputRejected

SOURCES = ("sachs", "p3", "p5", "p10")
EARLY, MIDDLE, LATE = 0, 1, 2


@pytest.fixture(scope="module")
def stages() -> dict[str, list[State]]:
    """Return the early, middle and late stage states of the Sachs run and of one corpus instance of each size."""
    found = {f"p{p}": corpus.snapshots(p, 4) for p in corpus.SIZES}
    return found | {"sachs": stage_states(solve(covariance()[0], record="stages"))}


@pytest.fixture(scope="module")
def centres(stages: dict[str, list[State]]) -> dict[str, list[Polished]]:
    """Return their centres."""
    return {name: [polish(state, extended=True) for state in states] for name, states in stages.items()}


def forward(state: State, W: object) -> list[list[Fraction]]:
    """Return ``V = W - gamma grad J(W)`` on the mask exactly: the reference update without its threshold."""
    return update_exact(replace(state, lam=0.0, b=0), W=W).W


def displacement(state: State, W: object) -> Fraction:
    """Return ``||P(W) - W||_F`` squared, by the reference update."""
    image = np.array(update_exact(replace(state, b=0), W=W).W, dtype=object)
    gaps = (Fraction(x) - Fraction(y) for x, y in zip(image.flat, np.asarray(W, dtype=object).flat, strict=True))
    return sum((gap * gap for gap in gaps), Fraction(0))


def assert_bounds_tightly(bound: float, square: Fraction) -> None:
    """Assert ``bound**2`` exceeds an exact square by at most two ulps of the bound."""
    assert square <= Fraction(bound) ** 2 <= square * (1 + Fraction(1, 2**50))


def assert_stationary(state: State, centre: Polished, slack: float) -> None:
    """Assert the first-order conditions of ``J + lam |W|_1`` exactly, up to a displacement ``slack``.

    Off the face ``|grad J| <= lam``; on it the sign of V is that of U and ``grad J = -lam sign(U)``.
    """
    gamma, lam = Fraction(state.gamma), Fraction(state.lam)
    assert not np.any(centre.U[state.M == 0])
    assert not np.any(centre.U[~centre.face])
    assert not np.any(centre.face & (state.M == 0))
    V = forward(state, centre.U)
    for i, j in np.argwhere(state.M):
        u = Fraction(float(centre.U[i, j]))
        gradient = (u - V[i][j]) / gamma
        if not centre.face[i, j]:
            assert abs(gradient) <= lam
        else:
            sign = (V[i][j] > 0) - (V[i][j] < 0)
            assert abs(V[i][j]) > gamma * lam or lam == 0
            assert lam == 0 or sign * u > 0
            assert abs(gradient + sign * lam) <= Fraction(slack) / gamma


def smallest_curvature(state: State, centre: Polished) -> float:
    """Return the smallest eigenvalue of ``K_FF`` at the centre, in binary64."""
    return float(np.linalg.eigvalsh(approximate_hessian(centre.U, state, np.argwhere(centre.face)))[0])


@pytest.mark.parametrize("stage", [EARLY, MIDDLE, LATE])
@pytest.mark.parametrize("source", SOURCES)
def test_centres_are_fixed_points_to_the_rounding_of_their_storage(
    source: str, stage: int, stages: dict[str, list[State]], centres: dict[str, list[Polished]]
) -> None:
    """The residual is below one ulp of 1 (2.2e-16), and is the exact displacement rounded up."""
    state, centre = stages[source][stage], centres[source][stage]
    assert centre.residual < 2.3e-16
    assert_bounds_tightly(centre.residual, displacement(state, centre.U))


@pytest.mark.parametrize("stage", [EARLY, MIDDLE, LATE])
@pytest.mark.parametrize("source", SOURCES)
def test_centres_are_local_minimisers_no_higher_than_the_state(
    source: str, stage: int, stages: dict[str, list[State]], centres: dict[str, list[Polished]]
) -> None:
    """First-order conditions hold exactly, K_FF is positive definite, and the objective did not rise."""
    state, centre = stages[source][stage], centres[source][stage]
    assert_stationary(state, centre, centre.residual)
    assert smallest_curvature(state, centre) > 0.01
    assert objective(state, centre.U) <= objective(state, state.W) * (1 + 1e-12)


@pytest.mark.parametrize("stage", [EARLY, MIDDLE, LATE])
@pytest.mark.parametrize("source", ["sachs", "p5"])
def test_tail_extends_the_centre_to_twice_the_precision(
    source: str, stage: int, stages: dict[str, list[State]], centres: dict[str, list[Polished]]
) -> None:
    """``U + tail`` is displaced by under 1e-30, exactly evaluated; the tail is of the order of U's ulps and 0 off the face."""
    state, centre = stages[source][stage], centres[source][stage]
    assert centre.tail is not None
    assert centre.extended_residual is not None
    assert centre.extended_residual < 1e-30
    assert not np.any(centre.tail[~centre.face])
    # U has the least residual, so it may sit a few ulps off its nearest rounding along directions of low curvature
    assert 0 < np.linalg.norm(centre.tail) <= 2**-48 * np.linalg.norm(centre.U)
    assert_bounds_tightly(centre.extended_residual, displacement(state, np.array(centre.extended(), dtype=object)))


def test_distance_is_that_from_the_saved_weights(
    stages: dict[str, list[State]], centres: dict[str, list[Polished]]
) -> None:
    """``distance`` bounds ``||U - W||_F``; a stage that was stationary to 1e-6 moved by less than 1e-4."""
    for state, centre in zip(stages["sachs"], centres["sachs"], strict=True):
        gap = [Fraction(float(u)) - Fraction(float(w)) for u, w in zip(centre.U.flat, state.W.flat, strict=True)]
        assert_bounds_tightly(centre.distance, sum((x * x for x in gap), Fraction(0)))
    assert 0 < centres["sachs"][EARLY].distance < 1e-4


def test_polishing_a_centre_keeps_it(stages: dict[str, list[State]], centres: dict[str, list[Polished]]) -> None:
    """A second polish moves the centre by rounding only."""
    for state, centre in zip(stages["sachs"], centres["sachs"], strict=True):
        again = polish(replace(state, W=centre.U))
        assert again.distance < 1e-15
        assert again.residual <= 2 * centre.residual


def test_centre_does_not_depend_on_the_step_size(
    stages: dict[str, list[State]], centres: dict[str, list[Polished]]
) -> None:
    """A seventh of the recorded gamma gives the same stationary point and face."""
    state, centre = stages["p10"][MIDDLE], centres["p10"][MIDDLE]
    slower = polish(replace(state, gamma=state.gamma / 7))
    assert np.abs(slower.U - centre.U).max() < 1e-15
    assert np.array_equal(slower.face, centre.face)


@pytest.mark.parametrize("max_iterations", [0, 3])
def test_newton_alone_reaches_a_centre(max_iterations: int, stages: dict[str, list[State]]) -> None:
    """With L-BFGS-B cut short, damped Newton still descends to a local minimiser of each stage."""
    for state in stages["p10"]:
        centre = polish(state, max_iterations=max_iterations)
        assert centre.residual < 2.3e-16
        assert smallest_curvature(state, centre) > 0.01
        assert objective(state, centre.U) <= objective(state, state.W) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_random_stages_are_polished_from_far_away(seed: int) -> None:
    """From arbitrary weights the centre is stationary to 1e-14 and a minimiser of its face."""
    state = random_state(np.random.default_rng(seed), 4, 4 + seed % 5, b=1, density=0.8, scale=8)
    centre = polish(state)
    assert centre.residual < 1e-14
    assert_stationary(state, centre, centre.residual)
    if np.any(centre.face):
        assert smallest_curvature(state, centre) > -1e-9
    assert objective(state, centre.U) < objective(state, state.W)


def test_two_cycle_of_the_paper_is_recovered() -> None:
    """Section 9: Sigma_12 = 0.2800064, alpha = 10, rho = 1, lam = 0 has U = 1/5, eigenvalues 0.599968 and 2.200224."""
    state = two_nodes(r=0.2800064, W=0.2, alpha=10.0, rho=1.0, lam=0.0, gamma=5 / 7)
    centre = polish(state, extended=True)
    assert centre.distance < 1e-16  # 1/5 and 0.2800064 are rounded, so the fixed point is 0.2 to an ulp
    assert centre.residual < 1e-16
    assert centre.extended_residual is not None
    assert centre.extended_residual < 1e-31
    assert np.array_equal(centre.face, state.M == 1)
    K = approximate_hessian(centre.U, state, np.argwhere(state.M))
    assert np.linalg.eigvalsh(K) == pytest.approx([0.599968, 2.200224], abs=1e-12)
    moved = polish(replace(state, W=state.W + 0.01 * state.M))
    assert np.abs(moved.U - centre.U).max() < 1e-15


@pytest.mark.parametrize("max_iterations", [0, 1500])
def test_newton_leaves_a_nearby_saddle(max_iterations: int) -> None:
    """Started 1e-3 from a saddle, where plain Newton would converge to it, the centre is a minimiser instead.

    lam = rho = 0, r = 0.6, alpha = 100: the two-cycle t with t + 100 t^3 = 0.6, t = 0.16307, has eigenvalues
    1 + 300 t^2 > 0 and 1 - 100 t^2 = -1.66.
    """
    state = two_nodes(r=0.6, W=0.16307, alpha=100.0, rho=0.0, lam=0.0, gamma=0.1)
    entries = np.argwhere(state.M)
    assert np.linalg.eigvalsh(approximate_hessian(state.W, state, entries))[0] == pytest.approx(-1.66, abs=0.01)
    tilted = replace(state, W=state.W + np.array([[0, 1e-3], [-1e-3, 0]]))
    centre = polish(tilted, max_iterations=max_iterations)
    assert centre.residual < 1e-15
    assert smallest_curvature(tilted, centre) > 0.1
    assert objective(tilted, centre.U) < objective(tilted, tilted.W) - 1e-3


def test_lasso_of_two_nodes_has_its_closed_form() -> None:
    """alpha = rho = 0 and unit variances: U_12 = U_21 = r - lam, here 0.75 - 0.25; and 0 once lam reaches r."""
    centre = polish(two_nodes(r=0.75, W=0.0, alpha=0.0, rho=0.0, lam=0.25, gamma=0.5))
    assert np.array_equal(centre.U, 0.5 * (1 - np.eye(2)))
    assert centre.residual == 0
    for lam in (0.75, 0.8):  # at 0.75 the threshold holds with equality: weakly active, and not on the face
        cleared = polish(two_nodes(r=0.75, W=0.125, alpha=0.0, rho=0.0, lam=lam, gamma=0.5))
        assert not np.any(cleared.U)
        assert not np.any(cleared.face)
        assert cleared.residual == 0


def test_least_squares_on_a_triangular_mask_solves_the_normal_equations() -> None:
    """lam = alpha = rho = 0: column j of U is Sigma[:j, :j]^-1 Sigma[:j, j]; the face is every allowed entry."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 4))
    Sigma = X.T @ X / 40
    M = np.triu(np.ones((4, 4), dtype=np.int8), 1)
    state = State(W=np.zeros((4, 4)), Sigma=Sigma, M=M, alpha=0.0, rho=0.0, gamma=0.3, lam=0.0, b=0, p_max=4)
    centre = polish(state)
    for j in range(1, 4):
        assert centre.U[:j, j] == pytest.approx(np.linalg.solve(Sigma[:j, :j], Sigma[:j, j]), rel=1e-13)
    assert np.array_equal(centre.face, M == 1)
    assert centre.residual < 1e-16


def test_fixed_point_is_returned_as_saved() -> None:
    """W = 0 with lam above every |Sigma_ij| is a fixed point: nothing moves and nothing is displaced."""
    state = two_nodes(r=0.5, W=0.0, alpha=1.0, rho=3.0, lam=0.625, gamma=0.5)
    centre = polish(state, extended=True)
    assert (centre.method, centre.iterations) == ("saved", 0)
    assert (centre.distance, centre.residual, centre.extended_residual) == (0, 0, 0)


@pytest.mark.parametrize("p", [1, 3])
def test_no_allowed_entry_leaves_the_zero_centre(p: int) -> None:
    """With M = 0 the only point is W = 0, and it is fixed."""
    state = State(
        W=np.zeros((p, p)),
        Sigma=np.eye(p),
        M=np.zeros((p, p), dtype=np.int8),
        alpha=1.0,
        rho=1.0,
        gamma=1.0,
        lam=0.1,
        b=1,
        p_max=p,
    )
    centre = polish(state, extended=True)
    assert not np.any(centre.U)
    assert not np.any(centre.face)
    assert (centre.method, centre.residual, centre.extended_residual) == ("saved", 0, 0)


def test_overflowing_state_is_rejected() -> None:
    """Weights whose powers leave binary64 are refused by name, without a warning."""
    with pytest.raises(InputRejected, match="overflows"):
        polish(two_nodes(r=0.5, W=1e160, alpha=1.0, rho=1.0, lam=0.1, gamma=0.5))


@pytest.mark.parametrize(("p", "P"), [(2, 2), (3, 4), (4, 8), (1, 1)])
def test_approximate_hessian_is_the_derivative_of_the_exact_gradient(p: int, P: int) -> None:
    """K times a unit direction is the central difference of the exact gradient at step 2^-30, to 1e-13."""
    state = replace(random_state(np.random.default_rng(p), p, P, b=0, scale=2.0), gamma=1.0)
    entries = np.argwhere(state.M)
    K = approximate_hessian(state.W, state, entries)
    step = Fraction(1, 2**30)  # the truncation error is of the order step**2, about 1e-18
    W = np.array([[Fraction(x) for x in row] for row in state.W.tolist()], dtype=object)
    for k, (i, j) in enumerate(entries):
        ends = []
        for sign in (1, -1):
            moved = W.copy()
            moved[i, j] += sign * step
            V = forward(state, moved)
            ends.append([moved[a, b] - V[a][b] for a, b in entries])  # gamma = 1: W - V is the gradient
        column = [float((x - y) / (2 * step)) for x, y in zip(*ends, strict=True)]
        assert K[:, k] == pytest.approx(column, abs=1e-13 * max(1, np.abs(K).max()))


def two_nodes(*, r: float, W: float, alpha: float, rho: float, lam: float, gamma: float) -> State:
    """Return the two-node stage with unit variances, correlation r and both weights W."""
    swap = 1 - np.eye(2)
    controls = {"alpha": alpha, "rho": rho, "lam": lam, "gamma": gamma}
    return State(W=W * swap, Sigma=np.eye(2) + r * swap, M=swap.astype(np.int8), b=0, p_max=2, **controls)


def objective(state: State, W: np.ndarray) -> float:
    """Return ``J(W) + lam |W|_1`` by powers of Y."""
    Y = np.eye(state.p) + W * W / state.N
    h = np.trace(np.linalg.matrix_power(Y, state.N) - np.eye(state.p))
    away = np.eye(state.p) - W
    loss = 0.5 * np.trace(away.T @ state.Sigma @ away)
    return float(loss + state.alpha * h + state.rho / 2 * h * h + state.lam * np.abs(W).sum())
