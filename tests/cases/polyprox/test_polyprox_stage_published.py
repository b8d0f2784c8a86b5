"""The worked example of the paper (polyprox.md section 9): the two-cycle p = N = 2, to all printed digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox import State
from certify.cases.polyprox.stage.constants import published, zero_diagonal
from certify.cases.polyprox.stage.hessian import hessian
from certify.cases.polyprox.stage.methods import face_test, global_test, interval_test, local_test
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.refutation import refute

from certify.arithmetic import BINARY64
from certify.contraction.fixed_stage import Stage, contraction_constant, fixed_stage
from certify.contraction.spectrum import lower_bound, upper_bound

RADIUS = 0.01
GAMMA = 5 / 7
SWAP = np.array([[0.0, 1.0], [1.0, 0.0]])


def example(gamma: float = GAMMA) -> State:
    """alpha = 10, rho = 1, lam = 0, U_12 = U_21 = 1/5, Sigma_12 = 0.2800064, unit diagonal; stored in binary64."""
    return State(
        W=0.2 * SWAP,
        Sigma=np.eye(2) + 0.2800064 * SWAP,
        M=SWAP,
        alpha=10.0,
        rho=1.0,
        gamma=gamma,
        lam=0.0,
        b=0,
        p_max=2,
    )


def test_the_centre_is_a_fixed_point_up_to_storage() -> None:
    """grad J_12 = 1/5 - Sigma_12 + c t^3 = 1/5 - 0.2800064 + 10.0008 / 125 = 0 in exact decimals.

    Binary64 stores 1/5 with an error of 1.1e-17 and Sigma_12 = 0.2800064 with 1.5e-17. The derivative of the
    displacement -gamma grad J_12 with respect to the two is -gamma 2.2 and gamma, so d is at most sqrt 2 gamma
    (2.2 1.1e-17 + 1.5e-17) = 4.0e-17: about 4e-17, where the paper, in decimals, has 0.
    """
    exact = Fraction(1, 5) - Fraction(2800064, 10**7) + (10 + Fraction(8, 10**4)) * Fraction(8, 1000)
    assert exact == 0
    assert 0 < Problem(example(), BINARY64).d < 4.1e-17


def test_hessian_eigenvalues() -> None:
    """K = [[1 + 0.04 c + t^6, 0.08 c + t^6], ...], c = 10.0008: 1 - 0.04 c = 0.599968, 1 + 0.12 c + 2 t^6 = 2.200224."""
    state = example()
    K = hessian(state, state.W, 0.0, np.nonzero(state.M)).K
    low, high = lower_bound(K.mid, K.rad).value, upper_bound(K.mid, K.rad).value
    assert f"{low:.6f}" == "0.599968"
    assert f"{high:.6f}" == "2.200224"
    # the bounds are within 2**-40, relative, and outward up to the storage of t
    assert 0.599968 - 1e-12 < low <= 0.599968 + 1e-15
    assert 2.200224 - 1e-15 <= high < 2.200224 + 3e-12


def test_delta_k_is_below_the_printed_bound() -> None:
    """delta_K = r (|c_U| T_H + 3 rho c_H L_H), R = sqrt 0.08 + 0.01 = 0.29284, x = 0.042879, T_H = 6 R = 1.7571,

    c_H = 2 R x = 0.025114, L_H = 2 x + 2 R^2 = 0.25727: delta_K = 0.01 (10.0008 1.7571 + 3 0.025114 0.25727) = 0.17591.
    """
    problem = Problem(example(), BINARY64)
    k = published(problem.norm + Fraction(RADIUS), 2)
    delta = Fraction(RADIUS) * (problem.multiplier * k.T_H + 3 * k.c_H * k.L_H)
    assert delta < Fraction("0.177")
    assert float(delta) == pytest.approx(0.17591, abs=5e-6)


def test_local_test_gives_the_printed_contraction() -> None:
    """m_U - delta_K = 0.42406 >= 0.42 and L_U + delta_K = 2.37613 <= 2.38, so q <= 0.7 and (1 - q) r >= 0.003."""
    attempt = local_test(Problem(example(), BINARY64), RADIUS)
    stage = attempt.outcome.stage
    assert attempt.outcome.certified
    assert 0.42 <= stage.mu < 0.425
    assert 2.375 < stage.L <= 2.38
    # 1 - 0.42406 5/7 = 0.69711
    assert 0.697 < attempt.outcome.q <= 0.7
    assert (1 - Fraction(attempt.outcome.q)) * Fraction(RADIUS) >= Fraction("0.003")
    # rounding of one update of two entries of size 1/5
    assert 0 < stage.eps < 1e-15


def test_printed_mu_and_l_give_the_printed_q_and_allowance() -> None:
    """gamma mu = 5/7 0.42 = 0.3, gamma L = 5/7 2.38 = 1.7: q = 0.7, (1 - q) r = 0.003, from both ends alike."""
    q = contraction_constant(0.42, 2.38, GAMMA)
    assert q == pytest.approx(0.7, abs=3e-16)
    assert f"{q:.15f}" == "0.700000000000000"
    # 0.003 is allowed up to the storage of the four decimals, and not a millionth part more
    assert fixed_stage(Stage(0.42, 2.38, GAMMA, 0.0, 0.003 * (1 - 1e-12), RADIUS)).certified
    assert not fixed_stage(Stage(0.42, 2.38, GAMMA, 0.0, 0.003 * (1 + 1e-6), RADIUS)).certified


@pytest.mark.parametrize("constants", [published, zero_diagonal])
def test_global_test_is_negative(constants) -> None:
    """lambda_M = 1 (blocks of one parent), |alpha| L_H = 10 0.2573: mu is about -1.57, so nothing follows."""
    attempt = global_test(Problem(example(), BINARY64), RADIUS, constants)
    assert not attempt.outcome.certified
    assert attempt.outcome.stage.mu < -1
    assert attempt.outcome.reason.startswith("mu > 0 fails")


def test_the_interval_and_the_face_test_certify_the_example() -> None:
    """Over the box of half-width 0.01 q is above, and at 1e-9 it is within 2e-6 of, the exact q at the centre.

    That is max(1 - 5/7 0.599968, 5/7 2.200224 - 1) = 0.571588...
    """
    problem = Problem(example(), BINARY64)
    for test in (interval_test, face_test):
        attempt = test(problem, RADIUS)
        assert attempt.outcome.certified
        assert 0.571588 < attempt.outcome.q < 0.75
        assert attempt.face == 2
        assert attempt.entry_radius == RADIUS
        # the published L gives away 2**-20 and is cut to 24 bits
        assert 0 <= test(problem, 1e-9).outcome.q - (5 / 7 * 2.200224 - 1) < 2 * 2**-20 * 5 / 7 * 2.200224


def test_the_example_is_refuted_just_beyond_the_stable_step() -> None:
    """2 / 2.200224 = 0.90900: with gamma = 0.9089 it contracts at small radii, with 0.9091 the fixed point repels."""
    below, above = example(0.9089), example(0.9091)
    assert face_test(Problem(below, BINARY64), 1e-6).outcome.certified
    assert not refute(below, below.W).refuted
    assert not face_test(Problem(above, BINARY64), 1e-6).outcome.certified
    found = refute(above, above.W)
    assert found.refuted
    assert found.kappa_high == pytest.approx(2.200224, rel=2 * 2**-20)
    # the eigenvector is the symmetric one
    assert found.vector[0] == pytest.approx(found.vector[1])


def test_a_larger_multiplier_makes_the_two_cycle_a_saddle() -> None:
    """1 - 0.04 c < 0 for c > 25: with alpha = 30 and Sigma_12 = 1/5 + c / 125 the antisymmetric direction repels."""
    c = 30 + 8e-4
    Sigma = np.eye(2) + (0.2 + c * 0.008) * SWAP
    controls = {"alpha": 30.0, "rho": 1.0, "gamma": 0.01, "lam": 0.0, "b": 0, "p_max": 2}
    state = State(W=0.2 * SWAP, Sigma=Sigma, M=SWAP, **controls)
    found = refute(state, state.W)
    assert found.refuted
    # 1 - 0.04 30.0008
    assert found.kappa_low == pytest.approx(-0.200032, rel=2 * 2**-20)
    assert found.vector[0] == pytest.approx(-found.vector[1])
    assert not face_test(Problem(state, BINARY64), 1e-9).outcome.certified
