"""What a saved tensor may be: the element types, the size limits, and the checks both file formats share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from certify.errors import InputRejected
from certify.states.quoting import quoted

#: Bytes of tensor data in one file, packed or unpacked. A state of p = 4096 takes 0.5 GiB.
MAX_BYTES = 1 << 31
#: NumPy 1.26 allows 32 axes.
MAX_AXES = 32
_CHUNK = 1 << 20
_KEEP_NUMBERS = "store it as float16, float32, float64, an integer type or bool"


def where(name: str, tensor: str) -> str:
    """Return the start of a sentence about one tensor of one file."""
    return f"{quoted(name)}: tensor {quoted(tensor)}"


def require_name(name: str, tensor: str) -> None:
    """Refuse a tensor name that the two formats would not both keep as it is."""
    if not tensor.isprintable() or tensor in ("", "__metadata__") or "\\" in tensor:
        raise InputRejected(
            f"{quoted(name)}: {quoted(tensor)} cannot name a tensor",
            "use printable characters, no backslash, and not '__metadata__'",
        )


def require_supported(name: str, tensor: str, dtype: np.dtype[Any]) -> None:
    """Refuse element types other than binary16/32/64, integers of up to 64 bits and bool."""
    if dtype.hasobject:
        raise InputRejected(
            f"{where(name, tensor)} holds Python objects, which only unpickling could read", _KEEP_NUMBERS
        )
    if not (dtype.kind in "iub" or (dtype.kind == "f" and dtype.itemsize in (2, 4, 8))):
        raise InputRejected(f"{where(name, tensor)} has the unsupported type {dtype.name}", _KEEP_NUMBERS)


def byte_count(name: str, tensor: str, shape: tuple[int, ...], itemsize: int) -> int:
    """Return the bytes of a tensor, refusing shapes that NumPy or the size limit cannot hold.

    An axis of length zero does not excuse the others: NumPy refuses (0, 2**62, 2**62) as too large.
    """
    extent = itemsize
    for length in shape:
        extent *= max(length, 1)
    if len(shape) > MAX_AXES or extent > MAX_BYTES:
        raise InputRejected(
            f"{where(name, tensor)} declares {len(shape)} axes of {extent} bytes in all",
            f"keep within {MAX_AXES} axes and {MAX_BYTES} bytes",
        )
    return 0 if 0 in shape else extent


def read_bytes(stream: BinaryIO, count: int) -> NDArray[np.uint8]:
    """Return the next bytes of a stream, at most `count`: fewer if it ends, and then the caller refuses.

    Memory is committed as data arrives, never for what a header merely promises.
    """
    buffer = np.empty(count, dtype=np.uint8)
    filled = 0
    while filled < count:
        chunk = stream.read(min(_CHUNK, count - filled))
        if not chunk:
            break
        buffer[filled : filled + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        filled += len(chunk)
    return buffer[:filled]


def from_bytes(
    name: str,
    tensor: str,
    raw: NDArray[np.uint8],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    *,
    fortran: bool = False,
) -> NDArray[Any]:
    """Return the tensor stored in `raw`, in C order and native byte order; bool bytes must be 0 or 1."""
    if dtype.kind == "b" and raw.size and int(raw.max()) > 1:
        raise InputRejected(f"{where(name, tensor)} has bool entries other than 0 and 1", "save the file again")
    flat = raw.view(dtype)
    array = flat.reshape(shape, order="F" if fortran else "C")
    return np.asarray(array, dtype=dtype.newbyteorder("="), order="C")


def require_finite(name: str, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Refuse NaN and infinities, naming the first entry that holds one."""
    for tensor, array in tensors.items():
        if array.dtype.kind != "f":
            continue
        finite = np.isfinite(array)
        if finite.all():
            continue
        index = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape))
        place = f" at index {index}" if index else ""
        raise InputRejected(
            f"{where(name, tensor)} holds {float(array[index])}{place}",
            "save finite values only",
        )
