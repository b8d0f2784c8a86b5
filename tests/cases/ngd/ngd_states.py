"""States of the case ngd for tests, small enough for seconds, and what the checker makes of reports on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from certify.cases.case import Options
from certify.cases.ngd import corpus, train
from certify.cases.ngd.case import CASE
from certify.cases.ngd.state import Context, state_of

from certify.certificate import encode
from certify.checker import Finding, Rejected, check
from certify.states import Saved
from certify.states.safetensors_file import encode_safetensors

Report = dict[str, Any]
OPTIONS = Options(order="any-order", formats=("float16", "float32"), samples=0)


@cache
def small() -> Saved:
    """Four contexts, with layers, steps, trained weights and few examples, a batch and a problem of each kind."""
    data = corpus.dataset(12, 3, 0)
    parts = [
        corpus.context("layers", data, (3, 0, 4), 5, C1="1/4", layers=6),
        corpus.context("steps", data, (0, 0, 0), C1="1/10", steps=60),
        corpus.batch(),
        trained(),
        corpus.context("few", corpus.dataset(3, 2, 0), (1, 2), 4, C1="1/4", C2="1/2", layers=1, star=False),
    ]
    tables = {"population": [[20, 1, 1]], "closed": [[60, 20, 1, 1]], "accuracies": [[1, 2], [1, 5]]}
    arrays = {name: np.array(rows, dtype=np.int64) for name, rows in tables.items()}
    return corpus.joined([*parts, Saved(arrays)])


def trained() -> Saved:
    """A layer after thirty steps of training with small batches."""
    curve = train.train_layer(8, 3, 1.0, steps=30, K=50)
    return train.saved(curve.V, curve.W, 8, 3, curve.scalars[-1], layers=4)


def context_of(name: str, saved: Saved | None = None) -> Context:
    """One context of a state."""
    (found,) = (c for c in state_of(saved or small()).contexts if c.name == name)
    return found


def report_on(saved: Saved, options: Options = OPTIONS) -> tuple[Report, bytes, Callable[[str], bytes]]:
    """A report as a dictionary, the bytes of its state file, and what reads the files beside it."""
    made = CASE.certify(saved, options, lambda done, total, what: None)
    return (
        json.loads(encode(made)),
        encode_safetensors(saved.tensors, saved.metadata),
        lambda name: made.beside[name] if name in made.beside else missing(name),
    )


def missing(name: str) -> bytes:
    """A file that is not there."""
    raise Rejected(f"there is no file {name}")


@cache
def healthy() -> tuple[Report, bytes, Callable[[str], bytes]]:
    """The report on the small state."""
    return report_on(small())


def findings(report: Report, state: bytes, files: Callable[[str], bytes]) -> dict[str, Finding]:
    """What the checker finds, by claim."""
    return {found.id: found for found in check(json.dumps(report).encode(), state, files)}


def only(report: Report, wanted: Callable[[str], bool]) -> Report:
    """The report without the claims whose ids are not wanted."""
    claims = [claim for claim in report["claims"] if wanted(claim["id"])]
    verdicts = {claim["verdict"] for claim in claims}
    overall = "certified" if verdicts == {"certified"} else "undecided"
    return {**{k: v for k, v in report.items() if k != "required"}, "claims": claims, "verdict": overall}
