"""Attempts to break the theorems of the case: random systems, exact iterations, and the formats' own arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certify.cases.case import Options
from certify.cases.kernels import kernel_claims
from certify.cases.meta_models import classes, convex, em, floors, gaussian, layers, linkage, meta
from certify.cases.meta_models.attention import anchor_claims
from certify.cases.meta_models.case import kernels_of, output_errors, system_claims
from certify.cases.meta_models.inputs import Instance
from certify.cases.meta_models.linear import count
from flint import ctx
from meta_models_reports import silent
from real_meta_models import instance

from certify import BINARY16, BINARY32, format_named
from certify.arithmetic import Ieee
from certify.certificate import Claim, parse
from certify.graph import evaluate, output

SEEDS = range(12)


def by_id(claims: list[Claim]) -> dict[str, Claim]:
    """Claims by kind and topic."""
    return {"/".join(claim.id.split("/")[:2]): claim for claim in claims}


def bounds(claim: Claim) -> dict[str, Fraction]:
    """The bounds of a claim, exactly."""
    return {name: parse(text) for name, text in claim.bounds.items()}


def field(seed: int) -> Instance:
    """A random convex field of dyadic numbers, on a random graph."""
    rng = np.random.default_rng([seed, 1])
    n = int(rng.integers(2, 6))
    c = np.triu(np.round(rng.exponential(2, (n, n)) * 8) / 8 * (rng.random((n, n)) < 0.7), 1)
    parts = {"d": np.ceil(rng.exponential(1, n) * 8) / 8, "e": np.round(rng.normal(size=n) * 16) / 16, "c": c + c.T}
    return Instance("convex", "convex", parts, {"digits": Fraction(6)})


@pytest.mark.parametrize("seed", SEEDS)
def test_jacobi_arrives_within_its_count(seed: int) -> None:
    """Random diagonally heavy matrices in rationals: contraction of every step, and the distance after the count."""
    rng = np.random.default_rng([seed, 2])
    n = int(rng.integers(2, 6))
    A = np.round(rng.normal(size=(n, n)) * 8) / 32
    system = {"J": np.eye(n) * 2 + (A + A.T) / 2, "h": np.round(rng.normal(size=n) * 16) / 16}
    system["J"][np.diag_indices(n)] = 2
    found = by_id(gaussian.gaussian_claims(Instance("gaussian", "gaussian", system, {"digits": Fraction(3)})))
    walk, updates = found["contraction/walk-summable"], found["updates/jacobi"]
    if walk.verdict != "certified":
        assert max(abs(np.linalg.eigvalsh(abs(system["J"] / 2 - np.eye(n))))) > 0.999
        return
    v = [parse(text) for text in walk.witness["v"]]  # type: ignore[index]
    J, h = [[Fraction(x) for x in row] for row in system["J"]], [Fraction(x) for x in system["h"]]

    def step(z: list[Fraction]) -> list[Fraction]:
        return [(h[i] - sum(J[i][j] * z[j] for j in range(n) if j != i)) / J[i][i] for i in range(n)]

    q = bounds(walk)["q"]
    a, b = ([Fraction(int(x), 8) for x in rng.integers(-50, 50, n)] for _ in range(2))
    before = max(abs(x - y) / w for x, y, w in zip(a, b, v, strict=True))
    after = max(abs(x - y) / w for x, y, w in zip(step(a), step(b), v, strict=True))
    assert after <= q * before
    z = [Fraction(0)] * n
    for _ in range(int(bounds(updates)["count"])):
        z = [Fraction(round(x * 2**80), 2**80) for x in step(z)]
    limit = np.linalg.solve(system["J"], system["h"])
    assert np.abs(np.array(z, dtype=float) - limit).max() <= 1e-3 * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_iterations_on_a_field_arrive_within_their_counts(seed: int) -> None:
    """Anchored attention, plain attention and belief propagation on random convex fields, by NumPy in float64."""
    system = field(seed)
    found = by_id(convex.convex_claims(system))
    d, e, c = (system.tensors[part] for part in "dec")
    z = np.linalg.solve(np.diag(d + c.sum(1)) - c, d * e)
    at = e
    for _ in range(int(bounds(found["updates/anchored"])["count"])):
        at = (d * e + c @ at) / (d + c.sum(1))
    assert abs(at - z).max() <= 1e-6 * (1 + 1e-6)
    q = float(bounds(found["contraction/anchored"])["q_plain"])
    x, y = np.random.default_rng(seed).normal(size=(2, len(d)))
    assert abs((c @ (x - y)) / (d + c.sum(1))).max() <= q * abs(x - y).max() * (1 + 1e-12)
    A = (np.diag(d) + c) / (d + c.sum(1))[:, None]
    if found["contraction/consensus"].verdict == "certified":
        assert np.ptp(A @ x) <= float(bounds(found["contraction/consensus"])["q"]) * np.ptp(x) * (1 + 1e-12)
    rounds = int(bounds(found["updates/belief"])["count"])
    assert abs(belief(d, e, c, rounds) - z).max() <= 1e-6 * (1 + 1e-6)
    assert rounds == 1 or abs(belief(d, e, c, rounds - 1) - z).max() > 1e-6 * (1 - 1e-6)


def belief(d: Any, e: Any, c: Any, rounds: int) -> Any:
    """Maximizers of the beliefs after so many rounds, with messages in dense arrays."""
    n = len(d)
    a, m = np.zeros((n, n)), np.zeros((n, n))  # from j to i
    for _ in range(rounds):
        P = d[:, None] + a.sum(0)[:, None] - a.T
        pull = (d * e)[:, None] + (a * m).sum(0)[:, None] - (a * m).T
        m, a = pull / P, c * P / (c + P)
    return (d * e + (a * m).sum(0)) / (d + a.sum(0))


@pytest.mark.parametrize("seed", SEEDS)
def test_anchored_attention_contracts_by_its_factor(seed: int) -> None:
    """Random pairs of points of the box, and the steepest direction there is: both at the corners."""
    rng = np.random.default_rng([seed, 3])
    n, w, beta, R = int(rng.integers(1, 5)), Fraction(1, 2), Fraction(int(rng.integers(0, 8)), 16), Fraction(1)
    numbers = {"weight": w, "beta": beta, "bound": R}
    e = np.round(rng.uniform(-1, 1, n) * 64) / 64
    found = by_id(anchor_claims(Instance("anchor", "anchor", {"e": e, "digits": np.array([3.0])}, numbers)))
    q = float(bounds(found["contraction/anchor"])["q"])

    def step(z: Any) -> Any:
        s = np.exp(float(beta) * np.outer(z, z))
        return 0.5 * (s / s.sum(1, keepdims=True)) @ z + 0.5 * e

    for _ in range(50):
        x = rng.choice([-1.0, 1.0], n) if rng.random() < 0.5 else rng.uniform(-1, 1, n)
        y = x - rng.uniform(0, 0.1, n) * np.sign(x)
        assert abs(step(x)).max() <= 1 + 1e-12
        assert abs(step(x) - step(y)).max() <= q * abs(x - y).max() + 1e-14
    z = e
    for _ in range(int(bounds(found["updates/anchor-local"])["count"])):
        z = step(z)
    for _ in range(500):
        e_limit = step(z if _ == 0 else e_limit)  # noqa: F821
    assert abs(z - e_limit).max() <= 1e-3


@pytest.mark.parametrize("name", ["float16", "float32"])
@pytest.mark.parametrize("system", ["convex", "anchor"])
def test_every_computed_iterate_is_above_its_floor_by_the_power(system: str, name: str) -> None:
    """The iteration in a format, operation by operation: at every t within q^t reach + floor of the fixed point."""
    certified = 0
    for seed in range(4):
        example = instance("anchor", seed, name) if system == "anchor" else field(seed)
        if system == "anchor":
            numbers = {"weight": Fraction(1, 2), "beta": Fraction(1, 16), "bound": Fraction(1)}
            example = Instance("anchor", "anchor", {**example.tensors, "digits": np.array([3.0])}, numbers)
        kernel = kernels_of(example, "serial")[0]
        radius = floors.radius_of_ball(example)
        if radius == 0:
            continue
        claims = kernel_claims(kernel, format_named(name), Options(samples=0), center="z", radius=radius)
        found = by_id(system_claims(example, [format_named(name)], {name: claims}, []))["updates/floor"]
        if found.verdict != "certified":
            continue
        certified += 1
        q, reach, floor = (bounds(found)[key] for key in ("q", "reach", "floor"))
        z = limit_of(example)
        ieee, graph = Ieee(format_named(name)), kernel.traced.graph
        at = kernel.traced.inputs["z"]
        for t in range(40):
            assert max(abs(Fraction(float(x)) - y) for x, y in zip(at, z, strict=True)) <= q**t * reach + floor
            given = {key: ieee.constant(value) for key, value in {**kernel.traced.inputs, "z": at}.items()}
            at = output(graph, ieee, evaluate(graph, ieee, given), "z").astype(np.float64)
    assert certified > 0


def limit_of(example: Instance) -> list[Fraction]:
    """The fixed point to 2**-200."""
    if example.system == "convex":
        return convex.maximizer(*(example.array(part).tolist() for part in "dec"))
    from certify.cases.meta_models.attention import fixed_point

    return fixed_point(example)[0]


@pytest.mark.parametrize("format", [BINARY16, BINARY32], ids=lambda f: f.name)
def test_both_orders_stay_within_the_bound_on_their_difference(format: Any) -> None:
    """Mixtures with a gate of powers of two, expert first and parameter first in NumPy, tiny numbers included."""
    dtype = np.dtype(format.name)
    for seed in range(60):
        rng = np.random.default_rng([seed, 4])
        k, o, d = (int(x) for x in rng.integers(1, 6, 3))
        size = 2.0 ** float(rng.integers(-10, 3))
        parts = {
            "W": rng.normal(size=(k, o, d)) * size,
            "B": rng.normal(size=(k, o)) * size,
            "R": rng.integers(-3, 4, (k, d)).astype(float),
            "z": rng.integers(-4, 5, d) / 4.0,
        }
        parts = {name: np.asarray(format.round(value)) for name, value in parts.items()}
        example = Instance("moe", "moe", parts, {"scale": Fraction(4)})
        found = by_id(meta.moe_claims(example, [format]))["enclosure/orders"]
        if found.verdict != "certified":
            continue
        gate = np.array(meta.binary_gate(example, example.array("R"), example.array("z")), dtype=float).astype(dtype)
        W, B, z = (parts[name].astype(dtype) for name in ("W", "B", "z"))
        experts = [[serial([W[e, i, c] * z[c] for c in range(d)] + [B[e, i]]) for i in range(o)] for e in range(k)]
        first = [serial([gate[e] * experts[e][i] for e in range(k)]) for i in range(o)]
        theta = [[serial([gate[e] * W[e, i, c] for e in range(k)]) for c in range(d)] for i in range(o)]
        bias = [serial([gate[e] * B[e, i] for e in range(k)]) for i in range(o)]
        second = [serial([theta[i][c] * z[c] for c in range(d)] + [bias[i]]) for i in range(o)]
        off = max(abs(Fraction(float(x)) - Fraction(float(y))) for x, y in zip(first, second, strict=True))
        assert off <= bounds(found)["high"]


def serial(terms: list[Any]) -> Any:
    """A sum from left to right in the dtype of its terms."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_merges_survive_errors_below_half_the_gap(seed: int) -> None:
    """Similarities moved by almost half the gap, in the worst direction, merge in the same order; and ties are undecided."""
    rng = np.random.default_rng([seed, 5])
    z = rng.integers(-4, 5, (5, 3)).astype(float)
    z[~z.any(1)] = 1
    example = Instance("linkage", "linkage", {"z": z})
    exact = [[Fraction(x) for x in row] for row in z]
    found = linkage.linkage_claims(example, {}, {})[0]
    keys = sorted((linkage.key(exact[i], exact[j]), i, j) for j in range(5) for i in range(j))
    if found.verdict != "certified":
        assert len({k for k, _, _ in keys}) < len(keys)
        return
    gap = float(bounds(found)["gap"])
    unit = z / np.linalg.norm(z, axis=1)[:, None]
    similar = unit @ unit.T
    order = [tuple(pair) for pair in found.witness["merges"]]  # type: ignore[index]
    for _ in range(20):
        moved = similar + rng.choice([-1, 1], similar.shape) * 0.499 * gap
        assert merged(np.triu(moved, 1) + np.triu(moved, 1).T) == order


def merged(similar: Any) -> list[tuple[int, int]]:
    """Single linkage on a matrix, by the least members."""
    clusters = [[i] for i in range(len(similar))]
    found = []
    while len(clusters) > 1:
        pairs = [(similar[np.ix_(a, b)].max(), a, b) for k, b in enumerate(clusters) for a in clusters[:k]]
        _, a, b = max(pairs, key=lambda x: x[0])
        found.append((min(a[0], b[0]), max(a[0], b[0])))
        clusters = [x for x in clusters if x not in (a, b)] + [sorted(a + b)]
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kept_class_is_kept(seed: int) -> None:
    """Layers in float16 emulated: at least `count` outputs have the exact sign."""
    system = ("linear", "identity", "swish", "pswish", "swiglu", "softmax")[seed % 6]
    example = instance(system, seed, "float16")
    parts = {
        name: (x[:, :1] if name in ("W", "B") and system != "linear" else x) for name, x in example.tensors.items()
    }
    if system == "linear":
        parts = {**parts, "W": parts["W"][:1], "B": parts["B"][:1]}
    example = Instance(system, system, parts)
    kernel = kernels_of(example, "serial")[0]
    claims = kernel_claims(kernel, format_named("float16"), Options(samples=0))
    source = {"float16": next(c for c in claims if c.kind == "rounding")}
    found = by_id(layers.layer_claims(example, source, output_errors([kernel], [format_named("float16")], "y")))
    if found["margin/classes"].verdict != "certified":
        return
    ieee, graph = Ieee(format_named("float16")), kernel.traced.graph
    given = {key: ieee.constant(value) for key, value in kernel.traced.inputs.items()}
    computed = output(graph, ieee, evaluate(graph, ieee, given), "y")[:, 0]
    positive = np.array(found["margin/layer"].witness["positive"])  # type: ignore[index]
    assert ((computed > 0) == positive).sum() >= bounds(found["margin/classes"])["count"]


@pytest.mark.parametrize("seed", SEEDS)
def test_em_on_random_points(seed: int) -> None:
    """Soft steps gain; the hard objective never falls, and a refutation is one in floats, too."""
    rng = np.random.default_rng([seed, 6])
    x = np.unique(np.round(rng.normal(size=6) * 8) / 4)
    soft = by_id(
        em.soft_claims(
            Instance(
                "em",
                "em",
                {"x": x},
                {"share": Fraction(1, 3), "low": Fraction(-1), "high": Fraction(2), "steps": Fraction(3)},
            )
        )
    )
    assert all(claim.verdict == "certified" for claim in soft.values())
    labels = abs(x - 1) < abs(x + 1)
    if labels.all() or not labels.any():
        return
    hard = by_id(em.hard_claims(Instance("hard", "hard", {"x": x}, {"low": Fraction(-1), "high": Fraction(1)})))
    assert hard["margin/hard-em"].verdict == "certified" or (x[~labels].mean() == -1 and x[labels].mean() == 1)


@pytest.mark.parametrize("seed", range(3))
def test_no_linear_rule_exceeds_its_bound(seed: int) -> None:
    """Random pairs of classes: thousands of linear rules against the level that branch and bound proves."""
    rng = np.random.default_rng([seed, 7])
    parts = {"m0": np.round(rng.normal(size=(2, 2)) * 12) / 4, "m1": np.round(rng.normal(size=(2, 2)) * 12) / 4}
    numbers = {"a": Fraction(0), "b": Fraction(0), "slack": Fraction(1, 50)}
    best, _ = classes.best_linear(parts["m0"], parts["m1"])
    found = classes.rule_claims(Instance("rule", "rule", parts, numbers))[0]
    proved, _ = classes._all_below(*(parts[name].tolist() for name in ("m0", "m1")), Fraction(best + 0.02))
    assert proved
    assert not classes._all_below(*(parts[name].tolist() for name in ("m0", "m1")), Fraction(best - 0.01))[0]
    assert found.verdict in ("certified", "undecided")


def test_the_working_precision_of_others_does_not_matter() -> None:
    """Claims are the same whatever precision the caller has set, and leave it alone."""
    example = field(0)
    expected = [claim.to_json() for claim in convex.convex_claims(example)]
    with ctx.workprec(20):
        assert [claim.to_json() for claim in convex.convex_claims(example)] == expected
        assert ctx.prec == 20


def test_a_count_that_is_too_large_is_none() -> None:
    """No contraction, or one that is too slow."""
    assert count(Fraction(1), Fraction(1), Fraction(1, 2)) is None
    assert count(Fraction(999_999, 1_000_000), Fraction(1), Fraction(1, 10**6)) is None
    assert count(Fraction(1, 2), Fraction(1), Fraction(1, 2)) == 2
    silent(0, 1, "")
