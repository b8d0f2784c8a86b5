"""Claims about the circuit of Corollary 1 at every gamma: threshold, constants, the second step and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from certify.certificate import Claim, Verdict, to_text
from certify.errors import Undecided

from .circuit import OTHERS, TAIL, Circuit, Variables, at, ball, between, beyond, first, second
from .instances import EDGES, END, Law, Order, T, V
from .proofs import PRECISION, bracket, lower, require_positive, rounded_down, rounded_up, sampled, upper
from .words import instances, law_words, make, refuted

#: From here on the gradient of L1b is bounded below.
LEAST = Fraction(5)
LABELS = ("star", "v", "end", "v'", "end'")


def circuit_claims(law: Law, gamma: Fraction) -> list[Claim]:
    """All of them, for the edge orders of a law and one gamma. Raises Undecided."""
    n = instances(law)
    here = between(gamma, gamma)
    return [
        first_step(law, gamma, here),
        threshold(law),
        *constants(law),
        *limits(law),
        *second_step(law),
        *second_gradient(law),
        make("identity/shallow-output", {"instances": n}, bounds={"end": 1, "others": 1}),
    ]


def first_step(law: Law, gamma: Fraction, here: arb) -> Claim:
    """The least lead of v at one gamma; refuted where another label leads in some order."""
    with ctx.workprec(PRECISION):
        at_here = at(here)
        leads = [
            (circuit.lead(V, a, at_here) / circuit.total(at_here), order, a)
            for order, circuit in zip(law.orders, map(first, law.orders), strict=True)
            for a in OTHERS
        ]
    worst, order, label = min(leads, key=lambda x: lower(x[0]))
    parameters = {"gamma": to_text(gamma), "instances": instances(law)}
    if (margin := rounded_down(lower(worst))) > 0:
        return make("margin/first-step", parameters, bounds={"margin": margin})
    if (excess := rounded_down(lower(-worst))) > 0:
        reason = f"in the edge order {spoken(order)} f1[{LABELS[label]}] - f1[v] is at least `excess`"
        witness = {"order": list(order), "label": label}
        bounds = {"excess": excess}
        return make(
            "margin/first-step", parameters, bounds=bounds, verdict=Verdict.REFUTED, reason=reason, witness=witness
        )
    reason = f"the least lead is {float(worst):.3g}: too near 0 to publish"
    return make("margin/first-step", parameters, verdict=Verdict.UNDECIDED, reason=reason)


def threshold(law: Law) -> Claim:
    """Where the first step becomes right for every edge order, within 2**-WIDTH."""
    found = []
    for order in law.orders:
        circuit = first(order)
        for other in OTHERS:
            f = leading(circuit, other)
            if min(sampled(f, Fraction(0), Fraction(TAIL), 64)) < 0:
                found.append((*bracket(f, Fraction(0), Fraction(TAIL)), order, other))
    if not found:
        return always_right(law)
    low, high, worst, other = max(found, key=lambda x: x[1])
    high = max(high, low + Fraction(1, 1 << 48))  # leaves room for orders that cross at the same place
    for order in law.orders:
        for label in OTHERS:
            require_positive(leading(first(order), label), high)
    lead = leading(first(worst), other)
    require_positive(lambda v: -lead(v), Fraction(0), low)
    parameters = {"instances": instances(law), "order": list(worst), "worst": spoken(worst)}
    return make("margin/threshold", parameters, bounds={"low": low, "high": high})


def always_right(law: Law) -> Claim:
    """The least lead of v over all gammas, for a law under which no edge order begins wrong."""
    leads = [_share_lead(first(order), V, label) for order in law.orders for label in OTHERS]
    least = min(min(sampled(f, Fraction(0), Fraction(TAIL))) for f in leads)
    margin = rounded_down(Fraction(least) * Fraction(99, 100))
    for f in leads:
        require_positive(_above(f, margin), Fraction(0))
    return make("margin/always-right", {"instances": instances(law)}, bounds={"margin": margin})


def constants(law: Law) -> list[Claim]:
    """The suprema of e^gamma times the errors of the first step and of attention."""
    claims = []
    for name, measure in (("first", Circuit.first_error), ("attention", Circuit.attention_error)):
        circuits = [first(order) for order in law.orders]
        if name == "attention":  # which depends on how often each label occurs, and on nothing else
            circuits = list({tuple(sorted(c.occurrences)): c for c in circuits}.values())
        functions = [_bound(measure, c) for c in circuits]
        best = max(functions, key=lambda f: max(sampled(f, Fraction(3), Fraction(6), 24)))
        coarse = sampled(best, Fraction(3), Fraction(6), 48)
        near = Fraction(3) + Fraction(3, 48) * coarse.index(max(coarse))
        fine = sampled(best, near - Fraction(1, 16), near + Fraction(1, 16), 64)
        where = near - Fraction(1, 16) + Fraction(1, 512) * fine.index(max(fine))
        top = Fraction(max(fine))
        low, high = rounded_down(top), rounded_up(top + Fraction(1, 1000))
        for f in functions:
            require_positive(_below(f, high), Fraction(0))
        with ctx.workprec(PRECISION):
            if not best(at(between(where, where))) >= ball(low):
                raise Undecided("the supremum is not attained where it was found", "take more bits")
        witness = {"gamma": to_text(where)}
        bounds = {"low": low, "high": high}
        claims.append(make(f"enclosure/{name}-constant", {"instances": instances(law)}, bounds=bounds, witness=witness))
    return claims


def limits(law: Law) -> list[Claim]:
    """The integers that e^gamma (1 - f1[v]) tends to, how near it is from TAIL on, and their mean."""
    circuits = [first(order) for order in law.orders]
    with ctx.workprec(PRECISION):
        tail = beyond(Fraction(TAIL))
        away = [c.first_error(tail) - c.limit() for c in circuits]
        low, high = min(map(lower, away)), max(map(upper, away))
    values = [c.limit() for c in circuits]
    near = make(
        "enclosure/first-limit",
        {"least": str(TAIL), "limits": values},
        bounds={"low": rounded_down(low), "high": rounded_up(high)},
    )
    mean = law.mean([Fraction(x) for x in values])
    return [near, make("expectation/first-limit", {"law": law_words(law)}, bounds={"value": mean})]


def second_step(law: Law) -> list[Claim]:
    """The circuit says v again: by how much, what that costs, and the published statement that this refutes."""
    circuits = [second(order) for order in law.orders]
    found = [min(sampled(_share_lead(c, V, END), Fraction(0), Fraction(TAIL))) for c in circuits]
    margin = rounded_down(Fraction(min(found)) * Fraction(99, 100))
    for c in circuits:
        require_positive(_above(_share_lead(c, V, END), margin), Fraction(0))
    with ctx.workprec(PRECISION):
        away = [-c.end_share(beyond(Fraction(TAIL))).log() for c in circuits]
        low, high = min(map(lower, away)), max(map(upper, away))
    n = instances(law)
    return [
        make("margin/second-step", {"instances": n}, bounds={"margin": margin}),
        make(
            "enclosure/second-loss",
            {"least": str(TAIL), "instances": n},
            bounds={"low": rounded_down(low), "high": rounded_up(high)},
        ),
        refuted(
            "perfect",
            {"instances": n},
            "after v the circuit says v again: f1(Z')[v] - f1(Z')[end] is at least `margin` at every gamma >= 0 in every "
            "instance",
            {"order": list(law.orders[0])},
            margin=margin,
        ),
    ]


def second_gradient(law: Law) -> list[Claim]:
    """The gradient of L1b does not vanish with gamma, in no instance and not in the mean."""
    circuits = [second(order) for order in law.orders]

    def mean(v: Variables) -> arb:
        rows = [c.row(v) for c in circuits]
        shares = [ball(Fraction(w, law.total)) for w in law.weights]
        return norm_squared([sum((s * row[j] for s, row in zip(shares, rows, strict=True)), arb(0)) for j in range(T)])

    each = [_row_squared(c) for c in circuits]
    single = min(min(sampled(f, LEAST, Fraction(TAIL), 28)) for f in each)
    margins = []
    for functions, value in ((each, single), ([mean], min(sampled(mean, LEAST, Fraction(TAIL), 28)))):
        margin = rounded_down(Fraction(value**0.5) * Fraction(99, 100))
        for f in functions:
            require_positive(_above(f, margin * margin), LEAST)
        margins.append(margin)
    n, least = instances(law), to_text(LEAST)
    return [
        make("margin/second-gradient", {"least": least, "instances": n}, bounds={"margin": margins[0]}),
        make("margin/mean-second-gradient", {"least": least, "law": law_words(law)}, bounds={"margin": margins[1]}),
        refuted(
            "small-gradient",
            {"least": least, "instances": n},
            "the factor 1/f1 ~ e^gamma / 3 cancels the Jacobian: row T-1 alone has norm at least `margin` at every such "
            "gamma, in every instance",
            {"order": list(law.orders[0]), "row": T - 1},
            margin=margins[0],
        ),
    ]


def spoken(order: Order) -> str:
    """An edge order in words."""
    return ", ".join("-".join(LABELS[node] for node in EDGES[k]) for k in order)


def leading(circuit: Circuit, other: int) -> Callable[[Variables], arb]:
    """The lead of v over another label, times D > 0."""
    return lambda v: circuit.lead(V, other, v)


def norm_squared(row: list[arb]) -> arb:
    """The squared Euclidean norm."""
    return sum((x * x for x in row), arb(0))


def _bound(measure: Callable[[Circuit, Variables], arb], circuit: Circuit) -> Callable[[Variables], arb]:
    return lambda v: measure(circuit, v)


def _below(f: Callable[[Variables], arb], high: Fraction) -> Callable[[Variables], arb]:
    return lambda v: ball(high) - f(v)


def _above(f: Callable[[Variables], arb], low: Fraction) -> Callable[[Variables], arb]:
    return lambda v: f(v) - ball(low)


def _share_lead(circuit: Circuit, node: int, other: int) -> Callable[[Variables], arb]:
    return lambda v: circuit.lead(node, other, v) / circuit.total(v)


def _row_squared(circuit: Circuit) -> Callable[[Variables], arb]:
    return lambda v: norm_squared(circuit.row(v))
