"""Stage claims as the producer makes them, and a context to check them in without files."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from certify.cases.case import Options
from certify.cases.polyprox import State, corpus
from certify.cases.polyprox.stage.claims import StageCertifier

from certify.arithmetic import format_named
from certify.checker import saved
from certify.checker.context import Context
from certify.checker.document import Finding, Rejected

Claim = dict[str, Any]
FORMATS = ("float32", "float64")


class StageContext(Context):
    """Claims about one state that is no file."""

    def __init__(self, state: State, claims: list[Claim]) -> None:
        self.claims = {claim["id"]: claim for claim in claims}
        self.case, self.cache, self.findings, self.several = "polyprox", {}, {}, False
        self.only = plain(state)

    def state(self, k: Any) -> saved.State:
        """The state."""
        if type(k) is not int or k != 0:
            raise Rejected("there is no such state")
        return self.only


def plain(state: State, **changes: Any) -> saved.State:
    """The checker's form of a producer's state."""
    values = {f.name: getattr(state, f.name) for f in fields(saved.State)} | changes
    return saved.State(**{name: x.tolist() if hasattr(x, "tolist") else x for name, x in values.items()})


def claims_of(state: State, formats: tuple[str, ...] = FORMATS, **options: Any) -> list[Claim]:
    """The claims about the fixed stage of a state, as a report holds them."""
    chosen = Options(**{"methods": ("global", "local", "interval", "face"), **options})
    return [claim.to_json() for claim in StageCertifier(state, chosen, [format_named(x) for x in formats]).claims()]


@cache
def snapshot(p: int, seed: int, k: int) -> State:
    """A state of the corpus."""
    return corpus.snapshots(p, seed)[k]


@cache
def _corpus_claims(p: int, seed: int, k: int, step: str, replay: int) -> list[Claim]:
    return claims_of(snapshot(p, seed, k), step=step, replay=replay)


def corpus_claims(p: int, seed: int, k: int, step: str, replay: int = 400) -> list[Claim]:
    """The stage claims about a state of the corpus."""
    return copy.deepcopy(_corpus_claims(p, seed, k, step, replay))


def findings(state: State, claims: list[Claim]) -> dict[str, Finding]:
    """What the checker finds on each claim that is not undecided."""
    context = StageContext(state, claims)
    return {c["id"]: context.examine(c) for c in claims if c["verdict"] != "undecided"}


def spoiled(state: State, claims: list[Claim], name: str, change: Callable[[Claim], object]) -> Finding:
    """The finding on one claim after it has been changed."""
    claims = copy.deepcopy(claims)
    claim = next(c for c in claims if c["id"] == name)
    change(claim)
    return StageContext(state, claims).examine(claim)
