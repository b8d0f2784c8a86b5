"""Real kernels of NumPy and torch stay inside the bounds of the programs that they are; a serial bound is not theirs."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import real_kernels
from containment import beyond_serial, compared, contained, exact, limits
from real_kernels import FORMATS, OWN

STATES = [pytest.param(8, id="8"), pytest.param(500, id="500", marks=pytest.mark.slow)]
FUSED = ("layer norm", "attention", "logsumexp", "softmax")


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kernel", OWN)
def test_no_real_kernel_leaves_its_bound(kernel: str, name: str, states: int) -> None:
    """Random states and shapes; NumPy with one and two threads, torch by its operations and in one fused function."""
    shares = defaultdict(list)
    for seed in range(states):
        for found in contained(kernel, seed, name):
            assert found.violations == 0 and found.elements > 0, (seed, found)
            shares[found.implementation].append(found.share)
    if real_kernels.torch() is None and name in ("bfloat16", "float16"):
        pytest.skip("needs torch, which only the tests of real kernels use")
    expected = {"numpy, 1 thread", "numpy, 2 threads"} if name in ("float32", "float64") else set()
    if real_kernels.torch() is not None:
        expected |= {"torch"}
    assert expected <= set(shares)
    for implementation, found in shares.items():
        print(f"{kernel}, {implementation}, {name}: share {np.median(found):.2f}, at most {max(found):.2f}")
        assert np.median(found) > 0 and max(found) <= 1


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_real_product_violates_the_serial_bound(library: str) -> None:
    """What this machine's BLAS returns is outside the bound of the serial program, and inside that of any order."""
    torch = real_kernels.torch()
    if library == "torch" and torch is None:
        pytest.skip("needs torch, which only the tests of real kernels use")
    dot = np.dot if library == "numpy" else lambda x, y: torch.dot(torch.from_numpy(x), torch.from_numpy(y))
    found = beyond_serial(dot)
    if found is None:
        pytest.skip("the dot product of this machine adds serially")
    off, serial, every = found
    assert serial < off <= every


def test_an_error_beyond_its_bound_is_counted() -> None:
    """One element of a real result, moved by more than its bound; by less, it is inside."""
    state = real_kernels.state("softmax", 0)
    inputs = state.rounded(FORMATS["float32"])
    real = next(real_kernels.reals("softmax", "float32"))
    bound = limits(real.program, inputs, state.static)
    known = exact(real_kernels.softmax, inputs, state.static)
    for factor, violations in ((0.99, 0), (1.01, 1), (np.inf, 1)):
        actual = known["0"][0].astype(np.float64)
        actual[0, 1] += factor * bound["0"][0, 1]
        found = compared("softmax", real, "float32", {"0": actual}, known, bound)
        assert (found.elements, found.violations) == (actual.size, violations)
        assert found.share == pytest.approx(factor)
