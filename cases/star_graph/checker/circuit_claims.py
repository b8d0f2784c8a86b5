"""Checks of the claims about the circuit at every gamma."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from flint import arb, ctx

from certify.checker.document import Beyond, Claim, Finding, Rejected, number, proved

from . import circuit
from .circuit import BITS, TAIL, Circuit, Point, box, exact, firsts, require_positive, seconds, tail
from .setting import EDGES, LABELS, Setting, setting_of
from .words import exactly, require_words

#: Boxes for a gradient row, of which one takes as long as ten of another function.
MOST_ROWS = 2000
_OTHERS = [label for label in LABELS if label != "v"]


def first_step(claim: Claim, context: Any) -> Finding:
    """The lead of v at the gamma of the state."""
    setting, gamma = setting_of(context), context.controls["gamma"]
    text = claim["parameters"].get("gamma")
    if number(text) != gamma:
        raise Rejected("its gamma is not that of the state")
    own, refuted = {"gamma": text, "instances": setting.instances}, claim["verdict"] == "refuted"
    require_words(claim, context, own, ["excess" if refuted else "margin"], "refuted" if refuted else "certified")
    with ctx.workprec(BITS):
        here = box(gamma, gamma)
        if refuted:
            excess = number(claim["bounds"]["excess"])
            order, label = ((claim["witness"] or {}).get(name) for name in ("order", "label"))
            orders = list(map(list, setting.orders))
            if order not in orders or type(label) is not int or label not in (0, 2, 3, 4):
                raise Rejected("its witness is no order of the state with another label than v")
            c = firsts(setting)[orders.index(order)]
            ahead = circuit.lead(c, LABELS[label], "v", here) >= exact(excess) * here.value(c.total(here))
            _require(excess > 0 and ahead, "the label of the witness is not proved to lead by `excess`")
            return proved(claim, excess=excess)
        margin = number(claim["bounds"]["margin"])
        _require(margin > 0, "its margin is not positive")
        for c in firsts(setting):
            D = here.value(c.total(here))
            for other in _OTHERS:
                ahead = circuit.lead(c, "v", other, here) >= exact(margin) * D
                _require(ahead, "the lead of v is not proved to be `margin`")
    return proved(claim, margin=margin)


def threshold(claim: Claim, context: Any) -> Finding:
    """Right from `high` on in every order; wrong up to `low` in the stated one."""
    setting, order = setting_of(context), claim["parameters"].get("order")
    if not isinstance(order, list) or tuple(order) not in setting.orders:
        raise Rejected("its order is none of the state")
    worst = ", ".join("-".join(EDGES[k]) for k in order)
    own = {"instances": setting.instances, "order": order, "worst": worst}
    require_words(claim, context, own, ["low", "high"])
    low, high = (number(claim["bounds"][name]) for name in ("low", "high"))
    if not 0 <= low <= high:
        raise Rejected("its bracket has no ends in order")
    for c in firsts(setting):
        for other in _OTHERS:
            require_positive(partial(circuit.lead, c, "v", other), high, None)
    bad = firsts(setting)[setting.orders.index(tuple(order))]

    def behind(at: Point) -> arb:
        leads = [circuit.lead(bad, other, "v", at) for other in _OTHERS]
        top = leads[0]
        for x in leads[1:]:
            top = top.max(x)
        return top

    require_positive(behind, Fraction(0), low)
    return proved(claim, low=low, high=high)


def constant(measure: Callable[[Circuit, Point], arb], claim: Claim, context: Any) -> Finding:
    """A supremum: never above `high`, and at least `low` at the gamma of the witness in some order."""
    setting = setting_of(context)
    require_words(claim, context, {"instances": setting.instances}, ["low", "high"])
    low, high = (number(claim["bounds"][name]) for name in ("low", "high"))
    kinds = {(tuple(c.exponents), tuple(map(tuple, c.mass.values()))): c for c in firsts(setting)}
    if measure is circuit.attention_error:  # of which the order of the tokens does not matter
        kinds = {tuple(sorted(c.exponents)): c for c in kinds.values()}  # type: ignore[misc]
    for c in kinds.values():
        require_positive(lambda at, c=c: exact(high) - measure(c, at), Fraction(0), None)  # type: ignore[misc]
    where = number((claim["witness"] or {}).get("gamma"))
    if where < 0:
        raise Rejected("its witness is a gamma below 0")
    with ctx.workprec(BITS):
        at = box(where, where)
        _require(any(measure(c, at) >= exact(low) for c in kinds.values()), "`low` is not reached at the witness")
    return proved(claim, low=low, high=high)


def first_limit(claim: Claim, context: Any) -> Finding:
    """The integers, from one exact evaluation at x = y = 0, and how near the others are."""
    setting = setting_of(context)
    limits = _limits(setting)
    own: dict[str, Any] = {"least": str(TAIL), "limits": limits}
    require_words(claim, context, own, ["low", "high"])
    low, high = (number(claim["bounds"][name]) for name in ("low", "high"))
    with ctx.workprec(BITS):
        at = tail(Fraction(TAIL))
        for c, limit in zip(firsts(setting), limits, strict=True):
            away = circuit.first_error(c, at) - limit
            _require(exact(low) <= away <= exact(high), "the distance from the limit is not proved")
    return proved(claim, low=low, high=high)


def mean_limit(claim: Claim, context: Any) -> Finding:
    """The mean of the integers."""
    setting = setting_of(context)
    require_words(claim, context, {"law": setting.law}, ["value"])
    return exactly(claim, {"value": setting.mean([Fraction(x) for x in _limits(setting)])})


def second_step(claim: Claim, context: Any) -> Finding:
    """v before the end node at every gamma; also what refutes that the circuit solves the task."""
    setting, margin = setting_of(context), number(claim["bounds"].get("margin"))
    require_words(claim, context, {"instances": setting.instances}, ["margin"])
    if margin <= 0:
        raise Rejected("its margin is not positive")

    def ahead(c: Circuit, at: Point) -> arb:
        return circuit.lead(c, "v", "end", at) - exact(margin) * at.value(c.total(at))

    for c in seconds(setting):
        require_positive(partial(ahead, c), Fraction(0), None)
    return proved(claim, margin=margin)


def always_right(claim: Claim, context: Any) -> Finding:
    """v before every other label, at every gamma."""
    setting, margin = setting_of(context), number(claim["bounds"].get("margin"))
    require_words(claim, context, {"instances": setting.instances}, ["margin"])
    if margin <= 0:
        raise Rejected("its margin is not positive")

    def ahead(c: Circuit, other: str, at: Point) -> arb:
        return circuit.lead(c, "v", other, at) - exact(margin) * at.value(c.total(at))

    for c in firsts(setting):
        for other in _OTHERS:
            require_positive(partial(ahead, c, other), Fraction(0), None)
    return proved(claim, margin=margin)


def second_loss(claim: Claim, context: Any) -> Finding:
    """-log(e^gamma f1[end]) for large gamma."""
    setting = setting_of(context)
    require_words(claim, context, {"least": str(TAIL), "instances": setting.instances}, ["low", "high"])
    low, high = (number(claim["bounds"][name]) for name in ("low", "high"))
    with ctx.workprec(BITS):
        for c in seconds(setting):
            loss = -circuit.end_share(c, tail(Fraction(TAIL))).log()
            _require(exact(low) <= loss <= exact(high), "L1b - gamma is not proved to lie there")
            zero = Point(arb(0), arb(0))
            _require(circuit.end_share(c, zero) == 3, "the limit is not -ln 3")
    return proved(claim, low=low, high=high)


def second_gradient(claim: Claim, context: Any) -> Finding:
    """The norm of row T-1 in each instance."""
    setting, least, margin = setting_of(context), _least(claim), number(claim["bounds"].get("margin"))
    own = {"least": claim["parameters"]["least"], "instances": setting.instances}
    require_words(claim, context, own, ["margin"])
    if margin <= 0:
        raise Rejected("its margin is not positive")

    def ahead(c: Circuit, at: Point) -> arb:
        return _squares(circuit.gradient_row(c, at)) - exact(margin * margin)

    for c in seconds(setting):
        require_positive(partial(ahead, c), least, None, MOST_ROWS)
    return proved(claim, margin=margin)


def mean_second_gradient(claim: Claim, context: Any) -> Finding:
    """The norm of the mean of row T-1."""
    setting, least, margin = setting_of(context), _least(claim), number(claim["bounds"].get("margin"))
    require_words(claim, context, {"least": claim["parameters"]["least"], "law": setting.law}, ["margin"])
    if margin < 0:
        raise Rejected("its margin is negative")
    circuits = seconds(setting)

    def ahead(at: Point) -> arb:
        rows = [circuit.gradient_row(c, at) for c in circuits]
        mean = [sum((exact(p) * r[j] for p, r in zip(setting.shares, rows, strict=True)), arb(0)) for j in range(10)]
        return _squares(mean) - exact(margin * margin)

    require_positive(ahead, least, None, MOST_ROWS)
    return proved(claim, margin=margin)


def shallow_output(claim: Claim, context: Any) -> Finding:
    """Row T of S1 has the weight e^gamma at T-1 and 1 at the nine others: the end node is at T-1 and at one of these."""
    setting = setting_of(context)
    require_words(claim, context, {"instances": setting.instances}, ["end", "others"])
    for s in setting.sequences:
        _require(s[8] == "end" and s.count("end") == 2 and len(s) == 10, "the tokens are not those of the circuit")
    return exactly(claim, {"end": Fraction(1), "others": Fraction(1)})


def _limits(setting: Setting) -> list[int]:
    zero = Point(arb(0), arb(0))
    found = []
    for c in firsts(setting):
        unique = circuit.first_error(c, zero).unique_fmpz()
        if unique is None:
            raise Beyond("a limit is no integer")
        found.append(int(unique))
    return found


def _least(claim: Claim) -> Fraction:
    return number(claim["parameters"].get("least"))


def _squares(row: list[arb]) -> arb:
    return sum((x * x for x in row), arb(0))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Rejected(what)


CHECKS = {
    "margin/first-step": first_step,
    "margin/threshold": threshold,
    "margin/always-right": always_right,
    "margin/second-step": second_step,
    "margin/second-gradient": second_gradient,
    "margin/mean-second-gradient": mean_second_gradient,
    "enclosure/first-constant": partial(constant, circuit.first_error),
    "enclosure/attention-constant": partial(constant, circuit.attention_error),
    "enclosure/first-limit": first_limit,
    "enclosure/second-loss": second_loss,
    "expectation/first-limit": mean_limit,
    "identity/shallow-output": shallow_output,
    "counterexample/perfect": second_step,
    "counterexample/small-gradient": second_gradient,
}
