"""Every certified claim of reports on random kernels is proved again: adjoint bounds, and formats of single operations, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from checker_reports import findings, kernel_of
from random_reports import disagreements, random_report


def agreeing(seeds: Iterable[int], own: bool) -> tuple[int, int]:
    """How many reports there are, all of whose claims the checker finds as they say, and how many certified adjoint claims."""
    reports = adjoint = 0
    for seed in seeds:
        with np.errstate(all="ignore"):
            made = random_report(seed, own)
        if made is not None:
            wrong, certified = disagreements(made)
            assert not wrong
            reports, adjoint = reports + 1, adjoint + certified
    return reports, adjoint


# ends of an exponential just below 1, majorant bounds below running ones, in one format and in several
HARD = ((649, True), (350, True), (636, True))


@pytest.mark.parametrize(("seed", "own"), HARD)
def test_reports_that_a_checker_found_otherwise(seed: int, own: bool) -> None:
    """It was looser than the report in a last digit, or had no majorant bounds of its own."""
    assert agreeing([seed], own)[0] == 1


def nothing(x: Any, z: Any) -> Any:
    """Overwritten by a 0 that is known: no error at all."""
    return x + (np.maximum(z, 0) - x)


def tie(x: Any, y: Any) -> Any:
    """A sum of a product and of what is 0, by a tie: with it, or known to be one product, which may stay unrounded."""
    half = x / 2**14
    total = np.stack([half + half, y[0]]) @ np.stack([y[1], y[2]])
    return np.sum(np.stack([total, y[3], y[4]]))


@pytest.mark.parametrize(
    ("kernel", "at", "options"),
    [
        (nothing, {"x": [0.0441], "z": [-1.0]}, {"formats": "bfloat16,ftz", "center": "x", "radius": 1e-4}),
        (
            tie,
            {"x": 2.0**-12, "y": [2.0**-20, 2.0**-16, 2.0**-13, 4.69e-4, 4.7e-4]},
            {"formats": "float16", "order": "any-order"},
        ),
    ],
)
def test_kernels_that_a_checker_found_otherwise(kernel: Any, at: Any, options: Any) -> None:
    """A term for underflow where nothing underflows; an end of a sum that was tighter, whence another operation was looser."""
    report, state, files = kernel_of(kernel, {name: np.array(x) for name, x in at.items()}, **options)
    assert all(f.verdict == "certified" for f in findings(report, state, files).values())


@pytest.mark.parametrize("own", [False, True], ids=["one format", "own formats"])
def test_reports_on_random_kernels(own: bool) -> None:
    """All operations, orders and formats, at points and on balls."""
    reports, adjoint = agreeing(range(16), own)
    assert reports > 8
    assert adjoint > 10


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["one format", "own formats"])
def test_many_reports_on_random_kernels(own: bool) -> None:
    """The same at length."""
    assert agreeing(range(100, 800), own)[1] > 700
