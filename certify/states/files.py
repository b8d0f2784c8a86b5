"""Loading and saving the tensors of a state, from any file a user may point at."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from certify.errors import CertifyError, InputRejected
from certify.states.atomic import write_atomically
from certify.states.npz_file import (
    NPY_MAGIC,
    ZIP_MAGIC,
    encode_npz,
    is_torch_archive,
    npy_dtype,
    read_npz,
    refused_pickle,
)
from certify.states.quoting import quoted
from certify.states.safetensors_file import encode_safetensors, looks_like_safetensors, read_safetensors
from certify.states.tensors import MAX_BYTES, require_finite, require_name, require_supported, where

_PICKLE_SUFFIXES = (".pkl", ".pickle", ".pt", ".pth", ".joblib")
_EMPTY_ZIP = b"PK\x05\x06"
_FORMATS = "give a .safetensors or .npz file"


@dataclass(frozen=True)
class Saved:
    """The contents of a file: arrays by name and strings by name.

    After `load` every array is in C order and native byte order, of type float16/32/64, an integer type or bool,
    with finite entries; the case that uses them relies on that and checks the rest.
    """

    tensors: Mapping[str, NDArray[Any]]
    metadata: Mapping[str, str] = field(default_factory=dict)


def load(path: str | os.PathLike[str]) -> Saved:
    """Load a .safetensors or .npz file; the contents decide which, not the name.

    Raises
    ------
    InputRejected : the file is missing, unreadable, in another format (a pickle is never opened), damaged, larger
        than 2 GiB, or holds non-finite entries. The message names the file as given, and the tensor.
    """
    name = os.fspath(path)
    try:
        _require_regular(name)
        with open(path, "rb") as stream:
            return load_stream(stream, name)
    except FileNotFoundError as error:
        raise InputRejected(f"there is no file {quoted(name)}", "check the path") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputRejected(f"cannot read {quoted(name)}: {reason}", "check the path and its permissions") from error


def load_stream(stream: BinaryIO, name: str) -> Saved:
    """Load from a seekable binary stream, as `load` does; `name` is what messages call it.

    Raises
    ------
    InputRejected : as for `load`.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    head = stream.read(512)
    stream.seek(0)
    reader = _reader(head, size, name)
    if size > MAX_BYTES:
        raise InputRejected(f"{quoted(name)} has {size} bytes", f"keep a file within {MAX_BYTES} bytes")
    try:
        tensors, metadata = reader(stream, size, name)
        require_finite(name, tensors)
    except MemoryError as error:
        raise InputRejected(f"{quoted(name)} does not fit into memory", "use a smaller state") from error
    if not tensors:
        raise InputRejected(f"{quoted(name)} holds no tensor", "save a state into it")
    return Saved(tensors, metadata)


def save(path: str | os.PathLike[str], saved: Saved) -> None:
    """Save to a .safetensors or .npz file, as the name says, in one step and with bytes that only the contents fix.

    Arrays are stored in C order whatever their layout. The file is read back and compared bit for bit before it
    takes its place, so that a fault of the writer cannot go unnoticed.

    Raises
    ------
    InputRejected : another suffix, a tensor that `load` would refuse, or a place that cannot be written.
    """
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in (".safetensors", ".npz"):
        raise InputRejected(f"{quoted(name)} does not say its format", "end it in .safetensors or .npz")
    tensors = {tensor: np.asarray(array) for tensor, array in saved.tensors.items()}
    _require_savable(name, tensors, saved.metadata)
    encode = encode_npz if suffix == ".npz" else encode_safetensors
    data = encode(tensors, saved.metadata)

    def read_back(temporary: str) -> None:
        with open(temporary, "rb") as stream:
            _require_same(name, load_stream(stream, name), Saved(tensors, saved.metadata))

    write_atomically(path, data, check=read_back)


def _require_regular(name: str) -> None:
    try:
        mode = os.stat(name).st_mode
    except ValueError as error:  # a null character
        raise InputRejected(f"{quoted(name)} is not a possible file name", "check the path") from error
    if stat.S_ISDIR(mode):
        raise InputRejected(f"{quoted(name)} is a directory", _FORMATS)
    if not stat.S_ISREG(mode):
        raise InputRejected(f"{quoted(name)} is not a regular file", "copy it to a file first")


_Reader = Callable[[BinaryIO, int, str], tuple[dict[str, NDArray[Any]], dict[str, str]]]


def _reader(head: bytes, size: int, name: str) -> _Reader:
    """Choose the reader by the first bytes, or say what the file is instead."""
    suffix = os.path.splitext(name)[1].lower()
    if size == 0:
        raise InputRejected(f"{quoted(name)} is empty", _FORMATS)
    if suffix in _PICKLE_SUFFIXES or is_torch_archive(head):
        raise refused_pickle(name)
    if head.startswith((ZIP_MAGIC, _EMPTY_ZIP)):
        return read_npz
    # Before the test for pickles: a header of 640 bytes starts like one.
    if looks_like_safetensors(head, size):
        return read_safetensors
    if head[0] == 0x80 and len(head) > 1 and head[1] <= 5:
        raise refused_pickle(name)
    if head.startswith(NPY_MAGIC):
        npy_dtype(io.BytesIO(head), name, "(the only array)")
        raise InputRejected(
            f"{quoted(name)} is a .npy file, whose array has no name", "save it with numpy.savez(path, NAME=array)"
        )
    if suffix == ".safetensors":
        # Damaged: its own reader says how.
        return read_safetensors
    if suffix == ".npz":
        raise InputRejected(f"{quoted(name)} is not a zip archive, or is truncated", "save the file again")
    raise InputRejected(f"{quoted(name)} is neither a safetensors file nor an npz archive", _FORMATS)


def _require_savable(name: str, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    if not tensors:
        raise InputRejected(f"there is no tensor to save to {quoted(name)}", "save at least one")
    for tensor, array in tensors.items():
        require_name(name, tensor)
        require_supported(name, tensor, array.dtype)
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InputRejected(f"{quoted(name)}: metadata {quoted(str(key))} is no string", "convert it first")
        if not _encodable(key + value):
            raise InputRejected(f"{quoted(name)}: metadata {quoted(key)} is not valid text", "remove it")
    total = sum(array.nbytes for array in tensors.values())
    if total > MAX_BYTES - (64 << 20):  # room for the headers
        raise InputRejected(f"the tensors for {quoted(name)} take {total} bytes", "save them in several files")
    require_finite(name, tensors)


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _require_same(name: str, found: Saved, wanted: Saved) -> None:
    if dict(found.metadata) != dict(wanted.metadata) or set(found.tensors) != set(wanted.tensors):
        raise CertifyError(f"{quoted(name)} read back other names or metadata", "report this as a bug")
    for tensor, array in wanted.tensors.items():
        back = found.tensors[tensor]
        native = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        if (back.dtype, back.shape) != (native.dtype, native.shape) or back.tobytes() != native.tobytes():
            raise CertifyError(f"{where(name, tensor)} read back differently", "report this as a bug")
