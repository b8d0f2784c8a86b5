"""The literal transformer has the shape that the paper states, and behaves as one in floating point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from certify.cases.polyprox import (
    State,
    blas,
    decode,
    encode,
    forward,
    registers,
    serial,
    update_exact,
    weights,
)
from certify.cases.polyprox.certificates import graph_of, inputs_of
from certify.cases.polyprox.layers import SCALAR_SCRATCH, WIDE_SCRATCH
from polyprox_states import distance, random_state

from certify.arithmetic import BINARY64
from certify.rounding import point, running
from certify.rounding.posterior import error

CAPACITIES = [1, 2, 3, 4, 8, 13, 16, 32]


@pytest.mark.parametrize("P", CAPACITIES)
def test_shape_of_the_weights(P: int) -> None:
    """Depth 2s + 8, width 13P + 18, at most four heads, bilinear width max(P + 4, 2P + 1)."""
    layers = weights(P)
    s = int(np.ceil(np.log2(P)))
    assert len(layers) == 2 * s + 8
    assert registers(P)["h_plus"].stop == 13 * P + 18
    assert max(len(layer.heads) for layer in layers) == 4
    assert max(layer.ff.U_a.shape[1] for layer in layers if layer.ff) == max(P + 4, 2 * P + 1)
    for layer in layers:
        for Theta_Q, Theta_K, Theta_V in layer.heads:
            assert Theta_Q.shape == Theta_K.shape
            assert Theta_V.shape == (13 * P + 18, 13 * P + 18)


@pytest.mark.parametrize("P", CAPACITIES)
def test_magnitudes_of_the_weights(P: int) -> None:
    """Every nonzero weight is 1/N, 1 or 2 in magnitude, and all of them occur."""
    N = 2 ** int(np.ceil(np.log2(P)))
    matrices = [m for layer in weights(P) for part in (*layer.heads, layer.ff or ()) for m in part]
    assert {float(x) for m in matrices for x in np.unique(np.abs(m))} == {0, 1 / N, 1, 2}


def test_layers_are_numbered_as_in_the_specification() -> None:
    """The layers are called 1, 2.1 .. 2.s, 3 .. 7, 8.1 .. 8.s, 9, 10; only 2 and 8 have no feedforward part."""
    layers = weights(4)
    assert " ".join(layer.name for layer in layers) == "1 2.1 2.2 3 4 5 6 7 8.1 8.2 9 10"
    assert [layer.name for layer in layers if layer.ff is None] == ["2.1", "2.2", "8.1", "8.2"]


@pytest.mark.parametrize(("dtype", "small"), [(np.float32, 2.0**-30), (np.float64, 2.0**-60), (np.float16, 2.0**-12)])
def test_overwrite_loses_what_lies_below_the_old_ulp(dtype: type, small: float) -> None:
    """Layer 10 overwrites W = 1 by Wn = 2^-30 in binary32 and returns 0, not 2^-30."""
    at = registers(2)
    Z = np.zeros((3, 44))
    Z[0, at["W"].start + 1] = 1
    Z[0, at["Wn"].start + 1] = small
    W, _ = decode(forward(Z, weights(2)[-1:], serial(dtype)), 2)
    assert W[0, 1] == 0


def three_blocks(
    P: int, seed: int, clears: object = True, executor: object = None
) -> list[tuple[np.ndarray, np.ndarray, State, object]]:
    """Feed the full stream through three blocks; return (stream before, after, the first state, exact update).

    alpha is of the paper's size: it prints an error of half an ulp of numbers in [1/4, 1/2).
    """
    rng = np.random.default_rng([P, seed])
    p = P if seed % 2 == 0 else int(rng.integers(1, P + 1))
    state = random_state(rng, p, P, 1, scale=0.3, alpha=0.3)
    Z = encode(state)
    transitions = []
    for _ in range(3):
        W, alpha = decode(Z, p)
        after = forward(Z, weights(P, clears), blas() if executor is None else executor)
        transitions.append((Z, after, state, update_exact(state, W=W, alpha=alpha)))
        Z = after
    return transitions


@pytest.mark.parametrize("P", [1, 2, 4, 8, 16])
def test_the_full_stream_can_be_fed_back(P: int) -> None:
    """Three blocks, fully fed back: errors at the paper's level, inside their certificates, scratch exactly 0."""
    at = registers(P)
    untouched = [name for name in at if name not in (*WIDE_SCRATCH, *SCALAR_SCRATCH, "W", "alpha")]
    for seed in range(10):
        for before, after, state, exact in three_blocks(P, seed, executor=serial(np.float64)):
            W, alpha = decode(before, state.p)
            at_input = replace(state, W=W, alpha=alpha)
            certificate = running(graph_of(at_input), BINARY64, point(inputs_of(at_input)))
            W, alpha = decode(after, state.p)
            assert certificate.first_overflow() is None
            assert (error(W, np.array(exact.W)) <= certificate.error_of("W")).all()
            assert error(alpha, np.array(exact.alpha)).item() <= float(certificate.error_of("alpha"))
            assert distance(W, exact.W) <= 1.4e-16
            assert abs(alpha - exact.alpha) <= 2.8e-17
            for name in (*WIDE_SCRATCH, *SCALAR_SCRATCH):
                assert not after[:, at[name]].any(), name
            for name in untouched:
                assert after[:, at[name]].tobytes() == before[:, at[name]].tobytes(), name


@pytest.mark.parametrize("clears", ["wide", False])
def test_scratch_left_uncleared_spoils_the_next_block(clears: object) -> None:
    """Without the final clears the first block is right and the following ones are far off."""
    worst_W, worst_alpha = 0.0, 0.0
    for seed in range(10):
        transitions = three_blocks(4, seed, clears)
        for number, (_, after, state, exact) in enumerate(transitions):
            W, alpha = decode(after, state.p)
            error_W, error_alpha = distance(W, exact.W), abs(alpha - float(exact.alpha))
            if number == 0:
                assert error_W <= 5e-16
                assert error_alpha <= 4.5e-16
            worst_W, worst_alpha = max(worst_W, error_W), max(worst_alpha, error_alpha)
    assert worst_W > 1e-6
    assert worst_alpha > 1e-6
