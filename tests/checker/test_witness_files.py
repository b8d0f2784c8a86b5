"""Witnesses in files beside the report: as good as in place, and nothing about such a file is believed but its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from checker_reports import changed, no_files
from tampered_families import Family, detached, families
from tampering_wholes import witnesses

from certify.checker import Beyond, Finding, Rejected, check
from certify.states.safetensors_file import encode_safetensors

CHOSEN = [
    ("stage", "contraction/face"),
    ("stage", "contraction/interval"),
    ("refuted", "contraction/face"),
    ("states", "range/float16/serial/ball/state=1"),
    ("kernel", "range/float16/serial/ball"),
]


def served(family: Family, files: Mapping[str, bytes]) -> Callable[[str], bytes]:
    """What is beside the report: its witness files, and those of the family."""
    return lambda name: files[name] if name in files else family.files(name)


def found(family: Family, report: Any, files: Mapping[str, bytes]) -> dict[str, Finding]:
    """Findings by claim."""
    return {f.id: f for f in check(json.dumps(report).encode(), family.state, served(family, files))}


@pytest.mark.parametrize("name", ["stage", "refuted", "states", "kernel", "through"])
def test_every_claim_with_its_witness_in_a_file_is_proved_again(name: str) -> None:
    """With the same numbers as with it in place; claims with one centre share one file."""
    family = families()[name]
    report, files = detached(family.report)
    assert files
    assert found(family, report, files) == found(family, family.report, {})
    centres = {json.dumps(c["witness"]) for c in family.report["claims"] if c["witness"] and "center" in c["witness"]}
    assert len(files) <= len(centres) + sum(c["kind"] == "range" for c in report["claims"])


@pytest.mark.parametrize(("name", "claim"), CHOSEN)
def test_a_changed_witness_in_a_file_is_judged_as_in_place(name: str, claim: str) -> None:
    """Each number of each witness, under the new digest: what does harm is rejected by name, what does none passes."""
    family, count = families()[name], 0
    for mutation in witnesses(family, claim):
        report, files = detached(mutation.report)
        if files and report["claims"] != mutation.report["claims"]:
            said = {f.id: f for f in check(json.dumps(report).encode(), family.state, served(family, files))}
            assert (said[claim].verdict == "rejected") == mutation.harmful, (mutation.label, said[claim])
            count += 1
    assert count > 10


@pytest.mark.parametrize(("name", "claim"), CHOSEN)
def test_every_byte_and_every_length_of_a_witness_file_counts(name: str, claim: str) -> None:
    """Another byte is another digest; cut at 200 places, under the digest of what is left, it is no file."""
    family = families()[name]
    report, files = detached(family.sub(claim))
    file = next(c for c in report["claims"] if c["id"] == claim)["witness"]["file"]
    data = files[file]
    for k in range(0, len(data), 3):
        spoiled = bytearray(data)
        spoiled[k] ^= 1 << k % 8
        said = found(family, report, {file: bytes(spoiled)})[claim]
        assert said.verdict == "rejected" and "digest" in said.sentence
    for cut in range(0, len(data), max(1, len(data) // 200)):
        renamed = changed(report, claim, "witness", "sha256", to=hashlib.sha256(data[:cut]).hexdigest())
        assert found(family, renamed, {file: data[:cut]})[claim].verdict == "rejected"


def test_a_file_that_is_not_there_rejects_its_claims_alone() -> None:
    """By a sentence with its name; claims with other witnesses are proved."""
    family = families()["stage"]
    report, _ = detached(family.report)
    said = {f.id: f for f in check(json.dumps(report).encode(), family.state, no_files)}
    for claim in report["claims"]:
        if claim["witness"] and claim["verdict"] != "undecided":
            assert said[claim["id"]].verdict == "rejected" and claim["witness"]["file"] in said[claim["id"]].sentence
        elif claim["kind"] in ("rounding", "range", "exactness"):
            assert said[claim["id"]].verdict == claim["verdict"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows["center"].__setitem__(1, np.nan), "finite"),
        (lambda rows: rows["center"].__setitem__(1, -np.inf), "finite"),
        (lambda rows: rows.update(center=rows["center"].reshape(3, 3)), "rows of float64"),
        (lambda rows: rows.update(center=rows["center"].astype(np.float32)), "rows of float64"),
        (lambda rows: rows.update(center=rows["center"].astype(np.int64)), "rows of float64"),
        (lambda rows: rows.update(center=rows["center"][:-1]), "9 numbers"),
        (lambda rows: rows.update(center=np.zeros(0)), "9 numbers"),
        (lambda rows: rows.update(centre=rows.pop("center")), "9 numbers"),
        (lambda rows: rows.update({"inputs/center": rows.pop("center")}), "9 numbers"),
        (lambda rows: rows.update(inputs=np.ones(2), **{"inputs/x": np.ones(2), "center": rows["center"][::-1]}), ""),
        (lambda rows: rows.update(more=np.ones(2)), "holds 'more', on which nothing"),
    ],
)
def test_rows_of_a_witness_file(change: Callable[[dict[str, Any]], object], words: str) -> None:
    """NaN, other types, shapes and names, under the right digest; rows that nobody asks for."""
    family, claim = families()["stage"], "contraction/face"
    center = [float.fromhex(x) for x in family.claim(claim)["witness"]["center"]]
    rows = {"center": np.array(center)}
    change(rows)
    data = encode_safetensors(rows, {})
    witness = {"file": "w.safetensors", "sha256": hashlib.sha256(data).hexdigest()}
    said = found(family, changed(family.sub(claim), claim, "witness", to=witness), {"w.safetensors": data})[claim]
    assert said.verdict == "rejected"
    assert words in said.sentence and said.sentence.isprintable()


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "0" * 63},
        {"sha256": None},
        {"file": "../w"},
        {"file": ".w"},
        {"file": ""},
        {"file": 1},
        {"sha256": "F" * 64},
    ],
)
def test_names_of_witness_files(change: dict[str, Any]) -> None:
    """Plain ones, with a whole digest, or the report is not valid."""
    family, claim = families()["stage"], "contraction/face"
    report, files = detached(family.sub(claim))
    for key, value in change.items():
        spoiled = changed(report, claim, "witness", key, to=value)
        with pytest.raises(Rejected, match="claim contraction/face: witness"):
            check(json.dumps(spoiled).encode(), family.state, served(family, files))
    spoiled = changed(report, claim, "witness", to={"file": next(iter(files))})
    with pytest.raises(Rejected, match="claim contraction/face: witness"):
        check(json.dumps(spoiled).encode(), family.state, served(family, files))


def test_a_number_in_place_and_in_the_file_is_rejected() -> None:
    """Two centres are one too many."""
    family, claim = families()["stage"], "contraction/face"
    report, files = detached(family.sub(claim))
    twice = changed(report, claim, "witness", "center", to=family.claim(claim)["witness"]["center"])
    assert "both" in found(family, twice, files)[claim].sentence


def test_a_file_of_more_than_the_limit_is_beyond_the_checker() -> None:
    """It is not unpacked."""
    family, claim = families()["stage"], "contraction/face"
    data = encode_safetensors({"center": np.zeros(1 << 20)}, {})
    witness = {"file": "w.safetensors", "sha256": hashlib.sha256(data).hexdigest()}
    said = found(family, changed(family.sub(claim), claim, "witness", to=witness), {"w.safetensors": data})[claim]
    assert said.verdict == "undecided" and "bytes" in said.sentence
    assert issubclass(Beyond, Exception)
