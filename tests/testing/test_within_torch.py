"""Real torch kernels in bfloat16 and float16 never leave their proved bound, and planted bugs do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import real_layers
from real_layers import attention, attention_inputs, layer_norm_rotary, norm_inputs, rounded
from real_matmul import batch, matmul

from certify.testing import assert_within, compare_within

torch: Any = pytest.importorskip("torch", reason="needs torch, which only these tests use")

USUAL = {"bfloat16": (1e-5, 1.6e-2), "float16": (1e-5, 1e-3)}  # atol, rtol of torch.testing.assert_close
RUNS = [pytest.param(500, id="500"), pytest.param(10_000, id="10000", marks=pytest.mark.slow)]
SUMS = "any-order:float32"  # what the products of these dtypes are added in


@pytest.fixture(autouse=True, params=[1, 2], ids=["1thread", "2threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Torch with one thread and with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def tensors(inputs: dict[str, np.ndarray], name: str) -> dict[str, Any]:
    """The inputs, which are numbers of the format, as tensors of its dtype."""
    return {key: torch.tensor(x).to(getattr(torch, name)) for key, x in inputs.items()}


def layers(kind: str, name: str, runs: int) -> Iterator[tuple[dict[str, np.ndarray], Any, Callable[..., Any]]]:
    """Inputs, what torch makes of them, and the kernel; `runs` runs in all."""
    for seed in range(runs // 250 if kind != "attention" else runs // real_layers.HEADS):
        if kind == "layer norm + rotary":
            inputs, kernel = norm_inputs(seed, 250, name), layer_norm_rotary
            yield inputs, real_layers.layer_norm_rotary_torch(torch, **tensors(inputs, name)), kernel
        elif kind == "attention":
            inputs, kernel = attention_inputs(seed, format=name), attention
            yield inputs, real_layers.attention_torch(torch, **tensors(inputs, name)), kernel
        else:
            inputs, kernel = rounded(batch(seed, (64, 96, 128)[seed % 3]), name), matmul
            yield inputs, torch.bmm(*tensors(inputs, name).values()), kernel


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("kind", ["layer norm + rotary", "attention", "matmul"])
def test_kernels_stay_within_their_bound(kind: str, name: str, runs: int) -> None:
    """No run leaves its bound; some come near; the usual tolerance fails many of them."""
    share, atol, usual = 0.0, 0.0, 0
    for inputs, actual, kernel in layers(kind, name, runs):
        found = compare_within(actual, kernel, inputs, format=name, order=SUMS)
        assert found.passed
        share, atol = max(share, float(found.share("0").max())), max(atol, float(found.bound["0"].max()))
        exact, given = kernel(**inputs), actual.double().numpy()
        far = np.abs(given - exact) > USUAL[name][0] + USUAL[name][1] * np.abs(exact)
        usual += int(far.reshape(len(far), -1).any(axis=1).sum())
    print(f"{kind} in {name}, {runs} runs: largest share of the bound {share:.2f}, proved atol {atol:.1e};")
    print(f"usual atol {USUAL[name][0]:.0e}, rtol {USUAL[name][1]:.1e}: {usual} of these correct runs fail it")
    assert 0.1 < share < 1


def _without_the_last_key(q: Any, k: Any, v: Any) -> Any:
    p = torch.softmax(q @ k[:, :-1].transpose(-1, -2) * 0.25, -1)
    return p @ v[:, :-1]


def _values_of_the_next_key(q: Any, k: Any, v: Any) -> Any:
    return real_layers.attention_torch(torch, q, k, v.roll(1, dims=1))


def _halves_exchanged(x: Any, w: Any, b: Any, cos: Any, sin: Any) -> Any:
    return real_layers.layer_norm_rotary_torch(torch, x, w, b, sin, cos)


def _mean_without_the_last(x: Any, w: Any, b: Any, cos: Any, sin: Any) -> Any:
    return real_layers.layer_norm_rotary_torch(torch, x, w, b, cos, sin, last=-1)


def _sum_in_bfloat16(x: Any) -> Any:
    """Of the last axis, from left to right, every sum rounded to bfloat16."""
    total = x[..., 0].bfloat16()
    for k in range(1, x.shape[-1]):
        total = total + x[..., k].bfloat16()
    return total.to(x.dtype)


def _attention_added_in_bfloat16(q: Any, k: Any, v: Any) -> Any:
    s = _sum_in_bfloat16(q[:, :, None, :].float() * k[:, None, :, :].float()).to(q.dtype) * 0.25
    p = torch.exp(s - s.max(-1, keepdim=True).values)
    a = p / _sum_in_bfloat16(p)[..., None]
    return _sum_in_bfloat16(a[:, :, None, :].float() * v.transpose(-1, -2)[:, None, :, :].float()).to(q.dtype)


def _norm_added_in_bfloat16(x: Any, w: Any, b: Any, cos: Any, sin: Any) -> Any:
    n = x.shape[-1]
    c = x - (_sum_in_bfloat16(x) / n)[:, None]
    n = c / torch.sqrt((_sum_in_bfloat16(c * c) / n)[:, None] + 2.0**-16)
    y = n * w + b
    left, right = y[:, : real_layers.WIDTH // 2], y[:, real_layers.WIDTH // 2 :]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=1)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(
    ("bug", "kind"),
    [
        (_attention_added_in_bfloat16, "attention"),
        (_norm_added_in_bfloat16, "layer norm + rotary"),
        (_without_the_last_key, "attention"),
        (_values_of_the_next_key, "attention"),
        (_halves_exchanged, "layer norm + rotary"),
        (_mean_without_the_last, "layer norm + rotary"),
    ],
)
def test_planted_bugs_fail(bug: Callable[..., Any], kind: str, runs: int) -> None:
    """Every run whose error, by an independent measure, exceeds the bound fails."""
    name = "float16" if kind == "attention" else "bfloat16"
    wrong = caught = total = 0
    for inputs, correct, kernel in layers(kind, name, runs):
        found = compare_within(bug(**tensors(inputs, name)), kernel, inputs, format=name, order=SUMS)
        n = len(correct)
        off = np.abs(bug(**tensors(inputs, name)).double().numpy() - kernel(**inputs))
        exceeds = (off > found.bound["0"] * (1 + 1e-6)).reshape(n, -1).any(axis=1)
        failed = ~found.inside["0"].reshape(n, -1).all(axis=1)
        assert not (exceeds & ~failed).any()
        wrong, caught, total = wrong + int(exceeds.sum()), caught + int(failed.sum()), total + n
    print(f"{bug.__name__} in {name}: {caught} of {total} runs fail, {wrong} of them beyond the bound")
    assert caught >= 0.99 * wrong > 0


def test_a_bfloat16_accumulator_fails() -> None:
    """The products of bfloat16 added in bfloat16, which their bound in float32 does not allow."""
    from real_matmul import bfloat16_sums

    inputs = rounded(batch(1, 128), "bfloat16")
    found = compare_within(bfloat16_sums(**inputs), matmul, inputs, format="bfloat16", order=SUMS)
    assert (~found.inside["0"].all(axis=(1, 2))).mean() > 0.99


def test_tensors_are_taken_as_they_are() -> None:
    """Inputs and results as tensors, with a gradient, in bfloat16: read exactly."""
    inputs = {key: x.requires_grad_() for key, x in tensors(norm_inputs(0, 3), "bfloat16").items()}
    actual = real_layers.layer_norm_rotary_torch(torch, **inputs)
    found = assert_within(actual, layer_norm_rotary, inputs, format="bfloat16", order=SUMS)
    again = compare_within(
        actual.detach().double().numpy(), layer_norm_rotary, norm_inputs(0, 3), format="bfloat16", order=SUMS
    )
    assert np.array_equal(found.error["0"], again.error["0"]) and np.array_equal(found.bound["0"], again.bound["0"])
    with pytest.raises(AssertionError, match=r"element \[0, 0\] is inf from the exact"):
        assert_within(actual * float("nan"), layer_norm_rotary, inputs, format="bfloat16", order=SUMS)
