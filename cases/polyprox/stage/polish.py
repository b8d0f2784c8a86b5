"""Polishing: from a saved state to a centre, a fixed point of its stage to the last bits.

Source: polyprox.md section 5 ("Polishing"). The search is binary64 and proves nothing; `Polished.residual` and
`Polished.extended_residual` are exact evaluations rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from certify.arithmetic.directed import sqrt_up
from certify.errors import InputRejected

from ..dyadic import DyadicMatrix, identity, power
from ..state import State
from ..update import soft_threshold

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Newton settles a state near its centre in ten or so: SciPy then need not be loaded.
FIRST_ITERATIONS, NEWTON_ITERATIONS, LBFGSB_ITERATIONS, CORRECTIONS = 12, 100, 1500, 6
LBFGSB_GRADIENT = 1e-6  # Newton squares the error, so L-BFGS-B may leave the last ten digits to it
# J sums about p*p products of unit size: a difference of objectives below this share of J is rounding.
OBJECTIVE_NOISE = 1e-14


@dataclass(frozen=True, eq=False)
class Polished:
    """A centre U and how good it is; ``P(W) = M * soft_{gamma lam}(W - gamma grad J(W))`` is the state's fixed map.

    Attributes
    ----------
    U : ``(p, p)`` float64, exactly 0 off the face.
    face : ``(p, p)``; the allowed entries with ``|V| > gamma lam`` exactly, ``V = U - gamma grad J(U)``, or U not 0
        (all allowed entries if lam is 0, where the threshold clears nothing).
    distance : ``||U - W||_F`` from the state's W, rounded up.
    residual : ``||P(U) - U||_F``, evaluated exactly and rounded up.
    iterations, method : steps of all methods together, and the last that moved the centre; "saved" if none did.
    tail : the correction such that ``U + tail``, added exactly, is the centre in twice the precision; None if it was
        not asked for.
    extended_residual : the ``residual`` of ``U + tail``.
    """

    U: Matrix
    face: Mask
    distance: float
    residual: float
    iterations: int
    method: Literal["saved", "L-BFGS-B", "Newton", "exact residuals"]
    tail: Matrix | None = None
    extended_residual: float | None = None

    def extended(self) -> list[list[Fraction]]:
        """Return ``U + tail`` exactly, row by row, dyadic; ``U`` itself without a tail."""
        return _point(self.U, np.zeros_like(self.U) if self.tail is None else self.tail).fractions()


def polish(state: State, *, extended: bool = False, max_iterations: int = LBFGSB_ITERATIONS) -> Polished:
    """Return a stationary point of ``J(W) + lam ||W||_1`` on the mask, reached from the state's W without ascent.

    Semismooth Newton on the face, damped so that the objective does not rise; where it does not settle, L-BFGS-B on
    ``W = A - B``, ``A, B >= 0``, first (where that ends near a minimiser of the face, so does Newton); then Newton with
    exact residuals, as binary64 gradients do not resolve the last bits of U.

    Parameters
    ----------
    state : the stage; ``b`` is ignored. The centre does not depend on gamma, the residual and the path do.
    extended : also find the centre in twice the precision, as storing U in binary64 alone displaces it by up to
        ``gamma lambda_max(K_FF)`` half ulps.
    max_iterations : of L-BFGS-B, if it is needed.

    Raises
    ------
    InputRejected : the objective overflows at the state's W.
    """
    if not np.isfinite(_penalised(state, state.W)):
        raise InputRejected("J overflows at the saved W", "save a state whose powers of I + W*W/N are finite")
    (W, newton, settled), quasi = _descend(state, state.W, FIRST_ITERATIONS), 0
    if not settled:
        W, quasi = _quasi_newton(state, max_iterations)
        W, newton, _ = _descend(state, W, NEWTON_ITERATIONS)
    found, exact = _correct(state, _evaluate(state, W, np.zeros_like(W)))
    fine, more = _correct(state, found, into_tail=True) if extended else (found, 0)
    return Polished(
        U=found.U,
        face=found.face | (found.U != 0),
        distance=_norm_up(_point(found.U, -state.W)),
        residual=found.residual,
        iterations=quasi + newton + exact + more,
        method="exact residuals" if exact else "Newton" if newton else "L-BFGS-B" if quasi else "saved",
        tail=fine.tail if extended else None,
        extended_residual=fine.residual if extended else None,
    )


def approximate_hessian(W: Matrix, state: State, entries: NDArray[np.intp]) -> Matrix:
    """Return ``K(W)`` of polyprox.md section 5 on the given entries, in binary64: a guide for Newton, never a bound.

    Parameters
    ----------
    W : ``(p, p)``; ``state`` supplies ``Sigma, alpha, rho, N``.
    entries : ``(n, 2)``, the rows ``(i, j)``. The result is ``(n, n)``, symmetric to rounding.
    """
    N, p = state.N, state.p
    i, j = entries[:, 0], entries[:, 1]
    w = W[i, j]
    S, Q = _growth(W, N)
    H = 2 * w * Q[j, i]
    powers = np.empty((max(N - 1, 1), p, p))
    powers[0] = np.eye(p)
    for k in range(1, N - 1):
        powers[k] = powers[k - 1] + powers[k - 1] @ (W * W / N)
    # row (i, j) for every (a, b): sum over l of (Y^l)_ja (Y^(N-2-l))_bi
    rows = np.matmul(powers[:, j, :].transpose(1, 2, 0), powers[::-1][:, :, i].transpose(2, 0, 1))
    K_h = (4 / N) * np.outer(w, w) * rows[:, i, j] + 2 * np.diag(Q[j, i])
    S_M = state.Sigma[np.ix_(i, i)] * (j[:, None] == j[None, :])
    K: Matrix = S_M + (state.alpha + state.rho * np.trace(S)) * K_h + state.rho * np.outer(H, H)
    return K


def _growth(W: Matrix, N: int) -> tuple[Matrix, Matrix]:
    """Return ``Y^N - I`` and ``Y^(N-1) - I`` by doubling: sums of non-negative terms, so no digits cancel."""
    S = W * W / N
    Q = np.zeros_like(S)
    for _ in range(N.bit_length() - 1):
        Q, S = Q + S + Q @ S, 2 * S + S @ S
    return S, Q


def _objective(state: State, W: Matrix) -> tuple[float, Matrix]:
    """Return ``J`` and its gradient on the mask; infinity and 0 where a power overflows."""
    with np.errstate(over="ignore", invalid="ignore"):  # a trial point may be far too long
        pull = state.Sigma @ (W - np.eye(state.p))
        S, Q = _growth(W, state.N)
        h = float(np.trace(S))
        J = 0.5 * float(np.sum((W - np.eye(state.p)) * pull)) + state.alpha * h + 0.5 * state.rho * h * h
        gradient = state.M * (pull + (state.alpha + state.rho * h) * (2 * W * Q.T))
    return (J, gradient) if np.isfinite(J) and np.all(np.isfinite(gradient)) else (np.inf, np.zeros_like(W))


def _penalised(state: State, W: Matrix) -> float:
    return _objective(state, W)[0] + state.lam * float(np.sum(np.abs(W)))


def _quasi_newton(state: State, iterations: int) -> tuple[Matrix, int]:
    """Return the outcome of L-BFGS-B from the state's W and its iterations; W and 0 if it did not descend."""
    from scipy.optimize import minimize

    at = np.nonzero(state.M)
    if (n := len(at[0])) == 0 or iterations == 0:
        return state.W, 0

    def joined(x: Matrix) -> Matrix:
        W = np.zeros_like(state.W)
        W[at] = x[:n] - x[n:]
        return W

    def split(x: Matrix) -> tuple[float, Matrix]:
        J, gradient = _objective(state, joined(x))
        g = gradient[at]
        return J + state.lam * float(np.sum(x)), np.concatenate([g + state.lam, state.lam - g])

    w = state.W[at]
    start = np.concatenate([np.maximum(w, 0), np.maximum(-w, 0)])
    options = {"maxiter": iterations, "maxfun": 20 * iterations, "ftol": 0.0, "gtol": LBFGSB_GRADIENT}
    found = minimize(split, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * n), options=options)
    W = joined(found.x)
    return (W, int(found.nit)) if _penalised(state, W) < _penalised(state, state.W) else (state.W, 0)


def _descend(state: State, W: Matrix, iterations: int) -> tuple[Matrix, int, bool]:
    """Return the outcome of damped semismooth Newton from W, its steps, and whether it settled; no step is an ascent.

    Each step is halved until the objective falls; where that fails a proximal step replaces it, which descends when
    short. Near the end the objective is all rounding, and only a falling residual justifies another step.
    """
    best, best_residual, best_step = W, np.inf, 0
    value, length, done = _penalised(state, W), state.gamma, False
    for step in range(iterations):
        gradient = _objective(state, W)[1]
        image = state.M * soft_threshold(W - length * gradient, length * state.lam)
        residual = float(np.linalg.norm(image - W)) / length
        blind = length * residual**2 <= (noise := OBJECTIVE_NOISE * abs(value))
        done = residual == 0 or (blind and residual > best_residual / 2)
        if residual < best_residual:
            best, best_residual, best_step = W, residual, step
        if done:
            break
        move, steepest = _newton_step(state, W, image != 0, -gradient - state.lam * np.sign(image), convex=True)
        length = 1 / steepest if steepest > 0 else length
        for k, trial in enumerate(_trials(state, W, move, gradient, image, length)):
            trial_value = _penalised(state, trial)
            if trial_value < value or (k == 0 and blind and trial_value <= value + noise):
                break
        else:
            break
        W, value = trial, trial_value
    return best, best_step, done


def _trials(state: State, W: Matrix, move: Matrix, gradient: Matrix, image: Matrix, length: float) -> Iterator[Matrix]:
    """Yield points ever nearer to W: on the Newton step in the orthant of ``image``, then on the proximal arc."""
    for t in (0.5**k for k in range(20)):
        yield np.where(np.sign(W + t * move) == np.sign(image), W + t * move, 0)
    for t in (length * 0.5**k for k in range(40)):
        yield state.M * soft_threshold(W - t * gradient, t * state.lam)


def _newton_step(state: State, W: Matrix, active: Mask, rhs: Matrix, *, convex: bool) -> tuple[Matrix, float]:
    """Return the step that clears the inactive entries and solves ``K s = rhs`` on the active, and ``|K|_2`` there.

    ``convex`` takes the eigenvalues by magnitude, which descends near a saddle too; a direction whose eigenvalue is
    only rounding gets no step.
    """
    move = np.where(active, 0, -W)
    entries = np.argwhere(active | (W != 0))
    on = active[entries[:, 0], entries[:, 1]]
    at = entries[on, 0], entries[on, 1]
    if not np.any(on):
        return move, 0.0
    K = approximate_hessian(W, state, entries)
    right = rhs[at] - K[np.ix_(on, ~on)] @ move[entries[~on, 0], entries[~on, 1]]
    spectrum, basis = np.linalg.eigh(K[np.ix_(on, on)])
    steepest = float(np.abs(spectrum).max())
    kept = np.abs(spectrum) > len(spectrum) * np.finfo(np.float64).eps * steepest
    curvature = np.abs(spectrum[kept]) if convex else spectrum[kept]
    move[at] = basis[:, kept] @ ((basis[:, kept].T @ right) / curvature)
    return move, steepest


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """A point ``U + tail``, its exact face and residual (rounded up), and ``P - id`` there, rounded to nearest."""

    U: Matrix
    tail: Matrix
    face: Mask
    residual: float
    displacement: Matrix


def _evaluate(state: State, U: Matrix, tail: Matrix) -> _Evaluated:
    """Evaluate the fixed map exactly; as `update_exact`, but the long integers never become Fractions."""
    p, W = state.p, _point(U, tail)
    Sigma, M, everywhere = (DyadicMatrix.of(x) for x in (state.Sigma, state.M, np.ones((p, p))))
    alpha, rho, gamma, lam = (DyadicMatrix.of(x) for x in (state.alpha, state.rho, state.gamma, state.lam))
    Y = identity(p) + (W * W).halved(state.s)
    G = power(Y, state.N - 1).T
    c = alpha + rho * ((G * Y).total() - DyadicMatrix.of(p))
    V = W - gamma * (Sigma @ W - Sigma + c * (W * G).halved(-1))
    tau = everywhere * (gamma * lam)
    up, down = M * (V - tau).relu(), M * (W - W - V - tau).relu()
    gap = up - down - W
    beyond = [x != 0 or y != 0 for x, y in zip(up.integers.entries(), down.integers.entries(), strict=True)]
    one, shift = 1 << max(gap.exponent, 0), max(-gap.exponent, 0)
    return _Evaluated(
        U=U,
        tail=tail,
        face=np.array(beyond).reshape(p, p) | (state.M.astype(bool) & (state.lam == 0)),
        residual=_norm_up(gap),
        displacement=np.array([(int(x) << shift) / one for x in gap.integers.entries()]).reshape(p, p),
    )


def _correct(state: State, found: _Evaluated, *, into_tail: bool = False) -> tuple[_Evaluated, int]:
    """Return the point of least exact residual that Newton reaches, and its steps.

    The residual is exact and the step binary64, added to U and rounded once, or to the tail alone. A step is taken
    only if the residual falls and the objective does not rise, and is halved only above the rounding of its target.
    """
    ceiling = (value := _penalised(state, found.U)) + OBJECTIVE_NOISE * abs(value)
    for count in range(CORRECTIONS):
        move, _ = _newton_step(state, found.U, found.face, found.displacement / state.gamma, convex=False)
        while True:
            U, tail = (found.U, found.tail + move) if into_tail else (found.U + move, found.tail)
            if np.array_equal(U, found.U) and np.array_equal(tail, found.tail):
                return found, count
            tried = _evaluate(state, U, tail)
            if tried.residual < found.residual and _penalised(state, U) <= ceiling:
                found = tried
                break
            if np.linalg.norm(move) <= 1e-12 * np.linalg.norm(found.U):
                return found, count
            move = move / 2
    return found, CORRECTIONS


def _point(U: Matrix, tail: Matrix) -> DyadicMatrix:
    return (DyadicMatrix.of(U) + DyadicMatrix.of(tail)).reduced()


def _norm_up(A: DyadicMatrix) -> float:
    return sqrt_up((A * A).total().fractions()[0][0])
