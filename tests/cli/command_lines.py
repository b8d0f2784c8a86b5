"""What the tests of commands share: a small state, a process, and what every refusal must look like."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
from click.testing import Result


def tensors_of(**changes: object) -> dict[str, np.ndarray]:
    """The tensors and controls of a good state, with changes; None leaves one out."""
    mask = np.triu(np.ones((3, 3)), 1)
    tensors: dict[str, object] = {
        "W": mask * [[0, 0.5, -0.25], [0, 0, 0.75], [0, 0, 0]],
        "Sigma": np.array([[1, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 1]]),
        "M": mask,
        "alpha": 1.5,
        "rho": 2.0,
        "gamma": 0.25,
        "lam": 0.1,
        "b": 1,
        "p_max": 4,
    }
    return {name: np.asarray(value) for name, value in {**tensors, **changes}.items() if value is not None}


def process(*args: object, env: dict[str, str] | None = None, **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own."""
    surroundings = {**os.environ, **(env or {})}
    command = [sys.executable, "-m", "certify.cli.main", *map(str, args)]
    return subprocess.run(command, capture_output=True, env=surroundings, timeout=60, check=False, **options)


def complaint(result: Result, code: int) -> str:
    """The one sentence of a refusal; asserts that there is one, that it names a remedy, and the exit code."""
    assert result.exit_code == code, (result.stderr, result.exception)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("certify: error: ")
    assert "; " in lines[0]
    assert lines[0].isprintable()
    assert len(lines[0]) < 400
    return lines[0].removeprefix("certify: error: ")
