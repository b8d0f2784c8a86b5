"""The Hessian of a fixed stage on boxes around a centre U, in ball arithmetic: enclosures, spectra, and how far they move.

On entries e = (i, j), f = (a, b) of W, with Y = I + W * W / N, h = tr Y^N - p, H = 2 W * (Y^(N-1))^T off the diagonal,

    K(W) = S + (alpha + rho h) K_h + rho H (x) H,    S_ef = Sigma_ia [j = b],
    (K_h)_ef = 2 [e = f] (Y^(N-1))_ji + (4 W_ij W_ab / N) sum_{l=0}^{N-2} (Y^l)_ja (Y^(N-2-l))_bi.

**Signs.** All matrices (n, n) here are D K D, D the signs of U (+1 for 0): K_h(U) and H(U) become those of |U|.
**Majorant.** h, H, K_h are polynomials in W with coefficients >= 0, so for |W - U| <= R entrywise each of them, f, moves by at
most f(|U| + R) - f(|U|), and so does f g. Such a move is a convex function of t for R = t E, E >= 0, t >= 0.
**Norm** (Collatz). If |A| <= B entrywise, both symmetric, and x > 0, then ||A||_2 <= max_i (B x)_i / x_i.
Square roots are taken of upper ends only; a comparison of two balls is true only if it is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from flint import acb_mat, arb, arb_mat, fmpq

from certify.checker.document import Beyond, Rejected
from certify.checker.saved import State

Entries = tuple[tuple[int, int], ...]
BITS = 192  # of ball arithmetic: no proof rests on it, only whether there is one
LARGEST = 300  # entries, of dense matrices
_MOST_POWERS = 2_000_000  # numbers in the powers of Y
_STEPS = 12  # of a power iteration
_LEAST_SHARE = arb(2) ** -20


@dataclass(frozen=True)
class Box:
    """Over a box: |K(W) - K| <= V, |(c K_h)(W) - c K_h| <= V_h; H(W) within H_over - H of H (columns); n entries.

    gradient, spread (p, p), not signed: |grad J(W) - gradient| <= spread.
    """

    K: arb_mat
    V: arb_mat
    V_h: arb_mat
    H: arb_mat
    H_over: arb_mat
    gradient: arb_mat
    spread: arb_mat


class Centre:
    """A fixed stage around a centre: `state.W` is U."""

    def __init__(self, state: State) -> None:
        self.state = state
        square = [(i, j) for i in range(state.p) for j in range(state.p)]
        self.allowed: Entries = tuple((i, j) for i, j in square if state.M[i][j])
        self.signs = {(i, j): -1 if state.W[i][j] < 0 else 1 for i, j in square}
        self.gamma, self.alpha, self.rho, self.lam = map(arb, (state.gamma, state.alpha, state.rho, state.lam))
        self.Sigma = arb_mat(state.Sigma)
        self._kept: dict[Any, Any] = {}

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """The object of this key, made once."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def size(self, entries: Entries, radius: float) -> arb_mat:
        """|U| + radius on the entries, (p, p)."""
        inside, r = set(entries), arb(radius)
        rows = enumerate(self.state.W)
        return arb_mat([[abs(arb(x)) + (r if (i, j) in inside else 0) for j, x in enumerate(row)] for i, row in rows])

    def _point(self, W: arb_mat) -> tuple[arb, arb_mat, list[arb_mat]]:
        """h, H (p, p) and Y^0 .. Y^N at a W >= 0."""
        p, N = self.state.p, self.state.N
        if p * p * N > _MOST_POWERS:
            raise Beyond(f"it takes {N} powers of a matrix of order {p}, more than this checker does")
        Y = identity(p) + times(W, W) * (arb(1) / N)
        powers = [identity(p)]
        while len(powers) <= N:
            powers.append(powers[-1] * Y)
        return powers[N].trace() - p, times(W, powers[N - 1].transpose()) * 2, powers

    def _cycles(self, W: arb_mat, powers: list[arb_mat], entries: Entries) -> arb_mat:
        """K_h (n, n) at a W >= 0: for each pair of columns j, b of W, one product gives the sums over l."""
        N, n = self.state.N, len(entries)
        tables = [Y.tolist() for Y in powers]
        columns: dict[int, list[int]] = {}
        for e, (_, j) in enumerate(entries):
            columns.setdefault(j, []).append(e)
        at = [W[e] * 2 for e in entries]
        scaled = [x / N for x in at]
        K = [[arb(0)] * n for _ in range(n)]
        for j, first in columns.items():
            for b, second in columns.items():
                if b < j:
                    continue  # K_h is symmetric
                left = arb_mat([[tables[N - 2 - k][b][entries[e][0]] for k in range(N - 1)] for e in first])
                right = arb_mat([[tables[k][j][entries[f][0]] for f in second] for k in range(N - 1)])
                for e, row in zip(first, (left * right).tolist(), strict=True):
                    for f, x in zip(second, row, strict=True):
                        K[e][f] = K[f][e] = x * at[e] * scaled[f]
        for e, (i, j) in enumerate(entries):
            K[e][e] += tables[N - 1][j][i] * 2
        return arb_mat(K)

    def box(self, entries: Entries, radius: float) -> Box:
        """The box |W - U| <= radius on the entries, W = U elsewhere."""
        return self.kept(("box", entries, radius), lambda: self._box(entries, radius))  # type: ignore[no-any-return]

    def _box(self, entries: Entries, radius: float) -> Box:
        if len(entries) > LARGEST:
            raise Beyond(f"it is about {len(entries)} entries of W, more than the {LARGEST} of this checker")
        (h, H, K_h), (h_over, H_over, K_over) = (self._parts(entries, r) for r in (0.0, radius))
        c, rise = self.alpha + self.rho * h, self.rho * (h_over - h)
        sign, e = self.signs, list(entries)
        S = [[self.Sigma[i, a] * (sign[i, j] * sign[a, b]) if j == b else 0 for a, b in e] for i, j in e]
        k, k_over = (arb_mat(len(e), 1, [x[f] for f in e]) for x in (H, H_over))
        outer, outer_over = k * k.transpose() * self.rho, k_over * k_over.transpose() * self.rho
        V_h = (K_over - K_h) * abs(c) + K_over * rise
        p = range(self.state.p)
        slope = arb_mat([[H[i, j] * sign[i, j] for j in p] for i in p]) * c
        step = arb_mat(self.state.W) - identity(self.state.p)
        reach = self.size(entries, radius) - self.size(entries, 0.0)
        return Box(
            K=arb_mat(S) + K_h * c + outer if e else arb_mat(0, 0),
            V=V_h + outer_over - outer,
            V_h=V_h,
            H=k,
            H_over=k_over,
            gradient=self.Sigma * step + slope,
            spread=absolute(self.Sigma) * reach + (H_over - H) * abs(c) + H_over * rise,
        )

    def _parts(self, entries: Entries, radius: float) -> tuple[arb, arb_mat, arb_mat]:
        def make() -> tuple[arb, arb_mat, arb_mat]:
            W = self.size(entries, radius)
            h, H, powers = self._point(W)
            return h, H, self._cycles(W, powers, entries)

        return self.kept(("parts", entries, radius), make)  # type: ignore[no-any-return]

    def displacement(self) -> Fraction:
        """An upper bound of ||P(U) - U||."""
        gradient, threshold, total = self.box((), 0.0).gradient, self.gamma * self.lam, arb(0)
        for i, j in self.allowed:
            u = arb(self.state.W[i][j])
            v = u - self.gamma * gradient[i, j]
            step = (v - threshold).max(arb(0)) - (-v - threshold).max(arb(0)) - u
            total += step * step
        return root(total)

    def basis(self, entries: Entries) -> tuple[list[arb], arb_mat, arb, arb]:
        """Approximate eigenvalues and eigenvectors (columns) of K(U); proved bounds of its least and largest eigenvalue."""

        def make() -> tuple[list[arb], arb_mat, arb, arb]:
            K = self.box(entries, 0.0).K
            values, Q = eigenbasis(K)
            return values, Q, *spectrum(K, Q)

        return self.kept(("basis", entries), make)  # type: ignore[no-any-return]

    def curvature(self, entries: Entries, radius: float) -> tuple[arb, arb]:
        """Bounds of the eigenvalues of K(W) on n > 0 entries over the ball: the best of all that are known here."""
        box = self.box(entries, radius)
        _, Q, low, high = self.basis(entries)
        v = norm(box.V)  # Weyl
        bounds = [(low - v, high + v), spectrum(box.K, Q, box.V)]
        if entries == self.allowed:
            _, c_H, L_H, T_H = self._constants(radius)
            c = abs(self.alpha + self.rho * self._parts((), 0.0)[0])
            moved = arb(radius) * (c * T_H + 3 * self.rho * c_H * L_H)
            bounds.append((low - moved, high + moved))
        # relative: if T^T K(U) T = I and ||T^T (K(W) - K(U)) T|| <= e, then |K(W) - K(U)| <= e K(U) as quadratic forms
        T = self.kept(("factor", entries), lambda: inverse_factor(box.K))
        if T is not None and low > 0:
            moved_h = absolute(T).transpose() * box.V_h * absolute(T)
            pull = real(length((T.transpose() * box.H).entries()))
            shift = real(length((absolute(T).transpose() * (box.H_over - box.H)).entries()))
            e = norm(moved_h) + self.rho * (2 * pull * shift + shift * shift)
            if e < 1:
                bounds.append(((1 - e) * low, (1 + e) * high))
        return reduce(arb.max, (x.lower() for x, _ in bounds)), reduce(arb.min, (x.upper() for _, x in bounds))

    def _constants(self, radius: float) -> tuple[arb, arb, arb, arb]:
        """The paper's bounds of h, ||H||, ||h''|| and of the Lipschitz constant of h'' on ||W|| <= R = ||U|| + r; N > 1."""
        N = self.state.N
        R = real(length(arb(x) for row in self.state.W for x in row)) + arb(radius)
        y = 1 + R * R / N
        a, b = y ** (N - 1) - 1, y ** (N - 2) * (N - 1) / N
        d = y ** (N - 3) * ((N - 1) * (N - 2)) / (N * N) if N > 2 else arb(0)
        return y**N - 1 - R * R, 2 * R * a, 2 * a + 4 * R * R * b, 12 * R * b + 8 * R**3 * d

    def global_curvature(self, radius: float) -> tuple[arb, arb]:
        """Bounds of the eigenvalues of K(W) on the allowed entries, n > 0, from the blocks of Sigma and constants only."""
        c_h, c_H, L_H, _ = self._constants(radius)
        moved, ends = (abs(self.alpha) + self.rho * c_h) * L_H, []
        for j in {j for _, j in self.allowed}:
            parents = [i for i, b in self.allowed if b == j]
            block = arb_mat([[self.Sigma[i, a] for a in parents] for i in parents])
            ends.append(spectrum(block, eigenbasis(block)[1]))
        low, high = reduce(arb.min, (x for x, _ in ends)), reduce(arb.max, (x for _, x in ends))
        return low - moved, high + moved + self.rho * c_H * c_H

    def reach(self, radius: float) -> arb:
        """An upper bound of ||K(W)|| on all allowed entries, n > 0, over the ball."""
        if len(self.allowed) <= LARGEST:
            box = self.box(self.allowed, radius)
            return norm(absolute(box.K) + box.V)
        # without K: sum_l Y^l X Y^(N-2-l) is the corner of a power of [[Y, X], [0, Y]]
        N, p, rows = self.state.N, self.state.p, range(self.state.p)
        W, mask = self.size(self.allowed, radius), arb_mat(self.state.M)
        h, H, powers = self._point(W)
        Y, c = powers[1].tolist(), abs(self.alpha + self.rho * self._parts((), 0.0)[0])
        c += self.rho * (h - self._parts((), 0.0)[0])

        def apply(x: arb_mat) -> arb_mat:
            X = times(W, x)
            top = [[*Y[i], *X.tolist()[i]] for i in rows]
            power = (arb_mat(top + [[arb(0)] * p + Y[i] for i in rows]) ** (N - 1)).tolist()
            paths = arb_mat([[power[j][p + i] for j in rows] for i in rows])
            cycles = times(powers[N - 1].transpose(), x) * 2 + times(W, paths) * (arb(4) / N)
            stiff = H * (self.rho * sum(times(H, x).entries(), arb(0)))
            return times(mask, absolute(self.Sigma) * x + cycles * c + stiff)

        return collatz(apply, mask)


def identity(n: int) -> arb_mat:
    """The unit matrix."""
    return arb_mat(n, n, [int(k % (n + 1) == 0) for k in range(n * n)])


def times(A: arb_mat, B: arb_mat) -> arb_mat:
    """The entrywise product."""
    return arb_mat(A.nrows(), A.ncols(), [a * b for a, b in zip(A.entries(), B.entries(), strict=True)])


def absolute(A: arb_mat) -> arb_mat:
    """The entrywise absolute value."""
    return arb_mat(A.nrows(), A.ncols(), [abs(a) for a in A.entries()])


def exact(x: arb) -> Fraction:
    """The value of an end of a ball."""
    if not x.is_finite():
        raise Rejected("a number that it needs overflows or is not bounded")
    m, e = x.man_exp()
    return int(m) * Fraction(2) ** int(e)


def real(x: Fraction) -> arb:
    """A ball that contains it."""
    return arb(fmpq(x.numerator, x.denominator))


def root(square: arb) -> Fraction:
    """An upper bound of the square root of a number >= 0."""
    return exact(square.upper().sqrt().upper())


def length(x: Iterable[arb]) -> Fraction:
    """An upper bound of a Euclidean norm."""
    return root(sum((a * a for a in x), arb(0)))


def collatz(apply: Callable[[arb_mat], arb_mat], support: arb_mat) -> arb:
    """An upper bound of ||A|| where |A| <= B, for x -> B x on the support, by power iteration from the largest row sum."""
    x, best = support, arb("inf")
    inside = [k for k, s in enumerate(support.entries()) if s > 0]
    for _ in range(_STEPS):
        y = apply(x).entries()
        at = x.entries()
        best = best.min(reduce(arb.max, (y[k] / at[k] for k in inside)).upper())
        most = reduce(arb.max, y).upper()
        if not most > 0:
            break
        shares = [(a / most).mid().max(_LEAST_SHARE) for a in y]
        x = times(arb_mat(x.nrows(), x.ncols(), shares), support)
    return best


def norm(B: arb_mat) -> arb:
    """An upper bound of ||A|| for every symmetric A with |A| <= B, B (n, n) symmetric, n > 0."""
    n = B.nrows()
    return collatz(lambda x: B * x, arb_mat(n, 1, [1] * n))


def inverse_factor(A: arb_mat) -> arb_mat | None:
    """The upper triangular T with T^T A T = I of symmetric A (n, n), n > 0; None if A > 0 is not proved."""
    n, rows = A.nrows(), A.tolist()
    if n == 1:
        return arb_mat([[1 / A[0, 0].sqrt()]]) if A[0, 0] > 0 else None
    k = n // 2
    T = inverse_factor(arb_mat([row[:k] for row in rows[:k]]))
    if T is None:
        return None
    Z = T.transpose() * arb_mat([row[k:] for row in rows[:k]])
    rest = inverse_factor(arb_mat([row[k:] for row in rows[k:]]) - Z.transpose() * Z)
    if rest is None:
        return None
    upper = zip(T.tolist(), (T * Z * rest * -1).tolist(), strict=True)
    return arb_mat([[*left, *right] for left, right in upper] + [[arb(0)] * k + row for row in rest.tolist()])


def eigenbasis(A: arb_mat) -> tuple[list[arb], arb_mat]:
    """Approximate eigenvalues and unit eigenvectors (columns) of symmetric A (n, n), n > 0; nothing is proved."""
    n, rows = A.nrows(), A.mid().tolist()
    most = reduce(arb.max, absolute(A).entries()).mid()
    for i in range(n):
        rows[i][i] += most * (i * i * arb(2) ** -110)  # multiple eigenvalues would make bases that are not orthogonal
    values, vectors = acb_mat(rows).eig(right=True, algorithm="approx")
    unit = []
    for column in vectors.transpose().tolist():
        size = real(length(x.real for x in column))
        unit.append([(x.real / size).mid() for x in column])
    return [x.real.mid() for x in values], arb_mat(unit).transpose()


def spectrum(A: arb_mat, Q: arb_mat, V: arb_mat | None = None) -> tuple[arb, arb]:
    """Bounds of the eigenvalues of every symmetric matrix within V of A (n, n), n > 0, by weighted row sums of Q^T A Q.

    With e = ||Q^T Q - I|| < 1, (1 - e) |y|^2 <= |Q y|^2 <= (1 + e) |y|^2, and for B = Q^T A Q + E, |E| <= C, and numbers s, t
    with s - diag B, t + diag B >= 0: s - ||s - B|| <= B <= ||t + B|| - t.
    """
    n = A.nrows()
    e = norm(absolute(Q.transpose() * Q - identity(n)))
    if not e < 1:
        return arb("-inf"), arb("inf")
    B = Q.transpose() * A * Q
    C = absolute(B) if V is None else absolute(B) + absolute(Q).transpose() * V * absolute(Q)
    s = reduce(arb.max, (abs(B[i, i]) for i in range(n))).upper()
    ends = []
    for sign in (-1, 1):
        rows = C.tolist()
        for i in range(n):
            rows[i][i] += s + sign * B[i, i] - abs(B[i, i])
        ends.append(norm(arb_mat(rows)) - s)
    low, high = -ends[0], ends[1]
    return low / (1 + e if low > 0 else 1 - e), high / (1 - e if high > 0 else 1 + e)
