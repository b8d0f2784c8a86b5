"""The claims on the inputs X1-X19 against values from other routes: NumPy, SciPy, closed forms, and the numbers of the text."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from certify.cases.meta_models import demo, kernels
from meta_models_reports import demonstration
from real_meta_models import torch
from scipy.cluster.hierarchy import linkage
from scipy.special import ndtr, softmax

from certify.certificate import parse


def claim(id: str) -> dict[str, Any]:
    """A claim of the demonstration."""
    report, _, _ = demonstration()
    found: dict[str, Any] = next(c for c in report["claims"] if c["id"] == id)
    return found


def bound(id: str, name: str) -> float:
    """A bound as a float."""
    return float(parse(claim(id)["bounds"][name]))


def floats(value: Any) -> Any:
    """Number strings in nested lists as an array."""
    return np.array([floats(x) for x in value]) if isinstance(value, list) else float(parse(value))


def tensor(name: str) -> Any:
    """A tensor of the demonstration as floats, its denominator included."""
    state = demo.state()
    return state.tensors[name] / float(Fraction(state.metadata.get(f"{name}_denominator", "1")))


def test_x1_belief_maximizers() -> None:
    """Scalars with a mask, and two matrices."""
    H, m, mask = tensor("mean_H"), tensor("mean_m"), tensor("mean_mask")
    z = floats(claim("identity/stationary/mean")["witness"]["z"])
    assert z == pytest.approx([(mask * H * m).sum() / (mask * H).sum()]) and z == pytest.approx([17 / 70])
    H, m = tensor("mean-matrix_H"), tensor("mean-matrix_m")
    expected = np.linalg.solve(H.sum(0), np.einsum("kab,kb->a", H, m))
    assert floats(claim("identity/stationary/mean-matrix")["witness"]["z"]) == pytest.approx(expected)


def test_x2_the_chain_is_exact_after_three_rounds() -> None:
    """Means and variances of the inverse."""
    found, J, h = claim("identity/tree/gaussian-chain"), tensor("gaussian-chain_J"), tensor("gaussian-chain_h")
    assert found["parameters"]["rounds"] == 3
    assert floats(found["witness"]["means"]) == pytest.approx(np.linalg.solve(J, h))
    assert floats(found["witness"]["variances"]) == pytest.approx(np.diag(np.linalg.inv(J)))


def test_x3_means_are_exact_on_the_cycle_and_variances_are_not() -> None:
    """The message precision tends to (sqrt(3/4) - 1) / 2, negative, and the variance to sqrt(4/3); the exact one is 1.2."""
    assert bound("contraction/walk-summable/gaussian-cycle", "q") == 0.5
    limit = (np.sqrt(0.75) - 1) / 2
    lower = [parse(row[2]) for row in claim("margin/loop-variance/gaussian-cycle")["witness"]["precisions"]]
    assert all(1.01 * limit < float(x) < limit < 0 for x in lower)
    exact = np.linalg.inv(tensor("gaussian-cycle_J"))[0, 0]
    assert bound("margin/loop-variance/gaussian-cycle", "margin") == pytest.approx(abs(exact - 1 / np.sqrt(0.75)))
    assert bound("identity/loop-means/gaussian-cycle", "radius") < 1e-50
    assert int(claim("updates/jacobi/gaussian-cycle")["observed"]["first"]) <= bound(
        "updates/jacobi/gaussian-cycle", "count"
    )


def field() -> tuple[Any, Any, Any, Any]:
    """d, e, c and the MAP of X4."""
    d, e, c = tensor("convex_d"), tensor("convex_e"), tensor("convex_c")
    return d, e, c, np.linalg.solve(np.diag(d + c.sum(1)) - c, d * e)


def test_x4_the_map_and_the_softmax_row() -> None:
    """The MAP, and beliefs as rows of attention to 1e-50."""
    assert floats(claim("identity/map/convex")["witness"]["z"]) == pytest.approx(field()[3])
    assert bound("identity/softmax-row/convex", "radius") < 1e-50
    assert 0 < bound("margin/softmax-row/convex", "margin") < 1


def test_x5_anchored_attention_arrives_within_its_count() -> None:
    """q_plain is the largest c_i / (d_i + c_i); the weighted factor is nearly the spectral radius; floats need no more."""
    d, e, c, z = field()
    A = c / (d + c.sum(1))[:, None]
    assert bound("contraction/anchored/convex", "q_plain") == pytest.approx(max(c.sum(1) / (d + c.sum(1))))
    radius = max(abs(np.linalg.eigvals(A)))
    assert radius <= bound("contraction/anchored/convex", "q") < radius + 1e-5
    at, count = e, bound("updates/anchored/convex", "count")
    for _ in range(int(count)):
        at = A @ at + d * e / (d + c.sum(1))
    assert abs(at - z).max() <= 1e-6
    assert (
        int(claim("updates/anchored/convex")["observed"]["first"])
        <= count
        <= bound("updates/anchored/convex", "count_plain")
    )


def test_x6_plain_attention_reaches_consensus_and_not_the_map() -> None:
    """The stationary law, the consensus after many steps, and its distance to the MAP."""
    d, e, c, z = field()
    A = (np.diag(d) + c) / (d + c.sum(1))[:, None]
    limit = np.linalg.matrix_power(A, 400) @ e
    assert limit == pytest.approx(bound("identity/consensus/convex", "value"))
    assert bound("margin/consensus/convex", "margin") == pytest.approx(abs(limit - z).max())
    dobrushin = max(abs(A[i] - A[j]).sum() / 2 for i in range(4) for j in range(4))
    assert bound("contraction/consensus/convex", "q") == pytest.approx(dobrushin)


def test_x7_attention_exactly_and_by_both_scales() -> None:
    """Rows of powers of 2; equations (13) and (27) by SciPy."""
    z, Wv = tensor("attention_z"), tensor("attention_Wv")
    found = claim("identity/attention/attention")["witness"]
    assert found["rows"][:2] == [["2/5", "1/5", "2/5"], ["1/5", "2/5", "2/5"]]
    rows = np.exp2(z @ z.T) / np.exp2(z @ z.T).sum(1, keepdims=True)
    assert floats(found["output"]) == pytest.approx(rows @ z @ Wv.T)
    outputs = [softmax(z @ z.T / scale, 1) @ z @ Wv.T for scale in (1, np.sqrt(2))]
    for name, output in zip(("eq13", "eq27"), outputs, strict=True):
        for i, k in np.ndindex(3, 2):
            id = f"enclosure/attention/attention/{name}/entry={i},{k}"
            assert bound(id, "low") == pytest.approx(output[i, k]) == bound(id, "high")
            assert parse(claim(id)["bounds"]["high"]) - parse(claim(id)["bounds"]["low"]) < Fraction(1, 10**50)
    assert bound("margin/attention/attention", "margin") == pytest.approx(abs(outputs[0] - outputs[1]).max())


def test_x8_the_mixture_is_meta_linear_in_both_orders() -> None:
    """The gate 2^(4 R z), the output, and floats in both orders within the bound on their difference."""
    W, R, B, z = (tensor(f"moe_{part}") for part in ("W", "R", "B", "z"))
    gate = np.exp2(4 * R @ z) / np.exp2(4 * R @ z).sum()
    found = claim("identity/gate/moe")["witness"]
    assert floats(found["gate"]) == pytest.approx(gate) and found["gate"][0] == "1/97"
    assert floats(found["output"]) == pytest.approx(gate @ (W @ z + B))
    w = gate.astype(np.float16)
    low, high = (x.astype(np.float16) for x in (W, B)), z.astype(np.float16)
    half_W, half_B = low
    first = w @ (half_W @ high + half_B)
    second = (w[:, None, None] * half_W).sum(0) @ high + w @ half_B
    assert abs(first.astype(float) - second).max() <= bound("enclosure/orders/moe/float16", "high") < 0.1


@pytest.mark.parametrize("gate", ["linear", "identity", "swish", "pswish", "swiglu", "softmax"])
def test_x9_every_gate(gate: str) -> None:
    """The kernel in float64 lies in the enclosure at the point, and at 200 points of the box in that of the box."""
    function = kernels.mixture if gate == "softmax" else getattr(kernels, gate)
    parts = {name.split("_")[1]: tensor(name) for name in demo.state().tensors if name.startswith(f"{gate}_")}
    id = f"enclosure/layer/{gate}/output=0"
    assert bound(id, "low") == pytest.approx(function(**parts)["y"][0, 0]) == bound(id, "high")
    rng = np.random.default_rng(9)
    points = parts["x"] + np.vstack([rng.uniform(-1, 1, (196, 2)), [[1, 1], [1, -1], [-1, 1], [-1, -1]]]) / 8
    outputs = function(**{**parts, "x": points})["y"]
    id = f"enclosure/box/{gate}/output=0"
    assert bound(id, "low") <= outputs.min() and outputs.max() <= bound(id, "high")
    assert bound(id, "high") - bound(id, "low") < 2.5 * np.ptp(outputs)


def test_x9_the_conic_of_the_identity_gate() -> None:
    """x^T W x with W = [[1, 2], [-1, 3]] is elliptic."""
    W = tensor("identity_W")[:, 0]
    assert claim("margin/conic/identity")["parameters"]["conic"] == "elliptic"
    assert bound("margin/conic/identity", "margin") == np.linalg.det((W + W.T) / 2) == 2.75


def test_x10_meta_two_linear_in_every_order_of_contraction() -> None:
    """b, then a, then c as the paper does, and all other orders by einsum."""
    Theta, z = tensor("meta_Theta"), tensor("meta_z")
    expected = floats(claim("identity/meta/meta")["witness"]["output"])
    assert expected == pytest.approx(((Theta @ z) @ z) @ z)
    for letters in permutations("cab"):
        left = np.einsum(f"ocab,{letters[0]}->o" + "".join(x for x in "cab" if x != letters[0]), Theta, z)
        rest = [x for x in "cab" if x != letters[0]]
        left = np.einsum(f"o{''.join(rest)},{letters[1]}->o{letters[2]}", left, z)
        assert expected == pytest.approx(left @ z)
    assert claim("identity/meta/meta")["bounds"]["count"] == "16"


def likelihood(points: Any, low: float, high: float, share: float = 0.5) -> float:
    """Of a mixture of two unit normals."""
    parts = (1 - share) * np.exp(-((points - low) ** 2) / 2) + share * np.exp(-((points - high) ** 2) / 2)
    return float(np.log(parts / np.sqrt(2 * np.pi)).sum())


@pytest.mark.parametrize(("name", "low", "tied"), [("hard", -0.5, 1), ("hard-untied", -0.375, 0)])
def test_x11_hard_em_raises_q_and_lowers_the_likelihood(name: str, low: float, tied: int) -> None:
    """The published inequality fails, with a tie and without."""
    found, x = claim(f"counterexample/hard-em/{name}"), tensor(f"{name}_x")
    assert found["verdict"] == "refuted" and found["parameters"]["tied"] == tied
    assert floats(found["witness"]["means"]).tolist() == [-0.5, 3.0]
    labels = np.array(found["witness"]["labels"])
    old, new = np.array([low, 2.5])[labels], np.array([-0.5, 3.0])[labels]
    assert bound(found["id"], "gain_Q") == pytest.approx((((x - old) ** 2).sum() - ((x - new) ** 2).sum()) / 2)
    assert (
        bound(found["id"], "fall") == pytest.approx(likelihood(x, low, 2.5) - likelihood(x, -0.5, 3.0))
        and bound(found["id"], "fall") > 0.1
    )
    assert found["id"] not in demonstration()[0]["required"]


def test_x12_soft_em_never_falls() -> None:
    """Six steps by NumPy: the least gain of the likelihood."""
    x, share, low, high = tensor("em_x"), 0.5, -1.0, 1.0
    gains = []
    for _ in range(6):
        before = likelihood(x, low, high, share)
        a, b = (1 - share) * np.exp(-((x - low) ** 2) / 2), share * np.exp(-((x - high) ** 2) / 2)
        r = b / (a + b)
        share, low, high = r.mean(), ((1 - r) @ x) / (1 - r).sum(), (r @ x) / r.sum()
        gains.append(likelihood(x, low, high, share) - before)
    assert bound("order/em/em", "gap") == pytest.approx(min(gains), rel=1e-6) and min(gains) > 0
    assert bound("identity/em/em", "radius") < 1e-50


def test_x13_bayes_accuracy_at_distance_3_2() -> None:
    """Phi(1.6)."""
    assert bound("enclosure/bayes/lda", "low") == pytest.approx(ndtr(1.6), abs=1e-15)
    ends = [parse(claim("enclosure/bayes/lda")["bounds"][name]) for name in ("low", "high")]
    assert 0 < ends[1] - ends[0] < Fraction(1, 10**50)


def test_x14_the_discriminant_and_its_signs() -> None:
    """By numpy.linalg, at the twelve points."""
    Sigma, m0, delta, x = (tensor(f"lda_{part}") for part in ("Sigma", "m0", "delta", "x"))
    w = np.linalg.solve(Sigma, delta)
    scores = x @ w - (2 * m0 + delta) @ w / 2
    assert floats(claim("identity/lda/lda")["witness"]["w"]) == pytest.approx(w)
    assert claim("margin/lda/lda")["witness"]["positive"] == (scores > 0).astype(int).tolist()
    assert bound("margin/lda/lda", "margin") == pytest.approx(abs(scores).min())
    assert bound("identity/lda/lda", "square") == pytest.approx(3.2**2)


def test_x15_no_linear_rule_comes_near_the_quadratic_one() -> None:
    """200 000 linear rules by SciPy stay below the bound, and the best of them within the slack of it."""
    m0, m1 = tensor("rule_m0"), tensor("rule_m1")
    rng = np.random.default_rng(15)
    angle, t = rng.uniform(0, 2 * np.pi, 200_000), rng.uniform(-25, 25, 200_000)
    u = np.stack([np.cos(angle), np.sin(angle)])
    accuracy = (ndtr(m1 @ u + t).sum(0) + ndtr(-(m0 @ u) - t).sum(0)) / 4
    top = bound("margin/rule/rule", "linear")
    assert top - 0.02 < accuracy.max() <= top
    points = np.concatenate([rng.standard_normal((10**5, 2)) + m for m in (*m0, *m1)])
    right = ((points[:, 0] * (5 - points[:, 1]) > 0) == np.repeat([False, False, True, True], 10**5)).mean()
    assert bound("margin/rule/rule", "quadratic") == pytest.approx(right, abs=5e-3)
    assert 0.2 < bound("margin/rule/rule", "margin") <= bound("margin/rule/rule", "quadratic") - top + 1e-9


@pytest.mark.parametrize("name", ["linkage", "linkage-flip", "linkage-flip-2"])
def test_x16_the_merges_are_those_of_scipy(name: str) -> None:
    """Clusters by their least members, from scipy.cluster.hierarchy."""
    z = tensor(f"{name}_z")
    members = {i: {i} for i in range(len(z))}
    expected = []
    for k, (a, b, _, _) in enumerate(linkage(z, "single", metric="cosine")):
        left, right = members[int(a)], members[int(b)]
        expected.append(sorted([min(left), min(right)]))
        members[len(z) + k] = left | right
    assert claim(f"order/merges/{name}")["witness"]["merges"] == expected
    assert claim(f"order/merges/{name}/float64")["verdict"] == "certified"


@pytest.mark.parametrize("name", ["linkage-flip", "linkage-flip-2"])
def test_x17_float16_flips_the_first_merge_and_is_undecided(name: str) -> None:
    """NumPy's similarities in float16 have another largest pair; the claim in float16 says that rounding may do so."""
    z = tensor(f"{name}_z")
    pairs = {
        dtype: kernels.cosines(z.astype(dtype))["S"][np.triu_indices(3, 1)].argmax() for dtype in ("float16", "float64")
    }
    assert pairs["float16"] != pairs["float64"]
    found = claim(f"order/merges/{name}/float16")
    assert found["verdict"] == "undecided" and "may flip" in found["reason"]


def test_x18_anchored_softmax_attention_arrives_within_its_counts() -> None:
    """q = 3/4; the fixed point by NumPy lies in the enclosures; the sharper counts are enough and not below those seen."""
    e = tensor("anchor_e")
    assert claim("contraction/anchor/anchor")["bounds"]["q"] == "0x3p-2"
    z, seen = e, []
    for _ in range(200):
        seen.append(z)
        z = 0.5 * softmax(np.outer(z, z) / 4, 1) @ z + 0.5 * e
    for i in range(3):
        assert bound(f"enclosure/anchor/anchor/entry={i}", "low") == pytest.approx(z[i], abs=1e-14)
    for digits in (3, 6, 12):
        count, local = (
            int(bound(f"updates/{name}/anchor/digits={digits}", "count")) for name in ("anchor", "anchor-local")
        )
        first = int(claim(f"updates/anchor/anchor/digits={digits}")["observed"]["first"])
        assert first <= local < count
        assert abs(seen[local] - z).max() <= 10.0**-digits


def test_s12_the_cell_is_that_of_torch() -> None:
    """One LSTM cell against torch.nn.LSTMCell, whose gates stand in the same order."""
    if torch() is None:
        pytest.skip("needs torch")
    x, h, c, W, U, b = (tensor(f"lstm_{part}") for part in ("x", "h", "c", "W", "U", "b"))
    cell = torch().nn.LSTMCell(2, 3).double()
    with torch().no_grad():
        for name, value in {"weight_ih": W, "weight_hh": U, "bias_ih": b, "bias_hh": 0 * b}.items():
            getattr(cell, name).copy_(torch().from_numpy(value))
        new_h, new_c = cell(
            *(torch().from_numpy(v)[None] for v in (x,)), tuple(torch().from_numpy(v)[None] for v in (h, c))
        )
    found = kernels.lstm(x, h, c, W, U, b)
    assert found["h"] == pytest.approx(new_h[0].numpy()) and found["c"] == pytest.approx(new_c[0].numpy())


def test_s12_the_selective_step_is_its_formula() -> None:
    """Softplus step size, decay and input scaled by it, entry by entry."""
    x, h, A, B, C, w = (tensor(f"ssm_{part}") for part in ("x", "h", "A", "B", "C", "w"))
    step = np.log1p(np.exp(w @ x))
    new = [np.exp(step * A[n]) * h[n] + step * (B[n] @ x) * x[0] for n in range(3)]
    found = kernels.ssm(x, h, A, B, C, w)
    assert found["h"] == pytest.approx(new) and found["y"] == pytest.approx(sum((C @ x) * new))
