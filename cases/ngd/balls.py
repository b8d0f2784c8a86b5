"""The layer and the descent in ball arithmetic, each by its own formula, over many layers.

`attention` multiplies the full matrices of the transformer; `descent` is the textbook step on the loss. Neither knows
the other. The precision is chosen before a run, from how fast balls can grow (`bits_for`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from certify.cases.ngd.state import Context, fraction
from flint import arb, arb_mat, ctx

from certify.errors import Undecided

Ball = Any
Balls = list[Any]
#: Equality is enclosed to within this radius.
RADIUS = Fraction(1, 10**50)
_TARGET_BITS, _SPARE_BITS = 167, 40  # 10^-50 > 2^-167


def bits_for(context: Context, layers: int, step: Any) -> int:
    """A working precision at which `layers` layers keep balls below 2^-167, from a bound on their growth.

    If theta is known to within r in every entry, the scores are to within r C2 max_i |z_i|_1, softmax weights to within twice
    that, relatively, to first order, and so the next theta to within r (1 + 2 step max|z|_1 max|z|_oo). The spare bits are for
    the roundings of a layer; should they not do, the radius is found to be too large, and nothing false is claimed.
    """
    widest = max(sum(abs(fraction(x)) for x in row) for row in context.Z)
    largest = max(abs(fraction(x)) for row in context.Z for x in row)
    growth = 1 + 2 * fraction(step) * widest * largest
    return _TARGET_BITS + _SPARE_BITS + layers * (growth.numerator // growth.denominator + 1).bit_length()


def embedding(context: Context) -> arb_mat:
    """The input H of the transformer, exact up to one rounding of an entry: (z_i; 0), and (0; theta) last."""
    n, d = context.n, context.d
    H = [[arb(context.Z[i][k]) for i in range(n)] + [arb(0)] for k in range(d)]
    return arb_mat(H + [[arb(0)] * n + [arb(context.theta[k])] for k in range(d)])


def weights(context: Context) -> tuple[arb_mat, arb_mat]:
    """V and W, (2 d, 2 d)."""
    d = context.d
    V, W = arb_mat(2 * d, 2 * d), arb_mat(2 * d, 2 * d)
    for k in range(d):
        V[d + k, k], W[k, d + k] = arb(context.C1), -arb(context.C2)
    return V, W


def attended(H: arb_mat, V: arb_mat, W: arb_mat, masked: bool = True) -> arb_mat:
    """What the attention adds to H: V H softmax(H^T W H), over the first n keys if masked, else over all n + 1."""
    rows, columns = H.nrows(), H.ncols()
    S = H.transpose() * W * H
    last = columns - 1 if masked else columns
    P = arb_mat(columns, columns)
    for j in range(columns):
        shift = arb(max(float(S[i, j].mid()) for i in range(last)))
        e = [(S[i, j] - shift).exp() for i in range(last)]
        total = sum(e[1:], e[0])
        for i in range(last):
            P[i, j] = e[i] / total
    added = V * (H * P)
    assert added.nrows() == rows
    return added


def gradient(context: Context, theta: Balls, scale: Any) -> tuple[Ball, Balls]:
    """The loss mean_i exp(-<z_i, phi>) at phi = scale theta, and its gradient in phi."""
    phi = [arb(scale) * t for t in theta]
    e = [(-_dot(row, phi)).exp() for row in context.Z]
    value = sum(e[1:], e[0]) / context.n
    slopes = [-_dot([row[k] for row in context.Z], e) / context.n for k in range(context.d)]
    return value, slopes


def descent(context: Context, theta: Balls, scale: Any, step: Any) -> Balls:
    """One step of descent on the loss of scale theta, divided by it: theta - step grad L(scale theta) / L(scale theta)."""
    value, slopes = gradient(context, theta, scale)
    return [t - arb(step) * g / value for t, g in zip(theta, slopes, strict=True)]


def normalised(context: Context, theta: Balls, scale: Any, step: Any) -> Balls:
    """One step of gradient descent with the gradient divided by its norm."""
    _, slopes = gradient(context, theta, scale)
    size = sum((g * g for g in slopes[1:]), slopes[0] * slopes[0]).sqrt()
    return [t - arb(step) * g / size for t, g in zip(theta, slopes, strict=True)]


def layers_apart(context: Context) -> Iterator[Balls]:
    """Layer by layer, what the layer makes of all its columns minus what descent makes of them, from theta and from 0."""
    n, d = context.n, context.d
    H, (V, W) = embedding(context), weights(context)
    zero = [arb(0)] * d
    columns = [zero] * n + [[arb(x) for x in context.theta]]
    start = _column(zero, n, H)
    for _ in range(context.layers):
        H = H + attended(H, V, W)
        first = descent(context, columns[0], context.C2, context.C1)  # that of all context columns
        columns = [first] * n + [descent(context, columns[n], context.C2, context.C1)]
        below = [H[d + k, j] - columns[j][k] for j in range(n + 1) for k in range(d)]
        yield below + [H[k, j] - start[j][k] for j in range(n + 1) for k in range(d)]


def effective_apart(context: Context) -> Iterator[Balls]:
    """C2 theta after each layer, minus descent with step C1 C2 from C2 theta_0."""
    d, n = context.d, context.n
    H, (V, W) = embedding(context), weights(context)
    phi = [arb(context.C2 * x) for x in context.theta]
    for _ in range(context.layers):
        H = H + attended(H, V, W)
        phi = descent(context, phi, 1, context.step)
        yield [arb(context.C2) * H[d + k, n] - phi[k] for k in range(d)]


def rmsnorm_apart(context: Context) -> Iterator[Balls]:
    """Layers whose attention output is root-mean-square normed and scaled by C1 / sqrt(2 d), minus descent by g / |g|."""
    d, n = context.d, context.n
    H, (V, W) = embedding(context), weights(context)
    theta = [arb(x) for x in context.theta]
    for _ in range(context.layers):
        added = attended(H, V, W)
        a = [added[r, n] for r in range(2 * d)]
        root = (sum((x * x for x in a[1:]), a[0] * a[0]) / (2 * d)).sqrt()
        scale = arb(context.C1) / arb(2 * d).sqrt()
        for r in range(2 * d):
            H[r, n] += scale * (a[r] / root)
        theta = normalised(context, theta, context.C2, context.C1)
        yield [H[d + k, n] - theta[k] for k in range(d)]


def mask_matters(context: Context) -> Ball:
    """The largest difference between an entry of theta after a masked layer and after one that is not."""
    d, n = context.d, context.n
    H, (V, W) = embedding(context), weights(context)
    masked, full = attended(H, V, W), attended(H, V, W, masked=False)
    found = abs(masked[d, n] - full[d, n])
    for k in range(1, d):
        found = found.max(abs(masked[d + k, n] - full[d + k, n]))
    return found


def greatest_radius(
    apart: Callable[[Context], Iterator[Balls]], context: Context, bits: int, most: int = 1 << 14
) -> tuple[Fraction, int] | None:
    """A radius within which 0 is the middle of every difference, at the first precision that gives at most `RADIUS`.

    The radius of a ball around 0 that holds the enclosure, and the bits; None if some enclosure excludes 0, or no precision
    up to `most` is enough.
    """
    while bits <= most:
        with ctx.workprec(bits):
            worst = Fraction(0)
            for differences in apart(context):
                if not all(x.contains(0) for x in differences):
                    return None
                worst = max([worst, *(upper(abs(x)) if x.is_finite() else 2 * RADIUS for x in differences)])
                if worst > RADIUS:
                    break
            else:
                return worst, bits
        bits *= 2
    return None


def upper(x: Ball) -> Fraction:
    """An upper bound of a ball, exactly."""
    return _exact(x.upper())


def lower(x: Ball) -> Fraction:
    """A lower bound of a ball, exactly."""
    return _exact(x.lower())


def _exact(x: Ball) -> Fraction:
    if not x.is_finite():
        raise Undecided("an enclosure is not finite", "take a context whose layers stay away from 0")
    m, e = x.man_exp()
    return Fraction(int(m)) * Fraction(2) ** int(e)


def _column(zero: Balls, n: int, H: arb_mat) -> list[Balls]:
    return [[H[k, j] for k in range(len(zero))] for j in range(n + 1)]


def _dot(a: Any, b: Balls) -> Ball:
    pairs = [x * y for x, y in zip(a, b, strict=True)]
    return sum(pairs[1:], pairs[0])
