"""How near an iteration in a format comes to its fixed point: its contraction, and the proved rounding of one step."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.cases.meta_models.attention import Anchor
from certify.checker.cases.meta_models.convex import RULE, convex_of, map_of
from certify.checker.cases.meta_models.parts import (
    BITS,
    System,
    point,
    real,
    system_of,
    words,
)
from certify.checker.cases.meta_models.programs import largest_gap, rests_on
from flint import ctx

from certify.checker.document import Claim, Finding, Rejected, binary64, number, proved, require_upper

MOST_STEPS = 2000


def check_floor(claim: Claim, context: Any) -> Finding:
    """Every iterate stays within r = reach + floor of the fixed point, where a step contracts by q and is off by at most eps.

    |z - z*| <= r puts z in the box |z_i| <= max |z*_i| + r, on which the factor is proved, and within sqrt(n) (r + reach) of e,
    in the ball of the rounding claim. By induction the t-th iterate is within q^t reach + eps (1 + q + ...) of z*.
    """
    s, format = system_of(claim, context), claim["parameters"].get("format")
    if s.system not in ("anchor", "convex"):
        raise Rejected("it is about no iteration")
    source, eps = rests_on(claim, s, "z", ball=True)
    rule = f"{RULE} on {s.name}" if s.system == "convex" else Anchor(s).rule
    words(
        claim,
        s,
        f"From z = e, the t-th iterate of {rule}, each computed in {format} as {source['id']} says, is within q^t "
        "reach + floor of the fixed point in every entry, for every t.",
        topic="floor",
        more=str(format),
        given={"format": format, "rounding": source["id"]},
        bounds=("q", "reach", "floor"),
        semantics=claim["semantics"],
        assumptions=(f"the graph file is the kernel {s.name} of the case: the checker does not see its source",),
    )
    require_step(s)
    q, reach, floor = (number(claim["bounds"][name]) for name in ("q", "reach", "floor"))
    e, z, off = s.rows("e"), *fixed_point(s)
    r, region = reach + floor, source["parameters"]["region"]
    own = max(abs(x - y) for x, y in zip(e, z, strict=True)) + off
    require_upper(claim, "reach", own)
    if region.get("center") != "z" or len(e) * (r + reach) ** 2 > Fraction(binary64(region["radius"])) ** 2:
        raise Rejected("an iterate may leave the ball of the rounding claim")
    if not factor(s, max(map(abs, z)) + off + r) <= q < 1:
        raise Rejected("q is not below 1, or less than what is proved on the box")
    require_upper(claim, "floor", eps / (1 - q))
    return proved(claim, reach=own, floor=eps / (1 - q))


def require_step(s: System) -> None:
    """The program of the graph file starts at z = e, and there it is a step of the iteration: seen at this point only."""
    e = s.rows("e")
    if [Fraction(x) for x in s.context.kernel(s.name).inputs["z"]] != e:
        raise Rejected("the ball of the rounding claim is not around e")
    with ctx.workprec(BITS):
        if s.system == "anchor":
            own = Anchor(s).step([real(x) for x in e])
        else:
            d, _, c = convex_of(s)
            rows = zip(d, e, c, strict=True)
            own = [
                real((w * x + sum(a * y for a, y in zip(row, e, strict=True))) / (w + sum(row))) for w, x, row in rows
            ]
    largest_gap(own, s, "z")


def fixed_point(s: System) -> tuple[list[Fraction], Fraction]:
    """A point near the fixed point, and how near."""
    if s.system == "convex":
        return map_of(*convex_of(s)), Fraction(0)
    a = Anchor(s)
    with ctx.workprec(BITS):
        z = [real(x) for x in a.e]
        for _ in range(MOST_STEPS):
            new = [x.mid() for x in a.step(z)]
            still = all(abs(x - y) < real(Fraction(1, 1 << 300)) for x, y in zip(new, z, strict=True))
            z = new
            if still:
                break
        near = [point(x) for x in z]
        return near, a.distance(near)


def factor(s: System, M: Fraction) -> Fraction:
    """The contraction on |z_i| <= M, in the largest entry."""
    if s.system == "anchor":
        return s.number("weight") * (1 + 2 * s.number("beta") * M**2)
    d, _, c = convex_of(s)
    norm: Fraction = max(sum(row) / (x + sum(row)) for x, row in zip(d, c, strict=True))
    return norm


CHECKS = {"updates/floor": check_floor}
