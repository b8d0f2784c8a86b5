"""Trained weights, certified: how near they are to the structure, and where their layers go (E2, E5, A9, A12)."""

from __future__ import annotations

from typing import Any

from certify.cases.kernel import trace_kernel
from certify.cases.kernels import CaseKernel
from certify.cases.ngd import margins
from certify.cases.ngd.balls import attended, descent, embedding, lower, upper
from certify.cases.ngd.claims import above, below, certified, undecided
from certify.cases.ngd.layer import trained
from certify.cases.ngd.separation import max_margin_claim
from certify.cases.ngd.state import Context, Row, Rows
from flint import arb, arb_mat, ctx, fmpq

from certify.certificate import Claim
from certify.errors import Undecided
from certify.states import Saved

_MOST_BITS, _ENOUGH = 1 << 12, 2.0**-60


def trained_kernel(saved: Saved, context: Context, order: str) -> CaseKernel:
    """One layer with the trained weights, at the start of a context."""
    tensors = {"Z": "Z", "theta": "start", "V": "V", "W": "W"}
    names = {key: f"{tensor}.{context.name}" for key, tensor in tensors.items()}
    inputs = {key: saved.tensors[name] for key, name in names.items()}
    traced = trace_kernel(lambda Z, theta, V, W: trained(Z, theta, V, W), inputs, order=order, name="trained")
    return CaseKernel(f"trained-{context.name}", traced, names)


def trained_claims(context: Context, V: Rows, W: Rows) -> list[Claim]:
    """The structure of the weights, the separator of the context, and the direction that the layers reach."""
    try:
        found = margins.separator(context)
    except Undecided as error:
        id = f"enclosure/trained/{context.name}"
        statement = f"At context {context.name} the trained layers reach a direction that is enclosed."
        parameters = {"context": context.name}
        return [structure_claim(context, V, W), undecided(id, statement, "trained", str(error), parameters=parameters)]
    return [structure_claim(context, V, W), max_margin_claim(context, found), direction_claim(context, V, W, found.w)]


def structure_claim(context: Context, V: Rows, W: Rows) -> Claim:
    """The share of each matrix that is not C1 [[0, 0], [I, 0]] or -C2 [[0, I], [0, 0]], exactly up to a root."""
    d = context.d
    C1 = sum((V[d + k][k] for k in range(d)), fmpq(0)) / d
    C2 = -sum((W[k][d + k] for k in range(d)), fmpq(0)) / d
    with ctx.workprec(128):
        bounds: dict[str, str] = {}
        for name, M, c in (("", V, C1), ("W_", W, C2)):
            whole = sum((x * x for row in M for x in row), fmpq(0))
            # the projection on the structure is c times a matrix whose square has the trace d
            share = arb((whole - d * c * c) / whole).sqrt() if whole else arb(0, 1)
            bounds |= {f"{name}low": below(lower(share)), f"{name}high": above(upper(share))}
        for name, c in (("C1", C1), ("C2", C2)):
            bounds |= {f"{name}_low": below(lower(arb(c))), f"{name}_high": above(upper(arb(c)))}
    statement = (
        f"Of the trained weights of context {context.name}, V differs from C1 [[0, 0], [I, 0]] by a share of its Frobenius "
        "norm from `low` to `high`, and W from -C2 [[0, I], [0, 0]] by one from `W_low` to `W_high`, where C1 from `C1_low` to "
        "`C1_high` and C2 from `C2_low` to `C2_high` are the means of the diagonals of these blocks."
    )
    id, parameters = f"enclosure/structure/{context.name}", {"context": context.name}
    return certified(id, statement, "trained", parameters=parameters, bounds=bounds)


def direction_claim(context: Context, V: Rows, W: Rows, w: Row) -> Claim:
    """Where the looped layers with full weights go: beside descent with C1 and C2, the separator and theta*."""
    statement = (
        f"At context {context.name}, of unit vectors after {context.layers} layers, that along theta of the transformer with "
        "the trained weights is from `low` to `high` from that of descent with C1 and C2, and from `separator_low` to "
        "`separator_high` from the max-margin one"
        + (", and from `star_low` to `star_high` from theta*." if context.star else ".")
    )
    id, parameters = f"enclosure/trained/{context.name}", {"context": context.name, "layers": context.layers}
    bits = 256
    while bits <= _MOST_BITS:
        with ctx.workprec(bits):
            theta = _looped(context, V, W)
            other = [arb(x) for x in context.theta]
            for _ in range(context.layers):
                other = descent(context, other, context.C2, context.C1)
            goals = {"": other, "separator_": [arb(x) for x in w]}
            goals |= {"star_": [arb(x) for x in context.star]} if context.star else {}
            distances = {name: margins.apart(theta, goal) for name, goal in goals.items()}
            if all(float(x.rad()) < _ENOUGH for x in distances.values()):
                bounds = {f"{name}low": below(lower(x)) for name, x in distances.items()}
                bounds |= {f"{name}high": above(upper(x)) for name, x in distances.items()}
                return certified(id, statement, "trained", parameters=parameters, bounds=bounds)
        bits *= 2
    return undecided(id, statement, "trained", f"{_MOST_BITS} bits are not enough", parameters=parameters)


def _looped(context: Context, V: Rows, W: Rows) -> list[Any]:
    """The bottom block of the last column after all layers, by full matrices."""
    H, value, score = embedding(context), *(arb_mat([[arb(x) for x in row] for row in M]) for M in (V, W))
    for _ in range(context.layers):
        H = H + attended(H, value, score)
    return [H[context.d + k, context.n] for k in range(context.d)]
