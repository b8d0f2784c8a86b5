"""The corpus of the fixed-stage tests: its instances have the stated law, its snapshots are what the solver left."""

from __future__ import annotations

import numpy as np
import pytest
from certify.cases.polyprox import corpus

from certify.errors import InputRejected


def test_corpus_is_ten_seeds_of_three_sizes() -> None:
    """30 instances with distinct names; p = 3, 5, 10 in blocks of ten seeds."""
    listed = list(corpus.instances())
    assert len({name for name, _, _ in listed}) == len(listed) == 30
    assert [(p, seed) for _, p, seed in listed] == [(p, seed) for p in (3, 5, 10) for seed in range(10)]


def test_instance_is_reproducible_and_its_own() -> None:
    """The same (p, seed) gives the same bits; another seed gives other data."""
    Sigma, W = corpus.instance(5, 3)
    again, W_again = corpus.instance(5, 3)
    assert np.array_equal(Sigma, again)
    assert np.array_equal(W, W_again)
    other, W_other = corpus.instance(5, 4)
    assert not np.any(Sigma == other)
    assert not np.array_equal(W, W_other)


@pytest.mark.parametrize(("name", "p", "seed"), list(corpus.instances()))
def test_instance_is_an_acyclic_model_of_its_covariance(name: str, p: int, seed: int) -> None:
    """W is nilpotent with weights of magnitude [0.5, 2], and Sigma, whitened by it, is I up to sampling."""
    Sigma, W = corpus.instance(p, seed)
    assert not np.any(np.linalg.matrix_power(W != 0, p))
    magnitudes = np.abs(W[W != 0])
    assert np.all((magnitudes >= 0.5) & (magnitudes <= 2)), name
    assert np.array_equal(Sigma, Sigma.T)
    # x = W^T x + noise, so (I - W)^T Sigma (I - W) is the sample covariance of unit noise: its entries have standard
    # deviation sqrt(2 / 500) = 0.063 on the diagonal and 0.045 off it; 0.35 is more than five of them
    away = np.eye(p) - W
    assert np.abs(away.T @ Sigma @ away - np.eye(p)).max() < 0.35


def test_graphs_have_expected_degree_two() -> None:
    """p edges are expected; every pair at p = 3, where the edge probability 2 / (p - 1) is 1."""
    assert all(np.count_nonzero(corpus.instance(3, seed)[1]) == 3 for seed in range(10))
    # 45 pairs of probability 2/9: variance 7.8 an instance, so 200 instances average to 10 +- 0.2
    counts = [np.count_nonzero(corpus.instance(10, seed)[1]) for seed in range(200)]
    assert abs(np.mean(counts) - 10) < 0.8


def test_orders_and_signs_are_random() -> None:
    """Over 50 seeds, edges point both ways and weights have both signs, each about half the time."""
    drawn = [corpus.instance(10, seed)[1] for seed in range(50)]
    upward = np.mean(np.concatenate([np.triu(W, 1)[W != 0] != 0 for W in drawn]))
    positive = np.mean(np.concatenate([W[W != 0] > 0 for W in drawn]))
    # about 500 edges: one standard deviation is 0.022 for the signs; orders correlate edges, hence the wider margin
    assert abs(positive - 0.5) < 0.12
    assert abs(upward - 0.5) < 0.2


@pytest.mark.parametrize("p", [3, 10])
def test_snapshots_are_stage_endpoints_with_matching_controls(p: int) -> None:
    """First, middle and last stage; W, alpha, rho, gamma of their last accepted steps; b = 0."""
    run = corpus.solution(p, 0)
    assert len(run.stages) == 12
    assert 3000 <= run.accepted <= 4800
    states = corpus.snapshots(p, 0)
    for state, stage in zip(states, (run.stages[i] for i in (0, 6, 11)), strict=True):
        last = stage.steps[-1]
        assert np.array_equal(state.W, last.W_plus)
        assert (state.alpha, state.rho, state.gamma) == (stage.alpha, stage.rho, last.gamma)
        assert (state.lam, state.b, state.p_max) == (0.1, 0, p)
        assert state.M.sum() == p * (p - 1)
    assert (states[0].alpha, states[0].rho) == (0, 1)
    assert 1 < states[1].rho < states[2].rho


@pytest.mark.slow
def test_corpus_takes_the_published_number_of_steps() -> None:
    """Accepted steps by size within 8 % of the published 44508, 46590, 47282; final h in the published 1e-6 range."""
    runs = {p: [corpus.solution(p, seed) for seed in corpus.SEEDS] for p in corpus.SIZES}
    for p, published in zip(corpus.SIZES, (44508, 46590, 47282), strict=True):
        assert abs(sum(run.accepted for run in runs[p]) / published - 1) < 0.08
    assert 3e-6 < np.median([run.h for all_seeds in runs.values() for run in all_seeds]) < 1.2e-5


@pytest.mark.parametrize(("p", "seed", "culprit"), [(2, 0, "p = 2"), (1, 0, "p = 1"), (3, -1, "-1")])
def test_impossible_instances_are_rejected(p: int, seed: int, culprit: str) -> None:
    """Too few variables for degree 2, or a negative seed, is refused by name."""
    with pytest.raises(InputRejected, match=culprit):
        corpus.instance(p, seed)
