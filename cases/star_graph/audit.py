"""The paper's statements beside what is proved of them: `python -m certify.cases.star_graph.audit [STATE]`.

The table is made from the claims themselves, under the edge-order law of the state (without one, that of the demo:
uniform). It is about the statements as extracted from the text, which may have lost a qualifier.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from certify.certificate import Claim, Verdict
from certify.states import load

from .case import CASE
from .circuit_claims import circuit_claims
from .exact_claims import exact_claims
from .flow_claims import flow_claims
from .state import State, state_from
from .words import law_words

#: Published statements that hold, by the claim that says so.
HOLD = {
    "identity/decoupling": "Lemma 5: L2 has no gradient in layer 2, and in W1 of layer 1 only in row T",
    "identity/stationary": "Theorem 1: L2 and L1a are stationary at the one-hot attention of the circuit",
    "enclosure/first-constant": "Corollary 1: L1a deviates by O(e^-gamma)",
    "enclosure/attention-constant": "Corollary 1: S2[T, t_end] deviates by O(e^-gamma)",
    "identity/shallow-output": "Corollary 1: L2 deviates by O(e^-gamma)",
    "margin/threshold": "Section 5.2: the circuit finds v, for gamma large enough",
    "enclosure/second-loss": "Corollary 2: L1b = gamma + O(1)",
    "margin/second-step": "Corollary 2: f1(Z') is v instead of the end node",
    "margin/mean-slope": "Theorem 3: the signs of E dmu/dw(k)",
    "margin/phase-one/m=8": "Theorem 2, Phase I with E u_t = 1/8: w(1) grows beyond all bounds",
    "margin/phase-one/m=4": "Theorem 2, Phase I with E u_t = 1/4 at even t: the same",
    "identity/arithmetic": "Theorem 3: the arithmetic of its two numbers",
}


def claims_of(state: State) -> list[Claim]:
    """All claims that do not depend on the stored weights. Raises Undecided."""
    return [*circuit_claims(state.law, state.gamma), *exact_claims(state.law), *flow_claims()]


def audit(claims: Sequence[Claim]) -> list[Claim]:
    """Those that bear on a published statement, first the ones that hold."""
    return [c for c in claims if c.id in HOLD] + [c for c in claims if c.kind == "counterexample"]


def table(claims: Sequence[Claim]) -> str:
    """A row for each claim: the published statement, the verdict, and what is true."""
    lines = ["| published | verdict | what is proved | claim |", "| --- | --- | --- | --- |"]
    for claim in claims:
        refuted = claim.verdict is Verdict.REFUTED
        published = f"{claim.parameters['published']} ({claim.parameters['source']})" if refuted else HOLD[claim.id]
        numbers = ", ".join(f"{name} = {shown(text)}" for name, text in list(claim.bounds.items())[:2])
        found = claim.reason if refuted else claim.statement
        lines.append(
            f"| {published} | {claim.verdict.value} | {found}{f' ({numbers})' if numbers else ''} | `{claim.id}` |"
        )
    return "\n".join(lines)


def shown(text: str) -> str:
    """A number for people: short ratios as they are, others as a decimal to ten digits."""
    from certify.certificate import parse

    value = parse(text)
    return str(value) if len(str(value)) <= 12 else f"{float(value):.10g}"


def main() -> None:
    """Print the table for a state file, or for the demo's."""
    parser = argparse.ArgumentParser("python -m certify.cases.star_graph.audit", description="The audit as a table.")
    parser.add_argument("state", nargs="?", type=Path, help="a state of the case; its law is that of the table")
    given = parser.parse_args()
    saved = load(given.state) if given.state else CASE.demo(lambda *_: None)[0]
    state = state_from(saved)
    print(f"{law_words(state.law)}\n\n{table(audit(claims_of(state)))}")


if __name__ == "__main__":
    main()
