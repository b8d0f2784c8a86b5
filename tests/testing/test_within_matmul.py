"""Real NumPy products never leave their proved bound, and planted bugs do wherever their error is larger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from real_matmul import BATCH, batch, bfloat16_sums, big_batch, dropped, exchanged, matmul, with_threads, within

from certify import tolerance
from certify.testing import assert_within

USUAL = (1e-5, 1.3e-6)  # atol, rtol of torch.testing.assert_close in float32
RUNS = [pytest.param(2, id="500"), pytest.param(40, id="10000", marks=pytest.mark.slow)]


@pytest.mark.parametrize("batches", RUNS)
@pytest.mark.parametrize("threads", [1, 2])
def test_products_stay_within_their_bound(threads: int, batches: int, tmp_path: Path) -> None:
    """K = 64, 96, 128 in turn; the proved atol is larger than the usual one, and correct products fail the usual one."""
    largest, atols, usual = 0.0, [], 0
    for k, K in enumerate((64, 96, 128)):
        seeds = list(range(k, batches, 3))
        for seed, result in zip(seeds, with_threads(threads, tmp_path, seeds, K), strict=True):
            inputs = batch(seed, K)
            found = within(result, inputs)
            assert found.passed
            largest = max(largest, float(found.share("0").max()))
            atols.append(float(found.bound["0"].max()))
            exact = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
            usual += int((~np.isclose(result, exact, USUAL[1], USUAL[0])).any(axis=(1, 2)).sum())
    runs = batches * BATCH
    print(f"{runs} runs, {threads} threads: largest share of the bound {largest:.3f}; proved atol {max(atols):.2e},")
    print(f"usual atol {USUAL[0]:.0e}, rtol {USUAL[1]:.1e}: {usual} of these correct runs fail it")
    assert 0 < largest < 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_product_that_is_shared_among_threads(threads: int, tmp_path: Path) -> None:
    """(160, 128) times (128, 160)."""
    (result,) = with_threads(threads, tmp_path, [1], 128, big=True)
    assert within(result, big_batch(1, 128)).passed


@pytest.mark.parametrize("batches", RUNS)
@pytest.mark.parametrize("bug", [dropped, exchanged, bfloat16_sums])
def test_planted_bugs_fail(bug: Callable[..., np.ndarray], batches: int) -> None:
    """Every run whose error, by an independent measure, exceeds the bound fails; that is nearly all of them."""
    wrong = caught = 0
    for seed in range(batches):
        inputs = batch(seed, 96)
        actual = bug(**inputs)
        found = within(actual, inputs)
        A, B = (inputs[name].astype(np.longdouble) for name in "AB")
        off = np.abs(actual - (A[:, :, :, None] * B[:, None]).sum(axis=2)).astype(np.float64)
        exceeds = (off > found.bound["0"] * (1 + 1e-9)).any(axis=(1, 2))
        failed = ~found.inside["0"].all(axis=(1, 2))
        assert not (exceeds & ~failed).any()
        wrong, caught = wrong + int(exceeds.sum()), caught + int(failed.sum())
    print(f"{bug.__name__}: {caught} of {batches * BATCH} runs fail, {wrong} of them beyond the bound")
    assert caught >= 0.99 * wrong and wrong > 0.9 * batches * BATCH


def test_the_failure_names_the_element() -> None:
    """One product of many is wrong: its index, its error, its bound and the line."""
    inputs = batch(3, 64)
    actual = inputs["A"] @ inputs["B"]
    actual[7, 1, 0] += np.float32(1e-2)
    with pytest.raises(
        AssertionError,
        match=r"matmul in float32 with sums in any order is not within its bound: output 0, element \[7, 1, 0\] is "
        r"1\.\d\de-02 from the exact .*, and proved to be within \d\.\d\de-0\d; 1 of 1000 elements are outside; "
        r"100% of its bound arises at register y \(real_matmul\.py:\d+\)",
    ):
        assert_within(actual, matmul, inputs, format="float32")


def test_a_tolerance_of_a_box_covers_every_run() -> None:
    """For unit normals below 6 in magnitude: one number for all seeds, proved before any is drawn."""
    inputs = batch(0, 64, runs=1)
    box = {name: np.float32(6) for name in inputs}
    below = {name: -bound for name, bound in box.items()}
    found = tolerance(matmul, inputs, format="float32", lower=below, upper=box, representable=True)
    atol = found.atol_rtol(rtol=0).atol
    for seed in range(20):
        given = batch(seed, 64)
        assert max(np.abs(x).max() for x in given.values()) < 6
        exact = given["A"].astype(np.float64) @ given["B"].astype(np.float64)
        np.testing.assert_allclose(given["A"] @ given["B"], exact, atol=atol, rtol=0)
