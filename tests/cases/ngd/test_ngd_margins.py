"""The separator, descent over many layers, the rate theorem and its counts, with attempts to break each."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice

import mpmath
import numpy as np
import pytest
from certify.cases.ngd import corpus, margins, separation
from certify.cases.ngd.balls import lower, upper
from certify.cases.ngd.layer import layer
from certify.cases.ngd.state import Context, fraction
from flint import arb, ctx
from ngd_states import context_of

from certify.errors import Undecided


def context(n: int, d: int, seed: int, **more: object) -> Context:
    """A context of the generator, from 0."""
    given = {"C1": "1/16", "steps": 40, **more}
    return context_of("a", corpus.context("a", corpus.dataset(n, d, seed), [0] * d, **given))  # type: ignore[arg-type]


def test_separators_of_the_demo() -> None:
    """Exact squares of the largest margins."""
    assert fraction(margins.separator(context(12, 3, 0)).squared) == Fraction(1437601, 2995724)
    assert fraction(margins.separator(context(20, 4, 1)).squared) == Fraction(398476875, 6608755712)


@pytest.mark.parametrize("seed", range(8))
def test_no_vector_has_more_margin(seed: int) -> None:
    """Random unit vectors, and vectors near the separator."""
    n, d = 4 + seed, 2 + seed % 3
    given = context(n, d, seed)
    found = margins.separator(given)
    gamma = float(fraction(found.squared)) ** 0.5
    Z = np.array([[float(fraction(x)) for x in row] for row in given.Z])
    w = np.array([float(fraction(x)) for x in found.w])
    rng = np.random.default_rng(seed)
    assert abs(np.min(Z @ w) / np.linalg.norm(w) - gamma) < 1e-12
    for scale in (0.01, 0.1, 10):
        U = w / np.linalg.norm(w) + scale * rng.standard_normal((2000, d))
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        assert (U @ Z.T).min(axis=1).max() <= gamma + 1e-12


def test_examples_that_no_vector_separates_are_undecided() -> None:
    """z and -z."""
    data = corpus.Dataset(np.array([[1.0, 0.5], [-1.0, -0.5], [0.0, 1.0]]), np.ones(2))
    given = context_of("a", corpus.context("a", data, (0, 0), C1="1/16", steps=5))
    with pytest.raises(Undecided):
        margins.separator(given)
    (claim,) = separation.separation_claims(given, ())
    assert claim.verdict == "undecided" and claim.reason


@pytest.mark.parametrize("seed", range(4))
def test_iterates_lie_where_they_are_said_to(seed: int) -> None:
    """Against mpmath with 60 digits, also where errors may grow."""
    start = [1, -2, 0, 3][: 3 + seed % 2]
    C1 = ("1/16", "2")[seed // 2]
    data = corpus.dataset(9, len(start), seed)
    given = context_of("a", corpus.context("a", data, start, 4, C1=C1, C2="1/2", steps=30))
    assert (margins.growth(given) > 1) == (seed >= 2)
    with mpmath.workdps(60):
        Z = mpmath.matrix(data.Z.tolist())
        theta = mpmath.matrix(start) / 4
        with ctx.workprec(margins.BITS):
            for point, off, _ in islice(margins.follow(given, given.theta), 31):
                for k in range(len(start)):
                    middle = mpmath.mpf(str(point[k, 0].str(50, radius=False)))
                    assert abs(middle - theta[k]) <= mpmath.mpf(float(off)) + mpmath.mpf(10) ** -36
                e = [mpmath.exp(-s / 2) for s in Z * theta]
                g = Z.T * mpmath.matrix(e) / sum(e)
                theta = theta + mpmath.mpf(eval_fraction(C1)) * g
    assert off < (1e-30 if seed < 2 else 1e-3)


def eval_fraction(text: str) -> float:
    """A dyadic control as a float, exactly."""
    return float(Fraction(text))


@pytest.mark.parametrize("seed", range(10))
def test_two_points_come_no_further_apart_than_growth_says(seed: int) -> None:
    """Random pairs of points, near and far, small and large steps."""
    rng = np.random.default_rng(seed)
    data = corpus.dataset(3 + seed, 3, seed)
    C1 = ("1/16", "1/4", "3", "8")[seed % 4]
    q = float(margins.growth(context_of("a", corpus.context("a", data, (0, 0, 0), C1=C1))))
    for scale in (1e-3, 1.0, 10.0):
        a, b = scale * rng.standard_normal((2, 3))
        moved = layer(data.Z, a, float(Fraction(C1)), 1.0) - layer(data.Z, b, float(Fraction(C1)), 1.0)
        assert np.linalg.norm(moved) <= q * np.linalg.norm(a - b) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_rate_theorem_is_not_broken(seed: int) -> None:
    """Margins after 1, 2, 5, ... layers are above both promises, on random contexts with the largest step allowed."""
    data = corpus.dataset(4 + 3 * seed, 2 + seed % 3, seed + 100)
    R2 = max(sum(Fraction(x) ** 2 for x in row) for row in data.Z.tolist())
    step = Fraction(int(64 / R2), 64)
    given = context_of("a", corpus.context("a", data, [0] * data.Z.shape[1], C1=str(step), steps=200))
    found = margins.separator(given)
    points, _ = margins.run(given, found.w, 200, {1, 2, 5, 20, 50, 200})
    gamma = float(fraction(found.squared)) ** 0.5
    for T, point in points.items():
        owed = np.log(given.n) + float(step * (R2 - Fraction(gamma) ** 2)) / 2
        after = (float(step) * gamma * float(point.slopes.mid()) - owed) / float(point.norm.mid())
        before = gamma - (np.log(given.n) + float(step * R2) / 2) / (float(step) * gamma * T)
        assert before - 1e-9 <= after + 1e-9 <= float(point.margin.mid()) + 2e-9
        assert float(point.distance.mid()) ** 2 <= 2 * (gamma - float(point.margin.mid())) / gamma + 1e-12


def test_counts_are_those_of_a_float_run() -> None:
    """First and settled layers within an accuracy, counted again in float64."""
    given = context(12, 3, 0, C1="3/32", steps=60)
    claims = {c.id: c for c in separation.separation_claims(given, (Fraction(1, 5), Fraction(1, 1000)))}
    claim = claims["order/count/a/eps=1/5"]
    w = np.array([float(fraction(x)) for x in margins.separator(given).w])
    Z, theta = corpus.dataset(12, 3, 0).Z, np.zeros(3)
    inside = []
    for _ in range(60):
        theta = layer(Z, theta, 0.09375, 1.0)
        inside.append(np.linalg.norm(theta / np.linalg.norm(theta) - w / np.linalg.norm(w)) <= 0.2)
    last = max([t for t, good in enumerate(inside, 1) if not good], default=0)
    assert int(claim.bounds["attained"]) == inside.index(True) + 1
    assert int(claim.bounds["settled"]) == last + 1 < int(claim.bounds["predicted"])
    assert claims["order/count/a/eps=1/1000"].verdict == "undecided"


def test_a_step_that_is_too_large_is_undecided() -> None:
    """Beyond step diam^2 / 4 = 2 nothing is claimed of long runs; beyond step R^2 = 1 no rate."""
    assert [c.verdict for c in separation.separation_claims(context(12, 3, 0, C1="4"), ())] == ["undecided"]
    kinds = {c.id.split("/")[1] for c in separation.separation_claims(context(12, 3, 0, C1="1/4"), (Fraction(1, 2),))}
    assert kinds == {"max-margin", "angle", "decomposition"}


def test_an_accuracy_that_an_enclosure_holds_is_undecided() -> None:
    """Neither inside nor outside."""
    with pytest.raises(Undecided):
        margins.within([arb(0.5, 0.1)], Fraction(1, 2))
    assert margins.within([arb(0.5)], Fraction(1, 2)) == [True]


def test_depths_and_distances_are_ordered() -> None:
    """Lower ends are below upper ones in every angle claim."""
    points, distances = margins.run(context(12, 3, 0), margins.separator(context(12, 3, 0)).w, 40, {1, 10, 40})
    assert sorted(points) == [1, 10, 40] and len(distances) == 40
    assert all(lower(x) <= upper(x) < Fraction(2) for x in distances)
    assert separation.depths(4000) == [1, 10, 100, 1000, 4000] and separation.depths(10) == [1, 10]
