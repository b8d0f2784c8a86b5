"""No false verdict: random two- and three-variable stages, the truth in extended precision and, for some, in rationals.

A certificate is wrong if some point of the ball leaves it, some pair of points does not come closer by q, or a Hessian
in it has an eigenvalue outside [mu, L]; a refutation is wrong if the true fixed point has no eigenvalue outside
[0, 2 / gamma] or is not strictly complementary. The reference shares no code with the tests: powers of Y in 80-bit
floats (`numpy.longdouble`), eigenvalues by LAPACK with a margin.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certify.cases.polyprox import State, update_exact
from certify.cases.polyprox.stage.methods import METHODS, SHARP, Attempt, face_test, global_test, local_test
from certify.cases.polyprox.stage.polish import polish
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.refutation import Refutation, refute

from certify.arithmetic import BINARY64
from certify.graph import Graph

SAMPLES = 8
UPDATES = 25
WIDE = np.longdouble
EPS = float(np.finfo(WIDE).eps)
SHARPER = {
    "global, zero diagonal": lambda problem, radius: global_test(problem, radius, SHARP),
    "local, zero diagonal": lambda problem, radius: local_test(problem, radius, SHARP),
}


class Map:
    """P, grad J and K of a state in extended precision, on stacks (..., p, p)."""

    def __init__(self, state: State) -> None:
        self.p, self.N = state.p, state.N
        self.Sigma, self.M = state.Sigma.astype(WIDE), state.M.astype(WIDE)
        self.alpha, self.rho, self.gamma, self.lam = (WIDE(getattr(state, n)) for n in ("alpha", "rho", "gamma", "lam"))

    def powers(self, W: np.ndarray) -> list[np.ndarray]:
        """Y^k - I for k = 0..N, by one factor at a time."""
        S = W * W / self.N
        found = [np.zeros_like(S)]
        for _ in range(self.N):
            found.append(found[-1] + S + found[-1] @ S)
        return found

    def gradient(self, W: np.ndarray) -> np.ndarray:
        """grad J, not masked."""
        powers = self.powers(W)
        c = self.alpha + self.rho * np.trace(powers[-1], axis1=-2, axis2=-1)[..., None, None]
        return self.Sigma @ W - self.Sigma + c * (2 * W * powers[-2].swapaxes(-1, -2))

    def __call__(self, W: np.ndarray) -> np.ndarray:
        """P(W)."""
        V = W - self.gamma * self.gradient(W)
        return self.M * np.sign(V) * np.maximum(np.abs(V) - self.gamma * self.lam, 0)

    def hessian(self, W: np.ndarray, where: np.ndarray) -> np.ndarray:
        """K on the entries of the mask `where`, (..., n, n)."""
        i, j = np.nonzero(where)
        powers = self.powers(W)
        full = [power + np.eye(self.p, dtype=WIDE) for power in powers]
        w = W[..., i, j]
        pairs = w[..., :, None] * w[..., None, :]
        walks = sum(
            full[k][..., j[:, None], i[None, :]] * full[self.N - 2 - k][..., j[None, :], i[:, None]]
            for k in range(self.N - 1)
        )
        K_h = 4 * pairs * walks / self.N
        n = np.arange(len(i))
        K_h[..., n, n] += 2 * powers[self.N - 1][..., j, i]
        c = self.alpha + self.rho * np.trace(powers[-1], axis1=-2, axis2=-1)[..., None, None]
        H = (2 * W * powers[self.N - 1].swapaxes(-1, -2))[..., i, j]
        S = np.where(j[:, None] == j[None, :], self.Sigma[i[:, None], i[None, :]], 0)
        return S + c * K_h + self.rho * H[..., :, None] * H[..., None, :]


def norms(W: np.ndarray) -> np.ndarray:
    """Frobenius norms of a stack, scaled so that squares of small numbers do not underflow."""
    return np.sqrt((W * W).sum(axis=(-1, -2)))


def inside(problem: Problem, radius: float, free: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points of the ball on the free entries: random ones, most of them on its surface, and extreme directions."""
    D = rng.normal(size=(SAMPLES, *free.shape)) * free
    K = Map(problem.state).hessian(problem.center.astype(WIDE), free).astype(float)
    vectors = np.linalg.eigh(K)[1]
    D[0][free], D[1][free] = vectors[:, 0], vectors[:, -1]
    D[2], D[3] = -D[0], -D[1]
    D /= np.linalg.norm(D, axis=(1, 2), keepdims=True)
    share = np.where(rng.random(SAMPLES) < 0.7, 1 - 1e-12, rng.uniform(0, 1, SAMPLES))[:, None, None]
    return problem.center.astype(WIDE) + WIDE(radius) * share * D


def false_certificate(problem: Problem, attempt: Attempt, rng: np.random.Generator) -> str:
    """What is wrong with a certified attempt, or nothing."""
    state, outcome = problem.state, attempt.outcome
    radius, q, U = outcome.stage.radius, outcome.q, problem.center.astype(WIDE)
    allowed = state.M != 0
    free = allowed & ~problem.inactive(radius) if attempt.method == "face" else allowed
    P = Map(state)
    if not free.any():
        points = np.broadcast_to(U, (SAMPLES, *U.shape))
    else:
        points = inside(problem, radius, free, rng)
        K = P.hessian(points, free).astype(float)
        spectrum = np.linalg.eigvalsh(K)
        margin = 1e-13 * np.abs(K).max() * len(K[0])
        if spectrum.min() < outcome.stage.mu - margin or spectrum.max() > outcome.stage.L + margin:
            return f"eigenvalues {spectrum.min(), spectrum.max()} outside {outcome.stage.mu, outcome.stage.L}"
    noise = 64 * EPS * float(1 + np.abs(points).max() + state.gamma * np.abs(P.gradient(points)).max())
    for _ in range(UPDATES):
        image = P(points)
        if (image[..., ~free] != 0).any():
            return "an entry that is not on the face moved"
        if (norms(image - U) > radius + noise).any():
            return f"a point left the ball by {float((norms(image - U) - radius).max())}"
        before, after = norms(points - points[::-1]), norms(image - image[::-1])
        if (after > q * before + noise).any():
            return f"two points came closer by {float((after / before).max())} only, q = {q}"
        points = image
    return ""


def false_refutation(problem: Problem, found: Refutation) -> str:
    """What is wrong with a refutation, or nothing."""
    state, P = problem.state, Map(problem.state)
    active = problem.center != 0
    W = problem.center.astype(WIDE)
    signs = np.sign(problem.center)
    for _ in range(8):
        slope = (P.gradient(W) + P.lam * signs)[active]
        W[active] -= np.linalg.solve(P.hessian(W, active).astype(float), slope.astype(float))
    gradient = P.gradient(W)
    scale = float(1 + np.abs(gradient).max())
    residual = np.abs((gradient + P.lam * signs)[active]).max()
    # the gradient is a difference of products that may be much larger than it: their own rounding remains
    rounding = 1e-18 * float((np.abs(P.Sigma) @ np.abs(W)).max())
    if residual > 1e-16 * scale + rounding or np.abs(W - problem.center).max() > found.radius * (1 + 1e-9) + 1e-18:
        return f"no fixed point within {found.radius}: residual {residual}"
    if (np.sign(W[active]) != signs[active]).any():
        return "an active entry changed its sign"
    if (np.abs(gradient[(state.M != 0) & ~active]) >= P.lam).any():
        return "an inactive entry is not strictly inactive"
    K = P.hessian(W, active).astype(float)
    kappa, vectors = np.linalg.eigh(K)
    margin = 1e-13 * np.abs(K).max() * len(K)
    if found.kappa_high > kappa[-1] + margin or found.kappa_low < kappa[0] - margin:
        return f"kappa {found.kappa_low, found.kappa_high} is not inside {kappa[0], kappa[-1]}"
    expansive = state.gamma * kappa[-1] > 2 - state.gamma * margin
    if not (expansive or kappa[0] < margin):
        return f"eigenvalues {kappa[0], kappa[-1]} are within [0, {2 / state.gamma}]"
    # it repels: from next to the fixed point, along the vector, an update moves away (the branch is fixed so near)
    step = np.zeros_like(W)
    step[active] = 1e-3 * min(1, np.abs(W[active]).min()) * vectors[:, -1 if expansive else 0]
    for shrink in (1, 1e-3, 1e-6):
        rate = norms(P(W + shrink * step) - W) / norms(shrink * step)
        if rate > 1:
            return ""
    excess = max(state.gamma * kappa[-1] - 2, -state.gamma * kappa[0])
    return "" if excess < 1e-6 else f"the fixed point attracts: rate {rate}, eigenvalues {kappa[0], kappa[-1]}"


GRAPHS: dict[Any, Graph] = {}


@dataclass
class Stages:
    """Random stages; the graph of a mask is traced once."""

    rng: np.random.Generator

    def problem(self, state: State) -> Problem:
        """The problem of a state around its W, in float64."""
        problem = Problem(state, BINARY64)
        key = (state.M.tobytes(), state.p, state.N)
        if key not in GRAPHS:
            GRAPHS[key] = problem.graph
        problem.graph = GRAPHS[key]
        return problem

    def draw(self, kind: str) -> Problem:
        """A stage of one kind around a centre."""
        return self.problem(self.planted() if kind == "planted" else self.polished(kind))

    def controls(self) -> dict[str, Any]:
        """Multiplier, penalty and Lasso weight, each over its whole range; 0 is common."""
        rng = self.rng
        alpha = rng.choice([0.0, rng.uniform(0, 5), 10 ** rng.uniform(1, 3), -rng.uniform(0, 0.3)])
        rho = rng.choice([0.0, rng.uniform(0, 2), 10 ** rng.uniform(1, 5)])
        lam = rng.choice([0.0, 0.1, rng.uniform(0, 0.5)])
        return {"alpha": float(alpha), "rho": float(rho), "lam": float(lam), "b": 0}

    def planted(self) -> State:
        """p = 2 and N = 2, 4 or 8: any U with a Sigma, often indefinite, that makes it a fixed point up to storage."""
        rng, controls = self.rng, self.controls()
        N = int(rng.choice([2, 2, 4, 8]))
        U = np.zeros((2, 2))
        U[0, 1], U[1, 0] = rng.choice([-1, 1], 2) * 10 ** rng.uniform(-2, 0.2, 2)
        unit = State(W=U, Sigma=np.zeros((2, 2)), M=U != 0, gamma=1.0, p_max=N, **controls)
        force = (Map(unit).gradient(U.astype(WIDE)) + controls["lam"] * np.sign(U)).astype(float)
        # Sigma_00 U_01 - Sigma_01 = -force_01, Sigma_11 U_10 - Sigma_01 = -force_10
        diagonal = rng.uniform(0.2, 2)
        off = diagonal * U[0, 1] + force[0, 1]
        Sigma = np.array([[diagonal, off], [off, (off - force[1, 0]) / U[1, 0]]])
        return self.stepped(replace(unit, Sigma=Sigma))

    def polished(self, kind: str) -> State:
        """p = 2 or 3: a sampled covariance, at times nearly singular, and the centre that Newton finds, or a random one."""
        rng = self.rng
        p = int(rng.choice([2, 2, 3]))
        X = rng.normal(size=(3 * p, p)) * 10 ** rng.uniform(-0.5, 0.5)
        if kind == "near singular":
            X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-9, -1) * X[:, -1]
        Sigma = X.T @ X / (3 * p)
        M = (rng.random((p, p)) < rng.choice([0.5, 1.0])) & ~np.eye(p, dtype=bool)
        W = rng.normal(size=(p, p)) * M * rng.choice([0.05, 0.5])
        W = np.where(rng.random((p, p)) < 0.3, 0.0, W)
        P = int(rng.choice([p, p, p, 4, 8]))
        state = State(W=W, Sigma=(Sigma + Sigma.T) / 2, M=M, gamma=0.1, p_max=P, **self.controls())
        if kind != "unpolished":
            state = replace(state, W=polish(state, max_iterations=0).U)
        return self.stepped(state)

    def stepped(self, state: State) -> State:
        """The state with a step size on either side of the stable ones."""
        K = Map(state).hessian(state.W.astype(WIDE), state.M != 0).astype(float)
        steepest = np.linalg.norm(K, 2) if K.size else 1.0
        return replace(
            state, gamma=float(self.rng.choice([0.3, 1.0, 1.9, 2.1, 3.0]) * self.rng.uniform(0.8, 1) / steepest)
        )


KINDS = ("planted", "polished", "near singular", "unpolished")


def smallest(problem: Problem, attempt: Attempt) -> float | None:
    """A radius that should just be certified, from the q of another."""
    q, stage = attempt.outcome.q, attempt.outcome.stage
    return 1.02 * (stage.d + stage.eps) / (1 - q) if q < 1 and np.isfinite(stage.eps) else None


def judged(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How many certificates and refutations `count` random stages have, and every false one."""
    rng = np.random.default_rng(seed)
    stages, counts, wrong = Stages(rng), Counter[str](), []
    for k in range(count):
        kind = KINDS[k % len(KINDS)]
        problem = stages.draw(kind)
        radius = float(10 ** rng.uniform(-8, -0.3)) * (1 + float(problem.norm))
        if kind != "unpolished" and rng.random() < 0.5:
            radius *= 1e-5
        attempts = [face_test(problem, radius)]
        tight = smallest(problem, attempts[0])
        if tight is not None and k % 3 == 0:
            attempts.append(face_test(problem, tight))
        if problem.state.M.any() and k % 3:
            name = rng.choice([*METHODS, *SHARPER])
            attempts.append((METHODS | SHARPER)[str(name)](problem, radius))
        for attempt in attempts:
            if attempt.outcome.certified:
                counts[f"certified {attempt.method}"] += 1
                fault = false_certificate(problem, attempt, rng)
                if fault:
                    wrong.append(f"seed {seed}, stage {k}, {kind}, {attempt.method}: {fault}")
            else:
                assert attempt.outcome.reason
        found = refute(problem.state, problem.center)
        if found.refuted:
            counts["refuted"] += 1
            fault = false_refutation(problem, found)
            if fault:
                wrong.append(f"seed {seed}, stage {k}, {kind}, refuted: {fault}")
            # a ball that holds the cube cannot contract
            reach = found.radius * problem.state.p
            contracting = [a for a in attempts if a.outcome.certified and a.outcome.stage.radius >= reach]
            if contracting:
                wrong.append(f"seed {seed}, stage {k}, {kind}: refuted, and certified by {contracting[0].method}")
        counts["stages"] += 1
        counts["decided"] += found.refuted or any(a.outcome.certified for a in attempts)
    return counts, wrong


@pytest.mark.parametrize("seed", range(2))
def test_random_stages_have_no_false_verdict(seed: int) -> None:
    """500 stages a seed: none is falsely certified by any test on any radius, none falsely refuted."""
    counts, wrong = judged(500, seed)
    assert not wrong
    assert counts["stages"] == 500
    # neither verdict is idle
    assert counts["certified face"] > 150
    assert counts["refuted"] > 40
    assert counts["certified local"] + counts["certified interval"] > 10
    assert counts["certified global"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 13))
def test_more_random_stages_have_no_false_verdict(seed: int) -> None:
    """11,000 more stages."""
    counts, wrong = judged(1000, seed)
    assert not wrong
    assert counts["refuted"] > 80


def exact_distance(A: list[list[Fraction]], B: list[list[Fraction]]) -> Fraction:
    """The squared Frobenius distance."""
    return sum(((a - b) ** 2 for x, y in zip(A, B, strict=True) for a, b in zip(x, y, strict=True)), Fraction(0))


def test_certified_balls_contract_in_exact_arithmetic() -> None:
    """40 certified stages in rationals: two random points and their images keep the ball and come closer by q."""
    rng = np.random.default_rng(99)
    stages, checked = Stages(rng), 0
    while checked < 40:
        problem = stages.draw(KINDS[int(rng.integers(len(KINDS)))])
        radius = float(10 ** rng.uniform(-9, -0.5))
        attempt = face_test(problem, radius)
        free = (problem.state.M != 0) & ~problem.inactive(radius)
        if not attempt.outcome.certified or not free.any():
            continue
        points = []
        for D in inside(problem, radius * (1 - 1e-9), free, rng)[:2].astype(float):
            W = np.where(free, D, 0.0)
            exact = [[Fraction(x) for x in row] for row in W.tolist()]
            image = update_exact(problem.state, W=W).W
            points.append((exact, image))
        center = [[Fraction(x) for x in row] for row in problem.center.tolist()]
        square = Fraction(radius) ** 2
        if any(exact_distance(x, center) > square for x, _ in points):
            continue
        assert all(exact_distance(image, center) <= square for _, image in points)
        (x, Px), (y, Py) = points
        assert exact_distance(Px, Py) <= Fraction(attempt.outcome.q) ** 2 * exact_distance(x, y)
        checked += 1
