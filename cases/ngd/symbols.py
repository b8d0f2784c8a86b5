"""The layer in symbols: identities between rational functions, decided exactly.

Everything is a polynomial over the rationals in z_ik, t_kj, C1, C2 and one symbol for the exponential of each exponent that
occurs. Exponents are polynomials themselves; two exponentials share their symbol if and only if these are equal, and the
exponential of 0 is 1. So an identity that holds here holds for all real numbers (where no denominator vanishes: they are sums
of exponentials). The converse is not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flint import Ordering, fmpq_mpoly_ctx

Poly = Any
Matrix = list[list[Poly]]


@dataclass
class Ring:
    """Polynomials in the entries of one context with n examples in d dimensions, and in exponentials.

    `spare` is how many of these an identity needs that holds; one that does not may need as many on either side.
    """

    n: int
    d: int
    spare: int
    powers: list[Poly] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, d = self.n, self.d
        names = [f"z{i}_{k}" for i in range(n) for k in range(d)]
        names += [f"t{k}_{j}" for k in range(d) for j in range(n + 1)] + ["C1", "C2", "alpha", "largest", "lowered"]
        ctx = fmpq_mpoly_ctx.get(names + [f"e{m}" for m in range(2 * self.spare)], Ordering.degrevlex)
        gens = ctx.gens()
        self.one, self.zero = ctx.constant(1), ctx.constant(0)
        self.Z: Matrix = [list(gens[i * d : i * d + d]) for i in range(n)]
        rest = gens[n * d :]
        self.T: Matrix = [list(rest[k * (n + 1) : (k + 1) * (n + 1)]) for k in range(d)]
        #: of a kernel: its largest score, and the exponential of minus that
        self.C1, self.C2, self.alpha, self.largest, self.lowered = gens[len(names) - 5 : len(names)]
        self.exponentials = gens[len(names) :]

    @property
    def theta(self) -> list[Poly]:
        """The bottom block of the last column."""
        return [row[-1] for row in self.T]

    def exp(self, exponent: Poly) -> Poly:
        """The symbol of the exponential of a polynomial."""
        if exponent == self.zero:
            return self.one
        if exponent not in self.powers:
            self.powers.append(exponent)
        return self.exponentials[self.powers.index(exponent)]


@dataclass(frozen=True)
class Quotient:
    """A vector of rational functions with one denominator."""

    over: list[Poly]
    under: Poly

    def equals(self, other: Quotient) -> bool:
        """Whether both are the same rational functions, by cross-multiplication."""
        pairs = zip(self.over, other.over, strict=True)
        return all(a * other.under == b * self.under for a, b in pairs)


def attention(ring: Ring, masked: bool, columns: list[int]) -> list[Quotient]:
    """These columns of H + V H softmax(H^T W H), by full matrix products: top block (d entries), then bottom block."""
    n, d, zero = ring.n, ring.d, ring.zero
    top = [[ring.Z[i][k] for i in range(n)] + [zero] for k in range(d)]
    H = top + ring.T
    V = [[zero] * 2 * d for _ in range(2 * d)]
    W = [[zero] * 2 * d for _ in range(2 * d)]
    for k in range(d):
        V[d + k][k], W[k][d + k] = ring.C1, -ring.C2
    VH, WH = product(V, H, zero), product(W, H, zero)
    keys = range(n if masked else n + 1)
    found = []
    for j in columns:
        e = [ring.exp(sum((H[r][i] * WH[r][j] for r in range(2 * d)), zero)) for i in keys]
        total = sum(e, zero)
        added = [sum((VH[r][i] * e[i] for i in keys), zero) for r in range(2 * d)]
        found.append(Quotient([H[r][j] * total + added[r] for r in range(2 * d)], total))
    return found


def product(A: Matrix, B: Matrix, zero: Poly) -> Matrix:
    """A B, without the terms that a known zero makes."""
    columns = range(len(B[0]))
    return [
        [sum((a * B[r][j] for r, a in enumerate(row) if a != zero and B[r][j] != zero), zero) for j in columns]
        for row in A
    ]


def loss(ring: Ring, phi: list[Poly]) -> tuple[Poly, list[Poly]]:
    """The exponential loss mean_i exp(-<z_i, phi>) and its gradient."""
    n, d = ring.n, ring.d
    e = [ring.exp(-sum((ring.Z[i][k] * phi[k] for k in range(d)), ring.zero)) for i in range(n)]
    gradient = [-sum((ring.Z[i][k] * e[i] for i in range(n)), ring.zero) / n for k in range(d)]
    return sum(e, ring.zero) / n, gradient


def step(n: int, d: int) -> bool:
    """Every column of a masked layer keeps its top block and takes t to t - C1 grad L(C2 t) / L(C2 t) in its bottom block."""
    ring = Ring(n, d, n * (n + 1))
    for j, column in enumerate(attention(ring, True, list(range(n + 1)))):
        t = [row[j] for row in ring.T]
        value, gradient = loss(ring, [ring.C2 * x for x in t])
        kept = [ring.Z[j][k] if j < n else ring.zero for k in range(d)]
        moved = [t[k] * value - ring.C1 * gradient[k] for k in range(d)]
        if not column.equals(Quotient([x * value for x in kept] + moved, value)):
            return False
    return True


def unmasked(n: int, d: int) -> bool:
    """Without the mask the last column takes theta to theta - C1 grad L(C2 theta) / (L(C2 theta) + 1/n)."""
    ring = Ring(n, d, n)
    (column,) = attention(ring, False, [n])
    value, gradient = loss(ring, [ring.C2 * x for x in ring.theta])
    under = value + ring.one / n
    moved = [ring.theta[k] * under - ring.C1 * gradient[k] for k in range(d)]
    return column.equals(Quotient([ring.zero] * d + moved, under))


def effective(n: int, d: int) -> bool:
    """With phi = C2 theta, a layer takes phi to phi - C1 C2 grad L(phi) / L(phi)."""
    ring = Ring(n, d, n)
    (column,) = attention(ring, True, [n])
    phi = [ring.C2 * x for x in ring.theta]
    value, gradient = loss(ring, phi)
    scaled = Quotient([ring.C2 * x for x in column.over[d:]], column.under)
    return scaled.equals(Quotient([phi[k] * value - ring.C1 * ring.C2 * gradient[k] for k in range(d)], value))


def rmsnorm(n: int, d: int) -> bool:
    """The squares of a root-mean-square norm's outputs, scaled by alpha / sqrt(2 d), are those of alpha grad L / |grad L|.

    The outputs of the attention are a = (0; C1 sum_i p_i z_i), a positive multiple of -grad L for C1 > 0, and the norm divides
    by a positive root: so the signs agree as well, and with them the numbers.
    """
    ring = Ring(n, d, n)
    (column,) = attention(ring, True, [n])
    t = [ring.zero] * d + ring.theta
    a = [x - y * column.under for x, y in zip(column.over, t, strict=True)]
    value, gradient = loss(ring, [ring.C2 * x for x in ring.theta])
    # a_k / column.under = -C1 gradient_k / value, entry by entry
    if any(x * value != -ring.C1 * g * column.under for x, g in zip(a[d:], gradient, strict=True)) or any(a[:d]):
        return False
    mean = sum((x * x for x in a), ring.zero) / (2 * d)
    size = sum((g * g for g in gradient), ring.zero)
    alpha = ring.alpha
    return all(
        alpha * alpha * a[d + k] * a[d + k] / (2 * d) * size == alpha * alpha * gradient[k] * gradient[k] * mean
        for k in range(d)
    )


IDENTITIES: dict[str, Callable[[int, int], bool]] = {
    "step": step,
    "unmasked": unmasked,
    "effective": effective,
    "rmsnorm": rmsnorm,
}
