"""Claims about Phase I: its rate for every t, and where the flow is at a few times."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from flint import arb, ctx, fmpq, fmpq_poly

from certify.certificate import Claim
from certify.errors import Undecided

from .flow import PRECISION, Flow
from .proofs import lower, upper
from .words import make

TIMES = (1, 10, 100)
#: The state's law if the end node is at each even position equally often; and the text's E u_t = 1/8.
FLOWS = (Flow(4, 5), Flow(8, 1))


def flow_claims(times: Sequence[int] = TIMES) -> list[Claim]:
    """Both flows, and where they are at some of TIMES. Raises Undecided."""
    claims = []
    for flow in FLOWS:
        claims.append(rate(flow))
        for t, x in zip(times, flow.enclosed(times), strict=True):
            with ctx.workprec(PRECISION):
                if not flow.rate(x, t) >= 0:
                    raise Undecided(f"the rate is not confirmed at t = {t}", "report this")
            parameters = {"m": flow.m, "t": t}
            claims.append(make(f"enclosure/phase-one/m={flow.m}/t={t}", parameters, bounds=outward(x)))
    return claims


def rate(flow: Flow) -> Claim:
    """(x - 1/m)(x + m) - (x - 1)(x + 1) = (m - 1/m) x: the numerator of the bound on a'."""
    m = flow.m
    numerator = fmpq_poly([fmpq(-1, m), 1]) * fmpq_poly([m, 1]) - fmpq_poly([-1, 1]) * fmpq_poly([1, 1])
    if numerator != fmpq_poly([0, fmpq(m * m - 1, m)]):
        raise Undecided("the numerator is another polynomial", "report this")
    parameters = {"m": m, "m_plus_1": m + 1, "m_minus_1": m - 1}
    return make(f"margin/phase-one/m={m}", parameters, bounds={"margin": 0, "rate": m - Fraction(1, m)})


def outward(x: arb) -> dict[str, Fraction]:
    """The ends of a ball with six decimals, a unit further out, so that other arithmetic proves them again."""
    scale = 10**6
    low, high = lower(x) * scale, upper(x) * scale
    return {"low": Fraction(low.__floor__() - 1, scale), "high": Fraction(high.__ceil__() + 1, scale)}
