"""Claims with a probability: error bounds under stochastic rounding, apart from everything that is proved about a program."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from certify.cases.claims import Subject
from certify.cases.programs import TO_NEAREST, program_assumptions

from certify.arithmetic import Format
from certify.arithmetic.directed import relaxed_up
from certify.arithmetic.libm import Libm
from certify.certificate import Claim, Verdict, decimal_up, to_hex, to_text
from certify.certificate.claims import STOCHASTIC
from certify.certificate.numbers import probability_text
from certify.rounding import Region, probable


def probable_claim(
    subject: Subject,
    format: Format,
    where: Mapping[str, str],
    region: Region,
    confidence: Fraction,
    libm: str | Libm | None = None,
) -> Claim:
    """The claim that, with this probability, every output is within its bound of the exact one under stochastic rounding.

    `where` describes the region, as in `certify.cases.claims.analyse`. No verdict of a report rests on it.

    Raises
    ------
    InputRejected : stochastic rounding has no model of what the program uses, or as for `probable`.
    """
    found = probable(subject.graph, format, region, confidence=confidence, libm=libm)
    overflow = found.every_outcome.first_overflow()
    bounds = {f"probable_{name}": relaxed_up(found.norm_of(name)) for name in subject.graph.outputs}
    proved = overflow is None and all(np.isfinite(value) for value in bounds.values())
    reason = "the bound is infinite" if overflow is None else f"not excluded: {found.every_outcome.why(overflow)}"
    program = program_assumptions(format, subject.graph.order, subject.graph.format_names)
    assumed = [sentence for sentence in program if sentence != TO_NEAREST]
    everywhere = subject.wording.everywhere(where)
    text = probability_text(confidence)
    return Claim(
        id=f"rounding-probable/{format.name}/{subject.graph.order}/{where['kind']}{subject.suffix}",
        kind="rounding-probable",
        statement=f"{everywhere}, with probability at least {text} in a run with stochastic rounding, the program in "
        f"{format.name}, inputs converted first, returns each output X within probable_X (Frobenius norm) of the exact one, "
        "all outputs at once.",
        semantics=STOCHASTIC,
        parameters={
            **subject.parameters,
            "format": format.name,
            "order": subject.graph.order,
            "region": dict(where),
            "confidence": to_text(confidence),
        },
        verdict=Verdict.CERTIFIED if proved else Verdict.UNDECIDED,
        reason="" if proved else reason,
        bounds={name: to_hex(value) for name, value in bounds.items()} if proved else {},
        assumptions=[*found.assumptions(), *assumed, *subject.further],
        theorem="docs/theory/probable.md#bound",
        display={"confidence": text, **({n: decimal_up(v) for n, v in bounds.items()} if proved else {})},
    )
