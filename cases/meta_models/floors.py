"""How near an iteration computed in a format comes to its fixed point: a contraction, and the rounding of one step.

Let F contract by q in the largest entry on the box |z_i| <= M, z* its fixed point there, and let one step in a format be
within E of F on the ball of radius rho around e. If r = reach + E / (1 - q), reach >= |e - z*|, and every z with |z - z*| <= r
lies in the box and in the ball, then from z = e the t-th computed iterate is within q^t reach + E / (1 - q) of z*. Proof:
README, section floor.
"""

from __future__ import annotations

from fractions import Fraction

from certify.arithmetic.directed import sqrt_up
from certify.certificate import Claim, parse

from .attention import fixed_point
from .convex import maximizer
from .inputs import Instance
from .wording import at_most, ceil_to, claim

#: How much larger the ball is than the distances from the start to the fixed point, which the floor adds to.
ROOM = Fraction(9, 8)


def rule_of(instance: Instance) -> str:
    """The iteration in words."""
    if instance.system == "anchor":
        return f"z <- w Att(z) + (1 - w) e of {instance.name}"
    return f"z_i <- (d_i e_i + sum over j of c_ij z_j) / (d_i + sum over j of c_ij) on {instance.name}"


def start_of(instance: Instance) -> tuple[Fraction, Fraction]:
    """Upper bounds of the distance from e to the fixed point, and of the largest entry of the fixed point."""
    e = list(instance.array("e"))
    if instance.system == "anchor":
        z, off = fixed_point(instance)
    else:
        d, c = list(instance.array("d")), instance.array("c").tolist()
        z, off = maximizer(d, e, c), Fraction(0)
    reach = max(abs(x - y) for x, y in zip(e, z, strict=True)) + off
    return ceil_to(reach, 80), ceil_to(max(map(abs, z)) + off, 80)


def radius_of_ball(instance: Instance) -> float:
    """The radius of the ball around e on which the rounding of one step is to be bounded; 0 if there is nothing to bound."""
    if instance.system == "anchor" and factor(instance, instance.number("bound")) >= 1:
        return 0.0
    reach, _ = start_of(instance)
    return float(sqrt_up(len(instance.array("e")) * (2 * ROOM * reach) ** 2))


def floor_claims(instance: Instance, rounding: dict[str, Claim]) -> list[Claim]:
    """Of the systems `anchor` and `convex`, in every format whose rounding claim on the ball is given."""
    if instance.system == "anchor" and factor(instance, instance.number("bound")) >= 1:
        return []  # no fixed point is known to be the only one
    reach, largest = start_of(instance)
    return [_floor(instance, format, source, reach, largest) for format, source in rounding.items()]


def _floor(instance: Instance, format: str, source: Claim, reach: Fraction, largest: Fraction) -> Claim:
    eps = parse(source.bounds["eps_z"]) if "eps_z" in source.bounds else None
    q, floor, good, reason = Fraction(1), Fraction(0), False, "no bound of one step is proved on the ball"
    if eps is not None:
        rho = parse(source.parameters["region"]["radius"])
        reason = "nothing contracts on the box that the iterates may reach, or they may leave the ball"
        for k in range(20, 1, -1):  # the factor depends on the box, the box on the floor: room that is then checked
            room = reach / 2**k
            q = factor(instance, largest + reach + room)
            if q >= 1:
                break
            floor = ceil_to(eps / (1 - q), 80)
            good = floor <= room and len(instance.array("e")) * (2 * reach + floor) ** 2 <= rho**2
            if good:
                break
    return claim(
        "updates",
        "floor",
        instance.name,
        f"From z = e, the t-th iterate of {rule_of(instance)}, each computed in {format} as {source.id} says, is "
        "within q^t reach + floor of the fixed point in every entry, for every t.",
        more=format,
        semantics=source.semantics,
        verdict=good,
        reason=reason,
        parameters={"format": format, "rounding": source.id},
        bounds={"q": at_most(q), "reach": at_most(reach), "floor": at_most(floor)} if good else {},
        assumptions=(f"the graph file is the kernel {instance.name} of the case: the checker does not see its source",),
    )


def factor(instance: Instance, M: Fraction) -> Fraction:
    """A factor by which the iteration contracts in the largest entry on the box |z_i| <= M."""
    if instance.system == "anchor":
        w, beta = instance.number("weight"), instance.number("beta")
        return w * (1 + 2 * beta * M * M)
    d, c = list(instance.array("d")), instance.array("c").tolist()
    norm: Fraction = max(sum(row, Fraction(0)) / (x + sum(row, Fraction(0))) for x, row in zip(d, c, strict=True))
    return norm
