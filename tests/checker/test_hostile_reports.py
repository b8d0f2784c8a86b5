"""Hostile numbers, witnesses and graph files by the real command: one sentence a claim, exit 3, two seconds, 500 MB."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checker_reports import report_of, small_states
from tampered_families import Family, families

from certify.checker import Rejected, check
from certify.states import load_stream
from certify.states.safetensors_file import encode_safetensors

MEMORY, SECONDS = 500 << 20, 2
HUGE, LONG = "0x1p+1000", 1000 * "9"
Change = Callable[[dict[str, Any]], object]


def checked(folder: Path, report: Any, state: bytes, files: dict[str, bytes], code: int = 3) -> list[str]:
    """Sentences of the command on standard error, within the limits."""
    (folder / "r.json").write_bytes(report if isinstance(report, bytes) else json.dumps(report).encode())
    (folder / "state.bin").write_bytes(state)
    for name, data in files.items():
        (folder / name).write_bytes(data)

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    line = [sys.executable, "-m", "certify.checker", "r.json", "--state", "state.bin"]
    run = subprocess.run(line, cwd=folder, capture_output=True, text=True, preexec_fn=limits, check=False)
    assert run.returncode == code, (run.returncode, run.stderr[-500:])
    lines = [x for x in run.stderr.splitlines() if not x.endswith(" claims checked")]  # progress, on a busy machine
    assert lines and all(x.startswith("certify.checker: ") and x.isprintable() and len(x) < 600 for x in lines), lines
    return lines


def spoiled(family: Family, name: str, change: Change) -> Any:
    """The claim, with what it rests on, after a change."""
    report = copy.deepcopy(family.sub(name))
    change(next(c for c in report["claims"] if c["id"] == name))
    return report


def bounds(**values: str) -> Change:
    """Replaces bounds."""
    return lambda claim: claim["bounds"].update(values)


def given(**values: Any) -> Change:
    """Replaces parameters."""
    return lambda claim: claim["parameters"].update(values)


def replays(count: Any) -> Change:
    """Asks for so many updates, in words, too."""

    def change(claim: dict[str, Any]) -> None:
        was = claim["parameters"]["replayed"]
        claim["parameters"]["replayed"] = count
        claim["statement"] = claim["statement"].replace(f"{was} replayed", f"{count} replayed")

    return change


FACE, UPDATES = ("stage", "contraction/face"), ("replay", "updates/float64")
ROUND = ("stage", "rounding/float32/serial/ball")
OVER, POINT = ("states", "range/float16/serial/ball/state=1"), ("stage", "rounding/float32/serial/point")
HOSTILE: list[tuple[tuple[str, str], str, Change]] = [
    (UPDATES, "10**6 updates replayed", replays(10**6)),
    (UPDATES, "2**62 updates replayed", replays(2**62)),
    (UPDATES, "-1 updates replayed", replays(-1)),
    (UPDATES, "a float of updates", replays("100")),
    (UPDATES, "a huge ball", given(radius=HUGE)),
    (UPDATES, "a tiny ball", given(radius="0x1p-1074")),
    (UPDATES, "through a huge ball", given(through=HUGE)),
    (UPDATES, "a tiny tolerance", given(tol="0x1p-1074")),
    (UPDATES, "a stage that is itself", given(stage="updates/float64")),
    (UPDATES, "a stage that is a list", given(stage=["contraction/face"])),
    (UPDATES, "a long count", bounds(count="-" + LONG)),
    (UPDATES, "a format that is a list", given(format=["float64"])),
    (FACE, "a radius of 2**1000", bounds(radius=HUGE)),
    (FACE, "a radius of 2**1023", bounds(radius="0x1p+1023")),
    (FACE, "a radius that is no binary64", bounds(radius="0x1p+20000")),
    (FACE, "a smallest radius of 2**1000", bounds(smallest_radius=HUGE)),
    (FACE, "exponent bombs", bounds(q="0x1p-20000", d="0x1p-20000", eps_W="0x1p-20000", floor="0x1p-20000")),
    (FACE, "exponents of nine digits", bounds(q="0x1p+999999999")),
    (FACE, "long ratios", bounds(mu=f"{LONG}/{LONG[:-1]}8", L_J=f"1/{LONG}")),
    (FACE, "numbers of 16 kB", bounds(d="0x" + "f" * 16000 + "p-64000")),
    (FACE, "a centre of the wrong length", lambda c: c["witness"].update(center=["0x0p+0"] * 16)),
    (FACE, "a centre of 100,000 numbers", lambda c: c["witness"].update(center=["0x1p-3"] * 100_000)),
    (FACE, "a centre of huge numbers", lambda c: c["witness"].update(center=["0x0p+0", *[HUGE, HUGE, HUGE, "0x0p+0"] * 2])),
    (FACE, "a centre of tiny numbers", lambda c: c["witness"].update(center=["0x0p+0", *["0x1p-1074"] * 3, "0x0p+0"] * 2)),
    (FACE, "a centre that is a file", lambda c: c.update(witness={"file": "r.json", "sha256": "0" * 64})),
    (FACE, "a centre in a folder above", lambda c: c.update(witness={"file": "../r.json", "sha256": "0" * 64})),
    (FACE, "a huge step", lambda c: c["parameters"].update(step="new", gamma=HUGE)),
    (FACE, "a tiny step", lambda c: c["parameters"].update(step="new", gamma="0x1p-1074")),
    (FACE, "state 2**62", given(state=2**62)),
    (("refuted", "contraction/face"), "a cube of 2**1000", bounds(cube=HUGE)),
    (("refuted", "contraction/face"), "a cube of 2**-1074", bounds(cube="0x1p-1074")),
    (("refuted", "contraction/face"), "a huge vector", lambda c: c["witness"].update(vector=["0x1p+1023"] * 6)),
    (ROUND, "a ball of 2**1000", lambda c: c["parameters"]["region"].update(radius=HUGE)),
    (ROUND, "a ball of 2**-1074", lambda c: c["parameters"]["region"].update(radius="0x1p-1074")),
    (ROUND, "bounds of -2**20000", bounds(eps_W="-0x1p+20000")),
    (ROUND, "a ratio of a thousand digits", bounds(eps_W=f"1/{LONG}")),
    (ROUND, "digits of another script", bounds(eps_W="٣")),
    (ROUND, "a decimal bomb", lambda c: c["display"].update(eps_W="1e-9999")),
    (ROUND, "a decimal of 20 kB", lambda c: c["display"].update(eps_W="1" * 20000)),
    (ROUND, "many parameters", lambda c: c["parameters"].update({str(k): k for k in range(100_000)})),
    (POINT, "a long statement", lambda c: c.update(statement="At " * 1_000_000)),
    (POINT, "controls and newlines", lambda c: c.update(statement="a\n\x1b[31m\u202eb")),
    (OVER, "inputs of the wrong length", lambda c: c["witness"].update(W=["0x0p+0"] * 100_000)),
    (OVER, "inputs of 2**1023", lambda c: c["witness"].update(W=["0x1p+1023"] * 9)),
]  # fmt: skip


@pytest.mark.parametrize(("where", "what", "change"), HOSTILE, ids=[w for _, w, _ in HOSTILE])
def test_hostile_claims(tmp_path: Path, where: tuple[str, str], what: str, change: Change) -> None:
    """The claim is named; what would take long is not begun."""
    family = families()[where[0]]
    (line, *_) = checked(tmp_path, spoiled(family, where[1], change), family.state, {})
    assert where[1] in line


def bomb() -> bytes:
    """An archive of 64 kB that unpacks to 64 MB."""
    stream = io.BytesIO()
    np.savez_compressed(stream, center=np.zeros(1 << 23))
    return stream.getvalue()


WITNESSES: dict[str, Callable[[], bytes]] = {
    "a million numbers": lambda: encode_safetensors({"center": np.full((1 << 20) - 100, 0.1)}, {}),
    "ten thousand rows": lambda: encode_safetensors({str(k): np.ones(1) for k in range(10_000)}, {}),
    "a zip bomb": bomb,
    "nan": lambda: encode_safetensors({"center": np.full(9, np.nan)}, {}),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("what", WITNESSES)
def test_hostile_witness_files(tmp_path: Path, what: str) -> None:
    """Under the digest that the report names."""
    family, data = families()["stage"], WITNESSES[what]()
    witness = {"file": "w.bin", "sha256": hashlib.sha256(data).hexdigest()}
    report = spoiled(family, FACE[1], lambda claim: claim.update(witness=witness))
    (line, *_) = checked(tmp_path, report, family.state, {"w.bin": data})
    assert FACE[1] in line


def graph_of(
    family: Family, change: Callable[[dict[str, Any], dict[str, str]], object]
) -> tuple[Any, dict[str, bytes]]:
    """A report whose graph file is changed, and named by its new digest."""
    name = family.report["subject"]["graph"]["file"]
    saved = load_stream(io.BytesIO(family.files(name)), name)
    tensors, metadata = {k: x.copy() for k, x in saved.tensors.items()}, dict(saved.metadata)
    change(tensors, metadata)
    data = encode_safetensors(tensors, metadata)
    report = copy.deepcopy(family.report)
    report["subject"]["graph"]["sha256"] = hashlib.sha256(data).hexdigest()
    return report, {name: data}


def entry(name: str, value: Any, at: int = -1) -> Callable[[dict[str, Any], dict[str, str]], object]:
    """Changes one entry of one array."""
    return lambda tensors, metadata: tensors[name].ravel().__setitem__(at, value)


def array(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, str]], object]:
    """Replaces an array, or leaves it out."""
    return lambda t, m: t.pop(name) if value is None else t.update({name: value})


HOSTILE_GRAPHS: list[tuple[str, Callable[[dict[str, Any], dict[str, str]], object]]] = [
    ("a node beyond", entry("operands", 2**31 - 1)),
    ("a node of its own", lambda t, m: t["operands"].__setitem__(-1, t["support/A"].sum() + 4 + len(t["op"]) - 1)),
    ("a negative node", entry("operands", -5)),
    ("a structural zero", entry("operands", -1)),
    ("an exponent of 2**30", entry("exponent", 2**30, 0)),
    ("no operands", entry("at", 0, 1)),
    ("an odd number of factors", entry("at", 3, 1)),
    ("a place beyond", entry("place", 2**31 - 1)),
    ("slices beyond", entry("at", 2**62)),
    ("slices backwards", entry("at", -1)),
    ("infinite constants", array("constants", np.array([np.inf]))),
    ("constants that are nan", array("constants", np.array([np.nan]))),
    ("no operations", array("op", None)),
    ("operations as floats", array("op", np.zeros(3))),
    ("a support of another shape", array("support/x", np.ones(2, np.uint8))),
    ("no support", array("support/x", None)),
    ("a large support", array("support/x", np.ones(4_000_000, np.uint8))),
    ("outputs beyond", entry("ids/z", 2**30)),
    ("an order that there is not", lambda t, m: m.update(order="tree")),
    ("inputs that are not there", lambda t, m: m.update(inputs='["A", "y"]')),
    ("deep metadata", lambda t, m: m.update(places="[" * 100_000)),
    ("places that are numbers", lambda t, m: m.update(places="[1e400]")),
]


@pytest.mark.parametrize(("what", "change"), HOSTILE_GRAPHS, ids=[w for w, _ in HOSTILE_GRAPHS])
def test_hostile_graph_files(tmp_path: Path, what: str, change: Any) -> None:
    """Under the digest that the report names."""
    family = families()["kernel"]
    report, files = graph_of(family, change)
    assert len(checked(tmp_path, report, family.state, files)) == 1


def test_an_operation_without_a_rule_is_beyond_the_checker(tmp_path: Path) -> None:
    """It proves nothing about the kernel, and does not call it wrong."""
    family = families()["kernel"]
    report, files = graph_of(family, entry("op", 255))
    assert "no rule" in checked(tmp_path, report, family.state, files, code=1)[0]


def test_a_graph_file_cut_at_200_places(tmp_path: Path) -> None:
    """Under its new digest, by the API; and three of them, or none at all, by the command."""
    family = families()["kernel"]
    name = family.report["subject"]["graph"]["file"]
    data, report = family.files(name), copy.deepcopy(family.report)
    for k, cut in enumerate(range(0, len(data), len(data) // 200)):
        report["subject"]["graph"]["sha256"] = hashlib.sha256(data[:cut]).hexdigest()
        with pytest.raises(Rejected):
            check(json.dumps(report).encode(), family.state, lambda name, cut=cut: data[:cut])
        if k in (0, 50, 150):
            assert len(checked(tmp_path, report, family.state, {name: data[:cut]})) == 1
    os.unlink(tmp_path / name)
    assert name in checked(tmp_path, report, family.state, {})[0]


def test_a_report_cut_at_some_places(tmp_path: Path) -> None:
    """By the real command; the API is asked at 200 places elsewhere."""
    family = families()["stage"]
    data = json.dumps(family.report).encode()
    for cut in range(0, len(data), len(data) // 12):
        assert len(checked(tmp_path, data[:cut], family.state, {})) == 1


@pytest.mark.parametrize(
    "words", ['"bounds": 1e400', '"bounds": NaN', '"bounds": -Infinity', '"bounds": {"q": "1", "q": "1"}']
)
def test_numbers_that_json_lacks(tmp_path: Path, words: str) -> None:
    """Inside an otherwise good report, by the real command."""
    family = families()["stage"]
    data = json.dumps(family.report).replace('"bounds": {', f'{words}, "bounds": {{', 1).encode()
    assert len(checked(tmp_path, data, family.state, {})) == 1


def test_five_thousand_claims(tmp_path: Path) -> None:
    """With ids that do not fit: each is named."""
    report, state = report_of(small_states(), formats=("float32",), samples=0)
    claim = next(c for c in report["claims"] if c["id"] == "rounding/float32/serial/ball")
    report["claims"] = [claim | {"id": f"{claim['id']}/{k}"} for k in range(5000)]
    del report["required"]
    assert len(checked(tmp_path, report, state, {})) == 5000
