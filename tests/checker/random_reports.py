"""Reports on kernels drawn at random: all operations, orders and formats, at inputs where arithmetic is awkward."""

from __future__ import annotations

from typing import Any

import numpy as np
from checker_reports import findings, kernel_of

import certify
from certify.arithmetic import Format, format_named
from certify.checker import Finding
from certify.errors import InputRejected, TraceRefused
from certify.graph import sigmoid

ORDERS = ("serial", "pairwise", "blocked(2)", "blocked(3)", "fma", "any-order")
WIDE = ("float16", "float32", "float64")
FORMATS = (
    *("e4m3", "e5m2", "float16", "bfloat16", "tf32", "float32", "float64", "float16,ftz", "float32,ftz", "float64,ftz"),
    *(
        "e4m3,saturate",
        "bfloat16,ftz,saturate",
        "p=2,emin=-3,emax=4",
        "p=9,emin=-20,emax=25",
        "p=24,emin=-400,emax=400",
    ),
)
OWN = (*FORMATS[:9], "float16,ftz", "e4m3,saturate", "p=5,emin=-9,emax=10", "p=24,emin=-40,emax=300")
MASK = np.array([True, False, True, True])
PAIRS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "over": lambda a, b: a + (b - a),
    "matmul": lambda a, b: (a.reshape(2, 2) @ b.reshape(2, 2)).ravel(),
    "sum": lambda a, b: np.sum(a) + b,
    "dot": lambda a, b: (a @ b) + np.where(MASK, b, 0),
    "div": lambda a, b: a / (np.abs(b) + 0.5),
    "ratio": lambda a, b: a / b,
    "max": np.maximum,
    "min": np.minimum,
    "where": lambda a, b: np.where(a < b, a * b, b - a),
    "near": lambda a, b: np.where(a <= b + 9, a, b),
    "softmax": lambda a, b: np.exp(a - np.max(a)) / np.sum(np.exp(b - np.max(b))),
    "norm": lambda a, b: a / np.sqrt(np.var(b) + 2.0**-7),
    "cancel": lambda a, b: (a * b + a) - (a * b - 2 * b),
}
SINGLE: dict[str, Any] = {
    "neg": lambda a: -a,
    "relu": lambda a: np.maximum(a, 0),
    "mask": lambda a: np.where(MASK, a, 0),
    "flip": np.flip,
    "half": lambda a: a / 2,
    "eighth": lambda a: a * 0.125,
    "four": lambda a: a * 4,
    "tenth": lambda a: 0.1 * a,
    "plus": lambda a: a + 1.0009765625,
    "square": lambda a: a * a,
    "exp": lambda a: np.exp(a / 4),
    "steep": np.exp,
    "log": lambda a: np.log(np.abs(a) + 0.25),
    "sqrt": lambda a: np.sqrt(np.abs(a) + 0.125),
    "root": lambda a: np.sqrt(a * a),
    "length": lambda a: a * np.linalg.norm(a),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "abs": np.abs,
    "clip": lambda a: np.clip(a, -0.5, 0.75),
}
Step = tuple[str, int, int, str]


def random_steps(rng: np.random.Generator, own: tuple[str, ...]) -> tuple[Step, ...]:
    """Between 2 and 7 steps: an operation, its registers, and the format that is in force, or none."""
    names = [*PAIRS, *SINGLE] + ["cast"] * (4 if own else 0)
    steps: list[Step] = []
    for k in range(int(rng.integers(2, 8))):
        i, j = (int(max(rng.integers(3 + k), rng.integers(3 + k))) for _ in range(2))
        name = str(rng.choice(names))
        forced = str(rng.choice(own)) if own and (name == "cast" or rng.random() < 0.4) else ""
        steps.append((name, i, j, forced))
    return tuple(steps)


def kernel_from(steps: tuple[Step, ...]) -> Any:
    """The kernel of such steps: its last two registers, and a sum that takes them all in."""

    def kernel(x: Any, y: Any, z: Any) -> Any:
        r = [x, y, z]
        for name, i, j, forced in steps:
            if name == "cast":
                r.append(certify.cast(r[i], forced))
            elif forced:
                with certify.precision(forced):
                    r.append(PAIRS[name](r[i], r[j]) if name in PAIRS else SINGLE[name](r[i]))
            else:
                r.append(PAIRS[name](r[i], r[j]) if name in PAIRS else SINGLE[name](r[i]))
        return {"last": r[-1], "before": r[-2], "dot": r[-1] @ r[-3], "known": np.array([0.1, 0.5])}

    return kernel


def random_inputs(rng: np.random.Generator, f: Format) -> dict[str, np.ndarray]:
    """Ordinary numbers, zeros, subnormals, powers of two and their neighbours, ties, equal and huge entries."""
    shape = (3, 4)
    sign = rng.choice([-1.0, 1.0], shape)
    kinds = [
        rng.standard_normal(shape),
        rng.integers(-9, 10, shape) * 2.0 ** rng.integers(-3, 2),
        sign * 2.0 ** rng.integers(-5, 4, shape),
        sign * 2.0 ** rng.integers(-3, 3, shape) * (1 + rng.integers(-2, 3, shape) * f.u),
        rng.integers(-16, 17, shape) / 4 * f.min_subnormal,
        sign * rng.uniform(0.2, 5, shape) * f.min_normal,
        np.full(shape, rng.standard_normal()),
        sign * rng.uniform(0.5, 2) * (1 + rng.integers(-4, 5, shape) * f.u / 2),
        sign * rng.uniform(0.01, 1, shape) * 2.0 ** (f.emax // 2),
        sign * rng.uniform(0.01, 1, shape) * f.largest,
        np.zeros(shape),
        sign * (rng.integers(2 ** (f.precision - 1), 2**f.precision, shape) + 0.5) * 2.0 ** (1 - f.precision),
    ]
    weights = np.array([6, 2, 2, 2, 1, 1, 2, 2, 0.7, 0.4, 0.7, 2])
    weights /= weights.sum()
    one = kinds[int(rng.choice(len(kinds), p=weights))]
    each = np.choose(rng.choice(len(kinds), shape, p=weights), kinds)
    return dict(zip("xyz", one if rng.random() < 0.5 else each, strict=True))


def random_report(seed: int, own: bool) -> tuple[Any, ...] | None:
    """A report with adjoint claims, its files, and a label; None where the producer refuses the kernel."""
    rng = np.random.default_rng([seed, int(own)])
    names = tuple(rng.choice(OWN, int(rng.integers(1, 4)), replace=False).tolist()) if own else ()
    format, order = str(rng.choice(FORMATS)), str(rng.choice(ORDERS))
    if rng.random() < 0.4:
        order += f":{rng.choice(WIDE)}"
    steps, at = random_steps(rng, names), random_inputs(rng, format_named(format))
    radius = float(rng.choice([0.0, 2.0**-12, 0.01, 0.1, 0.5]) * rng.choice([1.0, abs(at["x"]).max()]))
    options = {"center": "x", "radius": radius} if radius else {}
    label = f"seed {seed} {own} {format} {order} radius {radius!r} steps {steps}"
    try:
        made = kernel_of(kernel_from(steps), at, formats=format, order=order, bound="adjoint", **options)
    except (InputRejected, TraceRefused):
        return None
    return (*made, label)


def disagreements(made: Any) -> tuple[list[tuple[str, str, str, str]], int]:
    """Claims that the checker finds otherwise: id, claimed, found, why; and how many certified ones are adjoint."""
    report, state, files, label = made
    found: dict[str, Finding] = findings(report, state, files)
    wrong = [
        (c["id"], c["verdict"], found[c["id"]].verdict, f"{found[c['id']].sentence} [{label}]")
        for c in report["claims"]
        if found[c["id"]].verdict != c["verdict"]
    ]
    return wrong, sum(c["verdict"] == "certified" and c["id"].count("/adjoint") for c in report["claims"])
