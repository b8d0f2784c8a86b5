"""The checker's Hessian, spectra and norms, against exact rational values."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from certify.cases.polyprox import State
from flint import arb, arb_mat, ctx, fmpq
from stage_reports import plain

from certify.checker import curvature
from certify.checker.curvature import BITS, Centre, Modes, eigenbasis, inverse_factor, largest, modes_of, norm
from certify.checker.document import Beyond, Rejected

Rows = list[list[Fraction]]


@pytest.fixture(autouse=True)
def _precision() -> object:
    with ctx.workprec(BITS):
        yield


def state_of(seed: int, p: int, p_max: int, alpha: float = 0.375, rho: float = 1.5) -> State:
    """A state with weights of both signs, some of them 0, and about two thirds of the edges allowed."""
    rng = np.random.default_rng(seed)
    M = (rng.random((p, p)) < 0.7) & ~np.eye(p, dtype=bool)
    W = np.round(rng.normal(size=(p, p)) * 64) / 64 * M * (rng.random((p, p)) < 0.8)
    X = rng.normal(size=(3 * p, p))
    Sigma = X.T @ X / (3 * p)
    return State(W=W, Sigma=(Sigma + Sigma.T) / 2, M=M, alpha=alpha, rho=rho, gamma=0.1, lam=0.05, b=0, p_max=p_max)


def times(A: Rows, B: Rows) -> Rows:
    """The matrix product."""
    return [
        [sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0)) for column in zip(*B, strict=True)]
        for row in A
    ]


def exact_hessian(state: State, W: Rows) -> tuple[Rows, list[Fraction], Rows, Rows]:
    """K, H on the allowed entries, c K_h, and grad J (p, p) at W, straight from the formulas, in rationals."""
    p, N = state.p, state.N
    eye = [[Fraction(i == j) for j in range(p)] for i in range(p)]
    Y = [[eye[i][j] + W[i][j] ** 2 / N for j in range(p)] for i in range(p)]
    powers = [eye]
    for _ in range(N):
        powers.append(times(powers[-1], Y))
    c = Fraction(state.alpha) + Fraction(state.rho) * (sum(powers[N][i][i] for i in range(p)) - p)
    H = [[2 * W[i][j] * powers[N - 1][j][i] for j in range(p)] for i in range(p)]
    Sigma = [[Fraction(x) for x in row] for row in state.Sigma.tolist()]
    entries = list(zip(*(x.tolist() for x in np.nonzero(state.M)), strict=True))
    K, parts = [], []
    for i, j in entries:
        row, part = [], []
        for a, b in entries:
            total = sum((powers[m][j][a] * powers[N - 2 - m][b][i] for m in range(N - 1)), Fraction(0))
            cycles = 4 * W[i][j] * W[a][b] / N * total + 2 * ((i, j) == (a, b)) * powers[N - 1][j][i]
            part.append(c * cycles)
            row.append(Sigma[i][a] * (j == b) + c * cycles + Fraction(state.rho) * H[i][j] * H[a][b])
        K.append(row)
        parts.append(part)
    moved = times(Sigma, [[W[i][j] - (i == j) for j in range(p)] for i in range(p)])
    gradient = [[moved[i][j] + c * H[i][j] for j in range(p)] for i in range(p)]
    return K, [H[i][j] for i, j in entries], parts, gradient


def contains(ball: arb, value: Fraction) -> bool:
    """Whether the ball holds the number."""
    return bool(ball.contains(fmpq(value.numerator, value.denominator)))


def at_most(value: Fraction, ball: arb) -> bool:
    """Whether the number is at most some number of the ball."""
    return bool(arb(fmpq(value.numerator, value.denominator)).lower() <= ball.upper())


@pytest.mark.parametrize(("seed", "p", "p_max"), [(1, 2, 2), (2, 3, 4), (3, 4, 4), (4, 3, 8)])
def test_the_hessian_contains_the_exact_one(seed: int, p: int, p_max: int) -> None:
    """K, H and grad J at a centre, entry by entry and within 1e-40, in signed coordinates."""
    state = state_of(seed, p, p_max)
    centre = Centre(plain(state))
    box = centre.box(centre.allowed, 0.0)
    K, H, _, gradient = exact_hessian(state, [[Fraction(x) for x in row] for row in state.W.tolist()])
    signs = [centre.signs[e] for e in centre.allowed]
    for e, f in product(range(len(H)), repeat=2):
        assert contains(box.K[e, f], K[e][f] * signs[e] * signs[f])
        assert box.K[e, f].rad() < 1e-40
    assert all(contains(box.H[e, 0], H[e] * signs[e]) for e in range(len(H)))
    assert all(contains(box.gradient[i, j], gradient[i][j]) for i, j in product(range(p), repeat=2))


@pytest.mark.parametrize(
    ("seed", "p", "p_max", "alpha"), [(1, 2, 2, 0.5), (2, 3, 4, -2.0), (3, 4, 4, 0.5), (5, 3, 8, -0.5)]
)
@pytest.mark.parametrize("radius", [1e-6, 0.03, 0.5])
def test_no_hessian_of_a_box_leaves_it(seed: int, p: int, p_max: int, alpha: float, radius: float) -> None:
    """K, c K_h, H and grad J at corners and inside the box differ from the centre's by at most V, V_h, ..., exactly."""
    state = state_of(seed, p, p_max, alpha=alpha)
    centre = Centre(plain(state))
    box = centre.box(centre.allowed, radius)
    at = exact_hessian(state, [[Fraction(x) for x in row] for row in state.W.tolist()])
    signs = [centre.signs[e] for e in centre.allowed]
    rng = np.random.default_rng(seed)
    n = len(signs)
    for shares in (*rng.choice([-1.0, 1.0], size=(3, n)), np.array(signs, float), rng.uniform(-1, 1, size=n)):
        W = [[Fraction(x) for x in row] for row in state.W.tolist()]
        for (i, j), share in zip(centre.allowed, shares.tolist(), strict=True):
            W[i][j] += Fraction(share) * Fraction(radius)
        over = exact_hessian(state, W)
        for e, f in product(range(n), repeat=2):
            assert at_most(abs(over[0][e][f] - at[0][e][f]), box.V[e, f])
            assert at_most(abs(over[2][e][f] - at[2][e][f]), box.V_h[e, f])
        for e in range(n):
            assert at_most(abs(over[1][e] - at[1][e]), box.V_H[e, 0])
        for i, j in product(range(p), repeat=2):
            assert at_most(abs(over[3][i][j] - at[3][i][j]), box.spread[i, j])


def test_the_variation_is_attained_to_first_order() -> None:
    """At the corner of the signs the move of K is V itself: nothing is given away but the norm (positive c)."""
    state = state_of(3, 4, 4)
    centre = Centre(plain(state))
    box = centre.box(centre.allowed, 0.01)
    W = [[Fraction(x) for x in row] for row in state.W.tolist()]
    for i, j in centre.allowed:
        W[i][j] += centre.signs[i, j] * Fraction(0.01)
    here, there = (
        exact_hessian(state, [[Fraction(x) for x in row] for row in state.W.tolist()])[0],
        exact_hessian(state, W)[0],
    )
    signs = [centre.signs[e] for e in centre.allowed]
    for e, f in product(range(len(signs)), repeat=2):
        assert contains(box.V[e, f], (there[e][f] - here[e][f]) * signs[e] * signs[f])


MATRICES = [
    ([[3]], [3]),
    ([[0, 1], [1, 0]], [-1, 1]),
    ([[2, 0, 0], [0, 2, 0], [0, 0, 2]], [2, 2, 2]),
    ([[1] * 6] * 6, [0] * 5 + [6]),
    ([[int(i == j) * 3 + int(abs(i - j) == 3) for j in range(6)] for i in range(6)], [2] * 3 + [4] * 3),
    ([[10**12 * (i == j == 0) + int(i == j) for j in range(4)] for i in range(4)], [1, 1, 1, 10**12 + 1]),
]


def ends(modes: Modes, V: arb_mat | None = None) -> tuple[arb, arb]:
    """The bounds for every symmetric matrix within V, 0 if there is none, of the matrix of the modes."""
    n = len(modes.lam)
    Q = curvature.each(abs, modes.Q)
    return modes.ends((Q.transpose() * (arb_mat(n, n) if V is None else V) * Q * arb_mat(n, 1, [1] * n)).entries())


@pytest.mark.parametrize(("rows", "eigenvalues"), MATRICES)
def test_spectra_contain_the_exact_eigenvalues(rows: list[list[int]], eigenvalues: list[int]) -> None:
    """Integer matrices, multiple eigenvalues among them: the bounds hold and are off by less than 1e-18, relatively."""
    A = arb_mat(rows)
    low, high = ends(modes_of(A, *eigenbasis(A)))
    scale = max(map(abs, eigenvalues))
    assert low.lower() <= min(eigenvalues)
    assert high.upper() >= max(eigenvalues)
    assert low > min(eigenvalues) - arb(scale) * arb(10) ** -18
    assert high < max(eigenvalues) + arb(scale) * arb(10) ** -18


@pytest.mark.parametrize("seed", range(4))
def test_spectra_of_intervals_contain_those_of_their_members(seed: int) -> None:
    """Eigenvalues of A + E, |E| <= V, from binary64; no eigenvectors are needed: any Q gives bounds that hold."""
    rng = np.random.default_rng(seed)
    A, V = rng.normal(size=(6, 6)), np.abs(rng.normal(size=(6, 6))) * 0.1
    A, V = A + A.T, V + V.T
    skew = arb_mat((np.eye(6) + 0.02 * rng.normal(size=(6, 6))).tolist())
    mid = arb_mat(A.tolist())
    rough = [(skew.transpose() * mid * skew)[i, i].mid() for i in range(6)]
    for modes in (modes_of(mid, *eigenbasis(mid)), modes_of(mid, rough, skew)):
        low, high = ends(modes, arb_mat(V.tolist()))
        for _ in range(20):
            E = np.triu(rng.choice([-1.0, 1.0], size=(6, 6)))
            member = np.linalg.eigvalsh(A + (E + np.triu(E, 1).T) * V)
            assert float(low.lower()) <= member[0] + 1e-12
            assert float(high.upper()) >= member[-1] - 1e-12


@pytest.mark.parametrize(("rows", "eigenvalues"), MATRICES)
def test_the_largest_eigenvalue_is_met_from_above(rows: list[list[int]], eigenvalues: list[int]) -> None:
    """In size; by less than 2**-24 n: multiple ones, one that dwarfs the rest, and of both signs."""
    most = max(map(abs, eigenvalues))
    for scale in (1, 3, arb(2) ** 900, arb(3) ** -700):
        bound = largest(arb_mat(rows) * scale)
        assert most * scale <= bound <= most * scale * (1 + arb(2) ** -24 * len(rows))


@pytest.mark.parametrize("seed", range(4))
def test_largest_holds_for_every_member(seed: int) -> None:
    """Of an interval matrix, whatever the gap to the second eigenvalue; none, NaN and infinity give no false bound."""
    rng = np.random.default_rng(seed)
    n = 2 + 5 * seed
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    for gap in (0.0, 1e-9, 1e-5, 0.3):
        mid = Q * (1 - gap * np.arange(n)) @ Q.T
        mid = (mid + mid.T) / 2
        E = rng.normal(size=(n, n))
        E = (E + E.T) * 1e-3
        ball = arb_mat(
            [[arb(float(x), abs(float(e))) for x, e in zip(*r, strict=True)] for r in zip(mid, E, strict=True)]
        )
        assert not float(largest(ball)) < np.linalg.norm(mid + E, 2) - 1e-13
        exact = largest(arb_mat(mid.tolist()))
        assert np.linalg.norm(mid, 2) - 1e-13 <= float(exact) <= np.linalg.norm(mid, 2) + 1e-6
    assert largest(arb_mat(3, 3)) == 0
    for bad in ("nan", "inf"):
        assert not largest(arb_mat([[arb(bad), 0], [0, 1]])).is_finite()


@pytest.mark.parametrize("seed", [3, 5, 7])
def test_the_spectrum_of_a_centre_is_that_of_its_hessian(seed: int) -> None:
    """From outside, within 1e-6 relatively; where K is indefinite, too, and there is no factor then."""
    for alpha in (0.375, -40.0):
        centre = Centre(plain(state_of(seed, 4, 4, alpha=alpha)))
        K = np.array([[float(x) for x in row] for row in centre.box(centre.allowed, 0.0).K.tolist()])
        values = np.linalg.eigvalsh(K)
        low, high, T = centre.spectrum(centre.allowed)
        assert (T is None) == (values[0] < 0)
        assert float(low) <= values[0] + 1e-12 * abs(values).max()
        assert float(high) >= values[-1] - 1e-12 * abs(values).max()
        if T is not None:
            assert float(low) >= values[0] * (1 - 1e-6)
            assert float(high) <= values[-1] * (1 + 1e-6)
        else:
            assert float(low) >= -3 * abs(values).max()


def test_a_basis_that_is_none_proves_nothing() -> None:
    """||Q^T Q - I|| >= 1."""
    with pytest.raises(Rejected, match="eigenbasis"):
        modes_of(arb_mat([[1, 0], [0, 2]]), [arb(1), arb(2)], arb_mat([[1, 1], [1, 1]]))


def test_norms_are_those_of_the_largest_member() -> None:
    """Collatz bounds from power iteration: exact for ones, near the spectral radius in general, 0 for 0."""
    assert norm(arb_mat([[1] * 7] * 7)) < 7 + arb(2) ** -100
    assert norm(arb_mat(3, 3, [0] * 9)) == 0
    rng = np.random.default_rng(0)
    B = np.abs(rng.normal(size=(20, 20)))
    B = B + B.T
    bound = float(norm(arb_mat(B.tolist())))
    assert np.linalg.norm(B, 2) - 1e-9 <= bound <= 1.001 * np.linalg.norm(B, 2)


def test_a_norm_of_what_is_not_finite_is_not_finite() -> None:
    """NaN is not lost in a maximum."""
    assert not norm(arb_mat([[arb(1), arb("nan")], [arb("nan"), arb(1)]])).is_finite()


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
def test_inverse_factors_are_exact(n: int) -> None:
    """T is upper triangular, and T^T A T contains I."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, n + 3))
    A = arb_mat(X.tolist())
    A = A * A.transpose()
    T = inverse_factor(A)
    assert T is not None
    gram = T.transpose() * A * T
    assert all(gram[i, j].contains(int(i == j)) for i in range(n) for j in range(n))
    assert all(T[i, j] == 0 for i in range(n) for j in range(i))
    assert max(float(x.rad()) for x in gram.entries()) < 1e-40


@pytest.mark.parametrize("rows", [[[0]], [[-1]], [[1, 2], [2, 1]], [[1, 1], [1, 1]], [[2, 0, 0], [0, 1, 3], [0, 3, 1]]])
def test_what_is_not_positive_definite_has_no_factor(rows: list[list[int]]) -> None:
    """Semidefinite and indefinite matrices."""
    assert inverse_factor(arb_mat(rows)) is None


@pytest.mark.parametrize("seed", [3, 7])
@pytest.mark.parametrize("radius", [1e-3, 0.05])
def test_curvature_and_reach_hold_on_the_ball(seed: int, radius: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eigenvalues of exact Hessians at points of the ball; the reach without matrices holds, too, and is no worse by 2."""
    state = state_of(seed, 4, 4)
    centre = Centre(plain(state))
    low, high = centre.curvature(centre.allowed, radius)
    near, wide = (centre.by_constants(centre.allowed, radius, still) for still in (False, True))
    rows = centre.by_rows(centre.allowed, radius)
    reach = centre.reach(radius)
    monkeypatch.setattr(curvature, "MANY", 0)
    blind = Centre(plain(state)).reach(radius)
    assert float(reach) <= 2 * float(blind) <= 4 * float(reach)
    rng = np.random.default_rng(seed)
    for _ in range(6):
        step = rng.normal(size=len(centre.allowed))
        step *= radius / np.linalg.norm(step)
        W = [[Fraction(x) for x in row] for row in state.W.tolist()]
        for (i, j), x in zip(centre.allowed, step.tolist(), strict=True):
            W[i][j] += Fraction(x)
        values = np.linalg.eigvalsh(np.array(exact_hessian(state, W)[0], dtype=float))
        assert max(float(x[0].lower()) for x in ((low, high), near, wide, rows)) <= values[0] + 1e-9
        assert min(float(x[1].upper()) for x in ((low, high), near, wide, rows)) >= values[-1] - 1e-9
        assert min(float(reach), float(blind)) >= np.abs(values).max() - 1e-9


def test_too_many_entries_are_beyond_the_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dense Hessian of more entries than the limit is not tried."""
    monkeypatch.setattr(curvature, "LARGEST", 3)
    centre = Centre(plain(state_of(3, 4, 4)))
    with pytest.raises(Beyond, match="entries of W"):
        centre.box(centre.allowed, 0.1)


def test_the_displacement_is_that_of_the_exact_update() -> None:
    """||P(U) - U|| from rationals, within 1e-30; exactly 0 at a fixed point of dyadic numbers."""
    state = state_of(2, 3, 4)
    gradient = exact_hessian(state, [[Fraction(x) for x in row] for row in state.W.tolist()])[3]
    threshold, square = Fraction(state.gamma) * Fraction(state.lam), Fraction(0)
    for i, j in zip(*np.nonzero(state.M), strict=True):
        u = Fraction(state.W[i, j])
        v = u - Fraction(state.gamma) * gradient[i][j]
        square += (max(v - threshold, Fraction(0)) - max(-v - threshold, Fraction(0)) - u) ** 2
    d = Centre(plain(state)).d
    assert 0 <= d * d - square <= square / 10**30
    still = plain(state, W=[[0.0] * 3] * 3, Sigma=np.eye(3))
    assert Centre(still).d == 0


def test_a_stretched_basis_moves_no_bound_inwards() -> None:
    """Q = 1.05 I and 0.95 I, and numbers that are no eigenvalues: what they are off is made up for, whatever the signs."""
    for scale in (1.05, 0.95):
        for lam in ((1, 2), (-2, -1), (-1, 3)):
            A, Q = arb_mat([[lam[0], 0], [0, lam[1]]]), arb_mat([[scale, 0], [0, scale]])
            for guess in (lam, (lam[0] + 0.1, lam[1] - 0.1), (0, 0)):
                low, high = ends(modes_of(A, [arb(x) for x in guess], Q))
                assert low.lower() <= lam[0]
                assert high.upper() >= lam[1]
