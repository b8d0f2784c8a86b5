"""Tuning on the states of the demo: a third of the bits of float32, programs inside their bounds, reports that check."""

from __future__ import annotations

import numpy as np
import pytest
from certify.cases import case_named
from certify.cases.kernel import tuned

from certify.arithmetic import BINARY32, BINARY64
from certify.arithmetic.directed import relaxed_up
from certify.checker import check
from certify.rounding import running, tune
from certify.rounding.batch import computed_batch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo():
    """The case and its states."""
    case = case_named("polyprox")
    return case, case.demo(lambda done, total, what: None)[0]


@pytest.mark.parametrize("state", range(3))
def test_a_third_of_the_bits(demo, state, tmp_path):
    """At the state, W within 1e-3; the checker proves every claim of the report."""
    case, saved = demo
    kernel, _, name = case.kernel(saved, state, "serial")
    made = tuned(kernel, {name: 1e-3})
    assert made.found.saved >= 1 / 3
    assert made.found.least <= made.found.cost
    made.report.write(tmp_path / "r.json")
    (inputs,) = tmp_path.glob("inputs-*")
    found = check((tmp_path / "r.json").read_bytes(), inputs.read_bytes(), lambda file: (tmp_path / file).read_bytes())
    assert {finding.verdict for finding in found} == {"certified"}


@pytest.mark.parametrize("state", range(3))
def test_a_thousand_runs(demo, state):
    """On the ball of radius 0.01: every entry of W is within its bound of the exact one, in each of 1,000 runs."""
    case, saved = demo
    kernel, center, name = case.kernel(saved, state, "serial")
    region = kernel.region(center, 0.01)[1]
    found = tune(kernel.graph, region, {name: 1e-3})
    rng = np.random.default_rng(state)
    support = next(block.support for block in kernel.graph.inputs if block.name == center)
    trials = []
    for _ in range(1000):
        step = rng.standard_normal(support.shape) * support
        step *= 0.00999 * rng.random() / np.linalg.norm(step)
        trials.append({**kernel.inputs, center: kernel.inputs[center] + step})
    off = running(kernel.graph, BINARY64, region).error_of(name)  # of the binary64 program from the exact one
    bound = found.bounds.error_of(name)
    assert (off < 1e-6 * bound + 1e-12).all()
    runs = zip(
        computed_batch(found.graph, found.format, trials, (name,)),
        computed_batch(kernel.graph, BINARY64, trials, (name,)),
        strict=True,
    )
    for ours, exact in runs:
        assert (np.abs(ours[name] - exact[name]) <= bound + off).all()


@pytest.mark.parametrize("state", range(3))
def test_where_a_third_cannot_be_saved(demo, state):
    """At the tolerance that uniform float32 just certifies, no program that running bounds certify saves a third: proved."""
    case, saved = demo
    kernel, _, name = case.kernel(saved, state, "serial")
    region = kernel.region(None, 0.0)[1]
    just = relaxed_up(running(kernel.graph, BINARY32, region).norm_of(name))
    found = tune(kernel.graph, region, {name: just}, formats=("float16", "bfloat16", "float32"))
    assert 0.2 < found.saved <= found.most < 0.27
