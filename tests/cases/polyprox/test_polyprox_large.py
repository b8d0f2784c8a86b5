"""Blocks of a hundred million operations: what they need, measured on a process of its own."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from certify.cases.polyprox import State, saved_from

from certify.states import save

PROGRAM = """
import json, resource, sys
import numpy as np
from certify.arithmetic import BINARY64
from certify.cases.polyprox import State
from certify.cases.polyprox.certificates import graph_of, inputs_of
from certify.rounding import ball, running

p, gibibytes = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (gibibytes << 30, gibibytes << 30))
rng = np.random.default_rng(0)
M = 1 - np.eye(p, dtype=np.int8)
X = rng.standard_normal((50, p))
state = State(rng.standard_normal((p, p)) * M * 0.2 / p, X.T @ X / 50, M, 0.3, 1.5, 0.05, 0.01, 1, p)
graph = graph_of(state)
bounds = running(graph, BINARY64, ball(inputs_of(state), "W", 1e-3))
print(json.dumps({"operations": graph.n_operations, "nodes": graph.n_nodes, "norm": bounds.norm_of("W")}))
"""


def _run(p, gibibytes):
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(p), str(gibibytes)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_block_of_128_variables_fits_in_two_gibibytes():
    """Over 100 million operations, bounded on a ball, in an address space of 2 GiB; values are few, as terms are no nodes."""
    found = _run(128, 2)
    assert found["operations"] > 100_000_000
    assert found["nodes"] < found["operations"] / 50
    assert 0 < found["norm"] < 1e-13


def test_the_limit_of_memory_is_one():
    """The same program in an address space that an import fills is refused by the system: the limit works."""
    done = subprocess.run([sys.executable, "-c", PROGRAM.replace("<< 30", "<< 20"), "8", "64"], capture_output=True)
    assert done.returncode != 0


def test_a_run_of_128_variables_can_be_interrupted(tmp_path):
    """Ctrl-C in the middle of the bounds: exit code 130, one line, and no file."""
    M = 1 - np.eye(128, dtype=np.int8)
    W = np.random.default_rng(0).standard_normal((128, 128)) * M / 1000
    save(tmp_path / "state.npz", saved_from([State(W, np.eye(128), M, 0.3, 1.5, 0.05, 0.01, 1, 128)]))
    formats = [option for name in ("bfloat16", "tf32", "float32", "float64") for option in ("--format", name)]
    asked = (
        "run",
        "state.npz",
        *formats,
        "--order",
        "any-order",
        "--bound",
        "adjoint",
        "--methods",
        "none",
        "-o",
        "out.json",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "certify.cli.main", *asked],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    )
    time.sleep(2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1].strip() == "certify: interrupted"
    assert process.returncode == 130
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]
