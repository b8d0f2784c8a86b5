"""A runner for commands, and small states to certify: three variables, so that a run takes a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from certify.cli.main import main
from click.testing import CliRunner, Result
from command_lines import tensors_of

from certify.states import Saved, save

Invoke = Callable[..., Result]


@pytest.fixture
def certify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run a command line in an empty directory; `input` is standard input, `env` more of the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CERTIFY_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*args: object, **options: object) -> Result:
        return CliRunner().invoke(main, [str(arg) for arg in args], **options)

    return invoke


@pytest.fixture
def state_file(tmp_path: Path) -> Callable[..., Path]:
    """Save a good state with changes; the file's path."""

    def make(name: str = "state.npz", **changes: object) -> Path:
        path = tmp_path / name
        save(path, Saved(tensors_of(**changes)))
        return path

    return make


@pytest.fixture
def trajectory_file(state_file: Callable[..., Path]) -> Callable[..., Path]:
    """Save a trajectory of some states, rho growing tenfold from each to the next; the file's path."""

    def make(count: int, name: str = "trajectory.npz") -> Path:
        W = np.stack([tensors_of()["W"] * (1 - k / 16) for k in range(count)])
        return state_file(
            name, W=W, rho=10.0 ** np.arange(count), alpha=np.full(count, 1.5), gamma=np.full(count, 0.25)
        )

    return make
