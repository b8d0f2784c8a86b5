"""What NumPy, torch and emulated formats return of a layer is within the claims, one layer and many, at random states."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certify.cases.case import Options
from certify.cases.kernel import trace_kernel
from certify.cases.ngd import balls, corpus
from certify.cases.ngd.case import layer_kernel
from certify.cases.ngd.depth import depth_claims
from certify.cases.ngd.layer import layer
from certify.cases.ngd.state import Context, fraction
from flint import arb, arb_mat, ctx
from ngd_states import context_of

from certify import format_named, point, running
from certify.arithmetic import Ieee
from certify.certificate import parse
from certify.graph import evaluate, output

try:
    import torch
except ImportError:
    torch = None

STATES = [pytest.param(6, id="6"), pytest.param(200, id="200", marks=pytest.mark.slow)]
REAL = ("float16", "bfloat16", "float32", "float64")
EMULATED = ("float16", "bfloat16", "tf32", "e4m3", "e5m2", "float32")
#: Numbers of 16 bits are multiplied and added in float32 by torch and NumPy, and the total is rounded once.
ORDERS = {
    "float16": "any-order:float32",
    "bfloat16": "any-order:float32",
    "float32": "any-order",
    "float64": "any-order",
}


def state(seed: int, name: str) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Examples, a start and scalars, numbers of the format: normal, small, nearly alike, or with large scores."""
    rng = np.random.default_rng([seed, 7])
    n, d = int(rng.integers(2, 24)), int(rng.integers(1, 9))
    Z, theta = rng.standard_normal((n, d)), rng.standard_normal(d)
    kind = seed % 4
    Z = Z / 16 if kind == 1 else Z[:1] + Z / 64 if kind == 2 else Z
    theta = theta * 2 if kind == 3 else theta
    round = format_named(name).round
    C1, C2 = (float(x) for x in rng.choice([0.25, 0.5, 1.0, 1.5], 2))
    return np.asarray(round(Z)), np.asarray(round(theta)), C1, C2


def exact_layer(Z: np.ndarray, theta: np.ndarray, C1: float, C2: float) -> list[Any]:
    """By the full matrices of the oracle, as balls."""
    n, d = Z.shape
    H = arb_mat(
        [[arb(x) for x in row] + [arb(0)] for row in Z.T.tolist()] + [[0] * n + [arb(x)] for x in theta.tolist()]
    )
    V, W = arb_mat(2 * d, 2 * d), arb_mat(2 * d, 2 * d)
    for k in range(d):
        V[d + k, k], W[k, d + k] = arb(C1), arb(-C2)
    out = H + balls.attended(H, V, W)
    return [out[d + k, n] for k in range(d)]


def inside(values: np.ndarray, exact: list[Any], limits: np.ndarray) -> float:
    """The largest error as a share of its bound; an entry that is not surely inside fails."""
    share = 0.0
    for value, ball, limit in zip(values.tolist(), exact, limits.tolist(), strict=True):
        off = abs(ball - arb(value))
        assert balls.upper(off) <= Fraction(limit), (value, ball, limit)
        share = max(share, float(balls.upper(off) / Fraction(limit)) if limit else 0.0)
    return share


def limits_of(Z: np.ndarray, theta: np.ndarray, C1: float, C2: float, format: str, order: str, libm: str) -> Any:
    """Bounds of the error of each entry; None where nothing is proved."""
    traced = trace_kernel(lambda Z, theta: layer(Z, theta, C1, C2), {"Z": Z, "theta": theta}, order=order)
    bounds = running(traced.graph, format_named(format), point(traced.inputs), libm=libm)
    return (None if bounds.first_overflow() is not None else bounds.error_of("0")), traced


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_real_layers_are_within_their_bounds(library: str, name: str, states: int) -> None:
    """NumPy in the formats that it has, torch in all four."""
    if library == "torch" and torch is None:
        pytest.skip("needs torch, which only the tests of real kernels use")
    if library == "numpy" and name == "bfloat16":
        pytest.skip("NumPy has no bfloat16")
    shares = []
    with ctx.workprec(200):
        for seed in range(states):
            Z, theta, C1, C2 = state(seed, name)
            limits, _ = limits_of(Z, theta, C1, C2, name, ORDERS[name], library)
            if limits is None:
                continue
            if library == "numpy":
                found = layer(Z.astype(name), theta.astype(name), C1, C2).astype(np.float64)
            else:
                given = (torch.from_numpy(x).to(getattr(torch, name)) for x in (Z, theta))
                found = layer(*given, C1, C2, torch).double().numpy()
            shares.append(inside(found, exact_layer(Z, theta, C1, C2), limits))
    assert len(shares) > states / 2 and 0 < np.median(shares) <= max(shares) <= 1


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("name", EMULATED)
def test_emulated_layers_are_within_their_bounds(name: str, states: int) -> None:
    """The serial program, operation by operation in the format, for all formats that a claim can be about."""
    shares = []
    with ctx.workprec(200):
        for seed in range(states):
            Z, theta, C1, C2 = state(seed, name)
            limits, traced = limits_of(Z, theta, C1, C2, name, "serial", "numpy")
            if limits is None or not np.isfinite(limits).all():
                continue
            ieee = Ieee(format_named(name))
            values = evaluate(traced.graph, ieee, {key: ieee.constant(x) for key, x in traced.inputs.items()})
            found = np.asarray(output(traced.graph, ieee, values, "0"), dtype=np.float64)
            shares.append(inside(found, exact_layer(Z, theta, C1, C2), limits))
    assert shares and max(shares) <= 1
    assert len(shares) > states / 2 or name in ("e4m3", "e5m2", "bfloat16")


@pytest.mark.parametrize("states", [pytest.param(3, id="3"), pytest.param(40, id="40", marks=pytest.mark.slow)])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_real_loops_are_within_their_bounds(library: str, states: int) -> None:
    """Ten layers in float32 and float64, where errors add and where they may grow, against exact iterates."""
    if library == "torch" and torch is None:
        pytest.skip("needs torch, which only the tests of real kernels use")
    proved = 0
    for seed in range(states):
        C1 = ("1/8", "3")[seed % 2]
        data = corpus.dataset(5 + seed % 9, 2 + seed % 3, seed)
        saved = corpus.context("a", data, [1, -2, 3, 1][: data.Z.shape[1]], 4, C1=C1, C2="1/2", layers=10)
        given = context_of("a", saved)
        kernel = layer_kernel(saved, given, "any-order")
        for name in ("float32", "float64"):
            claim, *_ = depth_claims(given, kernel, format_named(name), local_claim(given, kernel, name))
            if claim.verdict != "certified":
                continue
            proved += 1
            theta, scalars = saved.tensors["start.a"], (float(fraction(given.C1)), 0.5)
            if library == "numpy":
                Z, theta = data.Z.astype(name), theta.astype(name)
            else:
                Z, theta = (torch.from_numpy(x).to(getattr(torch, name)) for x in (data.Z, theta))
            for _ in range(10):
                theta = layer(Z, theta, *scalars, np if library == "numpy" else torch)
            with ctx.workprec(400):
                exact = [arb(x) for x in given.theta]
                for _ in range(10):
                    exact = balls.descent(given, exact, given.C2, given.C1)
                off = sum(((x - arb(float(y))) ** 2 for x, y in zip(exact, theta.tolist(), strict=True)), arb(0)).sqrt()
            assert balls.upper(off) <= parse(claim.bounds["high"])
    assert proved >= states


def local_claim(given: Context, kernel: Any, name: str) -> Any:
    """The claim about one layer."""
    from certify.cases.kernels import kernel_claims

    return kernel_claims(kernel, format_named(name), Options(order="any-order", samples=0))[0]


def test_one_ulp_beyond_a_bound_is_counted() -> None:
    """Otherwise the tests above would not say what they say."""
    Z, theta, C1, C2 = state(0, "float32")
    limits, _ = limits_of(Z, theta, C1, C2, "float32", "any-order", "numpy")
    with ctx.workprec(200):
        exact = exact_layer(Z, theta, C1, C2)
        values = np.array([float(x.mid()) for x in exact])
        inside(values + 0.99 * limits, exact, limits)
        with pytest.raises(AssertionError):
            inside(values + 1.01 * limits, exact, limits)
