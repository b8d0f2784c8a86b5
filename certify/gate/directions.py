"""Which way a bound gets worse."""

from __future__ import annotations

#: Bounds that are better when larger, each with its reason. Every other bound is an upper bound of something unwanted (an
#: error, a distance, a rate, a count, a magnitude), so it is better when smaller, and so is one that nobody has heard of.
LARGER_IS_BETTER = {
    "mu": "a lower bound of the curvature: the larger, the faster the map contracts",
    "radius": "of a ball on which the claim holds: the larger, the more states it covers",
    "entry_radius": "of a ball that may be entered from anywhere in it: the larger, the sooner a state is inside",
    "margin": "of a comparison: the larger, the farther from the opposite",
    "gap": "between neighbours in an order: the larger, the clearer the order",
    "low": "the lower end of an enclosure: the larger, the tighter",
    "kappa": "a lower bound of the eigenvalue that refutes: the larger, the clearer the refutation",
}


def worsening(name: str) -> int:
    """The sign of a change for the worse: 1 if the bound `name` is better when smaller, -1 if when larger."""
    return -1 if name in LARGER_IS_BETTER else 1
