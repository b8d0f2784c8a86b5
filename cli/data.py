"""Data files: one row a sample, one column a variable, and nothing in them guessed or dropped."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import numpy as np
from certify.cli.streams import DASH, read_input
from numpy.typing import NDArray

from certify.errors import InputRejected, MissingExtra
from certify.states import load, load_stream, quoted
from certify.states.tensors import MAX_BYTES

Matrix = NDArray[np.float64]

#: The covariance squares the data and sums: below this it stays far from overflow in binary64.
LARGEST = 1e100
_NUMBERS = "give numbers only, or drop the column"
_ZIP, _PARQUET = b"PK\x03\x04", b"PAR1"


def read_data(path: str) -> tuple[Matrix, tuple[str, ...]]:
    """The data matrix (m, p) of a file and the names of its columns; - is standard input.

    Raises
    ------
    InputRejected : no such file, not data, a cell that is no finite number, fewer than two rows or columns.
    MissingExtra : a parquet file, and pyarrow is not installed.
    """
    name = "standard input" if path == DASH else path
    head, data = _contents(path, name)
    if head.startswith(_PARQUET):
        X, names = _from_parquet(data if data is not None else path, name)
    elif head.startswith(_ZIP) or path.lower().endswith((".npz", ".safetensors")):
        X, names = _from_tensors(path, data, name)
    else:
        X, names = _from_csv(path, data, name)
    if X.shape[1] < 2:
        raise InputRejected(
            f"{quoted(name)} has {X.shape[1]} column", "give at least two variables, separated by commas in a csv file"
        )
    if X.shape[0] < 2:
        raise InputRejected(
            f"{quoted(name)} has {X.shape[0]} row{'s'[X.shape[0] :]} of data", "give at least two samples"
        )
    finite = np.isfinite(X)
    if not finite.all():
        i, j = np.argwhere(~finite)[0]
        raise InputRejected(
            f"{quoted(name)}: row {i + 1} of the data holds {X[i, j]} in column {quoted(names[j])}",
            "drop or impute that sample",
        )
    return X, names


def prepared(X: Matrix, names: Sequence[str], *, logarithms: bool, standardize: bool) -> Matrix:
    """The data after logarithms and scaling to variance 1, as asked for; (m, p).

    Raises
    ------
    InputRejected : no logarithm of an entry, a constant column to scale, or numbers too large to square.
    """
    if logarithms:
        if (X <= 0).any():
            i, j = np.argwhere(X <= 0)[0]
            raise InputRejected(
                f"row {i + 1} of the data holds {X[i, j]:g} in column {quoted(names[j])}, which has no logarithm",
                "drop that sample or column, or leave out --log",
            )
        X = np.log(X)
    if np.abs(X).max() > LARGEST:
        i, j = np.argwhere(np.abs(X) > LARGEST)[0]
        raise InputRejected(
            f"row {i + 1} of the data holds {X[i, j]:g} in column {quoted(names[j])}, too large to square",
            "use a larger unit for that column",
        )
    if standardize:
        constant = (X[0] == X).all(axis=0)
        if constant.any():
            raise InputRejected(
                f"the column {quoted(names[int(np.argmax(constant))])} is constant",
                "drop it, or leave out --standardize",
            )
        X = X - X.mean(axis=0)
        deviation = X.std(axis=0)
        if not (deviation > 0).all():
            raise InputRejected(
                f"the column {quoted(names[int(np.argmin(deviation))])} varies too little to be scaled", "drop it"
            )
        X = X / deviation
    return X


def _contents(path: str, name: str) -> tuple[bytes, bytes | None]:
    """The first bytes of a file, and all of them if they come from standard input."""
    if path == DASH:
        data = read_input(MAX_BYTES)
        if len(data) > MAX_BYTES:
            raise InputRejected(f"standard input holds more than {MAX_BYTES} bytes", "use fewer samples")
        return data[:8], data
    try:
        if os.path.isdir(path):
            raise InputRejected(f"{quoted(name)} is a directory", "name a csv, npz or parquet file")
        with open(path, "rb") as stream:
            return stream.read(8), None
    except FileNotFoundError as error:
        raise InputRejected(f"there is no file {quoted(name)}", "check the path") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputRejected(f"cannot read {quoted(name)}: {reason}", "check the path and its permissions") from error
    except ValueError as error:  # a null character in the path
        raise InputRejected(f"{quoted(name)} is not a possible file name", "check the path") from error


def _from_tensors(path: str, data: bytes | None, name: str) -> tuple[Matrix, tuple[str, ...]]:
    saved = load(path) if data is None else load_stream(io.BytesIO(data), name)
    if "X" not in saved.tensors:
        held = ", ".join(quoted(tensor) for tensor in list(saved.tensors)[:5])
        raise InputRejected(f"{quoted(name)} holds no array 'X', only {held}", "save the data as X, one row a sample")
    X = saved.tensors["X"]
    if X.ndim != 2:
        raise InputRejected(f"{quoted(name)}: X has shape {X.shape}", "save the data as (m, p), one row a sample")
    return X.astype(np.float64), _numbered(X.shape[1])


def _from_parquet(source: Any, name: str) -> tuple[Matrix, tuple[str, ...]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra(
            f"{quoted(name)} is a parquet file, and pyarrow is not installed", "pip install 'certify[parquet]'"
        ) from error
    try:
        table = pq.read_table(source if isinstance(source, str) else pa.BufferReader(source))
    except (pa.ArrowException, OSError) as error:
        raise InputRejected(f"{quoted(name)} is not a readable parquet file", "save it again") from error
    names = tuple(str(column) for column in table.column_names)
    _require_names(names, name)
    columns = []
    for column, values in zip(names, table.columns, strict=True):
        kind = values.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise InputRejected(f"{quoted(name)}: the column {quoted(column)} is of type {kind}", _NUMBERS)
        if values.null_count:
            row = values.is_null().to_pylist().index(True) + 1
            raise InputRejected(
                f"{quoted(name)}: row {row} has no value in column {quoted(column)}", "drop or impute that sample"
            )
        columns.append(np.asarray(values.to_numpy(), dtype=np.float64))
    return np.stack(columns, axis=1) if columns else np.empty((0, 0)), names


def _from_csv(path: str, data: bytes | None, name: str) -> tuple[Matrix, tuple[str, ...]]:
    # utf-8-sig drops the mark that spreadsheets put first, which would otherwise stick to the first name
    options: dict[str, Any] = {"encoding": "utf-8-sig", "newline": ""}
    try:
        with open(path, **options) if data is None else io.TextIOWrapper(io.BytesIO(data), **options) as stream:
            return _parsed(stream, name)
    except UnicodeDecodeError as error:
        raise InputRejected(
            f"{quoted(name)} is not text in UTF-8, nor an npz or parquet file", "save it as csv in UTF-8"
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputRejected(f"cannot read {quoted(name)}: {reason}", "check the path and its permissions") from error


def _parsed(stream: TextIO, name: str) -> tuple[Matrix, tuple[str, ...]]:
    lines = _lines(stream, name)
    number, first = next(lines, (0, []))
    if not first:
        raise InputRejected(f"{quoted(name)} is empty", "give a row for each sample")
    # A row of names holds no number at all: a row with some is data with a fault in it.
    headed = not any(_is_number(cell) for cell in first)
    names = tuple(cell.strip() for cell in first) if headed else _numbered(len(first))
    if headed:
        _require_names(names, name)
    values = [] if headed else [_numbers(first, number, names, name)]
    for number, cells in lines:
        if len(cells) != len(first):
            raise InputRejected(
                f"{quoted(name)}: row {number} has {len(cells)} cells, and the first row has {len(first)}",
                "give every row the same columns",
            )
        values.append(_numbers(cells, number, names, name))
    return np.array(values, dtype=np.float64).reshape(len(values), len(first)), names


def _lines(stream: TextIO, name: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its line in the file."""
    reader = csv.reader(stream, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputRejected(
            f"{quoted(name)}: line {reader.line_num}: {error}", "save it as a plain csv file"
        ) from error


def _numbers(cells: list[str], number: int, names: Sequence[str], name: str) -> list[float]:
    try:
        values = list(map(float, cells))
    except ValueError:
        values = []
    # float() takes 1_000 for a thousand; in a data file it is more likely a fault
    if not values or any("_" in cell for cell in cells):
        j = next(j for j, cell in enumerate(cells) if not _is_number(cell))
        what = f"{quoted(cells[j])}, which is not a number" if cells[j].strip() else "no value"
        raise InputRejected(f"{quoted(name)}: row {number} holds {what}, in column {_column(j, names)}", _NUMBERS)
    for j, value in enumerate(values):
        if value - value != 0:  # NaN or infinite
            raise InputRejected(
                f"{quoted(name)}: row {number} holds {value} in column {_column(j, names)}",
                "drop or impute that sample",
            )
    return values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _column(j: int, names: Sequence[str]) -> str:
    return quoted(names[j])


def _numbered(p: int) -> tuple[str, ...]:
    return tuple(str(j + 1) for j in range(p))


def _require_names(names: Sequence[str], name: str) -> None:
    for j, column in enumerate(names):
        if not column:
            raise InputRejected(
                f"{quoted(name)}: column {j + 1} has no name", "name it, or drop it if it only numbers the rows"
            )
        if column in names[:j]:
            raise InputRejected(f"{quoted(name)}: two columns are named {quoted(column)}", "rename one of them")
