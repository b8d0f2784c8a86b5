"""The checker's own reading of state files, against `certify.states` on the same files."""

from __future__ import annotations

import io
import json
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.polyprox import states_from
from checker_reports import small_states

from certify.checker.document import Beyond, Rejected
from certify.checker.saved import States, read
from certify.errors import InputRejected
from certify.states import Saved, digest, load_stream
from certify.states.npz_file import encode_npz
from certify.states.safetensors_file import encode_safetensors

DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")


def tensors_of_every_type():
    """Shapes with 0 to 3 axes, one of length 0 and one of length 1."""
    rng = np.random.default_rng(4)
    shapes = [(), (3,), (2, 3), (2, 1, 3), (0, 4), (1, 1)]
    arrays = {
        f"{d}{s}".replace("?", "b"): np.asarray(rng.integers(0, 2, s) * 3).astype(d) for d in DTYPES for s in shapes
    }
    return arrays | {"half": np.asarray(rng.normal(size=(4, 5)), order="F"), "strange name é": np.ones(2)}


def same(mine, theirs: Saved) -> None:
    """Equal names, digests, numbers and metadata."""
    assert set(mine.tensors) == set(theirs.tensors)
    assert dict(mine.metadata) == dict(theirs.metadata)
    for name, array in theirs.tensors.items():
        assert mine.tensors[name].digest() == digest(array)
        assert mine.tensors[name].values() == array.ravel().tolist()


@pytest.mark.parametrize("encode", [encode_safetensors, encode_npz])
def test_files_are_read_as_the_producer_reads_them(encode):
    """Every element type, scalars and empty arrays, metadata with any letters."""
    data = encode(tensors_of_every_type(), {"alpha": "0x1p-1", "ä": "ö"})
    same(read(data, "it"), load_stream(io.BytesIO(data), "it.npz"))


@pytest.mark.parametrize("writer", [np.savez, np.savez_compressed])
def test_archives_of_numpy_are_read(writer):
    """Packed or not."""
    rng = np.random.default_rng(6)
    arrays = {"deep": rng.normal(size=(2, 1, 3, 4)), "short": np.asarray(rng.integers(0, 99, size=(3, 2)), dtype="<i2")}
    stream = io.BytesIO()
    writer(stream, one=np.float64(0.1), empty=np.zeros((0, 2)), **arrays)
    same(read(stream.getvalue(), "it"), load_stream(io.BytesIO(stream.getvalue()), "it.npz"))


def turned(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Different elements, as far as the type has them, in Fortran order."""
    return np.asarray(np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape) * 37 % 251).astype(dtype, order="F")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_layouts_of_numpy_are_read(order, dtype):
    """Fortran order, big-endian numbers, and both, of every type, with up to four axes, some of length 0 and 1."""
    shapes = [(), (3,), (2, 3), (3, 2), (2, 3, 4), (4, 1, 2), (1, 3), (3, 1), (0, 2), (2, 0), (2, 3, 2, 5)]
    arrays = {f"n{k}": turned(order + dtype, shape) for k, shape in enumerate(shapes)}
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    mine = read(stream.getvalue(), "it")
    for name, array in arrays.items():
        assert mine.tensors[name].digest() == digest(np.ascontiguousarray(array).astype(dtype).reshape(array.shape))
        assert mine.tensors[name].values() == array.ravel(order="C").tolist()


def test_many_axes_in_fortran_order_are_rejected():
    """Thirty thousand of them, without a deep recursion."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        shape = "1," * 30_000
        archive.writestr("x.npy", npy(f"{{'descr': '<f8', 'fortran_order': True, 'shape': ({shape})}}"))
    with pytest.raises(Rejected):
        used(stream.getvalue())


def test_many_rows_in_fortran_order_are_beyond_the_checker():
    """The sentence says what to do."""
    stream = io.BytesIO()
    np.savez(stream, W=np.zeros((1 << 19, 2), np.int8, order="F"))
    with pytest.raises(Beyond, match="ascontiguousarray"):
        read(stream.getvalue(), "it")


@pytest.mark.parametrize("body", [b"\0" * 7, b"\0" * 9, b"", b"\0" * 16])
@pytest.mark.parametrize(
    "header", ["'>f8', 'fortran_order': True", "'>f8', 'fortran_order': False", "'<f8', 'fortran_order': True"]
)
def test_other_layouts_of_another_size_are_rejected(header, body):
    """Bytes that do not fit the shape."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x.npy", npy(f"{{'descr': {header}, 'shape': (1, 1)}}", body))
    with pytest.raises(Rejected):
        used(stream.getvalue())


def test_bfloat16_is_widened():
    """As the producer does: the digest is that of the binary32 numbers."""
    body = np.array([0x3F80, 0xC040, 0x0001], dtype="<u2").tobytes()
    header = json.dumps({"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    data = len(header).to_bytes(8, "little") + header + body
    same(read(data, "it"), load_stream(io.BytesIO(data), "it.safetensors"))


def safetensors(header: object, body: bytes = b"\0" * 8) -> bytes:
    """A file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(**changes: object) -> dict[str, object]:
    """A good description of one number, with changes."""
    return {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} | changes


def used(data: bytes) -> None:
    """Read a file and all of its numbers."""
    for tensor in read(data, "the state file").tensors.values():
        tensor.values()


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 7, b"\xff" * 16, safetensors([]), safetensors(b'{"x": 1'), safetensors({"x": 1})]
    + [safetensors({"x": entry(**c)}) for c in ({"dtype": "F8"}, {"dtype": 3}, {"shape": [2]}, {"shape": [True]})]
    + [safetensors({"x": entry(**c)}) for c in ({"shape": [-1]}, {"shape": "1"}, {"data_offsets": [8, 0]})]
    + [safetensors({"x": entry(**c)}) for c in ({"data_offsets": [0, 9]}, {"data_offsets": [0]}, {"more": 1})]
    + [safetensors({"x": entry(shape=[1] * 33)}), safetensors({"x": entry(), "y": entry()})]
    + [safetensors({"x": entry()}, b"\0" * 9), safetensors({"x": entry()}, b"\xff" * 8)]
    + [safetensors({"x": entry(dtype="F32", shape=[1], data_offsets=[4, 8])}), safetensors({"__metadata__": {"a": 1}})]
    + [safetensors(b'{"x": {"dtype": "BOOL", "shape": [8], "data_offsets": [0, 8]}}', b"\2" * 8)]
    + [safetensors(b'{"x": 1, "x": 1}'), b"PK\3\4"],
)
def test_damaged_files_are_rejected(data):
    """One sentence, whatever is wrong."""
    with pytest.raises(Rejected) as caught:
        used(data)
    assert str(caught.value).isprintable()


def npy(header: str, body: bytes = b"\0" * 8) -> bytes:
    """A member of an archive."""
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}"


@pytest.mark.parametrize(
    ("name", "member"),
    [("x.npy", npy(GOOD.replace("<f8", descr))) for descr in ("|O", "<c8", "<f16", "V8", "<U2", "<f٨")]
    + [
        ("x.npy", npy(GOOD.replace("(1,)", s)))
        for s in ("(2,)", "1", "(True,)", "(-1,)", "(1.0,)", "(" * 500 + "1" + ")" * 500)
    ]
    + [
        ("x.npy", npy(h))
        for h in ("", "{}", "__import__('os').getcwd()", GOOD + " " * 2000, "[" * 900, "-" * 900 + "1")
    ]
    + [("x.npy", b""), ("x.npy", npy(GOOD)[:20]), ("x.txt", npy(GOOD)), ("x.npy", npy(GOOD, b"\0" * 9))]
    + [("__metadata__.npy", npy(GOOD)), ("x.npy", npy(GOOD, np.float64(np.nan).tobytes()))],
)
def test_damaged_archives_are_rejected(name, member):
    """Objects, structures, headers that are programs or promise another size."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, member)
    with pytest.raises(Rejected):
        used(stream.getvalue())


def test_an_archive_with_a_name_twice_is_rejected():
    """zipfile would give the last one."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("x.npy", npy(GOOD))
        archive.writestr("x.npy", npy(GOOD))
    with pytest.raises(Rejected):
        read(stream.getvalue(), "it")


@pytest.mark.parametrize("encode", [encode_safetensors, encode_npz])
@pytest.mark.parametrize("count", [1, 3])
def test_states_are_those_of_the_producer(encode, count):
    """Every number of every state."""
    from certify.cases.polyprox import saved_from

    saved = saved_from(small_states(count, p_max=7))
    mine = States(read(encode(saved.tensors, saved.metadata), "it"))
    assert mine.count == count
    for k, theirs in enumerate(states_from(saved)):
        state = mine.state(k)
        for name in ("W", "Sigma", "M"):
            assert getattr(state, name) == getattr(theirs, name).tolist()
        for name in ("p", "p_max", "N", "alpha", "rho", "gamma", "lam", "b"):
            assert getattr(state, name) == getattr(theirs, name)
    for k in (-1, count, True, "0", None, 0.0):
        with pytest.raises(Rejected):
            mine.state(k)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("W", np.ones((3, 3))),
        ("W", np.ones((2, 3))),
        ("W", np.zeros((0, 3, 3))),
        ("M", np.ones((3, 3))),
        ("M", np.zeros((2, 2))),
        ("Sigma", np.arange(9.0).reshape(3, 3)),
        ("rho", -1.0),
        ("gamma", 0.0),
        ("lam", -1.0),
        ("b", 2),
        ("p_max", 2),
        ("p_max", 4.5),
        ("alpha", np.ones(3)),
        ("more", np.ones(1)),
        ("M", np.full((3, 3), 0.5)),
        ("W", np.int64(2**53 + 1) * (1 - np.eye(3, dtype=int))),
    ],
)
def test_what_is_no_state_is_rejected(name, value):
    """What the producer refuses, the checker does."""
    good = small_states()
    tensors = {
        n: np.asarray(getattr(good, n)) for n in ("W", "Sigma", "M", "alpha", "rho", "gamma", "lam", "b", "p_max")
    }
    assert States(read(encode_npz(tensors, {}), "it")).state(0).p == 3
    with pytest.raises(Rejected):
        States(read(encode_npz(tensors | {name: np.asarray(value)}, {}), "it")).state(0)


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "٣", "1_0", "0x", "1e999"])
def test_controls_are_plain_numbers(text):
    """In ASCII, finite."""
    good = small_states()
    tensors = {n: np.asarray(getattr(good, n)) for n in ("W", "Sigma", "M", "rho", "gamma", "lam", "b", "p_max")}
    with pytest.raises(Rejected):
        States(read(encode_npz(tensors, {"alpha": text}), "it")).state(0)


def with_data(X: object, **more: object) -> bytes:
    """A state file that gives data."""
    good = small_states()
    tensors = {n: np.asarray(getattr(good, n)) for n in ("W", "M", "alpha", "rho", "gamma", "lam", "b", "p_max")}
    return encode_npz(tensors | {"X": np.asarray(X)} | {n: np.asarray(x) for n, x in more.items()}, {})


def rounded_covariance(X: list[list[float]]) -> list[list[float]]:
    """In rationals, and rounded once."""
    rows = [[Fraction(x) for x in row] for row in X]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    moved = [[x - mean for x, mean in zip(row, means, strict=True)] for row in rows]
    p = range(len(means))
    return [[float(sum(row[i] * row[j] for row in moved) / len(rows)) for j in p] for i in p]


@pytest.mark.parametrize("scale", [1.0, 2.0**-540, 2.0**500, 1e-320])
@pytest.mark.parametrize("m", [1, 2, 7])
def test_a_covariance_of_data_is_exact_and_rounded_once(scale, m):
    """As the producer makes it, bit for bit, and as rationals say: large means that cancel, subnormal results, integers."""
    rng = np.random.default_rng(m)
    for X in (rng.normal(size=(m, 3)) * scale, 1e8 + rng.normal(size=(m, 3)), rng.integers(-9, 9, size=(m, 3))):
        data = with_data(X)
        mine = States(read(data, "it")).state(0).Sigma
        assert mine == rounded_covariance(np.asarray(X, float).tolist())
        (theirs,) = states_from(load_stream(io.BytesIO(data), "it.npz"))
        assert mine == theirs.Sigma.tolist()


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.full((2, 3), np.nan), "finite"),
        (np.ones((4, 2)), "square"),
        (np.ones((0, 3)), "square"),
        (np.ones(3), "square"),
        (np.ones((2, 3, 3)), "square"),
        ([[-1e200] * 3, [1e200] * 3], "too large"),
    ],
)
def test_data_of_no_covariance_is_rejected(X, words):
    """By this reader as by the producer's."""
    with pytest.raises(Rejected, match=words):
        States(read(with_data(X), "it")).state(0)
    with pytest.raises(InputRejected):
        states_from(load_stream(io.BytesIO(with_data(X)), "it.npz"))


def test_data_and_a_covariance_are_one_too_many():
    """And neither is too few; much data is beyond the checker, and so are numbers far apart."""
    for data in (with_data(np.ones((2, 3)), Sigma=np.eye(3)), with_data(np.ones((2, 3)))[:-1] + b"x"):
        with pytest.raises(Rejected):
            States(read(data, "it"))
    far = np.ones((100_000, 3))
    far[0] = [5e-324, 1.0, 1e308]
    for X in (np.ones((200_000, 3)), far):
        with pytest.raises(Beyond, match="covariance"):
            States(read(with_data(X), "it")).state(0)


def test_only_what_the_subject_names_is_read():
    """Of a state also its scalars; a further array is nobody's business, even one that is not finite."""
    good = small_states()
    tensors = {
        n: np.asarray(getattr(good, n)) for n in ("W", "Sigma", "M", "alpha", "rho", "gamma", "lam", "b", "p_max")
    }
    more = {"X": np.full((2, 3), 7.0), "grad": np.full(4, 1e300), "loss": np.float64(3)}
    saved = read(encode_npz(tensors | more, {}), "it")
    kept = saved.of({"case": "polyprox", "tensors": dict.fromkeys(("W", "Sigma", "M"))})
    assert set(kept.tensors) == set(tensors)
    assert States(kept).state(0).Sigma == good.Sigma.tolist()
    assert set(saved.of({"case": "kernel", "tensors": {"loss": 1, "none": 2}}).tensors) == {"loss"}
    for subject in ({}, {"case": "polyprox"}, {"case": 1, "tensors": {}}, {"case": "kernel", "tensors": ["W"]}):
        with pytest.raises(Rejected, match="subject"):
            saved.of(subject)
