"""The report on the demonstration state, made once, and what the checker finds in it or in an altered copy."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from certify.cases.case import Options
from certify.cases.meta_models import demo
from certify.cases.meta_models.case import CASE

from certify.certificate import encode
from certify.checker import Finding, Rejected, check
from certify.checker.context import Context
from certify.checker.saved import read
from certify.states import Saved
from certify.states.safetensors_file import encode_safetensors

Report = dict[str, Any]


def silent(done: int, total: int, what: str) -> None:
    """No progress."""


def only(*systems: str) -> Saved:
    """The part of the demonstration state that belongs to these systems, by their full names."""
    state = demo.state()
    keep = tuple(f"{name}_" for name in systems)
    return Saved(
        {name: x for name, x in state.tensors.items() if name.startswith(keep)},
        {name: x for name, x in state.metadata.items() if name.startswith(keep)},
    )


def made(saved: Saved, formats: tuple[str, ...] = ()) -> tuple[Report, bytes, dict[str, bytes]]:
    """A report as a dictionary, the bytes of its state file, and the files beside it."""
    report = CASE.certify(saved, Options(formats=formats, order="any-order", samples=0), silent)
    return json.loads(encode(report)), encode_safetensors(saved.tensors, saved.metadata), dict(report.beside)


@cache
def demonstration() -> tuple[Report, bytes, dict[str, bytes]]:
    """On the whole demonstration state but for the trained layers, which take seconds."""
    state = demo.state()
    names = {name.split("_")[0] for name in (*state.tensors, *state.metadata)}
    return made(only(*(name for name in names if not name.endswith("-m8"))))


def findings(report: Report, state: bytes, files: dict[str, bytes]) -> dict[str, Finding]:
    """What the checker finds, by id."""

    def beside(name: str) -> bytes:
        if name not in files:
            raise Rejected(f"there is no file {name}")
        return files[name]

    return {found.id: found for found in check(json.dumps(report).encode(), state, beside)}


@cache
def context() -> Context:
    """The checker's context of the demonstration, for claims that are altered one at a time."""
    report, state, files = demonstration()
    claims = {claim["id"]: claim for claim in report["claims"]}
    return Context(report["subject"], claims, read(state, "the state"), files.__getitem__)


def examined(claim: dict[str, Any]) -> Finding:
    """What the checker finds in a claim that takes the place of the one with its id."""
    shared = context()
    fresh = copy.copy(shared)
    fresh.findings = {name: found for name, found in shared.findings.items() if name != claim["id"]}
    return fresh.examine(claim)


def mutant(name: str, old: str, new: str) -> ModuleType:
    """A module of the case with one piece of its source replaced: a planted bug."""
    original = sys.modules[f"certify.cases.meta_models.{name}"]
    path = Path(str(original.__file__))
    source = path.read_text()
    assert source.count(old) == 1, (name, old, source.count(old))
    spec = importlib.util.spec_from_loader(f"certify.cases.meta_models.{name}_mutant", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__package__ = "certify.cases.meta_models"
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(source.replace(old, new), str(path), "exec"), module.__dict__)
    return module


def as_json(claim: Any) -> dict[str, Any]:
    """A claim as the report has it."""
    found: dict[str, Any] = json.loads(json.dumps(claim.to_json()))
    return found


Plant = Callable[[], list[Any]]
