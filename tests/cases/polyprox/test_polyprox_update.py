"""The four forms of one update agree: literal layers, array code, matrix powers, exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox import (
    DyadicMatrix,
    State,
    blas,
    block,
    decode,
    encode,
    exact,
    forward,
    update,
    update_exact,
    weights,
)
from polyprox_states import decode_exact, dyadic_state, fractions, random_state

from certify.errors import InputRejected

CASES = [(P, density, b) for P in (4, 8, 16, 32) for density in (0.2, 0.6, 1.0) for b in (0, 1)]
CONTROLS = {"alpha": 0.5, "rho": 0.75, "gamma": 0.25, "lam": 0.5}


@pytest.mark.parametrize(("P", "density", "b"), CASES)
def test_layers_and_block_agree_with_matrix_powers(P: int, density: float, b: int) -> None:
    """For every p up to P, W agrees to 1e-14 of its norm and alpha to 1e-12 of its size."""
    rng = np.random.default_rng([P, int(10 * density), b])
    layers, executor = weights(P), blas()
    for p in range(1, P + 1):
        state = random_state(rng, p, P, b, density)
        W, alpha = update(state)
        arrays = block(**state.inputs())
        for W_other, alpha_other in (
            decode(forward(encode(state), layers, executor), p),
            (arrays["W"], arrays["alpha"]),
        ):
            assert np.linalg.norm(W_other - W) <= 1e-14 * np.linalg.norm(W)
            assert abs(alpha_other - alpha) <= 1e-12 * abs(alpha)


@pytest.mark.parametrize("P", [1, 2, 4, 8])
@pytest.mark.parametrize("b", [0, 1])
def test_exact_layers_and_exact_block_equal_the_exact_update(P: int, b: int) -> None:
    """In exact arithmetic the literal layers, the array code and the matrix powers differ by exactly 0."""
    rng = np.random.default_rng([P, b])
    executor = exact()
    for seed in range(3):
        p = P if seed == 0 else int(rng.integers(1, P + 1))
        state = dyadic_state(rng, p, P, b, CONTROLS)
        want = update_exact(state)

        assert decode_exact(forward(encode(state), weights(P), executor), p, P) == (want.W, want.alpha)

        inputs = state.inputs()
        for name in ("W", "Sigma"):
            inputs[name] = fractions(inputs[name])
        for name in ("alpha", "rho", "gamma", "lam"):
            inputs[name] = Fraction(inputs[name])
        got = block(**inputs)
        assert got["W"].tolist() == want.W
        assert got["alpha"] == want.alpha


def test_exact_agreement_covers_every_branch_of_the_threshold() -> None:
    """Positive, negative, dead and exactly tied entries, and the threshold 0, all occur, and all agree exactly."""
    rng = np.random.default_rng(7)
    branches: set[str] = set()
    executor = exact()
    for P in (2, 4, 8):
        for lam in (0.0, 1 / 4, None):
            free = dyadic_state(rng, P, P, 1, {**CONTROLS, "lam": 0.0})
            V = update_exact(free).W  # no threshold
            # where W and so H is 0, V is a short dyadic: taking lam = |V| / gamma ties the entry exactly
            short = [abs(V[i][j]) for i, j in np.argwhere((free.M == 1) & (free.W == 0)) if V[i][j] != 0]
            tied = float(short[0] / Fraction(CONTROLS["gamma"])) if short else 0.5
            controls = {**CONTROLS, "lam": tied if lam is None else lam}
            state = State(W=free.W, Sigma=free.Sigma, M=free.M, b=1, p_max=P, **controls)
            want = update_exact(state)
            assert decode_exact(forward(encode(state), weights(P), executor), P, P) == (want.W, want.alpha)

            tau = Fraction(state.gamma) * Fraction(state.lam)
            for i, j in np.argwhere(state.M == 1):
                v, w = V[i][j], want.W[i][j]
                assert w == (v - tau if v > tau else v + tau if v < -tau else 0)
                kind = "positive" if v > tau else "negative" if v < -tau else "tie" if abs(v) == tau else "dead"
                branches |= {kind} | ({"tau = 0"} if tau == 0 else set())
    assert branches == {"positive", "negative", "tie", "dead", "tau = 0"}


def test_exact_updates_chain() -> None:
    """The outcome of an exact update is accepted as the exact input of the next."""
    state = dyadic_state(np.random.default_rng(3), 2, 2, 1, CONTROLS)
    once = update_exact(state)
    twice = update_exact(state, W=once.W, alpha=once.alpha)
    inputs = {**state.inputs(), "Sigma": fractions(state.Sigma), "W": fractions(once.W), "alpha": once.alpha}
    inputs |= {name: Fraction(inputs[name]) for name in ("rho", "gamma", "lam")}
    again = block(**inputs)
    assert (twice.W, twice.alpha) == (again["W"].tolist(), again["alpha"])
    assert twice.W != once.W


def test_exact_values_need_power_of_two_denominators() -> None:
    """A third has no dyadic representation and is refused, as is an infinity."""
    with pytest.raises(InputRejected, match="1/3 is not dyadic"):
        DyadicMatrix.of([[Fraction(1, 3)]])
    with pytest.raises(InputRejected, match="inf has no exact fraction"):
        DyadicMatrix.of([[np.inf]])


def two_cycle(t: float, **controls: float) -> State:
    """Return the state W = t [[0, 1], [1, 0]], Sigma = I, b = 1."""
    swap = np.array([[0, 1], [1, 0]])
    return State(W=t * swap, Sigma=np.eye(2), M=swap, p_max=2, b=1, **controls)


def test_two_cycle_has_the_closed_form_of_the_paper() -> None:
    """For p = N = 2, Sigma = I: h = t^4/2 and W+ = -(alpha + t^4/2) t^3, exactly."""
    for t, alpha in ((Fraction(1, 4), Fraction(3, 4)), (Fraction(-3, 2), Fraction(5, 8))):
        state = two_cycle(float(t), alpha=float(alpha), rho=1.0, gamma=1.0, lam=0.0)
        h = t**4 / 2
        w = -(alpha + h) * t**3
        got = update_exact(state)
        (diagonal, forth), (back, _) = got.W
        assert (diagonal, forth, back) == (0, w, w)
        assert got.alpha == alpha + w**4 / 2


def test_two_cycle_reaches_the_degree_of_the_depth_bound() -> None:
    """With alpha = 0 the two-cycle maps t to -t^7/2 and alpha to t^28/32: degrees 4N-1 and 2N(4N-1)."""
    t = Fraction(1, 2)
    got = update_exact(two_cycle(0.5, alpha=0.0, rho=1.0, gamma=1.0, lam=0.0))
    assert got.W[0][1] == -(t**7) / 2
    assert got.alpha == t**28 / 32


def test_cyclic_fixed_point_of_the_paper() -> None:
    """U_12 = U_21 = 1/5 with Sigma_12 = 0.2800064, alpha = 10, rho = 1 does not move under the update."""
    swap = np.array([[0, 1], [1, 0]])
    state = State(
        W=swap / 5,
        Sigma=np.eye(2) + 0.2800064 * swap,
        M=swap,
        alpha=10.0,
        rho=1.0,
        gamma=5 / 7,
        lam=0.0,
        b=0,
        p_max=2,
    )
    for W, alpha in (update(state), decode(forward(encode(state), weights(2), blas()), 2)):
        assert np.abs(W - state.W).max() <= 4 * 2.0**-53
        assert alpha == 10


def test_forbidden_entries_and_alpha_stay_put() -> None:
    """Entries of W outside M stay exactly 0; with b = 0 alpha keeps its bits."""
    state = random_state(np.random.default_rng(11), 5, 8, 0, density=0.4)
    W, alpha = decode(forward(encode(state), weights(8), blas()), 5)
    assert np.all(W[state.M == 0] == 0)
    assert np.any(W[state.M == 1] != 0)
    assert alpha == state.alpha
