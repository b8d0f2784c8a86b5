"""`kill -9` at any moment leaves each output file as it was, or complete and new: never a mixture, never something else."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_lines import tensors_of

from certify.certificate import read
from certify.states import Saved, load, save

OLD = b"what was here before\n"
KERNEL = """import numpy as np

def kernel(A, x):
    return {'y': np.maximum(A @ x, 0)}

def wide(x):
    return x * 70000
"""
RUN = ("run", "state.npz", "--format", "float32", "--methods", "none", "--samples", "0", "--radius", "0")
WIDE = ("--format", "float16", "--radius", "0.1")
#: name, arguments, the files that it writes, and how often it is interrupted: fifty times in all
COMMANDS = [
    ("run", (*RUN, "-o", "out.json"), ("out.json",), 9),
    ("run with a page", (*RUN, "-o", "out.json", "--html", "out.html"), ("out.json", "out.html"), 8),
    ("solve", ("solve", "data.csv", "-o", "out.npz"), ("out.npz",), 7),
    ("html", ("html", "good.json", "-o", "out.html"), ("out.html",), 7),
    ("gate", ("gate", "good.json", "good.json", "--format", "junit", "-o", "out.xml"), ("out.xml",), 5),
    ("gate --update", ("gate", "out.json", "good.json", "--update"), ("out.json",), 6),
    ("updates", ("updates", "state.npz", "--plot", "out.svg"), ("out.svg",), 4),
    ("trace", ("trace", "kernel.py:kernel", "inputs.npz", "-o", "out.json", "--format", "float32"), ("out.json",), 2),
    # float16 overflows on a ball of 6000 inputs, so the witness is in a file
    ("trace with a witness file", ("trace", "kernel.py:wide", "wide.npz", "-o", "out.json", *WIDE), ("out.json",), 8),
    ("demo", ("demo", "-o", "out.json"), ("out.json", "out.html", "states.safetensors"), 2),
]
COMPLETE: dict[str, Callable[[Path], object]] = {
    ".json": read,
    ".npz": load,
    ".safetensors": load,
    ".html": lambda path: path.read_text("utf-8").rstrip().endswith("</html>") or pytest.fail("a truncated page"),
    ".svg": lambda path: path.read_text("utf-8").rstrip().endswith("</svg>") or pytest.fail("a truncated figure"),
    ".xml": lambda path: path.read_text("utf-8").rstrip().endswith("</testsuites>") or pytest.fail("truncated results"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the inputs of all commands."""
    folder = tmp_path_factory.mktemp("inputs")
    save(folder / "state.npz", Saved(tensors_of()))
    save(folder / "inputs.npz", Saved({"A": np.eye(2), "x": np.ones(2)}))
    save(folder / "wide.npz", Saved({"x": np.random.default_rng(2).uniform(1, 2, 6000)}))
    (folder / "kernel.py").write_text(KERNEL)
    rows = np.random.default_rng(1).uniform(1, 3, (30, 3))
    (folder / "data.csv").write_text("".join(",".join(map(repr, row)) + "\n" for row in rows.tolist()))
    assert start((*RUN, "-o", "good.json"), folder).wait() == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def start(arguments: tuple[str, ...], folder: Path) -> subprocess.Popen[bytes]:
    """The command in a process group of its own."""
    line = [sys.executable, "-m", "certify.cli.main", *arguments]
    return subprocess.Popen(
        line, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def interrupt(process: subprocess.Popen[bytes], folder: Path, after: float, files: int) -> None:
    """Kill it after some seconds; or, if `after` is 0, as soon as a file comes or goes or grows."""
    before, began = _seen(folder, files), time.monotonic()
    while process.poll() is None:
        if time.monotonic() - began > after and (after or _seen(folder, files) != before):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            break
        time.sleep(0.0 if not after else 0.001)
    process.wait()


def named_in(value: Any) -> Iterator[dict[str, str]]:
    """The files that a report names, wherever it does."""
    if isinstance(value, dict) and "file" in value:
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from named_in(inner)


def digest_of(path: Path) -> str:
    """Of a file that must be there."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _seen(folder: Path, files: int) -> list[tuple[str, int]]:
    found = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            found.append((entry.name, entry.stat().st_size))
    return sorted(x for x in found if x[0] != "__pycache__")


@pytest.mark.parametrize(("name", "arguments", "outputs", "times"), COMMANDS, ids=[c[0] for c in COMMANDS])
def test_an_interrupted_command_leaves_old_or_new_files(tmp_path, made, name, arguments, outputs, times):
    """At random moments of its run, at the first change in the folder, with old files in place and without."""
    moments = random.Random(name)
    old = made["good.json"] if name == "gate --update" else OLD
    lasted = 2.0
    for k in range(times):
        folder = tmp_path / str(k)
        folder.mkdir()
        for file, data in made.items():
            (folder / file).write_bytes(data)
        # the demo does not replace states that are someone's; of gate --update the old file is a report
        present = [x for x in outputs if x != "states.safetensors"] if k % 2 == 0 or name == "gate --update" else []
        for file in present:
            (folder / file).write_bytes(old)
        process, began = start(arguments, folder), time.monotonic()
        interrupt(process, folder, moments.uniform(0.1, 1.1) * lasted if k % 3 else 0.0, k)
        lasted = time.monotonic() - began if k == 0 else lasted
        for file in outputs:
            path = folder / file
            if file in present and path.read_bytes() == old:
                continue
            if file not in present and not path.exists():
                continue
            COMPLETE[path.suffix](path)
            if path.suffix == ".json":
                assert all(
                    digest_of(folder / x["file"]) == x["sha256"] for x in named_in(json.loads(path.read_bytes()))
                )
        for path in set(folder.iterdir()) - {folder / x for x in (*made, *outputs, "__pycache__")}:
            # an unfinished file has a hidden name; what a report names is complete, as the name is its digest
            hidden = path.name.startswith(".certify-") and path.suffix == ".tmp"
            assert hidden or (name.startswith("trace") and path.suffix == ".safetensors" and load(path)), path
        assert all((folder / file).read_bytes() == data for file, data in made.items() if file not in outputs)


def test_a_temporary_file_is_not_taken_for_a_state(tmp_path, made):
    """Beside a report, an unfinished state file is no candidate; a second run overwrites nothing but its output."""
    for file in ("good.json", "state.npz"):
        (tmp_path / file).write_bytes(made[file])
    (tmp_path / ".certify-0123456789abcdef.tmp").write_bytes(made["state.npz"][:100])
    line = [sys.executable, "-m", "certify.cli.main", "check", "good.json", "--json"]
    run = subprocess.run(line, cwd=tmp_path, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)


def test_the_report_with_a_witness_file_has_one(tmp_path, made):
    """Not interrupted, it writes graph, inputs and witness; the checker proves it all again."""
    for file in ("kernel.py", "wide.npz"):
        (tmp_path / file).write_bytes(made[file])
    assert start(next(c[1] for c in COMMANDS if "witness" in c[0]), tmp_path).wait() == 4
    held = {x["file"].split("-")[0] for x in named_in(json.loads((tmp_path / "out.json").read_bytes()))}
    assert held == {"graph", "witness"}
    assert {x.name.split("-")[0] for x in tmp_path.glob("*-*.safetensors")} == {"graph", "inputs", "witness"}
    assert start(("check", "out.json"), tmp_path).wait() == 0
    next(tmp_path.glob("witness-*")).unlink()
    assert start(("check", "out.json"), tmp_path).wait() == 3
    assert start(("show", "--claims", "out.json"), tmp_path).wait() == 0
    assert start(("html", "out.json"), tmp_path).wait() == 0
    assert start(("gate", "out.json", "out.json"), tmp_path).wait() in (0, 1)


def test_every_command_that_writes_is_interrupted():
    """Fifty times in all."""
    assert sum(times for *_, times in COMMANDS) >= 50
