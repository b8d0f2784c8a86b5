"""The modal bound: each part of the start error decays at the rate of its own eigenvector.

**Setting.** The theorem of `certify.contraction.updates`, e_k = W_k - W_*, W_{k+1} = P(W_k) + r_k, ||r_k|| <= eps, and

 (N) P is q(t)-Lipschitz on the part of the ball within t of U; q is nondecreasing, q(r) <= q.
 (M) *Fixed branches:* no entry changes its branch over the ball, so that P(W) - P(W') = (I - gamma Kbar)(W - W') exactly,
     Kbar being the mean of the symmetric Hessian K over the segment, and ||I - gamma K(W)|| <= q(t) where ||W - U|| <= t.
     K(U) = Q~ diag(lam) Q~^T + R, Q~ orthogonal, ||R|| <= rho_R, and ||K(W) - K(U)|| <= v(t) for ||W - U|| <= t, v
     nondecreasing. The stored Q satisfies ||Q - Q~|| <= delta_Q; w = `offset`, ||W_0 - U - w|| <= `offset_error`.

With c = d / (1 - q), a_i = 1 - gamma lam_i, a = max |a_i|, y = Q^T w, and for any beta > 0 the means over a segment

    qbar(beta) = 1/beta int_0^beta q(c + x) dx,      vbar(beta) = 1/beta int_0^beta v(c + x) dx      (arguments cut at r)

**Theorem.** ||e_k|| <= beta_k, where m_k = sqrt(sum_i a_i^{2k} y_i^2), s_0 = c + offset_error + delta_Q ||w||,

    s_{k+1}    = min(a s_k + kappa_k beta_k,  qbar_k s_k + kappa_k m_k) + eps,     kappa_k = gamma (vbar(beta_k) + rho_R),
    beta_0     = min(||w|| + offset_error + c,  m_0 + s_0),     beta_{k+1} = min(qbar_k beta_k + eps,  m_{k+1} + s_{k+1}).

Where beta_k <= s_k, one may go on from m = 0, s_k = beta_k. Without (M), the first terms of beta_0, beta_{k+1} still hold.

*Proof.* The segment from W_* to W_k lies in the ball, its point at distance x from W_* lies within min(c + x, r) of U. Cut
it finely: by (N) ||P(W_k) - P(W_*)|| <= int_0^{||e_k||} q(c + x) dx <= qbar_k beta_k, the integral of a nonnegative function
up to beta_k >= ||e_k||. Under (M) let A = I - gamma Q~ diag(lam) Q~^T = Q~ diag(a) Q~^T, M = I - gamma Kbar_k, and split
e_k = A^k Q~ y + f_k. Then ||A^k Q~ y|| = m_k, and ||f_0|| <= ||W_0 - U - w|| + ||U - W_*|| + ||(Q~ - Q)^T w|| <= s_0. Also
e_{k+1} = M e_k + r_k gives f_{k+1} = A f_k + (M - A) e_k + r_k = M f_k + (M - A) A^k Q~ y + r_k, where M - A = -gamma (Kbar_k -
K(U) + R) has norm at most gamma (mean of v over the segment + rho_R), and means of nondecreasing functions grow with
the segment; likewise ||M|| <= qbar_k. So ||f_k|| <= s_k implies ||f_{k+1}|| <= s_{k+1}. For the restart take f_k = e_k. QED

**How it is evaluated.** v and q are step functions, so the means are exact sums; breakpoints t_j - c are rounded down,
which only moves steps towards 0. All terms are nonnegative. Every scalar formula is computed in binary64 to nearest
and multiplied by 1 + 2**-50, for at most seven roundings of relative size 2**-53 each; products get 2**-1073 for underflow
unless a factor is 0. |a_i|^k y_i is a running product with the factor 1 + 2**-50 in every step, kept above 2**-500 so that
nothing underflows; a sum of n squares in any order has n - 1 roundings, and m_k is multiplied by 1 + (n + 10) 2**-52.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, repeat

import numpy as np
import numpy.typing as npt

from certify.arithmetic.directed import norm_up, relaxed_down, relaxed_up, round_down, round_up
from certify.arithmetic.formats import Floats
from certify.contraction.updates import Ball, Real, exact, lipschitz, norm_bound, norm_count, start_bound, tolerance
from certify.errors import InputRejected

_UP = 1.0 + 2.0**-50
_TINY = 2.0**-1073
_LEAST_PART = 2.0**-500
_BLOCK = 256  # updates whose modal norms are computed at once


@dataclass(frozen=True)
class Curvature:
    """What is known of the Hessian on the ball; the letters are those of the theorem.

    Attributes
    ----------
    gamma : step size, exact.
    Q, lam : shapes (n, n), eigenvectors in columns, and (n,), of `certify.contraction.eigenbasis.Basis`.
    distance, residual : delta_Q and rho_R.
    radii, variation : shape (m,); v(t) = variation[j] for radii[j-1] < t <= radii[j]. The radii increase, the last is at
        least r.
    rates : shape (m,), q(t) by the same radii; None for q(t) = q.

    Any bound that holds within a radius holds within smaller ones, so the tables need not be monotone.
    """

    gamma: Real
    Q: Floats
    lam: Floats
    distance: float
    residual: float
    radii: Floats
    variation: Floats
    rates: Floats | None = None

    def __post_init__(self) -> None:
        n, m = len(self.lam), len(self.radii)
        tables = [self.variation] if self.rates is None else [self.variation, self.rates]
        if self.Q.shape != (n, n) or m == 0 or any(table.shape != (m,) for table in tables):
            raise InputRejected("the arrays of the curvature do not fit together", "pass one value a mode, a radius")
        if not all(np.isfinite(x).all() for x in (self.Q, self.lam, self.radii, *tables)):
            raise InputRejected("the curvature has an entry that is not finite", "use a smaller ball")
        if not ((np.diff(self.radii) > 0).all() and all((x >= 0).all() for x in (self.radii, *tables))):
            raise InputRejected("the radii do not increase or a bound is negative", "sort the table by radius")
        for name in ("gamma", "distance", "residual"):
            exact(getattr(self, name), name)


@dataclass(frozen=True)
class Prediction:
    """Predicted update counts, and the bounds to plot.

    Attributes
    ----------
    start : B_0, absolute.
    floor : eps / (1 - q), absolute, below which nothing is predicted.
    norm, modal : updates after which the distance to the fixed point is at most the tolerance; None if no count is proved.
    updates : shape (points,), update numbers, increasing from 0.
    norm_bounds, modal_bounds : shape (points,), bounds of the distance after these updates, absolute.
    """

    start: float
    floor: float
    norm: int | None
    modal: int | None
    updates: npt.NDArray[np.int64]
    norm_bounds: Floats
    modal_bounds: Floats


def modal_bounds(
    ball: Ball, curvature: Curvature, offset: Floats, count: int, *, fixed_branches: bool, offset_error: Real = 0.0
) -> Floats:
    """beta_0 .. beta_count of the theorem, absolute, shape (count + 1,).

    Parameters
    ----------
    offset, offset_error : w, shape (n,), and the bound of ||W_0 - U - w||.
    fixed_branches : whether hypothesis (M) is proved; if not, only the terms that need (N) are used.

    Raises
    ------
    InputRejected : the start is outside the ball, the table of radii does not reach r, or a number is not finite.
    """
    bounds = _bounds(ball, curvature, offset, exact(offset_error, "the offset error"), fixed_branches)
    return np.fromiter(islice(bounds, count + 1), float, count + 1)


def modal_count(
    ball: Ball,
    curvature: Curvature,
    offset: Floats,
    tol: Real,
    limit: int = 100_000,
    *,
    fixed_branches: bool,
    offset_error: Real = 0.0,
) -> int | None:
    """A number of updates after which the distance is at most `tol`, never above `norm_count`; None if floor >= tol.

    Past `limit` updates the norm bound takes over. Parameters and errors as for `modal_bounds`, and tol <= 0.
    """
    return predict(
        ball, curvature, offset, tol, limit, fixed_branches=fixed_branches, offset_error=offset_error, points=1
    ).modal


def predict(
    ball: Ball,
    curvature: Curvature,
    offset: Floats,
    tol: Real,
    limit: int = 100_000,
    *,
    fixed_branches: bool,
    offset_error: Real = 0.0,
    points: int = 200,
) -> Prediction:
    """Both counts, and both bounds at about `points` updates.

    They run to twice the modal count, but neither past the norm count nor past `limit`; if no count is proved, until the
    norm bound is at most twice the floor. Parameters and errors as for `modal_count`.
    """
    slack = exact(offset_error, "the offset error")
    start = _start(ball, offset, slack)
    norm = norm_count(start, ball.q, ball.eps, tol)
    shown = norm_count(start, ball.q, ball.eps, 2 * ball.floor) if norm is None and ball.floor else norm
    last = limit if shown is None else min(shown, limit)
    further = _bounds(ball, curvature, offset, slack, fixed_branches)
    bounds, modal = [next(further)], norm
    target = relaxed_down(round_down(tolerance(tol)))  # so that an independent evaluation meets the tolerance itself
    while bounds[-1] > target and len(bounds) <= last:
        bounds.append(next(further))
    if norm is not None:
        rest = 0 if bounds[-1] <= target else norm_count(relaxed_up(bounds[-1]), ball.q, ball.eps, tol)
        modal = norm if rest is None else min(len(bounds) - 1 + rest, norm)
        if points > 1:
            bounds += islice(further, max(min(2 * modal, last) + 1 - len(bounds), 0))
    updates = np.unique(np.linspace(0, len(bounds) - 1, points).round().astype(np.int64))
    norms = np.array([norm_bound(start, ball.q, ball.eps, k) for k in updates.tolist()])
    modals = np.minimum(np.array(bounds)[updates], norms)
    return Prediction(start, round_up(ball.floor), norm, modal, updates, norms, modals)


def _start(ball: Ball, offset: Floats, slack: Fraction) -> float:
    if not np.isfinite(offset).all():
        raise InputRejected("the offset of the start has an entry that is not finite", "pass finite coordinates")
    distance = Fraction(norm_up(offset)) + slack
    if distance > exact(ball.radius, "the radius"):
        raise InputRejected("the start lies outside the certified ball", "replay updates until it has entered the ball")
    return start_bound(distance, ball)


def _bounds(ball: Ball, curvature: Curvature, offset: Floats, slack: Fraction, fixed: bool) -> Iterator[float]:
    """beta_0, beta_1, ..., without end."""
    if offset.shape != curvature.lam.shape:
        raise InputRejected(f"the offset has shape {offset.shape}, not one entry a mode", "pass it on the face")
    if exact(ball.radius, "the radius") > Fraction(float(curvature.radii[-1])):
        raise InputRejected("the table of radii ends inside the ball", "bound the variation on the whole ball too")
    start, q, eps = _start(ball, offset, slack), round_up(lipschitz(ball.q)), round_up(exact(ball.eps, "eps"))
    varies = _Mean(curvature.radii, curvature.variation, ball.centre)
    rates = np.full(len(curvature.radii), q) if curvature.rates is None else np.minimum(curvature.rates, q)
    contracts = _Mean(curvature.radii, rates, ball.centre)
    if not fixed:
        while True:
            yield start
            start = (_product(contracts(start), start) + eps) * _UP
    gamma = exact(curvature.gamma, "gamma")
    step, residual = round_up(gamma), float(curvature.residual)
    modes = np.array([round_up(abs(1 - gamma * Fraction(x))) for x in curvature.lam.tolist()])
    slowest = float(modes.max(initial=0.0))
    parts = _modal_norms(modes, _coordinates(curvature.Q, offset))
    m = next(parts)
    s = round_up(Fraction(curvature.distance) * Fraction(norm_up(offset)) + slack + ball.centre)
    beta = min(start, (m + s) * _UP)
    while True:
        yield beta
        if beta <= s:
            m, s, parts = 0.0, beta, repeat(0.0)
        shrink, kappa = contracts(beta), _product(step, (varies(beta) + residual) * _UP)
        straight = _product(slowest, s) + _product(kappa, beta)
        curved = _product(shrink, s) + _product(kappa, m)
        s, m = (min(straight, curved) + eps) * _UP, next(parts)
        beta = min((_product(shrink, beta) + eps) * _UP, (m + s) * _UP)


def _coordinates(Q: Floats, offset: Floats) -> Floats:
    """Upper bounds of |Q^T w|: the rounding error of a sum of n products in any order is at most n u sum |q||w|, nearly."""
    n = len(offset)
    with np.errstate(all="ignore"):
        size = np.abs(Q).T @ np.abs(offset)
        parts = (np.abs(Q.T @ offset) + (n + 4) * 2.0**-52 * size) * _UP + n * _TINY
    return np.nan_to_num(parts, nan=math.inf, posinf=math.inf)


def _modal_norms(modes: Floats, parts: Floats) -> Iterator[float]:
    """Upper bounds of m_0, m_1, ... without end, from upper bounds of |a_i| and |y_i|."""
    n = len(modes)
    if n == 0:
        yield from repeat(0.0)
    with np.errstate(over="ignore"):
        powers = np.ones((_BLOCK + 1, n))
        for k in range(_BLOCK):
            powers[k + 1] = np.maximum(powers[k] * (modes * _UP), _LEAST_PART)
    rounding = 1.0 + (n + 10) * 2.0**-52
    parts = np.maximum(parts, _LEAST_PART)
    while True:
        with np.errstate(over="ignore"):
            block = np.maximum(parts * powers[:_BLOCK], _LEAST_PART)
            norms = np.sqrt((block * block).sum(axis=1)) * rounding
            parts = np.maximum(parts * powers[_BLOCK] * _UP, _LEAST_PART)
        yield from norms.tolist()


class _Mean:
    """beta -> an upper bound of 1/beta int_0^beta v(c + x) dx for a step function v."""

    def __init__(self, radii: Floats, values: Floats, centre: Fraction) -> None:
        # a bound within a radius holds within smaller ones
        self.values = np.minimum.accumulate(values[::-1])[::-1].tolist()
        self.ends = [round_down(max(Fraction(t) - centre, Fraction(0))) for t in radii.tolist()]
        total, sums, begin = Fraction(0), [], Fraction(0)
        for value, end in zip(self.values, self.ends, strict=True):
            sums.append(round_up(total))
            total += Fraction(value) * (Fraction(end) - begin)
            begin = Fraction(end)
        self.begins, self.sums = [0.0, *self.ends[:-1]], sums

    def __call__(self, beta: float) -> float:
        j = min(bisect_left(self.ends, beta), len(self.ends) - 1)  # the last step goes on to infinity
        begin, value = self.begins[j], self.values[j]
        if begin == 0.0:
            return float(value)
        mean = (self.sums[j] + value * (beta - begin) + _TINY) / beta * _UP + _TINY
        return float(min(mean, value))


def _product(x: float, y: float) -> float:
    """An upper bound of x y for x, y >= 0; 0 if a factor is 0."""
    return x * y * _UP + _TINY if x and y else 0.0
