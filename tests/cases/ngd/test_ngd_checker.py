"""The checker proves every claim of the case again, and none that a bug of the producer or an altered report spoils."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certify.cases.ngd import (
    balls,
    batch,
    case,
    corpus,
    depth,
    equalities,
    lemma,
    margins,
    population,
    separation,
    trained,
)
from certify.cases.ngd.case import CASE
from flint import arb
from ngd_states import OPTIONS, Report, findings, healthy, only, report_on, small

from certify.certificate import parse, to_text
from certify.checker import Rejected, check
from certify.states import Saved

Plant = Callable[[pytest.MonkeyPatch], object]


def test_every_claim_is_proved_again() -> None:
    """Certified here means certified there; of each kind of claim there is one, and only comparisons are left undecided."""
    report, state, files = healthy()
    found = findings(report, state, files)
    assert report["verdict"] == "certified"
    assert all(x.verdict == x.claimed for x in found.values())
    undecided = [x for x in found.values() if x.verdict == "undecided"]
    assert all("/majorant" in x.id or "/depth/float16" in x.id for x in undecided)
    from certify.checker.cases.ngd import CHECKS

    assert {"/".join(x.split("/")[:2]) for x in found} >= set(CHECKS)


@pytest.mark.slow
def test_the_demo_is_proved_again() -> None:
    """All of what `certify demo ngd` shows."""
    saved, _ = CASE.demo(lambda done, total, what: None)
    report, state, files = report_on(saved, CASE.demo_options)
    found = findings(report, state, files)
    assert report["verdict"] == "certified" and len(found) > 180
    assert all(x.verdict == x.claimed for x in found.values())


def instead(place: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """A function is replaced by one made of it."""
    return lambda patch: patch.setattr(place, name, make(getattr(place, name)))


def any_support(patch: pytest.MonkeyPatch) -> None:
    """A support is taken whose separator leaves an example with less margin."""
    patch.setattr(margins, "_guesses", lambda context: [[0, 1]])
    good = margins._solved
    patch.setattr(margins, "_solved", lambda context, support: _loose(good, context, support))


def _loose(good: Any, context: Any, support: list[int]) -> Any:
    """The separator of the support alone."""
    from dataclasses import replace

    rows = [context.Z[i] for i in support]
    found = good(replace(context, Z=rows), list(range(len(rows))))
    return replace(found, support=tuple(support))


def kernel(change: Callable[..., Any]) -> Plant:
    """The kernel calls its layer with other arguments; the claim that it is one is made of the right code."""
    return instead(case, "layer", lambda good: lambda Z, t, C1, C2: good(*change(Z, t, C1, C2)))


def teacher(scale: float) -> Plant:
    """The coefficient of the teacher on theta* is off by a factor."""

    def make(good: Any) -> Any:
        def bad(self: Any, x: Any, k: Any) -> Any:
            c, (*rest, (p, q)) = good(self, x, k)
            return c, [*rest, (p, q * scale)]

        return bad

    return instead(population.Population, "_at", make)


def shorter(good: Any) -> Any:
    """A matrix of rows becomes one whose last row is 0."""
    return lambda *a: good(*a) if len(a) > 1 else good([*a[0][:-1], [0] * len(a[0][0])])


#: what is wrong, how, and the start of the ids that show it
BUGS: list[tuple[str, Plant, str]] = [
    ("a wrong step size in the kernel", kernel(lambda Z, t, C1, C2: (Z, t, 1.0, C2)), "identity/program"),
    ("the last example dropped", kernel(lambda Z, t, C1, C2: (Z[:-1], t, C1, C2)), "identity/program"),
    ("the kernel ascends", kernel(lambda Z, t, C1, C2: (Z, t, C1, -C2)), "identity/program"),
    ("no mask", kernel(lambda Z, t, C1, C2: (np.concatenate([Z, 0 * Z[:1]]), t, C1, C2)), "identity/program"),
    ("depth of another kernel", kernel(lambda Z, t, C1, C2: (Z, t, C1 / 2, C2)), "enclosure/depth/float32"),
    ("errors are not added", instead(depth, "growth", lambda good: lambda c: Fraction(0)), "enclosure/depth/float32"),
    ("twice the margin", instead(balls, "mask_matters", lambda good: lambda c: 2 * good(c)), "margin/mask"),
    ("a support that is none", any_support, "margin/max-margin"),
    ("descent without the last example", instead(margins, "arb_mat", shorter), "enclosure/angle"),
    ("ln n forgotten", instead(separation, "_deficit", lambda good: lambda c: good(c) - arb(c.n).log()), "margin/rate"),
    ("half the layers predicted", instead(separation, "_deficit", lambda good: lambda c: good(c) / 2), "order/count"),
    ("counted from one", instead(margins, "within", lambda good: lambda d, eps: good(d, eps)[1:]), "order/count"),
    (
        "a wrong index",
        instead(margins, "apart", lambda f: lambda a, b: f(a[::-1], b)),
        "enclosure/decomposition",
    ),
    (
        "no mask in the trained layers",
        instead(trained, "attended", lambda f: lambda *a: f(*a, masked=False)),
        "enclosure/trained",
    ),
    ("twice the input", instead(trained, "embedding", lambda f: lambda c: f(c) * 2), "enclosure/trained"),
    ("a sign of the teacher", teacher(-1.0), "enclosure/zero"),
    ("the teacher off by 2^-20", teacher(1 + 2.0**-20), "enclosure/minimiser"),
    ("twice the eigenvalue", instead(batch, "relaxed_down", lambda f: lambda x: 2 * f(x)), "enclosure/batch-minimiser"),
    (
        "a factor too small",
        instead(batch, "relaxed_up", lambda f: lambda x: f(x) - 2.0**-9),
        "enclosure/batch-minimiser",
    ),
]


@pytest.mark.parametrize(("what", "plant", "start"), BUGS, ids=[what for what, *_ in BUGS])
def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch, what: str, plant: Plant, start: str) -> None:
    """The claims that it spoils are rejected."""
    saved = narrowed(start)
    plant(monkeypatch)
    report, state, files = report_on(saved)
    monkeypatch.undo()
    wanted = (start, "margin/max-margin", "rounding/float32/any-order/point/kernel")
    report = only(report, lambda id: id.startswith(wanted))
    found = findings(report, state, files)
    hit = [x for x in found.values() if x.id.startswith(start)]
    assert any(x.verdict == "rejected" for x in hit), [(x.id, x.verdict, x.sentence) for x in hit]


def narrowed(start: str) -> Saved:
    """Of the small state, one context and what the claims of this start are about."""
    keep = {
        "enclosure/zero": ["closed"],
        "enclosure/minimiser": ["population"],
        "enclosure/batch-minimiser": ["batch", "batch_theta", "batch_denominator"],
    }.get(start, ["accuracies"])
    layers = start.startswith(("identity", "enclosure/depth", "margin/mask"))
    name = "layers" if layers else "trained" if start == "enclosure/trained" else "steps"
    good = small()
    tensors = {k: v for k, v in good.tensors.items() if k.endswith(f".{name}") or k in keep}
    return Saved(tensors, {k: v for k, v in good.metadata.items() if k.endswith(f".{name}") or k.startswith("batch")})


@pytest.mark.parametrize("key", ["statement", "theorem", "semantics", "id", "assumptions"])
def test_other_words_are_rejected(key: str) -> None:
    """Of claims of every kind that is quick to check."""
    report, state, files = healthy()
    starts = (
        "identity/step",
        "identity/program",
        "identity/layers",
        "identity/scaling",
        "margin/mask",
        "margin/max-margin",
    )
    for claim in only(report, lambda id: id.startswith(starts))["claims"]:
        spoiled = copy.deepcopy(claim)
        changes = {"semantics": "any-order", "assumptions": ["more"], "id": claim["id"] + "/more"}
        spoiled[key] = changes[key] if key in changes else claim[key] + " Or not."
        altered = only(report, lambda id, name=claim["id"]: id == name) | {"claims": [spoiled]}
        (found,) = check(json.dumps(altered).encode(), state, files)
        assert found.verdict in ("rejected", "undecided") and found.verdict != found.claimed


def tightened(name: str, value: Fraction) -> list[Fraction]:
    """What cannot be proved of a quantity of which `value` is a bound to the last bit."""
    half = abs(value) / 2
    if name.endswith(("high", "most")):
        return [value - half, -abs(value) - 1]
    lower = [value + half, abs(value) + 1]
    exact = name in ("squared", "attained", "settled", "predicted")
    return [*lower, value - half] if exact else lower


def test_no_bound_is_tighter_than_it_is() -> None:
    """Every number of the claims that are quick to check, moved to the unsafe side by a little and by a lot."""
    report, state, files = healthy()
    starts = (
        "margin",
        "enclosure/angle",
        "enclosure/decomposition",
        "order",
        "enclosure/structure",
        "enclosure/trained",
    )
    claims = only(report, lambda id: id.startswith(starts))
    supports = [c for c in claims["claims"] if c["id"].startswith("margin/max-margin")]
    tried = 0
    for claim in claims["claims"]:
        for name, text in claim["bounds"].items():
            for value in tightened(name, parse(text)):
                spoiled = copy.deepcopy(claim)
                spoiled["bounds"][name], spoiled["display"] = to_text(value), {}
                rest = [c for c in supports if c["id"] != claim["id"]]
                found = findings({**claims, "claims": [spoiled, *rest]}, state, files)
                assert found[claim["id"]].verdict == "rejected", (claim["id"], name, text)
                tried += 1
    assert tried > 100


def test_a_state_that_is_none_is_refused() -> None:
    """Another tensor, a missing one, or a control that the state does not need."""
    report, _, files = healthy()
    from certify.states.digest import digest
    from certify.states.safetensors_file import encode_safetensors

    for change in (
        lambda t, m: t.update(other=np.ones(2)),
        lambda t, m: t.pop("theta.steps"),
        lambda t, m: t.update({"star.more": np.ones(3)}),
        lambda t, m: m.update({"C1.steps": "-1/4"}),
        lambda t, m: m.update({"layers.layers": "1/2"}),
    ):
        tensors, metadata = dict(small().tensors), dict(small().metadata)
        change(tensors, metadata)
        spoiled: Report = copy.deepcopy(report)
        spoiled["subject"]["tensors"] = {name: digest(x) for name, x in tensors.items()}
        spoiled["subject"]["controls"] = {k: metadata[k] for k in spoiled["subject"]["controls"]}
        with pytest.raises(Rejected):
            check(json.dumps(spoiled).encode(), encode_safetensors(tensors, metadata), files)


def test_options_of_a_run_are_used() -> None:
    """A format and an order that are named, and no ball without a radius."""
    from dataclasses import replace

    saved = corpus.context("a", corpus.dataset(4, 2, 0), (1, 1), C1="1/4", layers=2)
    made = CASE.certify(saved, replace(OPTIONS, formats=("bfloat16",), order="serial", radius=0.0), lambda *a: None)
    rounding = [c.id for c in made.claims if c.kind in ("rounding", "range")]
    assert rounding and all(id.split("/")[1:4] == ["bfloat16", "serial", "point"] for id in rounding)
    assert equalities.MOST_SYMBOLS >= 80 and lemma.MOST_DIMENSIONS == 3
