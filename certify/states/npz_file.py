"""The npz format: a zip archive of .npy files, read without trusting the archive's own account of its sizes.

`numpy.load` would allocate whatever a member's header promises and evaluate that header as a Python literal. Here
the header must match a fixed grammar, sizes are bounded before anything is allocated, and nothing is unpickled.
Format of the members: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from certify.errors import InputRejected
from certify.states.quoting import quoted
from certify.states.strict_json import parse_json
from certify.states.tensors import (
    MAX_BYTES,
    byte_count,
    from_bytes,
    read_bytes,
    require_name,
    require_supported,
    where,
)

ZIP_MAGIC = b"PK\x03\x04"
NPY_MAGIC = b"\x93NUMPY"
#: Name of the member that carries metadata: UTF-8 JSON as an array of bytes, so that numpy.load reads it too.
METADATA = "__metadata__"
# Above this size a file must not shrink by more than MAX_RATIO; DEFLATE reaches 1032, data that is worth
# certifying does not. A smaller one, a mask of zeros say, may shrink as much as it likes.
FREE_BYTES = 64 << 20
MAX_RATIO = 250
MAX_DIRECTORY = 1 << 20
MAX_NPY_HEADER = 10_000
_REMEDY = "save the file again with numpy.savez"
_END_RECORD = 22
_FIELD = (
    r"'(?P<{0}>descr|fortran_order|shape)'\s*:\s*"
    r"(?P<{0}v>'[^'\\]*'|True|False|\(\s*(?:[0-9]{{1,19}}\s*,\s*)*(?:[0-9]{{1,19}}\s*)?\))"
)
_HEADER = re.compile(r"\{\s*" + r"\s*,\s*".join(_FIELD.format(letter) for letter in "abc") + r"\s*,?\s*\}\s*", re.ASCII)
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    OverflowError,
)


def read_npz(stream: BinaryIO, size: int, name: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read tensors and metadata from a stream of `size` bytes.

    Raises
    ------
    InputRejected : the archive is damaged, repeats a name, holds anything but plain .npy files, or unpacks to more
        than the limits allow.
    """
    try:
        _require_plain_ending(stream, size, name)
        with zipfile.ZipFile(stream) as archive:
            return _read_archive(archive, size, name)
    except _DAMAGE as error:
        reason = quoted(str(error) or type(error).__name__)
        raise InputRejected(f"the zip archive {quoted(name)} is damaged: {reason}", _REMEDY) from error


def is_torch_archive(head: bytes) -> bool:
    """Tell whether the first member of a zip archive is the pickle that torch.save writes first."""
    length = int.from_bytes(head[26:28], "little")
    return head.startswith(ZIP_MAGIC) and head[30 : 30 + length].endswith(b"data.pkl")


def refused_pickle(name: str) -> InputRejected:
    """Return the refusal of a pickle, whatever gave it away."""
    return InputRejected(
        f"{quoted(name)} is a pickle, which could run code when opened",
        "load it where you trust it and save its arrays with safetensors.numpy.save_file or numpy.savez",
    )


def encode_npz(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of an archive that `numpy.load` reads: the same for the same contents, on every machine.

    Members are sorted, dated 1980-01-01 and stored uncompressed, because DEFLATE differs between zlib versions.
    """
    members = {tensor: np.asarray(array) for tensor, array in tensors.items()}
    if metadata:
        text = json.dumps(dict(sorted(metadata.items())), ensure_ascii=False).encode("utf-8")
        members[METADATA] = np.frombuffer(text, dtype=np.uint8)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for member in sorted(members):
            info = zipfile.ZipInfo(f"{member}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # Unix, whatever the machine: the field is part of the bytes
            info.external_attr = 0o644 << 16
            archive.writestr(info, _encode_npy(members[member]))
    return buffer.getvalue()


def npy_dtype(stream: BinaryIO, name: str, tensor: str) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """Read a .npy header: element type, Fortran order, shape, and the length of the header in bytes.

    Raises
    ------
    InputRejected : the header is damaged or the type is not a number (Python objects included).
    """
    prefix = stream.read(8)
    version = tuple(prefix[6:8])
    if not prefix.startswith(NPY_MAGIC) or version not in ((1, 0), (2, 0), (3, 0)):
        raise InputRejected(f"{where(name, tensor)} is not a .npy file of version 1 to 3", _REMEDY)
    length_bytes = stream.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(length_bytes, "little")
    text = stream.read(length) if length <= MAX_NPY_HEADER else b""
    if not text or len(text) != length:
        raise InputRejected(f"{where(name, tensor)} has a truncated or oversized header", _REMEDY)
    match = _HEADER.fullmatch(text.decode("latin-1"))
    fields = {match[key]: match[key + "v"] for key in "abc"} if match else {}
    descr, order, shape = (fields.get(key, "") for key in ("descr", "fortran_order", "shape"))
    if not descr.startswith("'") or order not in ("True", "False") or not shape.startswith("("):
        raise InputRejected(
            f"{where(name, tensor)} is a structured array or has a damaged header",
            "save each field as a tensor of its own",
        )
    dtype = _dtype(descr.strip("'"), name, tensor)
    lengths = tuple(int(n) for n in re.findall(r"[0-9]+", shape))
    return dtype, order == "True", lengths, 8 + len(length_bytes) + length


def _dtype(descr: str, name: str, tensor: str) -> np.dtype[Any]:
    if re.fullmatch(r"[<>|=]?(?:O[0-9]?|f[248]|[iu][1248]|b1)", descr) is None:
        raise InputRejected(
            f"{where(name, tensor)} has the unsupported type {quoted(descr)}",
            "store it as float16, float32, float64, an integer type or bool",
        )
    dtype = np.dtype(descr)
    require_supported(name, tensor, dtype)
    return dtype


def _require_plain_ending(stream: BinaryIO, size: int, name: str) -> None:
    """Bound the directory before zipfile loads it: an archive ends with its end record, nothing after it.

    A 64-bit record would override these counts, and no archive within the size limit needs one.
    """
    tail_length = min(size, _END_RECORD + 20)
    stream.seek(size - tail_length)
    tail = stream.read(tail_length)
    record = tail[-_END_RECORD:]
    if len(record) < _END_RECORD or not record.startswith(b"PK\x05\x06") or record[20:] != b"\0\0":
        raise InputRejected(f"{quoted(name)} is truncated, or has bytes after its zip directory", _REMEDY)
    directory = int.from_bytes(record[12:16], "little")
    if directory > MAX_DIRECTORY or tail[:-_END_RECORD].startswith(b"PK\x06\x07"):
        raise InputRejected(f"{quoted(name)} has an oversized zip directory", _REMEDY)
    stream.seek(0)


def _read_archive(archive: zipfile.ZipFile, size: int, name: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    members: dict[str, zipfile.ZipInfo] = {}
    if any(info.filename.endswith("data.pkl") for info in archive.infolist()):
        raise refused_pickle(name)
    for info in archive.infolist():
        tensor = info.filename.removesuffix(".npy")
        if tensor == info.filename:
            raise InputRejected(f"{quoted(name)} holds {quoted(info.filename)}, which is not a .npy file", _REMEDY)
        if tensor in members:
            raise InputRejected(f"{quoted(name)} holds two tensors named {quoted(tensor)}", _REMEDY)
        if tensor != METADATA:
            require_name(name, tensor)
        members[tensor] = info
    tensors: dict[str, NDArray[Any]] = {}
    total = 0
    for tensor in sorted(members):
        tensors[tensor] = _read_member(archive, members[tensor], total, size, name, tensor)
        total += tensors[tensor].nbytes
    return tensors, _metadata(tensors.pop(METADATA, None), name)


def _read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, before: int, size: int, name: str, tensor: str
) -> NDArray[Any]:
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputRejected(f"{where(name, tensor)} is encrypted or packed in an unusual way", _REMEDY)
    with archive.open(info) as member:
        stream: Any = member
        dtype, fortran, shape, header = npy_dtype(stream, name, tensor)
        count = byte_count(name, tensor, shape, dtype.itemsize)
        # Counted over all members and against the file itself: a directory may lie about packed sizes, and many
        # small bombs make a large one.
        total = before + count
        if total > MAX_BYTES or (total > FREE_BYTES and total > MAX_RATIO * size):
            raise InputRejected(
                f"{where(name, tensor)} would unpack {size} bytes to {total}, as a zip bomb does",
                f"save it uncompressed, and keep a file within {MAX_BYTES} bytes",
            )
        if info.file_size != header + count:
            raise InputRejected(
                f"{where(name, tensor)} has {info.file_size - header} bytes of data, its header says {count}",
                _REMEDY,
            )
        raw = read_bytes(stream, count)
        if raw.size != count:
            raise InputRejected(f"{where(name, tensor)} is truncated", _REMEDY)
    return from_bytes(name, tensor, raw, dtype, shape, fortran=fortran)


def _metadata(array: NDArray[Any] | None, name: str) -> dict[str, str]:
    if array is None:
        return {}
    if array.dtype != np.uint8 or array.ndim != 1 or array.size > MAX_DIRECTORY:
        raise InputRejected(f"the metadata of {quoted(name)} is no row of bytes", _REMEDY)
    value = parse_json(array.tobytes(), name, what="metadata", remedy=_REMEDY)
    if not isinstance(value, dict) or not all(isinstance(entry, str) for entry in value.values()):
        raise InputRejected(f"the metadata of {quoted(name)} does not map names to strings", _REMEDY)
    return {key: value[key] for key in sorted(value)}


def _encode_npy(array: NDArray[Any]) -> bytes:
    """Return a version 1.0 .npy file; written out here so that its padding is the same for every NumPy."""
    little = array.dtype.newbyteorder("<")
    shape = tuple(int(n) for n in array.shape)
    header = f"{{'descr': '{little.str}', 'fortran_order': False, 'shape': {shape!r}, }}".encode("ascii")
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    contents = np.asarray(array, dtype=little, order="C").tobytes()
    return NPY_MAGIC + b"\x01\x00" + len(header).to_bytes(2, "little") + header + contents
