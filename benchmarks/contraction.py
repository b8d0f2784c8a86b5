"""Fixed-stage certificates on the corpus: verdicts, tightness of q, tightness of the counts, and what each step costs.

    python benchmarks/contraction.py [--quick] [--replays 40000] [--processes 2]

The corpus is that of polyprox.md section 8: 30 instances, three snapshots each, every snapshot with the recorded and
with a new step size. The paper's figures are for its own draw of the same distribution.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: the processes share the cores

import argparse
import multiprocessing
import statistics
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from certify.cases.polyprox import State, corpus, solve, stage_states
from certify.cases.polyprox.stage.hessian import hessian
from certify.cases.polyprox.stage.methods import METHODS, SHARP, Attempt, face_test, global_test, local_test
from certify.cases.polyprox.stage.polish import Polished, polish
from certify.cases.polyprox.stage.prediction import prediction
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.refutation import refute
from certify.cases.polyprox.stage.search import Search, paper_protocol, search_face, with_new_step

from certify.arithmetic import BINARY64

TOL = 1e-6
STEPS = ("recorded", "new")
PAPERS = ("global", "local", "interval")
UNPOLISHED_RADII = (0.001, 0.01, 0.1)
COUNTED = ("geometric mean", "largest")


@dataclass
class Row:
    """What came out for one snapshot with one step size."""

    name: str
    p: int
    step: str
    verdict: str = ""
    reason: str = ""
    passed: dict[str, bool] = field(default_factory=dict)
    q: float = np.nan
    slack: float = np.nan
    radii: tuple[float, float] = (np.nan, np.nan)
    norm: dict[str, float] = field(default_factory=dict)
    modal: dict[str, float] = field(default_factory=dict)
    actual: dict[str, int] = field(default_factory=dict)
    violations: int = 0


@dataclass
class Instance:
    """The rows of one instance, its unpolished balls, and the seconds of each kind of work."""

    rows: list[Row]
    unpolished: Counter[str]
    balls: int
    seconds: dict[str, float]


class Clock:
    """Adds up seconds of processor time by name: other work on the machine does not count."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def __call__(self, name: str, work: Any, *arguments: Any) -> Any:
        """Return what `work` returns."""
        start = time.process_time()
        result = work(*arguments)
        self.seconds[name] += time.process_time() - start
        return result


def run_instance(key: tuple[str, int, int], most: int) -> Instance:
    """Everything about the three snapshots of one instance."""
    name, p, seed = key
    clock = Clock()
    rows, unpolished, balls = [], Counter[str](), 0
    replays = []
    for k, state in enumerate(clock("solve", corpus.snapshots, p, seed)):
        saved = Problem(state, BINARY64)
        for radius in UNPOLISHED_RADII:
            balls += 1
            for method, test in METHODS.items():
                unpolished[method] += clock("unpolished balls", test, saved, radius).outcome.certified
        polished = clock("polish", polish, state)
        for step in STEPS:
            row = Row(f"{name}/{k}", p, step)
            problem, found = certified(row, state, polished, clock)
            row.passed = {m: clock("paper's tests", paper_passes, m, state, polished, step) for m in PAPERS}
            if found.smallest is not None and found.largest is not None:
                row.slack = excess(problem, found.smallest)
                row.radii = tuple(a.outcome.stage.radius for a in (found.smallest, found.largest))
                replays += clock("predict", starts, row, problem, found)
            rows.append(row)
    clock("replay", replay, replays, most)
    return Instance(rows, unpolished, balls, dict(clock.seconds))


def certified(row: Row, state: State, polished: Polished, clock: Clock) -> tuple[Problem, Search]:
    """The face test with its search, and the refutation where it found nothing."""
    centered = replace(state, W=polished.U)
    if row.step == "new":
        centered = clock("new step", with_new_step, centered, BINARY64) or centered
    problem = Problem(centered, BINARY64)
    found = clock("search", search_face, problem, TOL)
    if found.smallest is not None:
        row.verdict, row.q = "certified", found.smallest.outcome.q
        return problem, found
    tried = clock("refute", refute, problem.state, problem.center)
    row.verdict = "refuted" if tried.refuted else "undecided"
    row.reason = "" if tried.refuted else f"{found.reason}; {tried.reason}"
    return problem, found


def paper_passes(method: str, state: State, polished: Polished, step: str) -> bool:
    """Whether one of the paper's tests passes on one of the paper's radii; its new step is 2 / (mu + L) of its own."""
    problem = Problem(replace(state, W=polished.U), BINARY64)
    if step == "new":
        stage = METHODS[method](problem, 1e-6).outcome.stage
        if not (stage.mu > 0 and np.isfinite(stage.L)):
            return False
        problem = Problem(replace(problem.state, gamma=2 / (stage.mu + stage.L)), BINARY64)
    return paper_protocol(problem, method, TOL).smallest is not None


def excess(problem: Problem, attempt: Attempt) -> float:
    """(q - spectral radius of I - gamma K_FF(U)) / (1 - q), in floating point."""
    radius = attempt.outcome.stage.radius
    face = np.nonzero((problem.state.M != 0) & ~problem.inactive(radius))
    if not len(face[0]):
        return 0.0
    eigenvalues = np.linalg.eigvalsh(hessian(problem.state, problem.center, 0.0, face).K.mid)
    q = attempt.outcome.q
    return float((q - np.abs(1 - problem.state.gamma * eigenvalues).max()) / (1 - q))


def starts(row: Row, problem: Problem, found: Search) -> list[dict[str, Any]]:
    """For two balls: predicted counts and bounds from half the radius, in a direction of the face seeded by the name."""
    assert found.smallest is not None
    assert found.largest is not None
    balls = {"largest": found.largest}
    middle = face_test(problem, float(np.sqrt(row.radii[0] * row.radii[1])))
    if middle.outcome.certified:
        balls["geometric mean"] = middle
    fixed_point = polish(problem.state, extended=True, max_iterations=0)
    jobs = []
    for kind, ball in balls.items():
        radius = ball.outcome.stage.radius
        free = (problem.state.M != 0) & ~problem.inactive(radius)
        if not free.any():
            continue
        direction = np.random.default_rng(sum(map(ord, row.name))).normal(size=free.shape) * free
        W = problem.center + direction * (radius / 2 / np.linalg.norm(direction))
        predicted = prediction(problem, ball, W, radius / 1000)
        jobs.append(
            {
                "row": row,
                "kind": kind,
                "state": problem.state,
                "W": W,
                "U": fixed_point.U,
                "tail": fixed_point.tail,
                "target": radius / 1000,
                "predicted": predicted,
            }
        )
    return jobs


def replay(jobs: list[dict[str, Any]], most: int) -> None:
    """Run the float64 updates of all jobs side by side, to their targets, and compare with the predictions.

    Jobs that would take more than about `most` updates are left out.
    """
    jobs = [job for job in jobs if job["predicted"].modal is not None and job["predicted"].modal <= most]
    k = 0
    stack: dict[str, Any] = {}
    while jobs:
        if len(stack.get("W", ())) != len(jobs):
            stack = {name: np.stack([job[name] for job in jobs]) for name in ("W", "U", "tail")}
            states = [job["state"] for job in jobs]
            stack |= {name: np.stack([getattr(x, name) for x in states]) for name in ("Sigma", "M")}
            for name in ("alpha", "rho", "gamma", "lam"):
                stack[name] = np.array([getattr(x, name) for x in states])[:, None, None]
            targets = np.array([job["target"] for job in jobs])
            marks = [dict(zip(j["predicted"].updates.tolist(), range(10**6), strict=False)) for j in jobs]
        apart = np.linalg.norm(((stack["W"] - stack["U"]) - stack["tail"]).reshape(len(jobs), -1), axis=1)
        for i, job in enumerate(jobs):
            if (at := marks[i].get(k)) is not None:
                bound = min(job["predicted"].norm_bounds[at], job["predicted"].modal_bounds[at])
                # the distance is a float64 sum: its own rounding is far below 2**-40
                job["row"].violations += int(apart[i] > bound * (1 + 2.0**-40))
        arrived = apart <= targets
        if arrived.any():
            for i in np.flatnonzero(arrived).tolist():
                record(jobs[i], k)
            for job, W in zip(jobs, stack["W"], strict=True):
                job["W"] = W
            jobs = [job for i, job in enumerate(jobs) if not arrived[i]]
            continue
        if k > 2 * most:  # no job was predicted to take that long
            for job in jobs:
                job["row"].violations += 1
            return
        stack["W"] = updated(
            *(stack[name] for name in ("W", "Sigma", "M")),
            jobs[0]["state"].s,
            *(stack[name] for name in ("alpha", "rho", "gamma", "lam")),
        )
        k += 1


def record(job: dict[str, Any], k: int) -> None:
    """The target of a job was met after k updates."""
    row, kind = job["row"], job["kind"]
    row.actual[kind] = k
    for name in ("norm", "modal"):
        count = getattr(job["predicted"], name)
        getattr(row, name)[kind] = count / max(k, 1)
        row.violations += int(count < k)


def updated(W: Any, Sigma: Any, M: Any, s: int, alpha: Any, rho: Any, gamma: Any, lam: Any) -> Any:
    """One float64 update of a stack of states ``(n, p, p)``, by the doubling."""
    S = W * W / 2.0**s
    Q = np.zeros_like(S)
    for _ in range(s):
        Q, S = Q + S + Q @ S, 2 * S + S @ S
    h = np.trace(S, axis1=1, axis2=2)[:, None, None]
    V = W - gamma * (Sigma @ W - Sigma + (alpha + rho * h) * (2 * W * Q.transpose(0, 2, 1)))
    return M * (np.maximum(V - gamma * lam, 0) - np.maximum(-V - gamma * lam, 0))


def report(instances: list[Instance], elapsed: float) -> None:
    rows = [row for instance in instances for row in instance.rows]
    unpolished = sum((i.unpolished for i in instances), Counter[str]())
    balls = sum(i.balls for i in instances)
    print(f"{len(instances)} instances, {len(rows) // 2} snapshots, {elapsed:.0f} s\n")
    print(f"{'certified':34}{'global':>9}{'local':>9}{'interval':>9}{'face':>9}{'refuted':>9}{'undecided':>10}")
    print(f"{f'centre as saved, {balls} balls':34}" + "".join(f"{unpolished[m]:9}" for m in METHODS))
    for step in STEPS:
        mine = [row for row in rows if row.step == step]
        passed = [sum(row.passed[m] for row in mine) for m in PAPERS]
        verdicts = Counter(row.verdict for row in mine)
        found = "".join(f"{n:9}" for n in (*passed, verdicts["certified"], verdicts["refuted"]))
        print(f"{f'polished, {step} step':34}" + found + f"{verdicts['undecided']:10}")
    print("paper, polished: 46 of 90 with the recorded step, 67 of 90 with a new one, by any of its tests; 0 refuted")
    for row in rows:
        if row.verdict == "undecided":
            print(f"  undecided: {row.name}, {row.step} step: {row.reason}")
        if row.slack > 1e-3:
            print(f"  q is not tight: {row.name}, {row.step} step: q = {row.q:.9f}, excess {row.slack:.2g} (1 - q)")
    tight = [row.slack for row in rows if row.verdict == "certified"]
    close = sum(x <= 1e-3 for x in tight)
    print(f"\n(q - spectral radius) / (1 - q) at the smallest ball: at most 1e-3 on {close} of {len(tight)}", end="")
    print(f"; median {statistics.median(tight):.2g}, largest {max(tight):.2g}")
    print("\npredicted / actual updates to a thousandth of the radius, from half of it")
    print(f"{'ball':18}{'starts':>8}{'norm median':>13}{'p90':>7}{'modal median':>14}{'p90':>7}{'updates':>20}")
    for kind in COUNTED:
        norm, modal = ([getattr(r, n)[kind] for r in rows if kind in getattr(r, n)] for n in ("norm", "modal"))
        actual = [row.actual[kind] for row in rows if kind in row.actual]
        print(
            f"{kind:18}{len(modal):8}{np.median(norm):13.3f}{np.quantile(norm, 0.9):7.3f}"
            f"{np.median(modal):14.3f}{np.quantile(modal, 0.9):7.3f}{f'{min(actual)}..{max(actual)}':>20}"
        )
    print(f"replayed distances above a bound, or counts below: {sum(row.violations for row in rows)}")
    seconds: Counter[str] = Counter()
    for instance in instances:
        seconds.update(instance.seconds)
    total = sum(seconds.values())
    print(f"\nseconds of processor time, {total:.0f} in all")
    for name, value in seconds.most_common():
        print(f"  {name:18}{value:8.1f}{100 * value / total:6.1f} %")
    needed = sum(seconds[n] for n in ("solve", "polish", "new step", "search", "refute"))
    print(f"  verdicts of the face test alone, solving and polishing included: {needed:.1f}")


def one_state(label: str, state: State) -> None:
    """All tests on one state, with both the published and the zero-diagonal constants."""
    clock = Clock()
    polished = clock("polish", polish, state)
    problem = Problem(replace(state, W=polished.U), BINARY64)
    found = clock("face search", search_face, problem, TOL)
    if found.largest is None:
        clock("refute", refute, problem.state, problem.center)
    for name in PAPERS:
        clock(name, METHODS[name], problem, 1e-6)
    for name, test in (("global, zero diagonal", global_test), ("local, zero diagonal", local_test)):
        clock(name, test, problem, 1e-6, SHARP)
    seconds = ", ".join(f"{name} {value:.2f}" for name, value in clock.seconds.items())
    print(f"{label}: {sum(clock.seconds.values()):.2f} s ({seconds})", flush=True)


def large_state(p: int = 37, edges: int = 46, samples: int = 1000) -> State:
    """The middle stage of a sparse random acyclic graph of the size of ALARM, P = 64."""
    rng = np.random.default_rng(37)
    pairs = np.argwhere(np.triu(np.ones((p, p)), 1))
    chosen = pairs[rng.choice(len(pairs), edges, replace=False)]
    W = np.zeros((p, p))
    W[tuple(chosen.T)] = rng.choice([-1.0, 1.0], edges) * rng.uniform(0.5, 2, edges)
    X = np.linalg.solve(np.eye(p) - W.T, rng.normal(size=(p, samples))).T
    X -= X.mean(axis=0)
    Sigma = X.T @ X / samples
    return stage_states(solve((Sigma + Sigma.T) / 2, p_max=64, record="stages"))[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two seeds a size, and no p = 37 state")
    parser.add_argument("--replays", type=int, default=40_000, help="leave out replays of more updates")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    keys = [key for key in corpus.instances() if not arguments.quick or key[2] < 2]
    start = time.perf_counter()
    # largest first, so that no process waits for the other at the end
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        instances = []
        for done, instance in enumerate(
            pool.imap(partial(run_instance, most=arguments.replays), keys[::-1], chunksize=1), 1
        ):
            instances.append(instance)
            print(f"\r{done} of {len(keys)} instances", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    report(instances, time.perf_counter() - start)
    print()
    one_state("a p = 10 state", corpus.snapshots(10, 0)[1])
    if not arguments.quick:
        one_state("a p = 37 state, P = 64", large_state())


if __name__ == "__main__":
    main()
