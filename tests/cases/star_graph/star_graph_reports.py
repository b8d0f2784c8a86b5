"""Reports of the case as the checker sees them, from the demo's state or from one with another law."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import lru_cache
from typing import Any

from certify.cases.case import Options
from certify.cases.kernels import case_report
from certify.cases.star_graph.audit import claims_of
from certify.cases.star_graph.case import CASE
from certify.cases.star_graph.instances import FORWARD, UNIFORM, Law
from certify.cases.star_graph.state import CONTROLS, circuit_weights, saved_from, state_from

from certify.checker import check
from certify.states import Saved
from certify.states.safetensors_file import encode_safetensors

LAWS = {"uniform": UNIFORM, "forward": FORWARD, "weighed": Law(UNIFORM.orders[3:15], tuple(range(1, 13)))}
LAWS |= {"first": Law(UNIFORM.orders[:1], (1,)), "end first": Law(UNIFORM.orders[6:12], (1,) * 6)}


def quiet(*_: Any) -> None:
    """No progress."""


@lru_cache
def saved(law: str = "uniform", gamma: float = 4.0) -> Saved:
    """The circuit at gamma, under a law."""
    return saved_from(circuit_weights(gamma), Fraction(gamma), LAWS[law])


@lru_cache
def uniform_claims() -> list[Any]:
    """What is claimed of the circuit under the uniform law, and of published statements."""
    return claims_of(state_from(saved()))


def produced(state: Saved, formats: tuple[str, ...] = ("float32",)) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A report as JSON values, and the files beside it."""
    report = CASE.certify(state, Options(formats=formats), quiet)
    return report.to_json(), dict(report.beside)


def about(state: Saved, claims: list[Any]) -> dict[str, Any]:
    """A report of some claims alone, about the state."""
    ids = [claim.id for claim in claims]
    return case_report("star_graph", state, claims, controls=CONTROLS, required=ids).to_json()


def findings(report: dict[str, Any], state: Saved, files: dict[str, bytes] | None = None) -> dict[str, Any]:
    """What the checker says of each claim."""
    data = encode_safetensors(state.tensors, state.metadata)
    found = check(json.dumps(report).encode(), data, (files or {}).__getitem__, lambda *_: None)
    return {x.id: x for x in found}
