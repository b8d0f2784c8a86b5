"""Reads .safetensors and .npz files and makes states of them; nothing is unpickled, no size is believed."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from array import array
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, prod
from struct import calcsize, unpack_from
from typing import Any

from flint import fmpz_mat

from certify.checker.document import MAX_BYTES, Beyond, Rejected, binary64, integer, parse_json, require_shape, shown

_CODES = {"bool": "?", "float16": "e", "float32": "f", "float64": "d"}  # NumPy's names, and codes of struct
_CODES |= {f"{sign}int{8 << k}": code for sign, codes in (("", "bhiq"), ("u", "BHIQ")) for k, code in enumerate(codes)}
_TYPES = {f"{n[0].upper()}{8 * calcsize(c)}": n for n, c in _CODES.items()} | {"BOOL": "bool"}  # in safetensors: F64
_TYPES |= {f"{n[0]}{calcsize(c)}": n for n, c in _CODES.items()}  # in .npy: f8
_NPY = re.compile(
    b"\x93NUMPY\1\0.."
    rb"\{'descr': '(.)([fiub][1248])', 'fortran_order': (False|True), 'shape': \(([0-9, ]*)\),? ?\} {0,64}\n?",
    re.DOTALL,
)
MOST_ROWS, MOST_DATA = 8 << 20, 500_000  # bytes of a witness file, numbers of data
_PER_STATE = ("alpha", "rho", "gamma")
CONTROLS = (*_PER_STATE, "lam", "b")


@dataclass(frozen=True)
class Tensor:
    """A tensor's contents: little-endian bytes in C order; the element type as NumPy names it."""

    dtype: str
    shape: tuple[int, ...]
    raw: bytes

    def values(self, start: int = 0, count: int | None = None) -> list[float]:
        """Elements in C order, as the floats that they are."""
        code, count = _CODES[self.dtype], prod(self.shape) if count is None else count
        found = unpack_from(f"<{count}{code}", self.raw, start * calcsize(code))
        floats = [float(x) for x in found]
        if not all(map(isfinite, floats)) or floats != list(found) or (code == "?" and self.raw.strip(b"\0\1")):
            raise Rejected("a file holds a number that is not finite or not in binary64, or a bool other than 0 and 1")
        return floats

    def integers(self) -> list[int]:
        """Elements of an integer type in C order."""
        return list(unpack_from(f"<{prod(self.shape)}{_CODES[self.dtype]}", self.raw))

    def digest(self) -> dict[str, Any]:
        """How a report names these contents."""
        return {"sha256": hashlib.sha256(self.raw).hexdigest(), "dtype": self.dtype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Saved:
    """Tensors and strings by name."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]

    def of(self, subject: Any) -> Saved:
        """What a report is about: the arrays that its subject names, and of a state its scalars; the rest is not read."""
        rules = {"case": str, "tensors": dict}
        require_shape({key: subject.get(key) for key in rules}, rules, "the subject of the report")
        names, scalars = subject["tensors"], (*CONTROLS, "p_max") if subject["case"] == "polyprox" else ()
        kept = {k: x for k, x in self.tensors.items() if k in names or (k in scalars and not x.shape)}
        return Saved(kept, self.metadata)


def read(data: bytes, what: str) -> Saved:
    """The contents of a file."""
    if len(data) > MAX_BYTES:
        raise Beyond(f"{what} has more than {MAX_BYTES} bytes")
    found, metadata = (_from_npz if data[:4] == b"PK\3\4" else _from_safetensors)(data, what)
    if not isinstance(metadata, dict) or not all(isinstance(x, str) for x in metadata.values()):
        raise Rejected(f"the metadata of {what} are no strings by name")
    tensors = {}
    for name, (kind, shape, raw) in found.items():
        sizes = tuple(integer(n, 0, 1 << 40, f"a length in {what}") for n in shape)
        if kind not in _TYPES or len(sizes) > 32 or prod(sizes) * calcsize(_CODES[_TYPES[kind]]) != len(raw):
            raise Rejected(f"{what}: the type {shown(kind)}, shape and bytes of {shown(name)} do not fit together")
        tensors[name] = Tensor(_TYPES[kind], sizes, raw)
    return Saved(tensors, metadata)


def rows_of(data: bytes, what: str) -> dict[str, Any]:
    """The arrays of a witness file as lists of number strings; inputs/NAME is NAME in the object inputs."""
    if len(data) > MOST_ROWS:
        raise Beyond(f"{what} has more than {MOST_ROWS} bytes")
    tensors = read(data, what).tensors
    if any(tensor.dtype != "float64" or len(tensor.shape) != 1 for tensor in tensors.values()):
        raise Rejected(f"{what} holds something else than rows of float64 numbers")
    rows = {name: [x.hex() for x in tensor.values()] for name, tensor in tensors.items()}
    inputs = {name[7:]: row for name, row in rows.items() if name.startswith("inputs/")}
    found: dict[str, Any] = {"inputs": inputs} if inputs else {}
    return found | {name: row for name, row in rows.items() if not name.startswith("inputs/")}


def _from_safetensors(data: bytes, what: str) -> tuple[dict[str, Any], Any]:
    start = 8 + int.from_bytes(data[:8], "little")
    header = parse_json(data[8:start], f"the header of {what}") if 8 < start <= len(data) else None
    if not isinstance(header, dict):
        raise Rejected(f"{what} is neither a safetensors file nor an npz archive, or is truncated")
    metadata, found, covered = header.pop("__metadata__", {}), {}, 0
    for name, entry in header.items():
        require_shape(entry, {"dtype": str, "shape": list, "data_offsets": list}, f"the tensor {shown(name)} of {what}")
        begin, end = ([integer(x, 0, len(data), "an offset") for x in entry["data_offsets"]] + [0, 0])[:2]
        kind, raw, covered = entry["dtype"], data[start + begin : start + end], covered + end - begin
        if kind == "BF16":  # the upper half of a binary32 number
            kind, raw = "F32", b"".join(b"\0\0" + raw[k : k + 2] for k in range(0, len(raw), 2))
        found[name] = kind, entry["shape"], raw
    if covered != len(data) - start:
        raise Rejected(f"{what} has bytes that no tensor describes, or that two do")
    return found, metadata


def _from_npz(data: bytes, what: str) -> tuple[dict[str, Any], Any]:
    """An archive that ends with its directory, of at most 1 MiB, and unpacks to at most the limit of a file."""
    if data[-22:-18] != b"PK\5\6" or data[-2:] != b"\0\0" or int.from_bytes(data[-10:-6], "little") > 1 << 20:
        raise Rejected(f"{what} is truncated, or its zip directory is too large")
    found: dict[str, Any] = {}
    left = MAX_BYTES
    try:
        for info in (archive := zipfile.ZipFile(io.BytesIO(data))).infolist():
            name = info.filename.removesuffix(".npy")
            contents = archive.open(info).read(left + 1) if info.compress_type in (0, 8) else b""
            left -= len(contents)
            if left < 0:
                raise Rejected(f"{what} unpacks to more than {MAX_BYTES} bytes, as a zip bomb does")
            start = 10 + int.from_bytes(contents[8:10], "little")
            header = _NPY.fullmatch(contents[:start])
            if header is None or name == info.filename or name in found:
                raise Rejected(f"{what}: {shown(info.filename)} is no array of numbers in a .npy file, or occurs twice")
            kind, shape, raw = header[2].decode(), [*map(int, re.findall(rb"[0-9]+", header[4]))], contents[start:]
            raw = _swapped(raw, int(kind[1])) if header[1] == b">" else raw
            if header[3] == b"True" and len(shape) < 33 and prod(shape) * int(kind[1]) == len(raw):
                if prod(shape[:-1]) > 1 << 18:
                    raise Beyond(
                        f"{what} is in Fortran order, of many rows: save it again with numpy.ascontiguousarray"
                    )
                raw = _in_c_order(raw, int(kind[1]), shape)
            found[name] = kind, shape, raw
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError) as error:
        raise Rejected(f"{what} is a damaged zip archive: {shown(str(error))}") from None
    text = found.pop("__metadata__", None)
    return found, parse_json(text[2], f"the metadata of {what}") if text else {}


def _swapped(raw: bytes, size: int) -> bytes:
    """Little-endian elements from big-endian ones."""
    turned = bytearray(raw)
    for k in range(size):
        turned[k::size] = raw[size - 1 - k :: size]
    return bytes(turned)


def _in_c_order(raw: bytes, size: int, shape: list[int]) -> bytes:
    """The elements of an array in Fortran order, whose first index runs fastest."""
    if len(shape) < 2 or not raw:
        return raw
    items = array({1: "B", 2: "H", 4: "I", 8: "Q"}[size], raw)
    return b"".join(_in_c_order(items[i :: shape[0]].tobytes(), size, shape[1:]) for i in range(shape[0]))


def covariance(X: Tensor) -> list[list[float]]:
    """Of the columns of X (m, p), over m: the exact numbers, each rounded once."""
    m, p = X.shape
    if m * p > MOST_DATA:
        raise Beyond(f"X has more than the {MOST_DATA} numbers of which this checker makes a covariance")
    ratios = [x.as_integer_ratio() for x in X.values()]
    scale = max(d for _, d in ratios)
    widest = max(n.bit_length() - d.bit_length() for n, d in ratios) + scale.bit_length()
    if widest * m * p > 1 << 28:
        raise Beyond("the numbers of X are too far apart for this checker to make a covariance of them")
    A = fmpz_mat(m, p, [n * (scale // d) for n, d in ratios])
    sums, G = fmpz_mat(1, m, [1] * m) * A, A.transpose() * A
    try:
        return [[int(m * G[i, j] - sums[0, i] * sums[0, j]) / (m * scale) ** 2 for j in range(p)] for i in range(p)]
    except OverflowError:
        raise Rejected("the covariance of X is too large for binary64") from None


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


class States:
    """The states of a file: one, or a trajectory with a leading axis of W and perhaps of alpha, rho and gamma."""

    def __init__(self, saved: Saved) -> None:
        tensors, self.metadata = saved.tensors, saved.metadata
        self.tensors, known = tensors, {"W", "Sigma", "X", "M", *CONTROLS, "p_max"}
        if not {"W", "M"} <= set(tensors) <= known or set(tensors) & set(self.metadata):
            raise Rejected("the state file lacks W or M, holds an unknown tensor, or gives a number twice")
        if ("Sigma" in tensors) == ("X" in tensors):
            raise Rejected("the state file does not give one of Sigma and X")
        *leading, self.p = tensors["W"].shape[-3:-2] + tensors["W"].shape[-1:] or (0,)
        self.trajectory, self.count = bool(leading), prod(leading)
        square = (self.p, self.p)
        data = tensors.get("X")
        second = tensors["Sigma"].shape if data is None else data.shape[1:] * 2 if 0 not in data.shape else ()
        if tensors["W"].shape != (*leading, *square) or {second, tensors["M"].shape} != {square}:
            raise Rejected("W, Sigma or M is not a square matrix (W: or a row of them), or they or X differ in size")
        self.p_max = int(self.control("p_max"))
        if not 0 < self.p <= self.p_max == self.control("p_max") or self.count == 0:
            raise Rejected("there is no state, no variable, or p_max is not an integer of at least p")
        if self.p_max > 512:
            raise Beyond(f"p_max = {self.p_max} is more than a checker expands")

    @cached_property
    def of_data(self) -> list[list[float]]:
        """Sigma where the file gives X."""
        return covariance(self.tensors["X"])

    def control(self, name: str, k: int = 0) -> float:
        """A control of state k: a string of the metadata, a scalar, or one number a state."""
        tensor, text = self.tensors.get(name), self.metadata.get(name, "")
        if tensor and (tensor.shape == () or (tensor.shape, self.trajectory) == ((self.count,), name in _PER_STATE)):
            return tensor.values(k if tensor.shape else 0, 1)[0]
        try:
            value = float.fromhex(text) if "0x" in text.lower() else float(text)
        except (ValueError, OverflowError):
            value = inf
        if not tensor and abs(value) < inf and text.isascii() and "_" not in text:
            return value
        raise Rejected(f"the state file gives no usable {name}")

    def state(self, k: Any) -> State:
        """State k."""
        k, p = integer(k, 0, self.count - 1, "the state"), self.p
        W, Sigma, M = (
            [self.tensors[name].values(start + i * p, p) for i in range(p)] if name in self.tensors else self.of_data
            for name, start in (("W", k * p * p), ("Sigma", 0), ("M", 0))
        )
        alpha, rho, gamma, lam, b = (self.control(name, k) for name in CONTROLS)
        square = [(i, j) for i in range(p) for j in range(p)]
        if any(M[i][j] not in (0, i != j) or (W[i][j] and not M[i][j]) for i, j in square):
            raise Rejected("M is not a mask of 0 and 1 with a zero diagonal, or W has an entry that it forbids")
        if any(Sigma[i][j] != Sigma[j][i] for i, j in square):
            raise Rejected("Sigma is not symmetric")
        if rho < 0 or gamma <= 0 or lam < 0 or b not in (0, 1):
            raise Rejected("a control of the state is out of its range")
        mask, N = [[int(x) for x in row] for row in M], 1 << (self.p_max - 1).bit_length()
        return State(p, self.p_max, N, W, Sigma, mask, alpha, rho, gamma, lam, int(b))

    def require_subject(self, subject: dict[str, Any]) -> None:
        """The subject of a report names exactly these states, by sizes, digests and controls."""
        arrays = {name: tensor.digest() for name, tensor in self.tensors.items() if tensor.shape}
        numbers = {name: self.control(name) for name in CONTROLS if name not in arrays}
        rules = {"case": str, "p": int, "p_max": int, "tensors": dict, "controls": dict}
        require_shape(subject, rules | ({"states": int} if self.count > 1 else {}), "the subject of the report")
        controls = {name: binary64(x) for name, x in subject["controls"].items()}
        sizes = (subject["p"], subject["p_max"], subject.get("states", 1))
        if sizes != (self.p, self.p_max, self.count) or controls != numbers or subject["tensors"] != arrays:
            raise Rejected("the sizes, digests or controls of the subject are not those of the state file")
