"""Claims that the layer is a step of descent: exactly in symbols, and by enclosures over many layers (C1, C2, C3)."""

from __future__ import annotations

from typing import Any

from certify.cases.ngd import balls, symbols
from certify.cases.ngd.claims import below, certified, undecided
from certify.cases.ngd.state import Context
from flint import ctx

from certify.certificate import Claim, decimal_up, to_text

#: Identities are decided for contexts of at most so many numbers: seconds.
MOST_SYMBOLS = 120

_SYMBOLIC = {
    "step": "the masked layer keeps the top block of every column and takes its bottom block t to "
    "t - C1 grad L(C2 t) / L(C2 t)",
    "unmasked": "the layer whose softmax runs over all n + 1 tokens takes theta to "
    "theta - C1 grad L(C2 theta) / (L(C2 theta) + 1/n)",
    "effective": "the masked layer takes phi = C2 theta to phi - C1 C2 grad L(phi) / L(phi)",
    "rmsnorm": "the masked layer with C1 > 0, its attention output divided by its root mean square and multiplied by "
    "alpha / sqrt(2 d), takes theta to theta - alpha grad L(C2 theta) / |grad L(C2 theta)|",
}
_COMPARED = {
    "layers": (balls.layers_apart, "the n + 1 columns of the transformer minus descent from the same starts"),
    "effective-layers": (balls.effective_apart, "C2 theta minus descent with step C1 C2 from C2 theta_0"),
    "rmsnorm-layers": (
        balls.rmsnorm_apart,
        "theta of the transformer with a root-mean-square norm minus descent with step C1 by gradients of norm 1",
    ),
}


def identity_claims(n: int, d: int) -> list[Claim]:
    """The identities for contexts of n examples in d dimensions, whatever their numbers."""
    claims = []
    for name, holds in symbols.IDENTITIES.items():
        where = f"For all real numbers in a context of n = {n} examples in d = {d} dimensions"
        statement = f"{where}, {_SYMBOLIC[name]}, where L(x) is the mean of exp(-<z_i, x>)."
        id, parameters = f"identity/{name}/n={n},d={d}", {"n": n, "d": d}
        if holds(n, d):
            claims.append(certified(id, statement, "identities", parameters=parameters))
        else:
            reason = "the rational functions differ"
            claims.append(undecided(id, statement, "identities", reason, parameters=parameters))
    return claims


def enclosure_claims(context: Context) -> list[Claim]:
    """The same equalities in ball arithmetic, over the layers of a context; and what the mask changes in one."""
    claims = []
    for name, (apart, what) in _COMPARED.items():
        step: Any = context.C1 if name == "rmsnorm-layers" else context.step
        found = balls.greatest_radius(apart, context, balls.bits_for(context, context.layers, step))
        statement = (
            f"At context {context.name}, after each of {context.layers} layers, the enclosures of {what} contain 0 and reach "
            "at most `radius` from it in every entry; this alone is no proof of equality."
        )
        id = f"identity/{name}/{context.name}"
        parameters = {"context": context.name, "layers": context.layers}
        if found is None:
            reason = "an enclosure excludes 0, or no precision that was tried is enough"
            claims.append(undecided(id, statement, "enclosures", reason, parameters=parameters))
            continue
        reached, bits = found
        claims.append(
            certified(
                id,
                statement,
                "enclosures",
                parameters=parameters,
                bounds={"radius": to_text(balls.RADIUS)},
                observed={"bits": bits},
                display={"reached": decimal_up(reached)},
            )
        )
    return [*claims, mask_claim(context)]


def mask_claim(context: Context) -> Claim:
    """Without the mask the layer is another function."""
    with ctx.workprec(128):
        margin = balls.lower(balls.mask_matters(context))
    id, parameters = f"margin/mask/{context.name}", {"context": context.name}
    statement = (
        f"At context {context.name} a masked layer and one whose softmax runs over all n + 1 tokens differ by at least "
        "`margin` in some entry of theta."
    )
    if margin <= 0:
        return undecided(id, statement, "mask", "the enclosures of both overlap", parameters=parameters)
    return certified(id, statement, "mask", parameters=parameters, bounds={"margin": below(margin)})
