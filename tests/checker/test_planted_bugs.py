"""A bug planted in a module of the producer changes the report on the demo's own state, and the checker rejects that report.

Each bug makes a bound smaller, an enclosure narrower or a proof shorter than it is; the table at the end lists the modules.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from certify.cases import claims as program_claims
from certify.cases.case import Options
from certify.cases.polyprox import State, case, certificates, saved_from, states_from
from certify.cases.polyprox.case import CASE
from certify.cases.polyprox.stage import hessian, prediction, problem, refutation
from checker_reports import Report, alone, no_files

from certify.arithmetic import Format
from certify.certificate import encode
from certify.checker import Rejected, check
from certify.contraction import fixed_stage
from certify.graph import chains
from certify.rounding import bounds, local
from certify.rounding.batch import _Batch
from certify.rounding.majorant import Majorant
from certify.rounding.running import Running
from certify.states.safetensors_file import encode_safetensors

Plant = Callable[[pytest.MonkeyPatch], object]
ERROR = local.ERROR
ROUNDING = {"update_tol": 1e-3, "formats": ("float32",), "samples": 0}
STAGE = {"formats": ("float64",), "methods": ("face",), "samples": 0, "radius": 0.0}


@cache
def demo(k: int) -> State:
    """A state of the demo: early, middle, late; p = 11."""
    return states_from(CASE.demo(lambda done, total, what: None)[0])[k]


def report_on(k: int, options: dict[str, Any]) -> tuple[Report, bytes]:
    """What the demo's pipeline reports on one of its states, and the state file."""
    saved = saved_from(demo(k))
    report = CASE.certify(saved, Options(**options), lambda done, total, what: None)
    return json.loads(encode(report)), encode_safetensors(saved.tensors, saved.metadata)


@cache
def healthy(k: int, stage: bool) -> tuple[Report, bytes]:
    """The report without a bug."""
    return report_on(k, STAGE if stage else ROUNDING)


def forgetting(method: str, operand: int) -> Plant:
    """The running analysis forgets the error that one operand carries."""
    good = getattr(Running, method)

    def bad(self: Any, *operands: Any) -> Any:
        spoiled = [np.asarray(x).copy() for x in operands]
        spoiled[operand][ERROR] = 0.0
        return good(self, *spoiled)

    return lambda patch: patch.setattr(Running, method, bad)


def instead(place: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """A function is replaced by one made of it."""
    return lambda patch: patch.setattr(place, name, make(getattr(place, name)))


def outcome(change: Callable[[Any], dict[str, Any]]) -> Plant:
    """The fixed-stage theorem returns something else."""
    return instead(problem, "fixed_stage", lambda good: lambda stage: replace(good(stage), **change(good(stage))))


def narrower(good: Any) -> Any:
    """A ball of half the radius."""
    return lambda inputs, center, radius: good(inputs, center, radius / 2)


def small_cubes(patch: pytest.MonkeyPatch) -> None:
    """A fixed point is found in any cube, however small."""
    good, radii = refutation.newton_kantorovich, refutation._radii
    patch.setattr(refutation, "_radii", lambda *args: [x * 2.0**-40 for x in radii(*args)])
    patch.setattr(refutation, "newton_kantorovich", lambda *args: replace(good(*args), reason=""))


def shallow(good: Any) -> Any:
    """A block with one squaring less in each pass."""
    return lambda W, Sigma, M, alpha, rho, gamma, lam, b, N: good(W, Sigma, M, alpha, rho, gamma, lam, b, N // 2)


#: module, what is wrong in it, how, and the demo's state that shows it
BUGS: list[tuple[str, str, Plant, int]] = [
    ("arithmetic.formats", "u of one bit more", lambda p: p.setattr(Format, "u", property(lambda f: 2.0**-f.precision / 2)), 2),
    ("rounding.running", "a sum forgets an operand's error", forgetting("add", 1), 2),
    ("rounding.running", "a product forgets an operand's error", forgetting("mul", 0), 2),
    ("rounding.running", "the wrong end for the magnitude", lambda p: p.setattr(
        sys.modules["certify.rounding.running"], "magnitude", lambda a: np.minimum(np.abs(a[0]), np.abs(a[1]))), 2),
    ("rounding.running", "inputs are converted without error", instead(Running, "enclose", lambda good:
        lambda self, low, high: good(self, low, high) * np.array([1, 1, 0]).reshape(3, *[1] * np.ndim(low))), 2),
    ("rounding.batch", "magnitudes not noted", lambda p: p.setattr(_Batch, "note", lambda self, m: None), 2),
    ("rounding.local", "half of half an ulp", instead(
        local.Local, "_half_ulp", lambda good: lambda self, m: good(self, m) / 2), 2),
    ("rounding.bounds", "the largest entry for the norm", lambda p: p.setattr(
        bounds, "norm_up", lambda entries: float(np.abs(entries).max())), 2),
    ("rounding.region", "half the radius", instead(certificates, "ball", narrower), 2),
    ("rounding.majorant", "sums forget the errors of their terms", instead(Majorant, "_total", lambda good:
        lambda self, size, carried, live, k, terms: good(self, size, carried * 0, live, k, terms)), 2),
    ("graph.chains", "a term dropped", instead(chains, "total", lambda good:
        lambda order, arithmetic, terms, n, lanes: good(order, arithmetic, terms, max(n - 1, 1), lanes)), 2),
    ("cases.polyprox.block", "a layer missing", instead(certificates, "block", shallow), 2),
    ("cases.claims", "published below the bound", lambda p: p.setattr(
        program_claims, "relaxed_up", lambda x: x * (1 - 2.0**-20)), 2),
    ("certificate.numbers", "decimals rounded down", lambda p: p.setattr(
        program_claims, "decimal_up", lambda x, digits=3: f"{float(x) * 0.995:.2e}"), 2),
    ("states.digest", "of another array", instead(case, "digest", lambda good: lambda array: good(array.T.copy())), 2),
    ("cases.polyprox.stage.refutation", "a quotient too large", instead(refutation, "rayleigh_lower", lambda good:
        lambda mid, rad, v: good(mid, rad, v) * 1.001), 1),
    ("contraction.fixed_point", "a cube too small", small_cubes, 1),
    ("contraction.fixed_stage", "q of one end only", lambda p: p.setattr(
        fixed_stage, "contraction_constant", lambda mu, L, gamma: abs(1 - gamma * float(L))), 0),
    ("contraction.witness", "a wrong sign of the defect", instead(problem, "_ends", lambda good:
        lambda K: (good(K)[0] * 1.05, good(K)[1])), 0),
    ("cases.polyprox.stage.problem", "a centre said to be fixed", lambda p: p.setattr(problem.Problem, "d", 0.0), 0),
    ("cases.polyprox.stage.variation", "the Hessian said to be constant", lambda p: p.setattr(
        problem, "relative_variation", lambda over, at, rho, frame: 0.0), 0),
]  # fmt: skip
#: A check of the stage's larger claims takes ten seconds and more.
SLOW: list[tuple[str, str, Plant, int]] = [
    ("contraction.fixed_stage", "a floor without 1 / (1 - q)", outcome(lambda o: {"floor": o.stage.eps}), 0),
    ("cases.polyprox.stage.problem", "rounding at the centre only", instead(
        problem.Problem, "eps", lambda good: lambda self, radius: good(self, 0.0)), 0),
    ("cases.polyprox.stage.hessian", "a term missing", instead(hessian, "_curvature", lambda good:
        lambda *args: good(*args).scaled(-1)), 0),
    ("cases.polyprox.stage.prediction", "half the distance", instead(
        prediction, "distance", lambda good: lambda W, U: good(W, U) / 2), 0),
    ("contraction.modal", "half the count", instead(prediction, "predict", lambda good:
        lambda *args, **more: (lambda x: replace(x, modal=x.modal // 2))(good(*args, **more))), 0),
]  # fmt: skip


def caught(patch: pytest.MonkeyPatch, plant: Plant, k: int) -> None:
    """The report changes, and one of its claims, or the whole, is rejected."""
    stage = k != 2
    good, _ = healthy(k, stage)
    plant(patch)
    report, state = report_on(k, STAGE if stage else ROUNDING)
    patch.undo()
    before = {c["id"]: c for c in good["claims"]}
    parts = ("bounds", "display", "parameters", "verdict", "statement")
    changed = [c["id"] for c in report["claims"] if any(c[x] != before[c["id"]][x] for x in parts)]
    assert changed or report["subject"] != good["subject"]
    # of the stage only the first claim that changed: others rest on it
    whole = not stage or not changed[0].startswith("contraction")
    spoiled = report if whole else alone(report, changed[0])
    try:
        found = check(json.dumps(spoiled).encode(), state, no_files)
    except Rejected as error:
        assert "digest" in str(error)
        return
    rejected = [f.id for f in found if f.verdict == "rejected"]
    assert set(rejected) & set(changed), [(f.id, f.sentence) for f in found]


@pytest.mark.parametrize(("module", "what", "plant", "k"), BUGS, ids=[f"{m}: {w}" for m, w, _, _ in BUGS])
def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch, module: str, what: str, plant: Plant, k: int) -> None:
    """On a report about a state of the demo."""
    caught(monkeypatch, plant, k)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "what", "plant", "k"), SLOW, ids=[f"{m}: {w}" for m, w, _, _ in SLOW])
def test_a_planted_bug_in_a_stage_is_caught(
    monkeypatch: pytest.MonkeyPatch, module: str, what: str, plant: Plant, k: int
) -> None:
    """As above, in what takes longer to check."""
    caught(monkeypatch, plant, k)


@pytest.mark.parametrize(("k", "stage"), [(2, False), (1, True)])
def test_without_a_bug_all_is_proved(k: int, stage: bool) -> None:
    """Otherwise the tests above would not say what they say."""
    report, state = healthy(k, stage)
    assert all(f.verdict == f.claimed for f in check(json.dumps(report).encode(), state, no_files))


def test_ten_modules_and_more() -> None:
    """Of the producer, counted by name."""
    assert len({module for module, *_ in BUGS}) >= 10
