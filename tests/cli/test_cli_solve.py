"""`certify solve`: data files in, states out, and every fault of the data named."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from certify.cases.polyprox.state import states_from
from certify.cli.data import prepared, read_data
from command_lines import complaint

from certify.states import Saved, load, load_stream, save


@pytest.fixture
def data():
    """Thirty positive samples of three variables, the second driven by the first."""
    rng = np.random.default_rng(1)
    first = rng.uniform(1, 3, 30)
    return np.stack([first, 2 * first + rng.uniform(0, 0.1, 30), rng.uniform(1, 2, 30)], axis=1)


def written(path, data, names=None, **options):
    """A csv file with these numbers, exactly."""
    lines = [",".join(names)] if names else []
    lines += [",".join(map(repr, map(float, row))) for row in data]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", **options)
    return path


@pytest.mark.parametrize("names", [None, ("raf", "mek", "a b")])
def test_a_csv_file(certify, tmp_path, data, names):
    """With a row of names or without: states of the data's covariance, nothing on standard output."""
    result = certify("solve", written(tmp_path / "d.csv", data, names), "-o", "states.safetensors", "--count", "2")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert "30 samples of 3 variables" in result.stderr
    states = states_from(load("states.safetensors"))
    assert len(states) == 2
    np.testing.assert_allclose(states[0].Sigma, np.cov(data.T, bias=True))


@pytest.mark.parametrize("make", ["csv", "npz", "stdin"])
def test_the_container_does_not_matter(certify, tmp_path, data, make):
    """The same numbers give the same bytes, from a csv file, an npz file or standard input."""
    csv = written(tmp_path / "d.csv", data)
    np.savez(tmp_path / "d.npz", X=data, other=np.zeros(2))
    certify("solve", csv, "-o", "expected.npz")
    source = {"csv": "d.csv", "npz": "d.npz", "stdin": "-"}[make]
    result = certify("solve", source, "-o", "found.npz", input=csv.read_bytes() if make == "stdin" else None)
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "found.npz").read_bytes() == (tmp_path / "expected.npz").read_bytes()


def test_an_npz_file_on_standard_input(certify, tmp_path, data):
    """What standard input holds is seen from its first bytes."""
    np.savez(tmp_path / "d.npz", X=data)
    result = certify("solve", "-", "-o", "found.npz", input=(tmp_path / "d.npz").read_bytes())
    assert result.exit_code == 0, result.stderr


def test_states_to_standard_output(certify, tmp_path, data):
    """-o - writes a safetensors file that `certify run -` accepts."""
    solved = certify("solve", written(tmp_path / "d.csv", data), "-o", "-", "--count", "1")
    assert solved.exit_code == 0, solved.stderr
    ran = certify("run", "-", "--format", "float64", "-o", "report.json", input=solved.stdout_bytes)
    assert ran.exit_code == 0, ran.stderr


def test_the_controls(certify, tmp_path, data):
    """--lam, --p-max and --count reach the states; without --p-max the capacity is p."""
    path = written(tmp_path / "d.csv", data)
    certify("solve", path, "-o", "a.npz")
    assert states_from(load("a.npz"))[0].p_max == 3
    result = certify("solve", path, "-o", "b.npz", "--lam", "0.25", "--p-max", "8", "--count", "1")
    assert result.exit_code == 0, result.stderr
    (state,) = states_from(load("b.npz"))
    assert (state.lam, state.p_max) == (0.25, 8)


def test_logarithms_and_scales(certify, tmp_path, data):
    """--log --standardize: the covariance is the correlation of the logarithms."""
    path = written(tmp_path / "d.csv", data)
    result = certify("solve", path, "-o", "s.npz", "--log", "--standardize")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(states_from(load("s.npz"))[0].Sigma, np.corrcoef(np.log(data).T), atol=1e-12)


def test_a_mark_of_byte_order_is_no_name(tmp_path, data):
    """Spreadsheets put one first; blank lines are skipped, spaces and quotes are not part of a number."""
    path = tmp_path / "d.csv"
    path.write_bytes(b'\xef\xbb\xbf"a",b\r\n\r\n1, 2.5\r\n"3",4e0\r\n')
    X, names = read_data(str(path))
    assert names == ("a", "b")
    assert X.tolist() == [[1.0, 2.5], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3,x\n", ["row 3", "'x'", "column 'b'"]),
        ("1,2\n3,x\n", ["row 2", "'x'", "column '2'"]),
        ("1,x\n3,4\n", ["row 1", "'x'", "column '2'"]),
        ("a,b\n1,2\n3,\n", ["row 3", "no value", "column 'b'"]),
        ("a,b\n1,2\n3,1_000\n", ["row 3", "'1_000'"]),
        ("a,b\n1,2\n3,nan\n", ["row 3", "nan", "column 'b'"]),
        ("a,b\n1,2\n3,-inf\n", ["row 3", "-inf", "column 'b'"]),
        ("a,b\n1,2\n3,1e999\n", ["row 3", "inf", "column 'b'"]),
        ("a,b\n1,2\n3,\x1b[31m\n", ["row 3", "'\\x1b[31m'"]),
        ("a,b\n1,2\n3\n", ["row 3", "1 cells", "2"]),
        ("a,b\n1,2\n3,4,5\n", ["row 3", "3 cells", "2"]),
        (",a,b\n0,1,2\n1,3,4\n", ["column 1 has no name"]),
        ("a,a\n1,2\n3,4\n", ["two columns are named 'a'"]),
        ("a\n1\n2\n", ["1 column", "two"]),
        ("1;2\n3;4\n", ["row 2", "'3;4'"]),
        ("a,b\n1,2\n", ["1 row", "two"]),
        ("a,b\n", ["0 rows", "two"]),
        ("", ["empty"]),
        ("\n\n", ["empty"]),
        ('a,b\n1,"2\n', ["line"]),
        ("1,2\n1,2\n", ["Sigma is zero"]),
        ("a,b\n1e200,2\n3,4\n", ["row 1", "1e+200", "'a'", "too large"]),
    ],
    ids=repr,
)
def test_csv_files_that_hold_no_data(certify, tmp_path, text, words):
    """Exit code 3, one sentence that names the row and the column; no states."""
    (tmp_path / "d.csv").write_bytes(text.encode())
    sentence = complaint(certify("solve", "d.csv", "-o", "states.npz"), 3)
    assert all(word in sentence for word in words), sentence
    assert not (tmp_path / "states.npz").exists()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("a,b\n1,2\n1,3\n", ["--standardize"], ["'a'", "constant"]),
        ("a,b\n1,2\n0,3\n", ["--log"], ["row 2", "0", "'a'", "logarithm"]),
        ("a,b\n1,2\n2,-3\n", ["--log"], ["row 2", "-3", "'b'", "logarithm"]),
        ("a,b\n1,2\n2,3\n", ["--p-max", "1"], ["p = 2", "p_max is 1"]),
    ],
)
def test_data_that_options_do_not_fit(certify, tmp_path, text, options, words):
    """Exit code 3, one sentence that names the culprit and the option to leave out."""
    (tmp_path / "d.csv").write_text(text)
    sentence = complaint(certify("solve", "d.csv", "-o", "states.npz", *options), 3)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"Y": np.zeros((3, 3))}, ["no array 'X'", "'Y'"]),
        ({"X": np.zeros(3)}, ["X has shape (3,)"]),
        ({"X": np.zeros((3, 1))}, ["1 column"]),
        ({"X": np.zeros((1, 3))}, ["1 row"]),
        ({"X": np.array([[1, 2], [np.nan, 4]])}, ["'X'", "nan", "(1, 0)"]),
        ({"X": np.array([["a", "b"]])}, ["'X'"]),
    ],
    ids=str,
)
def test_npz_files_that_hold_no_data(certify, tmp_path, arrays, words):
    """Exit code 3, one sentence that names the array."""
    np.savez(tmp_path / "d.npz", **arrays)
    sentence = complaint(certify("solve", "d.npz", "-o", "states.npz"), 3)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["absent.csv", "-o", "s.npz"], 3, ["no file 'absent.csv'"]),
        ([".", "-o", "s.npz"], 3, ["'.' is a directory"]),
        (["d.csv", "-o", "s.txt"], 2, ["--output", "'s.txt'", ".safetensors"]),
        (["d.csv", "-o", "nowhere/s.npz"], 3, ["no directory 'nowhere'"]),
        (["d.npz", "-o", "d.npz"], 3, ["'d.npz' is the input"]),
        (["d.csv", "-o", "s.npz", "--lam", "-1"], 2, ["--lam", "-1"]),
        (["d.csv", "-o", "s.npz", "--lam", "nan"], 2, ["--lam", "finite"]),
        (["d.csv", "-o", "s.npz", "--count", "0"], 2, ["--count", "0"]),
        (["d.csv", "-o", "s.npz", "--p-max", "0"], 2, ["--p-max", "0"]),
    ],
)
def test_wrong_arguments(certify, tmp_path, data, args, code, words):
    """One sentence that names the option or the file."""
    written(tmp_path / "d.csv", data)
    np.savez(tmp_path / "d.npz", X=data)
    sentence = complaint(certify("solve", *args), code)
    assert all(word in sentence for word in words), sentence


def test_binary_files_are_not_text(certify, tmp_path):
    """A file in none of the formats is refused as what it is not."""
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe1\x00,\x002\x00")
    assert "not text in UTF-8" in complaint(certify("solve", "d.csv", "-o", "s.npz"), 3)


def test_parquet_needs_its_extra(certify, tmp_path, monkeypatch):
    """Without pyarrow the sentence says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "d.parquet").write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    sentence = complaint(certify("solve", "d.parquet", "-o", "s.npz"), 3)
    assert "pip install 'certify[parquet]'" in sentence


def test_a_parquet_file(certify, tmp_path, data):
    """A table gives the states of the same numbers in a csv file; text and missing values are refused by column."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")

    def table(path, **columns):
        pq.write_table(pa.table(columns), path)
        return path

    a, b, c = data.T
    certify("solve", written(tmp_path / "d.csv", data), "-o", "expected.npz")
    good = table(tmp_path / "d.parquet", a=a, b=b, c=c)
    result = certify("solve", good, "-o", "found.npz")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "found.npz").read_bytes() == (tmp_path / "expected.npz").read_bytes()
    assert certify("solve", "-", "-o", "piped.npz", input=good.read_bytes()).exit_code == 0

    text = table(tmp_path / "text.parquet", a=a, b=["x"] * 30)
    assert "column 'b' is of type string" in complaint(certify("solve", text, "-o", "s.npz"), 3)
    missing = table(tmp_path / "missing.parquet", a=a, b=[None, *b[1:]])
    assert "row 1 has no value in column 'b'" in complaint(certify("solve", missing, "-o", "s.npz"), 3)
    good.write_bytes(good.read_bytes()[:-20])
    assert "not a readable parquet file" in complaint(certify("solve", good, "-o", "s.npz"), 3)


def test_standardizing_is_exact_about_constants():
    """A column that varies in its last bit only, or too little for its variance, is not divided by zero."""
    names = ("a", "b")
    X = np.array([[1.0, 1.0], [1.0 + 2**-52, 2.0], [1.0, 3.0]])
    assert np.isfinite(prepared(X, names, logarithms=False, standardize=True)).all()
    with pytest.raises(Exception, match="'a' varies too little"):
        prepared(np.array([[0.0, 1.0], [1e-200, 2.0]]), names, logarithms=False, standardize=True)


def test_stored_states_are_those_of_the_solver(certify, tmp_path, data):
    """A file written by `solve` loads and saves again to the same bytes."""
    certify("solve", written(tmp_path / "d.csv", data), "-o", "a.safetensors")
    with open("a.safetensors", "rb") as stream:
        saved = load_stream(stream, "a")
    save("b.safetensors", Saved(saved.tensors, saved.metadata))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
