"""Reports and pages are the same bytes whatever the locale, time zone, hash seed, threads, terminal and directory."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from certify.cases.polyprox import corpus, saved_from
from command_lines import tensors_of

from certify.states import Saved, save

KERNEL = "import numpy as np\n\ndef kernel(A, x):\n    return {'y': np.maximum(A @ x, 0), 's': np.sum(x * x)}\n"


def locales() -> list[str]:
    """What this machine has, at most four and C among them; one with a decimal comma if there is one."""
    run = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False) if os.name == "posix" else None
    names = run.stdout.split() if run is not None and run.returncode == 0 else []
    comma = [x for x in names if x.startswith(("de_", "fr_"))]
    turkish = [x for x in names if x.startswith("tr_")]
    return ["C", *comma[:1], *turkish[:1], *[x for x in names if x.lower() in ("c.utf8", "c.utf-8")][:1]]


THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
SURROUNDINGS: list[dict[str, str]] = [
    {},
    *({"LC_ALL": name, "LANG": name} for name in locales()),
    {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "1", "SOURCE_DATE_EPOCH": "0"},
    {"TZ": "UTC+12", "PYTHONHASHSEED": "4294967295", "COLUMNS": "20", "TERM": "dumb"},
    dict.fromkeys(THREADS, "1"),
    dict.fromkeys(THREADS, "7"),
    {"NO_COLOR": "1", "COLUMNS": "300", "LINES": "5", "PYTHONOPTIMIZE": "1"},
    {"FORCE_COLOR": "1", "PYTHONOPTIMIZE": "2", "PYTHONUTF8": "1", "TERM": "xterm-256color"},
    {"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "PYTHONMALLOC": "malloc"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trajectory, a state whose stage is certified on a proper face, and a kernel with its inputs."""
    path = tmp_path_factory.mktemp("inputs")
    W = np.stack([tensors_of()["W"] * (1 - k / 16) for k in range(2)])
    save(path / "two.npz", Saved(tensors_of(W=W)))
    save(path / "faced.safetensors", saved_from(corpus.snapshots(5, 1)[0]))
    save(path / "inputs.npz", Saved({"A": np.array([[1.5, -0.1], [0.3, 2.0]]), "x": np.array([0.1, 0.7])}))
    (path / "kernel.py").write_text(KERNEL)
    return path


def outputs(line: list[str], cwd, surroundings: dict[str, str]) -> dict[str, bytes]:
    """The files that a command makes in the directory out/ of its own directory."""
    (cwd / "out").mkdir(parents=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON")) and k not in THREADS}
    command = [sys.executable, "-m", "certify.cli.main", *line]
    run = subprocess.run(command, cwd=cwd, env=kept | surroundings, capture_output=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    return {path.name: path.read_bytes() for path in sorted((cwd / "out").iterdir())}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("trajectory", ["run", "{}/two.npz", "--format", "float32", "--update-tol", "1e-3", "--methods", "none"]),
        ("face", ["run", "{}/faced.safetensors", "--step", "new", "--format", "float64", "--methods", "local,face"]),
        ("kernel", ["trace", "{}/kernel.py:kernel", "{}/inputs.npz", "--format", "float16", "--format", "float32"]),
    ],
)
def test_the_same_bytes_everywhere(folder, tmp_path, name, line):
    """Report, page, and the files beside the report; two runs and each of the surroundings, in other directories."""
    line = [part.format(folder) for part in line] + ["-o", "out/report.json"]
    line += ["--html", "out/report.html"] if line[0] == "run" else []
    first = outputs(line, tmp_path / "first", {})
    assert {"report.json"} < set(first) or name != "kernel"
    for k, surroundings in enumerate(SURROUNDINGS):
        again = outputs(line, tmp_path / f"d{k}" / "ä b", surroundings)
        assert again.keys() == first.keys()
        for file, data in again.items():
            assert data == first[file], (file, surroundings)


def test_a_page_is_the_same_everywhere(folder, tmp_path):
    """Made of a report, with what the checker says."""
    line = ["run", f"{folder}/faced.safetensors", "--step", "new", "--format", "float64", "-o", "out/report.json"]
    (tmp_path / "r.json").write_bytes(outputs(line, tmp_path / "report", {})["report.json"])
    line = ["html", f"{tmp_path}/r.json", "-o", "out/page.html", "--state", f"{folder}/faced.safetensors"]
    first = outputs(line, tmp_path / "first", {})
    for k, surroundings in enumerate(SURROUNDINGS[1::2]):
        assert outputs(line, tmp_path / f"d{k}", surroundings) == first, surroundings
