"""Claims that are settled in rationals: expectations under the edge-order law, decoupling, and the audit of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from flint import Ordering, fmpz_mpoly_ctx

from certify.certificate import Claim, to_text
from certify.errors import Undecided

from . import exact
from .instances import END, Law, Order, T, V, tokens
from .words import instances, law_words, make, refuted

#: The paper's means at T = 10: of dmu/dw(1), and of dmu/dw(k) for k >= 2.
PUBLISHED_SLOPES = (Fraction(-137, 162000), Fraction(131, 324000))


def exact_claims(law: Law) -> list[Claim]:
    """All of them. Raises Undecided if what should hold for every law does not."""
    return [row_sums(), *attention_free(law), *slopes(law), *tokens_of(law), *second_phase(law), *arithmetic()]


def row_sums() -> Claim:
    """The entries of (sum w)^2 J(w / sum w) u, as polynomials, sum to 0."""
    names = [f"{x}{k}" for x in "wu" for k in range(T)]
    ring = fmpz_mpoly_ctx.get(names, Ordering.lex)
    variables = ring.gens()
    w, u = variables[:T], variables[T:]
    total = sum(w[1:], w[0])
    weighted = sum((a * b for a, b in zip(w[1:], u[1:], strict=True)), w[0] * u[0])
    entries = [a * (b * total - weighted) for a, b in zip(w, u, strict=True)]
    if not sum(entries[1:], entries[0]).is_zero():
        raise Undecided("the entries do not sum to 0", "report this: the identity is a theorem")
    return make("identity/row-sums", {"positions": T}, bounds={"sum": 0})


def attention_free(law: Law) -> list[Claim]:
    """Decoupling at zero weights, and stationarity at one-hot attention."""
    position, content = exact.shallow_gradient(law)
    if any(any(row) for row in position[: T - 1]):
        raise Undecided("a row of W1 beside row T has a gradient", "report this")
    bounds = {f"row_{j + 1}": x for j, x in enumerate(position[T - 1])}
    bounds |= {"diagonal": content[0][0], "off": content[0][1]}
    if any(x for order in law.orders for gradient in exact.stationary(order) for row in gradient for x in row):
        raise Undecided("a gradient at one-hot attention is not 0", "report this")
    return [
        make("identity/decoupling", {"law": law_words(law)}, bounds=bounds),
        make("identity/stationary", {"instances": instances(law)}, bounds={"gradient": 0}),
    ]


def slopes(law: Law) -> list[Claim]:
    """Means of derivatives with respect to w(k) at zero, and the verdicts on the signs that Theorem 3 states."""
    where, claims = {"law": law_words(law)}, []
    found = {}
    for name, slope in (
        ("mean-slope", exact.surrogate_slope),
        ("first-slope", exact.first_slope),
        ("second-slope", exact.second_slope),
        ("shallow-slope", exact.shallow_slope),
    ):
        found[name] = means(law, slope)
        for k, value in enumerate(found[name], 1):
            claims.append(make(f"expectation/{name}/k={k}", {**where, "k": k}, bounds={"value": value}))
    numerator = found["mean-slope"]
    margin = min(-numerator[0], *numerator[1:])
    if margin > 0:
        claims.append(make("margin/mean-slope", where, bounds={"margin": margin}))
    text = [PUBLISHED_SLOPES[0], *[PUBLISHED_SLOPES[1]] * (T - 2)]
    if numerator != text:
        first = ", ".join(str(x) for x in dict.fromkeys(numerator))
        claims.append(
            refuted("mean-slope", where, f"the exact means are {first}", {"law": where["law"]}, **numbered(numerator))
        )
    both = [(a + b) / 2 for a, b in zip(found["first-slope"], found["second-slope"], strict=True)]
    for name, values in (("first-slope", found["first-slope"]), ("next-token-slope", both)):
        wrong = [k for k, x in enumerate(values, 1) if not (x > 0 if k == 1 else x < 0)]
        if wrong:
            listed = ", ".join(f"{float(values[k - 1]):+.6f} at k = {k}" for k in wrong)
            reason = f"the exact mean has the other sign for k = {', '.join(map(str, wrong))}: {listed}"
            claims.append(refuted(name, where, reason, {"offsets": wrong}, **numbered(values)))
    return claims


def tokens_of(law: Law) -> list[Claim]:
    """Where the end node and v stand, under the law."""
    where, claims = {"law": law_words(law)}, []
    for name, node in (("end", END), ("target", V)):
        found = exact.occurrence(law, node)
        claims.append(make(f"identity/{name}-token", where, bounds=numbered(found)))
        if any(x != Fraction(1, 8) for x in found[:8]):
            listed = ", ".join(map(str, found[:8]))
            reason = f"the exact probabilities at t = 1..8 are {listed}"
            claims.append(refuted(f"uniform-{name}", where, reason, {"law": where["law"]}, **numbered(found)))
    return claims


def second_phase(law: Law) -> list[Claim]:
    """Phase II at its start: the drive of the position weights, and what it says about the published limit."""
    where, drive = {"law": law_words(law)}, exact.second_phase_drive(law)
    if any(any(row) for i, row in enumerate(drive) if i != T - 2):
        raise Undecided("a row beside T-1 is driven", "report this")
    row = drive[T - 2]
    shares = [output(order) for order in law.orders]
    claims = [make("identity/second-phase", where, bounds=numbered(row))]
    moved = [j for j, x in enumerate(row, 1) if x and j != T - 1]
    if moved:
        reason = f"at the start the entries (T-1, j), j = {', '.join(map(str, moved))}, move at the rates `value_j`"
        claims.append(refuted("second-phase", where, reason, {"entries": moved}, **numbered(row)))
    reason = "every row of dL/dW0 sums to 0, so row sums stay 0: the rest of a row falls as its diagonal entry grows"
    claims.append(refuted("finite-rest", {}, reason, {"rests on": "identity/row-sums"}, sum=0))
    if all(x != Fraction(1, T) for x in shares):
        shown = " or ".join(str(x) for x in sorted(set(shares)))
        reason = f"f1[v] is {shown} there, S2[T, t_end] is 1/10: S2 at the slot after (star, v) counts too"
        claims.append(
            refuted(
                "second-phase-loss",
                {"instances": instances(law)},
                reason,
                {"order": list(law.orders[0])},
                low=min(shares),
                attention=Fraction(1, T),
            )
        )
    return claims


def output(order: Order) -> Fraction:
    """f1[v] with S1 = L and S2[T] uniform."""
    return sum((s for row in exact.shift() for s, g in zip(row, tokens(order), strict=True) if g == V), Fraction(0)) / T


def arithmetic() -> list[Claim]:
    """Numbers of the paper that need no law."""
    left = (Fraction(1, 100) - Fraction(1, 648)) / 10, (Fraction(1, 648) + Fraction(2, 800)) / 10
    if left != (Fraction(548, 648000), Fraction(2096, 5184000)):
        raise Undecided("the two sides differ", "report this")
    value, printed = (T - 1) ** 2 * (T - 2) - T**2, T**3 - 5 * T**2 + 5 * T + 2
    return [
        make("identity/arithmetic", {}, bounds={"first": left[0], "second": left[1]}),
        refuted(
            "polynomial",
            {},
            f"the left side is {value}, the right {printed}: the constant is -2",
            {"T": T},
            left=value,
            right=printed,
        ),
    ]


def means(law: Law, slope: Callable[[Order, int], Fraction]) -> list[Fraction]:
    """The mean of a derivative with respect to w(k), k = 1..9."""
    return [law.mean([slope(order, k) for order in law.orders]) for k in exact.OFFSETS]


def numbered(values: Sequence[Fraction]) -> dict[str, Fraction]:
    """value_1, value_2, ..."""
    return {f"value_{k}": x for k, x in enumerate(values, 1)}


def stated_instances(tensors: dict[str, list[list[int]]], controls: dict[str, int]) -> list[Claim]:
    """The worked examples of the state: a star graph's path, a Countdown expression, a formula with an assignment."""
    start, end = controls["star_start"], controls["star_end"]
    edges = [(row[0], row[1]) for row in tensors["star_edges"]]
    found = paths(edges, start, end)
    if len(found) != 1:
        raise Undecided(f"{len(found)} paths lead from {start} to {end}", "give a star graph")
    path = ", ".join(map(str, found[0]))
    a, b, c, d = tensors["countdown"][0]
    value = Fraction(a - b, c - d)
    clauses, assignment = tensors["clauses"], tensors["assignment"][0]
    if not all(any((assignment[abs(x) - 1] == 1) == (x > 0) for x in clause) for clause in clauses):
        raise Undecided("a clause does not hold", "give a satisfying assignment")
    text = {"edges": len(edges), "start": start, "end": end, "path": path}
    return [
        make("identity/star-path", text, bounds={"paths": 1}),
        make("identity/countdown", {"a": a, "b": b, "c": c, "d": d, "target": to_text(value)}, bounds={"value": value}),
        make("identity/formula", {"clauses": len(clauses)}, bounds={"unsatisfied": 0}),
    ]


def paths(edges: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, ...]]:
    """All paths without a repeated node."""
    found: list[tuple[int, ...]] = []
    open_: list[tuple[int, ...]] = [(start,)]
    while open_:
        path = open_.pop()
        if path[-1] == end:
            found.append(path)
            continue
        open_ += [(*path, b) for a, b in edges if a == path[-1] and b not in path]
    return found
