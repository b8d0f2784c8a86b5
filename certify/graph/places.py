"""Where a node comes from: the layer that the kernel names, and the register and source line that compute it."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from traceback import walk_tb

import numpy as np

_layer: ContextVar[str] = ContextVar("layer", default="")


@contextmanager
def layer(name: str) -> Iterator[None]:
    """Name the layer of a network that the enclosed lines of a kernel compute.

    Outside tracing this does nothing, so a kernel that names its layers runs on plain NumPy arrays unchanged.
    """
    token = _layer.set(name)
    try:
        yield
    finally:
        _layer.reset(token)


@dataclass(frozen=True)
class Place:
    """A line of a kernel, with the layer it was in when traced (empty if the kernel names none)."""

    layer: str
    filename: str
    line: int

    @property
    def register(self) -> str:
        """The variable that the line assigns to, or the empty string (no source, or no single name)."""
        return _assigned(self.filename).get(self.line, "")

    def __str__(self) -> str:
        parts = [
            f"register {self.register}" if self.register else "",
            f"layer {self.layer}" if self.layer else "",
        ]
        where = f"{PurePath(self.filename).name}:{self.line}"
        named = ", ".join(part for part in parts if part)
        return f"{named} ({where})" if named else where


def here() -> Place:
    """The line of user code that is running: the innermost frame outside NumPy and this package's tracing and casts."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return Place(_layer.get(), frame.f_code.co_filename, frame.f_lineno)


def place_of_error(error: BaseException) -> str:
    """The line of user code that an exception comes from."""
    called = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    users = [Place("", *place) for place in called if not _is_machinery(place[0])]
    return str(users[-1]) if users else "an unknown line"


@lru_cache(maxsize=1024)
def _is_machinery(filename: str) -> bool:
    folders = (Path(__file__).parent, Path(__file__).parents[1] / "arithmetic", Path(np.__file__).parent)
    return any(folder in Path(filename).parents for folder in folders)


@lru_cache(maxsize=64)
def _assigned(filename: str) -> dict[int, str]:
    """For each line of a file, the name assigned by the innermost statement on it, if that is a single name."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return {}
    names: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            target = node.target
        else:
            continue
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name) and node.end_lineno is not None:
            names.update(dict.fromkeys(range(node.lineno, node.end_lineno + 1), target.id))
    return names
