"""Digests: the name of a tensor's contents in a report."""

from __future__ import annotations

import hashlib
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from certify.errors import InputRejected


class Digest(TypedDict):
    """SHA-256 of the little-endian bytes in C order, as 64 hex digits, with the dtype's name and the shape."""

    sha256: str
    dtype: str
    shape: list[int]


def digest(array: NDArray[Any]) -> Digest:
    """Return the digest of `array`, any shape; equal for equal bits whatever the memory layout or byte order.

    Raises
    ------
    InputRejected : the array holds Python objects, whose bytes are addresses and not contents.
    """
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise InputRejected("an array of Python objects has no digest", "convert it to numbers first")
    plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    contents = plain.reshape(-1).view(np.uint8)
    return {
        "sha256": hashlib.sha256(contents.data).hexdigest(),
        "dtype": array.dtype.name,
        "shape": [int(n) for n in array.shape],
    }
