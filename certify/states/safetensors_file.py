"""The safetensors format: eight bytes of header length, a JSON header, the data.

Read and written here rather than by the safetensors library, because version 0.8.0 accepts duplicate header keys,
scrambles arrays that are not in C order, and orders metadata differently from run to run. Format:
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from certify.errors import InputRejected
from certify.states.quoting import quoted
from certify.states.strict_json import parse_json
from certify.states.tensors import byte_count, from_bytes, read_bytes, require_name, where

# A thousand tensors take about 0.1 MiB of header; the library's own limit of 100 MB only helps an attacker.
MAX_HEADER = 4 << 20
_REMEDY = "save the file again"
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_CODES = {np.dtype(text): code for code, text in _DTYPES.items() if code != "BF16"}


def looks_like_safetensors(head: bytes, size: int) -> bool:
    """Tell whether the first bytes of a file of `size` bytes are a header length and the start of an object."""
    return len(head) >= 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= max(size, MAX_HEADER)


def read_safetensors(stream: BinaryIO, size: int, name: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read tensors and metadata from a stream of `size` bytes; bfloat16 is widened, exactly, to float32.

    Raises
    ------
    InputRejected : the header is damaged, repeats a key or does not describe every byte of the file once.
    """
    entries, metadata, start = _read_header(stream, size, name)
    tensors: dict[str, NDArray[Any]] = {}
    for tensor, code, shape, begin, end in entries:
        stream.seek(start + begin)
        raw = read_bytes(stream, end - begin)
        if raw.size != end - begin:
            raise InputRejected(f"{where(name, tensor)} is truncated", _REMEDY)
        array = from_bytes(name, tensor, raw, np.dtype(_DTYPES[code]), shape)
        if code == "BF16":
            # bfloat16 is the upper half of binary32, so the widening loses nothing.
            array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        tensors[tensor] = array
    return {tensor: tensors[tensor] for tensor in sorted(tensors)}, metadata


def encode_safetensors(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of a file: the same for the same contents, on every machine.

    Tensors are laid out by decreasing element size and then by name, as the library does, which keeps each
    aligned to its own elements.
    """
    header: dict[str, object] = {}
    if metadata:
        header["__metadata__"] = {key: metadata[key] for key in sorted(metadata)}
    parts: list[bytes] = []
    offset = 0
    for tensor in sorted(tensors, key=lambda key: (-tensors[key].dtype.itemsize, key)):
        little = tensors[tensor].dtype.newbyteorder("<")
        contents = np.asarray(tensors[tensor], dtype=little, order="C").tobytes()
        header[tensor] = {
            "dtype": _CODES[little],
            "shape": list(tensors[tensor].shape),
            "data_offsets": [offset, offset + len(contents)],
        }
        parts.append(contents)
        offset += len(contents)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


_Entry = tuple[str, str, tuple[int, ...], int, int]


def _read_header(stream: BinaryIO, size: int, name: str) -> tuple[list[_Entry], dict[str, str], int]:
    length_bytes = stream.read(8)
    length = int.from_bytes(length_bytes, "little")
    if len(length_bytes) < 8 or length > size - 8:
        raise InputRejected(f"{quoted(name)} is truncated: it ends inside its header", _REMEDY)
    if length > MAX_HEADER:
        raise InputRejected(f"{quoted(name)} has a header of {length} bytes", f"keep headers within {MAX_HEADER} bytes")
    text = stream.read(length)
    if not text.startswith(b"{"):
        raise InputRejected(f"{quoted(name)} is not a safetensors file: its header is no object", _REMEDY)
    header = parse_json(text, name, what="safetensors header", remedy=_REMEDY)
    metadata = _metadata(header.pop("__metadata__", {}), name)
    entries = sorted((_entry(t, d, name) for t, d in header.items()), key=lambda entry: entry[3:])
    covered = 0
    for tensor, _, _, begin, end in entries:
        if begin != covered:
            raise InputRejected(f"{where(name, tensor)} starts at byte {begin} of the data, not at {covered}", _REMEDY)
        covered = end
    if 8 + length + covered > size:
        raise InputRejected(f"{quoted(name)} is truncated: it has {size} bytes of {8 + length + covered}", _REMEDY)
    if 8 + length + covered < size:
        extra = size - 8 - length - covered
        raise InputRejected(f"{quoted(name)} has {extra} bytes that no tensor describes", _REMEDY)
    return entries, metadata, 8 + length


def _metadata(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InputRejected(f"the metadata of {quoted(name)} is no object", _REMEDY)
    for key, entry in value.items():
        if not isinstance(entry, str):
            raise InputRejected(f"{quoted(name)}: metadata {quoted(key)} is not a string", _REMEDY)
    return {key: value[key] for key in sorted(value)}


def _entry(tensor: str, description: object, name: str) -> _Entry:
    require_name(name, tensor)
    if not isinstance(description, dict) or set(description) != {"dtype", "shape", "data_offsets"}:
        raise InputRejected(f"{where(name, tensor)} is not described by dtype, shape and data_offsets alone", _REMEDY)
    code = description["dtype"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise InputRejected(
            f"{where(name, tensor)} has the unsupported type {quoted(str(code))}",
            f"store it as one of {', '.join(_DTYPES)}",
        )
    shape = _lengths(description["shape"])
    offsets = _lengths(description["data_offsets"])
    if shape is None or offsets is None or len(offsets) != 2:
        raise InputRejected(f"{where(name, tensor)} has a shape or offsets that are no lists of counts", _REMEDY)
    begin, end = offsets
    expected = byte_count(name, tensor, shape, np.dtype(_DTYPES[code]).itemsize)
    if end - begin != expected:
        raise InputRejected(
            f"{where(name, tensor)} of {code} and shape {shape} needs {expected} bytes, its offsets give {end - begin}",
            _REMEDY,
        )
    return tensor, code, shape, begin, end


def _lengths(value: object) -> tuple[int, ...] | None:
    """Return a JSON list of nonnegative integers as a tuple, or None; `true` is no integer here."""
    if not isinstance(value, list) or len(value) > 1000:
        return None
    if any(type(item) is not int or item < 0 for item in value):
        return None
    return tuple(value)
