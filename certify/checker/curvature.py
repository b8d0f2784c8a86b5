"""The Hessian K of a fixed stage on boxes |W - U| <= r around a centre U, and its eigenvalues, in ball arithmetic.

On entries e = (i, j), f = (a, b) of W, with Y = I + W * W / N, h = tr Y^N - p, H = 2 W * (Y^(N-1))^T, c = alpha + rho h,

    K(W) = S + c K_h + rho H (x) H,    S_ef = Sigma_ia [j = b],
    (K_h)_ef = 2 [e = f] (Y^(N-1))_ji + (4 W_e W_f / N) sum_{l=0}^{N-2} (Y^l)_ja (Y^(N-2-l))_bi.

Matrices on entries are in coordinates with the signs of U. The theorems are proved in docs/theory/contraction.md#checker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property, reduce
from operator import mul
from typing import NamedTuple

from flint import acb_mat, arb, arb_mat, ctx, fmpq

from certify.checker.document import Beyond, Rejected
from certify.checker.saved import State

Entries = tuple[tuple[int, int], ...]
BITS, EXACT = 192, 1 << 15  # of ball arithmetic: no proof rests on them, only whether there is one
LARGEST, MANY, MOST_POWERS = 400, 300, 2_000_000  # entries of a Hessian, and of one for a norm; numbers in powers of Y
ZERO = arb(0)


class Box(NamedTuple):
    """|K(W) - K| <= V, |(c K_h)(W) - c K_h| <= V_h, |H(W) - H| <= V_H, |grad J(W) - gradient| <= spread (p, p, no signs)."""

    K: arb_mat
    V: arb_mat
    V_h: arb_mat
    H: arb_mat
    V_H: arb_mat
    gradient: arb_mat
    spread: arb_mat


class Modes(NamedTuple):
    """A basis with ||Q^T Q - I|| <= gram < 1, ||Q|| <= stretch, ||K Q - Q diag(lam)|| <= leak (Frobenius norm)."""

    lam: list[arb]
    Q: arb_mat
    gram: arb
    stretch: arb
    leak: arb

    def ends(self, rows: Iterable[arb]) -> tuple[arb, arb]:
        """Bounds of the eigenvalues of K + A where the row sums of |Q^T A Q| are at most these."""
        discs = list(zip(self.lam, rows, strict=True))
        low, high = least(x - r for x, r in discs), -least(-x - r for x, r in discs)
        slack = (self.gram * (high - low) + self.stretch * self.leak) / (1 - self.gram)
        return low - slack, high + slack


class Centre:
    """A fixed stage around U = state.W. Caches last as long as the process, which checks one report."""

    def __init__(self, state: State) -> None:
        self.state, self.square = state, [(i, j) for i in range(state.p) for j in range(state.p)]
        self.allowed: Entries = tuple((i, j) for i, j in self.square if state.M[i][j])
        self.signs = {(i, j): -1 if state.W[i][j] < 0 else 1 for i, j in self.square}
        self.gamma, self.alpha, self.rho, self.lam = map(arb, (state.gamma, state.alpha, state.rho, state.lam))
        self.Sigma, self.U = arb_mat(state.Sigma), arb_mat(state.W)

    def _powers(self, entries: Entries, radius: float) -> tuple[arb_mat, list[arb_mat]]:
        """W = |U|, + radius on the entries, and Y^0 .. Y^N there."""
        p, N, W = self.state.p, self.state.N, each(abs, self.U)
        if p * p * N > MOST_POWERS:
            raise Beyond(f"it takes {N} powers of a matrix of order {p}, more than this checker does")
        for e in entries:
            W[e] += radius
        Y, powers = arb_mat(p, p, 1) + each(mul, W, W) / N, [arb_mat(p, p, 1)]
        while len(powers) <= N:
            powers.append(powers[-1] * Y)
        return W, powers

    @cache  # noqa: B019
    def _parts(self, entries: Entries, radius: float) -> tuple[arb_mat, arb, arb_mat, arb_mat]:
        """W, h, H (p, p) and K_h (n, n) at |U| + radius; for each row of K_h one product sums over l."""
        W, powers = self._powers(entries, radius)
        N, index, rows = self.state.N, range(self.state.p), []
        if len(entries) > LARGEST:
            raise Beyond(f"it is about {len(entries)} entries of W, more than the {LARGEST} of this checker")
        for e, (i, j) in enumerate(entries):
            left = arb_mat([[Y[j, a] for Y in powers[: N - 1]] for a in index])
            total = left * arb_mat([[Y[b, i] for b in index] for Y in powers[N - 2 :: -1]])
            rows.append([total[f] * W[f] * (4 * W[i, j] / N) for f in entries])
            rows[e][e] += 2 * powers[N - 1][j, i]
        return W, powers[N].trace() - len(index), each(mul, W, powers[N - 1].transpose()) * 2, arb_mat(rows)

    @cache  # noqa: B019
    def box(self, entries: Entries, radius: float) -> Box:
        """The box |W - U| <= radius on n > 0 entries, W = U elsewhere: polynomials f >= 0 move by f(|U| + r) - f(|U|)."""
        (U, h, H, K_h), (W, h_over, H_over, K_over) = (self._parts(entries, r) for r in (0.0, radius))
        c, rise, signs = self.alpha + self.rho * h, self.rho * (h_over - h), self.signs
        S = [[self.Sigma[i, a] * (signs[i, j] * signs[a, b]) if j == b else 0 for a, b in entries] for i, j in entries]
        at, over = (arb_mat([[x[e]] for e in entries]) for x in (H, H_over))
        outer, outer_over = (x * x.transpose() * self.rho for x in (at, over))
        V_h = (K_over - K_h) * abs(c) + K_over * rise
        spread = each(abs, self.Sigma) * (W - U) + (H_over - H) * abs(c) + H_over * rise
        V = V_h + outer_over - outer
        return Box(arb_mat(S) + K_h * c + outer, V, V_h, at, over - at, self.gradient(), spread)

    def gradient(self) -> arb_mat:
        """grad J(U), (p, p)."""
        Y = arb_mat(self.state.p, self.state.p, 1) + each(mul, self.U, self.U) / self.state.N
        power = Y ** (self.state.N - 1)
        c = self.alpha + self.rho * ((power * Y).trace() - self.state.p)
        return self.Sigma * self.U - self.Sigma + each(mul, self.U, power.transpose()) * (2 * c)

    def update(self) -> list[arb]:
        """P(U) = M * soft(U - gamma grad J(U), gamma lam), row by row (arXiv 2610.10395, Algorithm 1)."""
        V, t = self.U - self.gradient() * self.gamma, self.gamma * self.lam
        return [((V[i, j] - t).max(ZERO) - (-V[i, j] - t).max(ZERO)) * self.state.M[i][j] for i, j in self.square]

    @cached_property
    def d(self) -> Fraction:
        """An upper bound of ||P(U) - U||, in so many bits that it is 0 where it can be."""
        with ctx.workprec(EXACT):
            moved = [x - u for x, u in zip(self.update(), self.U.entries(), strict=True)]
        return length(moved)

    @cache  # noqa: B019
    def modes(self, entries: Entries) -> Modes:
        """Of K(U) on n > 0 entries."""
        K = self.box(entries, 0.0).K
        return modes_of(K, *eigenbasis(K))

    @cache  # noqa: B019
    def spectrum(self, entries: Entries) -> tuple[arb, arb, arb_mat | None]:
        """Bounds of the eigenvalues of K(U) on n > 0 entries; T with T^T K(U) T = I if K(U) > 0 is proved."""
        K = self.box(entries, 0.0).K
        high, T = largest(K), inverse_factor(K)
        if T is None:
            return high - largest(arb_mat(K.nrows(), K.nrows(), 1) * high - K), high, T
        return 1 / largest(T * T.transpose()), high, T  # of the inverse of K(U)

    @cache  # noqa: B019
    def curvature(self, entries: Entries, radius: float) -> tuple[arb, arb]:
        """Bounds of the eigenvalues of K(W) on n > 0 entries over the ball: Weyl's, and relative to K(U)."""
        box, (low, high, T) = self.box(entries, radius), self.spectrum(entries)
        v = norm(box.V)
        bounds = [(low - v, high + v)]
        if T is not None:
            size = each(abs, T).transpose()
            pull, shift = (real(length((A * x).entries())) for A, x in ((T.transpose(), box.H), (size, box.V_H)))
            e = norm(size * box.V_h * size.transpose()) + self.rho * (2 * pull * shift + shift * shift)
            bounds += [((1 - e) * low, (1 + e) * high)] if e < 1 else []
        return -least(-x.lower() for x, _ in bounds), least(x.upper() for _, x in bounds)

    def by_rows(self, entries: Entries, radius: float) -> tuple[arb, arb]:
        """The same by row sums in an eigenbasis of K(U): Gershgorin's."""
        modes, ones = self.modes(entries), arb_mat(len(entries), 1, [1] * len(entries))
        Q = each(abs, modes.Q)
        return modes.ends((Q.transpose() * (self.box(entries, radius).V * (Q * ones))).entries())

    def by_constants(self, entries: Entries, radius: float, still: bool) -> tuple[arb, arb]:
        """The same by the paper's constants for ||W|| <= R = ||U|| + r and Weyl, from K(U) or from S = K(0); N > 1."""
        N, R = self.state.N, real(length(self.U.entries())) + radius
        y, c = 1 + R * R / N, abs(self.alpha + self.rho * self._parts(entries, 0.0)[1])
        a, b, d = y ** (N - 1) - 1, y ** (N - 2) * (N - 1) / N, y ** (N - 3) * ((N - 1) * (N - 2)) / N**2
        c_h, c_H, L_H, T_H = y**N - 1 - R * R, 2 * R * a, 2 * a + 4 * R * R * b, 12 * R * b + 8 * R**3 * d
        near, far = radius * (c * T_H + 3 * self.rho * c_H * L_H), (abs(self.alpha) + self.rho * c_h) * L_H
        base = Centre(replace(self.state, W=[[0.0] * self.state.p] * self.state.p)) if still else self
        low, high, _ = base.spectrum(entries)
        return (low - far, high + far + self.rho * c_H * c_H) if still else (low - near, high + near)

    @cache  # noqa: B019
    def reach(self, radius: float) -> arb:
        """A bound of ||K(W)|| on all allowed entries, n > 0, over the ball; of many by the norms of its three parts."""
        if len(self.allowed) <= MANY:
            box = self.box(self.allowed, radius)
            return norm(each(abs, box.K) + box.V)
        (_, fixed), (W, Y) = self._powers((), 0.0), self._powers(self.allowed, radius)
        N, h = self.state.N, fixed[-1].trace() - self.state.p
        c = abs(self.alpha + self.rho * h) + self.rho * (Y[-1].trace() - fixed[-1].trace())
        cycles = Y[N - 1] * 2 + (Y[N - 1] - Y[N - 2]) * (4 * (N - 1))  # K_h W / W, for Collatz
        H = [2 * W[i, j] * Y[N - 1][j, i] for i, j in self.allowed]
        S_norm = -least(-x for x in (each(abs, self.Sigma) * arb_mat(self.state.M)).entries())
        K_norm = -least(-cycles[j, i] for i, j in self.allowed)
        return S_norm + c * K_norm + self.rho * sum((x * x for x in H), ZERO)


def each(f: Callable[..., arb], *matrices: arb_mat) -> arb_mat:
    """A function of the entries of matrices."""
    return arb_mat(matrices[0].nrows(), matrices[0].ncols(), list(map(f, *(A.entries() for A in matrices))))


def least(x: Iterable[arb]) -> arb:
    """The minimum; NaN if there is one."""
    return reduce(arb.min, x)


def exact(x: arb) -> Fraction:
    """The value of an end of a ball."""
    if not x.is_finite():
        raise Rejected("a number that it needs overflows or is not bounded")
    m, e = x.man_exp()
    return int(m) * Fraction(2) ** int(e)


def real(x: Fraction) -> arb:
    """A ball that contains it."""
    return arb(fmpq(x.numerator, x.denominator))


def length(x: Iterable[arb]) -> Fraction:
    """An upper bound of a Euclidean norm."""
    return exact(sum((a * a for a in x), ZERO).upper().sqrt().upper())


def norm(B: arb_mat) -> arb:
    """An upper bound of ||A|| for symmetric |A| <= B, n > 0: the least max_i (B x)_i / x_i of a power iteration (Collatz)."""
    n, x, best = B.nrows(), [arb(1)] * B.nrows(), arb("inf")
    for _ in range(12):
        y = (B * arb_mat(n, 1, x)).entries()
        best = best.min((-least(-a / b for a, b in zip(y, x, strict=True))).upper())
        most = -least(-a.upper() for a in y)
        if not most > 0:
            break
        x = [(a / most).mid().max(arb(2) ** -20) for a in y]
    return best


def largest(A: arb_mat) -> arb:
    """An upper bound of ||A||, symmetric A (n, n), n > 0: (tr A^m)^(1/m), m = 2**24, or less where that changes little."""
    bound = arb(1)
    for k in range(1, 25):  # ||A||^2 = ||A^2|| = t ||A^2 / t||, and the last of these is at most 1, as tr A^2 <= t
        A = A * A
        t = A.trace().upper()
        bound *= (step := t.root(1 << k))
        if t == 0 or (k > 1 and step > 1 - arb(2) ** -25):
            break
        A /= t
    return bound.upper()


def inverse_factor(A: arb_mat) -> arb_mat | None:
    """The upper triangular T with T^T A T = I of symmetric A (n, n), n > 0; None if A > 0 is not proved."""
    n, rows, half = A.nrows(), A.tolist(), A.nrows() // 2
    if n == 1:
        return arb_mat([[1 / A[0, 0].sqrt()]]) if A[0, 0] > 0 else None
    top, side, rest = (arb_mat([row[columns] for row in part]) for part, columns in (
        (rows[:half], slice(half)), (rows[:half], slice(half, n)), (rows[half:], slice(half, n))
    ))  # fmt: skip
    if (T := inverse_factor(top)) is None:
        return None
    X = T.transpose() * side  # [[T, -T X R], [0, R]], where R belongs to the Schur complement
    if (R := inverse_factor(rest - X.transpose() * X)) is None:
        return None
    upper = [[*left, *right] for left, right in zip(T.tolist(), (-(T * X * R)).tolist(), strict=True)]
    return arb_mat(upper + [[arb(0)] * half + row for row in R.tolist()])


def eigenbasis(A: arb_mat) -> tuple[list[arb], arb_mat]:
    """Approximate eigenvalues and unit eigenvectors (columns) of symmetric A (n, n), n > 0; nothing is proved."""
    mid, most = A.mid(), -least(-x.mid() for x in each(abs, A).entries())
    for i in range(A.nrows()):
        mid[i, i] += most * (i * i * arb(2) ** -110)  # multiple eigenvalues have bases that are not orthogonal
    values, vectors = acb_mat(mid).eig(right=True, algorithm="approx")
    columns = [[x.real.mid() for x in column] for column in vectors.transpose().tolist()]
    unit = arb_mat([[(x / real(length(column))).mid() for x in column] for column in columns])
    return [x.real.mid() for x in values], unit.transpose()


def modes_of(K: arb_mat, lam: list[arb], Q: arb_mat) -> Modes:
    """How far numbers and vectors are from eigenvalues and eigenvectors of K (n, n)."""
    n = K.nrows()
    gram = norm(each(abs, Q.transpose() * Q - arb_mat(n, n, 1)))
    if not gram < 1:
        raise Rejected("no eigenbasis of the Hessian at its centre is found")
    rest = K * Q - Q * arb_mat([[x if i == j else 0 for j in range(n)] for i, x in enumerate(lam)])
    return Modes(lam, Q, gram, (1 + gram).sqrt().upper(), real(length(rest.entries())))
