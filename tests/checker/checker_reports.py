"""Reports for the checker's tests, as the producer makes them, and ways to spoil them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from certify.cases.case import Options
from certify.cases.kernel.report import kernel_report
from certify.cases.polyprox import State, saved_from
from certify.cases.polyprox.case import PolyProx

from certify.certificate import encode
from certify.checker import Finding, Rejected, check
from certify.graph.graph_file import graph_tensors
from certify.states.safetensors_file import encode_safetensors

Report = dict[str, Any]


def small_states(count: int = 1, **changes: Any) -> State | list[State]:
    """One state of three variables, or a trajectory of such; rho grows a thousandfold from each to the next."""
    rng = np.random.default_rng(5)
    mask = 1 - np.eye(3)
    X = rng.normal(size=(9, 3))
    Sigma = X.T @ X / 9
    values = {"alpha": 0.5, "rho": 1.0, "gamma": 0.125, "lam": 0.1, "b": 1, "p_max": 4} | changes
    W = rng.normal(size=(count, 3, 3)) * mask / 3
    states = [
        State(W=W[k], Sigma=(Sigma + Sigma.T) / 2, M=mask, **{**values, "rho": values["rho"] * 1000.0**k})
        for k in range(count)
    ]
    return states[0] if count == 1 else states


def random_state(rng: np.random.Generator, p: int, p_max: int, b: int, density: float, scale: float) -> State:
    """A state with about `density` of the edges and a sampled covariance; a full W has a norm of about `scale`."""
    M = (rng.random((p, p)) < density) & ~np.eye(p, dtype=bool)
    X = rng.normal(size=(3 * p, p))
    W = rng.normal(size=(p, p)) * M * (scale / p)
    alpha, rho, gamma, lam = rng.uniform((0.1, 0.1, 0.05, 0), (2, 2, 0.3, 0.5)).tolist()
    Sigma = X.T @ X / (3 * p)
    return State(W=W, Sigma=(Sigma + Sigma.T) / 2, M=M, b=b, p_max=p_max, alpha=alpha, rho=rho, gamma=gamma, lam=lam)


def report_of(states: State | list[State], **options: Any) -> tuple[Report, bytes]:
    """A report without stage claims as a dictionary, and the bytes of its state file."""
    saved = saved_from(states)
    chosen = Options(**{"samples": 1, **options})
    report = PolyProx().certify(saved, chosen, lambda done, total, what: None)
    return json.loads(encode(report)), encode_safetensors(saved.tensors, saved.metadata)


def no_files(name: str) -> bytes:
    """A report without files beside it."""
    raise Rejected(f"there is no file {name}")


def findings(report: Report, state: bytes, files: Callable[[str], bytes] = no_files) -> dict[str, Finding]:
    """What the checker finds, by claim."""
    return {f.id: f for f in check(json.dumps(report).encode(), state, files)}


def changed(report: Report, claim: str, *path: str | int, to: Any) -> Report:
    """The report with one value of one claim replaced."""
    report = copy.deepcopy(report)
    (place,) = (c for c in report["claims"] if c["id"] == claim)
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return report


def claim_of(report: Report, name: str) -> dict[str, Any]:
    """One claim of a report."""
    (claim,) = (c for c in report["claims"] if c["id"] == name)
    return claim


def alone(report: Report, name: str) -> Report:
    """A report of one claim of this one."""
    claim = claim_of(report, name)
    rest = {key: value for key, value in report.items() if key != "required"}
    return rest | {"claims": [claim], "verdict": claim["verdict"]}


def kernel_of(kernel: Any, inputs: Any, **options: Any) -> tuple[Report, bytes, Callable[[str], bytes]]:
    """A report on a kernel, the bytes of its input file, and what reads its graph file."""
    made = kernel_report(kernel, inputs, **{"samples": 0, **options})
    report, graph = json.loads(encode(made)), graph_tensors(made.graph)
    held = {report["subject"]["graph"]["file"]: encode_safetensors(graph.tensors, graph.metadata)}
    return report, encode_safetensors(made.inputs, {}), lambda name: held[name] if name in held else no_files(name)
