"""Large witnesses leave their report for a file named by digest, and nothing else changes."""

from __future__ import annotations

import hashlib
import json

import pytest

from certify.certificate import Claim, Report, Verdict, encode, read, to_hex, write
from certify.certificate.side_files import LARGEST_WITNESS, detached
from certify.states import load

PRODUCER = {"name": "certify", "version": "0.1.0", "arithmetic": {}}
#: More than 100 kB of JSON, with the numbers that round trips lose.
ROW = [to_hex(x) for x in (-0.0, 5e-324, -1.7976931348623157e308, *(1 / (k + 3) for k in range(4500)))]


def report(*witnesses: object) -> Report:
    """One claim a witness."""
    claims = [
        Claim(f"range/{k}", "range", "x", "program", verdict="refuted", reason="r", witness=w)  # type: ignore[arg-type]
        for k, w in enumerate(witnesses)
    ]
    return Report(PRODUCER, {"case": "kernel"}, claims)


def test_a_large_witness_goes_to_a_file_and_keeps_its_small_values(tmp_path):
    """Rows by key, inner ones by both keys; every bit of every number; the file is named by its digest."""
    given = {"layer": "2.1", "register": "W", "inputs": {"x": ROW, "A": ROW[:3]}, "other": {"a": "b"}, "center": ROW}
    written = write(report(given), tmp_path / "r.json")
    (path,) = tmp_path.glob("*.safetensors")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    small = {"layer": "2.1", "register": "W", "other": {"a": "b"}}
    assert written.claims[0].witness == {**small, "file": path.name, "sha256": digest}
    assert path.name == f"witness-{digest[:16]}.safetensors"
    assert read(tmp_path / "r.json") == written
    held = {name: [to_hex(x) for x in row.tolist()] for name, row in load(path).tensors.items()}
    assert held == {"inputs/x": ROW, "inputs/A": ROW[:3], "center": ROW}


def test_claims_share_a_file(tmp_path):
    """Of equal witnesses; another one has another file."""
    claims = write(report({"center": ROW}, {"center": ROW}, {"center": ROW[1:]}), tmp_path / "r.json").claims
    names = [claim.witness["file"] for claim in claims if claim.witness]
    assert names[0] == names[1] != names[2]
    assert {x.name for x in tmp_path.iterdir()} == {*names, "r.json"}


KEPT = [{"notes": ["x" * 10] * 20_000}, {"center": [x.upper() for x in ROW]}, {"text": "x" * 200_000}, {"rows": [ROW]}]


@pytest.mark.parametrize(
    "witness", [None, {}, {"center": ROW[:100]}, *KEPT, {"inputs": {"x": ROW, "y": "no row"}}, {"x": [*ROW, None]}]
)
def test_what_is_small_or_no_row_of_numbers_stays(tmp_path, witness):
    """Text that is not as `to_hex` writes it would not come back as it was."""
    given = report(witness)
    assert write(given, tmp_path / "r.json") == given
    assert [x.name for x in tmp_path.iterdir()] == ["r.json"]


def test_the_limit_is_that_of_the_format():
    """A hundred thousand bytes of JSON, and not one more."""
    row = ["0x1p+0"] * 9998
    fits = {"row": row, "pad": "x" * (LARGEST_WITNESS - len(json.dumps({"row": row, "pad": ""})))}
    assert len(json.dumps(fits)) == LARGEST_WITNESS == 100_000
    assert not detached(report(fits))[1]
    assert detached(report({**fits, "pad": fits["pad"] + "x"}))[1]


def test_writing_again_changes_nothing(tmp_path):
    """Neither the report nor its files."""
    once = write(report({"center": ROW}), tmp_path / "r.json")
    before = {x.name: x.read_bytes() for x in tmp_path.iterdir()}
    assert write(once, tmp_path / "r.json") == once
    assert write(report({"center": ROW}), tmp_path / "r.json") == once
    assert {x.name: x.read_bytes() for x in tmp_path.iterdir()} == before


def test_a_device_has_no_files_beside_it():
    """The report goes there whole."""
    given = report({"center": ROW})
    assert write(given, "/dev/null") is given
    assert given.claims[0].verdict is Verdict.REFUTED
    assert len(encode(given)) > LARGEST_WITNESS
