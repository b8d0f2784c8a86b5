"""Hostile and damaged npz archives."""

import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from certify.errors import InputRejected
from certify.states import load_stream


def npy(descr="'<f8'", shape="(2,)", data=None, *, order="False", version=b"\x01\x00", header=None):
    """A .npy file with these header fields, as text."""
    text = header or f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + size + text + (np.arange(2.0).tobytes() if data is None else data)


def archive(*members, compression=zipfile.ZIP_STORED):
    """A zip archive of (name, contents) pairs, repeated names allowed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as opened:
        for i, (name, contents) in enumerate(members):
            # zipfile warns of a repeated name, so give each a name of its own and rename it below.
            opened.writestr(f"{i:04d}{name}", contents)
    data = buffer.getvalue()
    for i, (name, _) in enumerate(members):
        assert data.count(f"{i:04d}{name}".encode()) == 2
        data = data.replace(f"{i:04d}{name}".encode(), f"0000{name}".encode())
    return data


def refuse(contents, match):
    """Assert that an archive is refused with this reason and its name, within 80 MiB of memory."""
    tracemalloc.start()
    try:
        with pytest.raises(InputRejected, match=match) as caught:
            load_stream(io.BytesIO(contents), "s.npz")
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()
    assert "'s.npz'" in caught.value.problem


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_the_plain_archive_loads(version):
    """The archive that the others damage is a good one, in each version of the format."""
    found = load_stream(io.BytesIO(archive(("W.npy", npy(version=version)))), "s.npz")
    assert found.tensors["0000W"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "header",
    [
        b"{'shape':(2,),'fortran_order':False,'descr':'<f8'}",
        b"{ 'descr' : '<f8' , 'shape' : ( 2 ) , 'fortran_order' : False } \n",
    ],
)
def test_headers_of_other_writers_load(header):
    """Order and spacing of the header are free."""
    found = load_stream(io.BytesIO(archive(("W.npy", npy(header=header)))), "s.npz")
    assert found.tensors["0000W"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("contents", "match"),
    [
        (npy("'|O'"), "'0000W' holds Python objects"),
        (npy("'O'"), "Python objects"),
        (npy("[('a', '<f8')]"), "structured"),
        (npy("'<c16'"), "unsupported type '<c16'"),
        (npy("'<U4'"), "unsupported type"),
        (npy("'<f16'"), "unsupported type"),
        (npy("'<M8[D]'"), "unsupported type"),
        (npy("'|V8'"), "unsupported type"),
        (npy(shape="(3,)"), "16 bytes of data, its header says 24"),
        (npy(shape="(1,)"), "16 bytes of data, its header says 8"),
        (npy(shape="(-2,)"), "damaged header"),
        (npy(shape="(2.0,)"), "damaged header"),
        (npy(shape="(0, 9223372036854775807, 9223372036854775807)", data=b""), "axes of"),
        (npy(shape="(" + "1," * 33 + ")"), "33 axes"),
        (npy(shape="__import__('os').abort()"), "damaged header"),
        (npy(order="0"), "damaged header"),
        (npy(order="True, 'fortran_order': False"), "damaged header"),
        (npy(header=b"{'descr': '<f8', 'shape': (2,)}"), "damaged header"),
        (npy(header=b"{'descr': '<f8', 'descr': '<f8', 'shape': (2,)}"), "damaged header"),
        (npy(header=b"-" * 9_000 + b"1"), "damaged header"),
        (npy(header=b"(" * 9_000), "damaged header"),
        (npy(header=b" " * 20_000), "oversized header"),
        (npy()[:9], "oversized header"),
        (npy()[:20], "oversized header"),
        (npy(version=b"\x04\x00"), "version 1 to 3"),
        (b"", "version 1 to 3"),
        (b"\x80\x04N.", "version 1 to 3"),
        (npy("'|b1'", data=b"\x00\x02"), "bool entries"),
    ],
)
def test_bad_members_are_refused(contents, match):
    """Each fault of a member is named; no header is evaluated."""
    refuse(archive(("W.npy", contents)), match)


def test_repeated_names_are_refused():
    """Two members of one name would let two readers see two states."""
    refuse(archive(("W.npy", npy()), ("W.npy", npy())), "two tensors named '0000W'")


@pytest.mark.parametrize("name", ["README.txt", "W.NPY", "dir/", "W.npy\\W.npy"])
def test_other_members_are_refused(name):
    """Only .npy members, under names that both formats keep."""
    refuse(archive((name, npy())), "not a .npy file|cannot name a tensor")


def test_a_name_cut_by_a_null_character_is_refused():
    """zipfile would cut the name and so could meet a name it has already seen."""
    refuse(archive(("W.npy", npy())).replace(b"0000W.npy", b"00\0\0W.npy"), "not a .npy file")


def test_an_archive_of_nothing_is_refused():
    """An archive without members holds no state."""
    refuse(archive(), "no tensor")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression_is_refused(compression):
    """NumPy writes stored or deflated members; the others decompress without a bound on memory."""
    refuse(archive(("W.npy", npy()), compression=compression), "unusual way")


def test_encrypted_members_are_refused():
    """The flag alone suffices."""
    data = bytearray(archive(("W.npy", npy())))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    refuse(bytes(data), "encrypted")


def test_a_flipped_bit_of_data_is_refused():
    """The checksum of the archive is compared."""
    data = bytearray(archive(("W.npy", npy())))
    data[data.index(np.float64(1).tobytes())] ^= 1
    refuse(bytes(data), "damaged")


@pytest.mark.parametrize("after", [b"x", b"PK\x05\x06", b"\0" * 100])
def test_bytes_after_the_archive_are_refused(after):
    """An archive ends with its directory: another one behind it would be the one some readers use."""
    refuse(archive(("W.npy", npy())) + after, "truncated, or has bytes after")


def test_a_large_directory_is_refused_unread():
    """zipfile makes an object for each entry of the directory, so its size is bounded first."""
    data = bytearray(archive(("W.npy", npy())))
    data[-10:-6] = struct.pack("<I", 500 << 20)
    refuse(bytes(data), "oversized zip directory")


def test_a_64_bit_end_record_is_refused():
    """It would override the counts that were checked."""
    data = archive(("W.npy", npy()))
    refuse(data[:-22] + b"PK\x06\x07" + b"\0" * 16 + data[-22:], "oversized zip directory")


def zeros(count, names="W"):
    """A deflated archive of `count` zero bytes in each of some float64 tensors, made without holding them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name in names:
            with opened.open(f"{name}.npy", "w") as member:
                member.write(npy(shape=f"({count // 8},)", data=b""))
                for _ in range(count >> 20):
                    member.write(bytes(1 << 20))
    return buffer.getvalue()


def test_a_zip_bomb_is_refused_unopened():
    """128 MiB of zeros in 128 kB is no state, and costs no memory to refuse."""
    refuse(zeros(128 << 20), "zip bomb")


def test_many_small_bombs_are_one(monkeypatch):
    """Tensors that may each shrink freely must not do so together beyond the limit of one."""
    import certify.states.npz_file as npz_file

    monkeypatch.setattr(npz_file, "FREE_BYTES", 2 << 20)
    assert len(load_stream(io.BytesIO(zeros(1 << 20, "ab")), "s.npz").tensors) == 2
    refuse(zeros(1 << 20, "abc"), "'c' would unpack")


def test_small_sparse_tensors_may_shrink():
    """16 MiB of zeros are a plausible mask."""
    assert load_stream(io.BytesIO(zeros(16 << 20)), "s.npz").tensors["W"].nbytes == 16 << 20


def test_a_declared_size_beyond_the_limit_is_refused():
    """The header may promise anything: nothing is allocated for it."""
    refuse(archive(("W.npy", npy(shape="(1000000000000,)"))), "axes of")


def test_a_directory_that_understates_sizes_is_refused():
    """A bomb whose directory claims the small sizes of a small tensor: the claims are checked, not trusted."""
    body = npy(shape="(2,)", data=bytes(64 << 20))
    data = bytearray(archive(("W.npy", body), compression=zipfile.ZIP_DEFLATED))
    central = data.index(b"PK\x01\x02")
    honest = len(npy())
    data[central + 24 : central + 28] = struct.pack("<I", honest)
    data[central + 16 : central + 20] = struct.pack("<I", zlib.crc32(body[:honest]))
    # Exactly what was declared may be read, and no more of it.
    assert load_stream(io.BytesIO(bytes(data)), "s.npz").tensors["0000W"].tolist() == [0.0, 0.0]
    data[central + 24 : central + 28] = struct.pack("<I", honest + 8)
    data[central + 16 : central + 20] = struct.pack("<I", zlib.crc32(body[: honest + 8]))
    refuse(bytes(data), "24 bytes of data, its header says 16")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b'{"a": 1}', "names to strings"),
        (b"[]", "names to strings"),
        (b'{"a": "1", "a": "2"}', "occurs twice"),
        (b"\xff", "UTF-8"),
    ],
)
def test_bad_metadata_is_refused(data, match):
    """Metadata is strict JSON of strings."""
    buffer = io.BytesIO()
    np.savez(buffer, W=np.ones(1), __metadata__=np.frombuffer(data, dtype=np.uint8))
    refuse(buffer.getvalue(), match)


def test_metadata_of_another_type_is_refused():
    """Metadata is a row of bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, W=np.ones(1), __metadata__=np.ones(3))
    refuse(buffer.getvalue(), "row of bytes")
