"""The case as a whole: what the demonstration certifies and the checker proves again, parts of a state, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certify.cases import case_named
from certify.cases.meta_models import demo, train
from certify.cases.meta_models.case import CASE
from certify.cases.meta_models.inputs import SYSTEMS, instances
from meta_models_reports import demonstration, findings, made, only
from real_meta_models import torch

from certify.checker import check
from certify.errors import InputRejected, MissingExtra
from certify.states import Saved, load, save

README = Path(demo.__file__).parent / "README.md"


def test_the_demonstration_is_certified_and_proved_again() -> None:
    """No claim is rejected, every decided one has its verdict again; the refuted one does not count."""
    report, state, files = demonstration()
    assert report["verdict"] == "certified" and case_named("meta_models") is CASE
    found = findings(report, state, files)
    decided = [claim for claim in report["claims"] if claim["verdict"] != "undecided"]
    assert len(decided) > 200
    for claim in decided:
        assert found[claim["id"]].verdict == claim["verdict"], (claim["id"], found[claim["id"]].sentence)
    refuted = [claim["id"] for claim in decided if claim["verdict"] == "refuted"]
    assert refuted == ["counterexample/hard-em/hard", "counterexample/hard-em/hard-untied"]
    assert not set(refuted) & set(report["required"])
    undecided = {"/".join(c["id"].split("/")[:2]) for c in report["claims"] if c["verdict"] == "undecided"}
    assert undecided <= {"order/merges", "updates/floor", "rounding/bfloat16", "range/bfloat16"}


def test_every_system_of_the_list_is_demonstrated_and_cited() -> None:
    """The state holds each system, and every theorem that a claim cites is in the README."""
    report, _, _ = demonstration()
    assert {instance.system for instance in instances(demo.state())} == set(SYSTEMS)
    text = README.read_text()
    for claim in report["claims"]:
        if claim["theorem"].startswith("cases/"):
            assert f'<a id="{claim["theorem"].split("#")[1]}"></a>' in text, claim["theorem"]
    for system, (parts, controls) in SYSTEMS.items():
        assert f"`{system}`" in text
        assert all(f"`{part.split(':')[0].strip('[]')}`" in text for part in (*parts.split(), *controls.split()))


def test_the_trained_layers_of_the_demonstration(tmp_path: Any) -> None:
    """At eight pairs of classes the mixture of experts beats the linear layer on the test set, exactly."""
    report, state, files = made(only("linear-m8", "softmax-m8"), ("float64",))
    found = findings(report, state, files)
    claims = {claim["id"]: claim for claim in report["claims"]}
    for id in ("order/accuracy/softmax-m8", "identity/moe/softmax-m8", "margin/classes/softmax-m8/float64"):
        assert found[id].verdict == "certified"
    assert claims["margin/classes/softmax-m8/float64"]["bounds"]["count"] == "480"


@pytest.mark.parametrize("system", ["moe", "gaussian-chain", "hard", "swiglu", "lstm", "rule", "linkage-flip"])
def test_a_state_may_hold_any_part(system: str, tmp_path: Any) -> None:
    """Saved, loaded and certified by itself, each system has its own claims and no others; the checker agrees."""
    path = tmp_path / "state.safetensors"
    save(path, only(system))
    report, state, files = made(load(path), ("float32",))
    names = {
        claim["parameters"].get("instance", claim["parameters"].get("kernel", system)) for claim in report["claims"]
    }
    assert all(name.startswith(system) for name in names)
    assert all(x.verdict != "rejected" for x in findings(report, state, files).values())


def changed(name: str, value: Any) -> Saved:
    """The demonstration with one tensor or control replaced or, with None, left out."""
    state = demo.state()
    tensors, metadata = dict(state.tensors), dict(state.metadata)
    place: dict[str, Any] = metadata if isinstance(value, str) or name in metadata else tensors
    if value is None:
        del place[name]
    else:
        place[name] = value
    return Saved(tensors, metadata)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("moe_W", None, "has no moe_W"),
        ("convex_digits", None, "has no convex_digits"),
        ("convex_digits", "1/2", "give a whole number"),
        ("moe_scale", "1/3", "not a whole number"),
        ("moe_scale", "0.5", "the control moe_scale is '0.5', no exact number"),
        ("unknown_W", np.ones(2), "belongs to no system"),
        ("moe_Q", np.ones(2), "is no part of the system moe"),
        ("moe_z", np.ones(3), "has the shape (3,)"),
        ("mean_mask", np.array([1.0, 2.0, 0.0, 1.0]), "other than 0 and 1"),
        ("mean_H_denominator", "3", "divides nothing"),
        ("gaussian-chain_J", np.triu(np.ones((4, 4))), "is not symmetric"),
        ("gaussian-chain_J", np.ones((4, 4)), "is not positive definite"),
        ("convex_d", np.zeros(4), "is not as it must be"),
        ("anchor_weight", "2", "is not as it must be"),
        ("linkage_z", np.zeros((3, 2)), "a zero row"),
        ("hard_low", "5/2", "both means are equal"),
        ("lda_Sigma", -np.eye(2), "is not positive definite"),
        ("identity_x", np.ones((1, 3)), "has the shape"),
        ("meta_Theta", np.ones((2, 3)), "give it the shape"),
        ("linear-m8_y", np.full(480, 0.5), "a label other than 0 and 1"),
        ("em_share", "1", "is not between 0 and 1"),
    ],
)
def test_what_is_no_state_is_refused_in_one_sentence(name: str, value: Any, words: str) -> None:
    """The message names the culprit and a remedy."""
    saved = changed(name, value)
    keep = name.split("_")[0] + "_"
    saved = Saved(
        {k: v for k, v in saved.tensors.items() if k.startswith(keep)},
        {k: v for k, v in saved.metadata.items() if k.startswith(keep)},
    )
    with pytest.raises(InputRejected) as refused:
        made(saved, ("float32",))
    assert words in str(refused.value) and refused.value.remedy


def test_a_denominator_makes_a_kernel_impossible_and_a_claim_exact() -> None:
    """Thirds have exact claims and no kernel, for no binary format holds them."""
    report, _, _ = made(only("mean"), ("float32",))
    assert report["subject"]["kernels"] == {} and report["subject"]["controls"] == {"mean_m_denominator": "21"}
    assert report["claims"][0]["witness"] == {"z": ["17/70"]}


@pytest.mark.slow
def test_training_makes_a_state_that_is_certified(tmp_path: Any) -> None:
    """One minute: the mixture beats the linear layer for eight pairs, and all layers are certified on the test set."""
    if torch() is None:
        pytest.skip("needs torch")
    path = tmp_path / "trained.safetensors"
    assert train.main(["-o", str(path)]) == 0
    report, state, files = made(load(path), ("float32", "float64"))
    claims = {claim["id"]: claim for claim in report["claims"]}
    assert claims["order/accuracy/softmax-m8"]["verdict"] == "certified"
    assert sum(id.startswith("expectation/accuracy/") for id in claims) == 6
    assert {found.verdict for found in check(json.dumps(report).encode(), state, files.__getitem__)} == {"certified"}


def test_training_without_torch_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with the extra."""
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtra, match="torch"):
        train.trained(1)


def test_the_data_are_the_mixtures_of_the_text() -> None:
    """Sizes of the splits, labels, and classes that the oracle tells apart as well as a distance of 3.2 allows."""
    splits, oracle = train.data(2)
    assert [len(x) for x, _ in splits.values()] == [1120, 240, 240]
    assert {float(y) for _, labels in splits.values() for y in labels} == {0.0, 1.0}
    assert 0.9 < oracle < 0.99


def test_every_system_input_and_defect_has_a_row_and_a_test_that_exists() -> None:
    """S1-S16, X1-X19 and D1-D14 in the table of the paper, each with a verdict; the tests that it names are there."""
    here = Path(__file__).parent
    joined = (here.parents[2] / "docs" / "papers.md").read_text()
    text = joined.partition('<a id="meta_models"></a>')[2].partition("\n## ")[0]
    rows = {
        line.split("|")[1].strip(): line.split("|")[3].strip() for line in text.splitlines() if line.startswith("| ")
    }
    wanted = [f"{letter}{k}" for letter, n in (("S", 16), ("X", 19), ("D", 14)) for k in range(1, n + 1)]
    assert not set(wanted) - set(rows)
    assert {rows[id] for id in wanted} == {"certified", "refuted", "measured", "out of reach"}
    values = (here / "test_meta_models_values.py").read_text()
    named = set(re.findall(r"test_meta_models_values\.py::(test_\w+)", text))
    assert len(named) > 18 and all(f"def {name}(" in values for name in named)
    claims = {"/".join(claim["id"].split("/")[:2]) for claim in demonstration()[0]["claims"]} | {"expectation/accuracy"}
    kinds = "identity|margin|order|enclosure|contraction|updates|counterexample|expectation"
    assert all(name in claims for name in re.findall(rf"`((?:{kinds})/[a-z-]+)`", text))
