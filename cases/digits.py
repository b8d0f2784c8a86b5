"""The decimal digits of a result that rounding bounds leave, as claims display them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from certify.arithmetic.directed import relaxed_up

Floats = npt.NDArray[np.float64]
_RELAXED = 1.0 + 2.0**-19  # no less than `relaxed_up` adds


def digits_left(size: Floats, nonzero: npt.NDArray[np.bool_], norm: float, errors: Floats) -> tuple[float, float]:
    """The digits of the norm of an output, and of its worst entry of those that are not 0; infinite where all are exact.

    Parameters
    ----------
    size : the least magnitude of each entry; 0 leaves it no digits.
    nonzero : which entries may differ from 0: some do.
    norm, errors : bounds of the error, of the norm and entry by entry. They are relaxed, as the checker has its own.
    """
    largest = float(size.max())
    with np.errstate(divide="ignore", invalid="ignore"):
        # the square of a norm may overflow
        whole = np.log10(largest) + np.log10(np.linalg.norm(size / largest)) if largest else -np.inf
        kept = np.where(errors == 0, np.inf, np.log10(size) - np.log10(errors * _RELAXED))
        return float(whole - np.log10(relaxed_up(norm))) if norm else float("inf"), float(np.min(kept[nonzero]))


def digits_shown(found: Iterable[tuple[float, float]]) -> dict[str, str]:
    """What a claim displays of several outputs: the fewest digits, rounded down to tenths; nothing of none."""
    pairs = list(found)
    if not pairs:
        return {}
    return {"digits_norm": _floor(min(x for x, _ in pairs)), "digits_worst": _floor(min(x for _, x in pairs))}


def _floor(digits: float) -> str:
    # a logarithm is rounded by much less than 1e-9
    return "exact" if np.isposinf(digits) else f"{max(np.floor((digits - 1e-9) * 10) / 10, 0.0):.1f}"
