"""What `certify run` refuses: options, states and places, each with one sentence."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
from certify.cli.options import METHODS
from command_lines import complaint, tensors_of

from certify.arithmetic import FORMATS
from certify.graph.orders import ORDERS
from certify.states import Saved, save


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--radius", "-1"], ["--radius", "-1", "at least 0"]),
        (["--radius", "nan"], ["--radius", "nan", "finite"]),
        (["--radius", "inf"], ["--radius", "inf", "finite"]),
        (["--radius", "1e999"], ["--radius", "finite"]),
        (["--radius", "wide"], ["--radius", "'wide'", "not a number"]),
        (["--tol", "0"], ["--tol", "positive"]),
        (["--tol", "-1e-3"], ["--tol", "positive"]),
        (["--tol", "nan"], ["--tol", "finite"]),
        (["--update-tol", "0"], ["--update-tol", "positive"]),
        (["--methods", "newton"], ["--methods", "'newton'", *METHODS, "none"]),
        (["--methods", ""], ["--methods", "''"]),
        (["--methods", "none,face"], ["--methods", "'none'"]),
        (["--step", "small"], ["--step", "small", "recorded", "new"]),
        (["--replay", "-1"], ["--replay", "-1"]),
        (["--samples", "-1"], ["--samples", "-1"]),
        (["--samples", "2.5"], ["--samples", "2.5"]),
        (["--format", "float8"], ["--format", "'float8'", *FORMATS]),
        (["--order", "random"], ["--order", "'random'", *ORDERS]),
        (["--case", "nothing"], ["--case", "'nothing'", "polyprox"]),
        (["--formt", "float32"], ["--formt", "--format"]),
        (["more"], ["more"]),
    ],
)
def test_bad_options(certify, state_file, options, words):
    """Usage, exit code 2: one sentence that names the option, the value and what would do."""
    sentence = complaint(certify("run", state_file(), *options), 2)
    assert all(word in sentence for word in words), sentence
    assert sentence.endswith("; see `certify run --help`")


def npz(path, **arrays):
    """An npz file that no check has seen."""
    np.savez(path, **arrays)
    return path


def with_entry(name, index, value):
    """The tensors of a good state, one entry changed."""
    array = np.array(tensors_of()[name], dtype=float)
    array[index] = value
    return {name: array}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"W": np.zeros((3, 2))}, ["W", "(3, 2)"]),
        ({"W": np.zeros(9)}, ["W", "(9,)"]),
        ({"W": np.zeros((0, 3, 3))}, ["W", "no states"]),
        ({"Sigma": np.eye(2)}, ["Sigma", "(2, 2)"]),
        ({"M": np.ones((2, 2))}, ["M", "(2, 2)"]),
        (with_entry("W", (1, 1), 0.5), ["W[1, 1]", "diagonal"]),
        (with_entry("W", (2, 0), 0.5), ["W[2, 0]", "M[2, 0]"]),
        (with_entry("M", (0, 0), 1), ["M[0, 0]", "diagonal"]),
        (with_entry("M", (0, 1), 2), ["M[0, 1]", "0"]),
        (with_entry("W", (0, 1), np.nan), ["'W'", "nan", "(0, 1)", "save finite values only"]),
        (with_entry("Sigma", (0, 1), np.inf), ["'Sigma'", "inf", "(0, 1)", "save finite values only"]),
        (with_entry("Sigma", (0, 1), 0.75), ["Sigma[0, 1]", "Sigma[1, 0]"]),
        ({"rho": -1.0}, ["rho", "-1"]),
        ({"gamma": -0.5}, ["gamma", "-0.5"]),
        ({"gamma": 0.0}, ["gamma", "0"]),
        ({"lam": -0.1}, ["lam", "-0.1"]),
        ({"alpha": np.inf}, ["alpha", "inf"]),
        ({"p_max": 2}, ["p = 3", "p_max is 2"]),
        ({"b": 2}, ["b is 2"]),
        ({"rho": None}, ["rho is missing"]),
        ({"Sigma": None}, ["Sigma is missing"]),
        ({"extra": 1.0}, ["'extra'", "unknown"]),
    ],
    ids=str,
)
def test_states_that_are_none(certify, tmp_path, changes, words):
    """Exit code 3 and one sentence that names the tensor; no report."""
    path = npz(tmp_path / "bad.npz", **tensors_of(**changes))
    sentence = complaint(certify("run", path, "-o", "report.json"), 3)
    assert all(word in sentence for word in words), sentence
    assert not os.path.exists("report.json")


def pickled(path):
    """A pickle that would leave a trace if it were opened."""
    path = path / "state.pkl"
    path.write_bytes(pickle.dumps({"W": [1.0]}))
    return path


def object_array(path):
    """An npz file with an array of Python objects, stored as a pickle."""
    return npz(path / "objects.npz", **{**tensors_of(), "W": np.array([[{}]], dtype=object)})


def truncated(path):
    """A safetensors file without its last bytes."""
    save(path / "whole.safetensors", Saved(tensors_of()))
    cut = path / "cut.safetensors"
    cut.write_bytes((path / "whole.safetensors").read_bytes()[:-8])
    return cut


def truncated_zip(path):
    """An npz file without its directory."""
    whole = npz(path / "whole.npz", **tensors_of())
    cut = path / "cut.npz"
    cut.write_bytes(whole.read_bytes()[:-40])
    return cut


def zip_bomb(path):
    """An npz file of some kB that unpacks to 128 MiB of zeros."""
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (4096, 4096)})
    bomb = path / "bomb.npz"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("W.npy", "w") as member:
        member.write(array.getvalue())
        for _ in range(128):
            member.write(bytes(1 << 20))
    return bomb


def duplicate_keys(path):
    """A safetensors file whose header has W twice."""
    entry = '{"dtype":"F64","shape":[1],"data_offsets":[0,8]}'
    header = f'{{"W":{entry},"W":{entry}}}'.encode()
    header += b" " * (-len(header) % 8)
    twice = path / "twice.safetensors"
    twice.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    return twice


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (pickled, ["state.pkl", "pickle"]),
        (object_array, ["'W'", "objects"]),
        (truncated, ["cut.safetensors"]),
        (truncated_zip, ["cut.npz", "truncated"]),
        (zip_bomb, ["bomb.npz"]),
        (duplicate_keys, ["twice.safetensors", "'W'", "twice"]),
    ],
)
def test_files_that_hold_no_state(certify, tmp_path, make, words):
    """Exit code 3, one sentence that names the file and what is wrong with it."""
    path = make(tmp_path)
    sentence = complaint(certify("run", path), 3)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("state", "words"),
    [("absent.npz", ["no file", "'absent.npz'"]), (".", ["'.'", "directory"]), ("\x1b[31m", ["no file"])],
)
def test_there_is_no_such_state(certify, state, words):
    """A name that is no file is refused, and shown without what it could do to a terminal."""
    sentence = complaint(certify("run", state), 3)
    assert all(word in sentence for word in words), sentence


def test_empty_standard_input(certify):
    """Nothing on standard input is no state."""
    assert "'standard input' is empty" in complaint(certify("run", "-", input=b""), 3)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("nowhere/report.json", ["no directory 'nowhere'"]),
        (".", ["'.' is a directory"]),
        ("state.npz", ["'state.npz'", "input"]),
    ],
)
def test_places_where_no_report_can_go(certify, state_file, monkeypatch, output, words):
    """Refused before the work, and the state is not lost."""
    path = state_file()
    before = path.read_bytes()
    monkeypatch.setattr("certify.cases.polyprox.case.PolyProx.certify", lambda *args: pytest.fail("worked first"))
    sentence = complaint(certify("run", path, "-o", output), 3)
    assert all(word in sentence for word in words), sentence
    assert path.read_bytes() == before
