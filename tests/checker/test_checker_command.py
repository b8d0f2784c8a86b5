"""`python -m certify.checker` and `certify check` as processes: what they print, exit codes, and hostile files."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from checker_reports import changed, claim_of, report_of, small_states

from certify.checker import likeness
from certify.states import digest, load_stream
from certify.states.npz_file import encode_npz
from certify.states.safetensors_file import encode_safetensors

MEMORY, SECONDS = 500 << 20, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report with its state file beside it, among other files."""
    report, state = report_of(small_states(), formats=("float32",))
    path = tmp_path_factory.mktemp("report")
    (path / "report.json").write_text(json.dumps(report))
    (path / "states.safetensors").write_bytes(state)
    (path / "a.npz").write_bytes(b"no archive")
    (path / "b.safetensors").write_bytes(state[:-1])
    return path


def limited() -> None:
    """What a hostile file may cost."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def command(*args: object, module: str = "certify.checker") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, within the limits."""
    line = [sys.executable, "-m", module, *map(str, args)]
    limits = limited if module == "certify.checker" else None
    return subprocess.run(line, capture_output=True, text=True, preexec_fn=limits, check=False)


def refusal(run: subprocess.CompletedProcess[str], code: int = 3) -> str:
    """The one sentence of a refusal."""
    assert (run.returncode, run.stdout) == (code, ""), (run.returncode, run.stderr[-2000:])
    (line,) = run.stderr.splitlines()
    assert line.startswith("certify.checker: ")
    assert line.isprintable()
    assert len(line) < 400
    return line


def test_a_good_report_is_proved_again(folder):
    """One line a claim and a sentence; the state beside it is found by its digests."""
    run = command(folder / "report.json")
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert len(lines) == len(json.loads((folder / "report.json").read_text())["claims"]) + 1
    assert "rounding/float32/serial/ball" in run.stdout
    assert lines[-1].endswith("0 rejected.")
    named = command(folder / "report.json", "--state", folder / "states.safetensors")
    assert named.stdout == run.stdout


def test_findings_as_json(folder):
    """With exact numbers."""
    run = command(folder / "report.json", "--json")
    found = json.loads(run.stdout)
    assert run.returncode == 0
    assert all(f["verdict"] == f["claimed"] == "certified" for f in found)
    assert {"eps_W", "eps_alpha"} <= {name for f in found for name in f["proved"]}


def test_a_false_claim_is_named(folder, tmp_path):
    """One sentence on standard error, and exit code 3."""
    report = json.loads((folder / "report.json").read_text())
    name = "rounding/float32/serial/point"
    (tmp_path / "r.json").write_text(json.dumps(changed(report, name, "bounds", "eps_W", to="0x1p-60")))
    run = command(tmp_path / "r.json", "--state", folder / "states.safetensors")
    assert run.returncode == 3
    (line,) = run.stderr.splitlines()
    assert name in line
    assert "eps_W" in line
    assert f"rejected   {name}" in run.stdout


def test_an_unknown_kind_gives_exit_code_1(folder, tmp_path):
    """Nothing is wrong, and not everything is proved."""
    report = json.loads((folder / "report.json").read_text())
    report["claims"].append({**claim_of(report, "exactness/point"), "id": "magic/point", "kind": "magic"})
    report["required"] = ["exactness/point"]
    (tmp_path / "r.json").write_text(json.dumps(report))
    assert command(tmp_path / "r.json", "--state", folder / "states.safetensors").returncode == 1


def test_usage(folder):
    """A missing argument, and an option that is none."""
    assert command().returncode == 2
    assert command(folder / "report.json", "--none").returncode == 2


def test_certify_check_is_the_same(folder):
    """Standard output and exit code; --help has an example and the exit codes."""
    run = command("check", folder / "report.json", module="certify.cli.main")
    assert (run.returncode, run.stdout) == (0, command(folder / "report.json").stdout)
    text = command("check", "--help", module="certify.cli.main").stdout
    assert "certify check report.json" in text
    assert "Exit codes" in text


def test_files_that_are_not_there(folder, tmp_path):
    """A report, a state, a state beside the report; a folder in their place."""
    (tmp_path / "r.json").write_bytes((folder / "report.json").read_bytes())
    assert "beside" in refusal(command(tmp_path / "r.json"))
    refusal(command(tmp_path / "none.json"))
    refusal(command(tmp_path))
    refusal(command(tmp_path / "r.json", "--state", tmp_path / "none"))
    assert "digests" in refusal(command(tmp_path / "r.json", "--state", other_state(tmp_path)))


def test_of_several_files_the_one_that_fits_best_is_taken(folder, tmp_path):
    """Of equal tensors the one with equal controls, then the one with nothing else, whatever they are called."""
    data = (folder / "states.safetensors").read_bytes()
    (tmp_path / "r.json").write_bytes((folder / "report.json").read_bytes())
    saved = load_stream(io.BytesIO(data), "states")
    more = {**saved.tensors, "X": np.ones((2, 3)), "momentum": np.zeros(4)}
    (tmp_path / "c.npz").write_bytes(encode_npz(more, saved.metadata))
    assert command(tmp_path / "r.json").returncode == 0, "a checkpoint with more in it is good enough"
    (tmp_path / "a.safetensors").write_bytes(encode_safetensors(saved.tensors, {**saved.metadata, "lam": "0.25"}))
    (tmp_path / "b.safetensors").mkdir()
    assert command(tmp_path / "r.json").returncode == 0, "other controls"
    (tmp_path / "c.npz").unlink()
    assert "controls" in refusal(command(tmp_path / "r.json"))
    subject = json.loads((tmp_path / "r.json").read_text())["subject"]
    fits = [encode_safetensors(saved.tensors, {"lam": "1"}), encode_npz(more, saved.metadata), data]
    other = encode_safetensors({**saved.tensors, "Sigma": np.eye(3)}, saved.metadata)
    assert [likeness(subject, x) for x in (b"", other, *fits)] == [0, 0, 1, 2, 3]
    for damaged in ({}, {"tensors": []}, {"tensors": {"W": 1}, "case": []}):
        assert likeness(damaged, data) == 0


def test_a_state_with_data_is_checked(tmp_path):
    """From `run` to `check` by the real commands: the covariance is made of X again; other data are another state."""
    rng = np.random.default_rng(3)
    X = 5 + rng.normal(size=(40, 3))
    numbers = {"alpha": 0.5, "rho": 1.0, "gamma": 0.125, "lam": 0.1, "b": 0, "p_max": 4}
    tensors = {"W": np.zeros((3, 3)), "M": 1 - np.eye(3), **{k: np.float64(x) for k, x in numbers.items()}}
    np.savez(tmp_path / "state.npz", X=np.asfortranarray(X), **tensors)
    line = ("run", tmp_path / "state.npz", "-o", tmp_path / "r.json", "--format", "float32", "--samples", "0")
    assert command(*line, module="certify.cli.main").returncode == 0
    run = command(tmp_path / "r.json")
    assert run.returncode == 0, run.stderr
    np.savez(tmp_path / "state.npz", X=np.nextafter(X, 9), **tensors)
    assert "digests" in refusal(command(tmp_path / "r.json", "--state", tmp_path / "state.npz"))


def other_state(path: Path) -> Path:
    """A good state file, but of another state."""
    (path / "other.safetensors").write_bytes(report_of(small_states(alpha=0.25, p_max=5), formats=("float32",))[1])
    return path / "other.safetensors"


def bomb(members: int, size: int) -> bytes:
    """An archive that unpacks to members * size zeros."""
    stream = io.BytesIO()
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},)}}".encode()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for k in range(members):
            npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
            archive.writestr(f"{k}.npy", npy + bytes(size))
    return stream.getvalue()


HOSTILE_REPORTS = {
    "many elements": b"[" + b"{}," * 299_000 + b"{}]",
    "many keys": b"{" + b",".join(b'"%d":0' % k for k in range(599_000)) + b"}",
    "deep": b"[" * (1 << 25),
    "deep objects": b'{"a":' * 6_000_000,
    "long string": '"\U0001f600'.encode() + b"a" * ((32 << 20) - 10) + b'"',
    "escapes": b'"' + b"\\ud83d\\ude00" * 2_700_000 + b'"',
    "long integer": b"9" * (1 << 25),
    "long float": b"1." + b"9" * (1 << 24),
    "too large": b" " * ((32 << 20) + 1),
    "not text": b"\xff" * (1 << 25),
}


@pytest.mark.parametrize("name", HOSTILE_REPORTS)
def test_hostile_reports(tmp_path, folder, name):
    """One sentence within two seconds and 500 MB, whatever the file."""
    (tmp_path / "r.json").write_bytes(HOSTILE_REPORTS[name])
    refusal(command(tmp_path / "r.json", "--state", folder / "states.safetensors"))


def test_hostile_bounds(tmp_path, folder):
    """Numbers at the limits of the grammar in every bound of four thousand claims."""
    report = json.loads((folder / "report.json").read_text())
    claim = report["claims"][1]
    texts = ["0x1p-20000", "0x1p+20000", "1/" + "9" * 998]
    report["claims"] = [
        {**claim, "id": f"rounding/{k}", "bounds": {f"eps{j}": t for j, t in enumerate(texts[: 1 + k % 3])}}
        for k in range(4000)
    ]
    del report["required"]
    (tmp_path / "r.json").write_text(json.dumps(report))
    run = command(tmp_path / "r.json", "--state", folder / "states.safetensors")
    assert run.returncode == 3
    assert len([x for x in run.stderr.splitlines() if x.startswith("certify.checker: claim")]) == 4000


def fortran() -> bytes:
    """An archive with half a million rows of six, column by column."""
    stream = io.BytesIO()
    np.savez_compressed(stream, W=np.zeros((1 << 19, 6), np.int8, order="F"))
    return stream.getvalue()


DATA = {
    "large": (np.random.default_rng(0).normal(size=(1 << 16, 3)) * 1e300, 3),
    "as much as there may be": (np.random.default_rng(0).normal(size=(166_000, 3)), 0),
    "as wide as it may be": (np.tile([[5e-324, 1e308, 0.0]], (40_000, 1)), 0),
    "wide": (np.tile([[5e-324, 1e308, 0.0]], (50_000, 1)), 1),
    "much": (np.full((1_300_000, 3), 0.1), 1),
    "little": (np.ones((1, 3)), 0),
}


@pytest.mark.parametrize("name", DATA)
def test_hostile_data(tmp_path, folder, name):
    """In a state file that the report names: within the limits, whatever it says."""
    X, code = DATA[name]
    saved = load_stream(io.BytesIO((folder / "states.safetensors").read_bytes()), "states")
    tensors = {"W": saved.tensors["W"], "M": saved.tensors["M"], "X": X}
    (tmp_path / "state").write_bytes(encode_safetensors(tensors, saved.metadata))
    report = json.loads((folder / "report.json").read_text())
    report["subject"]["tensors"] = {key: digest(array) for key, array in tensors.items()}
    (claim,) = (c for c in report["claims"] if c["id"] == "exactness/point")
    report |= {"claims": [claim], "required": [claim["id"]], "verdict": "certified"}
    (tmp_path / "r.json").write_text(json.dumps(report))
    run = command(tmp_path / "r.json", "--state", tmp_path / "state")
    assert run.returncode == code, (run.stdout, run.stderr[-500:])
    assert code == 0 or "X" in run.stdout


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bomb", 3),
        ("many", 3),
        ("directory", 3),
        ("halves", 3),
        ("bytes", 3),
        ("header", 3),
        ("large", 1),
        ("lengths", 3),
        ("fortran", 1),
    ],
)
def test_hostile_state_files(tmp_path, folder, name, code):
    """Zip bombs, huge directories, headers that promise much: one sentence within the limits."""
    half = json.dumps({"x": {"dtype": "F16", "shape": [15 << 20], "data_offsets": [0, 30 << 20]}}).encode()
    flags = json.dumps({"x": {"dtype": "BOOL", "shape": [30 << 20], "data_offsets": [0, 30 << 20]}}).encode()
    data = {
        "bomb": lambda: bomb(1, 200 << 20),
        "many": lambda: bomb(40, 1 << 20),
        "directory": lambda: b"PK\3\4" + b"PK\1\2" * (1 << 22) + b"PK\5\6" + b"\xff" * 16 + b"\0\0",
        "halves": lambda: len(half).to_bytes(8, "little") + half + bytes(30 << 20),
        "bytes": lambda: len(flags).to_bytes(8, "little") + flags + bytes(30 << 20),
        "header": lambda: (30 << 20).to_bytes(8, "little") + b'{"a":' * (6 << 20),
        "large": lambda: bytes((32 << 20) + 1),
        "fortran": fortran,
        "lengths": lambda: (2**64 - 1).to_bytes(8, "little") + b"{}",
    }[name]()
    (tmp_path / "state").write_bytes(data)
    refusal(command(folder / "report.json", "--state", tmp_path / "state"), code)


def test_a_crash_of_the_checker_is_no_success(monkeypatch, tmp_path, capsys):
    """Exit code 70 and a traceback; Python's own code for it, 1, says that nothing is wrong."""
    from certify.checker import __main__

    def broken(*args):
        raise IndexError("out of range")

    (tmp_path / "r.json").write_text("{}")
    monkeypatch.setattr(__main__, "check", broken)
    monkeypatch.setattr("sys.argv", ["checker", str(tmp_path / "r.json"), "--state", str(tmp_path / "r.json")])
    assert __main__.main() == 70
    assert "IndexError: out of range" in capsys.readouterr().err
