"""Reads .safetensors and .npz files and makes states of them; nothing is unpickled, no size is believed."""

from __future__ import annotations

import ast
import hashlib
import io
import math
import re
import struct
import zipfile
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from certify.checker.document import MAX_BYTES, Beyond, Rejected, binary64, integer, parse_json, shown

_CODES = {
    "float64": "d",
    "float32": "f",
    "float16": "e",
    "bfloat16": "H",
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
}
_CODES |= {"int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"}  # of struct, by NumPy's names
_SHORT = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint", "f": "float", "i": "int", "u": "uint"}
_CHUNK = 1 << 18
_FINITE_HALVES = bytes(x for x in range(256) if x & 0x7C != 0x7C)  # the upper bytes of finite float16 numbers


@dataclass(frozen=True)
class Tensor:
    """A tensor's contents: little-endian bytes in C order; the element type as NumPy names it."""

    dtype: str
    shape: tuple[int, ...]
    raw: bytes

    def values(self, start: int = 0, count: int | None = None) -> list[Any]:
        """Elements in C order, as Python numbers."""
        code = _CODES[self.dtype]
        count = math.prod(self.shape) if count is None else count
        return list(struct.unpack_from(f"<{count}{code}", self.raw, start * struct.calcsize(code)))

    def digest(self) -> dict[str, Any]:
        """How a report names these contents."""
        return {"sha256": hashlib.sha256(self.raw).hexdigest(), "dtype": self.dtype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Saved:
    """Tensors and strings by name."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


def read(data: bytes, what: str) -> Saved:
    """The contents of a file; every number in it is finite."""
    if len(data) > MAX_BYTES:
        raise Beyond(f"{what} has more than {MAX_BYTES} bytes")
    saved = _read_npz(data, what) if data[:4] == b"PK\3\4" else _read_safetensors(data, what)
    for name, tensor in saved.tensors.items():
        size = math.prod(tensor.shape)
        chunks = range(0, size, _CHUNK) if tensor.dtype in ("float32", "float64") else ()
        finite = all(all(map(math.isfinite, tensor.values(start, min(_CHUNK, size - start)))) for start in chunks)
        if not finite or (tensor.dtype == "float16" and tensor.raw[1::2].translate(None, _FINITE_HALVES)):
            raise Rejected(f"{what}: the tensor {shown(name)} holds a number that is not finite")
        if tensor.dtype == "bool" and tensor.raw.strip(b"\0\1"):
            raise Rejected(f"{what}: the tensor {shown(name)} holds a bool that is neither 0 nor 1")
    return saved


def _tensor(dtype: str, shape: Any, raw: bytes, what: str) -> Tensor:
    """A tensor whose shape and bytes fit; bfloat16, the upper half of a binary32, is widened to that."""
    if dtype not in _CODES or not isinstance(shape, list | tuple) or len(shape) > 32:
        raise Rejected(f"{what} has a type or shape that no tensor of numbers has")
    sizes = tuple(integer(n, 0, 1 << 40, f"a length in {what}") for n in shape)
    if math.prod(sizes) * struct.calcsize(_CODES[dtype]) != len(raw):
        raise Rejected(f"{what} has {len(raw)} bytes, which do not fit its type and shape")
    if dtype == "bfloat16":
        wide = bytearray(2 * len(raw))
        wide[2::4], wide[3::4] = raw[0::2], raw[1::2]
        return Tensor("float32", sizes, bytes(wide))
    return Tensor(dtype, sizes, raw)


def _read_safetensors(data: bytes, what: str) -> Saved:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise Rejected(f"{what} is neither a safetensors file nor an npz archive, or is truncated")
    header = parse_json(data[8 : 8 + length], f"the header of {what}")
    metadata = header.pop("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(x, str) for x in metadata.values()):
        raise Rejected(f"{what} has a header that is no object with a metadata of strings")
    body, tensors, spans = memoryview(data)[8 + length :], {}, []
    for name, entry in header.items():
        here = f"the tensor {shown(name)} of {what}"
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise Rejected(f"{here} is not described by dtype, shape and data_offsets")
        code, span = entry["dtype"], entry["data_offsets"]
        if not isinstance(span, list) or len(span) != 2 or not isinstance(code, str):
            raise Rejected(f"{here} has no type or no two offsets")
        begin, end = (integer(x, 0, len(body), f"an offset of {here}") for x in span)
        letters = code.rstrip("0123456789")
        dtype = (
            "bool" if code == "BOOL" else _SHORT.get(letters if letters.isupper() else "", "") + code[len(letters) :]
        )
        tensors[name] = _tensor(dtype, entry["shape"], bytes(body[begin:end]), here)
        spans.append((begin, end))
    edges = [x for span in sorted(spans) for x in span]
    if edges[0:1] not in ([], [0]) or edges[1:-1:2] != edges[2::2] or (edges or [0])[-1] != len(body):
        raise Rejected(f"{what} has bytes that no tensor describes, or that two do")
    return Saved(tensors, metadata)


def _read_npz(data: bytes, what: str) -> Saved:
    """An archive that ends with its directory, of at most 1 MiB, and unpacks to at most the limit of a file."""
    if data[-22:-18] != b"PK\5\6" or data[-2:] != b"\0\0" or int.from_bytes(data[-10:-6], "little") > 1 << 20:
        raise Rejected(f"{what} is truncated, or its zip directory is too large")
    tensors: dict[str, Tensor] = {}
    left = MAX_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name == info.filename or name in tensors or info.compress_type not in (0, 8):
                    raise Rejected(f"{what}: {shown(info.filename)} is no array, occurs twice or is packed oddly")
                with archive.open(info) as member:
                    contents = member.read(left + 1)
                left -= len(contents)
                if left < 0:
                    raise Rejected(f"{what} unpacks to more than {MAX_BYTES} bytes, as a zip bomb does")
                tensors[name] = _read_npy(contents, f"the tensor {shown(name)} of {what}")
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError) as error:
        raise Rejected(f"{what} is a damaged zip archive: {shown(str(error))}") from None
    text = tensors.pop("__metadata__", None)
    metadata = parse_json(text.raw, f"the metadata of {what}") if text else {}
    if not isinstance(metadata, dict) or not all(isinstance(x, str) for x in metadata.values()):
        raise Rejected(f"{what} has metadata that is no object of strings")
    return Saved(tensors, metadata)


def _read_npy(data: bytes, what: str) -> Tensor:
    """Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html"""
    start = 10 if data[6:7] == b"\1" else 12
    length = int.from_bytes(data[8:start], "little")
    try:
        header = ast.literal_eval(data[start : start + length].decode("ascii").strip()) if length <= 1024 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        header = None
    if data[:6] != b"\x93NUMPY" or not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise Rejected(f"{what} is no .npy file of numbers")
    descr, fortran, raw = header["descr"], header["fortran_order"], data[start + length :]
    if not isinstance(descr, str) or re.fullmatch("[<>|](f[248]|[iu][1248]|b1)", descr) is None:
        raise Rejected(f"{what} has the type {shown(descr)}, not a plain number")
    itemsize = int(descr[2])
    dtype = "bool" if descr[1] == "b" else f"{_SHORT[descr[1]]}{8 * itemsize}"
    tensor = _tensor(dtype, header["shape"], raw, what)
    if fortran is not False and len(raw) // itemsize > 1 << 20:
        raise Beyond(f"{what} is in Fortran order and large")
    items = array(" BH I   Q"[itemsize], raw)
    if descr[0] == ">":
        items.byteswap()
    if fortran is not False:
        items = array(items.typecode, _c_order(items, [n for n in tensor.shape if n != 1]))
    return Tensor(tensor.dtype, tensor.shape, items.tobytes())


def _c_order(items: array[int], shape: list[int]) -> array[int]:
    """Elements in C order, of an array whose first axis runs fastest."""
    if len(shape) < 2:
        return items
    parts = (_c_order(items[i :: shape[0]], shape[1:]) for i in range(shape[0]))
    return array(items.typecode, b"".join(part.tobytes() for part in parts))


@dataclass(frozen=True)
class State:
    """One Poly-prox state: finite numbers, W zero outside the mask M, Sigma symmetric, N = 2**ceil(log2 p_max)."""

    p: int
    p_max: int
    N: int
    W: list[list[float]]
    Sigma: list[list[float]]
    M: list[list[int]]
    alpha: float
    rho: float
    gamma: float
    lam: float
    b: int


_PER_STATE = ("alpha", "rho", "gamma")


class States:
    """The states of a file; what the producer refuses is refused here, too."""

    def __init__(self, saved: Saved) -> None:
        tensors = self.tensors = saved.tensors
        known = {"W", "Sigma", "X", "M", *_PER_STATE, "lam", "b", "p_max"}
        if not set(tensors) <= known or set(tensors) & set(saved.metadata) or not {"W", "M"} <= set(tensors):
            raise Rejected("the state file lacks W or M, holds an unknown tensor, or gives a number twice")
        if "Sigma" not in tensors or "X" in tensors:
            raise Beyond("the state file gives data X, and the covariance that NumPy made of it is not recomputed")
        self.metadata, self.shape = saved.metadata, tensors["W"].shape
        p = self.p = self.shape[-1] if self.shape else 0
        self.count = self.shape[0] if len(self.shape) == 3 else 1
        if self.shape not in ((p, p), (self.count, p, p)) or p == 0 or self.count == 0:
            raise Rejected("W is not a square matrix, nor a trajectory of them")
        if tensors["Sigma"].shape != (p, p) or tensors["M"].shape != (p, p):
            raise Rejected("Sigma or M does not have the shape of W")
        p_max = self.control("p_max", 0)
        self.p_max = int(p_max)
        if self.p_max != p_max:
            raise Rejected("p_max is not an integer")
        if self.p_max > 512:
            raise Beyond(f"p_max = {self.p_max} is more than a checker expands")

    def control(self, name: str, k: int) -> float:
        """A control of state k: a string of the metadata, a scalar, or one number a state."""
        tensor, text = self.tensors.get(name), self.metadata.get(name)
        if tensor is not None:
            if tensor.shape == (self.count,) and len(self.shape) == 3 and name in _PER_STATE:
                return _binary64(tensor.values(k, 1))[0]
            if tensor.shape == ():
                return _binary64(tensor.values())[0]
        if tensor is None and text is not None and text.isascii() and "_" not in text:
            try:
                value = float.fromhex(text) if "0x" in text.lower() else float(text)
            except (ValueError, OverflowError):
                value = math.nan
            if math.isfinite(value):
                return value
        raise Rejected(f"the state file gives no usable {name}")

    def state(self, k: Any) -> State:
        """State k."""
        k, p = integer(k, 0, self.count - 1, "the state"), self.p
        W, Sigma, M = (
            [_binary64(self.tensors[name].values(start + i * p, p)) for i in range(p)]
            for name, start in (("W", k * p * p), ("Sigma", 0), ("M", 0))
        )
        alpha, rho, gamma, lam, b = (self.control(name, k) for name in (*_PER_STATE, "lam", "b"))
        if not all(x in (0, 1) for row in M for x in row) or any(M[i][i] for i in range(p)):
            raise Rejected("M is not a mask of 0 and 1 with a zero diagonal")
        if any(w != 0 and m == 0 for row, allowed in zip(W, M, strict=True) for w, m in zip(row, allowed, strict=True)):
            raise Rejected("W has an entry that M forbids")
        if Sigma != [list(column) for column in zip(*Sigma, strict=True)]:
            raise Rejected("Sigma is not symmetric")
        if rho < 0 or gamma <= 0 or lam < 0 or b not in (0, 1) or not p <= self.p_max:
            raise Rejected("a control of the state is out of its range")
        mask = [[int(x) for x in row] for row in M]
        return State(p, self.p_max, 1 << (self.p_max - 1).bit_length(), W, Sigma, mask, alpha, rho, gamma, lam, int(b))

    def require_subject(self, subject: Mapping[str, Any]) -> None:
        """The subject of a report names exactly these states, by sizes, digests and controls."""
        arrays = {name: tensor.digest() for name, tensor in self.tensors.items() if tensor.shape}
        numbers = {name: self.control(name, 0) for name in (*_PER_STATE, "lam", "b") if name not in arrays}
        sizes = {"p": self.p, "p_max": self.p_max} | ({"states": self.count} if self.count > 1 else {})
        if set(subject) != {"case", "tensors", "controls", *sizes} or any(type(subject[x]) is not int for x in sizes):
            raise Rejected("the subject of the report does not say which state it is about")
        if any(subject[name] != size for name, size in sizes.items()) or subject["tensors"] != arrays:
            raise Rejected("the sizes or digests of the subject are not those of the state file")
        controls = subject["controls"]
        if not isinstance(controls, dict) or {name: binary64(x) for name, x in controls.items()} != numbers:
            raise Rejected("the controls of the subject are not those of the state file")


def _binary64(values: list[Any]) -> list[float]:
    """Stored numbers as floats; integers beyond 2**53 that would round are refused."""
    floats = [float(x) for x in values]
    if floats != values:
        raise Rejected("the state file holds an integer that binary64 cannot")
    return floats
