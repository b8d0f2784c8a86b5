"""The modal bound against iterations whose fixed point is known exactly, with the worst perturbations we can think of."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.contraction.eigenbasis import eigenbasis
from certify.contraction.modal import Curvature, modal_bounds, modal_count, predict
from certify.contraction.updates import Ball, norm_bound, norm_count, start_bound
from certify.errors import InputRejected

SETTINGS = settings(derandomize=True, deadline=None, max_examples=60)
SEEDS = st.integers(0, 2**32 - 1)


def squared(vector):
    """The exact squared norm."""
    return sum((Fraction(x) ** 2 for x in vector), Fraction(0))


def symmetric(rng, lam, bits=20):
    """A symmetric matrix on a dyadic grid with eigenvalues near lam."""
    Q = np.linalg.qr(rng.normal(size=(len(lam), len(lam))))[0]
    K = np.rint((Q * lam) @ Q.T * 2.0**bits) * 2.0**-bits
    return (K + K.T) / 2


def curvature_of(K, gamma, radii=(1e3,), variation=(0.0,), rates=None):
    """A curvature whose Hessian at the centre is exactly K."""
    basis = eigenbasis(K)
    return Curvature(
        gamma, basis.Q, basis.lam, basis.distance, basis.residual, np.array(radii), np.array(variation), rates
    )


def linear_ball(curvature, d=0.0, eps=0.0):
    """A ball of radius 1000 for a linear map: q from the eigenvalues and their error bound, by Weyl."""
    gamma, residual = Fraction(curvature.gamma), Fraction(curvature.residual)
    q = max(abs(1 - gamma * Fraction(x)) + gamma * residual for x in curvature.lam.tolist())
    return Ball(q, d, eps, 1e3)


def away(error, K, eps, rng):
    """A perturbation of size below eps that pushes away: along the error, or its slowest part."""
    slow = np.linalg.eigh(K)[1][:, 0]
    direction = (
        np.array([float(x) for x in error]) if rng.random() < 0.5 else slow * np.sign(slow @ error.astype(float))
    )
    size = np.linalg.norm(direction)
    return direction * (0.999 * eps / size) if size else slow * 0.999 * eps


@SETTINGS
@given(SEEDS, st.integers(1, 4), st.sampled_from([0.0, 1e-9, 1e-3]))
def test_exact_linear_iterations_stay_below_both_bounds(seed, n, eps):
    """W -> W - gamma K (W - W_*) + r in rational arithmetic: at every update the exact distance is within both bounds."""
    rng = np.random.default_rng(seed)
    K = symmetric(rng, np.exp(rng.uniform(-3, 0, n)))
    gamma = float(rng.choice([0.5, 1.0, 1.75]))  # 1.75: over-relaxed, some 1 - gamma lam < 0
    exact_K = np.array([[Fraction(x) for x in row] for row in K.tolist()]).reshape(n, n)
    curvature = curvature_of(K, gamma)
    fixed = np.rint(rng.normal(size=n) * 16) / 256
    # the centre is the origin: d = gamma ||K W_*||
    d = math.nextafter(gamma * np.linalg.norm(K @ fixed) * (1 + 1e-12), 1)
    ball = linear_ball(curvature, d, eps)
    offset = np.rint(rng.normal(size=n) * 64) / 64
    count = 25
    bounds = modal_bounds(ball, curvature, offset, count, fixed_branches=True)
    start = start_bound(math.nextafter(np.linalg.norm(offset) * (1 + 1e-12), 9), ball)
    error = np.array([Fraction(x) for x in (offset - fixed).tolist()])
    for k in range(count + 1):
        assert squared(error) <= Fraction(bounds[k]) ** 2
        assert squared(error) <= Fraction(norm_bound(start, ball.q, eps, k)) ** 2
        error = error - Fraction(gamma) * (exact_K @ error)
        if eps:
            error = error + np.array([Fraction(x) for x in away(error, K, eps, rng).tolist()])


def quartic(rng, n, spread, kappas):
    """f with gradient K0 (W - W_*) + kappa (W^3 - W_*^3), a centre, and its curvature bounds as functions.

    The Hessian K0 + 3 kappa diag(W^2) differs from that at U by at most 3 kappa max |W_i^2 - U_i^2| <= 3 kappa t (2 |U| + t),
    and lies between K0 and K0 + 3 kappa (|U| + t)^2, with maximum norms |U| of the centre.
    """
    K0 = symmetric(rng, np.exp(rng.uniform(-spread, 0, n)))
    kappa = float(rng.choice(kappas))
    fixed = np.rint(rng.normal(size=n) * 64) / 256
    centre = fixed + np.rint(rng.normal(size=n) * 4) * 2.0**-24
    top = np.abs(centre).max()
    lam = np.linalg.eigvalsh(K0)

    def variation(t):
        return 3 * kappa * t * (2 * top + t) * (1 + 1e-9)

    def ends(t):
        low = max(lam[0], lam[0] + 3 * kappa * (centre**2).min() - variation(t))
        return low * (1 - 1e-9), (lam[-1] + 3 * kappa * (top + t) ** 2) * (1 + 1e-9)

    return K0, kappa, fixed, centre, variation, ends


def certified(rng, n, eps, spread=3.0, kappas=(0.0625, 0.25, 1.0)):
    """A quartic problem with a certified ball of radius 0.1 and its curvature tables."""
    K0, kappa, fixed, centre, variation, ends = quartic(rng, n, spread, kappas)
    high = ends(0.1)[1]
    gamma = float(rng.choice([1.0, 1.5, 1.9])) / high
    d = gamma * np.linalg.norm(K0 @ (centre - fixed) + kappa * (centre**3 - fixed**3)) * (1 + 1e-9) + 1e-13
    radii = 0.1 * 2.0 ** np.arange(-8, 1)
    rates = np.array([max(abs(1 - gamma * mu), abs(1 - gamma * L)) for mu, L in map(ends, radii)]) * (1 + 1e-12)
    ball = Ball(float(rates[-1]), d, eps, 0.1)
    hessian = K0 + np.diag(3 * kappa * centre**2)
    basis = eigenbasis(hessian)
    curvature = Curvature(
        gamma, basis.Q, basis.lam, basis.distance, basis.residual + 1e-14, radii, variation(radii), rates
    )
    return K0, kappa, fixed, centre, ball, curvature


@SETTINGS
@given(SEEDS, st.integers(1, 4), st.sampled_from([1e-12, 1e-8, 1e-5]))
def test_nonlinear_float_iterations_stay_below_both_bounds(seed, n, eps):
    """Gradient steps on a quartic, rounded to binary64 and pushed away: every error of an update is checked exactly."""
    rng = np.random.default_rng(seed)
    K0, kappa, fixed, centre, ball, curvature = certified(rng, n, eps)
    direction = rng.normal(size=n)
    W = centre + direction * (0.09 / np.linalg.norm(direction))
    slack = 1e-16  # W - centre is not exact
    offset, count = W - centre, 40
    free = modal_bounds(ball, curvature, offset, count, fixed_branches=False, offset_error=slack)
    modal = modal_bounds(ball, curvature, offset, count, fixed_branches=True, offset_error=slack)
    gamma, quarter = Fraction(curvature.gamma), Fraction(kappa)
    matrix = [[Fraction(x) for x in row] for row in K0.tolist()]
    target = [Fraction(x) for x in fixed.tolist()]
    start = start_bound(np.linalg.norm(offset) * (1 + 1e-12) + slack, ball)
    for k in range(count + 1):
        now = [Fraction(x) for x in W.tolist()]
        error = [a - b for a, b in zip(now, target, strict=True)]
        for bound in (free[k], modal[k], norm_bound(start, ball.q, eps, k)):
            assert squared(error) <= Fraction(bound) ** 2
        cubes = [quarter * (a**3 - b**3) for a, b in zip(now, target, strict=True)]
        gradient = [
            sum(a * b for a, b in zip(row, error, strict=True)) + c for row, c in zip(matrix, cubes, strict=True)
        ]
        image = [a - gamma * g for a, g in zip(now, gradient, strict=True)]
        push = away(np.array(error), K0, 0.99 * eps, rng)
        W = np.array([float(x) for x in image]) + push
        assert squared(Fraction(a) - b for a, b in zip(W.tolist(), image, strict=True)) <= Fraction(eps) ** 2


@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_one_mode_attains_both_bounds(eps):
    """n = 1, a = 3/4: the error (3/4)^k + eps sum (3/4)^j is the bound itself, up to the outward rounding."""
    ball = Ball(0.75, 0.0, eps, 2.0)
    curvature = Curvature(0.25, np.eye(1), np.ones(1), 0.0, 0.0, np.array([2.0]), np.zeros(1))
    bounds = modal_bounds(ball, curvature, np.ones(1), 50, fixed_branches=True)
    error = Fraction(1)
    for k in range(51):
        assert error <= Fraction(bounds[k]) <= error * Fraction(1 + 1e-12)
        error = error * Fraction(3, 4) + Fraction(eps)


def test_a_start_in_a_fast_mode_arrives_at_its_own_rate():
    """Rates 1/4 and 15/16, offset along the first: 2^-20 takes 10 updates at 1/4^k, and 215 at the slow rate.

    20 ln 2 / -ln(15/16) = 13.863 / 0.06454 = 214.8.
    """
    ball = Ball(0.9375, 0.0, 0.0, 2.0)
    curvature = Curvature(1.0, np.eye(2), np.array([0.75, 0.0625]), 0.0, 0.0, np.array([2.0]), np.zeros(1))
    tol = 2.0**-20 * (1 + 2.0**-18)  # the modal count gives away 2**-20 of the tolerance
    assert norm_count(1.0, 0.9375, 0.0, tol) == 215
    assert modal_count(ball, curvature, np.array([1.0, 0.0]), tol, fixed_branches=True) == 10
    assert modal_count(ball, curvature, np.array([0.0, 1.0]), tol, fixed_branches=True) == 215
    assert modal_count(ball, curvature, np.array([1.0, 0.0]), tol, fixed_branches=False) == 215


def test_rates_are_averaged_over_the_segment():
    """q(t) = 1/4 to 1/2, then 1/2; c = (1/8) / (1/2) = 1/4, B_0 = 1/4 + c = 1/2.

    beta_1 = int_0^(1/2) q(1/4 + x) dx = (1/4)(1/4) + (1/4)(1/2) = 3/16, then beta_2 = (1/4)(3/16).
    """
    radii, rates = np.array([0.5, 1.0]), np.array([0.25, 0.5])
    curvature = Curvature(1.0, np.eye(1), np.ones(1), 0.0, 0.0, radii, np.zeros(2), rates)
    bounds = modal_bounds(Ball(0.5, 0.125, 0.0, 1.0), curvature, np.full(1, 0.25), 2, fixed_branches=False)
    exact = np.array([1 / 2, 3 / 16, 3 / 64])
    assert (bounds >= exact).all() and (bounds <= exact * (1 + 1e-13)).all()


@pytest.mark.parametrize("fixed_branches", [False, True])
def test_underflow_never_makes_a_bound_zero(fixed_branches):
    """From the smallest subnormal, halved: the exact distance is positive at every update, and so is the bound."""
    curvature = Curvature(0.5, np.eye(1), np.ones(1), 0.0, 0.0, np.array([1.0]), np.zeros(1))
    bounds = modal_bounds(Ball(0.5, 0.0, 0.0, 1.0), curvature, np.full(1, 5e-324), 9, fixed_branches=fixed_branches)
    assert (bounds > 0).all()


def test_the_modal_part_needs_fixed_branches():
    """A soft threshold that holds entry 2 at 0 breaks the modal recursion, and not the one without it.

    A = 0.9 v v^T + 0.5 u u^T, u = (1, 1) / sqrt 2, v = (1, -1) / sqrt 2; P(W) = (first entry of A (W - W_*), 0) about
    W_* = 0. From u: A u = u / 2 = (0.354, 0.354), then 0.7 per update: 0.354 * 0.7^2 = 0.173 > 0.5^3 at update 3.
    """
    curvature = Curvature(1.0, np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2), np.array([0.5, 0.1]), 1e-15, 1e-15,
                          np.array([2.0]), np.zeros(1))  # fmt: skip
    ball = Ball(0.9 + 1e-12, 0.0, 0.0, 2.0)
    W = np.array([1.0, 1.0]) / math.sqrt(2)
    offset = W.copy()
    distances = [np.linalg.norm(W)]
    for _ in range(5):
        W = np.array([0.7 * W[0] - 0.2 * W[1], 0.0])
        distances.append(np.linalg.norm(W))
    assert (modal_bounds(ball, curvature, offset, 5, fixed_branches=False) >= distances).all()
    assert (modal_bounds(ball, curvature, offset, 5, fixed_branches=True) < distances).any()


def test_variation_and_error_terms_are_all_used():
    """Each of eps, rho_R, delta_Q, v, d and the offset error raises the bound: none is dropped by mistake."""

    def bound(d=0.0, eps=0.0, distance=0.0, residual=0.0, variation=0.0, offset_error=0.0):
        lam = np.array([0.75, 0.0625])
        curvature = Curvature(1.0, np.eye(2), lam, distance, residual, np.array([2.0]), np.array([variation]))
        ball = Ball(0.97, d, eps, 2.0)
        return modal_bounds(ball, curvature, np.ones(2), 8, fixed_branches=True, offset_error=offset_error)[8]

    plain = bound()
    for name in ("d", "eps", "distance", "residual", "variation", "offset_error"):
        assert bound(**{name: 1e-3}) > plain * (1 + 1e-4), name


def test_gamma_lam_of_one_is_exact_up_to_the_floor_of_the_evaluation():
    """a = 0: one update arrives, within sqrt(n) 2^-500 and the smallest numbers."""
    curvature = Curvature(0.5, np.eye(3), np.full(3, 2.0), 0.0, 0.0, np.array([2.0]), np.zeros(1))
    bounds = modal_bounds(Ball(0.5, 0.0, 0.0, 2.0), curvature, np.ones(3), 3, fixed_branches=True)
    assert bounds[0] >= math.sqrt(3)
    assert (bounds[1:] <= 2.0**-498).all()
    exact = modal_bounds(Ball(0.0, 0.0, 0.0, 2.0), curvature, np.ones(3), 3, fixed_branches=True)
    assert (exact[1:] == 0).all()


def test_no_modes():
    """n = 0: nothing moves; only the errors of the hypotheses remain."""
    none = np.zeros(0)
    curvature = Curvature(1.0, np.zeros((0, 0)), none, 0.0, 0.0, np.array([1.0]), np.zeros(1))
    assert (modal_bounds(Ball(0.0, 0.0, 0.0, 1.0), curvature, none, 3, fixed_branches=True) == 0).all()
    assert modal_count(Ball(0.0, 0.0, 0.0, 1.0), curvature, none, 1e-9, fixed_branches=True) == 0
    bounds = modal_bounds(Ball(0.5, 0.0, 0.125, 1.0), curvature, none, 3, fixed_branches=True)
    assert (bounds[1:] >= 0.125).all()


@pytest.mark.parametrize(
    ("eps", "tol", "count"),
    [(0.25, 0.5, None), (0.25, 0.25, None), (0.0, 1.0, 0), (0.0, 4.0, 0), (0.25, 0.75, 1)],
)
def test_boundary_tolerances(eps, tol, count):
    """tol at or below the floor eps / (1 - q) gives None, tol >= B_0 gives 0, a tie at b_1 = 0.75 gives 1."""
    curvature = Curvature(0.5, np.eye(1), np.ones(1), 0.0, 0.0, np.array([2.0]), np.zeros(1))
    ball = Ball(0.5, 0.0, eps, 2.0)
    assert modal_count(ball, curvature, np.ones(1), tol, fixed_branches=True) == count
    prediction = predict(ball, curvature, np.ones(1), tol, fixed_branches=True)
    assert (prediction.norm, prediction.modal) == (count, count)
    assert prediction.start == 1.0 and prediction.floor == 2 * eps


def test_past_the_limit_the_norm_bound_takes_over():
    """Counts for every limit lie between the unlimited modal count and the norm count, and never increase with it."""
    rng = np.random.default_rng(5)
    curvature = curvature_of(symmetric(rng, np.exp(rng.uniform(-5, 0, 12))), 1.0)
    ball = linear_ball(curvature)
    offset = rng.normal(size=12)
    start = start_bound(float(np.linalg.norm(offset)) * (1 + 1e-12), ball)
    counts = [
        modal_count(ball, curvature, offset, 1e-6, limit, fixed_branches=True) for limit in (0, 1, 10, 100, 10**5)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] <= norm_count(start, ball.q, 0.0, 1e-6)
    assert counts[-1] < counts[0]


def test_tables_need_not_be_monotone_and_finer_ones_are_never_worse():
    """A bound within a large radius holds within smaller ones; more radii only lower the bound."""
    rng = np.random.default_rng(11)
    *_, ball, curvature = certified(rng, 4, 1e-9)
    offset = np.full(4, 0.02)
    fields = {name: getattr(curvature, name) for name in ("gamma", "Q", "lam", "distance", "residual")}
    fine = modal_bounds(ball, curvature, offset, 60, fixed_branches=True)
    coarse = Curvature(**fields, radii=curvature.radii[-1:], variation=curvature.variation[-1:])
    assert (fine <= modal_bounds(ball, coarse, offset, 60, fixed_branches=True) * (1 + 1e-12)).all()
    bumped = curvature.variation.copy()
    bumped[2] = 1e9
    lifted = curvature.variation.copy()
    lifted[2] = lifted[3]
    both = [
        modal_bounds(ball, Curvature(**fields, radii=curvature.radii, variation=v), offset, 60, fixed_branches=True)
        for v in (bumped, lifted)
    ]
    assert (both[0] == both[1]).all()


def replayed(certified_problem, start, updates):
    """Distances to the fixed point of a float64 gradient iteration without added perturbation."""
    K0, kappa, fixed, _, _, curvature = certified_problem
    W, distances = start, []
    for _ in range(updates + 1):
        distances.append(np.linalg.norm(W - fixed))
        W = W - curvature.gamma * (K0 @ (W - fixed) + kappa * (W**3 - fixed**3))
    return np.array(distances)


def test_modal_counts_are_tight():
    """From half the radius to a thousandth, 15 problems with 40 modes: median predicted/actual at most 1.2, sound always."""
    norm_ratios, modal_ratios = [], []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        problem = certified(rng, 40, 1e-13, 4.0, (0.03,))
        centre, ball, curvature = problem[3:]
        direction = rng.normal(size=40)
        start = centre + direction * (0.05 / np.linalg.norm(direction))
        tol = 1e-3 * ball.radius
        found = predict(ball, curvature, start - centre, tol, fixed_branches=True, offset_error=1e-15)
        distances = replayed(problem, start, found.norm)
        assert (distances[found.updates] <= found.modal_bounds).all()
        assert (distances[found.updates] <= found.norm_bounds).all()
        actual = int(np.nonzero(distances <= tol)[0][0])
        assert actual <= found.modal <= found.norm
        norm_ratios.append(found.norm / actual)
        modal_ratios.append(found.modal / actual)
    assert np.median(modal_ratios) <= 1.2
    assert np.median(modal_ratios) < np.median(norm_ratios)


def test_hypotheses_that_do_not_hold_are_rejected():
    """Starts outside the ball, short tables, wrong shapes and numbers that are not finite never give a bound."""
    ball = Ball(0.5, 0.0, 0.0, 1.0)
    good = {"gamma": 0.5, "Q": np.eye(2), "lam": np.ones(2), "distance": 0.0, "residual": 0.0,
            "radii": np.array([0.5, 1.0]), "variation": np.zeros(2)}  # fmt: skip
    fine = Curvature(**good)
    for offset, error in (
        (np.array([1.0, 1e-8]), 1e-8),
        (np.array([1.0, 0.0]), 1e-30),
        (np.array([math.nan, 0.0]), 0.0),
        (np.array([math.inf, 0.0]), 0.0),
        (np.zeros(3), 0.0),
        (np.zeros(2), math.nan),
    ):
        with pytest.raises(InputRejected):
            modal_bounds(ball, fine, offset, 1, fixed_branches=True, offset_error=error)
    with pytest.raises(InputRejected):
        modal_bounds(Ball(0.5, 0.0, 0.0, 1.5), fine, np.zeros(2), 1, fixed_branches=True)
    for name, value in (
        ("gamma", math.nan),
        ("Q", np.full((2, 2), math.nan)),
        ("Q", np.eye(3)),
        ("lam", np.array([1.0, math.inf])),
        ("distance", math.inf),
        ("residual", -1.0),
        ("radii", np.array([1.0, 0.5])),
        ("radii", np.zeros(0)),
        ("variation", np.array([0.0, math.inf])),
        ("variation", np.array([-1.0, 0.0])),
        ("rates", np.array([0.5, math.nan])),
    ):
        with pytest.raises(InputRejected):
            Curvature(**(good | {name: value}))
