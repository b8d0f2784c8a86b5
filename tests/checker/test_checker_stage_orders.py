"""Stage claims in other orders of sums and other formats: proved again, and not if the order is exchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certify.cases.polyprox.stage.polish import polish
from stage_reports import claims_of, findings, snapshot

ORDERS = ("pairwise", "blocked(2)", "fma", "any-order", "serial:float32", "any-order:float64")


@pytest.mark.parametrize("order", ORDERS)
def test_stage_claims_of_every_order(order: str) -> None:
    """Contraction, counts in three formats, and the format that is enough, of which the accumulator may hold no number."""
    state = snapshot(3, 5, 0)
    state = replace(state, W=polish(state).U)
    claims = claims_of(state, ("tf32", "float32", "float64"), methods=("face",), order=order, tol=0.05)
    assert {(c["kind"], c["verdict"]) for c in claims} >= {
        (kind, "certified") for kind in ("contraction", "updates", "precision")
    }
    for name, finding in findings(state, claims).items():
        assert finding.verdict == finding.claimed, f"{name}: {finding.sentence}"


@pytest.mark.parametrize("kind", ["contraction", "updates", "precision"])
def test_another_order_is_another_claim(kind: str) -> None:
    """A claim of one program is none of every program, nor the other way round; an order that there is not is refused."""
    state = snapshot(3, 5, 0)
    state = replace(state, W=polish(state).U)
    for made, changed in (("serial", "any-order"), ("any-order", "serial"), ("serial", "serially"), ("serial", 7)):
        claims = claims_of(state, ("float64",), methods=("face",), order=made)
        (claim,) = (c for c in claims if c["kind"] == kind)
        claim["parameters"]["order"] = changed
        assert findings(state, claims)[claim["id"]].verdict == "rejected"


def test_formats_without_a_name_of_their_own() -> None:
    """fp8, a user's format and flushing, coarse to fine."""
    state = snapshot(3, 5, 0)
    state = replace(state, W=polish(state).U)
    formats = ("e5m2", "p=16,emin=-60,emax=60", "float32,ftz")
    found = findings(state, claims_of(state, formats, methods=("face",), tol=0.2))
    assert sum(finding.claimed == "certified" for finding in found.values()) >= 3
    for name, finding in found.items():
        assert finding.verdict == finding.claimed, f"{name}: {finding.sentence}"
