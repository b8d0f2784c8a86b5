"""Claims about the weights that the state stores, trained or constructed: both factorisations agree, and what is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from flint import arb, ctx

from certify.arithmetic.balls import radius
from certify.certificate import Claim, Verdict
from certify.errors import Undecided

from .instances import END, Law, N, V, second_tokens, tokens
from .oracle import Weights, blocks, factorised, stream
from .proofs import lower, upper
from .words import instances, make

PRECISION = 256
#: Of the enclosures of f1 and f2 by both forms: below 1e-50.
RADIUS = Fraction(1, 1 << 200)


def factorisation(law: Law, probe: Sequence[Weights]) -> Claim:
    """The definition on the residual stream and the factorised form, at rational weights."""
    with ctx.workprec(PRECISION):
        first, second = blocks(probe[0], probe[1]), blocks(probe[2], probe[3])
        for order in law.orders:
            one, other = stream(tokens(order), first, second), factorised(tokens(order), probe)
            for x, y in zip([*one[0], *one[1]], [*other[0], *other[1]], strict=True):
                if not ((x - y).is_finite() and (x - y).contains(0) and radius(x - y) <= RADIUS):
                    raise Undecided("the two forms are not enclosed alike", "report this")
    return make("identity/factorisation", {"orders": len(law.orders)}, bounds={"radius": RADIUS})


def decoding(law: Law, weights: Sequence[Weights]) -> list[Claim]:
    """By how much the right token leads at each step, or in which order another one does."""
    claims = []
    equivariant = all(_symmetric(w) for w in (weights[0], weights[2]))
    n = len(law.orders)
    covered = f"all {instances(law)} instances" if equivariant else f"the first labeling of each of {n} edge orders"
    for step, sequence, target in (("first", tokens, V), ("second", second_tokens, END)):
        with ctx.workprec(PRECISION):
            found = []
            for order in law.orders:
                f1 = factorised(sequence(order), weights)[0]
                found += [(f1[target] - f1[a], order, a) for a in range(N) if a != target]
            worst, order, label = min(found, key=lambda x: lower(x[0]))
        claims.append(_decoded(step, covered, worst, list(order), label))
    return claims


def _decoded(step: str, covered: str, lead: arb, order: list[int], label: int) -> Claim:
    id, parameters = f"margin/stored-{step}", {"covered": covered}
    if lead > 0:
        margin = lower(lead) * (1 - Fraction(1, 1 << 30))
        return make(id, parameters, bounds={"margin": _short(margin)})
    witness = {"order": order, "label": label}
    if lead < 0:
        reason = f"in the edge order {order} the label {label} leads by at least `excess`"
        excess = _short(lower(-lead) * (1 - Fraction(1, 1 << 30)))
        return make(id, parameters, bounds={"excess": excess}, verdict=Verdict.REFUTED, reason=reason, witness=witness)
    reason = f"in the edge order {order} the lead over label {label} is not told from 0: it is at most {float(upper(lead)):.3g}"
    return make(id, parameters, verdict=Verdict.UNDECIDED, reason=reason)


def _short(x: Fraction) -> Fraction:
    """A number of 40 bits or so below x > 0."""
    shift = 40 + x.denominator.bit_length() - x.numerator.bit_length()
    return Fraction((x * (1 << shift)).__floor__(), 1 << shift)


def _symmetric(content: Weights) -> bool:
    """Whether content weights are a I + b 1 1^T, so that labels do not matter."""
    diagonal = {content[i][i] for i in range(N)}
    others = {content[i][j] for i in range(N) for j in range(N) if i != j}
    return len(diagonal) == len(others) == 1
