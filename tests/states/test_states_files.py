"""Loading and saving: what goes in comes out bit for bit, and what cannot be trusted does not come out."""

import io
import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from certify.errors import CertifyError, InputRejected
from certify.states import Saved, load, load_stream, save

SUFFIXES = (".safetensors", ".npz")
DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f8", ">i4"]


def bits(array):
    """The contents of an array in native byte order, whatever its layout."""
    native = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    return native.dtype, native.shape, native.tobytes()


def small():
    """A file of two tensors and some metadata."""
    return Saved({"W": np.arange(6.0).reshape(2, 3), "alpha": np.asarray(1.5, dtype=np.float32)}, {"topology": "naïve"})


@st.composite
def saved_files(draw):
    """Files of up to four tensors: every type, up to four axes, empty ones, and any memory layout."""
    names = draw(
        st.lists(
            st.text(st.characters(categories=["L", "N", "P"], exclude_characters="\\"), min_size=1, max_size=8),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    tensors = {}
    for name in names:
        dtype = np.dtype(draw(st.sampled_from(DTYPES)))
        shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
        elements = None
        if dtype.kind == "f":
            elements = {"allow_nan": False, "allow_infinity": False}
        array = draw(hnp.arrays(dtype, shape, elements=elements))
        layout = draw(st.sampled_from(["C", "F", "transposed", "strided"]))
        if layout == "F":
            array = np.asfortranarray(array) if array.ndim else array
        elif layout == "transposed":
            array = array.T
        elif layout == "strided" and array.ndim:
            array = array[::-2]
        tensors[name] = array
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    return Saved(tensors, draw(st.dictionaries(text, text, max_size=3)))


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(saved=saved_files())
def test_round_trip_keeps_every_bit(tmp_path, suffix, saved):
    """Names, metadata, types, shapes and bits survive, from any memory layout; the result is in C order."""
    path = tmp_path / f"state{suffix}"
    save(path, saved)
    found = load(path)
    assert dict(found.metadata) == dict(saved.metadata)
    assert set(found.tensors) == set(saved.tensors)
    for name, array in saved.tensors.items():
        assert bits(found.tensors[name]) == bits(array)
        assert found.tensors[name].flags.c_contiguous
        assert found.tensors[name].dtype.isnative


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bytes_depend_on_the_contents_alone(tmp_path, suffix):
    """Neither the order of the tensors, nor that of the metadata, nor the memory layout, nor the time shows."""
    a, b = np.arange(12.0).reshape(3, 4), np.ones(3, dtype=np.float32)
    save(tmp_path / f"one{suffix}", Saved({"a": a, "b": b}, {"x": "1", "y": "2"}))
    save(tmp_path / f"two{suffix}", Saved({"b": b, "a": np.asfortranarray(a)}, {"y": "2", "x": "1"}))
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_safetensors_library_reads_what_is_written(tmp_path):
    """The safetensors library finds the same tensors and metadata, Fortran order included."""
    from safetensors import safe_open

    array = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    save(tmp_path / "s.safetensors", Saved({"W": array, "k": np.arange(3, dtype=np.int8)}, {"a": "b"}))
    with safe_open(tmp_path / "s.safetensors", framework="np") as opened:
        assert opened.metadata() == {"a": "b"}
        assert np.array_equal(opened.get_tensor("W"), array)
        assert np.array_equal(opened.get_tensor("k"), np.arange(3, dtype=np.int8))


def test_safetensors_library_files_are_read(tmp_path):
    """A file of the safetensors library loads."""
    from safetensors.numpy import save_file

    array = np.arange(12.0, dtype=np.float16).reshape(3, 4)
    save_file({"W": array}, tmp_path / "s.safetensors", metadata={"rho": "1"})
    found = load(tmp_path / "s.safetensors")
    assert bits(found.tensors["W"]) == bits(array)
    assert found.metadata == {"rho": "1"}


def test_numpy_reads_what_is_written(tmp_path):
    """numpy.load finds the same tensors without unpickling, zero axes included."""
    save(tmp_path / "s.npz", small())
    with np.load(tmp_path / "s.npz", allow_pickle=False) as archive:
        for name, array in small().tensors.items():
            assert bits(archive[name]) == bits(array)


@pytest.mark.parametrize("writer", [np.savez, np.savez_compressed])
def test_numpy_files_are_read(tmp_path, writer):
    """Files of numpy.savez load: Fortran order, big-endian, zero axes, bool, empty."""
    arrays = {
        "F": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "big": np.arange(4, dtype=">f4"),
        "alpha": np.float64(2.5),
        "M": np.eye(3, dtype=bool),
        "none": np.empty((0, 3)),
    }
    writer(tmp_path / "s.npz", **arrays)
    found = load(tmp_path / "s.npz")
    assert set(found.tensors) == set(arrays)
    for name, array in arrays.items():
        assert bits(found.tensors[name]) == bits(np.asarray(array))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_truncation_is_refused(tmp_path, suffix):
    """A file cut anywhere is refused with a sentence, never read in part and never another exception."""
    save(tmp_path / f"s{suffix}", small())
    data = (tmp_path / f"s{suffix}").read_bytes()
    for end in range(len(data)):
        with pytest.raises(InputRejected, match=r"'s\."):
            load_stream(io.BytesIO(data[:end]), f"s{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_refused_or_harmless(tmp_path, suffix, data):
    """Overwriting or inserting bytes anywhere gives a loaded file or InputRejected, no other exception."""
    path = tmp_path / f"s{suffix}"
    if not path.exists():
        save(path, small())
    contents = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(contents)))
    length = data.draw(st.integers(0, 4))
    contents[start : start + length] = data.draw(st.binary(max_size=6))
    try:
        found = load_stream(io.BytesIO(bytes(contents)), f"s{suffix}")
    except InputRejected:
        return
    assert all(np.isfinite(array).all() for array in found.tensors.values())


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY\x01\x00", b"\x80\x04", b"\x10" + b"\0" * 7 + b"{"]),
    st.binary(max_size=60),
    st.sampled_from(["x.safetensors", "x.npz", "x"]),
)
def test_noise_is_refused(head, tail, name):
    """Arbitrary bytes behind any magic number are refused with a sentence that names the file."""
    with pytest.raises(InputRejected, match="'x"):
        load_stream(io.BytesIO(head + tail), name)


class Trap:
    """An object whose unpickling would be noticed."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was opened",))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", ["s.npz", "s.safetensors", "s.bin"])
def test_pickles_are_recognised_by_content(protocol, name):
    """A pickle under any name is refused as one, unopened, with the way to convert it."""
    with pytest.raises(InputRejected, match=r"pickle.*safetensors\.numpy\.save_file"):
        load_stream(io.BytesIO(pickle.dumps(Trap(), protocol)), name)


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".pt", ".pth", ".joblib", ".PT"])
def test_pickles_are_recognised_by_suffix(suffix):
    """The usual suffixes of pickles are refused whatever the contents."""
    with pytest.raises(InputRejected, match="pickle"):
        load_stream(io.BytesIO(b"(dp0\n."), f"s{suffix}")


@pytest.mark.parametrize("first", [True, False])
def test_torch_archives_are_recognised(first):
    """A zip archive with the member data.pkl is a pickle, under the name .npz too, wherever the member stands."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        if not first:
            archive.writestr("archive/version", b"3")
        archive.writestr("archive/data.pkl", pickle.dumps(Trap()))
    with pytest.raises(InputRejected, match="pickle"):
        load_stream(io.BytesIO(buffer.getvalue()), "s.npz")


def test_safetensors_header_that_starts_like_a_pickle(tmp_path):
    """A header of 640 bytes starts with the bytes of a pickle of protocol 2 and still loads."""
    saved = Saved({"W": np.ones(2)}, {"pad": ""})
    save(tmp_path / "s.safetensors", saved)
    length = int.from_bytes((tmp_path / "s.safetensors").read_bytes()[:8], "little")
    # The header is padded to a multiple of 8, so this pads it to 640 = 0x0280 exactly.
    saved = Saved({"W": np.ones(2)}, {"pad": "x" * (640 - length)})
    save(tmp_path / "s.safetensors", saved)
    assert (tmp_path / "s.safetensors").read_bytes()[:2] == b"\x80\x02"
    assert load(tmp_path / "s.safetensors").metadata == saved.metadata


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_contents_decide_the_format(tmp_path, suffix):
    """A file without a suffix loads."""
    save(tmp_path / f"s{suffix}", small())
    (tmp_path / f"s{suffix}").rename(tmp_path / "state")
    assert set(load(tmp_path / "state").tensors) == {"W", "alpha"}


@pytest.mark.parametrize("object_array", [True, False])
def test_single_arrays_are_refused(object_array):
    """A .npy file is refused: for its objects, or because its array has no name."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([None]) if object_array else np.ones(2))
    with pytest.raises(InputRejected, match="Python objects" if object_array else "has no name"):
        load_stream(buffer, "s.npy")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"hello, world"), "neither"),
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: (path.write_bytes(b"x"), path.chmod(0)), "cannot read|neither"),  # root may read anything
        (lambda path: path.symlink_to(path), "cannot read"),
    ],
)
def test_files_that_are_no_files(tmp_path, monkeypatch, make, problem):
    """What cannot be opened is refused in one sentence with the name as it was given."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "s.dat")
    with pytest.raises(InputRejected, match=problem) as caught:
        load("s.dat")
    assert "'s.dat'" in caught.value.problem
    assert str(tmp_path) not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_impossible_paths_are_refused():
    """A null character or an overlong component is a refusal, not another exception."""
    for name in ("a\0b", "x" * 300, "x/" * 3000):
        with pytest.raises(InputRejected):
            load(name)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_non_finite_entries_are_refused(tmp_path, suffix, bad, dtype):
    """The message names the file, the tensor and the index, when loading and when saving."""
    from safetensors.numpy import save_file

    array = np.zeros((3, 4), dtype=dtype)
    array[1, 2] = bad
    path = tmp_path / f"s{suffix}"
    if suffix == ".npz":
        np.savez(path, fine=np.ones(2), W=array)
    else:
        save_file({"fine": np.ones(2), "W": array}, path)
    with pytest.raises(InputRejected, match=r"tensor 'W' holds -?(nan|inf) at index \(1, 2\)"):
        load(path)
    before = path.read_bytes()
    with pytest.raises(InputRejected, match="'W'"):
        save(path, Saved({"W": array}))
    assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "saved",
    [
        Saved({}),
        Saved({"": np.ones(1)}),
        Saved({"__metadata__": np.ones(1)}),
        Saved({"a\0b": np.ones(1)}),
        Saved({"a\\b": np.ones(1)}),
        Saved({"\ud800": np.ones(1)}),
        Saved({"W": np.array([None])}),
        Saved({"W": np.ones(2, dtype=complex)}),
        Saved({"W": np.array(["text"])}),
        Saved({"W": np.ones(2, dtype=[("a", "f8")])}),
        Saved({"W": np.array(["2020-01-01"], dtype="M8[D]")}),
        Saved({"W": np.ones(1)}, {"a": 1}),
        Saved({"W": np.ones(1)}, {"a": "\ud800"}),
    ],
)
def test_what_cannot_be_saved_is_refused(tmp_path, suffix, saved):
    """Names, types and metadata that would not survive are refused, and nothing is left behind."""
    with pytest.raises(InputRejected):
        save(tmp_path / f"s{suffix}", saved)
    assert list(tmp_path.iterdir()) == []


def test_unknown_suffix_is_refused_on_saving(tmp_path):
    """The name must say the format."""
    with pytest.raises(InputRejected, match=r"\.safetensors or \.npz"):
        save(tmp_path / "s.dat", small())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_faulty_writer_is_caught(tmp_path, monkeypatch, suffix):
    """If the bytes written do not read back the same, the old file stays and the fault is reported as a bug."""
    import certify.states.files as files

    path = tmp_path / f"s{suffix}"
    save(path, small())
    before = path.read_bytes()
    name = "encode_npz" if suffix == ".npz" else "encode_safetensors"
    honest = getattr(files, name)
    # The fault of safetensors 0.8.0: the transposed bytes of the right shape.
    monkeypatch.setattr(files, name, lambda t, m: honest({k: a.T.copy().reshape(a.shape) for k, a in t.items()}, m))
    with pytest.raises(CertifyError, match="'W' read back differently") as caught:
        save(path, small())
    assert not isinstance(caught.value, InputRejected)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_ml_dtypes_are_refused_on_saving(tmp_path):
    """bfloat16 arrays have no portable NumPy type: the message asks for a conversion."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(InputRejected, match=r"bfloat16.*float32"):
        save(tmp_path / "s.npz", Saved({"W": np.ones(2, dtype=ml_dtypes.bfloat16)}))
