"""Bugs planted in the producer, and numbers, words and witnesses that are altered: the checker rejects every one."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import pytest
from certify.cases.meta_models import (  # noqa: F401  (mutants are made of loaded modules)
    attention,
    classes,
    convex,
    em,
    gaussian,
    layers,
    linkage,
    meta,
)
from certify.cases.meta_models.inputs import instances
from meta_models_reports import as_json, context, demonstration, examined, findings, mutant, only

from certify import BINARY16
from certify.certificate import parse, to_text
from certify.checker import Rejected

#: Module, what its source says, what the bug says, the system, the function, and a claim that is then false.
PLANTED = [
    (
        "gaussian",
        'instance.array("mask")[k] != 0]',
        'instance.array("mask")[k] != 7]',
        "mean",
        "mean_claims",
        "identity/stationary/mean",
    ),
    (
        "gaussian",
        "margin = gaps[place]",
        "margin = gaps[place] * 2",
        "gaussian-cycle",
        "gaussian_claims",
        "margin/loop-variance/gaussian-cycle",
    ),
    (
        "convex",
        "law = [x / sum(total, Fraction(0)) for x in total]",
        "law = [x / sum(d, Fraction(0)) for x in d]",
        "convex",
        "convex_claims",
        "identity/consensus/convex",
    ),
    (
        "convex",
        "q, plain = rate(step_matrix, v), rate(",
        "q, plain = rate(step_matrix, v) ** 2, rate(",
        "convex",
        "convex_claims",
        "contraction/anchored/convex",
    ),
    (
        "attention",
        "q = w * (1 + 2 * beta * R * R)\n    rule",
        "q = w * (1 + beta * R * R)\n    rule",
        "anchor",
        "anchor_claims",
        "contraction/anchor/anchor",
    ),
    (
        "attention",
        "entries[i] += scale * variance",
        "entries[i] -= entries[i]",
        "anchor",
        "anchor_claims",
        "updates/anchor-local/anchor/digits=12",
    ),
    (
        "attention",
        "divisor = arb(z.shape[1]).sqrt() if scaled",
        "divisor = arb(z.shape[1]) if scaled",
        "attention",
        "attention_claims",
        "enclosure/attention/attention/eq27/entry=0,0",
    ),
    (
        "attention",
        "for k in range(values.shape[1])] for row in rows]",
        "for k in reversed(range(values.shape[1]))] for row in rows]",
        "attention",
        "attention_claims",
        "enclosure/attention/attention/eq13/entry=0,0",
    ),
    (
        "meta",
        "worst = max(worst, 2 * gamma * size + lost)",
        "worst = max(worst, gamma * size + lost)",
        "moe",
        "moe_claims",
        "enclosure/orders/moe/float16",
    ),
    ("meta", "for c in range(len(z))) + B[e, o]", "for c in range(len(z)))", "moe", "moe_claims", "identity/gate/moe"),
    ("meta", "by_gates = by_gates.dot(z)", "by_gates = by_gates.T.dot(z).T", "meta", "meta_claims", None),
    (
        "em",
        "gain = (spread((low, high)) - spread(new)) / 2",
        "gain = spread((low, high)) - spread(new)",
        "hard",
        "hard_claims",
        "margin/hard-em/hard",
    ),
    (
        "em",
        "fall = before - after",
        "fall = (before - after) * 2",
        "hard",
        "hard_claims",
        "counterexample/hard-em/hard",
    ),
    (
        "em",
        "gains.append(new.likelihood(points) - at.likelihood(points))",
        "gains.append(2 * (new.likelihood(points) - at.likelihood(points)))",
        "em",
        "soft_claims",
        "margin/em/em",
    ),
    ("classes", "b = -sum(((2 * m + s) * a", "b = -sum(((2 * m - s) * a", "lda", "lda_claims", "identity/lda/lda"),
    (
        "classes",
        "total += both if positive else 1 - both",
        "total += both if positive else both",
        "rule",
        "rule_claims",
        None,
    ),
    (
        "classes",
        "level = Fraction(round((best + float(slack)) * 2**20), 2**20)",
        "level = Fraction(6, 10)",
        "rule",
        "rule_claims",
        None,
    ),
    ("linkage", "others = [x + ball(off[p])", "others = [x - 1 + ball(off[p])", "linkage", "linkage_claims", None),
    (
        "layers",
        'for v, u in zip(through(parts["V"]), through(parts["U"]), strict=True)]',
        'for v, u in zip(through(parts["U"]), through(parts["V"]), strict=True)]',
        "swiglu",
        "layer_claims",
        "enclosure/layer/swiglu/output=0",
    ),
    ("layers", "det = a * d - b * b", "det = a * d", "identity", "layer_claims", "margin/conic/identity"),
]


def claims_of(module: Any, function: str, system: str) -> dict[str, Any]:
    """The claims that a function of a module makes about a system of the demonstration, by id."""
    instance = next(x for x in instances(only(system)) if x.name == system)
    further = {"moe_claims": ([BINARY16],), "layer_claims": ({}, {}), "linkage_claims": ({}, {})}.get(function, ())
    return {claim.id: claim for claim in getattr(module, function)(instance, *further)}


@pytest.mark.parametrize(("module", "old", "new", "system", "function", "id"), PLANTED)
def test_a_planted_bug_is_rejected(module: str, old: str, new: str, system: str, function: str, id: str | None) -> None:
    """With the bug the claim differs, and the checker rejects it; or the bug takes the certificate away by itself."""
    sound = claims_of(globals()[module], function, system)
    spoiled = claims_of(mutant(module, old, new), function, system)
    changed = {name for name, claim in spoiled.items() if claim.to_json() != sound[name].to_json()}
    assert changed
    if id is None:
        assert all(
            spoiled[name].verdict == "undecided" or examined(as_json(spoiled[name])).verdict == "rejected"
            for name in changed
        )
    else:
        assert id in changed and spoiled[id].verdict == sound[id].verdict
        assert examined(as_json(spoiled[id])).verdict == "rejected"
        assert examined(as_json(sound[id])).verdict == sound[id].verdict


#: Bounds that say "at least"; the others say "at most", but for those that are exact.
LOWER = ("margin", "gap", "low", "gain_Q", "gain_H", "fall", "quadratic")
EXACT = ("value", "square")


def own_claims() -> list[dict[str, Any]]:
    """The claims of the demonstration that the case proves, not the general rules, and that are decided."""
    report, _, _ = demonstration()
    kinds = ("rounding", "range")
    return [claim for claim in report["claims"] if claim["kind"] not in kinds and claim["verdict"] != "undecided"]


def test_every_number_counts() -> None:
    """Each bound of each claim, moved to the unsafe side, is rejected."""
    moved = 0
    for claim in own_claims():
        for name, text in claim["bounds"].items():
            altered, value = copy.deepcopy(claim), parse(text)
            if name.startswith("count"):
                # of layers it counts points that are safe, of iterations steps that are enough
                unsafe = value + 10**6 if "classes" in claim["id"] else Fraction(0)
                unsafe = value + 1 if claim["kind"] == "identity" else unsafe
            elif name in EXACT:
                unsafe = value + Fraction(1, 10**30)
            elif name in LOWER:
                unsafe = value + abs(value) / 10 + Fraction(1, 2)
            else:
                unsafe = value - abs(value) / 10 - Fraction(1, 2)
            altered["bounds"][name] = to_text(unsafe)
            found = examined(altered)
            assert found.verdict == "rejected", (claim["id"], name, found.sentence)
            moved += 1
    assert moved > 100


def test_a_floor_is_the_whole_geometric_sum() -> None:
    """Between the error of one step and eps / (1 - q): what a single iterate adds is not all that they add up to."""
    floors = [
        c for c in demonstration()[0]["claims"] if c["id"].startswith("updates/floor") and c["verdict"] == "certified"
    ]
    assert floors
    for claim in floors:
        assert examined(claim).verdict == "certified"
        q, floor = (parse(claim["bounds"][name]) for name in ("q", "floor"))
        assert 0 < q < 1
        short = {**claim["bounds"], "floor": to_text(floor * (1 - q / 2))}
        found = examined({**claim, "bounds": short, "display": {}})
        assert found.verdict == "rejected" and "floor is claimed" in found.sentence


def test_every_word_counts() -> None:
    """Another statement, semantics, theorem, assumption, parameter, verdict or instance is rejected."""
    for claim in own_claims():
        changes: list[dict[str, Any]] = [
            {"statement": claim["statement"].replace("a", "e", 1)},
            {"semantics": "program" if claim["semantics"] != "program" else "real"},
            {"theorem": "README.md"},
            {"assumptions": [*claim["assumptions"], "the moon is full"]},
            {"parameters": {**claim["parameters"], "more": 1}},
            {"parameters": {**claim["parameters"], "instance": "moe-other"}},
            {"verdict": "refuted" if claim["verdict"] == "certified" else "certified", "reason": "so it is"},
            {"bounds": {**claim["bounds"], "more": "1"}},
        ]
        for change in changes:
            altered = {**copy.deepcopy(claim), **change}
            found = examined(altered)
            assert found.verdict == "rejected", (claim["id"], change, found)


def test_every_witness_counts() -> None:
    """A witness with another number, without an entry, or none at all is never proved."""
    for claim in own_claims():
        witness = claim["witness"]
        if witness is None:
            continue
        if claim["id"].startswith("identity/moe"):
            continue  # its witness repeats its parameters, which the checker reads
        *shapeless, moved = _spoiled(witness)
        for spoiled in shapeless:
            found = examined({**copy.deepcopy(claim), "witness": spoiled})
            assert found.verdict == "rejected", (claim["id"], spoiled, found)
        # weights, points and boxes that are no optimum may prove the same bound: then the claim is true as it stands
        found = examined({**copy.deepcopy(claim), "witness": moved})
        free = set(witness) & {"v", "z", "precisions"} and claim["kind"] != "identity"
        assert found.verdict == "rejected" or free, (claim["id"], moved, found)


def _spoiled(witness: dict[str, Any]) -> list[Any]:
    first = next(iter(witness))
    moved = copy.deepcopy(witness)
    place: Any = moved
    key: Any = first
    while isinstance(place[key], list):
        place, key = place[key], 0
    place[key] = place[key] + 1 if isinstance(place[key], int) else to_text(parse(place[key]) + 1)
    return [None, {}, {**witness, "more": []}, {name: x for name, x in witness.items() if name != first}, moved]


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The paths to everything in a value, of lists the first two entries."""
    yield path
    for key in value if isinstance(value, dict) else range(min(len(value), 2)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def test_malformed_claims_are_rejected_and_never_break_the_checker() -> None:
    """Whatever stands in a place of parameters or witness: a finding, and no exception."""
    topics = {"/".join(claim["id"].split("/")[:2]): claim for claim in own_claims()}
    for claim in topics.values():
        for part in ("parameters", "witness"):
            for path in list(places(claim[part] or {}))[1:]:
                for value in (None, [], {}, [[]], "x", "1/2", True, 10**18):
                    altered = copy.deepcopy(claim)
                    place = altered[part]
                    for key in path[:-1]:
                        place = place[key]
                    if place[path[-1]] == value:
                        continue
                    place[path[-1]] = value
                    examined(altered)  # any finding will do, an exception will not


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["subject"]["controls"].pop("lda_delta_denominator"),
        lambda r: r["subject"]["controls"].update({"convex_digits": "3"}),
        lambda r: r["subject"]["tensors"].pop("moe_R"),
        lambda r: r["subject"]["kernels"]["swish"]["inputs"].update(x="softmax_R"),
        lambda r: r["subject"]["kernels"]["linkage"].update(r["subject"]["kernels"]["linkage-flip"]),
    ],
)
def test_another_subject_is_rejected(change: Any) -> None:
    """A control or tensor that is left out or altered, or a kernel that is another one."""
    report, state, files = demonstration()
    altered = copy.deepcopy(report)
    change(altered)
    try:
        found = findings(altered, state, files)
    except Rejected:
        return
    assert any(x.verdict == "rejected" for x in found.values())


def test_the_graph_of_another_kernel_is_no_evidence() -> None:
    """The claim on classes is about the layer: with the graph of another gate the checker rejects it."""
    report, state, files = demonstration()
    altered = copy.deepcopy(report)
    altered["subject"]["kernels"]["swish"]["graph"] = altered["subject"]["kernels"]["identity"]["graph"]
    found = findings(altered, state, files)
    assert found["margin/classes/swish/float64"].verdict == "rejected"
    assert json.dumps(context().claims["margin/classes/swish/float64"])
