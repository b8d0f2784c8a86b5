"""Small reports that together hold every kind of claim and every verdict, to be tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from certify.cases.kernel.report import kernel_report
from certify.cases.polyprox import State, corpus
from checker_reports import Report, changed, claim_of, kernel_of, no_files, report_of, small_states

from certify.certificate import side_files
from certify.checker import check

METHODS = ("global", "local", "interval", "face")


@dataclass(frozen=True)
class Family:
    """A report with its state file and the files beside it; `chosen` are the claims to tamper with."""

    report: Report
    state: bytes
    chosen: tuple[str, ...]
    files: Callable[[str], bytes] = no_files
    own: dict[str, dict[str, Fraction]] = field(default_factory=dict)

    def claim(self, name: str) -> dict[str, Any]:
        """One claim of the report."""
        return claim_of(self.report, name)

    def sub(self, *names: str) -> Report:
        """A report of these claims and those they rest on, in the order of the whole report."""
        wanted, todo = set[str](), list(names)
        while todo:
            name = todo.pop()
            if name not in wanted:
                wanted.add(name)
                todo += rests_on(self.claim(name))
            if name.startswith("precision/update/"):
                todo += [c["id"] for c in self.report["claims"] if c["kind"] in ("rounding", "range")]
        rest = {key: value for key, value in self.report.items() if key != "required"}
        return settled(rest | {"claims": [c for c in self.report["claims"] if c["id"] in wanted]})


def rests_on(claim: dict[str, Any]) -> list[str]:
    """Ids of the claims that a claim names."""
    stage = claim["parameters"].get("stage")
    return ([stage] if stage else []) + list(claim["parameters"].get("claims", []))


def settled(report: Report) -> Report:
    """The report with the overall verdict that its claims give."""
    found = {c["verdict"] for c in report["claims"] if c["id"] in report.get("required", [c["id"]])}
    overall = "refuted" if "refuted" in found else "certified" if found == {"certified"} else "undecided"
    return report | {"verdict": overall}


def _family(
    report: Report, state: bytes, chosen: Iterable[str] = (), files: Callable[[str], bytes] = no_files
) -> Family:
    """A family whose claims are all proved again; its own numbers are those of the checker."""
    found = check(json.dumps(report).encode(), state, files)
    assert all(f.verdict == f.claimed for f in found), [f for f in found if f.verdict != f.claimed]
    everything = [f.id for f in found if f.claimed != "undecided"]
    assert set(chosen) <= set(everything)
    return Family(report, state, tuple(chosen) or tuple(everything), files, {f.id: f.proved for f in found})


def _stage(p: int, seed: int, k: int, **options: Any) -> tuple[Report, bytes]:
    options = {"formats": ("float32", "float64"), "methods": METHODS, "update_tol": 1e-3, "replay": 400} | options
    return report_of(corpus.snapshots(p, seed)[k], **options)


def _through(family: Family) -> Family:
    """Counts that go through an inner ball, which the search does not need for states this small."""
    name = "updates/float64"
    inner = (float.fromhex(family.claim(name)["parameters"]["radius"]) / 8).hex()
    report = changed(family.report, name, "parameters", "through", to=inner)
    report = changed(report, name, "bounds", "count", to="1000000")
    report = changed(report, name, "display", "count", to="1000000")
    found = {f.id: f for f in check(json.dumps(report).encode(), family.state, no_files)}
    count = str(found[name].proved["count"])
    report = changed(changed(report, name, "bounds", "count", to=count), name, "display", "count", to=count)
    return _family(report, family.state, [name])


def kernel(A: Any, x: Any) -> Any:
    """A product, a sum, a choice, and a known output."""
    y = A @ x
    return {"z": np.maximum(y * 0.3 - 1.5, 0), "s": np.sum(y * y) + 2 * y[0]}


def _kernel() -> Family:
    rng = np.random.default_rng(0)
    inputs = {"A": rng.normal(size=(2, 3)), "x": 4e4 * rng.normal(size=3)}
    with TemporaryDirectory() as folder:
        path = Path(folder)
        kernel_report(kernel, inputs, formats=["float16", "float32"], center="x", radius=0.5).write(path / "r.json")
        held = {file.name: file.read_bytes() for file in path.iterdir()}
    (state,) = (data for name, data in held.items() if name.startswith("inputs-"))

    def files(name: str) -> bytes:
        return held[name] if name in held else no_files(name)

    return _family(json.loads(held["r.json"]), state, files=files)


def called(x: Any) -> Any:
    """Functions of a library, a root, a quotient, a maximum, a selection; 'p' overflows coarse formats."""
    e = np.exp(x - np.max(x))
    return {"s": np.log(np.sum(e)), "w": np.where(x > 1, np.sqrt(np.abs(x)), np.tanh(x)) / 3, "p": x @ x}


def _called(order: str, formats: list[str]) -> Family:
    inputs = {"x": np.array([0.5, 30.0, -1.25, 1.5, 2.0])}
    report, state, files = kernel_of(called, inputs, formats=formats, order=order, radius=2.0**-9)
    return _family(report, state, files=files)


def detached(report: Any) -> tuple[Any, dict[str, bytes]]:
    """The report, good or bad, with every witness in a file that can be, however small; and those files."""
    files, claims = dict[str, bytes](), []
    for claim in report["claims"]:
        if isinstance(claim.get("witness"), dict) and "file" not in claim["witness"]:
            rest, rows = side_files._separated(claim["witness"])
            if rows:
                reference, data = side_files._file(rows)
                files[reference["file"]] = data
                claim = claim | {"witness": rest | reference}
        claims.append(claim)
    return report | {"claims": claims}, files


@cache
def families() -> dict[str, Family]:
    """All of them, by name."""
    r = 0.2800064
    pair = State(
        W=np.array([[0, 0.02], [0.02, 0]]), Sigma=np.array([[1, r / 14], [r / 14, 1]]), M=1 - np.eye(2), alpha=0.1,
        rho=0.1, gamma=0.5, lam=0.0, b=0, p_max=2,
    )  # fmt: skip
    made = {
        "stage": _family(*_stage(3, 1, 0)),
        "global": _family(
            *report_of(pair, formats=("float32", "float64"), methods=METHODS),
            ["contraction/global", "updates/float32", "precision/1e-06"],
        ),
        "refuted": _family(*_stage(3, 0, 1), ["contraction/face"]),
        "faced": _family(*_stage(5, 1, 0, step="new", methods=("face",)), ["contraction/face", "updates/float64"]),
        "states": _family(*report_of(small_states(2, rho=1e3), formats=("float16", "float32"), update_tol=1e-2)),
        "replay": _family(*_stage(3, 4, 0, step="new", methods=("face",), formats=("float64",)), ["updates/float64"]),
        "kernel": _kernel(),
        "any order": _called("any-order:float32", ["e4m3", "bfloat16,ftz"]),
        "blocks": _called("blocked(2)", ["p=9,emin=-7,emax=9", "tf32"]),
        "fused": _family(*report_of(small_states(), formats=("tf32",), order="fma", samples=1)),
    }
    return made | {"through": _through(made["replay"])}
